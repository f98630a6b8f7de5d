"""Audits: does a mechanism keep its promise? Nothing but the command line and the documentation imports this package.

``discreet.audit(...)`` puts a target, a published mechanism or a privatizer on trial.
"""

from __future__ import annotations

from discreet.base.packages import make_callable

make_callable(__name__, "discreet.audit.audit:audit")

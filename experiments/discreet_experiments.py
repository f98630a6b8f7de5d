"""What ``discreet reproduce`` finds by an entry point that only the set-up of this repository installs.

The folder is loaded from where this file lies, and never by its name alone: where a user stands, something else may be
called ``experiments``.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

if "experiments" not in sys.modules:
    _spec = spec_from_file_location("experiments", Path(__file__).resolve().with_name("__init__.py"))
    assert _spec is not None
    sys.modules["experiments"] = module_from_spec(_spec)

from experiments.papers.command import reproduce as reproduce

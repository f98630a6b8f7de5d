"""Learners: pure functions of a state that is fed by releases. One file per family, under the papers' names.

``register(name, make)`` gives a name to a learner of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.packages import lazily

if TYPE_CHECKING:
    from discreet.adversarial.learners import OREPS, UCOREPS, UOBLBPS, UOBREPS
    from discreet.elimination.learner import PolicyElimination
    from discreet.heavy_tails.learners import HeavyUCBPO, HeavyUCBVI
    from discreet.learners.local_optimistic import OBI
    from discreet.learners.optimistic import UCBVI
    from discreet.learners.pessimistic import APVI
    from discreet.learners.policy_optimisation import UCBPO
    from discreet.learners.posterior import PSRL
    from discreet.linear.learners import PEVI, VAPVI

_HOMES = {
    "APVI": "discreet.learners.pessimistic",
    "HeavyUCBPO": "discreet.heavy_tails.learners",
    "HeavyUCBVI": "discreet.heavy_tails.learners",
    "OBI": "discreet.learners.local_optimistic",
    "OREPS": "discreet.adversarial.learners",
    "PEVI": "discreet.linear.learners",
    "PSRL": "discreet.learners.posterior",
    "PolicyElimination": "discreet.elimination.learner",
    "UCBPO": "discreet.learners.policy_optimisation",
    "UCBVI": "discreet.learners.optimistic",
    "UCOREPS": "discreet.adversarial.learners",
    "UOBLBPS": "discreet.adversarial.learners",
    "UOBREPS": "discreet.adversarial.learners",
    "VAPVI": "discreet.linear.learners",
    "register": "discreet.learners.registry",
}

__all__ = [
    "APVI",
    "OBI",
    "OREPS",
    "PEVI",
    "PSRL",
    "UCBPO",
    "UCBVI",
    "UCOREPS",
    "UOBLBPS",
    "UOBREPS",
    "VAPVI",
    "HeavyUCBPO",
    "HeavyUCBVI",
    "PolicyElimination",
    "register",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)

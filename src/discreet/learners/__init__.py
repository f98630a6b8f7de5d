"""Learners: pure functions of a state that is fed by releases. One file per family, under the papers' names."""

from __future__ import annotations

from discreet.learners.adversarial import OREPS, UCOREPS, UOBLBPS, UOBREPS
from discreet.learners.elimination import PolicyElimination
from discreet.learners.heavy_tailed import HeavyUCBPO, HeavyUCBVI
from discreet.learners.local_optimistic import OBI
from discreet.learners.optimistic import UCBVI
from discreet.learners.pessimistic import APVI
from discreet.learners.policy_optimisation import UCBPO
from discreet.learners.posterior import PSRL

__all__ = [
    "APVI",
    "OBI",
    "OREPS",
    "PSRL",
    "UCBPO",
    "UCBVI",
    "UCOREPS",
    "UOBLBPS",
    "UOBREPS",
    "HeavyUCBPO",
    "HeavyUCBVI",
    "PolicyElimination",
]

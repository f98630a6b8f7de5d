"""Learners: pure functions of a state that is fed by releases. One file per family, under the papers' names.

Every learner of the registry is a name of this package, loaded when it is first used. ``register(name, make)`` gives a
name to a learner of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.learners.registry import LEARNERS
from discreet.packages import lazily

if TYPE_CHECKING:  # type checkers do not read registries
    from discreet.adversarial.learners import OREPS as OREPS
    from discreet.adversarial.learners import UCOREPS as UCOREPS
    from discreet.adversarial.learners import UOBLBPS as UOBLBPS
    from discreet.adversarial.learners import UOBREPS as UOBREPS
    from discreet.adversarial.perturbed_leader import PerturbedLeader as PerturbedLeader
    from discreet.elimination.learner import PolicyElimination as PolicyElimination
    from discreet.heavy_tails.learners import HeavyUCBPO as HeavyUCBPO
    from discreet.heavy_tails.learners import HeavyUCBVI as HeavyUCBVI
    from discreet.learners.local_optimistic import OBI as OBI
    from discreet.learners.optimistic import UCBVI as UCBVI
    from discreet.learners.pessimistic import APVI as APVI
    from discreet.learners.policy_optimisation import UCBPO as UCBPO
    from discreet.learners.posterior import PSRL as PSRL
    from discreet.learners.printed_optimism import DPUCBVI as DPUCBVI
    from discreet.learners.registry import register as register
    from discreet.linear.learners import PEVI as PEVI
    from discreet.linear.learners import VAPVI as VAPVI

_HOMES = {
    **LEARNERS.homes(),
    "register": "discreet.learners.registry",
}
__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)

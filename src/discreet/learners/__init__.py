"""Learners: pure functions of a state that is fed by releases. One file per family, under the papers' names.

Every learner of the registry is a name of this package, loaded when it is first used. ``register(name, make)`` gives a
name to a learner of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.base.packages import lazily
from discreet.learners.registry import LEARNERS

if TYPE_CHECKING:  # type checkers do not read registries
    from discreet.learners.apvi import APVI as APVI
    from discreet.learners.belief_ucbvi import BeliefUCBVI as BeliefUCBVI
    from discreet.learners.dp_ucbvi import DPUCBVI as DPUCBVI
    from discreet.learners.obi import OBI as OBI
    from discreet.learners.psrl import PSRL as PSRL
    from discreet.learners.registry import register as register
    from discreet.learners.ucbpo import UCBPO as UCBPO
    from discreet.learners.ucbvi import UCBVI as UCBVI
    from discreet.problems.adversarial.learners import OREPS as OREPS
    from discreet.problems.adversarial.learners import UCOREPS as UCOREPS
    from discreet.problems.adversarial.learners import UOBLBPS as UOBLBPS
    from discreet.problems.adversarial.learners import UOBREPS as UOBREPS
    from discreet.problems.adversarial.perturbed_leader import PerturbedLeader as PerturbedLeader
    from discreet.problems.elimination.learners import PolicyElimination as PolicyElimination
    from discreet.problems.heavy_tails.learners import HeavyUCBPO as HeavyUCBPO
    from discreet.problems.heavy_tails.learners import HeavyUCBVI as HeavyUCBVI
    from discreet.problems.linear.learners import PEVI as PEVI
    from discreet.problems.linear.learners import VAPVI as VAPVI

_HOMES = {
    **LEARNERS.homes(),
    "register": "discreet.learners.registry",
}
__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)

"""discreet: reinforcement learning under differential privacy, with guarantees that are computed and not claimed.

>>> import discreet
>>> world = discreet.worlds.river_swim(states=4, horizon=6)
>>> privacy = discreet.Central(epsilon=1.0, delta=1e-5)
>>> result = discreet.simulate(world, discreet.learners.UCBVI(), privacy, episodes=200, runs=2, seed=0)
>>> result.guarantee.model, round(result.guarantee.epsilon, 3)
('joint', 1.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.base.packages import lazily

if TYPE_CHECKING:
    from discreet import audit, data, learners, ledger, offline, recipes, worlds
    from discreet.base.errors import DiscreetError, EmptyTable, InvalidInput, MissingExtra, OverBudget, Unsupported
    from discreet.base.policies import Mixture, Policy, StochasticPolicy, load_policy
    from discreet.base.shape import Shape
    from discreet.privacy.guarantee import Guarantee
    from discreet.recipes.calibrate import calibrate
    from discreet.recipes.targets import Central, Local, NoPrivacy, Shuffle
    from discreet.simulation.comparison import Comparison, compare
    from discreet.simulation.rehearsal import rehearse
    from discreet.simulation.result import SimulationResult, load_result
    from discreet.simulation.simulate import simulate
    from discreet.tables.verify import verify

__version__ = "0.3.0"
# The release since which kept simulations are still good: runs of the papers' figures are found again by it. It moves
# when the same simulation gives another result, and not with every release.
RESULTS_SINCE = "0.1.0"

# Public names are imported when they are first used: `import discreet` and `discreet --help` stay instant.
_HOMES = {
    "audit": "discreet.audit",
    "calibrate": "discreet.recipes.calibrate",
    "compare": "discreet.simulation.comparison",
    "Comparison": "discreet.simulation.comparison",
    "DiscreetError": "discreet.base.errors",
    "EmptyTable": "discreet.base.errors",
    "InvalidInput": "discreet.base.errors",
    "MissingExtra": "discreet.base.errors",
    "OverBudget": "discreet.base.errors",
    "Unsupported": "discreet.base.errors",
    "Mixture": "discreet.base.policies",
    "Policy": "discreet.base.policies",
    "StochasticPolicy": "discreet.base.policies",
    "load_policy": "discreet.base.policies",
    "Guarantee": "discreet.privacy.guarantee",
    "data": "discreet.data",
    "learners": "discreet.learners",
    "ledger": "discreet.ledger",
    "offline": "discreet.offline",
    "recipes": "discreet.recipes",
    "worlds": "discreet.worlds",
    "Central": "discreet.recipes.targets",
    "Local": "discreet.recipes.targets",
    "NoPrivacy": "discreet.recipes.targets",
    "Shuffle": "discreet.recipes.targets",
    "Shape": "discreet.base.shape",
    "SimulationResult": "discreet.simulation.result",
    "load_result": "discreet.simulation.result",
    "rehearse": "discreet.simulation.rehearsal",
    "simulate": "discreet.simulation.simulate",
    "verify": "discreet.tables.verify",
}
__all__ = [
    "Central",
    "Comparison",
    "DiscreetError",
    "EmptyTable",
    "Guarantee",
    "InvalidInput",
    "Local",
    "MissingExtra",
    "Mixture",
    "NoPrivacy",
    "OverBudget",
    "Policy",
    "Shape",
    "Shuffle",
    "SimulationResult",
    "StochasticPolicy",
    "Unsupported",
    "audit",
    "calibrate",
    "compare",
    "data",
    "learners",
    "ledger",
    "load_policy",
    "load_result",
    "offline",
    "recipes",
    "rehearse",
    "simulate",
    "verify",
    "worlds",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)

"""discreet: reinforcement learning under differential privacy, with guarantees that are computed and not claimed.

>>> import discreet
>>> world = discreet.worlds.river_swim(states=4, horizon=6)
>>> privacy = discreet.Central(epsilon=1.0, delta=1e-5)
>>> result = discreet.simulate(world, discreet.learners.UCBVI(), privacy, episodes=200, runs=2, seed=0)
>>> result.guarantee.model, round(result.guarantee.epsilon, 3)
('joint', 1.0)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet import data, learners, offline, worlds
    from discreet.calibration import calibrate
    from discreet.errors import DiscreetError, InvalidInput, MissingExtra, Unsupported
    from discreet.policies import Mixture, Policy, StochasticPolicy, load_policy
    from discreet.privacy.guarantee import Guarantee
    from discreet.privatizers.audit import audit
    from discreet.privatizers.recipes import recipes
    from discreet.privatizers.trust import Central, Local, NoPrivacy, Shuffle
    from discreet.shape import Shape
    from discreet.simulation.result import SimulationResult, load_result
    from discreet.simulation.run import simulate

__version__ = "0.1.0"

# Public names are imported when they are first used: `import discreet` and `discreet --help` stay instant.
_HOMES = {
    "audit": "discreet.privatizers.audit",
    "calibrate": "discreet.calibration",
    "DiscreetError": "discreet.errors",
    "InvalidInput": "discreet.errors",
    "MissingExtra": "discreet.errors",
    "Unsupported": "discreet.errors",
    "Mixture": "discreet.policies",
    "Policy": "discreet.policies",
    "StochasticPolicy": "discreet.policies",
    "load_policy": "discreet.policies",
    "Guarantee": "discreet.privacy.guarantee",
    "recipes": "discreet.privatizers.recipes",
    "Central": "discreet.privatizers.trust",
    "Local": "discreet.privatizers.trust",
    "NoPrivacy": "discreet.privatizers.trust",
    "Shuffle": "discreet.privatizers.trust",
    "Shape": "discreet.shape",
    "SimulationResult": "discreet.simulation.result",
    "load_result": "discreet.simulation.result",
    "simulate": "discreet.simulation.run",
}
_MODULES = ("data", "learners", "offline", "worlds")

__all__ = [
    "Central",
    "DiscreetError",
    "Guarantee",
    "InvalidInput",
    "Local",
    "MissingExtra",
    "Mixture",
    "NoPrivacy",
    "Policy",
    "Shape",
    "Shuffle",
    "SimulationResult",
    "StochasticPolicy",
    "Unsupported",
    "audit",
    "calibrate",
    "data",
    "learners",
    "load_policy",
    "load_result",
    "offline",
    "recipes",
    "simulate",
    "worlds",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"discreet.{name}")
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

"""Worlds to learn in: decision problems that are known exactly and can be simulated.

Every world of the registry is a name of this package, loaded when it is first used. ``register(name, make)`` gives a
name to a world of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.base.packages import lazily
from discreet.worlds.registry import WORLDS

if TYPE_CHECKING:  # type checkers do not read registries
    from discreet.problems.adversarial.benchmark_worlds import changing_arms as changing_arms
    from discreet.problems.adversarial.benchmark_worlds import kinds as kinds
    from discreet.problems.adversarial.benchmark_worlds import long_layers as long_layers
    from discreet.problems.adversarial.benchmark_worlds import river_layers as river_layers
    from discreet.problems.adversarial.benchmark_worlds import wide_layers as wide_layers
    from discreet.problems.adversarial.world import LayeredWorld as LayeredWorld
    from discreet.problems.adversarial.world import layered as layered
    from discreet.problems.adversarial.world import unroll as unroll
    from discreet.problems.adversarial.world import with_adversary as with_adversary
    from discreet.problems.heavy_tails.world import hard_central as hard_central
    from discreet.problems.heavy_tails.world import hard_tree as hard_tree
    from discreet.problems.linear.world import benchmark_features as benchmark_features
    from discreet.problems.linear.world import linear_benchmark as linear_benchmark
    from discreet.worlds.catalogue import bandit as bandit
    from discreet.worlds.catalogue import from_arrays as from_arrays
    from discreet.worlds.catalogue import hard_local as hard_local
    from discreet.worlds.catalogue import hard_local_bound as hard_local_bound
    from discreet.worlds.catalogue import random_mdp as random_mdp
    from discreet.worlds.catalogue import river_swim as river_swim
    from discreet.worlds.classics import bernoulli_arms as bernoulli_arms
    from discreet.worlds.classics import chain as chain
    from discreet.worlds.classics import deep_sea as deep_sea
    from discreet.worlds.classics import random_layers as random_layers
    from discreet.worlds.family import World as World
    from discreet.worlds.family import WorldFamily as WorldFamily
    from discreet.worlds.imported import cliff_walking as cliff_walking
    from discreet.worlds.imported import from_gymnasium as from_gymnasium
    from discreet.worlds.imported import frozen_lake as frozen_lake
    from discreet.worlds.imported import taxi as taxi
    from discreet.worlds.operations_research import admission as admission
    from discreet.worlds.operations_research import forest as forest
    from discreet.worlds.operations_research import inventory as inventory
    from discreet.worlds.operations_research import machine_repair as machine_repair
    from discreet.worlds.registry import make_world as make_world
    from discreet.worlds.registry import register as register
    from discreet.worlds.tabular import TabularWorld as TabularWorld

_HOMES = {
    **WORLDS.homes(),
    "LayeredWorld": "discreet.problems.adversarial.world",
    "WORLDS": "discreet.worlds.registry",
    "TabularWorld": "discreet.worlds.tabular",
    "World": "discreet.worlds.family",
    "WorldFamily": "discreet.worlds.family",
    "benchmark_features": "discreet.problems.linear.world",
    "from_arrays": "discreet.worlds.catalogue",
    "from_gymnasium": "discreet.worlds.imported",
    "hard_local_bound": "discreet.worlds.catalogue",
    "make_world": "discreet.worlds.registry",
    "register": "discreet.worlds.registry",
    "unroll": "discreet.problems.adversarial.world",
    "with_adversary": "discreet.problems.adversarial.world",
}
__all__ = list(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)

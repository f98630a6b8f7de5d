"""Worlds to learn in: decision problems that are known exactly and can be simulated.

``register(name, make)`` gives a name to a world of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.packages import lazily

if TYPE_CHECKING:
    from discreet.adversarial.world import LayeredWorld, layered, unroll, with_adversary
    from discreet.heavy_tails.worlds import hard_central, hard_tree
    from discreet.linear.world import benchmark_features, linear_benchmark
    from discreet.worlds.catalogue import bandit, from_arrays, random_mdp, river_swim
    from discreet.worlds.family import World, WorldFamily
    from discreet.worlds.hard_local import hard_local, hard_local_bound
    from discreet.worlds.imported import cliff_walking, from_gymnasium, frozen_lake, taxi
    from discreet.worlds.registry import WORLDS, make_world, register
    from discreet.worlds.tabular import TabularWorld

_HOMES = {
    "LayeredWorld": "discreet.adversarial.world",
    "TabularWorld": "discreet.worlds.tabular",
    "WORLDS": "discreet.worlds.registry",
    "World": "discreet.worlds.family",
    "WorldFamily": "discreet.worlds.family",
    "bandit": "discreet.worlds.catalogue",
    "benchmark_features": "discreet.linear.world",
    "cliff_walking": "discreet.worlds.imported",
    "from_arrays": "discreet.worlds.catalogue",
    "from_gymnasium": "discreet.worlds.imported",
    "frozen_lake": "discreet.worlds.imported",
    "hard_central": "discreet.heavy_tails.worlds",
    "hard_local": "discreet.worlds.hard_local",
    "hard_local_bound": "discreet.worlds.hard_local",
    "hard_tree": "discreet.heavy_tails.worlds",
    "layered": "discreet.adversarial.world",
    "linear_benchmark": "discreet.linear.world",
    "make_world": "discreet.worlds.registry",
    "random_mdp": "discreet.worlds.catalogue",
    "register": "discreet.worlds.registry",
    "river_swim": "discreet.worlds.catalogue",
    "taxi": "discreet.worlds.imported",
    "unroll": "discreet.adversarial.world",
    "with_adversary": "discreet.adversarial.world",
}

__all__ = [
    "WORLDS",
    "LayeredWorld",
    "TabularWorld",
    "World",
    "WorldFamily",
    "bandit",
    "benchmark_features",
    "cliff_walking",
    "from_arrays",
    "from_gymnasium",
    "frozen_lake",
    "hard_central",
    "hard_local",
    "hard_local_bound",
    "hard_tree",
    "layered",
    "linear_benchmark",
    "make_world",
    "random_mdp",
    "register",
    "river_swim",
    "taxi",
    "unroll",
    "with_adversary",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)

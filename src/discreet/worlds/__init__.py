"""Worlds to learn in: decision problems that are known exactly and can be simulated."""

from discreet.worlds.catalogue import bandit, from_arrays, random_mdp, river_swim
from discreet.worlds.family import WorldFamily
from discreet.worlds.gym_bridge import cliff_walking, from_gymnasium, frozen_lake, taxi
from discreet.worlds.hard_central import hard_central
from discreet.worlds.hard_local import hard_local, hard_local_bound
from discreet.worlds.hard_tree import hard_tree
from discreet.worlds.layered import LayeredFamily, LayeredWorld, layered, unroll, with_adversary
from discreet.worlds.linear import benchmark_features, linear_benchmark
from discreet.worlds.registry import WORLDS, NamedWorld, make_world
from discreet.worlds.tabular import TabularWorld

__all__ = [
    "WORLDS",
    "LayeredFamily",
    "LayeredWorld",
    "NamedWorld",
    "TabularWorld",
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
    "river_swim",
    "taxi",
    "unroll",
    "with_adversary",
]

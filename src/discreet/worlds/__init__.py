"""Worlds to learn in: decision problems that are known exactly and can be simulated."""

from discreet.worlds.catalogue import bandit, from_arrays, random_mdp, river_swim
from discreet.worlds.family import WorldFamily
from discreet.worlds.tabular import TabularWorld

__all__ = ["TabularWorld", "WorldFamily", "bandit", "from_arrays", "random_mdp", "river_swim"]

"""The bandits that are reported, those that constants were tuned on, and what every cell has in common."""

from __future__ import annotations

import numpy as np

from discreet.base.types import Floats
from discreet.worlds import from_arrays
from discreet.worlds.tabular import TabularWorld

USERS, RUNS, DELTA = 20_000, 100, 1e-5
OURS_RUNS = {"central": 40, "shuffle": 40, "local": 100}
SEED, OURS_SEED, TUNING_SEED = 20_26, 20_28, 7  # fresh for what is reported
TUNING_RUNS = 40
EPSILONS = {
    "central": (0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
    "shuffle": (0.5, 1.0, 2.0, 4.0),
    "local": (0.5, 1.0, 2.0, 4.0),
}

BANDITS: dict[str, Floats] = {
    "5 arms": np.array([0.75, 0.625, 0.5, 0.375, 0.25]),  # of DP-SE's and AdaP's experiments
    "10 arms, one better": np.array([0.9] + [0.8] * 9),
    "20 arms, evenly spaced": np.linspace(0.9, 0.1, 20),
    "2 arms, gap .05": np.array([0.55, 0.5]),
    "50 random arms": np.random.default_rng(50).uniform(0.0, 1.0, 50),
}
TUNING: dict[str, Floats] = {
    "4 arms": np.array([0.6, 0.5, 0.45, 0.3]),
    "8 arms, one better": np.array([0.7] + [0.55] * 7),
    "15 random arms": np.random.default_rng(77).uniform(0.1, 0.9, 15),
    "2 arms, gap .1": np.array([0.5, 0.6]),
    "30 arms, evenly spaced": np.linspace(0.2, 0.8, 30),
}


def world_of(name: str, means: Floats) -> TabularWorld:
    """The same bandit as a world of the library: one state, one step."""
    return from_arrays(np.ones((1, len(means), 1)), means.reshape(1, -1), horizon=1, name=name)


def uniform_regret(means: Floats) -> float:
    """The regret per user of somebody who draws arms at random."""
    return float(means.max() - means.mean())

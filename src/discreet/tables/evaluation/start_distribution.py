"""Where episodes begin: a noisy histogram of first states, for tables that pool all steps and do not say it.

**Formal guarantees.** Every user is counted in one cell, or in none if her first row is missing: replacing her takes
one away from a cell and adds one to another. With discrete Laplace noise of scale 2 / epsilon this is epsilon private.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.base.types import Floats
from discreet.mechanisms.sums.accumulator import NoiseSource, noisy
from discreet.noise.laplace import DiscreteLaplace
from discreet.privacy.sensitivity import Sensitivity
from discreet.tables.evaluation.private_mean import Part
from discreet.tables.read.user_subsets import Paths


class FirstStates(NamedTuple):
    """Noisy shares of users who begin in each state, and the release."""

    shares: Floats
    parts: tuple[Part, ...]


def first_states(paths: Paths, states: int, epsilon: float, noise: NoiseSource) -> FirstStates:
    """Release how many users begin in each state."""
    counts = encode(paths, states).astype(np.float64)
    if math.isinf(epsilon):
        return FirstStates(counts / paths.users, ())
    law = DiscreteLaplace(2 / epsilon)
    counts = noisy(counts, law, 1, noise)
    part = Part("first states", states, Sensitivity.unit_shifts(1, 1), law)
    return FirstStates(counts / paths.users, (part,))


def encode(paths: Paths, states: int) -> np.ndarray:
    """How many users begin in each state: raw data."""
    return np.bincount(paths.state[paths.step == 0], minlength=states)

"""Uniformity and independence of the simulation's random numbers.

Chi-square statistics are compared with their quantile at 1 - 1e-6, so the false-alarm rate of the file is below 1e-5;
seeds are fixed. Twins: a slightly bent uniform law, and a stream compared with itself one step later.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from discreet.base.streams import COINS, NOISE, USERS, below, categorical, stream, uniform

pytestmark = pytest.mark.slow

DRAWS = 40_000
FALSE_ALARM = 1e-6


def rejected(counts: np.ndarray, probabilities: np.ndarray) -> bool:
    expected = counts.sum() * probabilities
    return bool(((counts - expected) ** 2 / expected).sum() > stats.chi2.isf(FALSE_ALARM, counts.size - 1))


def draws(run: int, purpose: int = NOISE, count: int = DRAWS) -> np.ndarray:
    state = stream(1, run, purpose)
    return np.array([uniform(state) for _ in range(count)])


def test_uniform_numbers_are_uniform_and_bent_ones_are_caught():
    u = draws(0)
    even = np.full(100, 0.01)
    assert not rejected(np.histogram(u, 100, (0, 1))[0], even)
    assert rejected(np.histogram(u**1.1, 100, (0, 1))[0], even)


def test_streams_of_two_runs_and_of_two_purposes_are_independent():
    first = draws(0)
    for other in (draws(1), draws(0, USERS)):
        pairs = np.histogram2d(first, other, 10, ((0, 1), (0, 1)))[0].ravel()
        assert not rejected(pairs, np.full(100, 0.01))
    shifted = np.histogram2d(first[1:], first[1:], 10, ((0, 1), (0, 1)))[0].ravel()
    assert rejected(shifted, np.full(100, 0.01))


def test_consecutive_numbers_are_independent():
    u = draws(2)
    pairs = np.histogram2d(u[::2], u[1::2], 10, ((0, 1), (0, 1)))[0].ravel()
    assert not rejected(pairs, np.full(100, 0.01))
    assert rejected(
        np.histogram2d(u[::2], (u[::2] + u[1::2] / 2) % 1, 10, ((0, 1), (0, 1)))[0].ravel(), np.full(100, 0.01)
    )


def test_below_and_categorical_have_their_laws():
    state = stream(1, 3, COINS)
    counts = np.bincount([below(state, 7) for _ in range(DRAWS)], minlength=7)
    assert not rejected(counts, np.full(7, 1 / 7))
    assert rejected(counts, np.array([8, 6, 7, 7, 7, 7, 7]) / 49)
    weights = np.array([0.5, 0.1, 0.25, 0.15])
    counts = np.bincount([categorical(np.cumsum(weights), state) for _ in range(DRAWS)], minlength=4)
    assert not rejected(counts, weights)
    assert rejected(counts, np.array([0.48, 0.12, 0.25, 0.15]))

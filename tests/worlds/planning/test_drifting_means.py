"""Levels and sums of random walks against the posterior of the whole path at once."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.problems.adversarial.perturbed_leader import track, untracked


def whole_path(users, drifts, seen, among, noise, level, variance):
    """The exact posterior of all levels by linear algebra; returns the last level, the sum, and their covariances."""
    n = len(users)
    steps = np.cumsum([variance, *drifts[1:]])
    prior = np.minimum.outer(steps, steps)
    H = np.diag(among)
    gain = prior @ H.T @ np.linalg.inv(H @ prior @ H.T + np.diag(noise))
    mean = level + gain @ (seen - H @ np.full(n, level))
    left = prior - gain @ H @ prior
    weights = np.asarray(users, float)
    return mean[-1], weights @ mean, left[-1, -1], weights @ left[:, -1], weights @ left @ weights


def test_the_filter_is_the_posterior_of_the_whole_path():
    rng = np.random.default_rng(0)
    users, drifts = [10, 20, 5, 40], [0.0, 0.02, 0.01, 0.03]
    among = np.array([4.0, 0.0, 3.0, 7.0])
    noise, seen = np.array([2.0, 1.0, 3.0, 2.5]), rng.normal(3, 2, 4)
    state = untracked((2,), 0.5, 0.8)
    for b in range(4):
        both = (np.array([value, value]) for value in (seen[b], among[b], noise[b]))
        state = track(state, users[b], drifts[b], *both)
    level, total, variance, covariance, total_variance = whole_path(users, drifts, seen, among, noise, 0.5, 0.8)
    assert state.level == pytest.approx([level] * 2)
    assert state.total == pytest.approx([total] * 2)
    assert state.level_variance == pytest.approx([variance] * 2)
    assert state.covariance == pytest.approx([covariance] * 2)
    assert state.total_variance == pytest.approx([total_variance] * 2)


def test_a_mean_that_nobody_looks_at_keeps_its_level_and_gets_uncertain():
    start = untracked((1,), 0.5, 25.0)
    seen = track(start, 10, 0.0, np.array([2.0]), np.array([10.0]), np.array([0.1]))
    nobody = [np.zeros(1), np.zeros(1), np.ones(1)]
    later = track(track(seen, 10, 0.01, *nobody), 10, 0.01, *nobody)
    assert later.level == pytest.approx(seen.level)
    assert later.total == pytest.approx(seen.total + 20 * seen.level)
    assert later.level_variance == pytest.approx(seen.level_variance + 0.02)
    assert later.total_variance[0] > 2 * seen.total_variance[0]

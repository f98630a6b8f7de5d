"""One backward step over rows kept by successor, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.compiled import kernel
from discreet.planning.by_successor import act_greedily, rows_of_step, sum_over_successors
from discreet.streams import COINS, stream


@kernel
def _sums_of_step(transitions, groups, h, following, q):
    sum_over_successors(transitions, rows_of_step(groups, h, q.shape[0]), following, q)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize(("states", "actions"), [(1, 1), (2, 2), (5, 3), (17, 4)])
def test_sums_over_successors(groups, states, actions):
    rng = np.random.default_rng(0)
    pairs = states * actions
    transitions, following = rng.normal(size=(states, groups * pairs)), rng.normal(size=states)
    for h in range(4):
        q = np.full(pairs, np.nan)
        _sums_of_step(transitions, groups, h, following, q)
        own = transitions[:, h * pairs : (h + 1) * pairs] if groups > 1 else transitions
        np.testing.assert_allclose(q, following @ own, rtol=1e-12, atol=1e-12)


def test_greedy_actions_and_clipped_values():
    q = np.random.default_rng(1).normal(size=(9, 4))
    values, actions = np.zeros(9), np.zeros(9, np.int64)
    act_greedily(q, -0.1, 0.8, stream(0, 0, COINS), values, actions)
    np.testing.assert_array_equal(actions, q.argmax(axis=1))
    np.testing.assert_array_equal(values, np.clip(q.max(axis=1), -0.1, 0.8))


def test_exact_ties_are_fair():
    """Three of five actions tie: each is taken in a third of 30,000 states, within 5 deviations (false alarm 2e-6)."""
    q = np.tile([0.5, 1.0, 1.0, 0.2, 1.0], (30_000, 1))
    values, actions = np.zeros(len(q)), np.zeros(len(q), np.int64)
    act_greedily(q, 0.0, 2.0, stream(4, 0, COINS), values, actions)
    counts = np.bincount(actions, minlength=5)
    assert counts[0] == counts[3] == 0
    assert np.abs(counts[[1, 2, 4]] - 10_000).max() < 5 * np.sqrt(30_000 * 2 / 9)
    first_of_two_ties = q[:, :3].copy()  # a tie that a better action ends is no tie
    first_of_two_ties[:, :2], first_of_two_ties[:, 2] = 1.0, 1.5
    act_greedily(first_of_two_ties, 0.0, 2.0, stream(4, 0, COINS), values, actions)
    assert (actions == 2).all()

"""Reward laws: means, ranges, and every table that is not a law."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.streams import USERS, stream
from discreet.worlds.rewards import (
    Bernoulli,
    Deterministic,
    Finite,
    FiniteOnTransition,
    OnTransition,
    check_declared,
    checked,
    cumulative,
    draw_reward,
    mean,
    value_range,
)

TRANSITIONS = np.array([[[[0.25, 0.75], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]]])
MEANS = np.array([[[0.1, 0.9], [0.5, 0.0]]])
VALUES = np.array([[[[1.0, 2.0], [3.0, 99.0]], [[-1.0, 0.0], [-99.0, 4.0]]]])
POINTS = np.array([-1.0, 0.0, 7.0])
CHANCES = np.array([[[[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]]])
GIVEN_NEXT = np.stack([CHANCES, CHANCES[..., ::-1]], axis=3)

LAWS = {
    "deterministic": (Deterministic(MEANS), MEANS, (0.0, 0.9)),
    "bernoulli": (Bernoulli(MEANS), MEANS, (0.0, 1.0)),
    # The values of impossible transitions count for nothing.
    "on transition": (OnTransition(VALUES), [[[1.75, 3.0], [-0.5, 4.0]]], (-1.0, 4.0)),
    "finite": (Finite(POINTS, cumulative(CHANCES)), [[[3.3, -1.0], [0.0, -0.5]]], (-1.0, 7.0)),
    "finite on transition": (
        FiniteOnTransition(POINTS, cumulative(GIVEN_NEXT)),
        [[[0.25 * 3.3 + 0.75 * (-0.5 + 1.4), -1.0], [0.0, 3.5]]],
        (-1.0, 7.0),
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_mean_and_range(name):
    law, means, extremes = LAWS[name]
    np.testing.assert_allclose(mean(law, TRANSITIONS), means, atol=1e-15)
    assert value_range(law, TRANSITIONS) == extremes
    check_declared(law, TRANSITIONS, extremes)
    for narrower in ((extremes[0] + 1e-9, extremes[1]), (extremes[0], extremes[1] - 1e-9)):
        with pytest.raises(InvalidInput, match="outside the declared range"):
            check_declared(law, TRANSITIONS, narrower)


@kernel
def summary(law, s, a, t, n, state):
    total, squares, low, high = 0.0, 0.0, np.inf, -np.inf
    for _ in range(n):
        x = draw_reward(law, 0, s, a, t, state)
        total, squares, low, high = total + x, squares + x * x, min(low, x), max(high, x)
    return total / n, np.sqrt(max(0.0, squares / n - (total / n) ** 2) / n), low, high


@pytest.mark.parametrize("name", LAWS)
def test_draws_have_the_stated_mean_and_stay_in_range(name):
    # Six standard errors in each of eight cells: false alarms below 2e-8. A mean 2% off is rejected where rewards vary.
    law, _, (low, high) = LAWS[name]
    law = checked(law, 1, 2, 2)
    state = stream(1, 0, USERS)
    for t in range(2):
        given_next = np.zeros((1, 2, 2, 2))
        given_next[..., t] = 1.0
        expected = mean(law, given_next)
        for s, a in product(range(2), range(2)):
            average, error, least, most = summary(law, s, a, t, 1_000_000, state)
            assert abs(average - expected[0, s, a]) <= 6 * error + 1e-9
            if error > 0:
                assert abs(average - 1.02 * expected[0, s, a]) > 6 * error
            if TRANSITIONS[0, s, a, t] > 0:
                assert low <= least
                assert most <= high


def test_draws_from_python_weigh_like_draws_from_kernels():
    law = Bernoulli(MEANS)
    ours, theirs = stream(2, 0, USERS), stream(2, 0, USERS)
    draws = [draw_reward(law, 0, 1, 0, 0, ours) for _ in range(100)]
    assert sum(draws) / 100 == summary(law, 1, 0, 0, 100, theirs)[0]


def test_certain_bernoulli_rewards_have_a_narrow_range():
    assert value_range(Bernoulli(np.zeros((1, 2, 2))), TRANSITIONS) == (0, 0)
    assert value_range(Bernoulli(np.ones((1, 2, 2))), TRANSITIONS) == (1, 1)


def test_unused_finite_values_do_not_count():
    chances = np.broadcast_to([0.5, 0.5, 0.0], (1, 2, 2, 3))
    assert value_range(Finite(POINTS, cumulative(chances)), TRANSITIONS) == (-1.0, 0.0)


def test_cumulative_never_leaves_mass_to_an_impossible_entry():
    row = np.array([0.1] * 10 + [0.0])
    assert np.cumsum(row)[-1] < 1
    assert cumulative(row)[-2:].tolist() == [1.0, 1.0]
    assert checked(Finite(np.arange(11.0), np.cumsum(row).reshape(1, 1, 1, 11)), 1, 1, 1)[1][0, 0, 0, 9] == 1.0


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (Deterministic(np.zeros((1, 2, 3))), r"must have shape \(1, 2, 2\)"),
        (Deterministic(np.full((1, 2, 2), np.nan)), "NaN or infinite"),
        (Bernoulli(MEANS + 0.2), r"must lie in \[0, 1\]"),
        (Bernoulli(MEANS - 0.2), r"must lie in \[0, 1\]"),
        (OnTransition(MEANS), r"must have shape \(1, 2, 2, 2\)"),
        (Finite(np.array([]), np.zeros((1, 2, 2, 0))), "non-empty list"),
        (Finite(np.zeros((1, 3)), cumulative(CHANCES)), "non-empty list"),
        (Finite(POINTS[:2], cumulative(CHANCES)), r"must have shape \(1, 2, 2, 2\)"),
        (Finite(POINTS, CHANCES), "must not decrease"),
        (Finite(POINTS, 0.9 * cumulative(CHANCES)), "must end at 1"),
        (FiniteOnTransition(POINTS, cumulative(CHANCES)), r"must have shape \(1, 2, 2, 2, 3\)"),
    ],
)
def test_tables_that_are_no_law_are_refused(law, message):
    with pytest.raises(InvalidInput, match=message):
        checked(law, 1, 2, 2)


@pytest.mark.parametrize(
    "ask", [lambda x: checked(x, 1, 2, 2), lambda x: mean(x, TRANSITIONS), lambda x: value_range(x, TRANSITIONS)]
)
def test_things_that_are_no_law_are_refused(ask):
    with pytest.raises(Unsupported, match="ndarray is not a reward law"):
        ask(MEANS)

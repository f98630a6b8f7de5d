"""The width of a reward that is never above what is left, shares of states, and values as they are seen from afar."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.learners.reward_bounds import at_most, bernstein, look_from_afar, shares_of_states


@pytest.mark.parametrize("r", [0.0, 0.2, 0.7, 0.99])
def test_the_width_is_the_smooth_minimum_of_bernsteins_and_of_what_is_left(r):
    for n in (1, 2, 5, 20, 400, 10_000):
        e, left = bernstein(0.5, r, 1 / n, 6.0), 1 - r
        assert e == pytest.approx(0.5 * (math.sqrt(2 * r * (1 - r) * 6 / n) + 6 / n), rel=1e-12)
        width = at_most(left, e)
        assert width == pytest.approx((e**-4 + left**-4) ** -0.25, rel=1e-9)
        assert 0.84 * min(e, left) < width < min(e, left) * (1 + 1e-12)


def test_a_row_that_always_paid_has_nothing_left():
    assert 0 <= at_most(0.0, 1.0) < 1e-8
    assert at_most(0.5, 0.0) == 0


def test_shares_count_the_visits_of_the_state_but_no_more_than_all_users():
    shares = np.zeros(6)
    shares_of_states(np.array([5.0, 3.0, 0.0, -4.0, 900.0, 1.0]), 100.0, 2, shares)
    np.testing.assert_allclose(shares, [4.5, 4.5, 0.5, 0.5, 100.0, 100.0])


def test_from_afar_a_state_is_worth_more_by_what_its_best_action_has_and_the_order_stays():
    q = np.array([[0.2, 0.9, 0.5], [1.0, 0.3, 1.0]])
    more = np.array([7.0, 0.25, 8.0, 0.5, 6.0, 0.5, 99.0])  # room after the last row is not read
    seen = q.copy()
    look_from_afar(seen, more)
    np.testing.assert_allclose(seen - q, [[0.25] * 3, [0.5] * 3])

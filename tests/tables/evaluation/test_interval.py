"""Tables that are drawn from the model, and how the ends of an interval make one."""

from __future__ import annotations

import numpy as np
import pytest
from small_worlds import SHAPE, A, H, S, world

from discreet.tables.evaluation import policy_value
from discreet.tables.evaluation.interval import Interval, between
from discreet.tables.evaluation.parametric_bootstrap import redrawn
from discreet.tables.evaluation.private_mean import Ratio
from discreet.tables.evaluation.return_bounds import limits_of


def test_redrawn_rewards_are_those_of_the_users_who_were_drawn():
    """Where every visit brings the largest reward, it does so in tables that are drawn, however many come."""
    model = world(1, True)
    best = np.full((H, S, A), SHAPE.rewards[1])
    model = model._replace(rewards=best, signed_rewards=best)
    visits = np.full((H, S, A), 9.0)
    tables = list(redrawn(model, SHAPE, visits, limits_of(SHAPE, True), 5, np.random.default_rng(0)))
    assert len(tables) == 5
    assert len({float(table.visits.sum()) for table in tables}) > 1
    for table in tables:
        assert table.signed_rewards[table.visits > 0] == pytest.approx(SHAPE.rewards[1])
        assert table.shown.shape == (H, S, A)


def test_an_impossible_interval_says_nothing():
    assert Interval(25.0, 24.0, 26.0).within(0.0, 20.0) == Interval(20.0, 0.0, 20.0)
    assert Interval(-3.0, -4.0, -2.0).within(0.0, 20.0) == Interval(0.0, 0.0, 20.0)
    assert Interval(19.0, 18.0, 22.0).within(0.0, 20.0) == Interval(19.0, 18.0, 20.0)


def test_ends_that_cross_allow_what_either_does():
    assert between((0.0, 1.0, 1.0), (4.0, 2.0, 2.0), 0.95) == Interval(2.0, -1.0, 6.0)
    assert between((4.0, 1.0, 1.0), (0.0, 2.0, 2.0), 0.95) == Interval(2.0, -2.0, 5.0)
    assert between((1.0, 0.5, 0.5), (0.0, 3.0, 3.0), 0.95) == Interval(0.5, -3.0, 3.0)
    assert between((1.0, 1.5, 1.5), (0.0, 3.0, 3.0), 0.95, by_chance=1.2) == Interval(0.5, -0.5, 3.0)


@pytest.mark.parametrize(("noise", "low"), [(0.8, -0.5), (0.6, -3.0)], ids=["by chance", "not by chance"])
def test_ends_may_cross_by_the_noise_of_both(noise, low):
    """They are one apart, and both have noise of that half-width: 1.13 together, or 0.85."""
    ends = [
        policy_value.End(Ratio(mean, mean - half, mean + half, 0.0, noise), half, half)
        for mean, half in ((1.0, 1.5), (0.0, 3.0))
    ]
    assert policy_value.interval_of(ends, 0.95, -9.0, 9.0) == Interval(0.5, low, 3.0)

"""Values in a table of held-out users: what few visits allow to say, and errors of tables drawn from the model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_worlds import SHAPE, A, H, S, world

from discreet.base.shape import Shape
from discreet.tables.evaluation import plug_in as plug_in_module
from discreet.tables.evaluation import policy_value
from discreet.tables.evaluation.interval import Interval, between
from discreet.tables.evaluation.parametric_bootstrap import redrawn
from discreet.tables.evaluation.plug_in import plug_in
from discreet.tables.evaluation.private_mean import Ratio
from discreet.tables.evaluation.released_model import Model
from discreet.tables.evaluation.return_bounds import limits_of

ONE_STEP = Shape(2, 1, 2)
MANY = 10**12


def of_one_row(visits: int, went: int) -> Model:
    """Everybody begins in state 0; the row there led to state 1, which is worth 1, so often; all else is known."""
    rows = np.zeros((2, 2, 1, 3))
    rows[0, :, 0] = [1 - went / visits, went / visits, 0.0]
    rows[1, ..., 2] = 1.0
    rewards, counts = np.zeros((2, 2, 1)), np.full((2, 2, 1), float(MANY))
    rewards[1, 1] = 1.0
    counts[0, 0] = visits
    zero, start = np.zeros((2, 2, 1)), np.array([1.0, 0.0])
    return Model(counts, zero, 0.0, rows, rows, rewards, rewards, zero, counts > 0, start, start, MANY, 2)


@pytest.mark.parametrize("visits", [8, 12, 30])
def test_few_visits_are_enough_for_intervals_that_cover(visits):
    """Exactly, over all outcomes of a row: at every chance above 0.92, where the variance alone is not."""
    limits, policy = limits_of(ONE_STEP, False), np.ones((2, 2, 1))
    found = [plug_in(of_one_row(visits, went), ONE_STEP, limits, policy, 0.0).value for went in range(visits + 1)]
    plain = [
        Interval(k / visits, k / visits - half, k / visits + half)
        for k in range(visits + 1)
        for half in [1.96 * math.sqrt(k / visits * (1 - k / visits) / visits)]
    ]
    least = {"ours": 1.0, "plain": 1.0}
    for p in np.linspace(0.02, 0.98, 49):
        chances = [math.comb(visits, k) * p**k * (1 - p) ** (visits - k) for k in range(visits + 1)]
        for name, intervals in (("ours", found), ("plain", plain)):
            covered = sum(chance for chance, each in zip(chances, intervals, strict=True) if each.holds(float(p)))
            least[name] = min(least[name], covered)
    assert least["ours"] > 0.92
    assert least["plain"] < 0.6


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


def test_where_the_first_order_fails_the_errors_of_redrawn_tables_decide():
    """A pooled table so noisy that rows are far from distributions, multiplied twenty times."""
    shape, few = Shape(S, A, 20, rewards=(-1.0, 1.0), homogeneous=True), world(2, True)
    rows = few.repaired[:1]
    rows[..., S] = 0.0
    rows /= rows.sum(axis=3, keepdims=True)
    pi, limits, zero = np.full((20, S, A), 1 / A), limits_of(shape, True), np.zeros((1, S, A))
    model = few._replace(
        visits=zero + 100, visit_variance=zero, signed=rows, repaired=rows, rewards=few.rewards[:1],
        signed_rewards=few.rewards[:1], reward_variance=zero, shown=np.ones((20, S, A), np.bool_), horizon=20,
    )  # fmt: skip
    halves = []
    for variance in (1.0, 900.0):
        found = plug_in(model._replace(cell_variance=variance), shape, limits, pi, 0.0)
        halves.append((found.value.width / 2, math.hypot(found.noise, found.sampling) / 2))
    assert halves[0][0] < 1.2 * halves[0][1]
    assert halves[1][0] > 1.3 * halves[1][1]


def test_the_largest_error_of_redrawn_tables_is_the_least_half_width(monkeypatch):
    errors = np.array([[0.1, 0.2], [0.4, 0.1], [0.0, 0.3]])
    monkeypatch.setattr(plug_in_module, "_errors", lambda *_: errors)
    found = plug_in(of_one_row(30, 15), ONE_STEP, limits_of(ONE_STEP, False), np.ones((2, 2, 1)), 0.0).value
    assert (found.low, found.high) == (pytest.approx(0.1), pytest.approx(0.8))


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

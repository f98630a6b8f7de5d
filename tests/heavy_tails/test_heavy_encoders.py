"""Encoders for rewards without a range: what they count, and their sensitivity over all pairs of tiny records."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from discreet.encoders.base import encode
from discreet.errors import InvalidInput, Unsupported
from discreet.heavy_tails.encoders import ClippedTables, SignedFirstVisitTables, clipping_bias
from discreet.heavy_tails.worlds import moment
from discreet.shape import Moments, Shape
from discreet.streams import USERS, stream
from discreet.trajectories import Trajectories

MOMENTS = Moments(2.0, 0.5)


def heavy(states, actions, horizon, homogeneous=True):
    return Shape(states, actions, horizon, homogeneous, (-1.0, 1.0), moments=MOMENTS)


def record(states, rewards, actions=None):
    s, r = np.atleast_2d(states), np.atleast_2d(np.asarray(rewards, float))
    a = np.zeros_like(s) if actions is None else np.atleast_2d(actions)
    return Trajectories(s, a, r, np.full(len(s), s.shape[1]))


def all_signed_records(shape):
    """Every record whose rewards are far beyond any threshold, with either sign."""
    steps = list(product(range(shape.states), range(shape.actions), (-1e6, 1e6)))
    table = np.array(list(product(steps, repeat=shape.horizon)))
    states, actions = (np.ascontiguousarray(table[:, :, i]).astype(np.int64) for i in (0, 1))
    return Trajectories(states, actions, np.ascontiguousarray(table[:, :, 2]), np.full(len(table), shape.horizon))


def largest(vectors):
    vectors = np.unique(vectors, axis=0)
    shifts = np.abs(vectors[:, None] - vectors[None])
    return shifts.sum(axis=2).max(), np.sqrt((shifts**2).sum(axis=2).max()), shifts.max()


@pytest.mark.parametrize("sizes", [(2, 1, 2), (2, 2, 2), (1, 2, 2), (2, 1, 4), (2, 2, 3)])
def test_signed_tables_never_move_more_than_stated(sizes):
    shape = heavy(*sizes)
    encoder = SignedFirstVisitTables(shape, 3.0)
    vectors = encode(encoder, all_signed_records(shape), stream(0, 0, USERS))
    most, _, single = largest(vectors)
    assert single == 1
    assert most <= encoder.sensitivity().l1
    # pairs that both visit move four cells each: attained where every pair can be visited with a successor to spare
    if encoder.rows < shape.horizon and shape.states > 1:
        assert most == encoder.sensitivity().l1
    for rows in range(1, encoder.rows + 1):
        mask = np.zeros((1, *sizes[:2]), bool)
        mask.reshape(-1)[:rows] = True
        assert largest(vectors * encoder.rows_to_cells(mask))[0] <= encoder.sensitivity(rows).l1


@pytest.mark.parametrize("homogeneous", [True, False])
def test_clipped_tables_move_as_stated_in_units_of_the_threshold(homogeneous):
    shape = heavy(2, 1, 3, homogeneous)
    encoder = ClippedTables(shape, (5.0,) * 12)
    vectors = encode(encoder, all_signed_records(shape), stream(0, 0, USERS))
    counts, rewards = vectors[:, : encoder.counts], vectors[:, encoder.counts :] / 5.0
    for part, stated in ((counts, encoder.count_sensitivity()), (rewards, encoder.reward_sensitivity())):
        l1, l2, linf = largest(part)
        assert l1 == pytest.approx(stated.l1)
        assert l2 <= stated.l2 + 1e-9
        assert linf <= stated.linf + 1e-9


def test_thresholds_follow_the_number_of_users_and_nothing_else():
    shape = heavy(1, 1, 1)
    encoder = ClippedTables(shape, (1.0, 2.0, 4.0))
    rewards = encode(encoder, record([[0]] * 7, [[9.0]] * 7), stream(0, 0, USERS))[:, -1]
    assert rewards.tolist() == [1, 2, 2, 4, 4, 4, 4]
    assert [encoder.threshold(j) for j in range(1, 8)] == rewards.tolist()


def test_levels_give_every_row_a_threshold_of_its_own():
    shape = heavy(2, 1, 2)
    encoder = ClippedTables(shape, (1.0, 2.0, 4.0), positions=(2, 0))
    rewards = encode(encoder, record([[0, 1]] * 2, [[9.0, -9.0], [-3.0, 0.5]]), stream(0, 0, USERS))[
        :, encoder.counts :
    ]
    assert rewards.tolist() == [[4.0, -1.0], [-3.0, 0.5]]
    with pytest.raises(InvalidInput, match="each of 2 rows"):
        ClippedTables(shape, (1.0,), positions=(0,))


def test_truncation_drops_what_clipping_keeps():
    shape = heavy(1, 1, 1)
    kept, dropped = (ClippedTables(shape, (2.0, 2.0), truncated=flag) for flag in (False, True))
    records = record([[0], [0]], [[-9.0], [1.5]])
    assert encode(kept, records, stream(0, 0, USERS))[:, -1].tolist() == [-2.0, 1.5]
    assert encode(dropped, records, stream(0, 0, USERS))[:, -1].tolist() == [0.0, 1.5]


def test_rewards_are_stated_in_units_of_the_range_of_means():
    shape = heavy(1, 1, 1)
    encoder = ClippedTables(shape, (50.0,) * 20)
    cells = encode(encoder, record([[0]] * 4, [[0.5], [1.5], [0.0], [-4.0]]), stream(0, 0, USERS)).sum(axis=0)
    assert encoder.marginals(cells)["rewards"].values.item() == pytest.approx((0.5 + 1.5 - 4.0 + 4) / 2)


def test_signed_bits_are_unbiased_for_the_clipped_reward():
    """20,000 bits: the standard error of the mean of B (positive - negative) is below 0.02, five are allowed."""
    shape = heavy(1, 1, 1)
    encoder = SignedFirstVisitTables(shape, 4.0)
    for reward, clipped in ((1.0, 1.0), (-2.5, -2.5), (9.0, 4.0)):
        cells = encode(encoder, record([[0]] * 20_000, [[reward]] * 20_000), stream(3, 0, USERS)).mean(axis=0)
        statistics = encoder.marginals(cells)
        assert 2 * statistics["rewards"].values.item() - 1 == pytest.approx(clipped, abs=0.1)


def test_the_bias_bound_holds_for_a_law_that_nearly_attains_it():
    """Two points, 0 and x with probability q: the bias of clipping at B is q (x - B)."""
    v, B = 0.5, 3.0
    x = B * (1 + v) / v  # the worst place for the outer point
    q = 0.01
    u = moment("two-point", q * x, q, 1.0, 1 + v)
    assert clipping_bias(Moments(u, v), B) == pytest.approx(q * (x - B))


def test_worlds_with_a_range_are_refused():
    shape = replace(heavy(2, 1, 2), moments=None)
    for make in (lambda: SignedFirstVisitTables(shape, 1.0), lambda: ClippedTables(shape, (1.0,))):
        with pytest.raises(Unsupported, match="range"):
            make()

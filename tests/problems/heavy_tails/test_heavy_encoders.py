"""Encoders for rewards without a range: what they count, and their sensitivity over all pairs of tiny records."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Moments, Shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.trajectories import Trajectories
from discreet.problems.heavy_tails.encoders import ClippedTables, SignedFirstVisitTables, clipping_bias
from discreet.problems.heavy_tails.stochastic_rounding import ClippedJoint, ClippedStep
from discreet.problems.heavy_tails.world import moment

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


_SIZES = [(2, 1, 2), (2, 2, 2), (1, 2, 2), (2, 1, 4), (1, 3, 1), (2, 2, 1)]


# With laws per step (2, 2, 3) has half a million pairs of long vectors, and smaller ones attain every case.
@pytest.mark.parametrize(
    ("sizes", "homogeneous"),
    [*((sizes, True) for sizes in [*_SIZES, (2, 2, 3)]), *((sizes, False) for sizes in _SIZES)],
)
def test_signed_tables_never_move_more_than_stated(sizes, homogeneous):
    """All pairs of records, whatever rows are released; with laws per step the bound is attained by the whole table."""
    shape = heavy(*sizes, homogeneous)
    encoder = SignedFirstVisitTables(shape, 3.0)
    vectors = encode(encoder, all_signed_records(shape), stream(0, 0, USERS))
    most, _, single = largest(vectors)
    assert single == 1
    assert most <= encoder.sensitivity().l1
    # pairs that both visit move four cells each: attained where every pair can be visited with a successor to spare
    if (encoder.rows < shape.horizon and shape.states > 1) or (not homogeneous and sizes[0] * sizes[1] > 1):
        assert most == encoder.sensitivity().l1
    for rows in range(1, encoder.rows + 1):
        mask = np.zeros((shape.groups, *sizes[:2]), bool)
        mask.reshape(-1)[:rows] = True
        spread = np.zeros_like(mask)  # as many rows, as many steps as possible among them
        for s, a, g in list(product(range(sizes[0]), range(sizes[1]), range(shape.groups)))[:rows]:
            spread[g, s, a] = True
        for chosen in (mask, spread):
            assert largest(vectors * encoder.rows_to_cells(chosen))[0] <= encoder.sensitivity(rows).l1


@pytest.mark.parametrize("homogeneous", [True, False], ids=["pooled", "per-step"])
@pytest.mark.parametrize("sizes", [(2, 1, 3), (2, 2, 2), (1, 3, 1)])
def test_the_clipped_histogram_moves_two_cells_a_step(sizes, homogeneous):
    shape = heavy(*sizes, homogeneous)
    encoder = ClippedJoint(shape, 3.0)
    vectors = encode(encoder, all_signed_records(shape), stream(0, 0, USERS))
    l1, l2, linf = largest(vectors)
    stated = encoder.sensitivity()
    assert (l1, linf) == (stated.l1, stated.linf) == (2 * shape.horizon, stated.linf)
    assert l2 == pytest.approx(stated.l2)


def test_a_sampled_step_moves_one_item_out_and_one_in():
    """Coins are public, so records are compared with the same ones; who is asked does not depend on the record."""
    shape = heavy(2, 2, 2, False)
    encoder = ClippedStep(shape, 1, threshold=3.0)
    for seed in range(6):
        pairs = [list(product(values, repeat=2)) for values in ((0, 1), (0, 1), (-1e6, 1e6))]
        vectors = np.stack(
            [encode(encoder, record([s], [r], [a]), stream(seed, 0, USERS))[0] for s, a, r in product(*pairs)]
        )
        assert largest(vectors) == (2.0, np.sqrt(2.0), 1.0)
        assert encoder.sensitivity().l1 == 2


@pytest.mark.parametrize("make", [ClippedJoint, lambda shape, B: ClippedStep(shape, 2, threshold=B)])
def test_rounded_rewards_are_unbiased_for_clipped_ones(make):
    """20,000 records with rewards 1 and -7 at B = 4, tau = 1: means 1 and -4, in units of the range 1 and -1.5."""
    shape = heavy(2, 1, 2, False)
    encoder, n = make(shape, 4.0), 20_000
    records = record(np.tile([0, 1], (n, 1)), np.tile([1.0, -7.0], (n, 1)))
    cells = encode(encoder, records, stream(3, 0, USERS)).sum(axis=0)
    found = {name: statistic.values for name, statistic in encoder.marginals(cells).items()}
    assert found["visits"][0, 0, 0] == found["visits"][1, 1, 0] == n
    # The deviation of the mean of one rounded reward is at most 2 / sqrt(n) = 0.014: 5 of them, or 6e-7 false alarms.
    assert found["rewards"][0, 0, 0] / n == pytest.approx((1 + 1) / 2, abs=0.07)
    assert found["rewards"][1, 1, 0] / n == pytest.approx((-4 + 1) / 2, abs=1e-9)
    assert found["transitions"][0, 0, 0].tolist() == [0, n]
    assert set(encoder.public) == {"thresholds", "clipping_bias"}
    unclipped = make(shape, 7.0)
    other = unclipped.marginals(encode(unclipped, records, stream(3, 0, USERS)).sum(axis=0))["rewards"].values
    assert other[1, 1, 0] / n == pytest.approx((-7 + 1) / 2, abs=1e-9)


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

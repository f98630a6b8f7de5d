"""Counts, sums and slacks: what one trajectory moves, by enumeration; broken twins move more; means and spreads."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import stream
from discreet.mechanisms.counts.encoder import check_tally, encode
from discreet.mechanisms.counts.joint_histogram import JointCounts
from discreet.mechanisms.counts.outcome_table import GRID, OutcomeTable
from discreet.mechanisms.release import Request
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.recipes.registry import build
from discreet.tables.read.table import CountedUsers

ONE = Shape(1, 2, 1)
LONG = [(s, a, h, pooled) for s, a, h in ((2, 1, 1), (2, 2, 2), (2, 1, 3)) for pooled in (False, True)]


def cells_of(encoder, rows, successors, levels):
    """The cells of one user for each visit: row, successor and k in -K .. K."""
    keys = (np.asarray(rows) * (encoder.shape.states + 1) + successors) * encoder.reward_levels + levels + GRID
    return np.stack([encoder.from_joint(JointCounts(np.array([key]), np.array([1]), 2 * GRID + 1)) for key in keys])


def extremes(first, second):
    moves = np.abs(first[:, None] - second[None])
    return moves.sum(axis=2).max(), (moves**2).sum(axis=2).max(), moves.max()


@pytest.mark.parametrize("weight", [GRID // 2, GRID, 300])
def test_one_visit_in_place_of_another_all_levels(weight):
    """All 2,049 levels twice, the same cell, another one, and nobody: exactly what is stated, and attained."""
    encoder = OutcomeTable(ONE, weight)
    levels = np.arange(-GRID, GRID + 1)
    here = cells_of(encoder, np.zeros_like(levels), 1, levels)[:, [0, 2, 4]]
    assert (
        here == np.stack([np.full_like(levels, weight), levels, np.rint((GRID**2 - levels**2) / 2 / GRID)], 1)
    ).all()
    same = [extremes(block, here) for block in np.array_split(here, 16)]
    l1, squares, most = np.max(same, axis=0)
    alone = np.abs(here).sum(axis=1), (here**2).sum(axis=1)  # two cells move by what both hold
    stated = encoder.sensitivity()
    assert max(l1, 2 * alone[0].max()) == stated.l1 == 2 * (weight + GRID)
    assert max(squares, 2 * alone[1].max()) == pytest.approx(stated.l2**2) == 4 * GRID**2
    assert max(most, np.abs(here).max()) == stated.linf == 2 * GRID


def trajectories(encoder, shortest=0):
    """The cells of every record: any row at each step, any successor (a table may say which), then the end."""
    shape, pairs = encoder.shape, encoder.shape.states * encoder.shape.actions
    rows, ends = np.arange(pairs), [shape.states]
    found = [np.zeros((1, encoder.size))] if shortest == 0 else []
    for length in range(max(1, shortest), shape.horizon + 1):
        vectors = np.zeros((1, encoder.size))
        for h in range(length):
            following = ends if h == length - 1 else range(shape.states)
            group = 0 if shape.homogeneous else h
            visits = np.array(list(product(rows + group * pairs, following, (-GRID, 0, GRID))))
            vectors = (vectors[:, None] + cells_of(encoder, *visits.T)[None]).reshape(-1, encoder.size)
            vectors = np.unique(vectors, axis=0)
        found.append(vectors)
    return np.unique(np.concatenate(found), axis=0)


@pytest.mark.parametrize(("states", "actions", "horizon", "pooled"), LONG)
@pytest.mark.parametrize("weight", [GRID // 2, GRID])
def test_a_whole_trajectory_in_place_of_another(states, actions, horizon, pooled, weight):
    encoder = OutcomeTable(Shape(states, actions, horizon, pooled), weight, successors=horizon > 1)
    vectors = trajectories(encoder)
    found = np.max([extremes(block, vectors) for block in np.array_split(vectors, len(vectors) // 7 + 1)], axis=0)
    stated = encoder.sensitivity()
    assert tuple(found) == (stated.l1, pytest.approx(stated.l2**2), stated.linf)
    assert not vectors[:, ~encoder.possible()].any()


@pytest.mark.parametrize("pooled", [False, True])
def test_users_who_act_are_encoded_as_those_of_a_table(pooled, all_records):
    shape = Shape(2, 2, 2, pooled, (0.0, 5.0))
    encoder = OutcomeTable(shape, successors=True)
    acted = np.unique(encode(encoder, all_records(shape, shortest=0), stream(0, 0, 0)), axis=0)
    counted = {row.tobytes() for row in trajectories(encoder)}
    assert all(row.tobytes() in counted for row in acted)
    l1, squares, most = extremes(acted, acted)
    stated = encoder.sensitivity()
    assert (l1, most) == (stated.l1, stated.linf)
    assert squares <= stated.l2**2


def test_levels_between_the_ends_move_less():
    """Trajectories of two steps with levels from all over the grid stay within what is stated."""
    rng, shape = np.random.default_rng(1), Shape(2, 1, 2, True)
    encoder, many = OutcomeTable(shape, successors=True), 400
    levels = rng.choice([-GRID, -GRID // 2, -1, 0, 7, GRID - 1, GRID], (2, many))
    rows, following = rng.integers(0, 2, (2, many)), rng.integers(0, 2, many)
    vectors = cells_of(encoder, rows[0], following, levels[0]) + cells_of(encoder, rows[1], 2, levels[1])
    l1, squares, most = extremes(vectors, vectors)
    stated = encoder.sensitivity()
    assert l1 <= stated.l1
    assert squares <= stated.l2**2
    assert most <= stated.linf


def test_several_trajectories_move_so_many_times_as_much(all_records):
    shape = Shape(1, 2, 1)
    cells = np.unique(encode(OutcomeTable(shape), all_records(shape, shortest=0), stream(0, 0, 0)), axis=0)
    users = (cells[:, None] + cells[None]).reshape(-1, cells.shape[1])
    l1, squares, most = extremes(users, users)
    stated = OutcomeTable(shape, per_user=2).sensitivity()
    assert (l1, squares, most) == (stated.l1, pytest.approx(stated.l2**2), stated.linf)


def test_broken_twins_move_more():
    """A slack of twice the weight, and the printed L2 without successors where there are some."""
    encoder, levels = OutcomeTable(ONE), np.arange(-GRID, GRID + 1)
    here = cells_of(encoder, np.zeros_like(levels), 1, levels)[:, [0, 2, 4]]
    doubled = here * [1, 1, 2]
    assert 2 * np.abs(doubled).sum(axis=1).max() > encoder.sensitivity().l1
    shape = Shape(2, 1, 2)
    opposite = cells_of(OutcomeTable(shape, successors=True), [0, 0], np.array([0, 1]), np.array([-GRID, GRID]))
    without = 2 * GRID**2 * (1 + 1)  # of one step
    assert ((opposite[0] - opposite[1]) ** 2).sum() > without


def test_means_and_spreads_come_out_of_the_cells():
    rng = np.random.default_rng(0)
    states, actions = rng.integers(0, 2, 4000), rng.integers(0, 3, 4000)
    rewards = rng.normal(200 + 50 * actions, 80)
    people = Trajectories(states[:, None], actions[:, None], rewards[:, None], np.ones(4000, np.int64))
    encoder = OutcomeTable(Shape(2, 3, 1, False, (-1000.0, 1000.0)))
    found = encoder.marginals(encode(encoder, people, stream(0, 0, 0)).sum(axis=0))
    for s in range(2):
        for a in range(3):
            own = rewards[(states == s) & (actions == a)]
            n = found["visits"].values[0, s, a]
            mean = found["rewards"].values[0, s, a] / n * 2000 - 1000
            spread = 1000 * np.sqrt(1 - found["slacks"].values[0, s, a] / n - (mean / 1000) ** 2)
            assert n == len(own)
            assert mean == pytest.approx(own.mean(), abs=0.2)
            assert spread == pytest.approx(own.std(), abs=0.3)
    assert not found["transitions"].values.any()


def test_the_variance_of_a_statistic_is_that_of_its_noise():
    """400 seeded releases of nobody: the wrong law, 2/3 or 3/2 of the scale, would be ten deviations away."""
    shape = Shape(1, 3, 1, False, (0.0, 9.0))
    for law, delta in (("laplace", 0.0), ("gaussian", 1e-6)):
        made = build(discreet.Central(1.0, delta, recipe=f"offline/outcomes-{law}"), shape, 10)
        users = CountedUsers(lambda levels, first: JointCounts(np.zeros(0, np.int64), np.zeros(0, np.int64), levels))
        releases = [
            made.open(users, SimulatedNoise(np.random.default_rng(run)), 10).answer(Request(uniform_policy(shape)))
            for run in range(400)
        ]
        for name in ("visits", "rewards", "slacks"):
            values = np.stack([release[name].values.ravel() for release in releases])
            stated = np.broadcast_to(releases[0][name].variance, (1, 1, 3))
            assert values.var() == pytest.approx(stated.mean(), rel=0.25)
            if name != "slacks":  # as APVI asks: two cells for visits, one for rewards
                width = releases[0].width(1 + (name == "visits"), 0.05)
                assert (np.abs(values) > width.ravel()).mean() < 0.05


def test_what_it_refuses():
    with pytest.raises(InvalidInput, match="count_weight must lie in"):
        OutcomeTable(ONE, 2 * GRID)
    with pytest.raises(Unsupported, match="several steps need successors"):
        OutcomeTable(Shape(2, 2, 2))
    with pytest.raises(Unsupported, match="2049 levels, got 2"):
        OutcomeTable(ONE).from_joint(JointCounts(np.array([0]), np.array([1]), 2))
    with pytest.raises(Unsupported, match="leave known_rewards out"):
        build(discreet.Central(1.0, recipe="offline/outcomes-laplace", options={"rewards": "known"}), ONE, 10)
    encoder = OutcomeTable(ONE)
    check_tally(encoder, encoder.from_joint(JointCounts(np.array([2049]), np.array([5]), 2049)), 5)  # sums below zero
    with pytest.raises(InvalidInput, match="from 5 users"):
        check_tally(encoder, np.full(encoder.size, 5.0 * 2 * GRID + 1), 5)


def test_the_checker_reads_it_and_refuses_one_that_moves_more():
    for law, delta in (("laplace", 0.0), ("gaussian", 1e-6)):
        for shape in (ONE, Shape(2, 2, 3), Shape(2, 2, 3, True)):
            target = discreet.Central(1.0, delta, recipe=f"offline/outcomes-{law}", options={"per_user": 2})
            certificate = build(target, shape, 10).guarantee.certificate()
            assert discreet.verify(certificate).answer == "holds"
            moves = certificate["steps"]["of"][0]["moves"]
            for name in ("l1", "l2", "linf"):
                moves[name] = repr(2 * float(moves[name]))
            assert discreet.verify(certificate).answer == "does not hold"

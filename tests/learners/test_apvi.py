"""APVI: the formula by hand, a lower bound that holds, and the limit without noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.base.policies import Policy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, stream
from discreet.learners.apvi import APVI, count_cells, estimate_model
from discreet.learners.base import Problem
from discreet.mechanisms.release import Estimate, Release
from discreet.privacy.guarantee import nothing
from discreet.worlds.planning.count_projection import project_counts

SHAPE = Shape(2, 2, 2)
TIGHT = APVI(penalty="tight")


def release(transitions, rewards=None, *, width=0.0, variance=0.0, public=None, visits=None, ends=None):
    """A release of counts (H, S, A, S), whose noise is at most ``width`` per cell."""
    transitions = np.asarray(transitions, float)
    rows = transitions.shape[:3]
    totals = transitions.sum(axis=3) if visits is None else np.asarray(visits, float)
    spread = np.full((rows[0], 1, 1), variance)
    spread[-1] = 0.0
    statistics = {
        "visits": Estimate(totals, np.full((rows[0], 1, 1), variance)),
        "transitions": Estimate(transitions, spread),
    }
    if rewards is not None:
        statistics["rewards"] = Estimate(np.asarray(rewards, float), np.full((rows[0], 1, 1), variance))
    if ends is not None:
        statistics["ends"] = Estimate(np.asarray(ends, float), spread)
    public = {} if public is None else {"rewards": np.asarray(public, float)}
    return Release(statistics, 100, nothing(), lambda cells, _p: np.full(rows, width * math.sqrt(cells)), public=public)


def planned(learner, given, shape=SHAPE):
    state = learner.update(learner.init(Problem(shape, 100), stream(0, 0, COINS)), given)
    return learner.policy(state).actions, state.values


COUNTS = np.array([[[[90, 10], [5, 5]], [[50, 50], [0, 0]]], [[[30, 0], [0, 30]]] * 2])
REWARDS = np.array([[[0.2, 0.3], [0.5, 0.1]], [[0.9, 0.4], [0.2, 0.6]]])


def test_without_noise_the_penalty_is_that_of_apvi():
    """By hand: V_2 = max r, then r + P V - sqrt(2 Var i / n) - 7 R i / 3n for every action."""
    actions, values = planned(APVI(penalty="tight", failure_probability=0.2), release(COUNTS, public=REWARDS))
    after = np.array([0.9, 0.6])
    np.testing.assert_allclose(values[1], after)
    iota = math.log(2 * 2 * 2 * 2 / 0.1)

    def q(reward, P, n):
        mean = P @ after
        spread = P @ after**2 - mean**2
        return reward + mean - math.sqrt(2 * spread * iota / n) - 7 * 0.3 * iota / (3 * n)

    q0 = [q(0.2, np.array([0.9, 0.1]), 100), q(0.3, np.array([0.5, 0.5]), 10)]
    assert actions[0, 0] == int(np.argmax(q0))
    # The value of a row never falls below what its worst successor is worth.
    assert values[0, 0] == pytest.approx(max(q0[actions[0, 0]], 0.2 + 0.6))
    q1 = q(0.5, np.array([0.5, 0.5]), 100)
    assert (actions[0, 1], values[0, 1]) == (0, pytest.approx(max(q1, 0.5 + 0.6)))


def test_noise_enters_the_tight_penalty_as_stated():
    """One state is worth 10, the other 0, counts are large: the three terms of the module's formula."""
    shape = Shape(2, 1, 2, rewards=(0.0, 1.0))
    counts = np.zeros((2, 2, 1, 2))
    counts[0, :, 0] = [[6000.0, 4000.0], [10000.0, 0.0]]
    counts[1, :, 0] = 5000.0
    known = np.array([[[0.0], [0.0]], [[1.0], [0.0]]])
    _, values = planned(
        APVI(penalty="tight", failure_probability=0.2), release(counts, public=known, width=3.0, variance=1.0), shape
    )
    iota, n, E, W, k = math.log(2 * 2 * 2 / 0.1), 10_000.0, 3.0, 3.0 * math.sqrt(2), 2
    m, spread = n - W, 0.24
    gamma = math.sqrt(2 * iota / m) * (math.sqrt(spread) + math.sqrt(k * E / n)) + 7 * iota / (3 * m) + k * E / n
    assert values[0, 0] == pytest.approx(0.6 - gamma)


def test_the_penalty_as_printed():
    shape = Shape(2, 1, 2)
    counts = np.full((2, 2, 1, 2), 5e7)
    known = np.array([[[0.0], [0.0]], [[1.0], [0.0]]])
    given = release(counts, public=known, width=3.0, variance=1.0)
    iota, n, E = math.log(2 * 2 * 2 / 0.1), 1e8, 6.0
    for name, spread in (("bernstein", 0.25), ("hoeffding", 4.0)):
        _, values = planned(APVI(penalty=name, failure_probability=0.2), given, shape)
        gamma = math.sqrt(2 * iota * spread / (n - E)) + 16 * 2 * 2 * E * iota / n
        assert values[0, 0] == pytest.approx(0.5 - gamma, abs=1e-9)


def test_unknown_actions_are_avoided_and_worth_nothing_more_than_their_worst_successor():
    counts = COUNTS.copy()
    counts[0, 1] = [[0, 0], [2, 0]]
    actions, values = planned(TIGHT, release(counts, public=REWARDS, width=5.0, variance=4.0))
    assert actions[0, 1] == 1  # seen twice, and the other never
    assert values[0, 1] == pytest.approx(0.1 + 0.6)


def test_the_argmax_does_not_clip():
    """Few data make every lower bound negative; the better action still wins."""
    counts = np.zeros((2, 2, 2, 2))
    counts[0] = [[[1, 1], [2, 0]], [[2, 0], [1, 1]]]
    known = np.array([np.zeros((2, 2)), [[1.0, 1.0], [0.0, 0.0]]])
    actions, values = planned(TIGHT, release(counts, public=known))
    assert actions[0].tolist() == [1, 0]
    assert (values[0] == 0).all()


def test_private_rewards_are_estimated_pessimistically():
    counts = COUNTS * 100.0
    rewards = REWARDS * counts.sum(axis=3)
    _, known = planned(TIGHT, release(counts, public=REWARDS))
    actions, private = planned(TIGHT, release(counts, rewards, width=1.0, variance=1.0))
    assert (private <= known + 1e-12).all()
    assert (known - private).max() < 0.3
    assert actions[1].tolist() == [0, 1]


def test_the_end_is_a_successor_that_is_worth_nothing():
    shape = Shape(1, 1, 2)
    counts = np.array([[[[60000.0]]], [[[0.0]]]])
    given = release(counts, public=[[[0.0]], [[1.0]]], visits=[[[100000.0]], [[60000.0]]])
    assert planned(TIGHT, given, shape)[1][0, 0] == pytest.approx(1.0)
    assert planned(APVI(penalty="tight", ends=True), given, shape)[1][0, 0] == pytest.approx(0.6, abs=0.02)


def test_a_table_of_visits_is_weighed_against_the_sum_of_successors():
    """gls, by hand: x = y + g (z - sum y) / k with g = k s2 / (k s2 + s1)."""
    noisy = np.array([[[[40.0, 20.0]]], [[[0.0, 0.0]]]])
    shape = Shape(2, 1, 2)
    counts = np.broadcast_to(noisy, (2, 2, 1, 2)).copy()
    counts[0, :] = [40.0, 20.0]
    given = release(
        counts, public=np.zeros((2, 2, 1)), visits=np.full((2, 2, 1), 72.0), ends=np.zeros((2, 2, 1)), variance=2.0
    )

    model = estimate_model(APVI(), shape, given)
    shift = (2 * 2 / (2 * 2 + 2)) * 12 / 2
    np.testing.assert_allclose(model.counts[0], 60 + 2 * shift)
    projected = estimate_model(APVI(repair="projection"), shape, given)
    np.testing.assert_allclose(projected.counts[0], project_counts([40.0, 20.0], 72.0, 0.0, truncate=True).sum())


def test_the_cells_behind_a_count_are_never_understated():
    one = release(np.ones((2, 2, 2, 2)), np.ones((2, 2, 2)))
    cells = count_cells(SHAPE, one)
    assert cells.transition[:, 0].tolist() == [2, 0]
    assert cells.visit[:, 0].tolist() == [6, 2]
    assert cells.reward[:, 0].tolist() == [3, 1]
    apart = count_cells(SHAPE, release(np.ones((2, 2, 2, 2)), ends=np.zeros((2, 2, 2))))
    assert (apart.transition[:, 0].tolist(), apart.visit[:, 0].tolist()) == ([1, 0], [1, 1])
    pooled = count_cells(Shape(2, 2, 5, homogeneous=True), release(np.ones((1, 2, 2, 2))))
    assert (pooled.transition.min(), pooled.visit.min()) == (1, 3)


def test_before_any_release_it_plays_uniformly():
    learner = APVI()
    state = learner.init(Problem(SHAPE, 10), stream(0, 0, COINS))
    assert not isinstance(learner.policy(state), Policy)
    assert learner.ask(state).policy == learner.policy(state)


@pytest.mark.parametrize(
    "knobs", [{"penalty": "none"}, {"repair": "magic"}, {"penalty_scale": -1.0}, {"failure_probability": 0.0}]
)
def test_bad_knobs_are_refused(knobs):
    with pytest.raises(InvalidInput):
        APVI(**knobs)

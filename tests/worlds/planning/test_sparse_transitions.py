"""Sums over the few successors of a row are those over all of them."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.streams import stream
from discreet.learners import UCBVI
from discreet.learners.base import Problem, plan_into
from discreet.mechanisms.release import Statistics
from discreet.worlds import deep_sea
from discreet.worlds.planning.backward_induction import evaluate
from discreet.worlds.planning.sparse_transitions import (
    FewSuccessors,
    evaluate_by_few,
    few_successors,
    list_successors,
    spread_over_few,
    true_successors,
)

GROUPS, STATES, ACTIONS = 3, 30, 4
PAIRS = STATES * ACTIONS


def sparse_weights(density: float) -> np.ndarray:
    rng = np.random.default_rng(5)
    rows = GROUPS * PAIRS
    return rng.uniform(1, 9, (STATES, rows)) * (rng.random((STATES, rows)) < density)


@pytest.mark.parametrize("g", range(GROUPS))
def test_means_and_squares_are_those_over_all_successors(g):
    weights = sparse_weights(0.03)
    few = few_successors(GROUPS, STATES, ACTIONS)
    list_successors(few, weights, PAIRS)
    assert few.listed[0] == 1
    here = weights[:, g * PAIRS : (g + 1) * PAIRS]
    total = here.sum(axis=0)
    inverse = np.divide(1.0, total, out=np.zeros(PAIRS), where=total > 0)
    following = np.random.default_rng(6).uniform(0, 5, STATES)
    mean, spread = np.full(PAIRS, 7.0), np.full(PAIRS, 7.0)
    spread_over_few(few, g, here, inverse, following, mean, spread)
    expected = (following @ here) * inverse
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
    np.testing.assert_allclose(spread, (here * (following[:, None] - expected) ** 2).sum(axis=0), rtol=1e-12)
    other = weights[:, (g + 1) % GROUPS * PAIRS :][:, :PAIRS]  # the comparison sees the weights of another group
    assert np.abs((following @ other) * inverse - mean).max() > 0.1


def test_many_successors_and_small_worlds_are_not_listed():
    few = few_successors(GROUPS, STATES, ACTIONS)
    list_successors(few, sparse_weights(0.2), PAIRS)
    assert few.listed[0] == 0
    assert few_successors(1, 10, 4).pairs.size == 0


def statistics_of(world: discreet.TabularWorld, noise: float = 0.0) -> Statistics:
    """Counts as they would be after some hundred visits of every row."""
    rng = np.random.default_rng(8)
    rows, states = world.shape.states * world.shape.actions, world.shape.states
    visits = rng.integers(20, 300, rows)
    laws = np.asarray(world.transitions).reshape(rows, states)
    counts = np.stack([rng.multinomial(n, law) for n, law in zip(visits, laws, strict=True)])
    rewards = rng.binomial(visits, np.clip(np.asarray(world.means).reshape(rows), 0, 1)).astype(float)
    deviations = (np.full(rows, noise) for _ in range(3))
    return Statistics(visits.astype(float), np.ascontiguousarray(counts.T.astype(float)), rewards, *deviations)


@pytest.mark.parametrize(("noise", "listed"), [(0.0, 1), (3.0, 0)])
def test_a_plan_by_few_successors_is_the_plan_by_all(noise, listed):
    world = deep_sea(7)
    shape, statistics, plans = world.shape, statistics_of(world, noise), []
    for shortcut in (True, False):
        arrays = UCBVI().arrays(Problem(shape, 1_000))
        arrays.clock[0] = 500
        if not shortcut:
            few = arrays.few
            arrays = arrays._replace(few=FewSuccessors(few.first, np.zeros(0, np.int64), few.listed))
        values, actions = np.zeros((shape.horizon + 1, shape.states)), np.zeros((shape.horizon, shape.states), np.int64)
        plan_into(arrays, statistics, stream(1, 2, 3), values, actions)
        assert arrays.few.listed[0] == (listed if shortcut else 0)
        plans.append((values, actions))
    np.testing.assert_allclose(plans[0][0], plans[1][0], rtol=1e-12)
    np.testing.assert_array_equal(plans[0][1], plans[1][1])


def some_successors() -> np.ndarray:
    """Transitions with one to four successors of sixteen."""
    rng = np.random.default_rng(10)
    transitions = np.zeros((2, 16, 3, 16))
    for row in transitions.reshape(-1, 16):
        count = rng.integers(1, 5)
        row[rng.choice(16, count, replace=False)] = rng.dirichlet(np.ones(count))
    return transitions


def test_values_by_few_successors_are_the_same_to_the_last_bit():
    transitions, rng = some_successors(), np.random.default_rng(9)
    means, actions = rng.random((2, 16, 3)), rng.integers(0, 3, (2, 16))
    values, by_few, by_fewer = (np.full((3, 16), 3.0) for _ in range(3))
    successors = true_successors(transitions)
    assert successors.shape[3] == 4
    evaluate(transitions, means, actions, values)
    evaluate_by_few(transitions, successors, means, actions, by_few)
    np.testing.assert_array_equal(values, by_few)
    evaluate_by_few(transitions, successors[..., :3].copy(), means, actions, by_fewer)
    assert np.abs(by_fewer - values).max() > 0.01  # the comparison sees that a successor is missing


def test_true_successors_have_all_of_the_probability_or_are_not_listed():
    transitions = some_successors()
    listed = np.take_along_axis(transitions, true_successors(transitions), axis=3)
    np.testing.assert_allclose(listed.sum(axis=3), 1.0)
    assert true_successors(np.array(deep_sea(6).transitions)).shape[3] == 1
    dense = np.full((1, 12, 2, 12), 1 / 12)
    assert true_successors(dense).shape[3] == 0

"""Occupancy measures: hand-computed, linear in value, mixed by weight; reachability by enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.base.policies import Mixture, Policy, StochasticPolicy, uniform_policy
from discreet.worlds import from_arrays, river_swim
from discreet.worlds.planning.backward_induction import occupancy, reachable, state_occupancy

S, A, H = 4, 3, 5


def world(per_step: bool):
    rng = np.random.default_rng(11)
    lead = (H,) if per_step else ()
    transitions = rng.dirichlet(np.full(S, 0.5), size=(*lead, S, A))
    rewards = rng.random((*lead, S, A))
    return from_arrays(transitions, rewards, horizon=H, start=rng.dirichlet(np.ones(S)))


def policies():
    rng = np.random.default_rng(12)
    first, second = (Policy(rng.integers(A, size=(H, S))) for _ in range(2))
    return [first, StochasticPolicy(rng.dirichlet(np.ones(A), size=(H, S))), Mixture((first, second), [0.3, 0.7])]


def test_two_steps_by_hand():
    river = river_swim(states=3, horizon=3)
    right = Policy(np.ones((3, 3), dtype=np.int64))
    expected = [[1, 0, 0], [0.4, 0.6, 0], [0.4 * 0.4 + 0.6 * 0.05, 0.4 * 0.6 + 0.6 * 0.6, 0.6 * 0.35]]
    np.testing.assert_allclose(state_occupancy(river.transitions, river.start, right), expected, rtol=1e-14)


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("index", range(3), ids=["deterministic", "stochastic", "mixture"])
def test_value_is_linear_in_the_occupancy(per_step, index):
    tabular, policy = world(per_step), policies()[index]
    measure = occupancy(tabular.transitions, tabular.start, policy)
    assert measure.shape == (H, S, A)
    np.testing.assert_allclose(measure.sum(axis=(1, 2)), 1, rtol=1e-12)
    states = state_occupancy(tabular.transitions, tabular.start, policy)
    np.testing.assert_allclose(measure.sum(axis=2), states, rtol=1e-12)
    assert (measure * tabular.means).sum() == pytest.approx(tabular.value(policy), rel=1e-12)


def test_a_deterministic_policy_and_its_table_have_one_measure():
    tabular, policy = world(True), policies()[0]
    a = occupancy(tabular.transitions, tabular.start, policy)
    b = occupancy(tabular.transitions, tabular.start, policy.stochastic(A))
    np.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize("per_step", [False, True])
def test_reachable_is_what_the_uniform_policy_visits(per_step):
    river = river_swim(states=5, horizon=4).with_time(homogeneous=not per_step)
    mask = reachable(river.transitions, river.start, 4)
    assert (mask == (occupancy(river.transitions, river.start, uniform_policy(river.shape)) > 0)).all()
    # One state further per step: 1 + 2 + 3 + 4 states with two actions each.
    assert mask.sum() == 20


def test_reachability_follows_the_step():
    moves = np.zeros((3, 2, 1, 2))
    moves[0, :, 0, 1] = 1  # step 0 leads to state 1, step 1 to state 0
    moves[1:, :, 0, 0] = 1
    visited = reachable(moves, np.array([1.0, 0.0]), 3)[:, :, 0]
    assert visited.tolist() == [[True, False], [False, True], [True, False]]


def test_policies_that_do_not_fit_are_refused():
    tabular = world(True)
    for policy in (Policy([[0] * S]), Policy([[0]] * H), Policy([[A] * S] * H), StochasticPolicy([[[1.0]] * S])):
        with pytest.raises(InvalidInput, match="does not fit"):
            state_occupancy(tabular.transitions, tabular.start, policy)
    with pytest.raises(InvalidInput, match="does not fit"):
        reachable(tabular.transitions, tabular.start, H + 1)

"""Backward induction against the enumeration of every policy of tiny models; steps by successor against NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput
from discreet.base.streams import COINS, stream
from discreet.worlds.planning.backward_induction import (
    act_greedily,
    best_policy,
    evaluate,
    evaluate_stochastic,
    plan,
    rows_of_step,
    sum_over_successors,
)

S, A, H = 2, 3, 3


def model(groups: int, reward_groups: int | None = None, seed: int = 0):
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(S), size=(groups, S, A))
    means = rng.normal(size=(reward_groups or groups, S, A))
    return transitions, means


def at(table: np.ndarray, h: int) -> np.ndarray:
    return table[h] if len(table) > 1 else table[0]


def value_by_paths(transitions, means, probabilities, start):
    """The expected return summed over every path of states and actions."""
    total = 0.0
    for path in product(range(S), range(A), repeat=H):
        states, acts = path[::2], path[1::2]
        chance, reward = float(states[0] == start), 0.0
        for h in range(H):
            chance *= probabilities[h, states[h], acts[h]]
            if h + 1 < H:
                chance *= at(transitions, h)[states[h], acts[h], states[h + 1]]
            reward += at(means, h)[states[h], acts[h]]
        total += chance * reward
    return total


def all_policies():
    for choice in product(range(A), repeat=H * S):
        yield np.array(choice).reshape(H, S)


@pytest.mark.parametrize(("groups", "reward_groups"), [(1, 1), (H, H), (1, H), (H, 1)])
def test_plan_is_the_best_of_all_policies(groups, reward_groups):
    transitions, means = model(groups, reward_groups)
    values, actions = np.full((H + 1, S), np.nan), np.full((H, S), -1)
    plan(transitions, means, H, values, actions)
    best = np.full(S, -np.inf)
    other = np.empty((H + 1, S))
    for candidate in all_policies():
        evaluate(transitions, means, candidate, other)
        best = np.maximum(best, other[0])
    np.testing.assert_allclose(values[0], best, rtol=1e-13)
    evaluate(transitions, means, actions, other)
    np.testing.assert_allclose(other, values, rtol=1e-13)
    assert (values[H] == 0).all()


@pytest.mark.parametrize("groups", [1, H])
def test_evaluation_agrees_with_the_sum_over_paths(groups):
    transitions, means = model(groups, seed=1)
    rng = np.random.default_rng(2)
    probabilities = rng.dirichlet(np.ones(A), size=(H, S))
    actions = rng.integers(A, size=(H, S))
    values = np.full((H + 1, S), np.nan)
    evaluate_stochastic(transitions, means, probabilities, values)
    for start in range(S):
        assert values[0, start] == pytest.approx(value_by_paths(transitions, means, probabilities, start), rel=1e-12)
    evaluate(transitions, means, actions, values)
    for start in range(S):
        expected = value_by_paths(transitions, means, np.eye(A)[actions], start)
        assert values[0, start] == pytest.approx(expected, rel=1e-12)


def test_ties_go_to_the_lowest_action():
    transitions = np.full((1, S, A, S), 1 / S)
    means = np.zeros((1, S, A))
    means[0, 1] = 0.0, 1.0, 1.0
    values, actions = np.empty((H + 1, S)), np.empty((H, S), dtype=np.int64)
    plan(transitions, means, H, values, actions)
    assert (actions == [0, 1]).all()


def test_models_that_lose_mass_are_taken_as_they_are():
    transitions = np.full((1, S, A, S), 0.25)  # rows sum to one half
    means = np.ones((1, S, A))
    values, actions = np.empty((H + 1, S)), np.empty((H, S), dtype=np.int64)
    plan(transitions, means, H, values, actions)
    assert values[0, 0] == pytest.approx(1 + 0.5 + 0.25)


@pytest.mark.parametrize(("groups", "reward_groups"), [(1, 1), (H, H), (1, H), (H, 1)])
def test_the_best_policy_is_that_of_the_kernel(groups, reward_groups):
    transitions, means = model(groups, reward_groups, seed=3)
    values, actions = np.empty((H + 1, S)), np.empty((H, S), dtype=np.int64)
    plan(transitions, means, H, values, actions)
    for table in (transitions, means):
        table.flags.writeable = False
    policy, found = best_policy(transitions, np.asfortranarray(means), H)
    np.testing.assert_array_equal(policy.actions, actions)
    np.testing.assert_array_equal(found, values)
    if groups == reward_groups == 1:
        assert best_policy(transitions[0], means[0].tolist(), H)[0] == policy


@pytest.mark.parametrize(
    ("transitions", "rewards", "horizon"),
    [((S, A, S), (A, S), H), ((S, A), (S, A), H), ((2, S, A, S), (S, A), H), ((S, A, S), (H, S, A), H + 1)],
)
def test_tables_that_do_not_fit_each_other_are_no_model(transitions, rewards, horizon):
    with pytest.raises(InvalidInput, match="are no model"):
        best_policy(np.zeros(transitions), np.zeros(rewards), horizon)


@kernel
def _sums_of_step(transitions, groups, h, following, q):
    sum_over_successors(transitions, rows_of_step(groups, h, q.shape[0]), following, q)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize(("states", "actions"), [(1, 1), (2, 2), (5, 3), (17, 4)])
def test_sums_over_successors(groups, states, actions):
    rng = np.random.default_rng(0)
    pairs = states * actions
    transitions, following = rng.normal(size=(states, groups * pairs)), rng.normal(size=states)
    for h in range(4):
        q = np.full(pairs, np.nan)
        _sums_of_step(transitions, groups, h, following, q)
        own = transitions[:, h * pairs : (h + 1) * pairs] if groups > 1 else transitions
        np.testing.assert_allclose(q, following @ own, rtol=1e-12, atol=1e-12)


def test_greedy_actions_and_clipped_values():
    q = np.random.default_rng(1).normal(size=(9, 4))
    values, actions = np.zeros(9), np.zeros(9, np.int64)
    act_greedily(q, -0.1, 0.8, stream(0, 0, COINS), values, actions)
    np.testing.assert_array_equal(actions, q.argmax(axis=1))
    np.testing.assert_array_equal(values, np.clip(q.max(axis=1), -0.1, 0.8))


def test_exact_ties_are_fair():
    """Three of five actions tie: each is taken in a third of 30,000 states, within 5 deviations (false alarm 2e-6)."""
    q = np.tile([0.5, 1.0, 1.0, 0.2, 1.0], (30_000, 1))
    values, actions = np.zeros(len(q)), np.zeros(len(q), np.int64)
    act_greedily(q, 0.0, 2.0, stream(4, 0, COINS), values, actions)
    counts = np.bincount(actions, minlength=5)
    assert counts[0] == counts[3] == 0
    assert np.abs(counts[[1, 2, 4]] - 10_000).max() < 5 * np.sqrt(30_000 * 2 / 9)
    first_of_two_ties = q[:, :3].copy()  # a tie that a better action ends is no tie
    first_of_two_ties[:, :2], first_of_two_ties[:, 2] = 1.0, 1.5
    act_greedily(first_of_two_ties, 0.0, 2.0, stream(4, 0, COINS), values, actions)
    assert (actions == 2).all()

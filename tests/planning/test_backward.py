"""Backward induction against the enumeration of every policy of tiny models."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from discreet.planning.backward import evaluate, evaluate_stochastic, plan

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

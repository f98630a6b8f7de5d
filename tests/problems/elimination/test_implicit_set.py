"""Implicit policy sets against a linear programming solver and against the explicit set."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from discreet.base.errors import InvalidInput
from discreet.problems.elimination.coverage_design import Atoms, coverage_design
from discreet.problems.elimination.implicit_set import ImplicitSet
from discreet.problems.elimination.policy_factors import PolicyFactors

Floats = NDArray[np.float64]


def random_set(seed: int, slack: float, shape: tuple[int, int, int] | None = None) -> ImplicitSet:
    rng = np.random.default_rng(seed)
    H, X, A = shape or tuple(int(n) for n in rng.integers(1, 6, size=3))
    P = rng.dirichlet(np.full(X, 0.4), size=(H, X, A)) * rng.uniform(0.7, 1.0, size=(H, X, A, 1))
    P[P < 0.02] = 0.0
    start, rewards = rng.dirichlet(np.ones(X)), rng.uniform(size=(H, X, A))
    best = ImplicitSet(P, start, rewards, 0.0).best
    return ImplicitSet(P, start, rewards, best * (1 - slack))


def linear_program(policies: ImplicitSet, objective: Floats) -> float:
    """The same maximum over occupancies: flow conservation and one inequality."""
    H, X, A = objective.shape
    index = np.arange(H * X * A).reshape(H, X, A)
    flow, inflow = np.zeros((H * X, H * X * A)), np.zeros(H * X)
    inflow[:X] = policies.start
    for h in range(H):
        for x in range(X):
            flow[h * X + x, index[h, x]] = 1.0
            if h > 0:
                flow[h * X + x, index[h - 1].ravel()] -= policies.transitions[h - 1, :, :, x].ravel()
    scale = np.abs(objective).max()
    solution = linprog(
        -objective.ravel() / scale,
        A_ub=-policies.rewards.reshape(1, -1),
        b_ub=[-policies.minimum],
        A_eq=flow,
        b_eq=inflow,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return float(-solution.fun * scale)


@pytest.mark.parametrize("slack", [0.5, 0.1, 0.02, 0.0])
@pytest.mark.parametrize("seed", range(10))
def test_maximum_is_that_of_the_linear_program(seed: int, slack: float) -> None:
    policies = random_set(seed, slack)
    objective = np.random.default_rng(seed + 100).uniform(size=policies.rewards.shape)
    found = policies.maximise(objective)
    assert (found.occupancy[0] * objective).sum() == pytest.approx(linear_program(policies, objective), abs=1e-8)
    assert (found.occupancy[0] * policies.rewards).sum() >= policies.minimum - 1e-12
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.weights.min() >= 0


@pytest.mark.parametrize("seed", range(4))
def test_crude_argmaxes_are_those_of_the_linear_program(seed: int) -> None:
    policies = random_set(seed, 0.1, (4, 3, 2))
    for step in range(4):
        crude = policies.crude(step)
        atoms = policies.atoms(crude)
        assert ((atoms.occupancy * policies.rewards).sum(axis=(1, 2, 3)) >= policies.minimum - 1e-12).all()
        for i, (x, a) in enumerate(np.ndindex(3, 2)):
            objective = np.zeros((4, 3, 2))
            objective[step, x, a] = 1.0
            assert crude.occupancy[x, a] == pytest.approx(linear_program(policies, objective), abs=1e-8)
            assert atoms.occupancy[i, step, x, a] == pytest.approx(crude.occupancy[x, a], abs=1e-12)


def test_an_unreachable_pair_gets_the_best_policy() -> None:
    P = np.zeros((2, 2, 2, 2))
    P[:, 0, :, 0] = 1.0
    rewards = np.zeros((2, 2, 2))
    rewards[:, 0, 1] = 1.0
    crude = ImplicitSet(P, np.array([1.0, 0.0]), rewards, 1.0).crude(1)
    assert crude.occupancy[1].tolist() == [0.0, 0.0]
    assert crude.actions[1, 0, 0, :, 0].tolist() == [1, 1]
    assert crude.weights[1, 0].tolist() == [1.0, 0.0]


def explicit(policies: ImplicitSet, objective: Floats) -> tuple[Floats, Floats]:
    """Objective and value of every deterministic policy."""
    H, X, A = objective.shape
    factors = PolicyFactors(np.ones((H, X), dtype=np.bool_), A)
    P, start = policies.transitions, policies.start
    return factors.values(P, start, objective), factors.values(P, start, policies.rewards)


@pytest.mark.parametrize("seed", range(5))
def test_without_a_binding_bound_the_explicit_and_the_implicit_optimum_agree(seed: int) -> None:
    policies = random_set(seed, 1.0, (3, 2, 2))
    objective = np.random.default_rng(seed).uniform(size=(3, 2, 2))
    found = policies.maximise(objective)
    assert (found.occupancy[0] * objective).sum() == pytest.approx(explicit(policies, objective)[0].max(), rel=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_the_optimum_is_the_best_pair_of_explicit_policies(seed: int) -> None:
    policies = random_set(seed, 0.05, (3, 2, 2))
    objective = np.random.default_rng(seed).uniform(size=(3, 2, 2))
    gains, values = explicit(policies, objective)
    keeps = values >= policies.minimum
    best = survivors = gains[keeps].max()
    for c1, v1 in zip(gains[keeps], values[keeps]):
        share = (policies.minimum - values[~keeps]) / (v1 - values[~keeps])
        best = max(best, (share * c1 + (1 - share) * gains[~keeps]).max())
    found = (policies.maximise(objective).occupancy[0] * objective).sum()
    assert found == pytest.approx(best, rel=1e-12)
    assert found >= survivors - 1e-12


def test_design_over_an_implicit_set() -> None:
    policies = random_set(7, 0.1, (4, 3, 2))
    parts = [policies.atoms(policies.crude(h)) for h in range(4)]
    initial = Atoms(*(np.concatenate(fields) for fields in zip(*parts)))
    design = coverage_design(policies.maximise, initial)
    assert design.certificate <= 1.05
    assert (design.occupancy * policies.rewards).sum() >= policies.minimum - 1e-9
    reward = np.divide(1.0, design.occupancy, out=np.zeros((4, 3, 2)), where=design.occupancy > 0)
    worst = linear_program(policies, reward)
    assert worst / design.coordinates == pytest.approx(design.certificate, rel=1e-7)


def test_errors_name_what_is_wrong() -> None:
    policies = random_set(0, 0.1, (2, 2, 2))
    with pytest.raises(InvalidInput, match="minimum must not exceed the best value"):
        ImplicitSet(policies.transitions, policies.start, policies.rewards, policies.best + 0.01)
    with pytest.raises(InvalidInput, match="minimum must not exceed"):
        ImplicitSet(policies.transitions, policies.start, policies.rewards, float("nan"))
    with pytest.raises(InvalidInput, match=r"step must lie in 0\.\.1"):
        policies.crude(2)
    with pytest.raises(InvalidInput, match="objective must have shape"):
        policies.maximise(np.zeros((2, 2)))

from __future__ import annotations

import numpy as np
import pytest
from layered_instances import (
    RAGGED,
    SQUARE,
    WIDTHS,
    first_order_gap,
    random_box,
    random_policy,
    random_rows,
)
from scipy.optimize import brentq

from discreet.base.errors import InvalidInput
from discreet.problems.adversarial.barrier_program import BarrierSolution, solve_barrier_program
from discreet.problems.adversarial.layers import (
    Box,
    Layers,
    box_violation,
    confidence_box,
    flow_residual,
    occupancy,
    pair_occupancy,
)


def objective(q: np.ndarray, cost: np.ndarray) -> float:
    return float(cost @ q - np.log(q).sum())


def assert_certified(layers: Layers, solution: BarrierSolution, box: Box) -> None:
    assert solution.converged
    assert -1e-10 <= solution.gap <= 1e-6 * layers.triples
    assert flow_residual(layers, solution.occupancy) < 1e-12
    assert box_violation(layers, solution.occupancy, box) < 1e-12
    np.testing.assert_allclose(solution.policy.sum(axis=1), 1)
    np.testing.assert_allclose(solution.occupancy, occupancy(layers, solution.transitions, solution.policy), rtol=1e-12)


@pytest.mark.parametrize("layers", [SQUARE, RAGGED], ids=["square", "ragged"])
@pytest.mark.parametrize("width", [*WIDTHS, 1e-6])
@pytest.mark.parametrize("scale", [0.1, 1.0, 50.0])
def test_the_optimum_is_certified(layers: Layers, width: float, scale: float) -> None:
    rng = np.random.default_rng(int(10 * scale))
    for draw in range(5):
        box = random_box(layers, width, rng, zero_lower=draw % 2 == 1)
        q = occupancy(layers, random_rows(layers, rng), random_policy(layers, rng))
        losses = rng.random((layers.states, layers.actions)) / np.maximum(pair_occupancy(layers, q), 0.01)
        assert_certified(layers, solve_barrier_program(layers, losses, scale, q, box), box)


@pytest.mark.parametrize("width", [1.0, 0.03, 1e-9, 0.0])
def test_previous_occupancies_down_to_1e_12(width: float) -> None:
    rng = np.random.default_rng(2)
    smallest = 1.0
    for _ in range(5):
        policy = 10.0 ** rng.uniform(-12, 0, (SQUARE.states, SQUARE.actions))
        policy /= policy.sum(axis=1, keepdims=True)
        q = occupancy(SQUARE, random_rows(SQUARE, rng), policy)
        smallest = min(smallest, q.min())
        box = random_box(SQUARE, width, rng)
        assert_certified(SQUARE, solve_barrier_program(SQUARE, rng.random(policy.shape), 0.5, q, box), box)
    assert smallest < 1e-12


def test_signed_losses_as_large_as_the_analysis_allows() -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        box = random_box(RAGGED, 0.1, rng)
        q = occupancy(RAGGED, random_rows(RAGGED, rng), random_policy(RAGGED, rng))
        losses = rng.choice([-1.0, 1.0], (RAGGED.states, RAGGED.actions)) / pair_occupancy(RAGGED, q)
        assert_certified(RAGGED, solve_barrier_program(RAGGED, losses, 0.5, q, box), box)


def test_losses_far_beyond_the_analysis_need_a_sequence_of_programs() -> None:
    layers = Layers((1, 4, 4, 4, 4, 4, 4, 1), actions=2)
    rng = np.random.default_rng(1)
    most = 0
    for _ in range(10):
        box = random_box(layers, 0.3, rng)
        q = occupancy(layers, random_rows(layers, rng), random_policy(layers, rng))
        step = solve_barrier_program(layers, 1e4 * rng.normal(size=(layers.states, 2)), 1.0, q, box)
        assert_certified(layers, step, box)
        most = max(most, step.iterations)
    assert most > 100  # one search alone gives up there


@pytest.mark.parametrize("width", [1.0, 0.3, 0.03, 1e-6])
def test_first_order_optimality_independently_of_the_multipliers(width: float) -> None:
    rng = np.random.default_rng(4)
    box = random_box(RAGGED, width, rng)
    q = occupancy(RAGGED, random_rows(RAGGED, rng), random_policy(RAGGED, rng))
    losses = rng.random((RAGGED.states, RAGGED.actions))
    cost = RAGGED.spread(losses) + 1 / q
    now = solve_barrier_program(RAGGED, losses, 1.0, q, box, tolerance=1e-10).occupancy
    assert first_order_gap(RAGGED, cost - 1 / now, now, box) < 1e-4
    # The certificate is no formality: the optimum of slightly different losses does not pass it.
    other = solve_barrier_program(RAGGED, losses, 1.01, q, box, tolerance=1e-10).occupancy
    assert first_order_gap(RAGGED, cost - 1 / other, other, box) > 1e-3


def test_the_gap_is_what_an_early_stop_loses_at_most() -> None:
    rng = np.random.default_rng(5)
    box = random_box(SQUARE, 0.1, rng)
    q = occupancy(SQUARE, random_rows(SQUARE, rng), random_policy(SQUARE, rng))
    losses = 30 * rng.random((16, 3))
    cost = SQUARE.spread(losses) + 1 / q
    best = solve_barrier_program(SQUARE, losses, 1.0, q, box)
    early = solve_barrier_program(SQUARE, losses, 1.0, q, box, tolerance=0.3)
    lost = objective(early.occupancy, cost) - objective(best.occupancy, cost)
    assert lost > 1e-4
    assert lost - 1e-9 <= early.gap < np.inf


def test_one_step_has_a_closed_form() -> None:
    layers = Layers((1, 1), actions=5)
    rng = np.random.default_rng(6)
    q, losses = rng.dirichlet(np.ones(5)), rng.random((1, 5))
    cost = 2.0 * losses[0] + 1 / q
    shift = brentq(lambda s: np.sum(1 / (cost + s)) - 1, -cost.min() + 1e-9, 10.0, xtol=1e-14)
    box = confidence_box(layers, np.ones(5), 0.0)
    policy = solve_barrier_program(layers, losses, 2.0, q, box).policy
    np.testing.assert_allclose(policy[0], 1 / (cost + shift), rtol=1e-8)


def test_no_loss_and_the_same_box_leave_the_occupancy_alone() -> None:
    rng = np.random.default_rng(7)
    P = random_rows(RAGGED, rng)
    q = occupancy(RAGGED, P, random_policy(RAGGED, rng))
    box = confidence_box(RAGGED, P, 0.05)
    step = solve_barrier_program(RAGGED, np.zeros((RAGGED.states, 2)), 1.0, q, box)
    np.testing.assert_allclose(step.occupancy, q, rtol=1e-5)


def test_a_chain_of_steps_stays_feasible_and_certified() -> None:
    rng = np.random.default_rng(8)
    P = random_rows(SQUARE, rng)
    q = occupancy(SQUARE, SQUARE.uniform_transitions(), np.full((16, 3), 1 / 3))
    for k in range(100):
        box = confidence_box(SQUARE, P, 1 / np.sqrt(k + 1))
        visited = rng.random((16, 3)) < 0.3
        step = solve_barrier_program(SQUARE, visited / np.maximum(pair_occupancy(SQUARE, q), 1e-3), 0.1, q, box)
        assert_certified(SQUARE, step, box)
        q = step.occupancy


def test_inputs_are_checked() -> None:
    box = confidence_box(SQUARE, SQUARE.uniform_transitions(), 0.1)
    q = occupancy(SQUARE, SQUARE.uniform_transitions(), np.full((16, 3), 1 / 3))
    with pytest.raises(InvalidInput, match="rate"):
        solve_barrier_program(SQUARE, np.zeros((16, 3)), 0.0, q, box)
    with pytest.raises(InvalidInput, match="losses"):
        solve_barrier_program(SQUARE, np.zeros((3, 16)), 1.0, q, box)
    box.upper[0] = box.lower[0] = 0.0
    box.upper[1] = 1.0
    with pytest.raises(InvalidInput, match="above 0"):
        solve_barrier_program(SQUARE, np.zeros((16, 3)), 1.0, q, box)

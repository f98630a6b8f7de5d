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
from discreet.problems.adversarial.entropy_program import (
    leader_reference,
    mirror_reference,
    solve_entropy_program,
    tilt_row,
)
from discreet.problems.adversarial.layers import Layers, box_violation, confidence_box, flow_residual, occupancy


def objective(q: np.ndarray, ref: np.ndarray) -> float:
    return float(np.sum(q * (np.log(np.maximum(q, 1e-300)) - ref)))


def test_rows_solve_their_box_constrained_problem() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        S = int(rng.integers(2, 9))
        centre = rng.dirichlet(np.full(S, 0.5))
        width = rng.choice([1.0, 0.2, 0.01]) * rng.random(S)
        lower, upper = np.maximum(0, centre - width), np.minimum(1, centre + width)
        w = rng.standard_normal(S) * rng.choice([1, 10, 400])
        p, free = np.full(S, np.nan), np.zeros(S, dtype=bool)
        value, mass = tilt_row(w, lower, upper, 0, S, p, free)

        def clipped(theta: float, w: np.ndarray = w, lo: np.ndarray = lower, hi: np.ndarray = upper) -> np.ndarray:
            return np.exp(np.clip(theta + w, np.log(np.maximum(lo, 1e-320)), np.log(np.maximum(hi, 1e-320))))

        theta = brentq(lambda t: clipped(t).sum() - 1, -w.max() - 800, -w.min() + 800, xtol=1e-13, rtol=1e-15)
        np.testing.assert_allclose(p, clipped(theta), atol=1e-9)
        assert (p >= lower).all()
        assert (p <= upper).all()
        assert p.sum() == pytest.approx(1, abs=1e-14)
        assert mass == pytest.approx(p[free].sum(), abs=1e-15)
        assert value == pytest.approx(np.sum(p * w) - np.sum(p[p > 0] * np.log(p[p > 0])), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("layers", [SQUARE, RAGGED], ids=["square", "ragged"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("spread", [1, 20, 200, 1000])
def test_the_optimum_is_certified_from_a_cold_start(layers: Layers, width: float, spread: float) -> None:
    rng = np.random.default_rng(int(spread))
    for draw in range(5):
        box = random_box(layers, width, rng, zero_lower=draw % 2 == 1)
        ref = leader_reference(layers, rng.random((layers.states, layers.actions)), spread)
        solution = solve_entropy_program(layers, ref, box)
        assert solution.converged
        assert solution.residual <= 1e-9
        assert -1e-11 * spread <= solution.gap <= 1e-8 * max(1.0, spread)
        assert flow_residual(layers, solution.occupancy) < 1e-12
        assert box_violation(layers, solution.occupancy, box) < 1e-12
        np.testing.assert_allclose(solution.policy.sum(axis=1), 1)
        np.testing.assert_allclose(
            solution.occupancy, occupancy(layers, solution.transitions, solution.policy), atol=1e-15
        )


@pytest.mark.parametrize("width", [1.0, 0.3, 0.03, 1e-9])
@pytest.mark.parametrize("spread", [1, 10])
def test_first_order_optimality_independently_of_the_dual(width: float, spread: float) -> None:
    rng = np.random.default_rng(7)
    box = random_box(RAGGED, width, rng)
    ref = leader_reference(RAGGED, rng.random((RAGGED.states, RAGGED.actions)), spread)
    q = solve_entropy_program(RAGGED, ref, box, tolerance=1e-12).occupancy
    assert first_order_gap(RAGGED, np.log(q) - ref, q, box) < 1e-7
    # The certificate is no formality: the optimum of slightly different losses does not pass it.
    other = solve_entropy_program(RAGGED, 1.01 * ref, box, tolerance=1e-12).occupancy
    assert first_order_gap(RAGGED, np.log(other) - ref, other, box) > 1e-6


def test_the_gap_bounds_what_any_feasible_point_gains() -> None:
    rng = np.random.default_rng(8)
    P = random_rows(SQUARE, rng)
    box = confidence_box(SQUARE, P, 0.1)
    ref = leader_reference(SQUARE, rng.random((16, 3)), 5.0)
    solution = solve_entropy_program(SQUARE, ref, box, tolerance=0.5)  # stops early: a wide gap
    best = solve_entropy_program(SQUARE, ref, box)
    reached = objective(solution.occupancy, ref)
    assert solution.gap >= reached - objective(best.occupancy, ref) - 1e-12
    assert solution.gap == pytest.approx(reached - objective(best.occupancy, ref), abs=0.5)
    assert solution.gap > 100 * best.gap
    for _ in range(200):
        rival = occupancy(SQUARE, P, random_policy(SQUARE, rng))
        assert objective(rival, ref) >= objective(best.occupancy, ref)


def test_a_warm_chain_agrees_with_cold_solves_in_fewer_steps() -> None:
    rng = np.random.default_rng(9)
    box = random_box(SQUARE, 0.1, rng)
    total, dual, warm_steps, cold_steps = 500 * rng.random((16, 3)), None, 0, 0
    for _ in range(100):
        total += rng.random((16, 3))
        ref = leader_reference(SQUARE, total, 0.01)
        warm = solve_entropy_program(SQUARE, ref, box, start=dual)
        cold = solve_entropy_program(SQUARE, ref, box)
        dual = warm.dual
        assert warm.converged
        np.testing.assert_allclose(warm.policy, cold.policy, atol=1e-6)
        warm_steps, cold_steps = warm_steps + warm.iterations, cold_steps + cold.iterations
    assert warm_steps < 0.75 * cold_steps


def test_a_hopeless_warm_start_is_given_up() -> None:
    rng = np.random.default_rng(10)
    rescued = 0
    for _ in range(20):
        box = random_box(SQUARE, 0.03, rng)
        ref = leader_reference(SQUARE, rng.random((16, 3)), 3000.0)
        start = rng.standard_normal(SQUARE.states + 1) * 3000.0
        start[[0, -1]] = 0
        solution = solve_entropy_program(SQUARE, ref, box, start=start)
        assert solution.converged
        rescued += solution.iterations > 200
    assert rescued > 0


def test_mirror_steps_without_bounds_are_the_leader_of_all_losses() -> None:
    rng = np.random.default_rng(11)
    box = confidence_box(RAGGED, RAGGED.uniform_transitions(), 1.0)
    total = np.zeros((RAGGED.states, RAGGED.actions))
    q = solve_entropy_program(RAGGED, RAGGED.spread(total), box).occupancy
    for _ in range(4):
        losses = rng.random(total.shape)
        total += losses
        q = solve_entropy_program(RAGGED, mirror_reference(RAGGED, q, losses, 0.7), box, tolerance=1e-12).occupancy
    leader = solve_entropy_program(RAGGED, leader_reference(RAGGED, total, 0.7), box, tolerance=1e-12).occupancy
    np.testing.assert_allclose(q, leader, atol=1e-10)


def test_one_step_is_exponential_weights() -> None:
    losses = np.array([[0.3, 1.0, 0.0, 2.0]])
    layers = Layers((1, 1), actions=4)
    box = confidence_box(layers, np.ones(4), 0.0)
    policy = solve_entropy_program(layers, leader_reference(layers, losses, 1.5), box).policy
    np.testing.assert_allclose(policy, np.exp(-1.5 * losses) / np.exp(-1.5 * losses).sum())


def test_inputs_are_checked() -> None:
    box = confidence_box(SQUARE, SQUARE.uniform_transitions(), 0.1)
    with pytest.raises(InvalidInput, match="reference"):
        solve_entropy_program(SQUARE, np.full(SQUARE.triples, -np.inf), box)
    with pytest.raises(InvalidInput, match="start"):
        solve_entropy_program(SQUARE, np.zeros(SQUARE.triples), box, start=[0.0])
    with pytest.raises(InvalidInput, match="previous"):
        mirror_reference(SQUARE, -np.ones(SQUARE.triples), np.zeros((16, 3)), 1.0)

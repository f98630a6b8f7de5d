"""The entropy and barrier programs against Clarabel, an interior-point solver that knows nothing of layers."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from discreet.problems.adversarial.barrier_program import solve_barrier_program
from discreet.problems.adversarial.entropy_program import leader_reference, mirror_reference, solve_entropy_program
from discreet.problems.adversarial.layers import Box, Layers, box_violation, confidence_box, flow_residual, occupancy

MISSING = not (find_spec("cvxpy") and find_spec("clarabel"))
if not MISSING:
    import cvxpy

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(MISSING, reason="needs cvxpy with Clarabel: pip install 'discreet[bench]'"),
]

LAYERS = Layers((1, 4, 3, 5, 1), actions=3)
WIDTHS = (1.0, 0.3, 0.03, 1e-3)
UNIFORM = occupancy(LAYERS, LAYERS.uniform_transitions(), np.full((LAYERS.states, LAYERS.actions), 1 / 3))


def random_rows(rng: np.random.Generator) -> np.ndarray:
    blocks = []
    for S, wide in zip(LAYERS.sizes[:-1], LAYERS.sizes[1:]):
        blocks.append(0.15 / wide + 0.85 * rng.dirichlet(np.full(wide, 0.3), size=S * LAYERS.actions).ravel())
    return np.concatenate(blocks)


def constraints(q: Any, box: Box, typical: np.ndarray) -> list[Any]:
    """Flow and box constraints, written down from the definition and divided by a typical occupancy."""
    offset, first = LAYERS.arrays.offset, LAYERS.arrays.first
    pair = np.repeat(np.arange(LAYERS.pairs), np.diff(offset))
    state = pair // LAYERS.actions
    target = first[LAYERS.layer[state] + 1] + np.arange(LAYERS.triples) - offset[pair]
    states = np.arange(LAYERS.states)[:, None]
    out = (state == states).astype(float)
    spread = (pair[:, None] == pair).astype(float)
    flow = np.diag(1 / (out @ typical)) @ (out - (target == states))
    rows, eye = np.diag(1 / (spread @ typical)), np.eye(LAYERS.triples)
    known = slice(0, LAYERS.unknown)
    return [
        flow @ q == np.eye(LAYERS.states)[0],
        (rows @ (eye - np.diag(box.lower) @ spread))[known] @ q >= 0,
        (rows @ (np.diag(box.upper) @ spread - eye))[known] @ q >= 0,
    ]


def clarabel(objective: Any, q: Any, box: Box, typical: np.ndarray) -> tuple[np.ndarray, bool]:
    """(the minimiser, whether Clarabel itself calls it accurate)."""
    problem = cvxpy.Problem(cvxpy.Minimize(objective), constraints(q, box, typical))
    try:
        problem.solve(solver="CLARABEL")
    except cvxpy.SolverError:
        return np.full(LAYERS.triples, np.nan), False
    return np.asarray(q.value), problem.status == "optimal"


def random_box(width: float, rng: np.random.Generator, zero_lower: bool) -> Box:
    box = confidence_box(LAYERS, random_rows(rng), width)
    if zero_lower:
        box.lower[: LAYERS.unknown] *= rng.random(LAYERS.unknown) < 0.5
    return box


def assert_feasible(q: np.ndarray, box: Box) -> None:
    assert flow_residual(LAYERS, q) < 1e-12
    assert box_violation(LAYERS, q, box) < 1e-12


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("zero_lower", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("spread", [1.0, 20.0, 200.0])
def test_the_entropy_program(width: float, spread: float, zero_lower: bool) -> None:
    rng = np.random.default_rng(int(spread))
    box = random_box(width, rng, zero_lower)
    ref = leader_reference(LAYERS, rng.random((LAYERS.states, LAYERS.actions)), spread)
    ours = solve_entropy_program(LAYERS, ref, box)
    assert_feasible(ours.occupancy, box)
    q = cvxpy.Variable(LAYERS.triples)
    entropy = -cvxpy.sum(cvxpy.entr(q)) - ref @ q
    theirs, accurate = clarabel(entropy, q, box, UNIFORM)

    def value(point: np.ndarray) -> float:
        return float(np.sum(point * (np.log(np.maximum(point, 1e-300)) - ref)))

    reached = value(ours.occupancy)
    assert ours.gap <= 1e-7 * max(1.0, abs(reached))
    assert accurate or spread > 100
    if accurate:
        assert reached == pytest.approx(value(np.maximum(theirs, 0.0)), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("width", [0.3, 0.03])
def test_an_entropic_mirror_step(width: float) -> None:
    rng = np.random.default_rng(1)
    box = random_box(width, rng, False)
    previous = occupancy(LAYERS, random_rows(rng), rng.dirichlet(np.ones(3), LAYERS.states))
    losses = rng.random((LAYERS.states, LAYERS.actions))
    ours = solve_entropy_program(LAYERS, mirror_reference(LAYERS, previous, losses, 2.0), box).occupancy
    q = cvxpy.Variable(LAYERS.triples)
    divergence = cvxpy.sum(cvxpy.rel_entr(q, previous))
    theirs, accurate = clarabel(2.0 * LAYERS.spread(losses) @ q + divergence, q, box, UNIFORM)
    assert accurate

    def value(point: np.ndarray) -> float:
        return float(2.0 * LAYERS.spread(losses) @ point + np.sum(point * np.log(point / previous)))

    assert value(ours) == pytest.approx(value(np.maximum(theirs, 1e-300)), rel=1e-6, abs=1e-6)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("zero_lower", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("smallest", [1.0, 1e-4, 1e-12])
def test_the_barrier_program(width: float, smallest: float, zero_lower: bool) -> None:
    rng = np.random.default_rng(2)
    box = random_box(width, rng, zero_lower)
    policy = smallest ** rng.random((LAYERS.states, LAYERS.actions))
    policy *= rng.uniform(0.5, 1.0, policy.shape)
    previous = occupancy(LAYERS, random_rows(rng), policy / policy.sum(axis=1, keepdims=True))
    losses = 5 * rng.random(policy.shape)
    ours = solve_barrier_program(LAYERS, losses, 1.0, previous, box)
    assert_feasible(ours.occupancy, box)
    cost = LAYERS.spread(losses) + 1 / np.maximum(previous, 1e-14)
    value = float(cost @ ours.occupancy - np.log(ours.occupancy).sum())
    assert ours.gap <= 1e-6 * abs(value)
    # In units of the previous occupancy Clarabel's numbers are of order one.
    ratio = cvxpy.Variable(LAYERS.triples)
    scaled = (cost * previous) @ ratio - cvxpy.sum(cvxpy.log(ratio))
    theirs, accurate = clarabel(scaled, cvxpy.multiply(previous, ratio), box, previous)
    assert accurate or smallest < 1e-3
    if accurate:
        assert value == pytest.approx(float(cost @ theirs - np.log(theirs).sum()), rel=1e-6)

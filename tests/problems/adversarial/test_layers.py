from __future__ import annotations

import numpy as np
import pytest
from layered_instances import RAGGED, SQUARE, random_box, random_policy, random_rows

from discreet.base.errors import InvalidInput
from discreet.problems.adversarial.layers import (
    Box,
    Layers,
    add_pair,
    box_violation,
    check_box,
    confidence_box,
    envelope,
    factor_layered,
    flow_residual,
    intersect,
    occupancy,
    pair_occupancy,
    solve_layered,
)


def test_the_layout_of_ragged_layers() -> None:
    layers = Layers((1, 2, 3, 1), actions=2)
    assert layers.layer.tolist() == [0, 1, 1, 2, 2, 2, 3]
    assert layers.arrays.first.tolist() == [0, 1, 3, 6, 7]
    assert layers.arrays.offset.tolist() == [0, 2, 4, 7, 10, 13, 16, 17, 18, 19, 20, 21, 22]
    blocks = layers.split(np.arange(22.0))
    assert [block.shape for block in blocks] == [(1, 2, 2), (2, 2, 3), (3, 2, 1)]
    assert blocks[1][1, 0].tolist() == [10, 11, 12]
    assert layers.spread(np.arange(12.0).reshape(6, 2)).tolist()[7:13] == [3, 3, 3, 4, 4, 4]


@pytest.mark.parametrize("layers", [SQUARE, RAGGED, Layers((1, 1), 4)])
def test_the_forward_pass_agrees_with_matrix_products(layers: Layers) -> None:
    rng = np.random.default_rng(1)
    P, pi = random_rows(layers, rng), random_policy(layers, rng)
    q = occupancy(layers, P, pi)
    reach, start = np.ones(1), 0
    for P_h, q_h in zip(layers.split(P), layers.split(q)):
        pi_h = pi[start : start + len(reach)]
        np.testing.assert_allclose(q_h, reach[:, None, None] * pi_h[:, :, None] * P_h, atol=1e-15)
        start += len(reach)
        reach = np.einsum("x,xa,xay->y", reach, pi_h, P_h)
    assert flow_residual(layers, q) < 1e-15
    assert pair_occupancy(layers, q).sum() == pytest.approx(layers.horizon)


def test_the_flow_residual_sees_every_state() -> None:
    rng = np.random.default_rng(2)
    q = occupancy(RAGGED, random_rows(RAGGED, rng), random_policy(RAGGED, rng))
    for i in range(RAGGED.triples):
        bent = q.copy()
        bent[i] += 1e-3
        assert flow_residual(RAGGED, bent) == pytest.approx(1e-3, rel=1e-6)


def test_the_box_violation_is_zero_inside_and_measured_outside() -> None:
    rng = np.random.default_rng(3)
    P = random_rows(SQUARE, rng)
    box = confidence_box(SQUARE, P, 0.05)
    q = occupancy(SQUARE, P, random_policy(SQUARE, rng))
    assert box_violation(SQUARE, q, box) < 1e-16
    moved = P.copy()
    moved[0] += 0.06
    moved[1] -= 0.06
    assert box_violation(SQUARE, occupancy(SQUARE, moved, np.full((16, 3), 1 / 3)), box) == pytest.approx(0.01 / 3)


def test_a_confidence_box_is_cut_to_probabilities_and_knows_the_last_step() -> None:
    box = confidence_box(SQUARE, SQUARE.uniform_transitions(), 0.5)
    assert box.lower[: SQUARE.unknown].max() == 0
    assert box.upper[: SQUARE.unknown] == pytest.approx(0.7)
    assert (box.lower[SQUARE.unknown :] == 1).all()
    assert (box.upper[SQUARE.unknown :] == 1).all()


def test_the_running_intersection_narrows_and_resets_only_empty_rows() -> None:
    layers = Layers((1, 2, 1), actions=2)
    old = Box(np.array([0.1, 0.2, 0.0, 0.0, 1, 1, 1, 1.0]), np.array([0.8, 0.9, 0.2, 1.0, 1, 1, 1, 1.0]))
    new = Box(np.array([0.3, 0.0, 0.5, 0.1, 1, 1, 1, 1.0]), np.array([0.9, 0.7, 0.9, 0.5, 1, 1, 1, 1.0]))
    both = intersect(layers, old, new)
    assert both.lower[:4].tolist() == [0.3, 0.2, 0.5, 0.1]
    assert both.upper[:4].tolist() == [0.8, 0.7, 0.9, 0.5]
    assert old.lower[0] == 0.1  # the input is left alone


def test_a_row_is_reset_when_its_sums_leave_no_distribution() -> None:
    layers = Layers((1, 2, 1), actions=1)
    old = Box(np.array([0.6, 0.0, 1, 1]), np.array([1.0, 1.0, 1, 1]))
    new = Box(np.array([0.0, 0.5, 1, 1]), np.array([0.7, 1.0, 1, 1]))
    both = intersect(layers, old, new)
    assert both.lower[:2].tolist() == [0.0, 0.5]
    assert both.upper[:2].tolist() == [0.7, 1.0]


@pytest.mark.parametrize(
    ("lower", "upper"), [([0.6, 0.5], [1, 1]), ([0, 0], [0.4, 0.5]), ([0.5, 0], [0.4, 1]), ([-0.1, 0], [1, 1])]
)
def test_an_empty_box_is_refused_by_name(lower: list[float], upper: list[float]) -> None:
    layers = Layers((1, 2, 1), actions=1)
    with pytest.raises(InvalidInput, match="state 0, action 0"):
        check_box(layers, Box(np.array([*lower, 1, 1.0]), np.array([*upper, 1, 1.0])))


@pytest.mark.parametrize("sizes", [(1,), (2, 1), (1, 3, 2), (1, 0, 1)])
def test_layers_begin_and_end_with_one_state(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="sizes"):
        Layers(sizes, actions=2)


def test_a_negative_radius_is_refused() -> None:
    with pytest.raises(InvalidInput, match="radius"):
        confidence_box(SQUARE, SQUARE.uniform_transitions(), -0.1)


def test_random_boxes_hold_their_centre() -> None:
    box = random_box(RAGGED, 0.2, np.random.default_rng(4), zero_lower=True)
    assert (box.lower == 0).any()
    check_box(RAGGED, box)


def random_system(layers: Layers, rng: np.random.Generator) -> np.ndarray:
    """A positive definite matrix that couples neighbouring layers only."""
    n, layer = layers.states, layers.layer[:-1]
    root = rng.standard_normal((n, n)) * (np.abs(layer[:, None] - layer) <= 0)
    for h in range(layers.horizon - 1):
        touch = rng.standard_normal((n, 2)) * np.isin(layer, (h, h + 1))[:, None]
        root = np.hstack((root, touch))
    return root @ root.T + 1e-3 * np.eye(n)


@pytest.mark.parametrize("layers", [SQUARE, RAGGED, Layers((1, 1), 1)])
def test_the_solution_is_that_of_the_dense_matrix(layers: Layers) -> None:
    rng = np.random.default_rng(0)
    full, right = random_system(layers, rng), rng.standard_normal(layers.states)
    start = envelope(layers.arrays.first, layers.states)
    matrix, answer = np.tril(full), right.copy()
    assert factor_layered(matrix, start, 0.0)
    solve_layered(matrix, start, answer)
    np.testing.assert_allclose(answer, np.linalg.solve(full, right), rtol=1e-9)


def test_an_indefinite_matrix_is_reported() -> None:
    start = envelope(SQUARE.arrays.first, SQUARE.states)
    matrix = random_system(SQUARE, np.random.default_rng(1))
    matrix[7, 7] = -1.0
    assert not factor_layered(matrix, start, 0.0)


def test_a_pair_adds_its_terms_to_the_lower_triangle() -> None:
    rng = np.random.default_rng(2)
    t, k, matrix = rng.random(3), rng.random(3), np.zeros((6, 6))
    add_pair(matrix, 1, 2, 3, 0.7, t, k, 0.4)
    away, diagonal = np.array([0.0, 1.0, *-t, 0.0]), np.array([0.0, 0.0, *k, 0.0])
    full = 0.7 * np.outer(away, away) + np.diag(diagonal) - 0.4 * np.outer(diagonal, diagonal)
    np.testing.assert_allclose(matrix, np.tril(full), atol=1e-15)

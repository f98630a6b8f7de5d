from __future__ import annotations

import numpy as np
import pytest
from layered_instances import RAGGED, SQUARE

from discreet.adversarial.layer_matrix import add_pair, envelope, factor, solve
from discreet.adversarial.layers import Layers


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
    assert factor(matrix, start, 0.0)
    solve(matrix, start, answer)
    np.testing.assert_allclose(answer, np.linalg.solve(full, right), rtol=1e-9)


def test_an_indefinite_matrix_is_reported() -> None:
    start = envelope(SQUARE.arrays.first, SQUARE.states)
    matrix = random_system(SQUARE, np.random.default_rng(1))
    matrix[7, 7] = -1.0
    assert not factor(matrix, start, 0.0)


def test_a_pair_adds_its_terms_to_the_lower_triangle() -> None:
    rng = np.random.default_rng(2)
    t, k, matrix = rng.random(3), rng.random(3), np.zeros((6, 6))
    add_pair(matrix, 1, 2, 3, 0.7, t, k, 0.4)
    away, diagonal = np.array([0.0, 1.0, *-t, 0.0]), np.array([0.0, 0.0, *k, 0.0])
    full = 0.7 * np.outer(away, away) + np.diag(diagonal) - 0.4 * np.outer(diagonal, diagonal)
    np.testing.assert_allclose(matrix, np.tril(full), atol=1e-15)

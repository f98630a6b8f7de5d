from __future__ import annotations

import numpy as np
import pytest
from layered_instances import RAGGED, SQUARE, random_box, random_policy, random_rows

from discreet.problems.adversarial.barrier_program import Program, curvature, evaluate, new_point
from discreet.problems.adversarial.layers import Layers, occupancy


@pytest.mark.parametrize("width", [1.0, 0.3, 0.03, 0.0])
@pytest.mark.parametrize("layers", [SQUARE, RAGGED], ids=["square", "ragged"])
def test_gradient_and_curvature_are_the_derivatives_of_the_dual(layers: Layers, width: float) -> None:
    """A wrong matrix would still converge, only slower: compare it with differences."""
    rng = np.random.default_rng(2)
    box = random_box(layers, width, rng)
    q = occupancy(layers, random_rows(layers, rng), random_policy(layers, rng))
    program = Program(layers.arrays, 1 / q, *box)
    n = layers.states

    def at(y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        point = new_point(n, np.empty(layers.triples), layers.actions)
        value, matrix = evaluate(program, y, point), np.zeros((n, n))
        curvature(layers.arrays, point, matrix)
        return value, point.gradient.copy(), matrix

    y = np.append(0.1 * rng.normal(size=n), 0.0)
    _, gradient, matrix = at(y)
    full = matrix + np.tril(matrix, -1).T
    for x in range(n):
        above, below = y.copy(), y.copy()
        above[x] += 1e-6
        below[x] -= 1e-6
        (high, up, _), (low, down, _) = at(above), at(below)
        assert (high - low) / 2e-6 == pytest.approx(gradient[x], rel=1e-5, abs=1e-6)
        np.testing.assert_allclose((up - down) / 2e-6, full[x], rtol=1e-4, atol=1e-6)

"""The matrix mechanism against the factorisation written out as matrices, and its stated error and sensitivity."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.accumulators.compiled import advance, draws_at
from discreet.accumulators.matrix import (
    Matrix,
    MatrixNoise,
    coefficients,
    column_norm,
    exponential_sum,
    prefix_errors,
    square_root,
)
from discreet.noise import Gaussian, add_noise
from discreet.privacy.sensitivity import Sensitivity
from discreet.streams import NOISE, stream


def toeplitz(column):
    n = len(column)
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])


def test_the_square_root_is_one():
    root = toeplitz(square_root(30))
    np.testing.assert_allclose(root @ root, np.tril(np.ones((30, 30))), atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_the_recurrence_is_the_factorisation(n):
    """Noise of release t = (A C^-1 z)_t, and its variance is the square of row t of A C^-1."""
    C = toeplitz(coefficients(exponential_sum(n), n))
    B = np.tril(np.ones((n, n))) @ np.linalg.inv(C)
    z = np.random.default_rng(0).normal(size=n)
    noise = MatrixNoise(Matrix(n), 3)
    total = 0.0
    for t in range(n):
        total = total + noise.step(np.array([1]), z[t : t + 1])[0]
        assert total == pytest.approx((B @ z)[t], abs=1e-9)
        assert Matrix(n).errors()[t + 1] == pytest.approx((B[t] ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_the_stated_column_norm_is_that_of_the_first_column(n):
    column = coefficients(exponential_sum(n), n)
    assert column_norm(exponential_sum(n), n) == pytest.approx(np.sqrt((column**2).sum()), rel=1e-9)
    moved = Matrix(n).sensitivity(Sensitivity.unit_shifts(2, 2))
    assert moved.l2 == pytest.approx(2 * np.sqrt((column**2).sum()), rel=1e-9)


@pytest.mark.parametrize("n", [100, 20_000, 1_000_000])
def test_few_buffers_lose_almost_nothing_against_the_exact_square_root(n):
    exact = np.cumsum(square_root(n) ** 2)
    ours = column_norm(exponential_sum(n), n) ** 2 * prefix_errors(n)[1:]
    assert ours[-1] == pytest.approx(exact[-1] * exact[-1], rel=1e-3)
    assert ours.mean() == pytest.approx(exact[-1] * exact.mean(), rel=1e-3)
    assert len(exponential_sum(n).decays) <= 10


def test_a_cell_that_is_left_out_keeps_its_clock():
    """Its noise is that of its own steps only, as if the others had not happened."""
    z = np.random.default_rng(3).normal(size=6)
    alone, shared = MatrixNoise(Matrix(6), 1), MatrixNoise(Matrix(6), 2)
    for t in range(6):
        shared.step(np.array([0]), z[:1])
        if t % 2:
            mine = shared.step(np.array([1]), z[t : t + 1])
            np.testing.assert_allclose(mine, alone.step(np.array([0]), z[t : t + 1]))


def test_the_compiled_form_takes_the_same_steps():
    law, size, n = Gaussian(2.0), 5, 40
    arrays, cells, draws = Matrix(n).arrays(size), np.zeros(size), stream(1, 0, NOISE)
    same, plain, noise = stream(1, 0, NOISE), MatrixNoise(Matrix(n), size), np.zeros(size)
    for t in range(1, n + 1):
        advance(arrays, t, law.kernel(), cells, draws)
        fresh = np.zeros(size)
        add_noise(law.kernel(), fresh, same)
        noise += plain.step(np.arange(size), fresh)
        np.testing.assert_allclose(cells, noise, atol=1e-9)
        assert draws_at(arrays, t) == prefix_errors(n)[t]

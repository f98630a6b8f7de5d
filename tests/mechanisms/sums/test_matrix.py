"""The matrix mechanism against the factorisation written out as matrices, and its stated error and sensitivity."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import NOISE, stream
from discreet.mechanisms.counts.first_visit import FirstVisitTables
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.mechanisms.sums.accumulator import advance, draws_at
from discreet.mechanisms.sums.matrix import (
    Matrix,
    Mixing,
    Unmixing,
    coefficients,
    column_norm,
    exponential_sum,
    fraction_bits,
    square_root,
)
from discreet.noise import GridGaussian, add_noise
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.registry import build, forget, recipes, register
from discreet.recipes.targets import Central


def toeplitz(column):
    n = len(column)
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])


def test_the_square_root_is_one():
    root = toeplitz(square_root(30))
    np.testing.assert_allclose(root @ root, np.tril(np.ones((30, 30))), atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_unmixing_is_the_factorisation(n):
    """Release t = (A C^-1 y)_t, and the variance of its noise is the square of row t of A C^-1."""
    C = toeplitz(coefficients(exponential_sum(n), n))
    B = np.tril(np.ones((n, n))) @ np.linalg.inv(C)
    y = np.random.default_rng(0).normal(size=n)
    unmixing = Unmixing(Matrix(n), 3)
    total = 0.0
    for t in range(n):
        total = total + unmixing.step(np.array([1]), y[t : t + 1])[0]
        assert total == pytest.approx((B @ y)[t], abs=1e-9)
        assert Matrix(n).errors()[t + 1] == pytest.approx((B[t] ** 2).sum(), rel=1e-9)


def exactly_mixed(sums, bits, counts):
    """2^bits C x in rational numbers."""
    weights = [Fraction(int(w), 2 ** int(p)) for w, p in zip(sums.numerators, sums.places, strict=True)]
    decays = [1 - Fraction(1, 2 ** int(b)) for b in sums.shifts]
    column = [Fraction(1)] + [
        sum(w * l**j for w, l in zip(weights, decays, strict=True)) for j in range(1, len(counts))
    ]
    return [2**bits * sum(column[j] * int(counts[t - j]) for j in range(t + 1)) for t in range(len(counts))]


@pytest.mark.parametrize("bits", [3, 32])
def test_mixtures_are_whole_steps_near_the_exact_ones(bits):
    n, matrix = 60, Matrix(60, bits=bits)
    counts = np.random.default_rng(2).integers(-3, 300, n)
    mixing = Mixing(matrix, 1)
    ours = [mixing.step(np.array([0]), counts[t : t + 1].astype(float))[0] * 2.0**bits for t in range(n)]
    exact = exactly_mixed(exponential_sum(n), bits, counts)
    off = np.array([float(Fraction(a) - b) for a, b in zip(ours, exact, strict=True)])
    sums = exponential_sum(n)
    assert all(a == round(a) for a in ours)
    assert off.min() > -len(sums.shifts)
    assert off.max() < sums.weights @ 2.0**sums.shifts
    assert matrix.slack == pytest.approx(2.0**-bits * (sums.weights @ 2.0**sums.shifts + len(sums.shifts)))
    assert np.abs(off).max() > 0.5  # floors do happen, so the bounds say something


@pytest.mark.parametrize("bits", [2, 4, 32])
def test_two_neighbours_stay_within_the_stated_sensitivity(bits):
    """On a fine grid the bound is tight; on a coarse one it would be broken without the slack."""
    n, cells, rng = 50, 4, np.random.default_rng(4)
    matrix, everywhere = Matrix(n, bits=bits), np.arange(cells)
    own = Sensitivity.unit_shifts(2, 2)
    worst = 0.0
    for _ in range(20):
        counts = rng.integers(0, 9, (n, cells)).astype(float)
        other, day = counts.copy(), rng.integers(0, 3)
        other[day] += [1, 1, -1, -1]
        first, second = Mixing(matrix, cells), Mixing(matrix, cells)
        moved = [first.step(everywhere, a) - second.step(everywhere, b) for a, b in zip(counts, other, strict=True)]
        worst = max(worst, float(np.sqrt(np.square(moved).sum())))
    stated = matrix.sensitivity(own).l2
    assert worst <= stated
    assert worst > (0.99 * stated if bits == 32 else own.l2 * matrix.column_norm)


def test_releases_are_the_true_sums_and_the_noise_when_the_grid_is_fine():
    n, matrix, rng = 200, Matrix(200), np.random.default_rng(5)
    mixing, unmixing, everywhere = Mixing(matrix, 3), Unmixing(matrix, 3), np.arange(3)
    counts = rng.integers(0, 50, (n, 3)).astype(float)
    released = np.cumsum([unmixing.step(everywhere, mixing.step(everywhere, row)) for row in counts], axis=0)
    assert np.abs(released - np.cumsum(counts, axis=0)).max() <= matrix.drift + 1e-9
    assert matrix.drift < 1e-5


def test_counts_that_leave_no_room_are_refused():
    assert fraction_bits(20_000 * 20) == 32
    assert fraction_bits(1 << 30) == 52 - 31
    with pytest.raises(Unsupported, match="use blocks"):
        fraction_bits(1 << 52)


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_the_stated_column_norm_is_that_of_the_first_column(n):
    column = coefficients(exponential_sum(n), n)
    assert column_norm(exponential_sum(n), n) == pytest.approx(np.sqrt((column**2).sum()), rel=1e-9)
    moved = Matrix(n).sensitivity(Sensitivity.unit_shifts(2, 2))
    assert moved.l2 == pytest.approx(2 * np.sqrt((column**2).sum()), rel=1e-6)
    assert moved.l2 > 2 * np.sqrt((column**2).sum())


@pytest.mark.parametrize("n", [100, 20_000, 1_000_000])
def test_few_buffers_lose_almost_nothing_against_the_exact_square_root(n):
    exact = np.cumsum(square_root(n) ** 2)
    shown = Matrix(n).sensitivity(Sensitivity(1, 1, 1)).l2
    ours = shown**2 * Matrix(n).errors()[1:]
    assert ours[-1] == pytest.approx(exact[-1] * exact[-1], rel=1e-3)
    assert ours.mean() == pytest.approx(exact[-1] * exact.mean(), rel=1e-3)
    assert len(exponential_sum(n).decays) <= 11


def test_a_cell_that_is_left_out_keeps_its_clock():
    """Its numbers are those of its own steps only, as if the others had not happened."""
    x = np.random.default_rng(3).integers(0, 9, 6).astype(float)
    for kind in (Mixing, Unmixing):
        alone, shared = kind(Matrix(6), 1), kind(Matrix(6), 2)
        for t in range(6):
            shared.step(np.array([0]), x[:1])
            if t % 2:
                mine = shared.step(np.array([1]), x[t : t + 1])
                np.testing.assert_allclose(mine, alone.step(np.array([0]), x[t : t + 1]))


def test_the_compiled_form_takes_the_same_steps():
    law, size, n = GridGaussian(2.0, 32), 5, 40
    counts = np.random.default_rng(6).integers(0, 3, (n, size)).astype(float)
    arrays, cells, draws = Matrix(n).arrays(size), np.zeros(size), stream(1, 0, NOISE)
    same, released = stream(1, 0, NOISE), np.zeros(size)
    mixing, unmixing = Mixing(Matrix(n), size), Unmixing(Matrix(n), size)
    for t in range(1, n + 1):
        cells += counts[t - 1]
        advance(arrays, t, law.kernel(), cells, draws)
        published = mixing.step(np.arange(size), counts[t - 1])
        add_noise(law.kernel(), published, same)
        released += unmixing.step(np.arange(size), published)
        np.testing.assert_allclose(cells, released, atol=1e-9)
        assert draws_at(arrays, t) == Matrix(n).errors()[t]


@pytest.mark.parametrize("releases", [1, 2, 3, 10, 1000])
def test_no_norms_of_a_user_are_refused_and_none_is_understated(releases):
    """The norms of every shape of S <= 7, A <= 3, H <= 11 in every encoder that is mixed: 155 of 231 were refused."""
    matrix, moved = Matrix(releases), set()
    for S, A, H, pooled in product(range(1, 8), range(1, 4), range(1, 12), (False, True)):
        shape = Shape(S, A, H, homogeneous=pooled)
        moved |= {JointHistogram(shape).sensitivity(), TwoTables(shape).sensitivity()}
        if pooled:
            moved |= {FirstVisitTables(shape).sensitivity(), TwoTables(shape, first_visit=True).sensitivity()}
    columns = [Fraction(c) for c in coefficients(exponential_sum(releases), releases).tolist()]
    floors, square = Fraction(matrix.slack), sum(c * c for c in columns)
    for own in moved:
        said = matrix.sensitivity(own)  # would be refused
        l1, linf = Fraction(own.l1), Fraction(own.linf)
        assert Fraction(said.l1) >= l1 * (sum(columns) + floors * releases)
        assert Fraction(said.linf) >= linf + floors
        # (a + b)^2 with a^2 = L2^2 |C|^2 and b^2 = slack^2 L1 n: at least a^2 + b^2 + 2 a b, all exact but the root.
        a, b = Fraction(own.l2) ** 2 * square, floors**2 * l1 * releases
        assert (Fraction(said.l2) ** 2 - a - b) ** 2 >= 4 * a * b
        assert Fraction(said.l2) ** 2 >= a + b
    assert len(moved) > 60


def test_auto_passes_over_a_candidate_that_refuses():
    """An input that one recipe refuses does not keep the others from serving; one that all refuse is still said."""
    shape = Shape(3, 2, 4)
    known = next(each for each in recipes("central") if each.name == "central/joint-histogram-laplace")

    def refuse(*_given):
        raise InvalidInput("no shifts have these norms")

    register(replace(known, name="central/refuses", build=refuse, options={"blocks": None}))
    try:
        target = Central(1.0, 1e-5, options={"blocks": 1})
        assert build(target, shape, 100).guarantee.epsilon <= 1
        with pytest.raises(InvalidInput, match="blocks must be a whole number"):
            build(Central(1.0, 1e-5, options={"blocks": 0}), shape, 100)
    finally:
        forget("central/refuses")

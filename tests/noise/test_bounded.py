"""The constants of the bounded law, and its rejection sampler, against multiprecision."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from discreet.noise.bounded import UNIT_MASS, UNIT_VARIANCE, BoundedNoise, sum_distribution
from discreet.privacy.sensitivity import Sensitivity


def integral(function):
    # Beyond 0.99 the density is below exp(-exp(50)).
    with mpmath.workdps(30):
        density = lambda u: function(u) * mpmath.exp(-mpmath.exp(1 / (1 - u * u)))  # noqa: E731
        return float(2 * mpmath.quad(density, [0, 0.25, 0.5, 0.75, 0.9, 0.99]))


def test_mass_and_variance():
    assert pytest.approx(integral(lambda _: 1), rel=1e-15) == UNIT_MASS
    assert pytest.approx(integral(lambda u: u * u) / integral(lambda _: 1), rel=1e-15) == UNIT_VARIANCE
    assert math.sqrt(UNIT_VARIANCE) == pytest.approx(0.286275, abs=1e-6)


def test_the_proposal_covers_the_density_and_is_accepted_as_often_as_stated():
    u = np.linspace(-0.9999, 0.9999, 20_001)
    assert (np.exp(np.minimum(1 / (1 - u * u), 700)) >= math.e * (1 + u * u) - 1e-12).all()
    assert math.exp(math.e) * math.sqrt(math.e / math.pi) * UNIT_MASS == pytest.approx(0.775, abs=5e-4)


@pytest.mark.parametrize("l", [0.5, 2.0, 10.0, 40.0])
def test_its_variance_is_its_sub_gaussian_proxy(l):
    moment = integral(lambda u: mpmath.cosh(l * u)) / integral(lambda _: 1)
    assert moment <= math.exp(l * l * UNIT_VARIANCE / 2)


def test_draws_never_reach_the_radius():
    sample = BoundedNoise(2.0).draw(np.random.default_rng(0), 10_000)
    assert 1.0 < np.abs(sample).max() < 2.0


def test_a_wide_law_is_certified_and_more_so_the_wider_it_is():
    """Next to the ends of a wide law both densities vanish: the difference of two infinities is no loss."""
    moved = Sensitivity.unit_shifts(2, 2)
    deltas = [BoundedNoise(radius).profile(moved).delta(1e-3) for radius in (1e2, 1e3, 1e4, 1e6, 1e9)]
    assert all(0 < later < earlier < 1 for earlier, later in pairwise(deltas))
    assert deltas[-1] < 2e-10


def convolved(copies: int, cells: int = 1 << 15) -> tuple[np.ndarray, np.ndarray]:
    """Another way to the law of a sum: probabilities of narrow cells, convolved by repeated squaring."""
    width = 2.0 / 512
    centres = (np.arange(cells) - cells // 2) * width
    with np.errstate(over="ignore", divide="ignore"):
        density = np.where(np.abs(centres) < 1, np.exp(-np.exp(1 / np.maximum(1 - centres**2, 1e-3))), 0.0)
    masses = np.fft.ifftshift(density / density.sum())
    whole = np.fft.fftshift(np.fft.ifft(np.fft.fft(masses) ** copies).real)
    return centres + width / 2, np.cumsum(whole)


@pytest.mark.parametrize("copies", [65, 200, 1000])
def test_the_table_of_a_sum_is_the_convolution_and_not_its_normal_limit(copies):
    """The trapezoid rule is exact to rounding for a density that is smooth and vanishes with all its derivatives.

    Cells are integrated by their middle, which is off by their width squared over 24 times the slope: below 1e-7 here.
    """
    edges, wanted = convolved(copies)
    points, chances = sum_distribution(copies)
    inside = np.abs(edges) < points[-1]
    found = np.interp(edges[inside], points, chances)
    assert np.abs(found - wanted[inside]).max() < 5e-7
    deviation = math.sqrt(copies * UNIT_VARIANCE)
    normal = np.array([0.5 * math.erfc(-x / deviation / math.sqrt(2)) for x in edges[inside][::16]])
    assert np.abs(normal - wanted[inside][::16]).max() > 1e-2 / copies, "the test can tell the two apart"


def two_samples(one: np.ndarray, other: np.ndarray) -> float:
    """The p-value of Kolmogorov and Smirnov's test, by their limit law."""
    places = np.concatenate([one, other])
    ranks = [np.searchsorted(np.sort(sample), places, side="right") / len(sample) for sample in (one, other)]
    root = math.sqrt(len(one) * len(other) / (len(one) + len(other)))
    z = root * float(np.abs(ranks[0] - ranks[1]).max())
    return min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * z * z) for k in range(1, 100)))


def test_drawn_sums_are_direct_sums():
    """False alarms: 1e-6. The twin sums one draw in three too many, and is told apart."""
    law, rng = BoundedNoise(3.0), np.random.default_rng(7)
    direct = law.draw(rng, (20_000, 72)).sum(axis=1)
    assert two_samples(direct, law.draw_sum(72, np.random.default_rng(8), 20_000)) > 1e-6
    twin = law.draw_sum(95, np.random.default_rng(8), 20_000)
    assert two_samples(direct, twin) < 1e-6


def test_sums_of_any_number_of_draws_are_drawn_cell_by_cell():
    copies = np.array([0, 1, 64, 65, 5_000, 2_000_000])
    drawn = np.stack([BoundedNoise(2.0).draw_sum(copies, np.random.default_rng(seed), 6) for seed in range(400)])
    assert not drawn[:, 0].any()
    spread = drawn[:, 1:].std(axis=0) / np.sqrt(UNIT_VARIANCE * 4.0 * copies[1:])
    assert np.abs(spread - 1).max() < 0.2  # five deviations of a spread over 400 draws and more

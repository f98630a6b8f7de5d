"""The constants of the bounded law, and its rejection sampler, against multiprecision."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from discreet.noise.bounded import UNIT_MASS, UNIT_VARIANCE, BoundedNoise
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

"""The discrete Gaussian on a fine grid: the lemma behind its profile, checked on coarse grids by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.streams import stream
from discreet.noise import DiscreteGaussian, Gaussian, GridGaussian, Law, add_noise
from discreet.privacy.profiles import GaussianProfile
from discreet.privacy.sensitivity import Sensitivity

LAW = GridGaussian(2.5, 24)


def exact_delta(sigma, shift, epsilon):
    """sum of max(0, P - e^epsilon Q) over all outputs, for one vector of whole shifts and noise on whole numbers."""
    reach = np.arange(-math.ceil(9 * sigma), math.ceil(9 * sigma) + 1)
    law = DiscreteGaussian(sigma)
    p = np.ones(1)
    q = np.ones(1)
    for v in shift:
        p = np.multiply.outer(p, np.exp(law.log_probability(reach))).ravel()
        q = np.multiply.outer(q, np.exp(law.log_probability(reach - v))).ravel()
    return np.maximum(0.0, p - math.exp(epsilon) * q).sum()


@pytest.mark.parametrize("sigma", [4.0, 6.0])
@pytest.mark.parametrize("shift", [(1,), (3,), (7,), (1, 2), (4, -3), (5, 0)])
def test_its_delta_never_exceeds_that_of_a_gaussian_with_nine_steps_less_variance(sigma, shift):
    mu = math.hypot(*shift) / math.sqrt(sigma**2 - 9)
    for epsilon in (0.0, 0.3, 1.0, 3.0, 8.0):
        assert exact_delta(sigma, shift, epsilon) <= GaussianProfile(mu).delta(epsilon) + 1e-15


def test_without_that_allowance_the_gaussian_would_not_bound_it():
    """So the test above can fail: on a coarse grid the discrete law is worse than the Gaussian of its own variance."""
    gaussian = GaussianProfile(3 / 2.0)
    assert any(exact_delta(2.0, (3,), e) > gaussian.delta(e) * 1.01 for e in np.linspace(0, 8, 33))


def test_the_weights_of_the_lemma_hardly_depend_on_the_centre():
    """sum over k of exp(-(k - w)^2 / 2 s^2) with s = 3, against its mean, for w between two points of the grid."""
    k = np.arange(-60, 61)
    sums = [math.fsum(np.exp(-((k - w) ** 2) / 18)) for w in np.linspace(0, 1, 11)]
    assert max(sums) / min(sums) - 1 < 1e-14
    coarse = [math.fsum(np.exp(-((k - w) ** 2) / 0.5)) for w in np.linspace(0, 1, 11)]
    assert max(coarse) / min(coarse) - 1 > 1e-3


def test_it_is_a_law_on_the_grid():
    assert isinstance(LAW, Law)
    x = LAW.step * np.arange(-5, 6)
    expected = DiscreteGaussian(2.5 * 2**24).log_probability(np.arange(-5, 6))
    np.testing.assert_allclose(LAW.log_probability(x), expected, rtol=1e-12)
    assert np.isneginf(LAW.log_probability(LAW.step / 2))
    assert LAW.variance == 6.25


def test_its_promise_is_that_of_the_continuous_noise_it_replaces():
    moved = Sensitivity(30, 4.0, 1)
    continuous = Gaussian(15.0)
    law = GridGaussian.as_private_as(continuous, 24)
    assert law.profile(moved).mu <= continuous.profile(moved).mu
    assert law.sigma == pytest.approx(15.0, rel=1e-11)


def whole(values):
    steps = np.asarray(values) / LAW.step
    return bool((steps == np.round(steps)).all())


def filled(n):
    out = np.zeros(n)
    add_noise(LAW.kernel(), out, stream(3, 0, 1))
    return out


@pytest.mark.parametrize(
    "draw",
    [
        lambda n: LAW.draw(np.random.default_rng(1), n),
        lambda n: LAW.draw_sum(1, np.random.default_rng(2), n),
        filled,
        LAW.secure,
    ],
    ids=["draw", "sum", "kernel", "secure"],
)
def test_draws_are_whole_steps_with_the_stated_deviation(draw):
    """Kolmogorov's test at 1e-4; noise of 2/3 or 3/2 of the scale is rejected by the same test."""
    x = draw(4000)
    assert whole(x)
    assert kstest(x / 2.5, "norm").pvalue > 1e-4
    assert kstest(x / 2.5 * 1.5, "norm").pvalue < 1e-4
    assert kstest(x / 2.5 / 1.5, "norm").pvalue < 1e-4


def test_sums_of_draws_and_their_quantiles():
    sums = LAW.draw_sum(np.array([0, 9]), np.random.default_rng(5), (20_000, 2))
    assert (sums[:, 0] == 0).all()
    assert sums[:, 1].std() == pytest.approx(7.5, rel=0.03)
    assert (np.abs(sums[:, 1]) > LAW.sum_quantile(9, 0.1)).mean() == pytest.approx(0.1, abs=0.01)
    np.testing.assert_allclose(LAW.anytime_radius([4], 0.1), Gaussian(2.5).anytime_radius([4], 0.1))


@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_kernel_rounds_the_draws_of_the_continuous_one(size):
    ours, theirs = np.arange(size, dtype=float), np.arange(size, dtype=float)
    states = stream(0, 0, 1), stream(0, 0, 1)
    add_noise(LAW.kernel(), ours, states[0])
    add_noise(Gaussian(2.5).kernel(), theirs, states[1])
    assert np.abs(ours - theirs).max() <= LAW.step / 2 * (1 + 1e-6)
    assert states[0] == states[1]


def test_a_rounded_gaussian_is_as_close_to_the_law_as_stated():
    """Total variation at a coarse grid, where it can be summed: below 0.021 / sigma^2, and not far below."""
    for sigma in (4.0, 16.0):
        k = np.arange(-int(9 * sigma), int(9 * sigma) + 1)
        rounded = np.array([math.erf((x + 0.5) / sigma / math.sqrt(2)) for x in k])
        rounded = (rounded - np.array([math.erf((x - 0.5) / sigma / math.sqrt(2)) for x in k])) / 2
        distance = np.abs(rounded - np.exp(DiscreteGaussian(sigma).log_probability(k))).sum() / 2
        assert 0.019 < distance * sigma**2 < 0.021


@pytest.mark.parametrize(("sigma", "bits"), [(0.01, 20), (1e9, 40)])
def test_grids_that_are_too_coarse_or_too_fine_are_refused(sigma, bits):
    with pytest.raises(Unsupported, match="2\\^23"):
        GridGaussian(sigma, bits)
    with pytest.raises(InvalidInput):
        GridGaussian(-1.0, bits)

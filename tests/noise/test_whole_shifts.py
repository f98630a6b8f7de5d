"""Discrete noise at shifts of any whole numbers: stated deltas against sums over the integers.

The loss of a shift v depends on the noise through one number, whose law is a convolution: for discrete Gaussian noise
the inner product with v, for discrete Laplace noise a sum of losses of cells. All masses are added, never subtracted,
so deltas far below 1e-10 are exact too.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.base.shape import Shape
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Laplace
from discreet.noise.calibration import calibrate_noise
from discreet.noise.discrete_gaussian import SMOOTHED, poisson_error, smoothed_profile
from discreet.privacy.profiles import (
    BoundedProfile,
    GaussianProfile,
    LossProfile,
    NearGaussianProfile,
    PureProfile,
    ZeroConcentratedProfile,
    compose,
    replacing_users,
)
from discreet.privacy.sensitivity import Sensitivity

SHIFTS = [(1,), (2,), (3, 1), (2, 2, 1, 1), (4, 3), (1,) * 6, (7,)]
EPSILONS = [0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0]


def norms(shift):
    v = np.abs(np.array(shift, float))
    return Sensitivity(float(v.sum()), float(np.sqrt((v**2).sum())), float(v.max()))


def gaussian_losses(sigma, shift):
    """All values of <v, x> as losses, with their probabilities."""
    reach = math.ceil(14 * sigma)
    weights = np.exp(-((np.arange(-reach, reach + 1) / sigma) ** 2) / 2)
    weights /= weights.sum()

    def spread(v):
        out = np.zeros(2 * reach * v + 1)
        out[::v] = weights
        return out

    masses = reduce(np.convolve, map(spread, shift))
    inner = np.arange(len(masses)) - len(masses) // 2
    return (sum(v * v for v in shift) - 2 * inner) / (2 * sigma**2), masses


def laplace_losses(scale, shift):
    """A cell that moves by v has a loss of (|x - v| - |x|) / b: multiples of 1 / b from -v to v."""

    def cell(v):
        x = np.arange(-400, 401)
        weights = np.exp(-np.abs(x) / scale)
        out = np.zeros(2 * v + 1)
        np.add.at(out, np.abs(x - v) - np.abs(x) + v, weights / weights.sum())
        return out

    masses = reduce(np.convolve, map(cell, shift))
    return (np.arange(len(masses)) - len(masses) // 2) / scale, masses


def exact(losses, masses, epsilon):
    return float(np.dot(masses, -np.expm1(np.minimum(0.0, epsilon - losses))))


def renyi(losses, masses, order):
    return math.log(np.dot(masses, np.exp((order - 1) * losses))) / (order - 1)


@pytest.mark.parametrize("sigma", [1.6, 2.0, 3.0, 5.0, 8.0])
@pytest.mark.parametrize("shift", SHIFTS, ids=str)
def test_a_discrete_gaussian_never_exceeds_what_is_stated(sigma, shift):
    stated, found = DiscreteGaussian(sigma).profile(norms(shift)), gaussian_losses(sigma, shift)
    for epsilon in EPSILONS:
        assert exact(*found, epsilon) <= stated.delta(epsilon) * (1 + 1e-9)
    for delta in (1e-3, 1e-6, 1e-10, 1e-15):
        assert exact(*found, stated.epsilon(delta)) <= delta * (1 + 1e-9)
    assert all(renyi(*found, order) <= order * stated.rho * (1 + 1e-9) for order in (1.1, 2.0, 8.0))


@pytest.mark.parametrize("shift", [(1, 1), (1,) * 6], ids=str)
def test_unit_shifts_take_the_best_of_three_bounds_at_every_delta(shift):
    stated, found = DiscreteGaussian(6.0).profile(Sensitivity.unit_shifts(len(shift), 0)), gaussian_losses(6.0, shift)
    others = DiscreteGaussian(6.0).profile(norms(shift)), ZeroConcentratedProfile(stated.rho)
    for delta in (1e-3, 1e-6, 1e-10, 1e-14):
        epsilon = stated.epsilon(delta)
        assert exact(*found, epsilon) <= delta * (1 + 1e-9)
        assert epsilon <= min(other.epsilon(delta) for other in others)
    assert stated.epsilon(1e-6) < 0.99 * others[0].epsilon(1e-6)  # the table
    assert stated.epsilon(1e-10) < 0.99 * others[1].epsilon(1e-10)  # by smoothing: a table says nothing of so little


def test_the_bound_is_close_where_noise_is_wide_and_zero_concentration_is_not():
    shift = (3, 2, 1)
    found = gaussian_losses(40.0, shift)
    near, only_rho = DiscreteGaussian(40.0).profile(norms(shift)), ZeroConcentratedProfile(14 / 3200)
    for delta in (1e-3, 1e-6, 1e-10):
        assert exact(*found, near.epsilon(delta)) > 0.97 * delta
        assert exact(*found, only_rho.epsilon(delta)) < 0.4 * delta


@pytest.mark.parametrize("smoothing", [0.3, 0.5, 0.8, 1.5])
def test_smoothed_gaussian_noise_is_the_discrete_law_up_to_the_stated_factors(smoothing):
    """The step of the proof, by integration: w is continuous noise around 0, k is drawn around w."""
    sigma, k = 2.0, np.arange(-40, 41)
    w = np.linspace(-24, 24, 96_001)
    density = np.exp(-(w**2) / 2 / (sigma**2 - smoothing**2))
    weights = np.exp(-((k[:, None] - w[None]) ** 2) / 2 / smoothing**2)
    made = (weights / weights.sum(axis=0)) @ density
    seen = np.abs(k) <= 6
    ratio = np.exp(DiscreteGaussian(sigma).log_probability(k))[seen] / (made / made.sum())[seen]
    eta = poisson_error(smoothing)
    allowed = (1 + eta) / (1 - eta) if eta < 1 else math.inf
    assert ratio.min() <= 1 <= ratio.max() * (1 + 1e-12)
    assert ratio.max() / ratio.min() <= allowed * (1 + 1e-9)
    if smoothing == 0.3:
        assert ratio.max() / ratio.min() > 1.02  # not constant: the factors are there to be paid for


def test_the_error_of_the_smoothing_must_be_paid_for():
    """With little smoothing the error is large: with it the bound holds, without it it does not."""
    found = gaussian_losses(0.7, (1,))
    paid = smoothed_profile(0.7, 1, 1, smoothing=0.22)
    assert isinstance(paid, NearGaussianProfile)
    free = GaussianProfile(paid.mu)
    grid = np.linspace(0, 8, 161)
    assert all(exact(*found, e) <= paid.delta(e) * (1 + 1e-9) for e in grid)
    assert any(exact(*found, e) > free.delta(e) * 1.1 for e in grid)
    assert isinstance(smoothed_profile(0.7, 3, 2, smoothing=0.1), ZeroConcentratedProfile)


def test_the_error_at_the_smoothing_in_use_is_as_stated():
    assert poisson_error(SMOOTHED) == pytest.approx(2 * math.exp(-4.5 * math.pi**2), rel=1e-9)
    assert 1.0e-19 < poisson_error(SMOOTHED) < 1.1e-19
    near = DiscreteGaussian(10.0).profile(Sensitivity(1e6, 1e3, 1))
    assert near.slack == pytest.approx(2e6 * poisson_error(SMOOTHED), rel=1e-9)


def test_slack_costs_epsilon_and_a_factor():
    off = NearGaussianProfile(0.5, 0.01, 1e9)
    for epsilon in (0.0, 0.3, 2.0):
        expected = math.exp(0.01) * GaussianProfile(0.5).delta(epsilon - 0.01)
        assert off.delta(epsilon) == pytest.approx(expected, rel=1e-9)
    assert NearGaussianProfile(0.5, 0.0, 0.125).delta(0.3) == GaussianProfile(0.5).delta(0.3)
    assert off.epsilon(0.0) == math.inf
    assert off.epsilon(1e-5) > GaussianProfile(0.5).epsilon(1e-5) + 0.01


def test_near_gaussians_compose_like_gaussians():
    parts = [NearGaussianProfile(0.3, 1e-3, 0.04), NearGaussianProfile(0.4, 2e-3, 0.07)]
    for whole, slack, rho in ((compose(parts), 3e-3, 0.11), (compose([parts[0], GaussianProfile(0.4)]), 1e-3, 0.12)):
        assert isinstance(whole, NearGaussianProfile)
        assert (whole.mu, whole.slack, whole.rho) == pytest.approx((0.5, slack, rho))
    in_a_group = replacing_users(parts[0], 3)
    assert isinstance(in_a_group, ZeroConcentratedProfile)
    assert in_a_group.rho == pytest.approx(0.36)
    mixed = compose([parts[0], DiscreteGaussian(6.0).profile(Sensitivity.unit_shifts(3, 3))])
    assert isinstance(mixed, LossProfile)
    assert mixed.allowance >= 2e-3
    assert mixed.slack == pytest.approx(1e-3)
    alone = compose([GaussianProfile(0.3), DiscreteGaussian(6.0).profile(Sensitivity.unit_shifts(3, 3))])
    assert mixed.delta(1.0) >= math.exp(1e-3) * alone.delta(1.001) * (1 - 1e-6)
    assert compose([parts[0], PureProfile(0.5)]).mu == math.inf


def test_shifts_of_several_releases_are_one_shift():
    """Two releases that move by (3, 1) and (2,): brute force over all three cells against the composed profile."""
    law = DiscreteGaussian(7.0)
    whole, found = compose([law.profile(norms((3, 1))), law.profile(norms((2,)))]), gaussian_losses(7.0, (3, 1, 2))
    for epsilon in EPSILONS:
        assert exact(*found, epsilon) <= whole.delta(epsilon) * (1 + 1e-9)
    assert whole.mu == pytest.approx(law.profile(norms((3, 1, 2))).mu)


@pytest.mark.parametrize("scale", [0.8, 2.0, 6.0])
@pytest.mark.parametrize("shift", SHIFTS, ids=str)
def test_discrete_laplace_never_exceeds_what_is_stated(scale, shift):
    stated, found = DiscreteLaplace(scale).profile(norms(shift)), laplace_losses(scale, shift)
    for epsilon in EPSILONS:
        assert exact(*found, epsilon) <= stated.delta(epsilon) * (1 + 1e-9) + 1e-15
    assert stated.epsilon(0.0) == pytest.approx(sum(shift) / scale)
    assert all(renyi(*found, order) <= order * stated.rho * (1 + 1e-9) for order in (1.1, 2.0, 8.0))


def test_the_length_of_the_shift_is_needed_in_full():
    """Half of L2 would promise what the noise does not keep: the tests above can fail."""
    shift = (2,) * 8
    found, sensitivity = laplace_losses(12.0, shift), norms(shift)
    honest = DiscreteLaplace(12.0).profile(sensitivity)
    too_good = BoundedProfile(honest.bound, honest.rho / 4)
    assert exact(*found, too_good.epsilon(1e-4)) > 1e-4 >= exact(*found, honest.epsilon(1e-4))
    assert renyi(*found, 2.0) > 2 * too_good.rho


def test_bounded_losses_compose_and_scale():
    part = BoundedProfile(1.0, 0.125)
    assert compose([part, PureProfile(0.5)]) == BoundedProfile(1.5, 0.25)
    assert compose([part, PureProfile(math.inf)]) == PureProfile(math.inf)
    assert compose([part, ZeroConcentratedProfile(0.1)]) == ZeroConcentratedProfile(0.225)
    assert isinstance(compose([part, GaussianProfile(0.3)]), LossProfile)
    assert replacing_users(part, 2) == BoundedProfile(2.0, 0.5)
    assert part.delta(1.0) == 0.0
    assert part.epsilon(0.0) == 1.0
    many = BoundedProfile(20.0, 0.5)
    assert many.epsilon(1e-5) == ZeroConcentratedProfile(0.5).epsilon(1e-5) < PureProfile(20.0).epsilon(1e-5)


# RiverSwim's sizes; a tree over 20,000 users has 15 levels.
THREE_TABLES = ThreeTables(Shape(6, 2, 20, homogeneous=True)).sensitivity()


def test_rho_takes_the_least_noise_by_length():
    law = calibrate_noise(DiscreteLaplace, THREE_TABLES, rho=0.1)
    assert law.scale == pytest.approx(THREE_TABLES.l2 / math.sqrt(0.2), rel=1e-9)
    assert THREE_TABLES.l1 / math.sqrt(0.2) / law.scale == pytest.approx(2.449, abs=1e-3)  # what the pure bound wastes
    assert calibrate_noise(Laplace, THREE_TABLES, rho=0.1).scale == pytest.approx(law.scale)
    in_a_tree = THREE_TABLES.in_several_sums(15)
    assert calibrate_noise(DiscreteLaplace, in_a_tree, rho=0.1).scale == pytest.approx(law.scale * math.sqrt(15))


def test_targets_with_delta_take_the_better_of_length_and_sum():
    tree = THREE_TABLES.in_several_sums(15)
    law = calibrate_noise(DiscreteLaplace, tree, epsilon=1.0, delta=1e-5)
    assert law.profile(tree).delta(1.0) <= 1e-5
    assert tree.l1 / law.scale == pytest.approx(2.345, abs=1e-3)  # so much more the pure bound would ask for
    alone = calibrate_noise(DiscreteLaplace, THREE_TABLES, epsilon=1.0, delta=1e-5)
    assert alone.scale == pytest.approx(THREE_TABLES.l1, rel=1e-4)  # here the pure bound is the better one


def test_pooled_counts_get_the_noise_of_a_gaussian():
    law = calibrate_noise(DiscreteGaussian, THREE_TABLES, epsilon=1.0, delta=1e-5)
    mu = THREE_TABLES.l2 / law.sigma
    assert GaussianProfile(mu).epsilon(1e-5) == pytest.approx(1.0, rel=1e-3)
    assert ZeroConcentratedProfile(mu**2 / 2).epsilon(1e-5) > 1.08


@pytest.mark.parametrize("law", [DiscreteLaplace(2.0), DiscreteGaussian(5.0)])
def test_moves_below_one_are_not_hidden_by_whole_numbers(law):
    """A count of 0.5 plus whole noise never looks like one of 0: no epsilon covers that."""
    with pytest.raises(InvalidInput, match="whole numbers hides moves"):
        law.profile(Sensitivity(0.5, 0.5, 0.5))
    assert law.profile(Sensitivity(1.5, 1.5, 1.5)).epsilon(1e-5) > 0

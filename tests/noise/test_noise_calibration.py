"""Calibration returns the smallest scale: what it returns keeps the promise, one per cent less does not."""

import math
from functools import partial

import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.noise import (
    BinomialNoise,
    BoundedNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    KNorm,
    Laplace,
)
from discreet.noise.calibration import calibrate_binomial, calibrate_noise
from discreet.noise.symmetric_gaussian import DiscreteSymmetricGaussianMatrix
from discreet.privacy.sensitivity import Sensitivity

UNIT = Sensitivity.unit_shifts(6, 6)
THREE_TABLES = Sensitivity.worst_shift((2, 2, 2), (1, 1, 1))


def scale_of(law):
    return next(iter(vars(law).values()))


@pytest.mark.parametrize("family", [Laplace, DiscreteLaplace, Gaussian, DiscreteGaussian])
@pytest.mark.parametrize("sensitivity", [UNIT, THREE_TABLES, Sensitivity(10, math.sqrt(20), 3)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-5), (1.0, 0.1), (5.0, 1e-8), (20.0, 1e-3)])
def test_smallest_scale_for_epsilon_and_delta(family, sensitivity, epsilon, delta):
    law = calibrate_noise(family, sensitivity, epsilon=epsilon, delta=delta)
    assert law.profile(sensitivity).delta(epsilon) <= delta
    assert family(0.99 * scale_of(law)).profile(sensitivity).delta(epsilon) > delta


def test_smallest_radius_of_bounded_noise():
    law = calibrate_noise("bounded", THREE_TABLES, epsilon=1.0, delta=0.1)
    assert law.profile(THREE_TABLES).delta(1.0) <= 0.1
    assert BoundedNoise(0.99 * law.radius).profile(THREE_TABLES).delta(1.0) > 0.1


@pytest.mark.parametrize("name", ["laplace", "discrete-laplace"])
def test_pure_scale_is_the_l1_norm_over_epsilon(name):
    law = calibrate_noise(name, UNIT, epsilon=0.3)
    assert law.profile(UNIT).epsilon(0.0) <= 0.3
    assert law.scale == pytest.approx(40.0, rel=1e-14)


@pytest.mark.parametrize("name", ["gaussian", "discrete-gaussian"])
def test_rho_scale_is_the_l2_norm(name):
    law = calibrate_noise(name, UNIT, rho=0.5)
    assert law.profile(UNIT).rho <= 0.5
    assert law.sigma == pytest.approx(math.sqrt(12), rel=1e-14)


def test_a_law_with_more_parameters_calibrates_as_a_function_of_its_scale():
    table = Sensitivity(48, math.sqrt(48), 1)
    assert calibrate_noise(partial(KNorm, 48), table, epsilon=0.5).scale == pytest.approx(2.0)
    matrix = Sensitivity(2, math.sqrt(2), 1)
    law = calibrate_noise(lambda s: DiscreteSymmetricGaussianMatrix(3, s * s), matrix, rho=0.25)
    assert law.off_diagonal == pytest.approx(2.0)  # 1 / (2 rho) for replacing one user


def test_delta_helps_unit_shifts_less_than_it_does_gaussians():
    pure = calibrate_noise("discrete-laplace", UNIT, epsilon=1.0)
    relaxed = calibrate_noise("discrete-laplace", UNIT, epsilon=1.0, delta=1e-5)
    assert 0.9 * pure.scale < relaxed.scale < pure.scale


def test_tiny_deltas_are_certified_by_rho_instead_of_numbers():
    law = calibrate_noise("discrete-gaussian", UNIT, epsilon=1.0, delta=1e-12)
    assert law.profile(UNIT).delta(1.0) <= 1e-12


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: calibrate_noise("laplace", UNIT), InvalidInput),
        (lambda: calibrate_noise("laplace", UNIT, epsilon=1.0, rho=1.0), InvalidInput),
        (lambda: calibrate_noise("laplce", UNIT, epsilon=1.0), InvalidInput),
        (lambda: calibrate_noise("laplace", UNIT, epsilon=-1.0), InvalidInput),
        (lambda: calibrate_noise("laplace", UNIT, epsilon=1.0, delta=1.0), InvalidInput),
        (lambda: calibrate_noise("laplace", Sensitivity.unit_shifts(0, 0), epsilon=1.0), InvalidInput),
        (lambda: calibrate_noise("gaussian", UNIT, epsilon=1.0), Unsupported),
        (lambda: calibrate_noise("discrete-gaussian", UNIT, epsilon=1.0), Unsupported),
        (lambda: calibrate_noise("bounded", THREE_TABLES, rho=1.0), Unsupported),
        (lambda: calibrate_binomial(10, 1, 1, 1.0, 0.0), InvalidInput),
        (lambda: calibrate_binomial(10, 1, 1, 1.0, 1e-5, dropout=1.0), InvalidInput),
        (lambda: calibrate_binomial(1, 1, 1, 1.0, 1e-5, dropout=0.5), InvalidInput),
    ],
)
def test_impossible_requests_are_refused(wrong, error):
    with pytest.raises(error):
        wrong()


@pytest.mark.parametrize("users", [1, 64, 512, 4096])
def test_shuffled_bits_are_the_fewest_and_rarest_that_suffice(users):
    bits, probability = calibrate_binomial(users, 6, 6, 1.0, 1e-5)
    assert BinomialNoise(users * bits, probability).profile(UNIT).delta(1.0) <= 1e-5
    assert BinomialNoise(users * bits, probability - 2**-8 * probability).profile(UNIT).delta(1.0) > 1e-5
    if bits > 1:
        assert BinomialNoise(users * (bits - 1), 0.5).profile(UNIT).delta(1.0) > 1e-5


def test_dropouts_add_no_noise():
    assert calibrate_binomial(100, 1, 1, 1.0, 1e-5, dropout=0.25) == calibrate_binomial(75, 1, 1, 1.0, 1e-5)

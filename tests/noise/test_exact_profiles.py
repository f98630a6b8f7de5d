"""Profiles of the laws against hockey-stick sums over all outputs."""

import itertools
import math

import numpy as np
import pytest

from discreet.base.errors import Unsupported
from discreet.base.shape import Moments, Shape, layered_shape
from discreet.mechanisms.counts.first_visit import FirstVisitTables
from discreet.noise import (
    BinomialNoise,
    BoundedNoise,
    DiscreteGaussian,
    DiscreteKNorm,
    DiscreteLaplace,
    Gaussian,
    KNorm,
    Laplace,
)
from discreet.noise.symmetric_gaussian import DiscreteSymmetricGaussianMatrix
from discreet.privacy.profiles import BoundedProfile, NearGaussianProfile, PureProfile, ZeroConcentratedProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.adversarial.encoders import LossTable
from discreet.problems.heavy_tails.encoders import SignedFirstVisitTables

EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0)


def brute_force(law, shift, epsilon, reach=60):
    """max over directions of sum (P(o) - e^epsilon Q(o))+ over all outputs of a few cells."""
    x = np.arange(-reach, reach + 1).astype(float)
    if isinstance(law, BinomialNoise):
        x = np.arange(-2, law.trials + 3) - law.mean
    deltas = []
    for sign in (1, -1):
        p, q = np.ones(1), np.ones(1)
        for v in shift:
            p = np.multiply.outer(p, np.exp(law.log_probability(x))).ravel()
            q = np.multiply.outer(q, np.exp(law.log_probability(x - sign * v))).ravel()
        deltas.append(np.maximum(p - math.exp(epsilon) * q, 0).sum())
    return max(deltas)


@pytest.mark.parametrize(
    "law",
    [
        DiscreteLaplace(0.7),
        DiscreteLaplace(3.0),
        DiscreteGaussian(0.5),
        DiscreteGaussian(2.0),
        BinomialNoise(6, 0.5),
        BinomialNoise(40, 0.25),
    ],
    ids=str,
)
@pytest.mark.parametrize("shift", [(1,), (-1,), (1, -1), (1, 1), (-1, 1, -1)])
def test_unit_shifts_are_exact(law, shift):
    moved = Sensitivity.unit_shifts(sum(v > 0 for v in shift), sum(v < 0 for v in shift))
    reach = 60 if len(shift) < 3 else 25
    if len(shift) == 3 and law == DiscreteLaplace(3.0):
        reach = 45
    for epsilon in EPSILONS:
        exact = brute_force(law, shift, epsilon, reach)
        certified = law.profile(moved).delta(epsilon)
        # Lattices are exact; binomial losses are rounded to a grid and may only be larger, by 1%.
        assert exact - 1e-9 <= certified <= exact * (1.01 if isinstance(law, BinomialNoise) else 1 + 1e-6) + 2e-9


def test_binomial_directions_differ_when_the_coin_is_not_fair():
    """4096 coins of probability 0.043: six cells each way are not twelve one way."""
    law = BinomialNoise(4096, 0.043)
    both = law.profile(Sensitivity.unit_shifts(6, 6)).delta(1.0)
    one_way = law.profile(Sensitivity.unit_shifts(12, 0))
    assert both == pytest.approx(9.8e-6, rel=0.01)
    directions = sorted((one_way.forward.delta(1.0), one_way.backward.delta(1.0)))
    assert directions == pytest.approx([6.1e-6, 1.43e-5], rel=0.01)
    assert law.profile(Sensitivity.unit_shifts(0, 12)).delta(1.0) == pytest.approx(one_way.delta(1.0), rel=1e-9)


def test_cells_that_move_any_way_need_a_symmetric_law():
    """Three cells, each up or down: one way stands for all if the law is symmetric, not if a coin is unfair."""
    ways = [(1, 1, 1), (1, 1, -1), (1, -1, -1), (-1, -1, -1)]
    for law in (DiscreteLaplace(0.7), DiscreteGaussian(1.1), BinomialNoise(16, 0.5)):
        stated = law.profile(Sensitivity.unit_shifts(2, 1, any_way=True))
        assert all(brute_force(law, way, 0.5, 25) <= stated.delta(0.5) + 1e-9 for way in ways), law
    unfair = BinomialNoise(16, 0.25)
    one_way = unfair.profile(Sensitivity.unit_shifts(2, 1)).delta(1.0)
    assert max(brute_force(unfair, way, 1.0) for way in ways) > 1.05 * one_way
    for times in (1, 2):
        with pytest.raises(Unsupported, match=r"use fair coins \(p = 0.5\)"):
            unfair.profile(Sensitivity.unit_shifts(2, 1, any_way=True).in_several_sums(times))
    unfair.profile(Sensitivity.unit_shifts(1, 0, any_way=True))  # a profile holds both directions of one cell


@pytest.mark.parametrize(
    "encoder",
    [
        FirstVisitTables(Shape(2, 2, 3, homogeneous=True)),
        SignedFirstVisitTables(Shape(2, 2, 3, rewards=(-1.0, 1.0), moments=Moments(1.0, 1.0)), 1.0),
        LossTable(layered_shape((1, 2, 1), 2)),
    ],
    ids=lambda encoder: encoder.name,
)
def test_tables_whose_cells_move_any_way_say_so(encoder):
    BinomialNoise(64).profile(encoder.sensitivity())
    with pytest.raises(Unsupported, match="fair coins"):
        BinomialNoise(64, 0.25).profile(encoder.sensitivity())


@pytest.mark.parametrize("law", [DiscreteLaplace(1.1), DiscreteGaussian(1.3), BinomialNoise(12, 0.25)], ids=str)
def test_delta_rises_with_every_cell_that_moves(law):
    for epsilon in EPSILONS:
        deltas = [
            law.profile(Sensitivity.unit_shifts(up, down)).delta(epsilon)
            for up, down in ((1, 0), (1, 1), (2, 1), (2, 2))
        ]
        assert deltas == sorted(deltas)


def test_laplace_worst_shift_against_an_integral_over_the_plane():
    law = Laplace(1.5)
    profile = law.profile(Sensitivity.worst_shift((2, 1, 0), (1, 0, 1)))
    x = np.linspace(-30, 30, 3001)
    width = x[1] - x[0]
    p = np.multiply.outer(np.exp(law.log_probability(x)), np.exp(law.log_probability(x)))
    q = np.multiply.outer(np.exp(law.log_probability(x - 2)), np.exp(law.log_probability(x + 1)))
    for epsilon in EPSILONS[:-1]:
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum() * width**2
        assert profile.delta(epsilon) == pytest.approx(exact, rel=2e-3)
    assert profile.epsilon(0.0) == pytest.approx(2.0)
    assert profile.delta(2.0) == 0


@pytest.mark.parametrize("scale", [0.4, 1.5, 20.0])
def test_one_laplace_coordinate_is_never_understated(scale):
    """Its profile in closed form: 1 - exp((epsilon - 1/b) / 2); and total mass under both laws is one."""
    profile = Laplace(scale).profile(Sensitivity.unit_shifts(1, 0))
    for epsilon in np.linspace(0, 1 / scale, 12):
        exact = -math.expm1((epsilon - 1 / scale) / 2)
        assert exact <= profile.delta(epsilon) <= exact * (1 + 1e-3) + 2e-10
    losses = profile.forward
    assert losses.masses.sum() == pytest.approx(1.0, abs=1e-13)
    assert np.dot(losses.masses, np.exp(-losses.losses)) == pytest.approx(1.0, abs=1e-12)


def test_bounded_worst_shift_against_an_integral_over_the_plane():
    law = BoundedNoise(4.0)
    profile = law.profile(Sensitivity.worst_shift((2, 1, 0), (1, 0, 1)))
    x = np.linspace(-7, 7, 4001)
    width = x[1] - x[0]
    p = np.multiply.outer(np.exp(law.log_probability(x)), np.exp(law.log_probability(x)))
    q = np.multiply.outer(np.exp(law.log_probability(x - 2)), np.exp(law.log_probability(x + 1)))
    for epsilon in EPSILONS:
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum() * width**2
        assert exact * (1 - 1e-4) <= profile.delta(epsilon) <= exact * 1.005


def test_bounded_noise_smaller_than_the_shift_hides_nothing():
    assert BoundedNoise(0.4).profile(Sensitivity.unit_shifts(1, 0)).delta(5.0) == 1
    assert BoundedNoise(0.6).profile(Sensitivity.unit_shifts(1, 0)).delta(5.0) > 0.9


def test_shifts_that_are_not_unit_use_what_is_proved():
    pooled = Sensitivity(l1=6, l2=math.sqrt(20), linf=4)
    for law in (DiscreteLaplace(2.0), Laplace(2.0)):
        assert isinstance(law.profile(pooled), BoundedProfile)
        assert (law.profile(pooled).bound, law.profile(pooled).rho) == pytest.approx((3.0, 2.5))
        assert law.profile(Sensitivity(4, 4, 4)) == PureProfile(2.0)
    assert isinstance(DiscreteGaussian(2.0).profile(pooled), NearGaussianProfile)
    assert isinstance(DiscreteGaussian(1.4).profile(pooled), ZeroConcentratedProfile)
    assert DiscreteGaussian(2.0).profile(pooled).rho == pytest.approx(2.5)
    assert Gaussian(2.0).profile(pooled).mu == pytest.approx(math.sqrt(5))
    for law in (BinomialNoise(100, 0.5), BoundedNoise(50.0)):
        with pytest.raises(Unsupported):
            law.profile(pooled)


def test_a_wide_discrete_gaussian_needs_no_table():
    profile = DiscreteGaussian(1e7).profile(Sensitivity.unit_shifts(6, 6))
    assert isinstance(profile, NearGaussianProfile)
    assert profile.rho == pytest.approx(6e-14)
    assert DiscreteGaussian(1e7).variance == 1e14
    assert DiscreteGaussian(1e7).sum_quantile(1, 0.1) == pytest.approx(1e7 * math.sqrt(2 * math.log(20)))


def test_discrete_gaussian_keeps_rho_at_integer_shifts():
    """Renyi divergences by direct sums, at integer shifts."""
    sigma, x = 1.2, np.arange(-60, 61)
    log_p = DiscreteGaussian(sigma).log_probability(x)
    for shift in (1, 2, 3):
        log_q = DiscreteGaussian(sigma).log_probability(x - shift)
        rho = DiscreteGaussian(sigma).profile(Sensitivity(shift, shift, shift)).rho
        for order in (1.5, 2.0, 5.0):
            divergence = math.log(np.exp(order * log_p + (1 - order) * log_q).sum()) / (order - 1)
            assert divergence <= order * rho * (1 + 1e-9)
            assert divergence >= 0.99 * order * rho


def test_k_norm_loss_is_the_largest_move():
    moved = Sensitivity(l1=9, l2=math.sqrt(27), linf=3)
    assert KNorm(4, 6.0).profile(moved) == PureProfile(0.5)
    law = DiscreteKNorm(2, 1.5)
    points = np.array(list(itertools.product(range(-40, 41), repeat=2)))
    logs = law.log_probability(points)
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-9)
    assert np.dot(np.exp(logs), points[:, 0] ** 2) == pytest.approx(law.variance, rel=1e-8)
    loss = logs - law.log_probability(points - np.array([3, -2]))
    assert np.abs(loss).max() == pytest.approx(law.profile(moved).bound)
    assert law.profile(moved).bound == 2.0


def test_k_norm_shells_have_the_stated_probabilities():
    d, scale = 3, 1.2
    radii = np.arange(60)
    shells = (2.0 * radii + 1) ** d - np.where(radii > 0, (2.0 * radii - 1) ** d, 0)
    expected = shells * np.exp(-radii / scale)
    point = np.stack([radii, 0 * radii, 0 * radii], axis=-1)
    ours = np.exp(DiscreteKNorm(d, scale).log_probability(point)) * shells
    assert np.allclose(ours, expected / expected.sum(), rtol=1e-9)


def test_shipped_k_norm_is_never_less_noisy_than_certified():
    for scale in (0.3, 1.0, 17.0):
        assert scale <= DiscreteKNorm(4, scale).shipped_scale <= scale * (1 + 1e-9)


def test_symmetric_matrices_cost_the_frobenius_norm():
    """|M|_F^2 / 4v, from the densities of the upper triangle."""
    v = 1.7
    phi, psi = np.array([0.6, 0.8, 0.0]), np.array([0.8, -0.6, 0.0])
    shift = np.outer(phi, phi) - np.outer(psi, psi)
    upper = np.triu(shift, 1)
    expected = (upper**2).sum() / (2 * v) + (np.diag(shift) ** 2).sum() / (4 * v)
    frobenius = float(np.linalg.norm(shift))
    moved = Sensitivity(l1=3 * frobenius, l2=frobenius, linf=frobenius)
    assert frobenius**2 == pytest.approx(2.0)
    assert DiscreteSymmetricGaussianMatrix(3, v).profile(moved).rho == pytest.approx(expected)

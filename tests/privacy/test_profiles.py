"""Formal guarantees of profiles: closed forms against multiprecision, conversions, composition, refusals."""

import math
from decimal import Context, Decimal, localcontext
from itertools import product

import mpmath
import numpy as np
import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.noise import BinomialNoise, DiscreteGaussian, DiscreteLaplace
from discreet.privacy.profiles import (
    CERTIFIABLE,
    GaussianProfile,
    LossProfile,
    Profile,
    PureProfile,
    ZeroConcentratedProfile,
    compose,
    replacing_users,
    responses_profile,
)
from discreet.privacy.sensitivity import Sensitivity


def gaussian_delta(mu, epsilon):
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return float(mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize(
    "profile", [PureProfile(0.7), GaussianProfile(0.9), ZeroConcentratedProfile(0.4), responses_profile(0.3, 5)]
)
def test_epsilon_and_delta_are_inverse_to_each_other(profile):
    assert isinstance(profile, Profile)
    for delta in (1e-9, 1e-5, 0.01, 0.1):
        epsilon = profile.epsilon(delta)
        assert profile.delta(epsilon) <= delta * (1 + 1e-9)
        if epsilon > 0:
            assert profile.delta(0.999 * epsilon) > delta


def test_pure_profile_is_randomised_response():
    bound = 1.3
    truth = math.exp(bound) / (1 + math.exp(bound))
    for epsilon in (0.0, 0.5, 1.2):
        assert PureProfile(bound).delta(epsilon) == pytest.approx(truth - math.exp(epsilon) * (1 - truth), rel=1e-12)
        assert responses_profile(bound, 1).delta(epsilon) == pytest.approx(PureProfile(bound).delta(epsilon), rel=1e-9)
    assert PureProfile(bound).delta(bound) == 0
    assert PureProfile(bound).epsilon(0.0) == bound


def test_no_privacy_is_an_infinite_loss():
    assert PureProfile(math.inf).delta(50.0) == 1
    assert PureProfile(math.inf).epsilon(0.1) == math.inf


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 10.0, 200.0])
def test_gaussian_delta_has_all_its_digits_and_never_understates(mu, epsilon):
    exact = gaussian_delta(mu, epsilon)
    ours = GaussianProfile(mu).delta(epsilon)
    assert ours >= exact * (1 - 1e-15)
    assert ours <= exact * (1 + 1e-9) + 1e-300


def test_zero_concentrated_conversion_is_the_best_order():
    for rho in (1e-4, 0.1, 1.0, 20.0):
        for epsilon in (0.01, 1.0, 10.0):
            x = np.exp(np.linspace(-40, 12, 200_001))
            logs = x * ((1 + x) * rho - epsilon) + x * np.log(x) - (1 + x) * np.log1p(x)
            assert ZeroConcentratedProfile(rho).delta(epsilon) == pytest.approx(min(1.0, np.exp(logs.min())), rel=1e-5)


@pytest.mark.parametrize(("rho", "zero_concentrated", "gaussian"), [(0.1, 1.914, 1.760), (1.0, 7.077, 6.573)])
def test_published_conversions(rho, zero_concentrated, gaussian):
    assert ZeroConcentratedProfile(rho).epsilon(1e-5) == pytest.approx(zero_concentrated, abs=6e-4)
    assert GaussianProfile(math.sqrt(2 * rho)).epsilon(1e-5) == pytest.approx(gaussian, abs=6e-4)


def test_gaussian_is_never_worse_than_its_zero_concentrated_conversion():
    for rho in (0.01, 0.5, 3.0):
        for epsilon in (0.1, 1.0, 5.0):
            assert GaussianProfile(math.sqrt(2 * rho)).delta(epsilon) <= ZeroConcentratedProfile(rho).delta(epsilon)


def test_one_kind_composes_in_closed_form():
    assert compose([PureProfile(0.5), PureProfile(0.25)]) == PureProfile(0.75)
    assert compose([GaussianProfile(3.0), GaussianProfile(4.0)]) == GaussianProfile(5.0)
    assert compose([ZeroConcentratedProfile(0.5), ZeroConcentratedProfile(1.0)]) == ZeroConcentratedProfile(1.5)
    assert compose([]) == PureProfile(0.0)
    assert compose([GaussianProfile(1.0)]) == GaussianProfile(1.0)


def test_a_part_known_only_by_rho_makes_all_fall_back_to_rho():
    mixed = compose([PureProfile(1.0), GaussianProfile(1.0), ZeroConcentratedProfile(0.25)])
    assert mixed == ZeroConcentratedProfile(0.5 + 0.5 + 0.25)
    with pytest.raises(Unsupported, match="rho"):
        compose([ZeroConcentratedProfile(0.1), LossProfile(*[responses_profile(0.1, 2).forward] * 2)])
    assert compose([PureProfile(math.inf), ZeroConcentratedProfile(0.1)]) == PureProfile(math.inf)


def test_gaussians_as_loss_distributions_match_the_closed_form():
    """A loss distribution in the list forces the numerical path; one that loses nothing leaves the Gaussians alone."""
    parts = [GaussianProfile(0.6), GaussianProfile(0.8), DiscreteLaplace(1e9).profile(Sensitivity.unit_shifts(1, 0))]
    numerical = compose(parts)
    assert isinstance(numerical, LossProfile)
    for epsilon in (0.5, 1.0, 3.0):
        exact = GaussianProfile(1.0).delta(epsilon)
        assert exact <= numerical.delta(epsilon) <= exact * 1.01 + CERTIFIABLE


def test_lattices_of_one_step_compose_without_a_grid():
    twelve = DiscreteLaplace(3.0).profile(Sensitivity.unit_shifts(6, 6))
    half = DiscreteLaplace(3.0).profile(Sensitivity.unit_shifts(3, 3))
    both = compose([half, half])
    for epsilon in (0.0, 0.5, 2.0):
        assert both.delta(epsilon) == pytest.approx(twelve.delta(epsilon), abs=2 * CERTIFIABLE)
    assert both.epsilon(0.0) == pytest.approx(4.0)


def rising_and_falling(n, p):
    """A count with n coins of probability p, and the same one higher."""
    law = [math.comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(n + 1)]
    return np.array([*law, 0.0]), np.array([0.0, *law])


def enumerated(pairs, epsilon):
    one = other = np.ones(1)
    for p, q in pairs:
        one, other = np.multiply.outer(one, p).ravel(), np.multiply.outer(other, q).ravel()
    return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())


def test_of_two_counts_one_may_rise_while_the_other_falls():
    """Binomial noise is not the same both ways, and a rise beside a fall can be worse than two of either."""
    up, down = rising_and_falling(3, 0.45)
    one = BinomialNoise(3, 0.45).profile(Sensitivity.unit_shifts(1, 0))
    both, alike = compose([one, one]), compose([one, one], as_given=True)
    for epsilon in (0.0, 0.3, 0.7, 1.0):
        same = max(enumerated([(up, down)] * 2, epsilon), enumerated([(down, up)] * 2, epsilon))
        mixed = enumerated([(up, down), (down, up)], epsilon)
        assert both.delta(epsilon) >= max(same, mixed)
        assert both.delta(epsilon) == pytest.approx(max(same, mixed), rel=1e-3)
        assert alike.delta(epsilon) == pytest.approx(same, rel=1e-3)
    assert both.delta(0.7) > 1.04 * alike.delta(0.7)


def test_every_way_to_turn_three_uneven_mechanisms_counts():
    up, down = rising_and_falling(2, 0.3)
    wide, high = rising_and_falling(4, 0.2)
    parts = [BinomialNoise(2, 0.3).profile(Sensitivity.unit_shifts(1, 0))] * 2
    parts += [BinomialNoise(4, 0.2).profile(Sensitivity.unit_shifts(0, 1)), PureProfile(0.1)]
    pure = np.array([1.0, math.exp(-0.1)]) / (1 + math.exp(-0.1))
    whole = compose(parts)
    for epsilon in (0.1, 0.8, 1.6):
        worst = max(
            enumerated([*pairs, (pure, pure[::-1])], epsilon)
            for pairs in product(*[((up, down), (down, up))] * 2, ((wide, high), (high, wide)))
        )
        assert worst <= whole.delta(epsilon) <= worst * 1.01


def test_nine_uneven_mechanisms_are_too_many():
    parts = [BinomialNoise(n, 0.3).profile(Sensitivity.unit_shifts(1, 0)) for n in range(2, 11)]
    with pytest.raises(Unsupported, match="9 mechanisms whose two directions differ"):
        compose(parts)
    assert 0 < compose(parts, as_given=True).delta(1.0) <= 1
    even = [BinomialNoise(n, 0.3).profile(Sensitivity.unit_shifts(1, 1)) for n in range(2, 11)]
    assert compose(even).delta(1.0) <= 1  # a cell up and a cell down are the same both ways


def test_numbers_certify_nothing_tiny_but_rho_does():
    profile = DiscreteGaussian(5.0).profile(Sensitivity.unit_shifts(1, 0))
    bare = LossProfile(profile.forward, profile.backward)
    assert bare.delta(5.0) == pytest.approx(CERTIFIABLE, rel=1e-3)
    assert bare.epsilon(CERTIFIABLE / 2) == math.inf
    assert profile.delta(5.0) < 1e-100


def test_the_worse_direction_counts():
    shifted = LossProfile(responses_profile(0.1, 1).forward, responses_profile(0.9, 1).forward)
    assert shifted.delta(0.05) >= responses_profile(0.9, 1).delta(0.05)


def test_group_privacy_where_it_is_exact():
    assert replacing_users(PureProfile(0.5), 3) == PureProfile(1.5)
    assert replacing_users(GaussianProfile(0.5), 3) == GaussianProfile(1.5)
    assert replacing_users(ZeroConcentratedProfile(0.5), 3) == ZeroConcentratedProfile(4.5)
    one = responses_profile(0.5, 2)
    assert replacing_users(one, 1) is one
    with pytest.raises(Unsupported, match="scaled"):
        replacing_users(one, 2)


@pytest.mark.parametrize(
    "wrong", [lambda: PureProfile(-1), lambda: GaussianProfile(-1), lambda: ZeroConcentratedProfile(math.nan)]
)
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(InvalidInput):
        wrong()


def test_delta_outside_the_unit_interval_is_refused():
    with pytest.raises(InvalidInput):
        GaussianProfile(1.0).epsilon(1.0)


def test_what_a_pure_profile_grants_lies_on_its_curve():
    """The closed form rounds; what it gives must hold exactly, or a guarantee would contradict itself."""
    rng = np.random.default_rng(4)
    for bound, delta in zip(10 ** rng.uniform(-3, 3, 3000), 10 ** rng.uniform(-14, -0.01, 3000)):
        profile = PureProfile(bound)
        assert profile.delta(profile.epsilon(delta)) <= delta
        assert profile.epsilon(delta) <= bound


def test_large_epsilons_are_found_and_larger_ones_are_infinite():
    for profile in (responses_profile(1e5, 10), GaussianProfile(1400.0)):
        assert 9e5 < profile.epsilon(1e-5) < 1.1e6
    assert math.isinf(GaussianProfile(1e4).epsilon(1e-5))
    assert ZeroConcentratedProfile(5e-324).epsilon(1e-5) < 1e-12


def exact_answers(epsilon, times, at):
    """delta of so many answers by decimal arithmetic of sixty digits, from the largest loss down."""
    with localcontext(Context(prec=60, Emin=-(10**9), Emax=10**9)):
        step, at = Decimal(epsilon), Decimal(at)
        lie = 1 / (1 + step.exp())
        mass, total, right = (1 - lie) ** times, Decimal(0), times
        while (loss := (2 * right - times) * step) > at:
            total += mass * (1 - (at - loss).exp())
            mass = mass * right / (times - right + 1) * lie / (1 - lie)
            right -= 1
        return total


@pytest.mark.parametrize(("times", "epsilon"), [(40, 0.1), (300, 0.05), (40_000, 0.003)])
def test_the_delta_of_many_answers_is_not_rounded_down(times, epsilon):
    """Logarithms of factorials of 40,000 have lost eleven digits behind the point."""
    profile = responses_profile(epsilon, times)
    for delta in (1e-3, 1e-6):
        at = profile.epsilon(delta)
        true = exact_answers(epsilon, times, at)
        assert true <= Decimal(delta)
        assert float(true) == pytest.approx(delta, rel=1e-8)

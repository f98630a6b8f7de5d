"""What every additive law promises, one parametrised test per clause; the oracles are sums over the whole support."""

import math

import mpmath
import numpy as np
import pytest

from discreet.base.errors import DiscreetError, InvalidInput, Unsupported
from discreet.base.streams import stream
from discreet.noise import (
    AnytimeLaw,
    BinomialNoise,
    BoundedNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Law,
    NoNoise,
    add_noise,
)
from discreet.noise.knorm import DiscreteKNorm, TableNoise
from discreet.privacy.sensitivity import Sensitivity

DISCRETE = [
    DiscreteLaplace(0.2),
    DiscreteLaplace(1.7),
    DiscreteGaussian(0.4),
    DiscreteGaussian(2.3),
    BinomialNoise(9, 0.25),
    BinomialNoise(60, 0.5),
]
CONTINUOUS = [Laplace(1.7), Gaussian(2.3), BoundedNoise(3.0)]
LAWS = [*DISCRETE, *CONTINUOUS, NoNoise()]


def support(law):
    if isinstance(law, BinomialNoise):
        return np.arange(law.trials + 1) - law.mean
    return np.arange(-150, 151)


def pmf(law):
    return np.exp(law.log_probability(support(law)))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_it_is_a_law(law):
    assert isinstance(law, AnytimeLaw)
    assert law.drawn == "independent noise in every cell"


def test_noise_for_whole_tables_says_so_and_bounds_no_sums_of_all_lengths():
    law = TableNoise(4, 2.0)
    assert isinstance(law, Law)
    assert not isinstance(law, AnytimeLaw)
    assert "whole of every table" in law.drawn
    assert "whole vector" in DiscreteKNorm(4, 2.0).drawn
    assert not isinstance(DiscreteKNorm(4, 2.0), Law)


@pytest.mark.parametrize("law", DISCRETE, ids=str)
def test_probabilities_sum_to_one_and_give_the_variance(law):
    assert pmf(law).sum() == pytest.approx(1.0, abs=1e-12)
    assert np.dot(pmf(law), support(law)) == pytest.approx(0.0, abs=1e-11)
    assert np.dot(pmf(law), support(law) ** 2) == pytest.approx(law.variance, rel=1e-11)


@pytest.mark.parametrize("law", DISCRETE, ids=str)
def test_nothing_lies_between_the_points_of_the_lattice(law):
    assert np.isneginf(law.log_probability(support(law)[0] + 0.37))


@pytest.mark.parametrize("law", CONTINUOUS, ids=str)
def test_densities_integrate_to_one_and_give_the_variance(law):
    x = np.linspace(-60, 60, 2_000_001) if not isinstance(law, BoundedNoise) else np.linspace(-3, 3, 200_001)
    density = np.exp(law.log_probability(x))
    width = x[1] - x[0]
    assert density.sum() * width == pytest.approx(1.0, rel=1e-6)
    assert np.dot(density, x * x) * width == pytest.approx(law.variance, rel=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_draws_have_the_shape_asked_for_and_a_seed_repeats_them(law):
    first, second = (law.draw(np.random.default_rng(3), (2, 5)) for _ in range(2))
    assert first.shape == (2, 5)
    assert first.dtype == np.float64
    assert np.array_equal(first, second)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_sum_of_no_draws_is_zero_and_copies_may_differ_by_cell(law):
    rng = np.random.default_rng(4)
    copies = np.array([0, 1, 200, 0])
    sums = np.array([law.draw_sum(copies, rng, (4,)) for _ in range(200)])
    assert (sums[:, [0, 3]] == 0).all()
    if law.variance:
        assert sums[:, 2].var() > 50 * sums[:, 1].var()


@pytest.mark.parametrize("law", [law for law in LAWS if law.discrete], ids=str)
def test_real_draws_are_whole_numbers(law):
    drawn = law.secure((3, 4))
    assert drawn.shape == (3, 4)
    assert drawn.dtype == np.int64


@pytest.mark.parametrize("law", CONTINUOUS, ids=str)
def test_continuous_laws_refuse_a_real_release(law):
    assert not law.discrete
    with pytest.raises(Unsupported, match="simulation only"):
        law.secure(3)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("size", [0, 1, 7, 8])
def test_the_kernel_adds_and_moves_the_stream_on(law, size):
    state, twin = stream(0, 0, 1), stream(0, 0, 1)
    base = np.arange(size, dtype=np.float64)
    out, alone = base.copy(), np.zeros(size)
    add_noise(law.kernel(), out, state)
    add_noise(law.kernel(), alone, twin)
    assert np.allclose(out, base + alone)
    assert np.array_equal(state, twin)
    if size and law.variance:
        assert state[0] != stream(0, 0, 1)[0]
        many, more = np.zeros(500), np.zeros(500)
        add_noise(law.kernel(), many, state)
        add_noise(law.kernel(), more, state)
        assert not np.array_equal(many, more)


@pytest.mark.parametrize(
    "law", [Laplace(1.3), DiscreteLaplace(1.3), DiscreteGaussian(1.3), BinomialNoise(9, 0.25)], ids=str
)
def test_filling_at_once_or_one_by_one_gives_the_same_draws(law):
    together, one_by_one = np.zeros(9), np.zeros(9)
    state = stream(1, 0, 1)
    add_noise(law.kernel(), together, stream(1, 0, 1))
    for i in range(9):
        add_noise(law.kernel(), one_by_one[i : i + 1], state)
    assert np.array_equal(together, one_by_one)


def convolved(law, copies):
    """The law of a sum on its lattice, by plain convolution."""
    total = pmf(law)
    for _ in range(copies - 1):
        total = np.convolve(total, pmf(law))
    return copies * support(law)[0] + np.arange(len(total)), total


@pytest.mark.parametrize("law", DISCRETE, ids=str)
@pytest.mark.parametrize("copies", [1, 2, 7])
@pytest.mark.parametrize("tail", [0.5, 0.05, 1e-6])
def test_sum_quantile_is_the_smallest_point_with_that_tail(law, copies, tail):
    x, total = convolved(law, copies)
    t = law.sum_quantile(copies, tail)
    beyond = lambda bound: total[np.abs(x) > bound + 1e-9].sum()  # noqa: E731
    assert beyond(t) <= tail
    smaller = np.abs(x)[np.abs(x) < t - 1e-9]
    if len(smaller):
        assert beyond(smaller.max()) > tail


def bessel_density(n, x):
    """The variance-gamma density of a sum of n standard Laplace draws."""
    order = n - mpmath.mpf(1) / 2
    return (x / 2) ** order * mpmath.besselk(order, x) / (mpmath.sqrt(mpmath.pi) * mpmath.gamma(n))


@pytest.mark.parametrize(("copies", "tail"), [(1, 0.1), (3, 1e-4), (20, 1e-12)])
def test_laplace_sum_quantile_is_exact(copies, tail):
    t = Laplace(2.0).sum_quantile(copies, tail) / 2.0
    with mpmath.workdps(25):
        points = [t, t + 5, t + 20, t + 80, t + 400]
        beyond = 2 * mpmath.quad(lambda x: bessel_density(copies, x), points)
    assert tail * (1 - 1e-7) <= beyond <= tail


def test_laplace_sum_quantile_of_very_many_draws_is_nearly_normal():
    assert Laplace(2.0).sum_quantile(10**8, 1e-6) == pytest.approx(
        Gaussian(math.sqrt(8)).sum_quantile(10**8, 1e-6), rel=1e-6
    )


def test_gaussian_sum_quantile_is_the_normal_one():
    assert Gaussian(2.0).sum_quantile(9, 0.05) == pytest.approx(6 * 1.959963984540054)


def test_bounded_sum_quantile_is_a_bound_and_never_leaves_the_support():
    law = BoundedNoise(2.0)
    assert law.sum_quantile(1, 1e-12) == 2.0
    sums = np.abs(law.draw_sum(20, np.random.default_rng(0), 20_000))
    assert 0 < (sums > law.sum_quantile(20, 0.05)).mean() < 0.05


@pytest.mark.parametrize("law", [DiscreteLaplace(40.0), DiscreteGaussian(300.0)], ids=str)
@pytest.mark.parametrize("copies", [100, 10_000])
def test_wide_sum_quantiles_agree_with_their_continuous_relatives(law, copies):
    relative = Laplace(40.0) if isinstance(law, DiscreteLaplace) else Gaussian(300.0)
    for tail in (0.1, 1e-4, 1e-12):
        assert law.sum_quantile(copies, tail) == pytest.approx(relative.sum_quantile(copies, tail), rel=6e-3)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_quantiles_of_nothing_are_zero(law):
    assert law.sum_quantile(0, 0.1) == 0
    assert law.anytime_radius([0, 0], 0.1).tolist() == [0, 0]


@pytest.mark.parametrize("law", [law for law in LAWS if law.variance], ids=str)
def test_anytime_radius_grows_with_draws_and_certainty_but_stays_near_the_quantile(law):
    n = 3 ** np.arange(1, 14)
    radius = law.anytime_radius(n, 0.05)
    assert (np.diff(radius) > 0).all()
    assert (law.anytime_radius(n, 0.001) >= radius).all()
    # At one n it must exceed the exact quantile, and an iterated logarithm is not much.
    quantile = np.array([law.sum_quantile(int(k), 0.05) for k in n])
    assert (radius >= quantile).all()
    assert (radius <= 2.6 * quantile + 2).all()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Laplace(0.0),
        lambda: Laplace(math.inf),
        lambda: Gaussian(-1.0),
        lambda: DiscreteLaplace(math.nan),
        lambda: DiscreteGaussian(0.0),
        lambda: BoundedNoise(0.0),
        lambda: BinomialNoise(0, 0.5),
        lambda: BinomialNoise(10, 1.0),
        lambda: BinomialNoise(10, 2.0**-70),
        lambda: Laplace(1.0).sum_quantile(-1, 0.1),
        lambda: Laplace(1.0).sum_quantile(1, 0.0),
        lambda: DiscreteGaussian(1.0).anytime_radius(3, 1.5),
        lambda: Gaussian(1.0).anytime_radius(-1, 0.5),
    ],
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidInput):
        wrong()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: DiscreteGaussian(1e9).draw_sum(10**8, np.random.default_rng(0), 1),
    ],
)
def test_what_has_no_affordable_exact_form_is_refused(wrong):
    with pytest.raises(DiscreetError):
        wrong()


def test_no_noise_protects_only_what_cannot_move():
    assert NoNoise().profile(Sensitivity.unit_shifts(1, 0)).delta(100.0) == 1
    assert NoNoise().profile(Sensitivity.unit_shifts(0, 0)).delta(0.0) == 0

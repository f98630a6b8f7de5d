"""Every sampler has the law it states: seeds are fixed, and laws of 2/3 and 3/2 of the scale must be rejected.

A right sampler fails one of these tests with probability 1e-4 over the choice of the seed (secure samplers, which have
no seed, with 1e-7 in every run); a wrong twin must be rejected at 1e-9.
"""

import numpy as np
import pytest
from scipy import stats

from discreet.base.errors import Unsupported
from discreet.base.streams import stream
from discreet.noise import (
    BinomialNoise,
    BoundedNoise,
    DiscreteGaussian,
    DiscreteKNorm,
    DiscreteLaplace,
    Gaussian,
    KaryRandomizedResponse,
    KNorm,
    Laplace,
    RandomizedResponse,
    UnaryEncoding,
    add_noise,
    add_report,
)
from discreet.noise.discrete_gaussian import _rejected, _sum_pmf
from discreet.noise.distribution import check_sound
from discreet.noise.symmetric_gaussian import DiscreteSymmetricGaussianMatrix

pytestmark = pytest.mark.slow

ACCEPT, ACCEPT_SECURE, REJECT = 1e-4, 1e-7, 1e-9
DRAWS = 40_000


def lattice_p_value(sample, law, copies=1):
    """Chi-square against the exact law of a sum, cells with fewer than ten expected draws pooled."""
    one = np.arange(-400, 401).astype(float)
    if isinstance(law, BinomialNoise):
        one = np.arange(law.trials + 1) - law.mean
    pmf = np.exp(law.log_probability(one))
    total = pmf
    for _ in range(copies - 1):
        total = np.convolve(total, pmf)
    index = np.round(np.asarray(sample) - copies * one[0]).astype(int)
    assert np.allclose(index + copies * one[0], sample)
    observed = np.bincount(index, minlength=len(total))[: len(total)]
    expected = total / total.sum() * len(sample)
    order = np.argsort(expected)
    pooled = np.cumsum(expected[order]) < 10
    rare = order[pooled]
    seen = np.append(np.delete(observed, rare), observed[rare].sum())
    wanted = np.append(np.delete(expected, rare), expected[rare].sum())
    keep = wanted > 0
    return stats.chisquare(seen[keep], wanted[keep] * seen[keep].sum() / wanted[keep].sum()).pvalue


def continuous_p_value(sample, law, copies=1):
    if isinstance(law, Gaussian):
        return stats.kstest(sample, stats.norm(scale=law.sigma * np.sqrt(copies)).cdf).pvalue
    if isinstance(law, Laplace):
        if copies == 1:
            return stats.kstest(sample, stats.laplace(scale=law.scale).cdf).pvalue
        return stats.kstest(np.abs(sample) / law.scale, _laplace_sum_cdf(copies)).pvalue
    x = np.linspace(-law.radius, law.radius, 20_001)
    cumulative = np.cumsum(np.exp(law.log_probability(x)))
    return stats.kstest(sample, lambda s: np.interp(s, x, cumulative / cumulative[-1])).pvalue


def _laplace_sum_cdf(copies):
    """By characteristic function, independent of the mixture that the library uses."""
    x = np.linspace(0, 12 * np.sqrt(2 * copies), 4001)
    w = (np.arange(4000) + 0.5) * 0.005
    terms = np.sin(np.outer(x, w)) / w * (1 + w**2) ** -float(copies)
    return lambda s: np.interp(s, x, 2 / np.pi * terms.sum(axis=1) * 0.005)


def p_value(sample, law, copies=1):
    return lattice_p_value(sample, law, copies) if law.discrete else continuous_p_value(sample, law, copies)


def twins(law):
    if isinstance(law, BinomialNoise):
        return [BinomialNoise(law.trials, 2 * law.p / 3)]
    name = next(iter(vars(law)))
    return [type(law)(getattr(law, name) * factor) for factor in (2 / 3, 3 / 2)]


LAWS = [
    Laplace(2.0),
    DiscreteLaplace(0.6),
    DiscreteLaplace(5.0),
    Gaussian(2.0),
    DiscreteGaussian(0.6),
    DiscreteGaussian(5.0),
    BinomialNoise(40, 0.25),
    BoundedNoise(3.0),
]


def drawn(law):
    return law.draw(np.random.default_rng(11), DRAWS)


def from_kernel(law):
    out = np.zeros(DRAWS)
    add_noise(law.kernel(), out, stream(11, 0, 1))
    return out


@pytest.mark.parametrize("sampler", [drawn, from_kernel])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_draws_have_the_law(law, sampler):
    assert p_value(sampler(law), law) > ACCEPT
    for twin in twins(law):
        sample = sampler(twin)
        if isinstance(law, BinomialNoise):
            sample = np.round(sample + twin.mean) - law.mean
        assert p_value(sample, law) < REJECT


@pytest.mark.parametrize("law", [law for law in LAWS if not isinstance(law, BoundedNoise)], ids=str)
def test_sums_have_the_law_of_sums(law):
    sample = law.draw_sum(5, np.random.default_rng(12), DRAWS)
    assert p_value(sample, law, copies=5) > ACCEPT
    if not isinstance(law, BinomialNoise):
        assert p_value(law.draw_sum(11, np.random.default_rng(12), DRAWS), law, copies=5) < REJECT


def test_sums_of_bounded_noise_add_draws():
    law = BoundedNoise(3.0)
    sample = law.draw_sum(6, np.random.default_rng(13), 20_000)
    assert abs(sample.var() / (6 * law.variance) - 1) < 4 * np.sqrt(2 / 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("family", [DiscreteLaplace, DiscreteGaussian], ids=lambda f: f.__name__)
@pytest.mark.parametrize("scale", [1.5, 3.0, 5.0, 5.77, 6.0])
def test_secure_draws_have_the_law_at_the_scales_of_releases(family, scale):
    """A sampler that is right at one scale may be wrong at another: old samplers were wrong at 6 and right at 3."""
    sample = family(scale).secure(60_000)
    assert lattice_p_value(sample, family(scale)) > ACCEPT_SECURE
    assert lattice_p_value(sample, family(1.1 * scale)) < REJECT


@pytest.mark.parametrize("old", ["0.10.0", "0.12.1", "0.14.1", "0.14.1rc1"])
def test_samplers_with_the_wrong_law_are_refused(old):
    with pytest.raises(Unsupported, match="wrong law"):
        check_sound(old)


@pytest.mark.parametrize("sound", ["0.14.2", "0.15.0", "0.16.0", "1.0"])
def test_sound_samplers_are_taken(sound):
    check_sound(sound)


@pytest.mark.parametrize("law", [DiscreteLaplace(2.0), DiscreteGaussian(2.0), BinomialNoise(40, 0.25)], ids=str)
def test_secure_draws_have_the_law(law):
    offset = law.mean if isinstance(law, BinomialNoise) else 0.0
    sample = law.secure(8_000) - offset
    assert lattice_p_value(sample, law) > ACCEPT_SECURE
    for twin in twins(law):
        assert lattice_p_value(twin.secure(8_000) - offset, law) < REJECT


def test_neighbouring_draws_of_the_kernels_are_uncorrelated():
    """Box and Muller make pairs; neither pairs nor neighbours may show it. 4.5 standard errors each."""
    for law in (Gaussian(1.0), Laplace(1.0), DiscreteLaplace(1.0)):
        out = from_kernel(law)
        half = DRAWS // 2
        for first, second in ((out[:-1], out[1:]), (out[:half], out[half:]), (out[:half] ** 2, out[half:] ** 2)):
            assert abs(np.corrcoef(first, second)[0, 1]) < 4.5 / np.sqrt(len(first))


def shell_p_value(norms, law):
    radii = np.arange(400)
    d = law.dimension
    shells = (2.0 * radii + 1) ** d - np.where(radii > 0, np.abs(2.0 * radii - 1) ** d, 0)
    weights = shells * np.exp(-radii / law.scale)
    expected = weights / weights.sum() * len(norms)
    observed = np.bincount(norms.astype(int), minlength=400)
    common = expected >= 10
    seen, wanted = (
        np.append(observed[common], observed[~common].sum()),
        np.append(expected[common], expected[~common].sum()),
    )
    return stats.chisquare(seen, wanted).pvalue


def fill_vectors(law, count):
    out, state, kernel = np.zeros((count, law.dimension)), stream(14, 0, 1), law.kernel()
    for row in out:
        add_noise(kernel, row, state)
    return out


def test_continuous_k_norm_has_the_law():
    law = KNorm(6, 1.5)
    for sample in (law.draw(np.random.default_rng(14), 20_000), fill_vectors(law, 20_000)):
        norms = np.abs(sample).max(axis=1)
        assert stats.kstest(norms, stats.gamma(6, scale=1.5).cdf).pvalue > ACCEPT
        assert stats.kstest(norms, stats.gamma(7, scale=1.5).cdf).pvalue < REJECT
        assert abs(sample[:, 2].var() / law.variance - 1) < 0.06
        # Given the norm, a coordinate that does not attain it is uniform.
        inside = sample[:, 1] / norms
        assert stats.kstest(inside[np.abs(inside) < 1], stats.uniform(-1, 2).cdf).pvalue > ACCEPT


def test_discrete_k_norm_has_the_law():
    law = DiscreteKNorm(3, 1.5)
    for sample in (law.draw(np.random.default_rng(15), 20_000), fill_vectors(law, 20_000)):
        assert shell_p_value(np.abs(sample).max(axis=1), law) > ACCEPT
        assert shell_p_value(np.abs(sample).max(axis=1), DiscreteKNorm(3, 1.0)) < REJECT
        assert abs(sample[:, 0].var() / law.variance - 1) < 0.06
    real = law.secure(3_000)
    assert shell_p_value(np.abs(real).max(axis=1), law) > ACCEPT_SECURE
    assert shell_p_value(np.abs(real).max(axis=1), DiscreteKNorm(3, 1.0)) < REJECT


def test_matrices_are_symmetric_with_a_louder_diagonal():
    law = DiscreteSymmetricGaussianMatrix(4, 9.0)
    sample = law.draw(np.random.default_rng(16), 20_000)
    assert np.array_equal(sample, np.swapaxes(sample, 1, 2))
    assert np.abs(sample.var(axis=0) / law.variance - 1).max() < 5 * np.sqrt(2 / 20_000)
    assert np.diag(law.variance)[0] == pytest.approx(18.0)
    assert law.variance[0, 1] == pytest.approx(9.0)


def test_real_matrices_are_symmetric_integers():
    real = DiscreteSymmetricGaussianMatrix(3, 100.0).secure(2)
    assert real.dtype == np.int64
    assert np.array_equal(real, np.swapaxes(real, 1, 2))


@pytest.mark.parametrize("secure", [False, True])
def test_reports_have_the_stated_probabilities(secure):
    rng = np.random.default_rng(18)
    accept = ACCEPT_SECURE if secure else ACCEPT
    for epsilon in (0.3, 2.0):
        law = KaryRandomizedResponse(epsilon, 4)
        items = np.full(DRAWS, 2)
        reported = np.bincount(law.randomize_securely(items) if secure else law.randomize(items, rng), minlength=4)
        assert stats.chisquare(reported, DRAWS * np.array([law.q, law.q, law.p, law.q])).pvalue > accept
        wrong = KaryRandomizedResponse(1.5 * epsilon, 4)
        assert stats.chisquare(reported, DRAWS * np.array([wrong.q, wrong.q, wrong.p, wrong.q])).pvalue < REJECT
        unary = UnaryEncoding(epsilon, 3)
        bits = unary.randomize_securely(items[:20_000] - 1) if secure else unary.randomize(items[:20_000] - 1, rng)
        for item, chance in enumerate((unary.q, 0.5, unary.q)):
            assert stats.binomtest(int(bits[:, item].sum()), 20_000, chance).pvalue > accept
        binary = RandomizedResponse(epsilon)
        ones = int((binary.randomize_securely(items // 2) if secure else binary.randomize(items / 2, rng)).sum())
        assert stats.binomtest(ones, DRAWS, binary.p).pvalue > accept
        assert stats.binomtest(ones, DRAWS, RandomizedResponse(1.5 * epsilon).p).pvalue < REJECT


def test_a_fraction_is_answered_like_a_bit_of_that_probability():
    law = RandomizedResponse(1.0)
    ones = int(law.randomize(np.full(DRAWS, 0.3), np.random.default_rng(19)).sum())
    assert stats.binomtest(ones, DRAWS, 0.3 * law.p + 0.7 * law.q).pvalue > ACCEPT


def test_report_kernels_have_the_stated_probabilities():
    for law in (KaryRandomizedResponse(1.0, 4), UnaryEncoding(1.0, 4)):
        ones, state, kernel = np.zeros(4), stream(20, 0, 1), law.kernel()
        for _ in range(20_000):
            add_report(kernel, 1, ones, state)
        for item in range(4):
            chance = law.p if item == 1 else law.q
            assert stats.binomtest(int(ones[item]), 20_000, chance).pvalue > ACCEPT


@pytest.mark.parametrize(
    "law",
    [
        Laplace(1.0),
        DiscreteLaplace(0.5),
        Gaussian(1.0),
        DiscreteGaussian(0.5),
        BinomialNoise(5, 0.125),
        BoundedNoise(1.0),
    ],
    ids=str,
)
def test_anytime_radius_covers_whole_paths(law):
    """4,000 paths of 3,000 draws: at a failure probability of 0.2 at most that many may ever leave.

    The radius at half its size must lose most paths, so the test can tell; the bound is not absurdly loose either.
    """
    paths, length = 4_000, 3_000
    n = np.arange(1, length + 1)
    radius = law.anytime_radius(n, 0.2)
    rng = np.random.default_rng(21)
    left, left_half = 0, 0
    for _ in range(8):
        sums = np.abs(np.cumsum(law.draw(rng, (paths // 8, length)), axis=1))
        left += int((sums > radius).any(axis=1).sum())
        left_half += int((sums > radius / 2).any(axis=1).sum())
    assert left <= 0.2 * paths
    assert left_half >= 0.25 * paths


@pytest.mark.parametrize("sigma", [0.7, 3.0, 20.0])
def test_rejection_has_the_law_of_the_table(sigma):
    """Chi-square over all integers with five expected draws or more; false alarm 1e-6. A wrong sigma is rejected."""
    draws = 200_000
    found = _rejected(sigma, np.random.default_rng(5), draws)

    def pvalue(claimed):
        pmf = _sum_pmf(claimed, 1)
        counts = np.bincount((found + len(pmf) // 2).astype(np.int64), minlength=len(pmf))[: len(pmf)]
        often = pmf * draws >= 5
        observed, expected = counts[often], pmf[often] * draws
        rest = draws - observed.sum(), draws - expected.sum()
        return stats.chisquare([*observed, rest[0]], [*expected, rest[1]]).pvalue

    assert pvalue(sigma) > 1e-6
    assert pvalue(sigma * 1.1) < 1e-6


def test_wide_sums_are_drawn_one_by_one():
    """Too wide for a table: mean and deviation of sums of three, within five errors (false alarm 1e-6)."""
    draws = DiscreteGaussian(2e5).draw_sum(3, np.random.default_rng(6), 40_000)
    wide = 2e5 * 3**0.5
    assert (draws == np.round(draws)).all()
    assert abs(draws.mean()) < 5 * wide / 200
    assert abs(draws.std() / wide - 1) < 5 / (200 * 2**0.5)

r"""Discrete Gaussian noise: P(x) proportional to exp(-x^2 / 2 sigma^2) on the integers (Canonne, Kamath, Steinke 2020).

It is zero-concentrated with rho = L2^2 / 2 sigma^2 at integer shifts, like the Gaussian, but not exactly Gaussian
private: at the Gaussian's sigma its delta can be more than twice as large. ``profile`` takes the best of three bounds:

* rho, for any shift of whole numbers;
* unit shifts, exactly: for a shift v the loss is (|v|^2 - 2 <v, x>) / 2 sigma^2, a function of <v, x> alone; for unit
  shifts that is a sum of k draws, whose law on the integers is computed, so that nothing is discretised;
* any shift of whole numbers, nearly as for a Gaussian with a little less variance, by the argument that follows.

**Formal guarantees by smoothing.** Let whole numbers move by v, in any number of cells and releases, the lengths of
their moves never above L1 and L2 in all. Then for every epsilon

    delta(epsilon) <= e^c delta_mu(epsilon - c),   mu = L2 / sqrt(sigma^2 - s^2),   c = L1 ln((1 + eta) / (1 - eta)),

with delta_mu the Gaussian's, s = 1.5 and eta = 2 sum over j >= 1 of exp(-2 pi^2 s^2 j^2) < 1.1e-19.
Proof. Add continuous Gaussian noise of variance sigma^2 - s^2 to a whole number q, call the result w, and output a
whole number k with probability exp(-(k - w)^2 / 2 s^2) / Z(w). By Poisson's formula Z(w), the sum of these weights, is
s sqrt(2 pi) (1 + 2 sum over j >= 1 of exp(-2 pi^2 s^2 j^2) cos(2 pi j w)), so within factors 1 - eta and 1 + eta of
s sqrt(2 pi). Were it constant, k would have a probability proportional to exp(-(k - q)^2 / 2 sigma^2), because the two
Gaussians convolve; and the constant that makes the sum over k one is the same for every whole q. So the probabilities
of the discrete Gaussian around q and of this k have a ratio between a and b, where b / a = (1 + eta) / (1 - eta). A
cell that does not move has the same law on both sides, given what was released before: leave it as it is. Those that
move, in all releases together, are L1 at most, since each moves by one at least; let them be drawn as k. Now everything
is post-processing of Gaussian noise, release by release, at a shift of length L2 at most, and all probabilities are
right up to factors whose extremes have the ratio e^c: :class:`discreet.privacy.profiles.NearGaussianProfile`. If shifts
are chosen adaptively but their length never exceeds L2, the Gaussian's loss is that of a Brownian motion stopped at a
fixed clock at the latest, hence no worse than that of one Gaussian of mu.

The third bound costs a share of s^2 / 2 sigma^2 in sigma, so it replaces tables from sigma = 64 on (0.03%).

**On a fine grid** (:class:`GridGaussian`), for sums whose shifts are many and of many sizes: P(x) is proportional to
exp(-x^2 / 2 sigma^2) on the multiples x of 2^-bits. It is the same law in
smaller units, and can be shipped; a grid that is fine against sigma makes its privacy as simple as the Gaussian's.

**Formal guarantees on the grid.** Let the statistic lie on the grid and move by a vector of length L2, any vector, over
any number N of cells and releases. Then the privacy is at least that of a Gaussian with

    mu = L2 / sqrt(sigma^2 - s^2),   s = 3 steps of the grid.

Proof. Add continuous Gaussian noise of variance sigma^2 - s^2 to a cell q, call the result w, and output a point k of
the grid with probability proportional to exp(-(k - w)^2 / 2 s^2). The sum of these weights over the grid is, by
Poisson's formula, the same for every w up to a factor within 1 +- 2 exp(-2 pi^2 9), and without that factor the two
Gaussians would convolve to exp(-(k - q)^2 / 2 sigma^2). So the output is the discrete law around q up to factors within
1 +- 1e-76 in every cell, and is computed from w alone: all cells together are post-processing of a Gaussian mechanism
up to a factor 1 +- N 1e-76, far below the allowance of 1e-12 that mu is given here. The argument goes release by
release, so it holds for data chosen adaptively, where the Gaussian's does: if shifts are chosen adaptively but their
length never exceeds L2, the loss is that of a Brownian motion stopped at a fixed clock, hence of one Gaussian of mu.

In simulation a draw is a Gaussian rounded to the grid. The mass of a cell of the grid differs from the density at its
middle by at most a 24th of the second derivative, so the distance in total variation from the shipped law is at most
E|z^2 - 1| / 48 < 0.021 in units of (step / sigma)^2: below 1e-15 for the grids that are accepted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.scientific import special
from discreet.base.streams import Stream
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_count, check_open_unit, check_scale
from discreet.noise.distribution import (
    IN_EVERY_CELL,
    Size,
    TableKernel,
    add_noise,
    advance,
    check_whole_moves,
    check_whole_scale,
    secure_library,
    stitched_lines,
    stitched_radius,
    table_kernel,
    word_at,
)
from discreet.noise.exact_distribution import exact_gaussian
from discreet.noise.exact_sampler import OWN, SamplerName, check_sampler, draw_exactly, usual_sampler
from discreet.noise.gaussian import Gaussian, horizontal, normal_radius, standard_lines, vertical
from discreet.privacy.losses import LossDistribution
from discreet.privacy.profiles import (
    GaussianProfile,
    LossProfile,
    NearGaussianProfile,
    Profile,
    ZeroConcentratedProfile,
)
from discreet.privacy.rounding import root_up, up
from discreet.privacy.sensitivity import Sensitivity

# Beyond this many standard deviations lies less than 1e-18 of the mass (the law and its sums are sub-Gaussian).
_REACH = 9.2
_LONGEST_TABLE = 1 << 21
_MOST_DRAWS = 1 << 24
# From this sigma on, sums over the integers equal the Gaussian's integrals to all digits: by Poisson's formula they
# differ by a share of 2 exp(-2 pi^2 sigma^2).
_FINE = 2.0
_WIDE = 64.0  # from this sigma on, the bound by smoothing is as good as an exact table, and takes no time
SMOOTHED = 1.5  # s in the bound by smoothing


@dataclass(frozen=True)
class DiscreteGaussian:
    """Discrete Gaussian noise with parameter sigma (its standard deviation, but for very small sigma).

    Args:
        sigma: Its scale.

    Examples:
        >>> from discreet.noise import DiscreteGaussian
        >>> from discreet.privacy import Sensitivity
        >>> profile = DiscreteGaussian(10.0).profile(Sensitivity(1.0, 1.0, 1.0))
        >>> round(profile.rho, 4)
        0.005
    """

    sigma: float
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = IN_EVERY_CELL

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_whole_scale("sigma", self.sigma))

    @property
    def variance(self) -> float:
        """The variance of the noise in one cell."""
        if self.sigma >= _FINE:
            return self.sigma**2
        pmf = _sum_pmf(self.sigma, 1)
        x = np.arange(len(pmf)) - len(pmf) // 2
        return float(np.dot(x * x, pmf))

    def log_probability(self, x: ArrayLike) -> Floats:
        """The logarithm of the probability of x; minus infinity off the grid."""
        x = np.asarray(x, dtype=np.float64)
        inside = -((x / self.sigma) ** 2) / 2 - _log_normaliser(self.sigma, 0.0)
        return np.where(x == np.round(x), inside, -np.inf)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """Exact for unit shifts of narrow noise; otherwise what the L1 and L2 norms certify, see above."""
        check_whole_moves(sensitivity)
        unit = sensitivity.unit and sensitivity.cells and self.sigma < _WIDE
        if unit and _length(self.sigma, sensitivity.cells) <= _LONGEST_TABLE:
            return _unit_profile(self.sigma, sensitivity.cells)
        return smoothed_profile(self.sigma, sensitivity.l1, sensitivity.l2)

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent draws for simulation."""
        return self.draw_sum(1, rng, size)

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """By a table of the sum's law, one for every different number of copies; one by one where it is too long."""
        n = np.broadcast_to(copies, size)
        out = np.zeros(n.shape)
        for count in np.unique(n[n > 0]):
            chosen = n == count
            if _length(self.sigma, int(count)) > _LONGEST_TABLE and count * chosen.sum() <= _MOST_DRAWS:
                out[chosen] = sum(_rejected(self.sigma, rng, int(chosen.sum())) for _ in range(count))
                continue
            up_to = _sum_cumulative(self.sigma, int(count))
            index = np.searchsorted(up_to[:-1], rng.random(int(chosen.sum())), side="right")
            out[chosen] = index - len(up_to) // 2
        return out

    def secure(self, size: Size) -> Integers:
        """Draws for a real release, from the operating system's entropy, by the sampler that is usual for so many."""
        return self.secure_by(usual_sampler(size), size)

    def secure_by(self, sampler: SamplerName, size: Size) -> Integers:
        """Draws for a real release by OpenDP's sampler or our own: both have exactly this law."""
        if check_sampler(sampler) == OWN:
            return draw_exactly(exact_gaussian(self.sigma), size)
        dp = secure_library()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        zeros = np.zeros(size, dtype=np.int64)
        return np.array(dp.m.make_gaussian(*space, scale=self.sigma)(zeros.ravel().tolist()), np.int64).reshape(
            zeros.shape
        )

    def sum_quantile(self, copies: int, tail: float) -> float:
        """Exact while a table of the sum's law fits in memory, then the sub-Gaussian bound (some 15% larger)."""
        check_count("copies", copies, at_least=0)
        check_open_unit("tail", tail)
        return _sum_quantile(self.sigma, int(copies), float(tail)) if copies else 0.0

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        """A bound on sums of all numbers of draws at once."""
        if self.sigma < _FINE:
            return stitched_radius(_lines(self.sigma, failure_probability), copies)
        # The Gaussian's: the discrete law's cumulants are at most sigma^2 l^2 / 2, and here hardly less.
        return self.sigma * stitched_radius(standard_lines(failure_probability), copies)

    def kernel(self) -> TableKernel:
        """What ``add_noise`` takes in compiled code."""
        pmf = _sum_pmf(self.sigma, 1)
        return table_kernel(pmf, -(len(pmf) // 2))


def _log_normaliser(sigma: float, centre: float) -> float:
    if sigma >= _FINE:
        return math.log(sigma * math.sqrt(2 * math.pi))
    x = np.arange(-math.ceil(_REACH * sigma) - 1, math.ceil(_REACH * sigma) + 2) - (centre - round(centre))
    return math.log(float(np.exp(-((x / sigma) ** 2) / 2).sum()))


def _length(sigma: float, copies: int) -> int:
    return 1 << math.ceil(math.log2(2 * math.ceil(_REACH * sigma * math.sqrt(copies)) + 4))


def _rejected(sigma: float, rng: np.random.Generator, size: int) -> Floats:
    """Draws by rejection from the discrete Laplace law of about the same width (Canonne, Kamath, Steinke 2020)."""
    found = np.empty(0)
    scale = math.floor(sigma) + 1
    stop = -math.expm1(-1 / scale)
    while len(found) < size:
        wanted = 2 * (size - len(found)) + 16
        proposal = (rng.geometric(stop, wanted) - rng.geometric(stop, wanted)).astype(np.float64)
        kept = rng.random(wanted) < np.exp(-((np.abs(proposal) - sigma**2 / scale) ** 2) / (2 * sigma**2))
        found = np.concatenate([found, proposal[kept]])
    return found[:size]


@lru_cache(maxsize=64)
def _sum_pmf(sigma: float, copies: int, centre: float = 0.0) -> Floats:
    """The law of a sum of draws of exp(-(x - centre)^2 / 2 sigma^2), on integers around round(copies * centre).

    Entry i is the probability of i - length // 2 + round(copies * centre). Convolution happens on a circle that is so
    long that less than 1e-17 wraps around it; the transform's own error is of that order too.
    """
    length = _length(sigma, copies)
    if length > _LONGEST_TABLE:
        raise Unsupported(
            f"a sum of {copies} discrete Gaussian draws with sigma {sigma:g} needs a table of {length} entries, "
            f"more than {_LONGEST_TABLE}: use Gaussian in simulations of this size"
        )
    x = np.arange(length) - length // 2
    pmf = np.exp(-(((x - (centre - round(centre))) / sigma) ** 2) / 2)
    pmf /= pmf.sum()
    if copies > 1:
        drift = round(copies * (centre - round(centre)))
        spectrum = np.fft.rfft(np.roll(pmf, length // 2)) ** copies
        pmf = np.roll(np.maximum(np.fft.irfft(spectrum, length), 0.0), length // 2 - drift)
    pmf.flags.writeable = False
    return pmf


@lru_cache(maxsize=16)
def _sum_cumulative(sigma: float, copies: int) -> Floats:
    """The sums of a law up to every entry, kept because a simulation draws from few laws very often."""
    return np.cumsum(_sum_pmf(sigma, copies))


@lru_cache(maxsize=1024)
def _unit_profile(sigma: float, cells: int) -> LossProfile:
    pmf = _sum_pmf(sigma, cells)
    start = (cells - 2 * (len(pmf) // 2)) / (2 * sigma**2)
    losses = LossDistribution(start, sigma**-2, pmf)
    near = smoothed_profile(sigma, cells, root_up(Fraction(cells)))
    mu, slack = (near.mu, near.slack) if isinstance(near, NearGaussianProfile) else (math.inf, 0.0)
    return LossProfile(losses, losses, math.inf, up(cells / (2 * Fraction(sigma) ** 2)), mu=mu, slack=slack)


def smoothed_profile(
    sigma: float, l1: float, l2: float, smoothing: float = SMOOTHED
) -> NearGaussianProfile | ZeroConcentratedProfile:
    """The bound by smoothing for whole shifts of these norms, and rho; rho alone where the noise is too narrow."""
    rho = up((Fraction(l2) / Fraction(sigma)) ** 2 / 2)
    eta = poisson_error(smoothing)
    if sigma <= smoothing or eta >= 1:
        return ZeroConcentratedProfile(rho)
    # Rounded up: differences of squares and logarithms are good to a few parts in 1e16.
    mu = l2 / math.sqrt((sigma - smoothing) * (sigma + smoothing)) * (1 + 1e-15)
    return NearGaussianProfile(mu, l1 * (math.log1p(eta) - math.log1p(-eta)) * (1 + 1e-12), rho)


def poisson_error(smoothing: float) -> float:
    """eta above: how far the sum of Gaussian weights over the whole numbers is from constant, as a share."""
    theta = math.exp(-2 * (math.pi * smoothing) ** 2)
    return 2 * sum(theta ** (j * j) for j in range(1, 20)) * (1 + 1e-12)


@lru_cache(maxsize=4096)
def _sum_quantile(sigma: float, n: int, tail: float) -> float:
    """One exponentially tilted table: the tilted law is a discrete Gaussian centred where the quantile should be.

    P(S = s) = exp(n ln M - l s) P_tilted(S = s) with l = c / sigma^2, so that errors of the transform, which are
    relative to the largest entry, are relative to the tail too.
    """
    wide = sigma * math.sqrt(n)
    if _length(sigma, n) > _LONGEST_TABLE:
        return wide * math.sqrt(2 * math.log(2 / tail))
    centre = -wide * float(special.ndtri(tail / 2)) / n
    pmf = _sum_pmf(sigma, n, centre)
    middle = round(n * centre)
    s = np.arange(len(pmf)) - len(pmf) // 2 + middle
    # n ln M - l s with everything measured from s = n c, where it is -n c^2 / 2 sigma^2 plus the normalisers' ratio.
    log_ratio = n * (_log_normaliser(sigma, centre) - _log_normaliser(sigma, 0.0) + centre**2 / (2 * sigma**2))
    keep = s >= max(0, middle - 4 * math.ceil(wide))
    s, pmf = s[keep], pmf[keep]
    beyond = np.cumsum((pmf * np.exp(log_ratio - centre * s / sigma**2))[::-1])[::-1]
    # beyond[i] = P(S >= s[i]); the answer is the smallest s with 2 P(S > s) <= tail.
    enough = np.flatnonzero(2 * beyond * (1 + 1e-9) <= tail)
    return float(max(0, s[enough[0]] - 1)) if len(enough) else wide * math.sqrt(2 * math.log(2 / tail))


@lru_cache(maxsize=256)
def _lines(sigma: float, failure_probability: float) -> tuple[Floats, Floats]:
    def cumulant(l: float) -> float:
        # Tilting moves the centre to l sigma^2.
        return _log_normaliser(sigma, l * sigma**2) - _log_normaliser(sigma, 0.0) + (l * sigma) ** 2 / 2

    return stitched_lines(cumulant, math.inf, failure_probability, math.sqrt(DiscreteGaussian(sigma).variance))


_SMOOTHING = 3.0  # steps: s in the proof above
_ALLOWANCE = 1e-12
_FINEST, _COARSEST = 2.0**23, 2.0**46  # of sigma in steps: total variation below 1e-15; whole numbers exact in doubles


class GridGaussianKernel(NamedTuple):
    """Compiled Gaussian noise on a grid of this step."""

    sigma: float
    step: float


@dataclass(frozen=True)
class GridGaussian:
    """Discrete Gaussian noise of standard deviation sigma on multiples of 2^-bits.

    Args:
        sigma: Its standard deviation.
        bits: Of the grid.

    Examples:
        >>> from discreet.noise import GridGaussian
        >>> GridGaussian(2.0, bits=30).sigma
        2.0
    """

    sigma: float
    bits: int
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = IN_EVERY_CELL

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_scale("sigma", self.sigma))
        object.__setattr__(self, "bits", check_count("bits", self.bits, at_least=0))
        if self.bits > 1000 or not _FINEST <= self.sigma / self.step <= _COARSEST:
            raise Unsupported(
                f"sigma must be between 2^23 and 2^46 steps of the grid, got sigma={self.sigma:g} at bits={self.bits}: "
                "choose other bits, or DiscreteGaussian on whole numbers"
            )

    @classmethod
    def as_private_as(cls, law: Gaussian, bits: int) -> GridGaussian:
        """The law on the grid whose promise is that of continuous noise."""
        sigma = math.hypot(law.sigma * (1 + _ALLOWANCE), _SMOOTHING * 2.0**-bits)
        return cls(sigma * (1 + _ALLOWANCE), bits)

    @property
    def step(self) -> float:
        """The distance between neighbouring values."""
        return float(2.0**-self.bits)

    @property
    def variance(self) -> float:
        """The variance of the noise in one cell."""
        return self.sigma**2

    def log_probability(self, x: ArrayLike) -> Floats:
        """The logarithm of the probability of x; minus infinity off the grid."""
        x = np.asarray(x, dtype=np.float64)
        inside = -((x / self.sigma) ** 2) / 2 - math.log(self.sigma / self.step * math.sqrt(2 * math.pi))
        return np.where(x / self.step == np.round(x / self.step), inside, -np.inf)

    def profile(self, sensitivity: Sensitivity) -> GaussianProfile:
        """For a statistic on the grid: only the length of the shift matters."""
        reduced = math.sqrt(self.sigma**2 - (_SMOOTHING * self.step) ** 2)
        return GaussianProfile(sensitivity.l2 / reduced * (1 + _ALLOWANCE))

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent draws for simulation."""
        return self.step * np.rint(rng.normal(0.0, self.sigma / self.step, size))

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """A sum of draws has the same kind of law, by the argument above."""
        wide = self.sigma / self.step * np.sqrt(np.asarray(copies, dtype=np.float64))
        return np.asarray(self.step * np.rint(wide * rng.standard_normal(size)))

    def secure(self, size: Size) -> Floats:
        """Multiples of the step, exact in floating point: whole numbers of steps stay far below 2^53."""
        return np.asarray(self.step * DiscreteGaussian(self.sigma / self.step).secure(size), np.float64)

    def secure_by(self, sampler: SamplerName, size: Size) -> Floats:
        """Multiples of the step by OpenDP's sampler or our own."""
        return np.asarray(self.step * DiscreteGaussian(self.sigma / self.step).secure_by(sampler, size), np.float64)

    def sum_quantile(self, copies: int, tail: float) -> float:
        """The Gaussian's quantile, and what rounding to the grid can add."""
        check_count("copies", copies, at_least=0)
        check_open_unit("tail", tail)
        return -self.sigma * math.sqrt(copies) * float(special.ndtri(tail / 2)) + copies * self.step

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        """The Gaussian's bound, because the discrete law's cumulants are at most sigma^2 l^2 / 2."""
        return self.sigma * stitched_radius(standard_lines(failure_probability), copies)

    def kernel(self) -> GridGaussianKernel:
        """What ``add_noise`` takes in compiled code."""
        return GridGaussianKernel(self.sigma, self.step)


@add_noise.implement(GridGaussianKernel)
def _add_rounded(law: GridGaussianKernel, out: Floats, state: Stream) -> None:
    """The draws of the continuous kernel, rounded."""
    base, sigma, step = state[0], law.sigma / law.step, law.step
    n = out.shape[0]
    half = n // 2
    for i in range(half):
        angle = word_at(base, 2 * i + 1)
        radius = sigma * normal_radius(word_at(base, 2 * i))
        out[i] += step * np.rint(radius * horizontal(angle))
        out[half + i] += step * np.rint(radius * vertical(angle))
    if n % 2 == 1:
        out[n - 1] += step * np.rint(sigma * normal_radius(word_at(base, n - 1)) * horizontal(word_at(base, n)))
    advance(state, n + n % 2)

"""Laplace noise, on the integers (for releases) and continuous (for simulations of papers).

**Discrete.** P(x) = (1-t)/(1+t) t^|x| with t = exp(-1/b). Pure epsilon = L1 / b on integer statistics.

**Both, by L2.** Noise of either kind in a cell that moves by m has a loss of at most m / b, and a pure mechanism of
epsilon is epsilon^2 / 2 zero-concentrated (Bun and Steinke 2016). Noises of cells and of releases are independent, and
rhos add up, adaptively too, so

    rho = sum of (m / b)^2 / 2 = L2^2 / 2 b^2,

against L1^2 / 2 b^2, which the pure bound of all cells together would give. At delta > 0 the better of both counts.

A cell that moves by one has loss +1/b with probability 1/(1+t) and -1/b otherwise, exactly as randomised response, so
the loss of k such cells is a binomial and ``profile`` is a finite sum. A sum of n draws is the difference of two
negative binomials.

**Continuous.** Density exp(-|x|/b) / 2b. Pure epsilon = L1 / b; simulation only.

A coordinate that moves by d has loss d/b with probability 1/2 (all x on the far side), -d/b with probability
exp(-d/b)/2, and between them a density, so with delta > 0 several coordinates cost less than the sum of their bounds:
``profile`` composes the exact loss of every coordinate of the worst shift. A sum of n draws is b (G1 - G2) with
independent Gamma(n) variables, and its absolute value is a mixture of Gamma(1..n) variables with positive weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, reduce
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.scientific import optimize, special
from discreet.base.streams import Stream, fast_log, mix, to_unit, with_random_sign
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_count, check_open_unit, check_scale
from discreet.noise.distribution import (
    GOLDEN,
    IN_EVERY_CELL,
    Size,
    add_noise,
    advance,
    check_whole_moves,
    check_whole_scale,
    exchange_noise,
    refuse_secure,
    secure_library,
    smallest_point,
    stitched_lines,
    stitched_radius,
    word_at,
)
from discreet.noise.exact_distribution import exact_laplace
from discreet.noise.exact_sampler import OWN, SamplerName, check_sampler, draw_exactly, usual_sampler
from discreet.privacy.losses import LossDistribution, convolve, repeat
from discreet.privacy.profiles import BoundedProfile, LossProfile, Profile, PureProfile, responses_profile
from discreet.privacy.rounding import quotient_up, up
from discreet.privacy.sensitivity import Sensitivity


class LaplaceKernel(NamedTuple):
    """Compiled Laplace noise."""

    scale: float


@dataclass(frozen=True)
class Laplace:
    """Laplace noise of scale b (standard deviation b * sqrt(2)).

    Args:
        scale: b.

    Examples:
        >>> from discreet.noise import Laplace
        >>> Laplace(2.0).variance
        8.0
    """

    scale: float
    discrete: ClassVar[bool] = False
    drawn: ClassVar[str] = IN_EVERY_CELL

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_scale("scale", self.scale))

    @property
    def variance(self) -> float:
        """The variance of the noise in one cell."""
        return 2 * self.scale**2

    def log_probability(self, x: ArrayLike) -> Floats:
        """The logarithm of the density at x."""
        return -np.abs(np.asarray(x, dtype=np.float64)) / self.scale - math.log(2 * self.scale)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """Exact for the worst shift where one is known; otherwise what the L1 and L2 norms certify."""
        if sensitivity.shifts:
            return _worst_shift_profile(self.scale, sensitivity)
        return _by_norms(self.scale, sensitivity)

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent draws for simulation."""
        return rng.laplace(0.0, self.scale, size)

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """The difference of two gamma variables."""
        n = np.broadcast_to(np.asarray(copies, dtype=np.float64), size)
        difference: Floats = rng.standard_gamma(n) - rng.standard_gamma(n)
        return self.scale * difference

    def secure(self, size: Size) -> Integers:
        """Refused: floating point draws leak."""
        raise refuse_secure("Laplace noise", "DiscreteLaplace")

    def sum_quantile(self, copies: int, tail: float) -> float:
        """Exact: P(|sum| > t) is a positive combination of incomplete gamma functions."""
        check_count("copies", copies, at_least=0)
        check_open_unit("tail", tail)
        return self.scale * _standard_sum_quantile(int(copies), float(tail)) if copies else 0.0

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        """A bound on sums of all numbers of draws at once."""
        return self.scale * stitched_radius(_standard_lines(failure_probability), copies)

    def kernel(self) -> LaplaceKernel:
        """What ``add_noise`` takes in compiled code."""
        return LaplaceKernel(self.scale)


@add_noise.implement(LaplaceKernel)
def _add_laplace(law: LaplaceKernel, out: Floats, state: Stream) -> None:
    scale = law.scale
    position = state[0]
    for i in range(out.shape[0]):
        position += GOLDEN  # a running sum is cheaper than a product for every word
        word = mix(position)
        out[i] += with_random_sign(scale * fast_log(to_unit(word)), word)
    state[0] = position


@exchange_noise.implement(LaplaceKernel)
def _exchange_laplace(law: LaplaceKernel, base: Floats, old: Floats, new: Floats, cells: Floats, state: Stream) -> None:
    """Draw and exchange in one pass, so that waiting for the tree's memory overlaps with computing logarithms."""
    scale = law.scale
    position = state[0]
    for i in range(cells.shape[0]):
        position += GOLDEN
        word = mix(position)
        noise = base[i] + with_random_sign(scale * fast_log(to_unit(word)), word)
        new[i] = noise
        cells[i] += noise - old[i]
    state[0] = position


# Grid points per smallest loss of one coordinate.
_RESOLUTION = 200


@lru_cache(maxsize=1024)
def _unit_profile(scale: float, cells: int) -> LossProfile:
    exact = Fraction(scale)
    answers = responses_profile(up(1 / exact), cells)
    return replace(answers, bound=up(cells / exact), rho=up(cells / (2 * exact**2)))


@lru_cache(maxsize=256)
def _worst_shift_profile(scale: float, sensitivity: Sensitivity) -> LossProfile:
    shifts = sensitivity.shifts or ()
    unit = math.gcd(*(magnitude for magnitude, _, _ in shifts))
    smallest = min(magnitude for magnitude, _, _ in shifts) // unit
    # Every |loss| bound is then a whole number of steps, and so are the atoms there.
    per_unit = max(1, math.ceil(_RESOLUTION / smallest))
    step = unit / (scale * per_unit)
    # Symmetric noise: both signs of a shift, and both directions, have one loss distribution.
    parts = [repeat(_coordinate(magnitude // unit * per_unit, step), up + down) for magnitude, up, down in shifts]
    total = reduce(convolve, parts)
    return LossProfile(
        total, total, quotient_up(sensitivity.l1, scale), up((Fraction(sensitivity.l2) / Fraction(scale)) ** 2 / 2)
    )


def _by_norms(scale: float, sensitivity: Sensitivity) -> PureProfile | BoundedProfile:
    """The pure bound by the L1 norm and rho by the L2 norm; they say the same of a single cell."""
    pure, rho = (
        PureProfile(quotient_up(sensitivity.l1, scale)),
        up((Fraction(sensitivity.l2) / Fraction(scale)) ** 2 / 2),
    )
    return BoundedProfile(pure.bound, rho) if rho < pure.rho else pure


def _coordinate(steps: int, step: float) -> LossDistribution:
    """The loss of a coordinate that moves by ``steps * step`` scales, on losses -steps..steps times the step.

    Between the atoms at both ends, losses in (a, a + step) have P-mass
    p = (1 - e^(-step/2)) e^((a + step - bound)/2) / 2 and Q-mass p e^(-a - step/2). Keeping both means
    p / (1 + e^(-step/2)) at the upper end and the rest at the lower.
    """
    bound = steps * step
    p = -math.expm1(-step / 2) * np.exp((step * np.arange(1 - steps, steps + 1) - bound) / 2) / 2
    upper = p / (1 + math.exp(-step / 2))
    masses = np.zeros(2 * steps + 1)
    masses[:-1] += p - upper
    masses[1:] += upper
    masses[0] += math.exp(-bound) / 2
    masses[-1] += 0.5
    return LossDistribution(-bound, step, masses)


@lru_cache(maxsize=4096)
def _standard_sum_quantile(n: int, tail: float) -> float:
    # |G1 - G2| is Gamma(m) with probability C(2n-m-1, n-m) 2^(m-2n+1), m = 1..n. These weights fall with m, and so
    # does their ratio: what is left out beyond the last m kept is at most a geometric series, counted as certain.
    last = min(n, math.ceil(2 * math.sqrt(n * (math.log(1 / tail) + 45))) + 2)
    m = np.arange(1, last + 1)
    log_weights = (
        special.gammaln(2 * n - m) - special.gammaln(n - m + 1) - special.gammaln(n) + (m - 2 * n + 1) * math.log(2)
    )
    weights = np.exp(log_weights)
    ratio = 2 * (n - last) / (2 * n - last - 1) if last < n else 0.0
    beyond = weights[-1] * ratio / (1 - ratio) if ratio < 1 else 0.0

    def log_tail(t: float) -> float:
        return math.log(float(np.dot(weights, special.gammaincc(m, t))) + beyond) - math.log(tail)

    low, high = 0.0, math.sqrt(2 * n) + 1.0
    while log_tail(high) > 0:
        low, high = high, 2 * high
    if log_tail(low) <= 0:
        return low
    root = float(optimize.brentq(log_tail, low, high, xtol=1e-300, rtol=1e-13))
    return root * (1 + 1e-10)


@lru_cache(maxsize=256)
def _standard_lines(failure_probability: float) -> tuple[Floats, Floats]:
    return stitched_lines(lambda l: -math.log1p(-l * l), 1.0, failure_probability, math.sqrt(2))


class DiscreteLaplaceKernel(NamedTuple):
    """Compiled discrete Laplace noise."""

    log_half_sum: float  # ln((1+t)/2)
    scale: float


@dataclass(frozen=True)
class DiscreteLaplace:
    """Two-sided geometric noise with P(x) proportional to exp(-|x| / scale).

    Args:
        scale: Sensitivity over epsilon.

    Examples:
        >>> from discreet.noise import DiscreteLaplace
        >>> from discreet.privacy import Sensitivity
        >>> profile = DiscreteLaplace(2.0).profile(Sensitivity(1.0, 1.0, 1.0))
        >>> profile.epsilon(0.0)
        0.5
    """

    scale: float
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = IN_EVERY_CELL

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_whole_scale("scale", self.scale))

    @property
    def _t(self) -> float:
        return math.exp(-1 / self.scale)

    @property
    def variance(self) -> float:
        """The variance of the noise in one cell."""
        return 2 * self._t / math.expm1(-1 / self.scale) ** 2

    def log_probability(self, x: ArrayLike) -> Floats:
        """The logarithm of the probability of x; minus infinity off the whole numbers."""
        x = np.asarray(x, dtype=np.float64)
        inside = math.log(-math.expm1(-1 / self.scale)) - math.log1p(self._t) - np.abs(x) / self.scale
        return np.where(x == np.round(x), inside, -np.inf)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """Exact for unit shifts; otherwise what the L1 and L2 norms certify."""
        check_whole_moves(sensitivity)
        if sensitivity.unit and sensitivity.cells:
            return _unit_profile(self.scale, sensitivity.cells)
        return _by_norms(self.scale, sensitivity)

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent draws for simulation."""
        return self.draw_sum(1, rng, size)

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """The difference of two negative binomials."""
        n = np.broadcast_to(copies, size)
        # A negative binomial of no trials is zero, but the generator refuses it.
        trials, success = np.maximum(n, 1), -math.expm1(-1 / self.scale)
        difference = rng.negative_binomial(trials, success) - rng.negative_binomial(trials, success)
        return np.where(n > 0, difference, 0).astype(np.float64)

    def secure(self, size: Size) -> Integers:
        """Draws for a real release, from the operating system's entropy, by the sampler that is usual for so many."""
        return self.secure_by(usual_sampler(size), size)

    def secure_by(self, sampler: SamplerName, size: Size) -> Integers:
        """Draws for a real release by OpenDP's sampler or our own: both have exactly this law."""
        if check_sampler(sampler) == OWN:
            return draw_exactly(exact_laplace(self.scale), size)
        dp = secure_library()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        zeros = np.zeros(size, dtype=np.int64)
        return np.array(dp.m.make_laplace(*space, scale=self.scale)(zeros.ravel().tolist()), np.int64).reshape(
            zeros.shape
        )

    def sum_quantile(self, copies: int, tail: float) -> float:
        """Exact while the law is at most a thousand cells wide; then a proved upper bound, within 1% of a deviation."""
        check_count("copies", copies, at_least=0)
        check_open_unit("tail", tail)
        return float(_sum_quantile(self.scale, int(copies), float(tail))) if copies else 0.0

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        """A bound on sums of all numbers of draws at once."""
        return stitched_radius(_lines(self.scale, failure_probability), copies)

    def kernel(self) -> DiscreteLaplaceKernel:
        """What ``add_noise`` takes in compiled code."""
        return DiscreteLaplaceKernel(math.log1p(self._t) - math.log(2), self.scale)


@add_noise.implement(DiscreteLaplaceKernel)
def _add_discrete_laplace(law: DiscreteLaplaceKernel, out: Floats, state: Stream) -> None:
    """Inverse distribution function: P(|X| >= k) = 2 t^k / (1+t) for k >= 1, and a sign that is independent of it."""
    base = state[0]
    for i in range(out.shape[0]):
        word = word_at(base, i)
        magnitude = np.floor(-law.scale * (fast_log(to_unit(word)) + law.log_half_sum))
        out[i] += (1.0 - 2.0 * np.float64(word & np.uint64(1))) * max(0.0, magnitude)
    advance(state, out.shape[0])


_BLOCKS = 1024


@lru_cache(maxsize=4096)
def _sum_quantile(scale: float, n: int, tail: float) -> int:
    """Bisect P(|S| > s) = 2 sum_k P(N1 = k) P(N2 > s + k), N1 and N2 negative binomial.

    In a wide law neighbouring k are taken together in blocks, each with its smallest k: P(N2 > s + k) falls with k, so
    that can only raise the tail. Blocks are narrow around the k that matter for a deviation of s: half of it below the
    mean.
    """
    success = -math.expm1(-1 / scale)
    mean = n * math.exp(-1 / scale) / success
    deviation = math.sqrt(mean / success)

    def at_most(k: Floats) -> Floats:
        return np.where(k < 0, 0.0, special.betainc(n, np.maximum(k, 0.0) + 1.0, success))

    def more_than(k: Floats) -> Floats:
        return np.asarray(special.betaincc(n, k + 1.0, success))

    def tail_beyond(s: int) -> float:
        centre = max(0.0, mean - s / 2)
        low = max(0, math.floor(centre - 5 * deviation))
        high = math.ceil(mean + 5 * deviation if low == 0 else centre + 5 * deviation) + 40
        width = max(1, math.ceil((high - low) / _BLOCKS))
        starts = np.concatenate(([0.0] if low else [], np.arange(low, high + width, width, dtype=np.float64)))
        below = at_most(starts - 1)
        masses = np.diff(below, append=1.0)
        return 2 * float(np.dot(masses, more_than(starts + s)))

    gaussian_guess = math.sqrt(2) * deviation * math.sqrt(2 * math.log(1 / tail))
    return smallest_point(tail_beyond, tail, min(gaussian_guess, scale * math.log(1 / tail) * n))


@lru_cache(maxsize=256)
def _lines(scale: float, failure_probability: float) -> tuple[Floats, Floats]:
    t = math.exp(-1 / scale)

    def cumulant(l: float) -> float:
        # E exp(l X) = (1-t)^2 / ((1 - t e^l)(1 - t e^-l)), written so that small l lose nothing.
        excess = 2 * t * (math.cosh(l) - 1) / (1 - t) ** 2
        return -math.log1p(-excess) if excess < 1 else math.inf

    deviation = math.sqrt(2 * t) / (1 - t)
    return stitched_lines(cumulant, 1 / scale, failure_probability, deviation)

"""Bounded noise: density exp(-exp(1 / (1 - u^2))) / Z in u = x / R, nothing outside (-R, R); simulation only.

The noise of the bounded randomiser for private reinforcement learning (Dagan and Kur 2021). A shift by v leaves P(x >=
R - v) with an infinite loss, so delta is never zero.

Tails: the log-density is a concave function of x^2, as is its difference to that of the Gaussian of the same variance,
which is linear in x^2. So the two densities, as functions of x^2, cross twice, and with equal mass and equal second
moment every convex function of x^2 has a larger mean under the Gaussian; cosh(l x) is one. Hence the law is
sub-Gaussian with its own variance as the proxy, and sums obey P(|S_n| > t) <= 2 exp(-t^2 / 2 n var).

Sums: of more than 64 draws by the n-fold convolution of the density. With phi(t) = E cos(t x) for one draw, and an
interval (-L, L) of ten deviations of the sum to either side, outside of which there is less than 1e-21 of it,

    P(S_n <= x) = 1/2 + x / 2L + sum over k >= 1 of phi(pi k / L)^n sin(pi k x / L) / (pi k),

where terms beyond the 48th are below 1e-17. The function is tabulated at 8,193 points, and draws invert the table with
straight lines in between: in distribution they are within 2e-7 of the sum, everywhere and for every n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.streams import Stream, fast_log, uniform
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_count, check_open_unit, check_scale
from discreet.noise.distribution import IN_EVERY_CELL, Size, add_noise, refuse_secure, stitched_radius
from discreet.noise.gaussian import standard_lines
from discreet.privacy.losses import convolve, on_grid, repeat
from discreet.privacy.profiles import LossProfile, Profile, PureProfile
from discreet.privacy.sensitivity import Sensitivity

# By numerical integration; a test computes them again in multiprecision.
UNIT_MASS = 0.05496605470902302
UNIT_VARIANCE = 0.08195318038523374

_ONE_BY_ONE = 64  # draws of a sum at most, above which it is drawn from a table
_REACH, _TERMS, _POINTS = 10.0, 48, 8193


class BoundedKernel(NamedTuple):
    """Compiled bounded noise."""

    radius: float


@dataclass(frozen=True)
class BoundedNoise:
    """Noise that never exceeds ``radius`` (standard deviation 0.286 of it).

    Args:
        radius: The largest value.

    Examples:
        >>> from discreet.noise import BoundedNoise
        >>> BoundedNoise(3.0).radius
        3.0
    """

    radius: float
    discrete: ClassVar[bool] = False
    drawn: ClassVar[str] = IN_EVERY_CELL

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", check_scale("radius", self.radius))

    @property
    def variance(self) -> float:
        """The variance of the noise in one cell."""
        return UNIT_VARIANCE * self.radius**2

    def log_probability(self, x: ArrayLike) -> Floats:
        """The logarithm of the density at x; minus infinity outside the range."""
        u = np.asarray(x, dtype=np.float64) / self.radius
        return -_exponent(u) - math.log(UNIT_MASS * self.radius)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """Exact for the worst shift; without one nothing is proved."""
        if sensitivity.l1 == 0:
            return PureProfile(0.0)
        if not sensitivity.shifts:
            raise Unsupported("bounded noise is certified for a known worst shift only: state it in Sensitivity.shifts")
        return _worst_shift_profile(self.radius, sensitivity)

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """By rejection from a Gaussian of variance 1/2e: exp(1/(1-u^2)) >= e exp(u^2) >= e (1 + u^2)."""
        out = np.empty(math.prod(size) if isinstance(size, tuple) else size)
        filled = 0
        while filled < len(out):
            u = rng.normal(0.0, math.sqrt(1 / (2 * math.e)), int((len(out) - filled) * 1.35) + 16)
            kept = u[rng.random(len(u)) < np.exp(math.e * (1 + u * u) - _exponent(u))][: len(out) - filled]
            out[filled : filled + len(kept)] = kept
            filled += len(kept)
        return self.radius * out.reshape(size)

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """Few draws one after the other, many from the table of their convolution; see the module."""
        n = np.broadcast_to(np.asarray(copies, dtype=np.int64), size)
        total, few = np.zeros(n.shape), n <= _ONE_BY_ONE
        for i in range(int(n[few].max(initial=0))):
            total[few & (n > i)] += self.draw(rng, int((few & (n > i)).sum()))
        for many in np.unique(n[~few]):
            same = n == many
            total[same] = self.radius * draw_unit_sums(int(many), rng, int(same.sum()))
        return total

    def secure(self, size: Size) -> Integers:
        """Refused: floating point draws leak."""
        raise refuse_secure("Bounded noise", "DiscreteLaplace or DiscreteGaussian")

    def sum_quantile(self, copies: int, tail: float) -> float:
        """A proved upper bound: sub-Gaussian with the law's own variance, and never more than copies * radius."""
        check_count("copies", copies, at_least=0)
        check_open_unit("tail", tail)
        return min(copies * self.radius, math.sqrt(2 * copies * self.variance * math.log(2 / tail)))

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        """The Gaussian's of the same variance, and never more than the radius times the number of draws."""
        gaussian = math.sqrt(self.variance) * stitched_radius(standard_lines(failure_probability), copies)
        return np.minimum(gaussian, self.radius * np.asarray(copies, dtype=np.float64))

    def kernel(self) -> BoundedKernel:
        """What ``add_noise`` takes in compiled code."""
        return BoundedKernel(self.radius)


@add_noise.implement(BoundedKernel)
def _add_bounded(law: BoundedKernel, out: Floats, state: Stream) -> None:
    for i in range(out.shape[0]):
        while True:
            u = math.sqrt(-fast_log(uniform(state)) / math.e) * math.cos(2 * math.pi * uniform(state))
            if abs(u) < 1.0 and uniform(state) < math.exp(math.e * (1.0 + u * u) - math.exp(1.0 / (1.0 - u * u))):
                break
        out[i] += law.radius * u


def _exponent(u: Floats) -> Floats:
    """exp(1 / (1 - u^2)), infinite outside (-1, 1)."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(np.abs(u) < 1, np.exp(1 / np.maximum(1 - u * u, 0.0)), np.inf)


def draw_unit_sums(copies: int, rng: np.random.Generator, size: int) -> Floats:
    """Sums of that many draws of radius one, by inverting their distribution function."""
    points, chances = sum_distribution(copies)
    return np.asarray(np.interp(rng.random(size), chances, points))


def sum_distribution(copies: int) -> tuple[Floats, Floats]:
    """Points, and the probability that a sum of that many draws of radius one is at most each of them."""
    reach = _REACH * math.sqrt(copies * UNIT_VARIANCE)
    places, waves, nodes, masses = _sum_grid()
    k = np.arange(1, _TERMS + 1)
    moments = np.cos(np.outer(math.pi * k / reach, nodes)) @ masses  # phi, real because the law is symmetric
    chances = 0.5 + places / 2 + (moments**copies / (math.pi * k)) @ waves
    return reach * places, np.clip(np.maximum.accumulate(chances), 0.0, 1.0)


@lru_cache(maxsize=1)
def _sum_grid() -> tuple[Floats, Floats, Floats, Floats]:
    """What is the same for every number of draws: points in (-1, 1), sines there, and the law by Gauss' quadrature."""
    places = np.linspace(-1.0, 1.0, _POINTS)
    nodes, weights = np.polynomial.legendre.leggauss(256)
    masses = weights * np.exp(-_exponent(nodes)) / UNIT_MASS
    return places, np.sin(math.pi * np.outer(np.arange(1, _TERMS + 1), places)), nodes, masses / masses.sum()


_CELLS = 4096
_RESOLUTION = 64
_TRUNCATED = 1e-13
_LARGEST_LOSS = 100.0  # anything beyond costs delta what an infinite loss does, to 1e-30 of its mass


@lru_cache(maxsize=256)
def _worst_shift_profile(radius: float, sensitivity: Sensitivity) -> Profile:
    shifts = sensitivity.shifts or ()
    if max(magnitude for magnitude, _, _ in shifts) >= 2 * radius:
        return PureProfile(math.inf)  # the two supports do not meet
    cells = [(_cells(magnitude / radius), up + down) for magnitude, up, down in shifts]
    if min(len(losses) for (losses, _, _), _ in cells) == 0:
        return PureProfile(math.inf)  # where they meet there is no mass to speak of
    spreads = [math.sqrt(float(np.dot(masses, losses**2))) for (losses, masses, _), _ in cells]
    # Fine enough for the calmest coordinate, but never more than a million grid points for the wildest.
    step = max(min(spreads) / _RESOLUTION, 2 * _LARGEST_LOSS / 2**20)
    # Symmetric noise: both signs of a shift, and both directions, have one loss distribution.
    parts = [repeat(on_grid(*cell[:2], step, cell[2]), times) for cell, times in cells]
    total = reduce(convolve, parts)
    return LossProfile(total, total)


def _cells(shift: float) -> tuple[Floats, Floats, float]:
    """Losses, masses and infinite mass of one coordinate of unit radius that moves by ``shift``.

    The line is cut into cells over which the loss rises from a to b; a cell's masses under both laws come from Gauss'
    quadrature and are split between atoms at a and b, which keeps both.
    """
    edges = np.linspace(-1.0, 1.0 - shift, _CELLS + 1)
    nodes, weights = np.polynomial.legendre.leggauss(4)
    width = edges[1] - edges[0]
    points = edges[:-1, None] + (nodes + 1) * (width / 2)
    p = np.exp(-_exponent(points)) @ weights * (width / 2) / UNIT_MASS
    q = np.exp(-_exponent(points + shift)) @ weights * (width / 2) / UNIT_MASS
    with np.errstate(invalid="ignore"):
        loss = _exponent(edges + shift) - _exponent(edges)
    # Next to the ends both are infinite: there the loss is beyond all bounds, down on the left and up on the right.
    loss = np.where(np.isnan(loss), np.copysign(np.inf, edges), loss)
    loss[-1] = np.inf
    # The lowest losses, of next to no mass, move up; the highest become infinite. That keeps the grid short.
    loss[0] = -np.inf
    first = min(int(np.searchsorted(np.cumsum(p), _TRUNCATED)), _CELLS - 1)
    loss = np.maximum(loss, max(-_LARGEST_LOSS, loss[first]))
    low, high = loss[:-1], loss[1:]
    hopeless = ~(high <= _LARGEST_LOSS) | (np.cumsum(p[::-1])[::-1] < _TRUNCATED)
    infinite = max(0.0, 1.0 - float(p.sum())) + float(p[hopeless].sum())
    low, high, p, q = low[~hopeless], high[~hopeless], p[~hopeless], q[~hopeless]
    with np.errstate(invalid="ignore", divide="ignore"):
        upper = np.where(high > low, (p - q * np.exp(low)) / -np.expm1(low - high), p)
    upper = np.clip(upper, 0.0, p)
    return np.concatenate((low, high)), np.concatenate((p - upper, upper)), infinite

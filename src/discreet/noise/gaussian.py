"""Gaussian noise: exactly mu-Gaussian privacy with mu = L2 / sigma; simulation only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.scientific import special
from discreet.base.streams import Stream, fast_log, to_unit
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_count, check_open_unit, check_scale
from discreet.noise.distribution import (
    IN_EVERY_CELL,
    Size,
    add_noise,
    advance,
    refuse_secure,
    stitched_lines,
    stitched_radius,
    word_at,
)
from discreet.privacy.profiles import GaussianProfile
from discreet.privacy.sensitivity import Sensitivity


class GaussianKernel(NamedTuple):
    """Compiled Gaussian noise."""

    sigma: float


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise of standard deviation sigma.

    Args:
        sigma: Its standard deviation.

    Examples:
        >>> from discreet.noise import Gaussian
        >>> Gaussian(2.0).variance
        4.0
    """

    sigma: float
    discrete: ClassVar[bool] = False
    drawn: ClassVar[str] = IN_EVERY_CELL

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_scale("sigma", self.sigma))

    @property
    def variance(self) -> float:
        """The variance of the noise in one cell."""
        return self.sigma**2

    def log_probability(self, x: ArrayLike) -> Floats:
        """The logarithm of the density at x."""
        z = np.asarray(x, dtype=np.float64) / self.sigma
        return -z * z / 2 - math.log(self.sigma * math.sqrt(2 * math.pi))

    def profile(self, sensitivity: Sensitivity) -> GaussianProfile:
        """Exactly mu-Gaussian: the noise is spherical, so only the length of the shift matters."""
        return GaussianProfile(sensitivity.l2 / self.sigma)

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent draws for simulation."""
        return rng.normal(0.0, self.sigma, size)

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """A sum of Gaussian draws is Gaussian."""
        return self.sigma * np.sqrt(np.asarray(copies, dtype=np.float64)) * rng.standard_normal(size)

    def secure(self, size: Size) -> Integers:
        """Refused: floating point draws leak."""
        raise refuse_secure("Gaussian noise", "DiscreteGaussian")

    def sum_quantile(self, copies: int, tail: float) -> float:
        """The exact quantile: a sum of Gaussian draws is Gaussian."""
        check_count("copies", copies, at_least=0)
        check_open_unit("tail", tail)
        return -self.sigma * math.sqrt(copies) * float(special.ndtri(tail / 2))

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        """A bound on sums of all numbers of draws at once."""
        return self.sigma * stitched_radius(standard_lines(failure_probability), copies)

    def kernel(self) -> GaussianKernel:
        """What ``add_noise`` takes in compiled code."""
        return GaussianKernel(self.sigma)


@lru_cache(maxsize=256)
def standard_lines(failure_probability: float) -> tuple[Floats, Floats]:
    """Lines for any law whose cumulants are at most those of the standard Gaussian."""
    return stitched_lines(lambda l: l * l / 2, math.inf, failure_probability, 1.0)


@kernel
def _sine(x: float) -> float:
    """sin x on [-pi/4, pi/4] by its Taylor polynomial, error below 1e-16."""
    z = x * x
    series = -7.647163731819816e-13 + z * 2.8114572543455206e-15
    series = 1.6059043836821613e-10 + z * series
    series = 2.7557319223985893e-6 + z * (-2.505210838544172e-8 + z * series)
    series = -0.16666666666666666 + z * (0.008333333333333333 + z * (-1.984126984126984e-4 + z * series))
    return x + x * z * series


@kernel
def _cosine(x: float) -> float:
    """cos x on [-pi/4, pi/4] by its Taylor polynomial, error below 1e-16."""
    z = x * x
    series = 4.779477332387385e-14 - z * 1.5619206968586225e-16
    series = 2.08767569878681e-9 + z * (-1.1470745597729725e-11 + z * series)
    series = 2.48015873015873e-5 + z * (-2.755731922398589e-7 + z * series)
    series = -0.5 + z * (0.041666666666666664 + z * (-0.001388888888888889 + z * series))
    return 1.0 + z * series


@kernel
def normal_radius(word: np.uint64) -> float:
    """The distance from the origin of a pair of standard Gaussian draws."""
    return math.sqrt(-2.0 * fast_log(to_unit(word)))


@kernel
def horizontal(word: np.uint64) -> float:
    """The cosine of a uniform angle: 53 bits of the word place it in a quarter turn, two others choose the quarter.

    The quarter enters by arithmetic, not by a branch, so that loops vectorise.
    """
    x = (to_unit(word) - 0.5) * (math.pi / 2)
    sine, cosine = _sine(x), _cosine(x)
    swap = np.float64(word & np.uint64(1))
    return (1.0 - np.float64(word & np.uint64(2))) * (cosine + swap * (sine - cosine))  # type: ignore[no-any-return]


@kernel
def vertical(word: np.uint64) -> float:
    """The sine of the same angle."""
    x = (to_unit(word) - 0.5) * (math.pi / 2)
    sine, cosine = _sine(x), _cosine(x)
    swap = np.float64(word & np.uint64(1))
    return (1.0 - np.float64(word & np.uint64(2))) * (sine + swap * (cosine - sine))  # type: ignore[no-any-return]


@add_noise.implement(GaussianKernel)
def _add_gaussian(law: GaussianKernel, out: Floats, state: Stream) -> None:
    """Box and Muller: a pair of draws from a pair of words."""
    base = state[0]
    n = out.shape[0]
    half = n // 2
    for i in range(half):
        angle = word_at(base, 2 * i + 1)
        radius = law.sigma * normal_radius(word_at(base, 2 * i))
        out[i] += radius * horizontal(angle)
        out[half + i] += radius * vertical(angle)
    if n % 2 == 1:
        out[n - 1] += law.sigma * normal_radius(word_at(base, n - 1)) * horizontal(word_at(base, n))
    advance(state, n + n % 2)

"""L-infinity K-norm noise: a whole vector at once, with density proportional to exp(-max |z_i| / scale).

Pure epsilon = L-infinity / scale, however many cells there are: the right noise for a table all of whose cells may move
(Hardt and Talwar 2010). Integrating over cubes, exp(-r/b) = integral over R >= r of exp(-R/b)/b, so z is uniform in a
cube of random radius R: Gamma(d+1) in the continuous law. On the integers P(R) is proportional to (2R+1)^d t^R with
t = exp(-1/scale), and z is uniform on {-R..R}^d.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.scientific import optimize
from discreet.base.streams import Stream, below, fast_log, to_unit, uniform
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_count, check_scale
from discreet.noise.distribution import (
    Size,
    add_noise,
    advance,
    check_whole_scale,
    refuse_secure,
    table_kernel,
    word_at,
)
from discreet.privacy.profiles import PureProfile
from discreet.privacy.rounding import product_up, quotient_up
from discreet.privacy.sensitivity import Sensitivity


class KNormKernel(NamedTuple):
    """Compiled K-norm noise."""

    scale: float


@dataclass(frozen=True)
class KNorm:
    """Continuous K-norm noise for vectors of ``dimension`` cells; simulation only.

    Args:
        dimension: Cells.
        scale: Its scale.

    Examples:
        >>> from discreet.noise import KNorm
        >>> KNorm(4, 2.0).dimension
        4
    """

    dimension: int
    scale: float
    discrete: ClassVar[bool] = False
    drawn: ClassVar[str] = "one draw of noise for the whole vector"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", check_count("dimension", self.dimension))
        object.__setattr__(self, "scale", check_scale("scale", self.scale))

    @property
    def variance(self) -> float:
        """The variance of one cell; cells are uncorrelated but not independent."""
        return self.scale**2 * (self.dimension + 1) * (self.dimension + 2) / 3

    def log_probability(self, z: ArrayLike) -> Floats:
        """The log-density of vectors along the last axis."""
        norms: Floats = np.abs(np.asarray(z, dtype=np.float64)).max(axis=-1)
        return -norms / self.scale - math.lgamma(self.dimension + 1) - self.dimension * math.log(2 * self.scale)

    def profile(self, sensitivity: Sensitivity) -> PureProfile:
        """Pure: only the largest move of a single cell matters."""
        return PureProfile(quotient_up(sensitivity.linf, self.scale))

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent vectors; the last axis of the result is the cell."""
        shape = (size,) if isinstance(size, int) else size
        radius = rng.gamma(self.dimension + 1, self.scale, shape)
        return radius[..., None] * rng.uniform(-1.0, 1.0, (*shape, self.dimension))

    def secure(self, size: Size) -> Integers:
        """Refused: floating point draws leak."""
        raise refuse_secure("K-norm noise", "DiscreteKNorm")

    def kernel(self) -> KNormKernel:
        """What ``add_noise`` takes in compiled code."""
        return KNormKernel(self.scale)


@add_noise.implement(KNormKernel)
def _add_k_norm(law: KNormKernel, out: Floats, state: Stream) -> None:
    """One vector: the radius is a sum of d+1 exponentials, so the length of ``out`` is the dimension."""
    base = state[0]
    d = out.shape[0]
    radius = 0.0
    for i in range(d + 1):
        radius -= law.scale * fast_log(to_unit(word_at(base, i)))
    for i in range(d):
        out[i] += radius * (2.0 * to_unit(word_at(base, d + 1 + i)) - 1.0)
    advance(state, 2 * d + 1)


_BITS = 62
_WHOLE = 1 << _BITS


@dataclass(frozen=True)
class DiscreteKNorm:
    """K-norm noise on the integers. What is shipped uses a fraction for t, rounded up: ``shipped_scale``.

    Args:
        dimension: Cells.
        scale: Its scale.

    Examples:
        >>> from discreet.noise import DiscreteKNorm
        >>> DiscreteKNorm(4, 2.0).dimension
        4
    """

    dimension: int
    scale: float
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = "one draw of noise for the whole vector"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", check_count("dimension", self.dimension))
        object.__setattr__(self, "scale", check_whole_scale("scale", self.scale, times=self.dimension + 1))

    @property
    def _numerator(self) -> int:
        return min(math.ceil(math.exp(-1 / self.scale) * (1 + 1e-15) * _WHOLE) + 1, _WHOLE - 1)

    @property
    def shipped_scale(self) -> float:
        """-1 / ln t of the fraction that real releases use; never below ``scale``."""
        numerator = self._numerator
        small = numerator < _WHOLE // 2
        return -1 / (math.log(numerator / _WHOLE) if small else math.log1p((numerator - _WHOLE) / _WHOLE))

    @property
    def variance(self) -> float:
        """The variance of one cell."""
        radii = np.arange(len(_radius_pmf(self.dimension, self.scale)))
        return float(np.dot(_radius_pmf(self.dimension, self.scale), radii * (radii + 1) / 3))

    def log_probability(self, z: ArrayLike) -> Floats:
        """The log-probability of integer vectors along the last axis."""
        vectors = np.asarray(z, dtype=np.float64)
        # P(z) = sum over R >= |z| of P(R) / (2R+1)^d, and P(R) / (2R+1)^d falls geometrically.
        log_zero = math.log(float(_radius_pmf(self.dimension, self.scale)[0])) - math.log(-math.expm1(-1 / self.scale))
        inside = log_zero - np.abs(vectors).max(axis=-1) / self.scale
        return np.where((vectors == np.round(vectors)).all(axis=-1), inside, -np.inf)

    def profile(self, sensitivity: Sensitivity) -> PureProfile:
        """Pure: only the largest move of a single cell matters."""
        return PureProfile(quotient_up(sensitivity.linf, self.scale))

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent vectors; the last axis of the result is the cell."""
        shape = (size,) if isinstance(size, int) else size
        cumulative = np.cumsum(_radius_pmf(self.dimension, self.scale))
        radius = np.searchsorted(cumulative[:-1], rng.random(shape), side="right")[..., None]
        return rng.integers(-radius, radius, (*shape, self.dimension), endpoint=True).astype(np.float64)

    def secure(self, size: Size) -> Integers:
        """Vectors in exact integer arithmetic from the operating system's entropy.

        (2R+1)^d is a combination of C(R, j), j = 0..d, with non-negative whole coefficients, and C(R, j) t^R is the law
        of j plus j+1 geometric variables: draw j, then the geometrics, then a point of the cube.
        """
        shape = (size,) if isinstance(size, int) else size
        out = np.empty((math.prod(shape), self.dimension), dtype=np.int64)
        weights = _mixture(self.dimension, self._numerator)
        for row in out:
            j = _draw_index(weights)
            radius = j + sum(_geometric(self._numerator) for _ in range(j + 1))
            row[:] = [secrets.randbelow(2 * radius + 1) - radius for _ in range(self.dimension)]
        return out.reshape(*shape, self.dimension)

    def kernel(self) -> DiscreteKNormKernel:
        """What ``add_noise`` takes in compiled code."""
        table = table_kernel(_radius_pmf(self.dimension, self.scale), 0.0)
        return DiscreteKNormKernel(table.cumulative)


class DiscreteKNormKernel(NamedTuple):
    """The distribution function of the cube's radius."""

    cumulative: Floats


@add_noise.implement(DiscreteKNormKernel)
def _add_discrete_k_norm(law: DiscreteKNormKernel, out: Floats, state: Stream) -> None:
    """One vector: a radius from the table, then a point of the cube."""
    radius = np.searchsorted(law.cumulative, uniform(state), side="right")
    for i in range(out.shape[0]):
        out[i] += below(state, 2 * radius + 1) - radius


@lru_cache(maxsize=64)
def _radius_pmf(dimension: int, scale: float) -> Floats:
    # The mode is near d * scale and the tail is that of Gamma(d+1): 45 scales and 12 deviations beyond hold < 1e-17.
    longest = math.ceil(scale * (dimension + 1 + 12 * math.sqrt(dimension + 1) + 45)) + 2
    radii = np.arange(longest)
    logs = dimension * np.log(2 * radii + 1) - radii / scale
    pmf = np.exp(logs - logs.max())
    return np.asarray(pmf / pmf.sum())


@lru_cache(maxsize=64)
def _mixture(dimension: int, numerator: int) -> tuple[int, ...]:
    """Weights of j = 0..d: (j-th forward difference of (2R+1)^d at 0) t^j (1-t)^(d-j), over one denominator."""
    row = [(2 * radius + 1) ** dimension for radius in range(dimension + 1)]
    weights = []
    for j in range(dimension + 1):
        weights.append(row[0] * numerator**j * (_WHOLE - numerator) ** (dimension - j))
        row = [after - before for before, after in pairwise(row)]
    return tuple(weights)


def _draw_index(weights: tuple[int, ...]) -> int:
    left = secrets.randbelow(sum(weights))
    for j, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return j
    raise AssertionError("weights do not sum to their own sum")


def _geometric(numerator: int) -> int:
    successes = 0
    while secrets.randbelow(_WHOLE) < numerator:
        successes += 1
    return successes


@dataclass(frozen=True)
class TableNoise:
    """K-norm noise on whole tables of ``dimension`` entries, in the form of a law per cell."""

    dimension: int
    scale: float
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = "one draw of noise for the whole of every table"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", check_count("dimension", self.dimension))
        object.__setattr__(self, "scale", check_whole_scale("scale", self.scale, times=self.dimension + 1))

    @cached_property
    def _law(self) -> DiscreteKNorm:
        return DiscreteKNorm(self.dimension, self.scale)

    @cached_property
    def variance(self) -> float:
        """The variance of one cell."""
        return self._law.variance

    def log_probability(self, x: ArrayLike) -> Floats:
        """The log-probability of whole tables along the last axis: one number per table, not per cell."""
        return self._law.log_probability(x)[..., None]

    def profile(self, sensitivity: Sensitivity) -> PureProfile:
        """Every table that one user is in may move by L-infinity in all cells: L1 says how many tables there are.

        Refused for other norms: one cell in each of many tables has a small L1 too, and is shown that many times.
        """
        if sensitivity.linf == 0:
            return PureProfile(0.0)
        shown = sensitivity.l1 / (self.dimension * sensitivity.linf)
        tables = round(shown)
        if not abs(shown - tables) <= 1e-9 * tables:
            raise Unsupported(
                f"noise for whole tables of {self.dimension} cells needs users who may move all cells of a table, and "
                f"L1 {sensitivity.l1:g} at L-infinity {sensitivity.linf:g} does not say how many tables show one user: "
                "take DiscreteLaplace"
            )
        return PureProfile(product_up(tables, quotient_up(sensitivity.linf, self.scale)))

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """The noise of one table; ``size`` must be its number of cells."""
        self._check(size)
        return np.asarray(self._law.draw(rng, 1)[0])

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """A sum of independent tables."""
        self._check(size)
        return np.asarray(self._law.draw(rng, int(np.asarray(copies))).sum(axis=0))

    def secure(self, size: Size) -> Integers:
        """The noise of one table, from the operating system's entropy."""
        self._check(size)
        return np.asarray(self._law.secure(1)[0])

    def sum_quantile(self, copies: int, tail: float) -> float:
        """Chernoff's bound for one cell of a sum of tables."""
        return _chernoff(self._law, int(copies), float(tail)) if copies else 0.0

    def kernel(self) -> DiscreteKNormKernel:
        """What ``add_noise`` takes in compiled code."""
        return self._law.kernel()

    def _check(self, size: Size) -> None:
        if size != self.dimension:
            raise InvalidInput(f"noise for tables of {self.dimension} entries cannot serve {size} cells")


@lru_cache(maxsize=1024)
def _chernoff(law: DiscreteKNorm, copies: int, tail: float) -> float:
    """min over l of (copies ln E e^(l z) + ln(2 / tail)) / l, with l in units of one over the deviation.

    Given the radius R a cell is uniform on -R..R, so |z| <= R and E e^(l z) <= E cosh(l R): any l gives a bound.
    """
    radii = np.arange(len(_pmf(law)), dtype=np.float64)
    logs = np.log(np.maximum(_pmf(law), 1e-300))
    deviation = math.sqrt(law.variance)

    def height(u: float) -> float:
        l = math.exp(u) / deviation
        # The mean of e^(l z) over -R..R is sinh(l (2R+1) / 2) / ((2R+1) sinh(l / 2)).
        spread = l * (2 * radii + 1) / 2
        log_sinh = spread + np.log(-np.expm1(-2 * spread))
        terms = logs + log_sinh - np.log(2 * radii + 1) - math.log(2 * math.sinh(l / 2))
        top = float(terms.max())
        cumulant = top + math.log(float(np.exp(terms - top).sum()))
        return (copies * cumulant + math.log(2 / tail)) / l

    return float(optimize.minimize_scalar(height, bounds=(-6.0, 1.0), method="bounded").fun)


def _pmf(law: DiscreteKNorm) -> Floats:
    cumulative: Floats = law.kernel().cumulative
    return np.diff(cumulative, prepend=0.0)

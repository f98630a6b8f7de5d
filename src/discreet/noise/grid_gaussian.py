r"""Discrete Gaussian noise on a fine grid, for sums whose shifts are many and of many sizes.

P(x) is proportional to exp(-x^2 / 2 sigma^2) on the multiples x of 2^-bits. It is the discrete Gaussian of
:mod:`discreet.noise.discrete_gaussian` in smaller units, and can be shipped; a grid that is fine against sigma makes
its privacy as simple as the Gaussian's.

**Formal guarantees.** Let the statistic lie on the grid and move by a vector of length L2, any vector, over any number
N of cells and releases. Then the privacy is at least that of a Gaussian with

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
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import Unsupported
from discreet.noise.discrete_gaussian import DiscreteGaussian
from discreet.noise.gaussian import Gaussian, horizontal, normal_radius, standard_lines, vertical
from discreet.noise.kernels import add_noise, advance, word_at
from discreet.noise.law import Size
from discreet.noise.tails import stitched_radius
from discreet.privacy.profiles import GaussianProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.scientific import special
from discreet.streams import Stream
from discreet.types import Floats
from discreet.validation import check_count, check_open_unit, check_positive

_SMOOTHING = 3.0  # steps: s in the proof above
_ALLOWANCE = 1e-12
_FINEST, _COARSEST = 2.0**23, 2.0**46  # of sigma in steps: total variation below 1e-15; whole numbers exact in doubles


class GridGaussianKernel(NamedTuple):
    sigma: float
    step: float


@dataclass(frozen=True)
class GridGaussian:
    """Discrete Gaussian noise of standard deviation sigma on multiples of 2^-bits."""

    sigma: float
    bits: int
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_positive("sigma", self.sigma))
        check_count("bits", self.bits, at_least=0)
        if not _FINEST <= self.sigma / self.step <= _COARSEST:
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
        return self.sigma**2

    def log_probability(self, x: ArrayLike) -> Floats:
        x = np.asarray(x, dtype=np.float64)
        inside = -((x / self.sigma) ** 2) / 2 - math.log(self.sigma / self.step * math.sqrt(2 * math.pi))
        return np.where(x / self.step == np.round(x / self.step), inside, -np.inf)

    def profile(self, sensitivity: Sensitivity) -> GaussianProfile:
        """For a statistic on the grid: the length of the shift is all that counts."""
        reduced = math.sqrt(self.sigma**2 - (_SMOOTHING * self.step) ** 2)
        return GaussianProfile(sensitivity.l2 / reduced * (1 + _ALLOWANCE))

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        return self.step * np.rint(rng.normal(0.0, self.sigma / self.step, size))

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """A sum of draws has the same kind of law, by the argument above."""
        wide = self.sigma / self.step * np.sqrt(np.asarray(copies, dtype=np.float64))
        return np.asarray(self.step * np.rint(wide * rng.standard_normal(size)))

    def secure(self, size: Size) -> Floats:
        """Multiples of the step, exact in floating point: whole numbers of steps stay far below 2^53."""
        return np.asarray(self.step * DiscreteGaussian(self.sigma / self.step).secure(size), np.float64)

    def sum_quantile(self, copies: int, tail: float) -> float:
        """The Gaussian's, and what rounding can add."""
        check_count("copies", copies, at_least=0)
        check_open_unit("tail", tail)
        return -self.sigma * math.sqrt(copies) * float(special.ndtri(tail / 2)) + copies * self.step

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        """The Gaussian's: the discrete law's cumulants are at most sigma^2 l^2 / 2."""
        return self.sigma * stitched_radius(standard_lines(failure_probability), copies)

    def kernel(self) -> GridGaussianKernel:
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

"""Symmetric matrix noise for sums of phi phi^T: (Z + Z^T) / sqrt(2) with independent N(0, v) entries in Z.

Off the diagonal the variance is v, on it 2v, so the density is proportional to exp(-|K|_F^2 / 4v): spherical in the
Frobenius norm. A shift M costs rho = |M|_F^2 / 4v. Replacing one user whose features have norm at most one moves the
sum by |phi phi^T - psi psi^T|_F <= sqrt(2).

The law here is the discrete one: discrete Gaussians on the upper triangle with the same two variances. It keeps rho at
integer shifts, so features must be rounded to a grid before products are formed; rounding phi phi^T entry by entry
would lose the bound on its norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.base.types import Floats, Integers
from discreet.base.validation import check_count, check_positive
from discreet.noise.discrete_gaussian import DiscreteGaussian
from discreet.noise.distribution import Size, check_whole_scale
from discreet.noise.exact_sampler import SamplerName, usual_sampler
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.privacy.sensitivity import Sensitivity


@dataclass(frozen=True)
class DiscreteSymmetricGaussianMatrix:
    """Discrete Gaussian noise on the upper triangle, parameter ``off_diagonal`` off and twice that on the diagonal."""

    dimension: int
    off_diagonal: float
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = "independent noise in every entry on and above the diagonal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", check_count("dimension", self.dimension))
        object.__setattr__(self, "off_diagonal", check_positive("off_diagonal", self.off_diagonal))
        check_whole_scale("a standard deviation", math.sqrt(2 * self.off_diagonal))

    @property
    def _laws(self) -> tuple[DiscreteGaussian, DiscreteGaussian]:
        return DiscreteGaussian(math.sqrt(self.off_diagonal)), DiscreteGaussian(math.sqrt(2 * self.off_diagonal))

    @property
    def variance(self) -> Floats:
        """The variance of every entry, as a matrix: twice as large on the diagonal."""
        off, on = self._laws
        return off.variance + (on.variance - off.variance) * np.eye(self.dimension)

    def profile(self, sensitivity: Sensitivity) -> ZeroConcentratedProfile:
        """rho = |M|_F^2 / 4v; ``sensitivity.l2`` is the largest Frobenius norm of an integer shift."""
        return ZeroConcentratedProfile(sensitivity.l2**2 / (4 * self.off_diagonal))

    def draw(self, rng: np.random.Generator, size: Size = ()) -> Floats:
        """Independent matrices along the leading axes."""
        off, on = self._laws
        shape = (size,) if isinstance(size, int) else size
        pairs = self.dimension * (self.dimension - 1) // 2
        return self._assemble(off.draw(rng, (*shape, pairs)), on.draw(rng, (*shape, self.dimension)))

    def secure(self, size: Size = ()) -> Integers:
        """Independent matrices from the operating system's entropy, by the sampler that is usual for so many cells."""
        shape = (size,) if isinstance(size, int) else size
        return self.secure_by(usual_sampler((*shape, self.dimension, self.dimension)), size)

    def secure_by(self, sampler: SamplerName, size: Size = ()) -> Integers:
        """Independent matrices by OpenDP's sampler or our own."""
        off, on = self._laws
        shape = (size,) if isinstance(size, int) else size
        pairs = self.dimension * (self.dimension - 1) // 2
        above = off.secure_by(sampler, (*shape, pairs))
        diagonal = on.secure_by(sampler, (*shape, self.dimension))
        return self._assemble(above.astype(np.float64), diagonal.astype(np.float64)).astype(np.int64)

    def _assemble(self, above: Floats, diagonal: Floats) -> Floats:
        d = self.dimension
        out = np.zeros((*above.shape[:-1], d, d))
        rows, columns = np.triu_indices(d, 1)
        out[..., rows, columns] = above
        out[..., columns, rows] = above
        out[..., np.arange(d), np.arange(d)] = diagonal
        return out

r"""Sparse releases: noise on the cells that occur, and only those above a threshold leave.

A table with a billion cells of which a million occur cannot be noised everywhere. Stability-based histograms (Korolova
et al. 2009; Bun, Nissim, Stemmer 2016) add noise Z to the cells that occur and release a cell if its noisy count is at
least tau. A cell that only one user has may then show that she is there, with probability

    p = P(c + Z >= tau),    c the most that she can add to a cell.

**Formal guarantees.** For every epsilon

    delta(epsilon) <= 1 - (1 - p)^m + delta_noise(epsilon - m ln(1 / (1 - p))),

where m is the most cells that can be one user's own and delta_noise the exact profile of the noise at the shift of all
her cells, up and down. Proof. Let T and T' differ in one user, and E be a set of releases. Some cells occur in both
tables; of the others at most m occur in T alone, and none of them leaves with probability q >= (1 - p)^m; at most m
occur in T' alone, and none of those leaves with probability q' >= (1 - p)^m. Cells have independent noise. A release in
which none of either kind leaves shows common cells only; let F be those in E, with probabilities Q(F) and Q'(F) by the
noise on common cells. Then

    P(M(T') in E) <= 1 - q' + q' Q'(F),    P(M(T) in E) >= q Q(F),    Q'(F) <= e^x Q(F) + delta_noise(x) for all x,

because a threshold is post-processing. With x = epsilon - ln(q' / q), the difference of the first and e^epsilon times
the second is at most 1 - q' + q' delta_noise(x), and x >= epsilon - m ln(1 / (1 - p)). So cells that appear cost
delta, cells that vanish cost epsilon, and delta_noise is not inflated by either.

Released keys are sorted: the order of a hash table would leak.

What leaves is not unbiased: an absent cell means "below the threshold", and the release says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.accumulators.base import NoiseSource
from discreet.errors import Unsupported
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.noise.calibration import calibrate_noise
from discreet.noise.law import IN_EVERY_CELL, Law
from discreet.privacy.profiles import Profile
from discreet.privacy.sensitivity import Sensitivity
from discreet.scientific import sparse
from discreet.types import Floats, Integers
from discreet.validation import check_count


@dataclass(frozen=True)
class ThresholdedProfile:
    """The profile of noise and a threshold: ``appears`` is p, ``cells`` is m."""

    noise: Profile
    appears: float
    cells: int

    @property
    def rho(self) -> float:
        """Infinite: a threshold has no zero-concentrated parameter."""
        return math.inf

    @property
    def _hidden(self) -> float:
        """m ln(1 / (1 - p)): minus the logarithm of the probability that none of the cells appears."""
        return -self.cells * math.log1p(-self.appears)

    def delta(self, epsilon: float) -> float:
        """The delta of the noise at a smaller epsilon, plus the probability that one of her own cells appears."""
        spare = epsilon - self._hidden
        if spare < 0:
            return 1.0
        return min(1.0, -math.expm1(-self._hidden) + self.noise.delta(spare))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon whose delta is no larger."""
        left = delta + math.expm1(-self._hidden)
        if left < 0:
            return math.inf
        return self._hidden + self.noise.epsilon(min(left, 1 - 1e-15))


@dataclass(frozen=True)
class ThresholdedLaplace:
    """Discrete Laplace noise and a threshold, as one law whose profile includes both."""

    scale: float
    threshold: float
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = IN_EVERY_CELL

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise alone."""
        return DiscreteLaplace(self.scale)

    @property
    def variance(self) -> float:
        """The variance of the noise alone; that only cells above the threshold are released is not accounted for."""
        return self.noise.variance

    def profile(self, sensitivity: Sensitivity) -> ThresholdedProfile:
        """The profile of noise and threshold together."""
        return _profile(self.noise, self.threshold, sensitivity)


@dataclass(frozen=True)
class ThresholdedGaussian:
    """Discrete Gaussian noise and a threshold, as one law whose profile includes both."""

    sigma: float
    threshold: float
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = IN_EVERY_CELL

    @property
    def noise(self) -> DiscreteGaussian:
        """The noise alone."""
        return DiscreteGaussian(self.sigma)

    @property
    def variance(self) -> float:
        """The variance of the noise alone; that only cells above the threshold are released is not accounted for."""
        return self.noise.variance

    def profile(self, sensitivity: Sensitivity) -> ThresholdedProfile:
        """The profile of noise and threshold together."""
        return _profile(self.noise, self.threshold, sensitivity)


SparseLaw = ThresholdedLaplace | ThresholdedGaussian


def _profile(noise: Law, threshold: float, sensitivity: Sensitivity) -> ThresholdedProfile:
    appears = tail_from(noise, threshold - sensitivity.linf)
    return ThresholdedProfile(noise.profile(sensitivity), appears, own_cells(sensitivity))


def own_cells(sensitivity: Sensitivity) -> int:
    """How many cells can be one user's own: no more than the units that she moves up, which is as many as down."""
    if sensitivity.shifts is None:
        raise Unsupported("a sparse release needs to know how many cells one user can have")
    return max(sum(by * up for by, up, _ in sensitivity.shifts), sum(by * down for by, _, down in sensitivity.shifts))


def tail_from(law: Any, least: float) -> float:
    """P(Z >= least) for a discrete law."""
    first = math.ceil(least)
    if isinstance(law, DiscreteLaplace):
        t = math.exp(-1 / law.scale)
        return t**first / (1 + t) if first > 0 else 1 - t ** (1 - first) / (1 + t)
    reach = math.ceil(12 * law.sigma) + 2
    if first > reach:
        return 1e-30  # beyond twelve deviations: the exact value is smaller
    return float(np.exp(law.log_probability(np.arange(first, max(first, 0) + reach + 1))).sum()) * (1 + 1e-12)


def calibrate_sparse(gaussian: bool, sensitivity: Sensitivity, *, epsilon: float, delta: float) -> SparseLaw:
    """Noise and threshold for (epsilon, delta): half of delta is for cells that appear, half for the noise."""
    if delta <= 0:
        raise Unsupported("a sparse release shows which cells occur, which needs delta above 0: try delta=1e-6")
    for_threshold = delta / 2
    spare = epsilon + math.log1p(-for_threshold)
    if spare <= 0:
        raise Unsupported(f"epsilon={epsilon:g} is too small for a sparse release with delta={delta:g}: raise it")
    m = own_cells(sensitivity)
    appears = -math.expm1(math.log1p(-for_threshold * (1 - 1e-9)) / m)
    family = DiscreteGaussian if gaussian else DiscreteLaplace
    law = calibrate_noise(family, sensitivity, epsilon=spare, delta=delta / 2)
    low, high = 0, 1
    while tail_from(law, high) > appears:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail_from(law, middle) <= appears else (middle, high)
    threshold = float(high + sensitivity.linf)
    return ThresholdedGaussian(law.sigma, threshold) if gaussian else ThresholdedLaplace(law.scale, threshold)


def release_sparse(keys: Integers, counts: Floats, law: SparseLaw, noise: NoiseSource) -> tuple[Integers, Floats]:
    """The keys, sorted, and the noisy counts of the cells that reach the threshold; cells that do not occur cannot."""
    keys, counts = keys[counts > 0], counts[counts > 0]
    order = np.argsort(keys)
    noisy = counts[order] + noise.draw(law.noise, 1, len(keys))
    kept = noisy >= law.threshold
    return keys[order][kept], noisy[kept]


def sparse_rows(keys: Integers, counts: Floats, rows: int, columns: int) -> sparse.csr_array:
    """Cells numbered row by row as a sparse table."""
    check_count("columns", columns)
    row, column = np.divmod(keys, columns)
    return sparse.csr_array((counts, (row, column)), shape=(rows, columns))

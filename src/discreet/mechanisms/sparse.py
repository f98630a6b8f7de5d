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

``SparseTable`` is what is tallied, ``SparseChannel`` its way out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.scientific import sparse
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.base.validation import check_count
from discreet.mechanisms.counts.encoder import Context, Statistic
from discreet.mechanisms.counts.joint_histogram import JointCounts, MarginalTable, MarginalTableArrays
from discreet.mechanisms.mechanism import PlainRun, Tabular, WidthOf
from discreet.mechanisms.release import Estimate
from discreet.mechanisms.sums.accumulator import NoiseSource, noisy
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.noise.calibration import calibrate_noise
from discreet.noise.distribution import IN_EVERY_CELL, Law
from discreet.privacy.profiles import Profile
from discreet.privacy.sensitivity import Sensitivity


@dataclass(frozen=True)
class SparseTable:
    """A table of which only the cells that occur are tallied: rows (cell, count)."""

    table: MarginalTable
    reward_levels: ClassVar[int] = 2
    parts: ClassVar[int] = 1
    sparse: bool = True
    rounded: ClassVar[bool] = True
    levels: ClassVar[int] = 1
    public: ClassVar[Mapping[str, Floats]] = {}

    @property
    def shape(self) -> Shape:
        """The public sizes of the table."""
        return self.table.shape

    @property
    def name(self) -> str:
        """The name of the table, marked as sparse."""
        return f"sparse {self.table.name}"

    @property
    def statistics(self) -> frozenset[str]:
        """The statistics of the table."""
        return self.table.statistics

    @property
    def first_visit(self) -> bool:
        """Whether only first visits are counted."""
        return self.table.first_visit

    @property
    def per_user(self) -> int:
        """How many trajectories one user may have."""
        return self.table.per_user

    @property
    def size(self) -> int:
        """How many cells the whole table has."""
        return self.table.size

    def sensitivity(self) -> Sensitivity:
        """The sensitivity of the table: leaving out empty cells changes nothing about what a user moves."""
        return self.table.sensitivity()

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """What a user moves in one step of the table."""
        return self.table.layer_sensitivity(step)

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Spread rows over the cells of the whole table, empty ones included."""
        return self.table.rows_to_cells(rows)

    def possible(self) -> Mask:
        """Which cells of the whole table can occur."""
        return self.table.possible()

    def marginals(self, cells: Floats) -> dict[str, Statistic]:
        """The statistics of a whole table; a sparse release does not use it."""
        return self.table.marginals(cells)

    def arrays(self) -> MarginalTableArrays:
        """The compiled form of the whole table."""
        return self.table.arrays()

    def from_joint(self, joint: JointCounts, part: int = 0) -> Floats:
        """The cells that occur, sorted, and their counts."""
        where, counts = self.table.place(joint)
        cells, inverse = np.unique(where, return_inverse=True)
        return np.stack([cells.astype(np.float64), np.bincount(inverse, weights=counts, minlength=len(cells))], axis=1)


@dataclass(frozen=True)
class SparseChannel(Tabular):
    """One sparse release of a table."""

    encoder: SparseTable
    law: SparseLaw

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> SparseRun:
        """Begin a run, which has a single release."""
        return SparseRun(self, noise)

    def noise_per_row(self) -> float:
        """The squared threshold, for comparing laws: what is lost below it outweighs the noise."""
        return float(self.law.threshold**2)

    def cells_per_count(self) -> dict[str, int]:
        """How many cells a count sums if all cells of its row are above the threshold."""
        *_, columns, bits = self.encoder.table.axes
        counts = {"visits": columns * bits, "transitions": bits, "rewards": columns}
        return {name: cells for name, cells in counts.items() if name in self.encoder.statistics}


class SparseRun(PlainRun):
    """Takes in one tally, and gives out what is above the threshold."""

    _channel: SparseChannel

    def __init__(self, channel: SparseChannel, noise: NoiseSource) -> None:
        self._channel, self._noise = channel, noise
        self._released: tuple[Integers, Floats] | None = None

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in rows (cell, count), once."""
        if self._released is not None:
            raise Unsupported("this recipe releases a data set once; a second release would need a budget of its own")
        cells, counts = tally[:, 0].astype(np.int64), tally[:, 1]
        self._released = release_sparse(cells, counts, self._channel.law, self._noise)

    def estimates(self) -> dict[str, Estimate]:
        """Transitions as a sparse table (rows, S + 1), its last column the ends; visits and rewards are its sums."""
        assert self._released is not None
        keys, counts = self._released
        table, law = self._channel.encoder.table, self._channel.law
        G, S, A, columns, bits = table.axes
        successors = sparse_rows(keys // bits, counts, G * S * A, columns)
        visits = np.asarray(successors.sum(axis=1), np.float64).reshape(G, S, A)
        variance = np.full((1,), law.variance)
        found = {"visits": Estimate(visits, variance), "transitions": Estimate(cast(Any, successors), variance)}
        if bits == 2:
            ones = keys % 2 == 1
            rewarded = sparse_rows(keys[ones] // 2, counts[ones], G * S * A, columns)
            found["rewards"] = Estimate(np.asarray(rewarded.sum(axis=1), np.float64).reshape(G, S, A), variance)
        found["threshold"] = Estimate(np.full((1,), law.threshold), np.zeros(1))
        return found

    def width_now(self) -> WidthOf:
        """A bound on the noise in released cells; what the threshold suppressed is not part of it."""
        law = self._channel.law
        return lambda cells, tail: np.full((1,), law.noise.sum_quantile(cells, tail))


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
    if sensitivity.shifts is None or sensitivity.any_way:
        raise Unsupported("a sparse release needs to know how many cells one user can have")
    return max(sum(by * up for by, up, _ in sensitivity.shifts), sum(by * down for by, _, down in sensitivity.shifts))


def tail_from(law: Any, least: float) -> float:
    """P(Z >= least) for a discrete law."""
    first = math.ceil(least)
    if isinstance(law, DiscreteLaplace):
        t = math.exp(-1 / law.scale)
        # Not a power of t, whose last digit is rounded: with a wide law the power is high, and off by as much.
        beyond = math.exp(-max(first, 1 - first) / law.scale) / (1 + t)
        return beyond * (1 + 1e-12) if first > 0 else 1 - beyond * (1 - 1e-12)
    reach = math.ceil(12 * law.sigma) + 2
    if first > reach:
        return 1e-30  # beyond twelve deviations: the exact value is smaller
    return float(np.exp(law.log_probability(np.arange(first, max(first, 0) + reach + 1))).sum()) * (1 + 1e-12)


# Of delta, for cells that appear; the rest is for the noise. Noise that is purely private needs no rest.
_SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 15 / 16)


def calibrate_sparse(gaussian: bool, sensitivity: Sensitivity, *, epsilon: float, delta: float) -> SparseLaw:
    """Noise and threshold for (epsilon, delta), delta divided between them so that the threshold is the lowest.

    Of equally low thresholds the one with the least noise. Every share is valid, by the bound above, and which one is
    taken follows from public numbers.
    """
    if delta <= 0:
        raise Unsupported("a sparse release shows which cells occur, which needs delta above 0: try delta=1e-6")
    shares = [share for share in (*_SHARES, *(() if gaussian else (1.0,))) if epsilon + math.log1p(-delta * share) > 0]
    if not shares:
        raise Unsupported(f"epsilon={epsilon:g} is too small for a sparse release with delta={delta:g}: raise it")
    found = (_with_share(gaussian, sensitivity, epsilon, delta, share) for share in shares)
    return min(found, key=lambda law: (law.threshold, law.variance))


def _with_share(gaussian: bool, sensitivity: Sensitivity, epsilon: float, delta: float, share: float) -> SparseLaw:
    """Noise and the lowest threshold that suits it, if a share of delta is for cells that appear."""
    for_threshold = delta * share
    spare = epsilon + math.log1p(-for_threshold)
    m = own_cells(sensitivity)
    appears = -math.expm1(math.log1p(-for_threshold * (1 - 1e-9)) / m)
    family = DiscreteGaussian if gaussian else DiscreteLaplace
    law = calibrate_noise(family, sensitivity, epsilon=spare, delta=delta - for_threshold)
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
    released = noisy(counts[order], law.noise, 1, noise)
    kept = released >= law.threshold
    return keys[order][kept], released[kept]


def sparse_rows(keys: Integers, counts: Floats, rows: int, columns: int) -> sparse.csr_array:
    """Cells numbered row by row as a sparse table."""
    check_count("columns", columns)
    row, column = np.divmod(keys, columns)
    return sparse.csr_array((counts, (row, column)), shape=(rows, columns))

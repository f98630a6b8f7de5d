r"""The matrix mechanism: a release after every user or block, quieter than a tree, in memory that does not grow.

Prefix sums are A x with A the lower-triangular matrix of ones. Write A = B C with C lower-triangular and Toeplitz; add
independent noise z to C x, and what is released is B (C x + z) = A x + B z. A user moves one entry of x, so she moves
C x by at most a column of C. The square root of A,

    C = B = Toeplitz(c),  c_0 = 1,  c_j = c_{j-1} (2 j - 1) / (2 j),

is optimal up to a small constant (Henzinger, Upadhyay, Upadhyay 2023; Fichtenberger, Henzinger, Upadhyay 2023), but C x
needs all of x and B z all of z. So c is replaced by a short sum of exponentials (Dvijotham, McMahan, Pillutla, Steinke,
Thakurta 2024 buffer such sums), here with numbers that are exact in binary:

    c_j = sum_i w_i l_i^j for j >= 1,   l_i = 1 - 2^-b_i,   w_i = W_i 2^-p_i with a whole W_i < 2^10.

Any such C is lower-triangular with ones on the diagonal, hence invertible, and the mechanism is valid for it; its own
column norm is what noise is calibrated to, and its own error is what is stated. The loss against the exact square root
is below one part in ten thousand of the error for a million releases, with eleven terms.

Two recurrences with one buffer per term and cell. ``Mixing`` holds raw counts and works in whole numbers, in steps of
2^-f of a count; ``Unmixing`` turns what was published into prefix sums, in floating point, and needs nothing else:

    S_i <- T - floor(T / 2^b_i) with T = S_i + 2^f x_t,   m_t = 2^f x_t + sum_i floor(W_i S_i / 2^p_i),
    published: y_t = 2^-f (m_t + noise in whole steps),
    v_t = y_t - sum_i w_i s_i,   s_i <- l_i (s_i + v_t),   release t = v_1 + ... + v_t.

**Formal guarantees.** Noise is added to whole numbers m_t. Only the floors keep m from being 2^f C x exactly. The floor
in S_i is wrong by less than one step each time and decays by l_i, so by less than 1 / (1 - l_i) = 2^b_i steps in all;
the floor in m_t is wrong by less than one step per term. Hence every m_t lies within an interval of

    D = sum_i w_i 2^b_i + number of terms

steps around the exact number. Replacing a user who changes at most L1 counts (whole numbers, so at most L1 cells) by
a vector of length L2 moves m by at most

    2^f ||C e_1|| L2 + D sqrt(L1 n)      steps in the n releases together,

whatever the others do, so the bound holds for data chosen adaptively, and no rounding happens elsewhere before noise
is added. With f = 32 the second term is below a thousandth of the first for a million releases. The numbers stay below
2^62 while no count exceeds 2^(52 - f) in all (:func:`fraction_bits`).

A row of counts may have a clock of its own that stands still while everybody knows that the row cannot change: the
releases in which a user shows are then fewer, never more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.errors import Unsupported
from discreet.base.scientific import optimize
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_count
from discreet.mechanisms.sums.accumulator import advance, draws_at
from discreet.noise.distribution import add_noise
from discreet.privacy.messages import MixedReleases
from discreet.privacy.sensitivity import Sensitivity

_FRACTION_BITS = 32
_WEIGHT_BITS = 10
_EXACT_BITS = 52  # of a count in steps: with a weight it fits into 62 bits, and alone into a double
_ROUNDING = 1e-9  # granted to norms that are computed in floating point


class Exponentials(NamedTuple):
    """c_j = sum of ``weights`` * ``decays`` ** j for j >= 1, and c_0 = 1."""

    shifts: Integers  # b
    numerators: Integers  # W
    places: Integers  # p

    @property
    def decays(self) -> Floats:
        """How much of each buffer is left after a release."""
        return 1.0 - 2.0 ** -self.shifts.astype(np.float64)

    @property
    def weights(self) -> Floats:
        """What each buffer adds to a release."""
        return self.numerators * 2.0 ** -self.places.astype(np.float64)


class MatrixArrays(NamedTuple):
    """The compiled form: mixing and unmixing of all cells, release by release."""

    shifts: Integers
    numerators: Integers
    places: Integers
    bits: int
    decays: Floats
    weights: Floats
    errors: Floats  # noise variance of release t, in units of one draw; errors[0] = 0
    past: Integers  # (terms, cells) raw counts, mixed
    buffers: Floats  # (terms, cells) of what was published
    released: Floats  # (cells,)
    mixed: Integers  # (2, cells) scratch: counts and their mixture, in steps
    fresh: Floats  # (cells,) scratch


@dataclass(frozen=True)
class Matrix:
    """Continual sums over up to ``releases`` releases by the buffered square root, in steps of 2^-bits."""

    releases: int
    bits: int = _FRACTION_BITS
    name: str = "matrix"

    def __post_init__(self) -> None:
        object.__setattr__(self, "releases", check_count("releases", self.releases))
        object.__setattr__(self, "bits", check_count("bits", self.bits))

    @property
    def column_norm(self) -> float:
        """The L2 norm of the first column of C: how much of a user all releases show together."""
        return column_norm(exponential_sum(self.releases), self.releases)

    @property
    def slack(self) -> float:
        """By how much the floors can move one number before noise, as a count: D steps."""
        sums = exponential_sum(self.releases)
        floors = float(sums.weights @ 2.0 ** sums.shifts.astype(np.float64)) + len(sums.shifts)
        return floors * 2.0**-self.bits

    def sensitivity(self, own: Sensitivity) -> Sensitivity:
        """What a user who moves one release by ``own`` moves in all mixed counts. Only the L2 norm is meant to be used.

        ``own`` must be that of a statistic of whole numbers. All norms have one margin for rounding: c_j <= 1 makes
        their squares obey L2^2 <= L1 Linf without the floors, and by Cauchy and Schwarz with them.
        """
        columns, granted = coefficients(exponential_sum(self.releases), self.releases), 1 + _ROUNDING
        return Sensitivity(
            own.l1 * (float(columns.sum()) * granted + self.slack * self.releases),
            own.l2 * self.column_norm * granted + self.slack * math.sqrt(own.l1 * self.releases),
            own.linf * granted + self.slack,
        )

    def mixed(self, own: Sensitivity) -> MixedReleases:
        """How releases are mixed, by whole numbers, for a certificate."""
        terms = zip(*exponential_sum(self.releases), strict=True)
        exact = tuple((int(shift), int(numerator), int(place)) for shift, numerator, place in terms)
        return MixedReleases(self.releases, self.bits, exact, own.l1, own.l2)

    def errors(self) -> Floats:
        """The noise variance of release t = 0, 1, ..., in units of the variance of one draw."""
        return prefix_errors(self.releases)[0]

    @property
    def drift(self) -> float:
        """The most that the floors can move a released count, beside the noise."""
        return self.slack * prefix_errors(self.releases)[1]

    def arrays(self, size: int) -> MatrixArrays:
        """The compiled form, for a release after every user."""
        sums = exponential_sum(self.releases)
        terms = len(sums.shifts)
        return MatrixArrays(
            *sums, self.bits, sums.decays, sums.weights, self.errors(),
            past=np.zeros((terms, size), np.int64), buffers=np.zeros((terms, size)), released=np.zeros(size),
            mixed=np.zeros((2, size), np.int64), fresh=np.zeros(size),
        )  # fmt: skip


class Mixing:
    """Raw counts of one run, mixed over releases in whole numbers; each cell has a clock of its own. Never shown."""

    def __init__(self, matrix: Matrix, size: int) -> None:
        self._sums, self._bits = exponential_sum(matrix.releases), matrix.bits
        self.past = np.zeros((len(self._sums.shifts), size), np.int64)

    def step(self, where: Integers, counts: Floats) -> Floats:
        """The next mixture of these cells, as a count on the grid: what noise is added to."""
        shifts, numerators, places = (part[:, None] for part in self._sums)
        new = np.rint(counts).astype(np.int64) << self._bits
        past = self.past[:, where]
        mixed = new + (numerators * past >> places).sum(axis=0)
        past += new
        self.past[:, where] = past - (past >> shifts)
        return np.asarray(mixed * 2.0**-self._bits)


class Unmixing:
    """Prefix sums from published mixtures, in plain NumPy; each cell has a clock of its own."""

    def __init__(self, matrix: Matrix, size: int) -> None:
        sums = exponential_sum(matrix.releases)
        self._decays, self._weights = sums.decays, sums.weights
        self.buffers = np.zeros((len(self._decays), size))

    def step(self, where: Integers, published: Floats) -> Floats:
        """What to add to the release of these cells, from one published number each."""
        new = published - self._weights @ self.buffers[:, where]
        self.buffers[:, where] = self._decays[:, None] * (self.buffers[:, where] + new)
        return np.asarray(new)


def fraction_bits(largest: int) -> int:
    """How fine a grid may be if no cell counts more than ``largest`` in a whole run."""
    bits = min(_FRACTION_BITS, _EXACT_BITS - check_count("largest count", largest).bit_length())
    if bits < 1:
        raise Unsupported(f"counts up to {largest} leave no room for fractions in 64-bit numbers: use blocks")
    return bits


def square_root(n: int) -> Floats:
    """The exact coefficients c_0, ..., c_{n-1} of the square root of the matrix of prefix sums."""
    j = np.arange(1, n)
    return np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))])


@lru_cache(maxsize=64)
def exponential_sum(n: int) -> Exponentials:
    """Few exponentials that reproduce the square root's coefficients up to n.

    c_j is the integral of e^(-(j + 1/2) s) (1 - e^(-s))^(-1/2) ds / pi, so decay rates that are spread evenly on a
    logarithmic scale from 1 to below 1/n suffice: 2^-1, 2^-3, 2^-5, ... The weights are a non-negative least-squares
    fit of relative errors, rounded.
    """
    shifts = np.arange(1, math.ceil(math.log2(n)) + 3, 2)
    j = np.unique(np.geomspace(1, max(1, n - 1), 400).round().astype(np.int64))
    fit = (1.0 - 2.0**-shifts) ** j[:, None] / square_root(n + 1)[j][:, None]
    weights, _ = optimize.nnls(fit, np.ones(len(j)))
    kept = weights > 2.0**-30  # the rest is idle
    shifts, weights = shifts[kept], weights[kept]
    places = _WEIGHT_BITS - 1 - np.floor(np.log2(weights)).astype(np.int64)
    numerators = np.floor(weights * 2.0**places).astype(np.int64)
    return Exponentials(shifts, numerators, places)


def coefficients(sums: Exponentials, n: int) -> Floats:
    """The first column of C."""
    j = np.arange(n)
    column = np.zeros(n)
    for decay, weight in zip(sums.decays, sums.weights, strict=True):
        column += weight * decay**j
    column[0] = 1.0
    return column


def column_norm(sums: Exponentials, n: int) -> float:
    """sqrt(sum of c_j^2 for j < n), term by term as geometric series."""
    ratios = np.multiply.outer(sums.decays, sums.decays)
    series = ratios * -np.expm1((n - 1) * np.log(ratios)) / (1 - ratios)
    return math.sqrt(1.0 + float(sums.weights @ series @ sums.weights))


@lru_cache(maxsize=16)
def prefix_errors(n: int) -> tuple[Floats, float]:
    """Sums of the squares of the first entries of B's first column: the noise variance of every release.

    With them the sum of the absolute values of all its entries.
    """
    sums, errors = exponential_sum(n), np.zeros(n + 1)
    return errors, _accumulate_errors(sums.decays, sums.weights, errors)


@kernel
def _accumulate_errors(decays: Floats, weights: Floats, errors: Floats) -> float:
    """Feed the recurrence one unit draw and follow its trace through all releases."""
    buffers = np.zeros_like(decays)
    trace, absolute = 0.0, 0.0
    for t in range(1, errors.shape[0]):
        fresh = 1.0 if t == 1 else 0.0
        for i in range(decays.shape[0]):
            fresh -= weights[i] * buffers[i]
        for i in range(decays.shape[0]):
            buffers[i] = decays[i] * (buffers[i] + fresh)
        trace += fresh
        absolute += abs(trace)
        errors[t] = errors[t - 1] + trace * trace
    return absolute


@advance.implement(MatrixArrays)
def _advance(matrix: MatrixArrays, t: int, law: Any, cells: Floats, stream: Stream) -> None:
    fresh, released, counts, mixed = matrix.fresh, matrix.released, matrix.mixed[0], matrix.mixed[1]
    terms, size = matrix.buffers.shape
    one, step = np.int64(1) << matrix.bits, 2.0**-matrix.bits
    fresh[:] = 0.0
    add_noise(law, fresh, stream)
    for c in range(size):
        # What the last user added to the release before: a whole number, so rounding recovers it.
        counts[c] = np.int64(np.rint(cells[c] - released[c])) * one
        mixed[c] = counts[c]
    for i in range(terms):
        past, shift, numerator, place = matrix.past[i], matrix.shifts[i], matrix.numerators[i], matrix.places[i]
        for c in range(size):
            mixed[c] += (numerator * past[c]) >> place
            total = past[c] + counts[c]
            past[c] = total - (total >> shift)
    for c in range(size):
        fresh[c] += step * mixed[c]
    for i in range(terms):
        weight, row = matrix.weights[i], matrix.buffers[i]
        for c in range(size):
            fresh[c] -= weight * row[c]
    for i in range(terms):
        decay, row = matrix.decays[i], matrix.buffers[i]
        for c in range(size):
            row[c] = decay * (row[c] + fresh[c])
    for c in range(size):
        released[c] += fresh[c]
        cells[c] = released[c]


@draws_at.implement(MatrixArrays)
def _draws_at(matrix: MatrixArrays, t: int) -> float:
    return matrix.errors[t]  # type: ignore[no-any-return]

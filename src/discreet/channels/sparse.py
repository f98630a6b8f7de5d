"""Sparse tables: noise on the cells that occur, and a release of those that are above a threshold.

A table whose declared domain is far larger than what occurs in it never has to be held in memory
(:mod:`discreet.accumulators.sparse` has the threshold and what it promises).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.accumulators.base import NoiseSource
from discreet.accumulators.sparse import SparseLaw, release_sparse, sparse_rows
from discreet.channels.base import PlainRun, Tabular, WidthOf
from discreet.encoders.base import Context, Statistic
from discreet.encoders.joint import JointCounts, MarginalTable, MarginalTableArrays
from discreet.errors import Unsupported
from discreet.privacy.sensitivity import Sensitivity
from discreet.release import Estimate
from discreet.shape import Shape
from discreet.types import Floats, Integers, Mask


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

"""To be described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from discreet.accumulators.base import NoiseSource
from discreet.accumulators.sparse import release_sparse, sparse_rows
from discreet.channels.base import WidthOf
from discreet.encoders.base import Context
from discreet.encoders.joint import JointCounts, MarginalTable
from discreet.errors import Unsupported
from discreet.privacy.sensitivity import Sensitivity
from discreet.release import Estimate
from discreet.shape import Shape
from discreet.types import Floats, Integers


@dataclass(frozen=True)
class SparseTable:
    """A table of which only the cells that occur are tallied: rows (cell, count)."""

    table: MarginalTable
    sparse: bool = True

    @property
    def shape(self) -> Shape:
        return self.table.shape

    @property
    def name(self) -> str:
        return f"sparse {self.table.name}"

    @property
    def statistics(self) -> frozenset[str]:
        return self.table.statistics

    @property
    def first_visit(self) -> bool:
        return self.table.first_visit

    @property
    def size(self) -> int:
        return self.table.size

    def sensitivity(self) -> Sensitivity:
        return self.table.sensitivity()

    def from_joint(self, joint: JointCounts) -> Floats:
        """The cells that occur, sorted, and their counts."""
        where, counts = self.table.place(joint)
        cells, inverse = np.unique(where, return_inverse=True)
        return np.stack([cells.astype(np.float64), np.bincount(inverse, weights=counts, minlength=len(cells))], axis=1)


@dataclass(frozen=True)
class SparseChannel:
    """One sparse release of a table."""

    encoder: SparseTable
    law: Any
    answers: frozenset[type] = frozenset()

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> SparseRun:
        return SparseRun(self, noise)

    def noise_per_row(self) -> float:
        """For a choice between laws: the threshold is what hurts."""
        return float(self.law.threshold**2)


class SparseRun:
    """Takes in one tally, and gives out what is above the threshold."""

    def __init__(self, channel: SparseChannel, noise: NoiseSource) -> None:
        self._channel, self._noise = channel, noise
        self._released: tuple[Integers, Floats] | None = None

    def add(self, tally: Floats, users: int, context: Context) -> None:
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
        law = self._channel.law
        return lambda cells, tail: np.full((1,), law.noise.sum_quantile(cells, tail))

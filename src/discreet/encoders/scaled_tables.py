"""Three tables whose transitions get sqrt(S) times the noise of the others, from one law.

The published bounded noise has a radius of its own for transitions: S sqrt(A) against sqrt(S A) for visits and rewards,
a ratio of sqrt(S). Counting transitions in units of sqrt(S) before noise is added, and scaling back afterwards, is the
same thing; a transition then carries as much noise as S cells. For simulation only: the counts are no whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from numpy.typing import NDArray

from discreet.encoders.base import Cells, Statistic, encode_into, marginals_into
from discreet.encoders.joint import ALL_THREE
from discreet.encoders.tables import ThreeTables
from discreet.privacy.sensitivity import Sensitivity
from discreet.release import Statistics
from discreet.shape import Shape
from discreet.streams import Stream
from discreet.types import Floats, Integers, Mask


class ScaledTablesArrays(NamedTuple):
    states: int
    actions: int
    homogeneous: bool
    low: float
    span: float
    rows: int
    unit: float


@dataclass(frozen=True)
class ScaledTables:
    """Visits, transitions and rewards; cells as in ``ThreeTables``, transitions divided by sqrt(S)."""

    shape: Shape
    name: ClassVar[str] = "scaled-tables"
    statistics: ClassVar[frozenset[str]] = ALL_THREE
    public: ClassVar[Mapping[str, Floats]] = {}
    rounded: bool = False

    @property
    def tables(self) -> ThreeTables:
        return ThreeTables(self.shape, rounded=False)

    @property
    def unit(self) -> float:
        return math.sqrt(self.shape.states)

    @property
    def size(self) -> int:
        return self.tables.size

    def sensitivity(self) -> Sensitivity:
        """Norms only, bounded by those of the unscaled tables; the laws of both parts are certified apart."""
        return self.tables.sensitivity()

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        return self.tables.rows_to_cells(rows)

    def possible(self) -> Mask:
        return self.tables.possible()

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        marginals = self.tables.marginals(cells)
        values, counted = marginals["transitions"]
        return marginals | {"transitions": Statistic(values * self.unit, counted * self.shape.states)}

    def arrays(self) -> ScaledTablesArrays:
        s = self.shape
        rows = self.tables.rows
        return ScaledTablesArrays(s.states, s.actions, s.homogeneous, s.rewards[0], s.reward_span, rows, self.unit)


@encode_into.implement(ScaledTablesArrays)
def _encode(
    encoder: ScaledTablesArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A, rows = encoder.states, encoder.actions, encoder.rows
    for h in range(length):
        row = ((0 if encoder.homogeneous else h) * S + states[h]) * A + actions[h]
        cells[row] += 1.0
        if h + 1 < length:
            cells[(1 + states[h + 1]) * rows + row] += 1.0 / encoder.unit
        cells[(1 + S) * rows + row] += min(1.0, max(0.0, (rewards[h] - encoder.low) / encoder.span))


@marginals_into.implement(ScaledTablesArrays)
def _marginals(encoder: ScaledTablesArrays, cells: Cells, statistics: Statistics) -> None:
    transitions, rows, S = statistics.transitions, encoder.rows, encoder.states
    for t in range(S):
        for row in range(rows):
            transitions[t, row] = cells[(1 + t) * rows + row] * encoder.unit

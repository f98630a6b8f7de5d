"""The statistics of the papers: separate tables of visits, transitions and rewards.

Replacing a trajectory of H steps moves, in L1, the visits by 2H, the transitions by 2(H-1) (the last step has no
successor) and the rewards by 2H with one table per step. With steps pooled and H visits in one cell the same L1 is
attained by two cells per table, so L2^2 = 4 H^2 + 2 (H-1)^2: H visits of one self-looping pair with reward one against
the same in another pair. Rewards enter as one stochastic-rounding bit (``rounded``) or as they are, in [0, 1] after
scaling; both have the same norms, but only bits can be released with a discrete law.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.encoders.base import Cells, Statistic, by_row, by_successor, encode_into, marginals_into, reward_bit
from discreet.encoders.joint import ALL_THREE
from discreet.privacy.sensitivity import Sensitivity
from discreet.release import Statistics
from discreet.shape import Shape
from discreet.streams import Stream
from discreet.types import Floats, Integers, Mask


class ThreeTablesArrays(NamedTuple):
    states: int
    actions: int
    horizon: int
    homogeneous: bool
    rounded: bool
    low: float
    span: float
    rows: int


@dataclass(frozen=True)
class ThreeTables:
    """Visits, transitions and rewards, each in a table of its own; cells are the tables one after the other.

    Transitions lie successor by successor: cell = rows + successor * rows + row.
    """

    shape: Shape
    rounded: bool = True
    name: ClassVar[str] = "three-tables"
    statistics: ClassVar[frozenset[str]] = ALL_THREE
    public: ClassVar[Mapping[str, Floats]] = {}

    @property
    def rows(self) -> int:
        return self.shape.groups * self.shape.states * self.shape.actions

    @property
    def size(self) -> int:
        return self.rows * (self.shape.states + 2)

    def sensitivity(self) -> Sensitivity:
        H = self.shape.horizon
        pooled = self.shape.homogeneous and H > 1
        worst = ((H, 2, 2), (H - 1, 1, 1)) if pooled else ((1, 3 * H - 1, 3 * H - 1),)
        bits = Sensitivity.worst_shift(*worst)
        return bits if self.rounded else Sensitivity(bits.l1, bits.l2, bits.linf)

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        flat = rows.reshape(-1)
        return np.concatenate([flat, np.tile(flat, self.shape.states), flat])

    def possible(self) -> Mask:
        """Transitions of the last step are never counted."""
        transitions = np.ones((self.shape.groups, self.shape.states, self.shape.actions, self.shape.states), np.bool_)
        if not self.shape.homogeneous or self.shape.horizon == 1:
            transitions[-1] = False
        ones = np.ones(self.rows, np.bool_)
        return np.concatenate([ones, by_successor(transitions).reshape(-1), ones])

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        S, A, G, rows = self.shape.states, self.shape.actions, self.shape.groups, self.rows
        one = np.ones((G, 1, 1), np.int64)
        counted = one.copy()
        if not self.shape.homogeneous or self.shape.horizon == 1:
            counted[-1] = 0
        return {
            "visits": Statistic(cells[:rows].reshape(G, S, A), one),
            "transitions": Statistic(by_row(cells[rows : rows * (S + 1)], G, S, A), counted),
            "rewards": Statistic(cells[rows * (S + 1) :].reshape(G, S, A), one),
        }

    def arrays(self) -> ThreeTablesArrays:
        s = self.shape
        return ThreeTablesArrays(
            s.states, s.actions, s.horizon, s.homogeneous, self.rounded, s.rewards[0], s.reward_span,
            self.rows,
        )  # fmt: skip


@encode_into.implement(ThreeTablesArrays)
def _encode(
    encoder: ThreeTablesArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A, rows = encoder.states, encoder.actions, encoder.rows
    for h in range(length):
        group = 0 if encoder.homogeneous else h
        row = (group * S + states[h]) * A + actions[h]
        cells[row] += 1.0
        if h + 1 < length:
            cells[(1 + states[h + 1]) * rows + row] += 1.0
        if encoder.rounded:
            cells[(1 + S) * rows + row] += reward_bit(rewards[h], encoder.low, encoder.span, stream)
        else:
            cells[(1 + S) * rows + row] += min(1.0, max(0.0, (rewards[h] - encoder.low) / encoder.span))


@marginals_into.implement(ThreeTablesArrays)
def _marginals(encoder: ThreeTablesArrays, cells: Cells, statistics: Statistics) -> None:
    pass  # the tables are the statistics: views of the cells

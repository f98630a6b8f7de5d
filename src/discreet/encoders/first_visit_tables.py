"""First visits in three tables that share their cost: a visit, a successor and a reward bit for each (state, action).

For worlds declared time-homogeneous. As in :mod:`discreet.encoders.first_visit` a user counts each pair once, but its
visit, its successor and its reward bit go to tables of their own instead of one joint cell. What replacing a user does
to one pair is then

    both visited it:     two successors change, one reward,             the visit does not      (3 cells)
    one of them did:     one successor changes, one reward, one visit                           (3 cells)

so the direct count of visits costs nothing beside the successors, and no statistic has to be summed from many noisy
cells: a count of visits carries one draw of noise instead of 2 (S + 1), rewards one instead of S + 1. Two users see at
most U = min(2H, SA) pairs between them, and a pair first met at the last step has no successor, hence

    L1 = L2^2 = 3 U - max(0, U - (2H - 2)),  L-infinity = 1,

where U may also be the number of rows that are released at all. Worth it while SA is not far above H; beyond, the joint
cells of first visits move less (2H).

The signs of the moves are not stated: this profile is for noise that is symmetric.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.encoders.base import Cells, Statistic, by_row, encode_into, marginals_into, reward_bit
from discreet.encoders.joint import ALL_THREE
from discreet.encoders.seen_pairs import Seen, check_homogeneous, is_first_visit, next_user, nobody_seen
from discreet.privacy.sensitivity import Sensitivity
from discreet.release import Statistics
from discreet.shape import Shape
from discreet.streams import Stream
from discreet.types import Floats, Integers, Mask


class FirstVisitTablesArrays(NamedTuple):
    states: int
    actions: int
    low: float
    span: float
    seen: Seen


@dataclass(frozen=True)
class FirstVisitTables:
    """Tables of first visits, of their successors and of their reward bits, for time-homogeneous worlds."""

    shape: Shape
    name: ClassVar[str] = "first-visit-tables"
    statistics: ClassVar[frozenset[str]] = ALL_THREE
    rounded: ClassVar[bool] = True
    public: ClassVar[Mapping[str, Floats]] = {}

    def __post_init__(self) -> None:
        check_homogeneous(self.shape)

    @property
    def rows(self) -> int:
        return self.shape.states * self.shape.actions

    @property
    def size(self) -> int:
        return self.rows * (self.shape.states + 2)

    def sensitivity(self, rows: int | None = None) -> Sensitivity:
        """What replacing a user moves when only ``rows`` rows, chosen without looking at her, are released."""
        H = self.shape.horizon
        pairs = min(2 * H, self.rows if rows is None else rows)
        moves = 3 * pairs - max(0, pairs - (2 * H - 2))
        return Sensitivity.unit_shifts(up=moves - moves // 2, down=moves // 2)

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        flat = rows.reshape(-1)
        return np.concatenate([flat, np.tile(flat, self.shape.states), flat])

    def possible(self) -> Mask:
        possible = np.ones(self.size, np.bool_)
        if self.shape.horizon == 1:
            possible[self.rows : self.rows * (self.shape.states + 1)] = False
        return possible

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        S, A, rows = self.shape.states, self.shape.actions, self.rows
        one = np.ones((1, 1, 1), np.int64)
        return {
            "visits": Statistic(cells[:rows].reshape(1, S, A), one),
            "transitions": Statistic(by_row(cells[rows : rows * (S + 1)], 1, S, A), one * (self.shape.horizon > 1)),
            "rewards": Statistic(cells[rows * (S + 1) :].reshape(1, S, A), one),
        }

    def arrays(self) -> FirstVisitTablesArrays:
        s = self.shape
        return FirstVisitTablesArrays(s.states, s.actions, s.rewards[0], s.reward_span, nobody_seen(self.rows))


@encode_into.implement(FirstVisitTablesArrays)
def _encode(
    encoder: FirstVisitTablesArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A, seen = encoder.states, encoder.actions, encoder.seen
    rows = S * A
    user = next_user(seen)
    for h in range(length):
        pair = states[h] * A + actions[h]
        if not is_first_visit(seen, pair, user):
            continue
        cells[pair] += 1.0
        if h + 1 < length:
            cells[(1 + states[h + 1]) * rows + pair] += 1.0
        cells[(1 + S) * rows + pair] += reward_bit(rewards[h], encoder.low, encoder.span, stream)


@marginals_into.implement(FirstVisitTablesArrays)
def _marginals(encoder: FirstVisitTablesArrays, cells: Cells, statistics: Statistics) -> None:
    pass  # the tables are the statistics: views of the cells

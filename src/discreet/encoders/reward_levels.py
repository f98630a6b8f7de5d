"""Bits of every step: visits, transitions, and a reward written as m bits from the first on.

The encoding of the shuffle appendix of Garcelon et al. (2021), equations (108) and (109). At each step a user has one
bit for every (state, action), one for every (state, action, successor), and m bits for the reward of every (state,
action): with x = m r, the first floor(x) of them are one and the next is one with probability x - floor(x), so that
their sum over m is unbiased. More levels round a reward less and move more bits. Replacing a trajectory flips at most

    2 H bits of visits,  2 (H - 1) of transitions,  2 m H of rewards:  2 (m + 2) H - 2 in all, half of them each way.

With m = 1 these are the cells of :class:`~discreet.encoders.tables.ThreeTables`, one table per step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.encoders.base import Cells, Statistic, encode_into, reward_bit
from discreet.encoders.joint import ALL_THREE
from discreet.errors import Unsupported
from discreet.privacy.sensitivity import Sensitivity
from discreet.shape import Shape
from discreet.streams import Stream
from discreet.types import Floats, Integers, Mask
from discreet.validation import check_count


class RewardLevelsArrays(NamedTuple):
    states: int
    actions: int
    levels: int
    low: float
    span: float
    transitions_at: int
    rewards_at: int


@dataclass(frozen=True)
class RewardLevels:
    """Tables of bits, one per step, with rewards in ``levels`` bits each."""

    shape: Shape
    levels: int = 2
    name: ClassVar[str] = "reward-levels"
    statistics: ClassVar[frozenset[str]] = ALL_THREE
    rounded: ClassVar[bool] = True
    public: ClassVar[Mapping[str, Floats]] = {}

    def __post_init__(self) -> None:
        check_count("levels", self.levels)
        if self.shape.homogeneous and self.shape.horizon > 1:
            raise Unsupported(
                "rewards in levels are bits of one step each: declare the shape per step, pool afterwards"
            )

    @property
    def rows(self) -> int:
        return self.shape.groups * self.shape.states * self.shape.actions

    @property
    def size(self) -> int:
        return self.rows * (1 + self.shape.states + self.levels)

    def sensitivity(self) -> Sensitivity:
        moves = (self.levels + 2) * self.shape.horizon - 1
        return Sensitivity.unit_shifts(moves, moves)

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        flat = rows.reshape(-1)
        return np.concatenate([flat, np.repeat(flat, self.shape.states), np.repeat(flat, self.levels)])

    def possible(self) -> Mask:
        """Transitions of the last step are never counted."""
        transitions = np.ones((self.shape.groups, self.shape.states, self.shape.actions, self.shape.states), np.bool_)
        transitions[-1] = False
        return np.concatenate(
            [np.ones(self.rows, np.bool_), transitions.reshape(-1), np.ones(self.rows * self.levels, np.bool_)]
        )

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Rewards are sums of ``levels`` cells, divided by their number."""
        S, A, G, rows = self.shape.states, self.shape.actions, self.shape.groups, self.rows
        one = np.ones((G, 1, 1), np.int64)
        counted = one.copy()
        counted[-1] = 0
        rewards = cells[rows * (S + 1) :].reshape(G, S, A, self.levels)
        return {
            "visits": Statistic(cells[:rows].reshape(G, S, A), one),
            "transitions": Statistic(cells[rows : rows * (S + 1)].reshape(G, S, A, S), counted),
            "rewards": Statistic(rewards.sum(axis=3) / self.levels, one * self.levels),
        }

    def arrays(self) -> RewardLevelsArrays:
        s = self.shape
        return RewardLevelsArrays(
            s.states, s.actions, self.levels, s.rewards[0], s.reward_span, self.rows, self.rows * (s.states + 1)
        )


@encode_into.implement(RewardLevelsArrays)
def _encode(
    encoder: RewardLevelsArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A, m = encoder.states, encoder.actions, encoder.levels
    for h in range(length):
        row = (h * S + states[h]) * A + actions[h]
        cells[row] += 1.0
        if h + 1 < length:
            cells[encoder.transitions_at + row * S + states[h + 1]] += 1.0
        # The j-th bit is the share of the j-th of m equal parts of the range that the reward fills.
        part = encoder.span / m
        for j in range(m):
            cells[encoder.rewards_at + row * m + j] += reward_bit(rewards[h], encoder.low + j * part, part, stream)

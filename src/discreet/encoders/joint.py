"""One table instead of three: a cell for each (group, state, action, successor or end, reward bit).

Visits, transitions and rewards are sums of its cells, so releasing it once releases all three. Replacing a trajectory
moves one unit out of a cell and one into a cell at each of the H steps:

* one table per step: at most 2H cells change, each by one (L1 = L2^2 = 2H, L-infinity 1);
* steps pooled: the units of all steps but the last, which has an end cell of its own, may meet in one cell
  (L1 = 2H, L2^2 = 2 (H-1)^2 + 2, L-infinity H-1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.compiled import inlined
from discreet.encoders.base import Cells, Statistic, encode_into, marginals_into, reward_bit
from discreet.privacy.sensitivity import Sensitivity
from discreet.release import Statistics
from discreet.shape import Shape
from discreet.streams import Stream
from discreet.types import Floats, Integers, Mask

ALL_THREE = frozenset({"visits", "transitions", "rewards"})


class JointHistogramArrays(NamedTuple):
    states: int
    actions: int
    horizon: int
    homogeneous: bool
    low: float
    span: float


@dataclass(frozen=True)
class JointHistogram:
    """Every visit, one joint cell per step."""

    shape: Shape
    name: ClassVar[str] = "joint-histogram"
    statistics: ClassVar[frozenset[str]] = ALL_THREE
    rounded: ClassVar[bool] = True
    public: ClassVar[Mapping[str, Floats]] = {}

    @property
    def size(self) -> int:
        return joint_cells(self.shape)

    def sensitivity(self) -> Sensitivity:
        H = self.shape.horizon
        if not self.shape.homogeneous or H <= 2:  # of two steps, one has an end cell: they cannot meet
            return Sensitivity.unit_shifts(up=H, down=H)
        return Sensitivity.worst_shift((H - 1, 1, 1), (1, 1, 1))

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows_to_joint_cells(self.shape, rows)

    def possible(self) -> Mask:
        return possible_joint_cells(self.shape)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        return joint_marginals(self.shape, cells)

    def arrays(self) -> JointHistogramArrays:
        shape = self.shape
        return JointHistogramArrays(
            shape.states, shape.actions, shape.horizon, shape.homogeneous, shape.rewards[0], shape.reward_span
        )


@encode_into.implement(JointHistogramArrays)
def _encode(
    encoder: JointHistogramArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A = encoder.states, encoder.actions
    for h in range(length):
        group = 0 if encoder.homogeneous else h
        successor = states[h + 1] if h + 1 < length else S
        bit = reward_bit(rewards[h], encoder.low, encoder.span, stream)
        row = (group * S + states[h]) * A + actions[h]
        cells[(row * (S + 1) + successor) * 2 + bit] += 1.0


# The layout of joint cells, shared with first-visit counts: (group, state, action, successor or end, bit).


def joint_cells(shape: Shape) -> int:
    return shape.groups * shape.states * shape.actions * (shape.states + 1) * 2


def rows_to_joint_cells(shape: Shape, rows: NDArray[Any]) -> NDArray[Any]:
    return np.repeat(rows.reshape(-1), 2 * (shape.states + 1))


def possible_joint_cells(shape: Shape) -> Mask:
    """With one table per step and full-length records, the last step has end cells only and the others have none.

    Records that may end early (a table of real trajectories) can put an end cell at any step, so only the last step's
    successors are impossible for certain.
    """
    possible = np.ones((shape.groups, shape.states, shape.actions, shape.states + 1, 2), np.bool_)
    if not shape.homogeneous or shape.horizon == 1:
        possible[-1, :, :, : shape.states] = False
    return possible.reshape(-1)


def joint_marginals(shape: Shape, cells: Cells) -> dict[str, Statistic]:
    S, G = shape.states, shape.groups
    table = cells.reshape(G, S, shape.actions, S + 1, 2)
    possible = possible_joint_cells(shape).reshape(table.shape)[:, 0, 0]
    successors = possible[:, :S, 0].sum(axis=1)
    ends = possible[:, S, 0].astype(np.int64)

    def cells_of(n: NDArray[Any]) -> Integers:
        return n.astype(np.int64).reshape(G, 1, 1)

    return {
        "visits": Statistic(table.sum(axis=(3, 4)), cells_of(2 * (successors + ends))),
        "transitions": Statistic(table[:, :, :, :S].sum(axis=4), cells_of(2 * (successors > 0))),
        "rewards": Statistic(table[:, :, :, :, 1].sum(axis=3), cells_of(successors + ends)),
    }


@inlined
def joint_marginals_into(cells: Cells, statistics: Statistics) -> None:
    """The same sums in compiled code."""
    visits, transitions, rewards = statistics.visits, statistics.transitions, statistics.rewards
    S, R = transitions.shape
    i = 0
    for row in range(R):
        visited = rewarded = 0.0
        for t in range(S + 1):
            zero, one = cells[i], cells[i + 1]
            i += 2
            visited += zero + one
            rewarded += one
            if t < S:
                transitions[t, row] = zero + one
        visits[row] = visited
        rewards[row] = rewarded


@marginals_into.implement(JointHistogramArrays)
def _marginals(encoder: JointHistogramArrays, cells: Cells, statistics: Statistics) -> None:
    joint_marginals_into(cells, statistics)

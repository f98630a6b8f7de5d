"""Layouts: which cell stands for what, and how cells add up to statistics. Encoders differ in what they count there.

``JointCells`` has one cell for each (group, state, action, successor or end, reward bit), or for fewer of these axes.
Everything else is a sum of cells, so a statistic carries the noise of as many draws.

``Tables`` has a table of visits, one of transitions and one or more of rewards, one after the other. Each entry is a
statistic by itself and carries one draw of noise.

``SuccessorsAndBits`` has a table of transitions and one of reward bits, ones and zeros. Visits are both bits together.

In all of them the last step of a world with laws per step has no successor: those cells are known zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask, NDArray
from discreet.mechanisms.counts.encoder import Cells, Statistic
from discreet.mechanisms.release import Statistics


@dataclass(frozen=True)
class JointCells:
    """One cell for each (group, state, action, successor or end, bit), the bit last.

    Without ``successors`` or ``bits`` that axis has length one. ``last_step`` false: the last of separate steps is not
    counted at all.
    """

    shape: Shape
    successors: bool = True
    bits: bool = True
    last_step: bool = True

    @property
    def axes(self) -> tuple[int, ...]:
        """The lengths of the axes: groups, states, actions, successors and end, bits."""
        shape = self.shape
        return (
            shape.groups, shape.states, shape.actions,
            shape.states + 1 if self.successors else 1, 2 if self.bits else 1,
        )  # fmt: skip

    @property
    def size(self) -> int:
        """How many cells there are."""
        return math.prod(self.axes)

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The cells of a row lie side by side."""
        return np.repeat(rows.reshape(-1), self.axes[3] * self.axes[4])

    def possible(self) -> Mask:
        """With one table per step the last step has end cells only; everything else can occur.

        Full-length records end nowhere else, but records that may end early (a table of real trajectories) can put an
        end cell at any step.
        """
        possible = np.ones(self.axes, np.bool_)
        if self.successors and not _followed(self.shape):
            possible[-1, :, :, : self.shape.states] = False
            possible[-1] &= self.last_step
        return possible.reshape(-1)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Visits, and where there are axes for them transitions and rewards, as sums of cells."""
        table, possible, S = cells.reshape(self.axes), self._possible_of_a_row(), self.shape.states
        found = {"visits": _summed(table.sum(axis=(3, 4)), possible)}
        if self.successors:
            found["transitions"] = _summed(table[:, :, :, :S].sum(axis=4), possible[:, :1])
        if self.bits:
            found["rewards"] = _summed(table[..., 1].sum(axis=3), possible[..., 1])
        return found

    def ends(self, cells: Cells) -> Statistic:
        """How often a trajectory ended with this state and action, as sums of cells."""
        S = self.shape.states
        return _summed(cells.reshape(self.axes)[:, :, :, S].sum(axis=3), self._possible_of_a_row()[:, S:])

    def _possible_of_a_row(self) -> Mask:
        """Which cells of a row can occur, (groups, successors and end, bits): the same ones for all rows of a group."""
        return self.possible().reshape(self.axes)[:, 0, 0]


def _summed(values: Floats, used: Mask) -> Statistic:
    groups = len(used)
    return Statistic(values, used.reshape(groups, -1).sum(axis=1).astype(np.int64).reshape(groups, 1, 1))


def joint_marginals(encoder: Any, cells: Cells, statistics: Statistics) -> None:
    """The same sums in compiled code, for joint cells with all axes; a kernel for ``marginals_into``."""
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


@dataclass(frozen=True)
class Tables:
    """Visits (group, state, action), transitions, and rewards, one table after the other.

    Transitions lie successor by successor, cell = rows + successor * rows + row, or else row by row,
    cell = rows + row * states + successor. Rewards are ``reward_tables`` tables of ``reward_bits`` cells per row.
    """

    shape: Shape
    by_successor: bool = True
    reward_tables: int = 1
    reward_bits: int = 1

    @property
    def rows(self) -> int:
        """How many (group, state, action) there are."""
        return self.shape.groups * self.shape.states * self.shape.actions

    @property
    def counts(self) -> int:
        """How many cells are counts of visits and transitions; the rewards follow them."""
        return self.rows * (self.shape.states + 1)

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.counts + self.rows * self.reward_tables * self.reward_bits

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Copy the entry of each row to its cells in every table, in the order of that table."""
        flat = rows.reshape(-1)
        transitions = (np.tile if self.by_successor else np.repeat)(flat, self.shape.states)
        return np.concatenate([flat, transitions, np.tile(np.repeat(flat, self.reward_bits), self.reward_tables)])

    def possible(self) -> Mask:
        """Transitions of the last step are never counted."""
        possible = np.ones(self.size, np.bool_)
        if not _followed(self.shape):
            self.transitions(possible)[-1] = False
        return possible

    def visits(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The table of visits: a view (groups, states, actions) of the cells."""
        return cells[: self.rows].reshape(self.shape.groups, self.shape.states, self.shape.actions)

    def transitions(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The table of transitions: a view (groups, states, actions, successors) of the cells."""
        G, S, A = self.shape.groups, self.shape.states, self.shape.actions
        table = cells[self.rows : self.counts]
        return np.moveaxis(table.reshape(S, G, S, A), 0, -1) if self.by_successor else table.reshape(G, S, A, S)

    def rewards(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The tables of rewards: a view (tables, groups, states, actions, bits) of the cells."""
        shape = self.shape
        return cells[self.counts :].reshape(
            self.reward_tables, shape.groups, shape.states, shape.actions, self.reward_bits
        )

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Visits, transitions and the first reward cell of every row, as views of the cells."""
        one = np.ones((self.shape.groups, 1, 1), np.int64)
        counted = one.copy()
        if not _followed(self.shape):
            counted[-1] = 0
        return {
            "visits": Statistic(self.visits(cells), one),
            "transitions": Statistic(self.transitions(cells), counted),
            "rewards": Statistic(self.rewards(cells)[0, ..., 0], one),
        }


def table_marginals(encoder: Any, cells: Cells, statistics: Statistics) -> None:
    """Nothing to do in compiled code: the statistics are views of the cells; a kernel for ``marginals_into``."""


@dataclass(frozen=True)
class SuccessorsAndBits:
    """Transitions successor by successor, cell = successor * rows + row; then the two bits of every row."""

    shape: Shape

    @property
    def rows(self) -> int:
        """How many (group, state, action) there are."""
        return self.shape.groups * self.shape.states * self.shape.actions

    @property
    def moves(self) -> int:
        """How many cells are transitions; the bits follow them."""
        return self.rows * self.shape.states

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.moves + 2 * self.rows

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Copy the entry of each row to its cells in both tables."""
        flat = rows.reshape(-1)
        return np.concatenate([np.tile(flat, self.shape.states), np.repeat(flat, 2)])

    def possible(self) -> Mask:
        """Transitions of the last of separate steps are never counted."""
        possible = np.ones(self.size, np.bool_)
        if not _followed(self.shape):
            self._transitions(possible)[-1] = False
        return possible

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Transitions and rewards as they are, visits as sums of two cells."""
        G, S, A = self.shape.groups, self.shape.states, self.shape.actions
        bits, one = cells[self.moves :].reshape(G, S, A, 2), np.ones((G, 1, 1), np.int64)
        counted = one.copy()
        if not _followed(self.shape):
            counted[-1] = 0
        return {
            "visits": Statistic(bits.sum(axis=3), 2 * one),
            "transitions": Statistic(self._transitions(cells), counted),
            "rewards": Statistic(bits[..., 1], one),
        }

    def _transitions(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The table of transitions: a view (groups, states, actions, successors) of the cells."""
        G, S, A = self.shape.groups, self.shape.states, self.shape.actions
        return np.moveaxis(cells[: self.moves].reshape(S, G, S, A), 0, -1)


def bit_marginals(encoder: Any, cells: Cells, statistics: Statistics) -> None:
    """The same sums in compiled code; a kernel for ``marginals_into``."""
    visits, transitions, rewards = statistics.visits, statistics.transitions, statistics.rewards
    S, R = transitions.shape
    for t in range(S):
        for row in range(R):
            transitions[t, row] = cells[t * R + row]
    for row in range(R):
        zeros, ones = cells[S * R + 2 * row], cells[S * R + 2 * row + 1]
        visits[row] = zeros + ones
        rewards[row] = ones


def _followed(shape: Shape) -> bool:
    """Whether every group has steps with a successor: the last of separate steps has none."""
    return shape.homogeneous and shape.horizon > 1

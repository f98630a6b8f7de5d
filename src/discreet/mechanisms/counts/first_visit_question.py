"""One question to each user, drawn with public coins: what her first visit of one (state, action) was like.

In the local model a user has one epsilon for everything that she says. A report about any step of hers
(:mod:`discreet.mechanisms.counts.sampled_step`) may name any state and any successor, so most of what is heard about a
row (state, action) are lies of users who were elsewhere. Here a public coin, independent of the data, picks a row that
the policy can play and one of two questions,

    successor   which state followed when you first did this action in this state?     S + 1 answers
    bit         which reward bit did it bring?                                         3 answers

where the last answer is "none": she was never there, or nothing followed. Lies about a row come from those only who
were asked about it, and there are few answers to choose from. The decision to count a visit is made before its outcome,
so answers have the law of the row, whatever the policy does at which step.

The cells are those of two tables, successors and reward bits; then, for each row, how many were *asked* either
question, which the coins make public. Given the coins, replacing a trajectory moves at most one cell down and one up.
Counts are those of answers: a row has as many as users were asked about it and had visited it.

A record that ends early has no successor of its last step, as one of full length has none: nobody learns which it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import Stream, uniform
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.mechanisms.counts.encoder import ALL_THREE, Cells, LaidOut, Statistic, encode_into, reward_bit
from discreet.mechanisms.counts.layouts import SuccessorsAndBits
from discreet.privacy.sensitivity import Sensitivity

SUCCESSOR, BIT = 0, 1  # the two questions about a row


class AskedFirstVisitArrays(NamedTuple):
    """What the kernel of asked first visits needs to know."""

    states: int
    actions: int
    rows: Integers  # that may be asked about
    up_to: Floats  # the probability of each of them or one before it
    low: float
    span: float


@dataclass(frozen=True)
class AskedFirstVisit(LaidOut):
    """One question to each user, about row r in proportion to ``weights[r]``; about all alike where there are none."""

    shape: Shape
    weights: tuple[int, ...] | None = None
    name: ClassVar[str] = "asked-first-visit"
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    def __post_init__(self) -> None:
        if not self.shape.homogeneous:
            raise Unsupported(
                "questions about first visits need a world that is declared time-homogeneous: declare it, or take "
                "'local/sampled-step'"
            )
        if self.shape.horizon == 1:
            raise Unsupported("worlds of one step have no successors to ask about: take 'local/sampled-step'")
        if self.weights is not None and (
            len(self.weights) != self.rows or min(self.weights) < 0 or not any(self.weights)
        ):
            raise InvalidInput(f"weights of questions are {self.rows} numbers that are not negative, nor all zero")

    @property
    def rows(self) -> int:
        """How many (state, action) there are."""
        return self.shape.states * self.shape.actions

    @property
    def layout(self) -> SuccessorsAndBits:
        """Successors, then reward bits; who was asked follows."""
        return SuccessorsAndBits(self.shape)

    @property
    def size(self) -> int:
        """How many cells there are: the answers', and two for each row for who was asked."""
        return self.layout.size + 2 * self.rows

    def split(self, cells: Cells) -> tuple[Cells, Cells]:
        """The cells of answers, and how many were asked either question about each row."""
        return cells[: self.layout.size], cells[self.layout.size :].reshape(self.rows, 2)

    def successors(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The cells of answers to the first question: a view (successor, row)."""
        return cells[: self.layout.moves].reshape(self.shape.states, self.rows)

    def bits(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The cells of answers to the second question: a view (bit, row)."""
        return cells[self.layout.moves : self.layout.size].reshape(self.rows, 2).T

    def sensitivity(self) -> Sensitivity:
        """Given the coins, one unit out of a cell and one into a cell."""
        return Sensitivity.unit_shifts(up=1, down=1)

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Copy the entry of each row to its cells in both tables, and to who was asked about it."""
        return np.concatenate([self.layout.rows_to_cells(rows), np.repeat(rows.reshape(-1), 2)])

    def possible(self) -> Mask:
        """All cells."""
        return np.concatenate([self.layout.possible(), np.ones(2 * self.rows, np.bool_)])

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """The statistics of two tables."""
        return self.layout.marginals(self.split(cells)[0])

    def arrays(self) -> AskedFirstVisitArrays:
        """What its kernel needs to know."""
        s, weights = self.shape, np.ones(self.rows) if self.weights is None else np.array(self.weights, np.float64)
        rows = np.flatnonzero(weights)
        up_to = np.cumsum(weights[rows]) / weights.sum()
        up_to[-1] = 1.0
        return AskedFirstVisitArrays(s.states, s.actions, rows, up_to, s.rewards[0], s.reward_span)


@encode_into.implement(AskedFirstVisitArrays)
def _encode(
    encoder: AskedFirstVisitArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A = encoder.states, encoder.actions
    R = S * A
    row = encoder.rows[np.searchsorted(encoder.up_to, uniform(stream))]
    about_bit = uniform(stream) < 0.5
    cells[(S + 2) * R + 2 * row + (1 if about_bit else 0)] += 1.0
    for h in range(length):
        if states[h] * A + actions[h] == row:
            if about_bit:
                cells[S * R + 2 * row + reward_bit(rewards[h], encoder.low, encoder.span, stream)] += 1.0
            elif h + 1 < length:
                cells[states[h + 1] * R + row] += 1.0
            break

"""Marginals of the joint histogram: the same trajectories, with only the axes that a learner needs.

A cell of the joint histogram is (group, state, action, successor or end, reward level). Dropping an axis sums over it;
each step of a user still falls into exactly one cell, so replacing a user moves

* one table per step: at most H units out and H units in (L1 = L2^2 = 2H, L-infinity 1);
* steps pooled, first visits only: at most min(m H, S A) units out and as many in, for a user with m trajectories,
  because the first visit is taken over all of them;
* steps pooled, every visit: up to H units in one cell (with successors H - 1, and one more in an end cell, because a
  trajectory ends once: the query counts a missing next state as an end only where no row follows).

A user with m trajectories moves m times as much, first visits excepted. Fewer cells need fewer draws of noise: without
the reward axis there are half as many.

The encoder has two forms with one sensitivity: a compiled kernel for simulated users, and :class:`JointCounts`, what a
database counts by one grouped query; a test holds them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.encoders.base import Cells, Encoder, Statistic, encode_into, marginals_into, reward_bit
from discreet.encoders.seen_pairs import Seen, is_first_visit, next_user, nobody_seen
from discreet.errors import Unsupported
from discreet.privacy.sensitivity import Sensitivity
from discreet.release import Statistics
from discreet.shape import Shape
from discreet.streams import Stream
from discreet.types import Floats, Integers, Mask
from discreet.validation import check_count


class JointCounts(NamedTuple):
    """The joint histogram of many users, only its cells that occur: raw data, on its way to an encoder.

    ``keys`` number the cells (group, state, action, successor or end, reward level) in this order, the level last;
    rewards enter as one of ``levels`` equally spaced values, by stochastic rounding.
    """

    keys: Integers
    counts: Integers
    levels: int

    def __repr__(self) -> str:
        return f"<JointCounts of {len(self.keys)} cells, contents not shown>"


@runtime_checkable
class CountedEncoder(Protocol):
    """What can be counted from a joint histogram, so that a database can do it."""

    @property
    def first_visit(self) -> bool:
        """Whether only the first of a user's visits to a pair counts."""

    @property
    def reward_levels(self) -> int:
        """How many levels rewards are rounded to in the joint histogram."""

    @property
    def parts(self) -> int:
        """How many parts the users are split into, each counted by itself."""

    def from_joint(self, joint: JointCounts, part: int = 0) -> Floats:
        """The tally of one part of the users, from their joint histogram."""


def as_counted(encoder: Encoder) -> CountedEncoder:
    """The encoder as one that can be counted from a joint histogram, or a refusal."""
    if not isinstance(encoder, CountedEncoder):
        raise Unsupported(f"{encoder.name} counts are not made from a data set: use a recipe of discreet.offline")
    return encoder


class MarginalTableArrays(NamedTuple):
    states: int
    actions: int
    homogeneous: bool
    successors: bool
    bits: bool
    first_visit: bool
    steps: int  # how many steps are counted: the last one is left out where only its successor would count
    low: float
    span: float
    seen: Seen


@dataclass(frozen=True)
class MarginalTable:
    """Counts over (group, state, action), with or without successors and reward bits.

    ``separate`` marks a table of successors that is released beside a table of visits: it offers transitions and ends
    and leaves out the last of the separate steps, which has nothing but ends.
    """

    shape: Shape
    successors: bool = True
    bits: bool = False
    first_visit: bool = False
    separate: bool = False
    per_user: int = 1
    reward_levels: ClassVar[int] = 2
    parts: ClassVar[int] = 1
    rounded: ClassVar[bool] = True
    public: ClassVar[Mapping[str, Floats]] = {}

    def __post_init__(self) -> None:
        check_count("per_user", self.per_user)
        if self.first_visit and not self.shape.homogeneous:
            raise Unsupported(
                "first-visit counts need laws that are declared the same at every step: declare homogeneous=True"
            )
        if self.separate and (not self.successors or self.bits or self.shape.horizon == 1):
            raise Unsupported("a separate table holds successors without rewards, and needs a horizon of at least 2")

    @property
    def name(self) -> str:
        axes = "successors" if self.successors else "visits"
        return ("first-visit " if self.first_visit else "") + axes + (" with rewards" if self.bits else "")

    @property
    def statistics(self) -> frozenset[str]:
        if self.separate:
            return frozenset({"transitions", "ends"})
        names = {"visits"} | ({"transitions"} if self.successors else set()) | ({"rewards"} if self.bits else set())
        return frozenset(names)

    @property
    def axes(self) -> tuple[int, ...]:
        shape = self.shape
        return (
            shape.groups, shape.states, shape.actions,
            shape.states + 1 if self.successors else 1, 2 if self.bits else 1,
        )  # fmt: skip

    @property
    def size(self) -> int:
        return int(np.prod(self.axes))

    @property
    def steps(self) -> int:
        """How many steps of a trajectory are counted."""
        return self.shape.horizon - (self.separate and not self.shape.homogeneous)

    def sensitivity(self) -> Sensitivity:
        H, m = self.steps, self.per_user
        if self.first_visit:
            pairs = min(m * self.shape.horizon, self.shape.states * self.shape.actions)
            return Sensitivity.unit_shifts(pairs, pairs)
        if not self.shape.homogeneous or self.shape.horizon == 1:
            return Sensitivity.unit_shifts(H, H).scaled(m)
        if self.successors:
            return Sensitivity.worst_shift((H - 1, 1, 1), (1, 1, 1)).scaled(m)
        return Sensitivity.worst_shift((H, 1, 1)).scaled(m)

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(rows.reshape(-1), self.axes[3] * self.axes[4])

    def possible(self) -> Mask:
        """The last of separate steps has no successors; everything else can occur in records that end early."""
        possible = np.ones(self.axes, np.bool_)
        if self.successors and (not self.shape.homogeneous or self.shape.horizon == 1):
            possible[-1, :, :, : 0 if self.separate else self.shape.states] = False
            possible[-1] &= not self.separate
        return possible.reshape(-1)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        table = cells.reshape(self.axes)
        S, G = self.shape.states, self.shape.groups
        possible = self.possible().reshape(self.axes)[:, 0, 0]

        def summed(values: Floats, used: Mask) -> Statistic:
            return Statistic(values, used.reshape(G, -1).sum(axis=1).astype(np.int64).reshape(G, 1, 1))

        found = {}
        if self.successors:
            found["transitions"] = summed(table[:, :, :, :S].sum(axis=4), possible[:, :1])
        if self.separate:
            found["ends"] = summed(table[:, :, :, S].sum(axis=3), possible[:, S:])
            return found
        found["visits"] = summed(table.sum(axis=(3, 4)), possible)
        if self.bits:
            found["rewards"] = summed(table[..., 1].sum(axis=3), possible[..., 1])
        return found

    def from_joint(self, joint: JointCounts, part: int = 0) -> Cells:
        """The cells of users whom a database has counted."""
        cells = np.zeros(self.size)
        np.add.at(cells, *self.place(joint))
        return cells

    def place(self, joint: JointCounts) -> tuple[Integers, Floats]:
        """The cell of every joint key, and its count; keys of steps that do not count are left out."""
        if self.bits and joint.levels != 2:
            raise Unsupported(f"a table of reward bits needs rewards in 2 levels, got {joint.levels}")
        S = self.shape.states
        rest, level = np.divmod(joint.keys, joint.levels)
        row, successor = np.divmod(rest, S + 1)
        where = row * (S + 1) + successor if self.successors else row
        where = where * 2 + level if self.bits else where
        counts = joint.counts.astype(np.float64)
        if self.steps < self.shape.horizon:
            kept = row < self.steps * S * self.shape.actions
            where, counts = where[kept], counts[kept]
        return where, counts

    def arrays(self) -> MarginalTableArrays:
        s = self.shape
        return MarginalTableArrays(
            s.states, s.actions, s.homogeneous, self.successors, self.bits, self.first_visit, self.steps,
            s.rewards[0], s.reward_span, nobody_seen(s.states * s.actions),
        )  # fmt: skip


@encode_into.implement(MarginalTableArrays)
def _encode(
    encoder: MarginalTableArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A, seen = encoder.states, encoder.actions, encoder.seen
    user = next_user(seen)
    for h in range(min(length, encoder.steps)):
        pair = states[h] * A + actions[h]
        if encoder.first_visit and not is_first_visit(seen, pair, user):
            continue
        cell = pair if encoder.homogeneous else h * S * A + pair
        if encoder.successors:
            cell = cell * (S + 1) + (states[h + 1] if h + 1 < length else S)
        if encoder.bits:
            cell = cell * 2 + reward_bit(rewards[h], encoder.low, encoder.span, stream)
        cells[cell] += 1.0


@marginals_into.implement(MarginalTableArrays)
def _marginals(encoder: MarginalTableArrays, cells: Cells, statistics: Statistics) -> None:
    pass  # released once, never inside a compiled loop

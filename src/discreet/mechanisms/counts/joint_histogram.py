"""The joint histogram, and its marginals for learners that need fewer axes.

**The joint histogram.** One table instead of three: a cell for each (group, state, action, successor or end, reward
bit). Visits, transitions and rewards are sums of its cells, so releasing it once releases all three. Replacing a
trajectory moves one unit out of a cell and one into a cell at each of the H steps:

* one table per step: at most 2H cells change, each by one (L1 = L2^2 = 2H, L-infinity 1);
* steps pooled: the units of all steps but the last, which has an end cell of its own, may meet in one cell
  (L1 = 2H, L2^2 = 2 (H-1)^2 + 2, L-infinity H-1).

**Marginals.** Dropping an axis sums over it; each step of a user still falls into exactly one cell, so replacing a user
moves

* one table per step: at most H units out and H units in (L1 = L2^2 = 2H, L-infinity 1);
* steps pooled, first visits only: at most min(m H, S A) units out and as many in, for a user with m trajectories,
  because the first visit is taken over all of them;
* steps pooled, every visit: up to H units in one cell (with successors H - 1, and one more in an end cell, because a
  trajectory ends once: the query counts a missing next state as an end only where no row follows).

A user with m trajectories moves m times as much, first visits excepted. Fewer cells need fewer draws of noise: without
the reward axis there are half as many. A marginal table has two forms with one sensitivity: a compiled kernel for
simulated users, and :class:`JointCounts`, what a database counts by one grouped query; a test holds them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_count
from discreet.mechanisms.counts.encoder import (
    ALL_THREE,
    Cells,
    Encoder,
    LaidOut,
    Statistic,
    check_layer,
    encode_into,
    marginals_into,
    reward_bit,
)
from discreet.mechanisms.counts.first_visit import Seen, is_first_visit, next_user, nobody_seen
from discreet.mechanisms.counts.layouts import JointCells, joint_marginals
from discreet.privacy.sensitivity import Sensitivity


class JointHistogramArrays(NamedTuple):
    """What the kernel of a joint histogram needs to know."""

    states: int
    actions: int
    horizon: int
    homogeneous: bool
    low: float
    span: float


@dataclass(frozen=True)
class JointHistogram(LaidOut):
    """Every visit, one joint cell per step."""

    shape: Shape
    name: ClassVar[str] = "joint-histogram"
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    @property
    def layout(self) -> JointCells:
        """Joint cells with all axes."""
        return JointCells(self.shape)

    def sensitivity(self) -> Sensitivity:
        """One unit out of a cell and one into a cell at each step."""
        H = self.shape.horizon
        if not self.shape.homogeneous or H <= 2:  # of two steps, one has an end cell: they cannot meet
            return Sensitivity.unit_shifts(up=H, down=H)
        return Sensitivity.worst_shift((H - 1, 1, 1), (1, 1, 1))

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """One unit out of a cell and one into a cell."""
        check_layer(self.shape, step)
        return Sensitivity.unit_shifts(up=1, down=1)

    def arrays(self) -> JointHistogramArrays:
        """What its kernel needs to know."""
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


marginals_into.implement(JointHistogramArrays)(joint_marginals)


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
    """What the kernel of a marginal table needs to know."""

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
class MarginalTable(LaidOut):
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
        """What is counted, in words."""
        axes = "successors" if self.successors else "visits"
        return ("first-visit " if self.first_visit else "") + axes + (" with rewards" if self.bits else "")

    @property
    def statistics(self) -> frozenset[str]:
        """Visits and what there are axes for; of a separate table transitions and ends."""
        if self.separate:
            return frozenset({"transitions", "ends"})
        names = {"visits"} | ({"transitions"} if self.successors else set()) | ({"rewards"} if self.bits else set())
        return frozenset(names)

    @property
    def layout(self) -> JointCells:
        """Joint cells with the axes that were asked for."""
        return JointCells(self.shape, self.successors, self.bits, last_step=not self.separate)

    @property
    def axes(self) -> tuple[int, ...]:
        """The lengths of the axes: groups, states, actions, successors and end, bits."""
        return self.layout.axes

    @property
    def steps(self) -> int:
        """How many steps of a trajectory are counted."""
        return self.shape.horizon - (self.separate and not self.shape.homogeneous)

    def sensitivity(self) -> Sensitivity:
        """What replacing a user with up to ``per_user`` trajectories moves."""
        H, m = self.steps, self.per_user
        if self.first_visit:
            pairs = min(m * self.shape.horizon, self.shape.states * self.shape.actions)
            return Sensitivity.unit_shifts(pairs, pairs)
        if not self.shape.homogeneous or self.shape.horizon == 1:
            return Sensitivity.unit_shifts(H, H).scaled(m)
        if self.successors:
            return Sensitivity.worst_shift((H - 1, 1, 1), (1, 1, 1)).scaled(m)
        return Sensitivity.worst_shift((H, 1, 1)).scaled(m)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Sums over the axes; a table of successors that is released beside one of visits leaves these to it."""
        found = self.layout.marginals(cells)
        if self.separate:
            return {"transitions": found["transitions"], "ends": self.layout.ends(cells)}
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
        """What its kernel needs to know."""
        s = self.shape
        return MarginalTableArrays(
            s.states, s.actions, s.homogeneous, self.successors, self.bits, self.first_visit, self.steps,
            s.rewards[0], s.reward_span, nobody_seen(s.states * s.actions),
        )  # fmt: skip


@encode_into.implement(MarginalTableArrays)
def _encode_marginal(
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

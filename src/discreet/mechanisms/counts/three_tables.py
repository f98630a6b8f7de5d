"""Every visit in separate tables of visits, transitions and rewards: the statistics of the papers.

**Three tables** (:class:`ThreeTables`). Replacing a trajectory of H steps moves, in L1, the visits by 2H, the
transitions by 2(H-1) (the last step has no successor) and the rewards by 2H with one table per step. With steps pooled
and H visits in one cell the same L1 is attained by two cells per table, so L2^2 = 4 H^2 + 2 (H-1)^2: H visits of one
self-looping pair with reward one against the same in another pair. Rewards enter as one stochastic-rounding bit
(``rounded``) or as they are, in [0, 1] after scaling; both have the same norms, but only bits can be released with a
discrete law.

**Scaled tables** (:class:`ScaledTables`). Transitions get sqrt(S) times the noise of the others, from one law. The
published bounded noise has a radius of its own for transitions: S sqrt(A) against sqrt(S A) for visits and rewards, a
ratio of sqrt(S). Counting transitions in units of sqrt(S) before noise is added, and scaling back afterwards, is the
same thing; a transition then carries as much noise as S cells. For simulation only: the counts are no whole numbers.

**Reward levels** (:class:`RewardLevels`). The encoding of the shuffle appendix of Garcelon et al. (2021), equations
(108) and (109). At each step a user has one bit for every (state, action), one for every (state, action, successor),
and m bits for the reward of every (state, action): with x = m r, the first floor(x) of them are one and the next is one
with probability x - floor(x), so that their sum over m is unbiased. More levels round a reward less and move more bits.
Replacing a trajectory flips at most

    2 H bits of visits,  2 (H - 1) of transitions,  2 m H of rewards:  2 (m + 2) H - 2 in all, half of them each way.

With m = 1 these are the cells of :class:`ThreeTables`, one table per step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_count
from discreet.mechanisms.counts.encoder import (
    ALL_THREE,
    Cells,
    LaidOut,
    Statistic,
    check_layer,
    encode_into,
    marginals_into,
    reward_bit,
)
from discreet.mechanisms.counts.layouts import Tables, table_marginals
from discreet.mechanisms.release import Statistics
from discreet.privacy.sensitivity import Sensitivity


class ThreeTablesArrays(NamedTuple):
    """What the kernel of three tables needs to know."""

    states: int
    actions: int
    horizon: int
    homogeneous: bool
    rounded: bool
    low: float
    span: float
    rows: int


@dataclass(frozen=True)
class ThreeTables(LaidOut):
    """Visits, transitions and rewards, each in a table of its own; transitions lie successor by successor."""

    shape: Shape
    rounded: bool = True
    name: ClassVar[str] = "three-tables"
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    @property
    def layout(self) -> Tables:
        """Three tables, transitions successor by successor."""
        return Tables(self.shape)

    @property
    def rows(self) -> int:
        """How many (group, state, action) there are."""
        return self.layout.rows

    def sensitivity(self) -> Sensitivity:
        """Three tables, in each of which every step moves two cells; without rounding norms only."""
        H = self.shape.horizon
        pooled = self.shape.homogeneous and H > 1
        worst = ((H, 2, 2), (H - 1, 1, 1)) if pooled else ((1, 3 * H - 1, 3 * H - 1),)
        bits = Sensitivity.worst_shift(*worst)
        return bits if self.rounded else Sensitivity(bits.l1, bits.l2, bits.linf)

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """A visit, a reward bit and, but at the last step, a successor."""
        bits = bits_of_a_step(self.shape, step, levels=1)
        return bits if self.rounded else Sensitivity(bits.l1, bits.l2, bits.linf)

    def arrays(self) -> ThreeTablesArrays:
        """What its kernel needs to know."""
        s = self.shape
        return ThreeTablesArrays(
            s.states, s.actions, s.horizon, s.homogeneous, self.rounded, s.rewards[0], s.reward_span,
            self.rows,
        )  # fmt: skip


def bits_of_a_step(shape: Shape, step: int, levels: int) -> Sensitivity:
    """What replacing a user moves in the tables of one step: a visit, ``levels`` reward bits, a successor if any."""
    check_layer(shape, step)
    bits = 1 + levels + (step < shape.horizon - 1)
    return Sensitivity.unit_shifts(bits, bits)


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


marginals_into.implement(ThreeTablesArrays)(table_marginals)


class ScaledTablesArrays(NamedTuple):
    """What the kernel of scaled tables needs to know."""

    states: int
    actions: int
    homogeneous: bool
    low: float
    span: float
    rows: int
    unit: float


@dataclass(frozen=True)
class ScaledTables(LaidOut):
    """Visits, transitions and rewards; cells as in ``ThreeTables``, transitions divided by sqrt(S)."""

    shape: Shape
    name: ClassVar[str] = "scaled-tables"
    statistics: ClassVar[frozenset[str]] = ALL_THREE
    rounded: bool = False

    @property
    def layout(self) -> Tables:
        """Three tables, transitions successor by successor."""
        return Tables(self.shape)

    @property
    def unit(self) -> float:
        """How many transitions one unit of their cells stands for."""
        return math.sqrt(self.shape.states)

    def sensitivity(self) -> Sensitivity:
        """Norms only, bounded by those of the unscaled tables; the laws of both parts are certified apart."""
        return ThreeTables(self.shape, rounded=False).sensitivity()

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """Norms only, bounded by those of the unscaled tables."""
        return ThreeTables(self.shape, rounded=False).layer_sensitivity(step)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Transitions are scaled back, and their noise with them: that of S cells."""
        marginals = self.layout.marginals(cells)
        values, counted = marginals["transitions"]
        return marginals | {"transitions": Statistic(values * self.unit, counted * self.shape.states)}

    def arrays(self) -> ScaledTablesArrays:
        """What its kernel needs to know."""
        s = self.shape
        rows = self.layout.rows
        return ScaledTablesArrays(s.states, s.actions, s.homogeneous, s.rewards[0], s.reward_span, rows, self.unit)


@encode_into.implement(ScaledTablesArrays)
def _encode_scaled(
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
def _scale_transitions_back(encoder: ScaledTablesArrays, cells: Cells, statistics: Statistics) -> None:
    transitions, rows, S = statistics.transitions, encoder.rows, encoder.states
    for t in range(S):
        for row in range(rows):
            transitions[t, row] = cells[(1 + t) * rows + row] * encoder.unit


class RewardLevelsArrays(NamedTuple):
    """What the kernel of rewards in levels needs to know."""

    states: int
    actions: int
    levels: int
    low: float
    span: float
    transitions_at: int
    rewards_at: int


@dataclass(frozen=True)
class RewardLevels(LaidOut):
    """Tables of bits, one per step, with rewards in ``levels`` bits each."""

    shape: Shape
    levels: int = 2
    name: ClassVar[str] = "reward-levels"
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    def __post_init__(self) -> None:
        check_count("levels", self.levels)
        if self.shape.homogeneous and self.shape.horizon > 1:
            raise Unsupported(
                "rewards in levels are bits of one step each: declare the shape per step, pool afterwards"
            )

    @property
    def layout(self) -> Tables:
        """Three tables, transitions and reward bits row by row."""
        return Tables(self.shape, by_successor=False, reward_bits=self.levels)

    @property
    def rows(self) -> int:
        """How many (step, state, action) there are."""
        return self.layout.rows

    def sensitivity(self) -> Sensitivity:
        """At each step a visit, a successor unless it is the last, and all bits of a reward, each way."""
        moves = (self.levels + 2) * self.shape.horizon - 1
        return Sensitivity.unit_shifts(moves, moves)

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """A visit, all bits of a reward and, but at the last step, a successor."""
        return bits_of_a_step(self.shape, step, self.levels)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Rewards are sums of ``levels`` cells, divided by their number."""
        marginals = self.layout.marginals(cells)
        (bits,), one = self.layout.rewards(cells), marginals["visits"].cells
        return marginals | {"rewards": Statistic(bits.sum(axis=3) / self.levels, one * self.levels)}

    def arrays(self) -> RewardLevelsArrays:
        """What its kernel needs to know."""
        s, layout = self.shape, self.layout
        return RewardLevelsArrays(
            s.states, s.actions, self.levels, s.rewards[0], s.reward_span, layout.rows, layout.counts
        )


@encode_into.implement(RewardLevelsArrays)
def _encode_levels(
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

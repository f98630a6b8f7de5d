"""The three tables that the paper on heavy-tailed rewards counts; its recipes differ in where rewards are truncated.

Noise of rewards is proportional to the threshold of each user, so rewards are measured in units of it.

**The central release** of Private-Heavy-UCBVI, thresholds from raw counts included: it runs, and promises nothing.
Visits, transitions and rewards are three tables. A reward in a cell that n users have visited before counts in full if
|r| <= B_n, and as zero otherwise; so a first visit never counts. Per node of a tree over K users, log being log2:

    visits and transitions  Lap(3 H log K / epsilon) each,      rewards  Lap(6 B_k H log K / epsilon) at episode k,
    B_n = (epsilon u n / (H (log K)^1.5 l))^(1/(1+v)),          l = ln(3 S A K H / failure_probability).

**Formal guarantees.** None; the paper claims epsilon. Were the thresholds public, counts alone would give 4/3 epsilon
and all of it 5/3 epsilon (and L / log2 K times as much, L levels): replacing a user moves counts by 2H and not by H.
With raw counts there is no bound. What a user adds depends on who came before her, so the sensitivity that the encoder
states is that of her own vector, given the others', and does not bound a release. Let user 1 visit a cell or not, and
let every user j > 1 visit it with a reward of B_(j-1): the reward is kept if user 1 was there, and dropped if not, so
that all later leaves differ. The loss grows in proportion to K. The audit tries that pair of data sets, encoded by
the encoder that runs. :class:`~discreet.problems.heavy_tails.encoders.ClippedTables` is the repair.

The noise is that of the paper's entry, :mod:`discreet.papers.heavy_ucbvi`, whose recipe runs it.

**The local privatizer** with the printed noise and the printed thresholds. Visits, transitions and rewards are three
tables, and every user adds noise to each of their cells:

    visits and transitions  Lap(3 H / epsilon),      rewards of user j  Lap(6 H B_j / epsilon),
    B_n = (u epsilon sqrt(n) / (H l))^(1/(1+v)),     l = ln(6 S A K H / failure_probability).

A reward beyond the threshold counts as zero.

**What cannot run as printed.** The paper truncates a reward of (h, s, a) at B_N with N the raw number of earlier visits
of that cell. In the local model nobody holds raw counts: a user knows her own path only, and what the server has is
noisy. Here n is the number of the user, j, which is public. That is the reading in the paper's favour: thresholds are
those of its noise, a first reward is not lost (B_0 is zero), and the guarantee is finite.

**Formal guarantees.** Counts move by two at every step in both tables, which costs 2/3 epsilon each, and rewards 1/3
epsilon: 5/3 epsilon in all, and not the epsilon that is claimed. The noise is that of the paper's entry,
:mod:`discreet.papers.heavy_ucbvi`, and continuous: for simulation only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_positive
from discreet.mechanisms.counts.encoder import ALL_THREE, Cells, LaidOut, Statistic, encode_into
from discreet.mechanisms.counts.layouts import Tables
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.heavy_tails.encoders import moments_of
from discreet.problems.heavy_tails.mechanisms import ClippedRewardsChannel


@dataclass(frozen=True)
class PrintedTables(LaidOut):
    """The three tables of the paper: visits, transitions, and sums of truncated rewards."""

    shape: Shape
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    @property
    def rounded(self) -> bool:
        """Reward sums are not whole numbers."""
        return False

    @property
    def layout(self) -> Tables:
        """Three tables, transitions row by row."""
        return Tables(self.shape, by_successor=False)

    @property
    def rows(self) -> int:
        """How many (group, state, action) there are."""
        return self.layout.rows

    @property
    def counts(self) -> int:
        """How many cells are counts, visits first; the reward sums follow them."""
        return self.layout.counts

    def alike(self, user: int) -> int:
        """Every user has a threshold of her own."""
        return 1

    def sensitivity(self) -> Sensitivity:
        """What one user moves in her own vector: two visits, two transitions and rewards of two thresholds a step."""
        H = self.shape.horizon
        return Sensitivity(l1=6 * H, l2=12**0.5 * H, linf=2 * H)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Reward sums in units of the declared range of means."""
        marginals, tau = self.layout.marginals(cells), self.shape.rewards[1]
        visits, (rewards, one) = marginals["visits"].values, marginals["rewards"]
        return marginals | {"rewards": Statistic((rewards + tau * visits) / (2 * tau), one)}


class RawCountArrays(NamedTuple):
    """The encoder in compiled code, with the raw counts that it should not have."""

    states: int
    actions: int
    homogeneous: bool
    per_visit: float
    power: float
    visited: Integers  # (rows,) raw counts: the mistake


@dataclass(frozen=True)
class RawCountTables(PrintedTables):
    """Visits, transitions, and rewards truncated at raw counts; what that does to other users is in no sensitivity."""

    per_visit: float
    name: ClassVar[str] = "raw-count-tables"

    def __post_init__(self) -> None:
        moments_of(self.shape)
        check_positive("per_visit", self.per_visit)

    def threshold(self, visits: int) -> float:
        """The threshold B_n; the noise of episode k is proportional to B_k."""
        return float((self.per_visit * visits) ** (1 / (1 + moments_of(self.shape).order)))

    def arrays(self) -> RawCountArrays:
        """What its kernel needs to know, and no visits yet."""
        s = self.shape
        power = 1 / (1 + moments_of(s).order)
        return RawCountArrays(s.states, s.actions, s.homogeneous, self.per_visit, power, np.zeros(self.rows, np.int64))


@encode_into.implement(RawCountArrays)
def _encode_raw(
    encoder: RawCountArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,  # nothing is drawn here
    cells: Cells,
) -> None:
    S, A, visited = encoder.states, encoder.actions, encoder.visited
    rows = visited.shape[0]
    for h in range(length):
        row = ((0 if encoder.homogeneous else h) * S + states[h]) * A + actions[h]
        cells[row] += 1.0
        if h + 1 < length:
            cells[rows + row * S + states[h + 1]] += 1.0
        if abs(rewards[h]) <= (encoder.per_visit * visited[row]) ** encoder.power:
            cells[rows * (S + 1) + row] += rewards[h]
        visited[row] += 1


@dataclass(frozen=True)
class RawCountChannel(ClippedRewardsChannel):
    """The printed release: thresholds follow raw counts, so its noise hides nobody."""


class IndexedArrays(NamedTuple):
    """What the kernel needs to know, and how many users it has encoded."""

    states: int
    actions: int
    homogeneous: bool
    first: float
    power: float
    users: Integers


@dataclass(frozen=True)
class IndexedTables(PrintedTables):
    """Visits, transitions, and rewards that are truncated at a threshold of the user's number.

    ``first`` is B_1^(1+v).
    """

    first: float
    name: ClassVar[str] = "indexed-tables"

    def __post_init__(self) -> None:
        moments_of(self.shape)
        check_positive("first", self.first)

    @property
    def _power(self) -> float:
        """The exponent of a user's number in her threshold."""
        return 0.5 / (1 + moments_of(self.shape).order)

    def threshold(self, user: int) -> float:
        """The threshold B_j of the user with this number, counted from one."""
        return float(self.first ** (2 * self._power) * user**self._power)

    def arrays(self) -> IndexedArrays:
        """What its kernel needs to know, and no users yet."""
        s = self.shape
        return IndexedArrays(
            s.states, s.actions, s.homogeneous, self.threshold(1), self._power, np.zeros(1, np.int64)
        )  # fmt: skip


@encode_into.implement(IndexedArrays)
def _encode_indexed(
    encoder: IndexedArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,  # nothing is drawn here
    cells: Cells,
) -> None:
    S, A, H = encoder.states, encoder.actions, states.shape[0]
    rows = S * A * (1 if encoder.homogeneous else H)
    encoder.users[0] += 1
    B = encoder.first * float(encoder.users[0]) ** encoder.power
    for h in range(length):
        row = ((0 if encoder.homogeneous else h) * S + states[h]) * A + actions[h]
        cells[row] += 1.0
        if h + 1 < length:
            cells[rows + row * S + states[h + 1]] += 1.0
        if abs(rewards[h]) <= B:
            cells[rows * (S + 1) + row] += rewards[h]

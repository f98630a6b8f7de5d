"""Rewards without a range: clipped (or truncated) at a public threshold before anything is counted.

With E|X|^(1+v) <= u, clipping at B costs a bias of at most c_v u / B^v, c_v = v^v / (1+v)^(1+v), and leaves a second
moment of at most u B^(1-v); truncating to zero costs up to u / B^v. A threshold is a function of the number of users
before or of counts that were *released*, never of raw counts: a threshold that looks at the data lets one user change
what every later one contributes.

``ClippedTables``: the statistics of the paper. One count for each (group, state, action, successor or end), of which
visits are sums, and a table of clipped reward sums. Replacing a trajectory moves two counts at each step (L1 = 2H) and
the reward of a step by 2B in one cell or by B and B' in two: 2 at most in units of each cell's own threshold.

``SignedFirstVisitTables``: first visits (:mod:`discreet.mechanisms.counts.first_visit`) with the reward as one of two
bits, positive or negative, set with probability min(1, |r| / B): unbiased for the clipped reward, and
R = B (positive - negative). With laws per step a row is (step, state, action), which a user visits once at most, so
every visit is the first. A row that both users visited moves four cells (two successors, two bits), a row of one of
them three. Each user has H visits at most, and one successor less, so with m rows released

    L1 = L2^2 = 4m  for m < H,   2H + 2m - 2  for H <= m <= 2H,   6H - 2  beyond;   L-infinity = 1.

Let x rows be visited by both and y by one of them, t = 2x + y <= 2H: moves are t bits, y visits and min(t, 2H - 2)
successors, and y <= 2m - t because x + y <= m.

Both state rewards in units of the declared range (-tau, tau) of the *means*: (R + tau N) / (2 tau), which
learners divide by N to get a number in [0, 1], as for rewards with a range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Moments, Shape
from discreet.base.streams import Stream, uniform
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.base.validation import check_positive
from discreet.mechanisms.counts.encoder import ALL_THREE, Cells, LaidOut, Statistic, encode_into
from discreet.mechanisms.counts.first_visit import Seen, is_first_visit, next_user, nobody_seen
from discreet.mechanisms.counts.layouts import JointCells, Tables
from discreet.privacy.sensitivity import Sensitivity


def moments_of(shape: Shape) -> Moments:
    """The declared moment bound, or a refusal."""
    if shape.moments is None:
        raise Unsupported("rewards of this world have a range: use a recipe that is not for heavy tails")
    return shape.moments


def clipping_bias(moments: Moments, threshold: float, truncated: bool = False) -> float:
    """The most that clipping at the threshold, or truncating, can move a mean."""
    v = moments.order
    share = 1.0 if truncated else v**v / (1 + v) ** (1 + v)
    return float(share * moments.bound / threshold**v)


def public_tables(shape: Shape, threshold: float) -> dict[str, Floats]:
    """What learners may know of one threshold for everybody: where it is, and how far it can have moved a mean."""
    everywhere = np.ones((shape.groups, shape.states, shape.actions))
    bias = clipping_bias(moments_of(shape), threshold)
    return {"thresholds": threshold * everywhere, "clipping_bias": bias * everywhere}


class SignedFirstVisitArrays(NamedTuple):
    """What the kernel of signed first visits needs to know."""

    states: int
    actions: int
    homogeneous: bool
    threshold: float
    seen: Seen


@dataclass(frozen=True)
class SignedFirstVisitTables(LaidOut):
    """Tables of first visits, successors, positive and negative reward bits; with laws per step, of every visit."""

    shape: Shape
    threshold: float
    name: ClassVar[str] = "signed-first-visit-tables"
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    def __post_init__(self) -> None:
        moments_of(self.shape)
        check_positive("threshold", self.threshold)

    @property
    def layout(self) -> Tables:
        """Visits, transitions row by row, and two tables of reward bits: positive and negative ones."""
        return Tables(self.shape, by_successor=False, reward_tables=2)

    @property
    def rows(self) -> int:
        """How many (group, state, action) there are."""
        return self.layout.rows

    def sensitivity(self, rows: int | None = None) -> Sensitivity:
        """What replacing a user moves when only ``rows`` rows, chosen without looking at her, are released."""
        H = self.shape.horizon
        m = self.rows if rows is None else rows
        moves = 4 * m if m < H else 2 * H + 2 * min(m, 2 * H) - 2
        return Sensitivity.unit_shifts(up=moves - moves // 2, down=moves // 2, any_way=True)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Rewards are B (positive - negative), in units of the declared range of means."""
        marginals, B, tau = self.layout.marginals(cells), self.threshold, self.shape.rewards[1]
        visits, one = marginals["visits"]
        positive, negative = self.layout.rewards(cells)[..., 0]
        # The noise of B (positive - negative) + tau visits, over 2 tau, in units of the noise of one cell, rounded up.
        mixed = one * math.ceil((2 * B * B + tau * tau) / (4 * tau * tau))
        return marginals | {"rewards": Statistic((B * (positive - negative) + tau * visits) / (2 * tau), mixed)}

    @property
    def public(self) -> dict[str, Floats]:
        """What learners may know: the threshold, and how far clipping can have moved a mean."""
        return public_tables(self.shape, self.threshold)

    def arrays(self) -> SignedFirstVisitArrays:
        """What its kernel needs to know, and who was seen where."""
        s = self.shape
        return SignedFirstVisitArrays(s.states, s.actions, s.homogeneous, self.threshold, nobody_seen(self.rows))


@encode_into.implement(SignedFirstVisitArrays)
def _encode_signed(
    encoder: SignedFirstVisitArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A, seen = encoder.states, encoder.actions, encoder.seen
    rows = seen.shape[0] - 1
    user = next_user(seen)
    for h in range(length):
        pair = ((0 if encoder.homogeneous else h) * S + states[h]) * A + actions[h]
        if not is_first_visit(seen, pair, user):
            continue
        cells[pair] += 1.0
        if h + 1 < length:
            cells[rows + pair * S + states[h + 1]] += 1.0
        reward = rewards[h]
        if uniform(stream) * encoder.threshold < abs(reward):
            cells[rows * (S + 1 if reward > 0 else S + 2) + pair] += 1.0


class ClippedTablesArrays(NamedTuple):
    """What the kernel of clipped rewards needs to know."""

    states: int
    actions: int
    homogeneous: bool
    truncated: bool
    thresholds: Floats
    positions: Integers  # of the threshold of every row; empty: the user's number decides
    users: Integers  # how many users have been encoded


@dataclass(frozen=True)
class ClippedTables(LaidOut):
    """Counts of transitions and ends, and sums of clipped rewards.

    User j's threshold is ``thresholds[log2 j]``; with ``positions``, that of a row is ``thresholds[positions[row]]``.
    ``truncated`` sets a reward beyond the threshold to zero instead of clipping it.
    """

    shape: Shape
    thresholds: tuple[float, ...]
    truncated: bool = False
    positions: tuple[int, ...] | None = None
    name: ClassVar[str] = "clipped-tables"
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    def __post_init__(self) -> None:
        moments_of(self.shape)
        for threshold in self.thresholds:
            check_positive("threshold", threshold)
        if self.positions is not None and len(self.positions) != self.rows:
            raise InvalidInput(
                f"positions must name a threshold for each of {self.rows} rows, got {len(self.positions)}"
            )

    @property
    def rounded(self) -> bool:
        """Reward sums are not whole numbers."""
        return False

    @property
    def layout(self) -> JointCells:
        """Counts of (group, state, action, successor or end); the reward sums follow them."""
        return JointCells(self.shape, bits=False)

    @property
    def rows(self) -> int:
        """How many (group, state, action) there are."""
        return self.shape.groups * self.shape.states * self.shape.actions

    @property
    def counts(self) -> int:
        """How many cells are counts; the reward sums follow them."""
        return self.layout.size

    @property
    def size(self) -> int:
        """How many cells there are: counts, and one reward sum per row."""
        return self.counts + self.rows

    def threshold(self, user: int) -> float:
        """The threshold of the user with this number, counted from one: constant while the number of digits is."""
        return self.thresholds[user.bit_length() - 1]

    def alike(self, user: int) -> int:
        """Thresholds rise when a user's number gets another digit."""
        return (1 << user.bit_length()) - user

    def count_sensitivity(self) -> Sensitivity:
        """What one user moves in the counts: two cells at each step."""
        H = self.shape.horizon
        if not self.shape.homogeneous or H == 1:
            return Sensitivity.unit_shifts(up=H, down=H)
        return Sensitivity.worst_shift((H - 1, 1, 1), (1, 1, 1))

    def reward_sensitivity(self) -> Sensitivity:
        """What one user moves in the reward sums, in units of the threshold: 2 at each step, in one cell or in two."""
        H = self.shape.horizon
        pooled = self.shape.homogeneous and H > 1
        return Sensitivity(l1=2 * H, l2=2 * H if pooled else 2 * math.sqrt(H), linf=2 * H if pooled else 2)

    def sensitivity(self) -> Sensitivity:
        """What one user moves in counts and rewards together, rewards in units of the threshold."""
        counts, rewards = self.count_sensitivity(), self.reward_sensitivity()
        return Sensitivity(counts.l1 + rewards.l1, math.hypot(counts.l2, rewards.l2), max(counts.linf, rewards.linf))

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Spread an array over rows to their counts and to their reward sums."""
        return np.concatenate([self.layout.rows_to_cells(rows), rows.reshape(-1)])

    def possible(self) -> Mask:
        """The last step of a world with laws per step has end cells only; every reward sum is possible."""
        return np.concatenate([self.layout.possible(), np.ones(self.rows, np.bool_)])

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """``cells`` of rewards count the reward sum itself; the visits added to it carry noise of their own."""
        G, tau = self.shape.groups, self.shape.rewards[1]
        marginals = self.layout.marginals(cells[: self.counts])
        visits = marginals["visits"].values
        rewards = (cells[self.counts :].reshape(visits.shape) + tau * visits) / (2 * tau)
        return marginals | {"rewards": Statistic(rewards, np.ones((G, 1, 1), np.int64))}

    def arrays(self) -> ClippedTablesArrays:
        """What its kernel needs to know, and how many users it has encoded."""
        s = self.shape
        return ClippedTablesArrays(
            s.states, s.actions, s.homogeneous, self.truncated, np.array(self.thresholds),
            np.array(self.positions or (), np.int64), np.zeros(1, np.int64),
        )  # fmt: skip


@encode_into.implement(ClippedTablesArrays)
def _encode_clipped(
    encoder: ClippedTablesArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,  # nothing is drawn here
    cells: Cells,
) -> None:
    S, A, H = encoder.states, encoder.actions, states.shape[0]
    encoder.users[0] += 1
    epoch, user = 0, encoder.users[0]
    while user > 1:
        user >>= 1
        epoch += 1
    counts = S * A * (1 if encoder.homogeneous else H) * (S + 1)
    for h in range(length):
        row = ((0 if encoder.homogeneous else h) * S + states[h]) * A + actions[h]
        successor = states[h + 1] if h + 1 < length else S
        cells[row * (S + 1) + successor] += 1.0
        B = encoder.thresholds[encoder.positions[row] if encoder.positions.shape[0] > 0 else epoch]
        if encoder.truncated and abs(rewards[h]) > B:
            continue
        cells[counts + row] += min(B, max(-B, rewards[h]))

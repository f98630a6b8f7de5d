r"""Outcomes with units: of every cell the number of visits, the sum of its rewards and their slack, on one public grid.

A reward becomes a whole number k in -K .. K (r = k / K in [-1, 1] is its place in the declared range), at random and
without bias. A visit of a cell (group, state, action) adds to three numbers, which together give a mean with its own
spread,

    count  w,      sum  k,      slack  q = (K^2 - k^2) / 2K rounded to the nearest,              0 < w <= K.

**Formal guarantees.** Neighbours differ in one whole trajectory of at most H visits. With j = K - |k| the slack is
j - j^2 / 2K, rounded, so |k| + q <= K: slack is free, in L1 and so in L2. A visit in place of another one moves

    L1    at most 2 (w + K);
    L2    of two rows at most sqrt(2 (w^2 + K^2)) <= 2K, of one row with opposite rewards 2K, which is attained: a count
          of weight K costs nothing. With a count for each successor sqrt(4 K^2 + 2 w^2), but for the last visit, after
          which everybody is in the same cell;
    one cell at most 2K.

Cells of different steps are different ones: H visits move H times as much in L1, and in L2 the root of 4 K^2 H, with
successors of 4 K^2 H + 2 w^2 (H - 1). Where steps are pooled all rewards may meet in one cell, which moves H times as
much, and H - 1 successors in another: the root of 4 K^2 H^2 + 2 w^2 (H - 1)^2. (Last visits of two rows r, r' add 2 w^2
there, but then the sums move at most K^2 ((2H - 1)^2 + 1), which is less by more.) With m trajectories, m times.

So noise of a law that reads L1 is paired with w = K / 2 (sums are worth more than counts), and one that reads L2 with
w = K.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.base.compiled import inlined
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import Stream, uniform
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.base.validation import check_count
from discreet.mechanisms.counts.encoder import Cells, LaidOut, Statistic, check_layer, encode_into
from discreet.mechanisms.counts.joint_histogram import JointCounts
from discreet.privacy.rounding import root_up
from discreet.privacy.sensitivity import Sensitivity

GRID = 1024  # K: sums of 2^33 users stay below 2^53


class OutcomeArrays(NamedTuple):
    """What the kernel needs to know."""

    states: int
    actions: int
    homogeneous: bool
    successors: int  # counts of a row
    count_weight: float
    rows: int
    low: float
    span: float


@dataclass(frozen=True)
class OutcomeTable(LaidOut):
    """Counts, sums and slacks over (group, state, action); counts by successor, or end, where they are asked for."""

    shape: Shape
    count_weight: int = GRID
    successors: bool = False
    per_user: int = 1
    signed: ClassVar[bool] = True
    first_visit: ClassVar[bool] = False
    reward_levels: ClassVar[int] = 2 * GRID + 1
    parts: ClassVar[int] = 1
    statistics: ClassVar[frozenset[str]] = frozenset({"visits", "transitions", "rewards", "slacks"})

    def __post_init__(self) -> None:
        check_count("per_user", self.per_user)
        if not 0 < self.count_weight <= GRID:
            raise InvalidInput(f"count_weight must lie in 1..{GRID}, got {self.count_weight}")
        if self.shape.horizon > 1 and not self.successors:
            raise Unsupported("several steps need successors=True: nothing else says where an action leads")

    @property
    def name(self) -> str:
        """What is counted, in words."""
        return ("successors" if self.successors else "visits") + ", with sums and slacks of rewards"

    @property
    def rows(self) -> int:
        """How many (group, state, action) there are."""
        return self.shape.groups * self.shape.states * self.shape.actions

    @property
    def _counts(self) -> int:
        return self.shape.states + 1 if self.successors else 1

    @property
    def size(self) -> int:
        """A count for each successor, a sum and a slack for each row."""
        return self.rows * (self._counts + 2)

    def sensitivity(self) -> Sensitivity:
        """What replacing a user with up to ``per_user`` trajectories moves."""
        H, pooled = self.shape.horizon, self.shape.homogeneous
        sums = 4 * GRID**2 * (H * H if pooled else H)
        others = (H - 1) ** 2 if pooled else H - 1
        counts = 2 * self.count_weight**2 * others
        one = Sensitivity(
            2 * H * (self.count_weight + GRID), root_up(Fraction(sums + counts)), 2 * GRID * (H if pooled else 1)
        )
        return one.scaled(self.per_user)

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """One visit in place of another."""
        check_layer(self.shape, step)
        squares = 4 * GRID**2 + 2 * self.count_weight**2 * self.successors
        one = Sensitivity(2 * (self.count_weight + GRID), root_up(Fraction(squares)), 2 * GRID)
        return one.scaled(self.per_user)

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """A row has its counts, a sum and a slack."""
        flat = rows.reshape(-1)
        return np.concatenate([np.repeat(flat, self._counts), flat, flat])

    def possible(self) -> Mask:
        """All of them; after the last of separate steps nothing follows but the end."""
        counts = np.ones((self.shape.groups, self.rows // self.shape.groups, self._counts), np.bool_)
        if self.shape.groups > 1 or self.shape.horizon == 1:
            counts[-1, :, :-1] = False
        return np.concatenate([counts.reshape(-1), np.ones(2 * self.rows, np.bool_)])

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Visits, successors, sums of rewards as shares of their range, and of slacks 1 - r^2 of r in [-1, 1].

        ``cells`` of a statistic is here the variance of its noise in units of that of one cell.
        """
        axes, S, unit = (
            (self.shape.groups, self.shape.states, self.shape.actions),
            self.shape.states,
            np.ones((1, 1, 1)),
        )
        split = self.rows * self._counts
        counts = cells[:split].reshape(*axes, self._counts) / self.count_weight
        sums, slacks = (part.reshape(axes) / GRID for part in np.split(cells[split:], 2))
        one = 1 / self.count_weight**2
        known = self.possible()[:split].reshape(*axes, self._counts).sum(axis=3)
        visits = Statistic(counts.sum(axis=3), one * known)
        followed = Statistic(np.zeros((*axes, S)), 0 * unit[..., None])
        if self.successors:
            followed = Statistic(counts[..., :S], one * (known > 1)[..., None])
        rewards = Statistic((sums + visits.values) / 2, (visits.cells + 1 / GRID**2) / 4)
        return {"visits": visits, "transitions": followed, "rewards": rewards,
                "slacks": Statistic(2 * slacks, 4 / GRID**2 * unit)}  # fmt: skip

    def from_joint(self, joint: JointCounts, part: int = 0) -> Cells:
        """The cells of users whom a database has counted, rewards in 2 K + 1 levels."""
        if joint.levels != self.reward_levels:
            raise Unsupported(f"outcomes need rewards in {self.reward_levels} levels, got {joint.levels}")
        rest, level = np.divmod(joint.keys, joint.levels)
        row, successor = np.divmod(rest, self.shape.states + 1)
        k, users, split = level - GRID, joint.counts, self.rows * self._counts
        cells = np.zeros(self.size, np.int64)
        np.add.at(cells, row * self._counts + successor if self.successors else row, self.count_weight * users)
        np.add.at(cells, split + row, k * users)
        np.add.at(cells, split + self.rows + row, (GRID**2 - k**2 + GRID) // (2 * GRID) * users)
        return cells.astype(np.float64)

    def arrays(self) -> OutcomeArrays:
        """What its kernel needs to know."""
        s = self.shape
        return OutcomeArrays(
            s.states, s.actions, s.homogeneous, self._counts, self.count_weight, self.rows, s.rewards[0], s.reward_span
        )


@inlined
def _place(reward: float, low: float, span: float, stream: Stream) -> int:
    """A reward as a whole number in -K .. K, by stochastic rounding; what is outside is clipped."""
    share = (reward - low) / span
    if not share > 0.0:  # NaN is the low end
        return -GRID
    if share >= 1.0:
        return GRID
    place = share * (2 * GRID)
    below = int(place)
    return below - GRID + (1 if uniform(stream) < place - below else 0)


@encode_into.implement(OutcomeArrays)
def _encode(
    encoder: OutcomeArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A, split = encoder.states, encoder.actions, encoder.rows * encoder.successors
    for h in range(length):
        row = ((0 if encoder.homogeneous else h) * S + states[h]) * A + actions[h]
        cell = row
        if encoder.successors > 1:
            cell = row * encoder.successors + (states[h + 1] if h + 1 < length else S)
        k = _place(rewards[h], encoder.low, encoder.span, stream)
        cells[cell] += encoder.count_weight
        cells[split + row] += k
        cells[split + encoder.rows + row] += (GRID * GRID - k * k + GRID) // (2 * GRID)

"""Two tables: successors of each (state, action), and its reward bits. Visits are counted by the bits.

In a joint histogram (:mod:`discreet.mechanisms.counts.joint_histogram`) a step is one cell (state, action, successor or
end, bit). That moves as little as can be, but every statistic is a sum of cells, and brings their noise: rewards that
of S + 1 cells, visits that of 2 (S + 1). Where a plan goes wrong under privacy, noise has mostly hidden a reward. Here
a step that has a successor counts in two tables,

    (state, action, successor)        transitions: one cell
    (state, action, bit)              rewards: one cell; visits: two, ones and zeros

and the last step of a trajectory in the second only. Replacing a trajectory of H steps moves H - 1 cells of the first
table and H of the second, each way:

    L1 = 4 H - 2,  L2^2 = L1 with one table per step;  with steps pooled L2^2 = 2 H^2 + 2 (H - 1)^2 at most,

H visits of one pair that loops, with reward one, against the same in another pair. That is twice the L1 of the joint
histogram (less 2), and twice its L2^2 with separate steps and with first visits (pooled a little more: 122 and 52 with
6 steps). With Gaussian or binomial noise, whose variance goes with L2^2, transitions carry as much noise as there (two
cells of half the variance), rewards and visits 2 / (S + 1) of it. With Laplace noise, whose variance goes with L1^2,
transitions carry twice as much, and rewards and visits 4 / (S + 1) of it: worth it with many states, or where rewards
are what is hard to tell.

**First visits** (``first_visit``, for time-homogeneous worlds): for each pair only the first transition out of it
counts, see :mod:`discreet.mechanisms.counts.first_visit`. A user sets at most m = min(H, S A) cells of the second table
and min(H - 1, S A) of the first, each to one, so L1 = L2^2 = 2 (m + min(H - 1, S A)), L-infinity = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.mechanisms.counts.encoder import (
    ALL_THREE,
    Cells,
    LaidOut,
    check_layer,
    encode_into,
    marginals_into,
    reward_bit,
)
from discreet.mechanisms.counts.first_visit import Seen, check_homogeneous, is_first_visit, next_user, nobody_seen
from discreet.mechanisms.counts.layouts import SuccessorsAndBits, bit_marginals
from discreet.privacy.sensitivity import Sensitivity


class TwoTablesArrays(NamedTuple):
    """What the kernel of two tables needs to know."""

    states: int
    actions: int
    homogeneous: bool
    first_visit: bool
    low: float
    span: float
    rows: int
    seen: Seen


@dataclass(frozen=True)
class TwoTables(LaidOut):
    """Successors and reward bits, each in a table of its own; of every visit, or of first visits only."""

    shape: Shape
    first_visit: bool = False
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    def __post_init__(self) -> None:
        if self.first_visit:
            check_homogeneous(self.shape)

    @property
    def name(self) -> str:
        """Two tables, or those of first visits."""
        return "first-visit-two-tables" if self.first_visit else "two-tables"

    @property
    def layout(self) -> SuccessorsAndBits:
        """Transitions successor by successor, then bits."""
        return SuccessorsAndBits(self.shape)

    def sensitivity(self) -> Sensitivity:
        """A bit each way at every step, and a successor at every step but the last."""
        H, pairs = self.shape.horizon, self.shape.states * self.shape.actions
        if self.first_visit:
            moves = min(H, pairs) + min(H - 1, pairs)
            return Sensitivity.unit_shifts(up=moves, down=moves)
        if not self.shape.homogeneous or H == 1:
            return Sensitivity.unit_shifts(up=2 * H - 1, down=2 * H - 1)
        return Sensitivity.worst_shift((H, 1, 1), (H - 1, 1, 1))

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """A bit and, but at the last step, a successor."""
        check_layer(self.shape, step)
        moves = 1 + (step < self.shape.horizon - 1)
        return Sensitivity.unit_shifts(up=moves, down=moves)

    def arrays(self) -> TwoTablesArrays:
        """What its kernel needs to know, and who was seen where."""
        s = self.shape
        return TwoTablesArrays(
            s.states, s.actions, s.homogeneous, self.first_visit, s.rewards[0], s.reward_span, self.layout.rows,
            nobody_seen(s.states * s.actions),
        )  # fmt: skip


@encode_into.implement(TwoTablesArrays)
def _encode(
    encoder: TwoTablesArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A, rows, seen = encoder.states, encoder.actions, encoder.rows, encoder.seen
    user = next_user(seen)
    for h in range(length):
        pair = states[h] * A + actions[h]
        if encoder.first_visit and not is_first_visit(seen, pair, user):
            continue
        row = pair if encoder.homogeneous else h * S * A + pair
        if h + 1 < length:
            cells[states[h + 1] * rows + row] += 1.0
        cells[S * rows + 2 * row + reward_bit(rewards[h], encoder.low, encoder.span, stream)] += 1.0


marginals_into.implement(TwoTablesArrays)(bit_marginals)


def from_joint_counts(grouped: Integers) -> Floats:
    """The tally of two tables from joint counts (group, state, action, successor or end, bit)."""
    S = grouped.shape[1]
    successors = np.moveaxis(grouped[:, :, :, :S].sum(axis=4), -1, 0)
    return np.concatenate([successors.reshape(-1), grouped.sum(axis=3).reshape(-1)]).astype(np.float64)

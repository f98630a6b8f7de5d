"""First visits only: each user contributes, for each (state, action), the first transition out of it.

For worlds declared time-homogeneous (transition *and* reward laws). By the Markov property the first transition out of
(s, a) is still an unbiased draw of P(.|s,a), whatever the policy, and pooled counts no longer move by up to H.

**Joint cells** (:class:`FirstVisit`). A user sets at most min(H, S*A) cells, each to one. Replacing her moves at most
that many cells down and as many up,

    L1 = L2^2 = 2 min(H, S*A),  L-infinity = 1,

instead of L2 = sqrt(2) H for pooled counts of every visit. The last step of a trajectory gives an "end" cell: its
reward counts, its successor is unknown.

**Tables that share their cost** (:class:`FirstVisitTables`). Visit, successor and reward bit of a pair go to tables of
their own instead of one joint cell. What replacing a user does to one pair is then

    both visited it:     two successors change, one reward,             the visit does not      (3 cells)
    one of them did:     one successor changes, one reward, one visit                           (3 cells)

so the direct count of visits costs nothing beside the successors, and no statistic has to be summed from many noisy
cells: a count of visits carries one draw of noise instead of 2 (S + 1), rewards one instead of S + 1. Two users see at
most U = min(2H, SA) pairs between them, and a pair first met at the last step has no successor, hence

    L1 = L2^2 = 3 U - max(0, U - (2H - 2)),  L-infinity = 1,

where U may also be the number of rows that are released at all. Worth it while SA is not far above H; beyond, the joint
cells of first visits move less (2H). The signs of these moves are not stated: this profile is for noise that is
symmetric.

Not valid with counts of first visits: flow consistency between states, and "the total is the number of users".

**Bookkeeping.** One entry per (state, action) holds the number of the last user who was there, and one more entry the
number of the user who is being encoded. Nothing has to be cleared between users.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.compiled import inlined
from discreet.base.errors import Unsupported
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
from discreet.mechanisms.counts.layouts import JointCells, Tables, joint_marginals, table_marginals
from discreet.privacy.sensitivity import Sensitivity

Seen = Integers


def nobody_seen(pairs: int) -> Seen:
    """The bookkeeping before the first user."""
    return np.zeros(pairs + 1, np.int64)


@inlined
def next_user(seen: Seen) -> int:
    """Begin with another user; her number."""
    seen[-1] += 1
    return seen[-1]  # type: ignore[no-any-return]


@inlined
def is_first_visit(seen: Seen, pair: int, user: int) -> bool:
    """Whether this user has not been here before; from now on she has."""
    first: bool = seen[pair] != user
    seen[pair] = user
    return first


def check_homogeneous(shape: Shape) -> None:
    """First visits over all steps say something about a world that is the same at every step."""
    if not shape.homogeneous:
        raise Unsupported(
            "first-visit counts need a world that is declared time-homogeneous: "
            "declare it, or use the joint-histogram encoder"
        )


class FirstVisitArrays(NamedTuple):
    """What the kernel of joint first visits needs to know."""

    states: int
    actions: int
    low: float
    span: float
    seen: Seen


@dataclass(frozen=True)
class FirstVisit(LaidOut):
    """The joint histogram of first visits, for time-homogeneous worlds."""

    shape: Shape
    name: ClassVar[str] = "first-visit"
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    def __post_init__(self) -> None:
        check_homogeneous(self.shape)

    @property
    def layout(self) -> JointCells:
        """Joint cells with all axes."""
        return JointCells(self.shape)

    def sensitivity(self) -> Sensitivity:
        """A unit out of a cell and one into a cell for each pair that a user can visit."""
        pairs = min(self.shape.horizon, self.shape.states * self.shape.actions)
        return Sensitivity.unit_shifts(up=pairs, down=pairs)

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """The whole sensitivity, for a shape with a single step; refused where steps are pooled."""
        check_layer(self.shape, step)
        return self.sensitivity()

    def arrays(self) -> FirstVisitArrays:
        """What its kernel needs to know, and who was seen where."""
        S, A = self.shape.states, self.shape.actions
        return FirstVisitArrays(S, A, self.shape.rewards[0], self.shape.reward_span, nobody_seen(S * A))


@encode_into.implement(FirstVisitArrays)
def _encode(
    encoder: FirstVisitArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A, seen = encoder.states, encoder.actions, encoder.seen
    user = next_user(seen)
    for h in range(length):
        pair = states[h] * A + actions[h]
        if not is_first_visit(seen, pair, user):
            continue
        successor = states[h + 1] if h + 1 < length else S
        bit = reward_bit(rewards[h], encoder.low, encoder.span, stream)
        cells[(pair * (S + 1) + successor) * 2 + bit] += 1.0


marginals_into.implement(FirstVisitArrays)(joint_marginals)


class FirstVisitTablesArrays(NamedTuple):
    """What the kernel of tables of first visits needs to know."""

    states: int
    actions: int
    low: float
    span: float
    seen: Seen


@dataclass(frozen=True)
class FirstVisitTables(LaidOut):
    """Tables of first visits, of their successors and of their reward bits, for time-homogeneous worlds."""

    shape: Shape
    name: ClassVar[str] = "first-visit-tables"
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    def __post_init__(self) -> None:
        check_homogeneous(self.shape)

    @property
    def layout(self) -> Tables:
        """Three tables, transitions successor by successor."""
        return Tables(self.shape)

    @property
    def rows(self) -> int:
        """How many (state, action) there are."""
        return self.layout.rows

    def sensitivity(self, rows: int | None = None) -> Sensitivity:
        """What replacing a user moves when only ``rows`` rows, chosen without looking at her, are released."""
        H = self.shape.horizon
        pairs = min(2 * H, self.rows if rows is None else rows)
        moves = 3 * pairs - max(0, pairs - (2 * H - 2))
        return Sensitivity.unit_shifts(up=moves - moves // 2, down=moves // 2, any_way=True)

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """With a single step: a visit and a reward bit down and up, or fewer; there are no successors."""
        check_layer(self.shape, step)
        return Sensitivity.unit_shifts(up=2, down=2)

    def arrays(self) -> FirstVisitTablesArrays:
        """What its kernel needs to know, and who was seen where."""
        s = self.shape
        return FirstVisitTablesArrays(s.states, s.actions, s.rewards[0], s.reward_span, nobody_seen(self.rows))


@encode_into.implement(FirstVisitTablesArrays)
def _encode_tables(
    encoder: FirstVisitTablesArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A, seen = encoder.states, encoder.actions, encoder.seen
    rows = S * A
    user = next_user(seen)
    for h in range(length):
        pair = states[h] * A + actions[h]
        if not is_first_visit(seen, pair, user):
            continue
        cells[pair] += 1.0
        if h + 1 < length:
            cells[(1 + states[h + 1]) * rows + pair] += 1.0
        cells[(1 + S) * rows + pair] += reward_bit(rewards[h], encoder.low, encoder.span, stream)


marginals_into.implement(FirstVisitTablesArrays)(table_marginals)

"""First visits only: each user contributes, for each (state, action), the first transition out of it.

For worlds declared time-homogeneous (transition *and* reward laws). By the Markov property the first transition out of
(s, a) is still an unbiased draw of P(.|s,a), whatever the policy, and pooled counts no longer move by up to H: a user
sets at most min(H, S*A) cells, each to one. Replacing her moves at most that many cells down and as many up,

    L1 = L2^2 = 2 min(H, S*A),  L-infinity = 1,

instead of L2 = sqrt(2) H for pooled counts of every visit. The last step of a trajectory gives an "end" cell: its
reward counts, its successor is unknown.

Not valid with these counts: flow consistency between states, and "the total is the number of users".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from numpy.typing import NDArray

from discreet.encoders.base import Cells, Statistic, encode_into, marginals_into, reward_bit
from discreet.encoders.joint import (
    ALL_THREE,
    joint_cells,
    joint_marginals,
    joint_marginals_into,
    possible_joint_cells,
    rows_to_joint_cells,
)
from discreet.encoders.seen_pairs import Seen, check_homogeneous, is_first_visit, next_user, nobody_seen
from discreet.privacy.sensitivity import Sensitivity
from discreet.release import Statistics
from discreet.shape import Shape
from discreet.streams import Stream
from discreet.types import Floats, Integers, Mask


class FirstVisitArrays(NamedTuple):
    states: int
    actions: int
    low: float
    span: float
    seen: Seen


@dataclass(frozen=True)
class FirstVisit:
    """The joint histogram of first visits, for time-homogeneous worlds."""

    shape: Shape
    name: ClassVar[str] = "first-visit"
    statistics: ClassVar[frozenset[str]] = ALL_THREE
    rounded: ClassVar[bool] = True
    public: ClassVar[Mapping[str, Floats]] = {}

    def __post_init__(self) -> None:
        check_homogeneous(self.shape)

    @property
    def size(self) -> int:
        return joint_cells(self.shape)

    def sensitivity(self) -> Sensitivity:
        pairs = min(self.shape.horizon, self.shape.states * self.shape.actions)
        return Sensitivity.unit_shifts(up=pairs, down=pairs)

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows_to_joint_cells(self.shape, rows)

    def possible(self) -> Mask:
        return possible_joint_cells(self.shape)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        return joint_marginals(self.shape, cells)

    def arrays(self) -> FirstVisitArrays:
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


@marginals_into.implement(FirstVisitArrays)
def _marginals(encoder: FirstVisitArrays, cells: Cells, statistics: Statistics) -> None:
    joint_marginals_into(cells, statistics)

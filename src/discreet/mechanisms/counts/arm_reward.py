"""The reward of one arm: all that is left to hide of a user of a bandit who was told which arm to play.

A bandit has one state and one step. Where the public policy says one action for everybody, the arm that a user gets is
decided before she comes: how often it was played is how many users were told to play it, which everybody knows, and
nothing follows the only step. So her record becomes one bit,

    1 if she played the arm that she was told to play and her reward, rounded to a bit, was one; otherwise 0.

A user who plays another arm, or none, counts as told, with a reward of zero. So replacing her by anybody, obedient or
not, moves one cell by at most one: half of what she moves in a joint histogram, a third of first-visit tables.

There is a cell for every arm, and only that of ``arm`` is ever written. Visits and transitions are no sums of cells
(they sum none, so they carry no noise): the channel knows them (:mod:`discreet.mechanisms.bandit`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.mechanisms.counts.encoder import (
    ALL_THREE,
    Cells,
    LaidOut,
    Statistic,
    check_layer,
    encode_into,
    reward_bit,
)
from discreet.privacy.sensitivity import Sensitivity


@dataclass(frozen=True)
class ArmCells:
    """One cell for each arm, of rewards; visits and transitions sum no cells."""

    actions: int

    @property
    def size(self) -> int:
        """How many cells there are: one for each arm."""
        return self.actions

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """A row is one cell."""
        return rows.reshape(-1)

    def possible(self) -> Mask:
        """Every arm may be the one that was told."""
        return np.ones(self.actions, np.bool_)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Rewards as they are, and tables of zeros that sum no cell for what is public."""
        rows, none = (1, 1, self.actions), np.zeros((1, 1, 1), np.int64)
        return {
            "visits": Statistic(np.zeros(rows), none),
            "transitions": Statistic(np.zeros((*rows, 1)), none),
            "rewards": Statistic(cells.reshape(rows), none + 1),
        }


class ArmRewardArrays(NamedTuple):
    """What the kernel of an arm's reward needs to know."""

    arm: int
    low: float
    span: float


@dataclass(frozen=True)
class ArmReward(LaidOut):
    """The reward bit of users who were told to play ``arm``."""

    shape: Shape
    arm: int = 0
    name: ClassVar[str] = "arm-rewards"
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    def __post_init__(self) -> None:
        if not is_bandit(self.shape):
            raise Unsupported(
                "rewards of arms are for bandits, which have one state and one step, and this world has "
                f"{self.shape.states} states and {self.shape.horizon} steps: use another recipe"
            )
        if not 0 <= self.arm < self.shape.actions:
            raise InvalidInput(f"arm must lie in 0..{self.shape.actions - 1}, got {self.arm!r}")

    @property
    def layout(self) -> ArmCells:
        """One cell for each arm."""
        return ArmCells(self.shape.actions)

    def sensitivity(self) -> Sensitivity:
        """One cell moves by one, up or down: two records differ in one bit."""
        return Sensitivity.unit_shifts(up=1, down=0)

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """The same: there is one step."""
        check_layer(self.shape, step)
        return self.sensitivity()

    def arrays(self) -> ArmRewardArrays:
        """What its kernel needs to know."""
        return ArmRewardArrays(self.arm, self.shape.rewards[0], self.shape.reward_span)


@encode_into.implement(ArmRewardArrays)
def _encode(
    encoder: ArmRewardArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    if length > 0 and actions[0] == encoder.arm:
        cells[encoder.arm] += reward_bit(rewards[0], encoder.low, encoder.span, stream)


def is_bandit(shape: Shape) -> bool:
    """Whether a world of this shape is a bandit: one state, one step."""
    return shape.states == 1 and shape.horizon == 1

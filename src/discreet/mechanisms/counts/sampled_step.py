"""One step of a trajectory, drawn with public coins: what a user of the local model reports about.

Splitting a budget over all H steps costs a local user dearly. Instead a public coin, independent of the data, picks
``steps`` of them (one, unless epsilon is large), and only those are reported:

    (state, action, successor or end, reward bit) at the picked step, times H / steps.

Every step is picked with probability steps / H, so the scaled counts are unbiased for all visits. Given the coins,
replacing a trajectory moves at most ``steps`` cells down and as many up. The cells here are those of the clear items,
one table per step; how an item is randomised and decoded is the channel's business.

A record that ends before the picked step has no item there. The last cells count who was *asked* at each step, which
the coins make public, so that the channel knows how many reports there are whether or not there was an item.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.shape import Shape
from discreet.base.streams import Stream, uniform
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.base.validation import check_count
from discreet.mechanisms.counts.encoder import (
    ALL_THREE,
    Cells,
    LaidOut,
    Statistic,
    check_layer,
    encode_into,
    reward_bit,
)
from discreet.mechanisms.counts.layouts import JointCells
from discreet.privacy.sensitivity import Sensitivity


class SampledStepArrays(NamedTuple):
    """What the kernel of sampled steps needs to know."""

    states: int
    actions: int
    horizon: int
    steps: int
    low: float
    span: float


@dataclass(frozen=True)
class SampledStep(LaidOut):
    """The items at ``steps`` of the H steps. ``early_end``: records may end early, and then say so."""

    shape: Shape
    steps: int = 1
    early_end: bool = False
    name: ClassVar[str] = "sampled-step"
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        if self.steps > self.shape.horizon:
            raise InvalidInput(f"steps must be at most the horizon, {self.shape.horizon}, got {self.steps}")

    @property
    def layout(self) -> JointCells:
        """Joint cells of every step, whether or not the world is the same at all of them; who was asked follows."""
        return JointCells(replace(self.shape, homogeneous=False))

    @property
    def table(self) -> tuple[int, ...]:
        """The axes of the item cells: step, state, action, successor or end, reward bit."""
        return self.layout.axes

    @property
    def size(self) -> int:
        """How many cells there are: the items', and one per step for who was asked."""
        return self.layout.size + self.shape.horizon

    @property
    def scale(self) -> float:
        """How many steps a reported one stands for."""
        return self.shape.horizon / self.steps

    @property
    def reward_range(self) -> tuple[float, float]:
        """The range that rewards are clipped to before they are rounded to a bit: the declared one."""
        return self.shape.rewards

    @property
    def bit_worth(self) -> tuple[float, float]:
        """What a zero and a one add to the reward sum, in units of the declared range."""
        return 0.0, 1.0

    def split(self, cells: Cells) -> tuple[Cells, Cells]:
        """The items (step, state, action, successor, bit), and how many were asked at each step."""
        return cells[: -self.shape.horizon].reshape(self.table), cells[-self.shape.horizon :]

    def sensitivity(self) -> Sensitivity:
        """Given the coins, one unit out of a cell and one into a cell at each picked step."""
        return Sensitivity.unit_shifts(up=self.steps, down=self.steps)

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """One unit out of a cell and one into a cell if the step is picked, otherwise nothing."""
        check_layer(self.shape, step)
        return Sensitivity.unit_shifts(up=1, down=1)

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows of pooled steps go to the items of every step; who was asked is always one."""
        H, S, A = self.table[:3]
        table = np.broadcast_to(np.asarray(rows).reshape(-1, S, A), (H, S, A))
        return np.concatenate([self.layout.rows_to_cells(table), np.ones(H, table.dtype)])

    def possible(self) -> Mask:
        """The items that a step can have, and who was asked."""
        possible = np.broadcast_to(self.slots()[:, None, None, :, None], self.table)
        return np.concatenate([possible.reshape(-1), np.ones(self.shape.horizon, np.bool_)])

    def slots(self) -> Mask:
        """Which successors (the last is "end") an item of each step can have: (H, S + 1)."""
        S = self.shape.states
        slots = np.ones((self.shape.horizon, S + 1), np.bool_)
        slots[:, S] = self.early_end
        slots[-1] = np.arange(S + 1) == S
        return slots

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Sums of items, each of which stands for ``scale`` steps; steps are pooled here if the world is the same."""
        G, S = self.shape.groups, self.shape.states
        items = self.scale * self.split(cells)[0]
        grouped = items.sum(axis=0, keepdims=True) if G == 1 else items
        # A pooled count sums one step's cells at a time, so the step with the most of them says how many there are.
        width = np.asarray(self.slots().sum(axis=1))
        followed = self.slots()[:, :S].any(axis=1)
        if G == 1:
            width, followed = np.array([width.max()]), np.array([followed.any()])

        def cells_of(n: Any) -> Integers:
            return np.asarray(n, np.int64).reshape(G, 1, 1)

        zero, one = self.bit_worth
        rewards = one * grouped[:, :, :, :, 1].sum(axis=3)
        if zero != 0.0:
            rewards += zero * grouped[:, :, :, :, 0].sum(axis=3)
        return {
            "visits": Statistic(grouped.sum(axis=(3, 4)), cells_of(2 * width)),
            "transitions": Statistic(grouped[:, :, :, :S].sum(axis=4), cells_of(2 * followed)),
            "rewards": Statistic(rewards, cells_of(np.ceil((zero**2 + one**2) * width))),
        }

    def arrays(self) -> SampledStepArrays:
        """What its kernel needs to know."""
        s, (low, high) = self.shape, self.reward_range
        return SampledStepArrays(s.states, s.actions, s.horizon, self.steps, low, high - low)


@encode_into.implement(SampledStepArrays)
def _encode(
    encoder: SampledStepArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    S, A, H = encoder.states, encoder.actions, encoder.horizon
    asked_at = cells.shape[0] - H
    wanted = encoder.steps
    for h in range(H):  # selection sampling: every set of ``steps`` steps is equally likely
        if uniform(stream) * (H - h) < wanted:
            wanted -= 1
            cells[asked_at + h] += 1.0
            if h < length:
                successor = states[h + 1] if h + 1 < length else S
                bit = reward_bit(rewards[h], encoder.low, encoder.span, stream)
                row = (h * S + states[h]) * A + actions[h]
                cells[(row * (S + 1) + successor) * 2 + bit] += 1.0

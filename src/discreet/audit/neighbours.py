"""Two trajectories that an encoder tells apart best: the neighbours that an audit compares.

The search does not trust the sensitivity that the encoder states. It encodes real trajectories and looks for the pair
with the largest L1 distance, and among those the largest L2 distance: every trajectory of a small shape, otherwise
families that contain the extreme points of the encoders here (staying in one pair, sweeping over all pairs, each with
lowest and highest rewards), improved step by step. Where public coins pick one question for each user, records are
compared given the coins, for many tosses of them: the pair that answers most questions differently is the worst.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from discreet.base.shape import Shape
from discreet.base.streams import COINS, generator, stream
from discreet.base.types import Floats, Integers
from discreet.mechanisms.counts.encoder import Encoder, encode
from discreet.mechanisms.counts.first_visit_question import AskedFirstVisit
from discreet.mechanisms.trajectories import Trajectories
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.adversarial.encoders import LossTable

_ENUMERATED = 600  # trajectories of which all pairs are compared
_IMPROVEMENTS = 300
_TOSSES = 24  # of public coins, given which records are compared

# One trajectory as an array of rows (state, action, reward share 0 or 1).
_Steps = Integers


@dataclass(frozen=True, eq=False)
class WorstPair:
    """Two records, their encodings, and what replacing one by the other moves."""

    records: tuple[Trajectories, Trajectories]
    cells: tuple[Floats, Floats]
    exhaustive: bool

    @property
    def shift(self) -> Floats:
        """What replacing one record by the other moves."""
        return self.cells[0] - self.cells[1]

    @property
    def sensitivity(self) -> Sensitivity:
        """The norms of this one shift."""
        return shift_sensitivity(self.shift)

    def describe(self) -> str:
        """The two records in words (they are made up, so they may be shown)."""
        first, second = (_describe(record) for record in self.records)
        return f"{first}  against  {second}"


def worst_pair(encoder: Encoder, actions: int | None = None) -> WorstPair:
    """The pair of trajectories whose encodings are furthest apart, among those that play the first ``actions`` actions.

    With one action both records follow a policy that everybody knows.
    """
    hashable: Any = encoder  # frozen data, which a protocol cannot say
    return _found(hashable, actions)


@lru_cache(maxsize=128)
def _found(encoder: Any, actions: int | None) -> WorstPair:
    shape = encoder.shape
    if isinstance(encoder, LossTable):
        return _whole_tables(encoder)
    played = replace(shape, actions=actions or shape.actions)
    exhaustive = (played.states * played.actions * 2) ** shape.horizon <= _ENUMERATED
    steps = _every(played) if exhaustive else _families(played)
    cells = _encodings(encoder, steps)
    i, j = _furthest(cells)
    first, second = steps[i], steps[j]
    if not exhaustive:
        first, second = _improved(encoder, played, first, second)
    records = _records(shape, np.stack([first, second]))
    a, b = encode(encoder, records, stream(0, 0, COINS))
    return WorstPair((_row(records, 0), _row(records, 1)), (a, b), exhaustive)


def _whole_tables(encoder: LossTable) -> WorstPair:
    """With full information a record holds a loss for every pair: all of them lost against none, on any path."""
    steps = np.zeros((2, encoder.shape.horizon, 3), np.int64)
    steps[1, :, 2] = 1
    records = _records(encoder.shape, steps)
    cells = np.ones(encoder.size), np.zeros(encoder.size)
    return WorstPair((_row(records, 0), _row(records, 1)), cells, exhaustive=True)


def shift_sensitivity(shift: Floats) -> Sensitivity:
    """The sensitivity of one known shift: by groups of equal moves where they are whole numbers."""
    moved = shift[shift != 0]
    if np.array_equal(moved, np.round(moved)):
        magnitudes = np.unique(np.abs(moved))
        groups = ((int(m), int(np.sum(moved == m)), int(np.sum(moved == -m))) for m in magnitudes)
        return Sensitivity.worst_shift(*groups)
    return Sensitivity(
        l1=float(np.abs(moved).sum()), l2=float(np.sqrt((moved**2).sum())), linf=float(np.abs(moved).max())
    )


def _every(shape: Shape) -> list[_Steps]:
    step = list(product(range(shape.states), range(shape.actions), (0, 1)))
    every = (np.array(steps, np.int64) for steps in product(step, repeat=shape.horizon))
    return [steps for steps in every if shape.start is None or steps[0, 0] == shape.start]


def _families(shape: Shape) -> list[_Steps]:
    S, A, H = shape.states, shape.actions, shape.horizon
    found = []
    for state, action, share in product({0, 1 % S, S - 1}, {0, 1 % A, A - 1}, (0, 1)):
        found.append(np.tile([state, action, share], (H, 1)))
    for offset, share, by_state in product({0, S * A // 2}, (0, 1), (False, True)):
        pair = (offset + np.arange(H)) % (S * A)
        states, actions = (pair % S, pair // S % A) if by_state else (pair // A, pair % A)
        found.append(np.stack([states, actions, np.full(H, share)], axis=1))
    for steps in found:
        if shape.start is not None:
            steps[0, 0] = shape.start
    return [np.asarray(steps, np.int64) for steps in found]


def _improved(encoder: Encoder, shape: Shape, first: _Steps, second: _Steps) -> tuple[_Steps, _Steps]:
    """Change one step of one record at random, many times over, and keep what does not bring the two closer."""
    rng = generator(0, 0, COINS)
    best = _distance(_encodings(encoder, [first, second]))
    for _ in range(_IMPROVEMENTS):
        pair = [first.copy(), second.copy()]
        steps, h = pair[int(rng.integers(2))], int(rng.integers(shape.horizon))
        steps[h] = rng.integers(shape.states), rng.integers(shape.actions), rng.integers(2)
        if shape.start is not None:
            steps[0, 0] = shape.start
        distance = _distance(_encodings(encoder, pair))
        if distance >= best:
            best, (first, second) = distance, pair
    return first, second


def _distance(cells: Floats) -> tuple[float, float]:
    shift = cells[0] - cells[1]
    return float(np.abs(shift).sum()), float((shift**2).sum())


def _furthest(cells: Floats) -> tuple[int, int]:
    best, where = (-1.0, -1.0), (0, 0)
    for i, row in enumerate(cells):
        shifts = cells[i:] - row
        l1, l2 = np.abs(shifts).sum(axis=1), (shifts**2).sum(axis=1)
        j = int(np.lexsort((l2, l1))[-1])
        if (l1[j], l2[j]) > best:
            best, where = (float(l1[j]), float(l2[j])), (i, i + j)
    return where


def _encodings(encoder: Encoder, steps: list[_Steps]) -> Floats:
    # Rewards at the ends of the range become bits without a coin, so encodings are functions of the records.
    records = _records(encoder.shape, np.stack(steps))
    if not isinstance(encoder, AskedFirstVisit):
        return encode(encoder, records, stream(0, 0, COINS))
    rows = [_row(records, i) for i in range(len(steps))]
    tosses = (np.concatenate([encode(encoder, row, stream(0, toss, COINS)) for row in rows]) for toss in range(_TOSSES))
    return np.concatenate(list(tosses), axis=1)


def _records(shape: Shape, steps: Integers) -> Trajectories:
    rewards = shape.rewards[0] + shape.reward_span * steps[:, :, 2]
    return Trajectories.from_arrays(steps[:, :, 0], steps[:, :, 1], rewards, shape)


def _row(records: Trajectories, i: int) -> Trajectories:
    rows = slice(i, i + 1)
    return Trajectories(records.states[rows], records.actions[rows], records.rewards[rows], records.lengths[rows])


def _describe(record: Trajectories) -> str:
    steps = [
        f"(s{s} a{a} r{r:g})" for s, a, r in zip(record.states[0], record.actions[0], record.rewards[0], strict=True)
    ]
    return " ".join(steps if len(steps) <= 4 else [*steps[:3], f"... {len(steps)} steps"])

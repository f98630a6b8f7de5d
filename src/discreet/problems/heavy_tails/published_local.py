r"""The local privatizer of Private-Heavy-UCBVI with the printed noise and the printed thresholds.

Visits, transitions and rewards are three tables, and every user adds noise to each of their cells:

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

from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_positive
from discreet.mechanisms.counts.encoder import Cells, encode_into
from discreet.problems.heavy_tails.encoders import moments_of
from discreet.problems.heavy_tails.published_tables import PrintedTables


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

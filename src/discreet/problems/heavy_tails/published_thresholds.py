r"""Private-Heavy-UCBVI's release as printed, thresholds from raw counts included: it runs, and promises nothing.

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
from discreet.problems.heavy_tails.mechanisms import ClippedRewardsChannel
from discreet.problems.heavy_tails.published_tables import PrintedTables


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

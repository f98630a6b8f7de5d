"""Who judges a run: exact regret at checkpoints, switches, the gap of the last policy. Learners never see any of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from discreet.policies import AnyPolicy
from discreet.release import Release
from discreet.types import Floats, Integers
from discreet.worlds.tabular import TabularWorld


@dataclass
class RunRecord:
    """What one run leaves behind; ``regret[i]`` is the cumulative regret after ``episodes[i]`` episodes."""

    episodes: Integers
    regret: Floats
    switches: int = 0
    deterministic_switches: int = 0
    final_gap: float | None = None
    release: Release | None = None


def empty_record(episodes: int) -> RunRecord:
    """A record before its run: all checkpoints, no regret."""
    marks = checkpoints(episodes)
    return RunRecord(marks, np.zeros(len(marks)))


def checkpoints(episodes: int, points: int = 60) -> Integers:
    """Whole numbers spread evenly in the logarithm from 1 to ``episodes``, the end included."""
    spread = np.logspace(0, np.log10(episodes), points)
    return np.unique(np.append(np.round(spread), episodes).astype(np.int64))


class Judge(Protocol):
    """Follows a run and writes its regret into the record at the end."""

    def deploy(self, policy: AnyPolicy) -> None:
        """Note the policy that the next users follow."""

    def count(self, begin: int, end: int) -> None:
        """Note that users number ``begin`` to ``end`` - 1 have acted under that policy."""

    def verdict(self, record: RunRecord, policy: AnyPolicy) -> None:
        """Write the regret of the run into its record; ``policy`` would be deployed next."""


class GapJudge:
    """For worlds that stay as they are: regret is the gap of each deployed policy times its users."""

    def __init__(self, world: TabularWorld, episodes: int) -> None:
        self._world, self._marks = world, checkpoints(episodes)
        self._regret, self._total, self._gap = np.zeros(len(self._marks)), 0.0, 0.0

    def deploy(self, policy: AnyPolicy) -> None:
        """Compute the exact gap of the new policy."""
        self._gap = self._world.gap(policy)

    def count(self, begin: int, end: int) -> None:
        """Regret grows evenly while the policy stays, so checkpoints inside of a block are exact too."""
        inside = (self._marks > begin) & (self._marks <= end)
        self._regret[inside] = self._total + self._gap * (self._marks[inside] - begin)
        self._total += self._gap * (end - begin)

    def verdict(self, record: RunRecord, policy: AnyPolicy) -> None:
        """Write the regret curve and the gap of the policy that would be deployed next."""
        record.regret[:] = self._regret
        record.final_gap = self._world.gap(policy)

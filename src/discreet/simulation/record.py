"""What one run leaves behind: exact regret at checkpoints, switches, the gap of the last policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.release import Release
from discreet.types import Floats, Integers


@dataclass
class RunRecord:
    """Filled in by the loops; ``regret[i]`` is the cumulative regret after ``episodes[i]`` episodes."""

    episodes: Integers
    regret: Floats
    switches: int = 0
    deterministic_switches: int = 0
    final_gap: float | None = None
    release: Release | None = None


def checkpoints(episodes: int, points: int = 60) -> Integers:
    """Whole numbers spread evenly in the logarithm from 1 to ``episodes``, the end included."""
    spread = np.logspace(0, np.log10(episodes), points)
    return np.unique(np.append(np.round(spread), episodes).astype(np.int64))

"""The three tables that the paper on heavy-tailed rewards counts; its recipes differ in where rewards are truncated.

Noise of rewards is proportional to the threshold of each user, so rewards are measured in units of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from discreet.base.shape import Shape
from discreet.mechanisms.counts.encoder import ALL_THREE, Cells, LaidOut, Statistic
from discreet.mechanisms.counts.layouts import Tables
from discreet.privacy.sensitivity import Sensitivity


@dataclass(frozen=True)
class PrintedTables(LaidOut):
    """The three tables of the paper: visits, transitions, and sums of truncated rewards."""

    shape: Shape
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    @property
    def rounded(self) -> bool:
        """Reward sums are not whole numbers."""
        return False

    @property
    def layout(self) -> Tables:
        """Three tables, transitions row by row."""
        return Tables(self.shape, by_successor=False)

    @property
    def rows(self) -> int:
        """How many (group, state, action) there are."""
        return self.layout.rows

    @property
    def counts(self) -> int:
        """How many cells are counts, visits first; the reward sums follow them."""
        return self.layout.counts

    def alike(self, user: int) -> int:
        """Every user has a threshold of her own."""
        return 1

    def sensitivity(self) -> Sensitivity:
        """What one user moves in her own vector: two visits, two transitions and rewards of two thresholds a step."""
        H = self.shape.horizon
        return Sensitivity(l1=6 * H, l2=12**0.5 * H, linf=2 * H)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Reward sums in units of the declared range of means."""
        marginals, tau = self.layout.marginals(cells), self.shape.rewards[1]
        visits, (rewards, one) = marginals["visits"].values, marginals["rewards"]
        return marginals | {"rewards": Statistic((rewards + tau * visits) / (2 * tau), one)}

r"""Rows of outcomes as a release shows them: visits, centred sums and their spread, with the noise in each.

r = 2 share - 1 in [-1, 1] is the place of a reward in its declared range. A release has visits n and rewards R as
shares, so 2 R - n is the sum of r; its noise is independent of that of n (or uncorrelated with it, where both are sums
and differences of bits), of variance 4 Var R - Var n. With slacks q = sum of 1 - r^2 the spread of a row is

    v = 1 - q / n - m^2,   m = (2 R - n) / n,

drawn towards that of all rows as far as its noise demands; the common one is taken a deviation of its noise larger,
because a spread that noise made too small makes everything look surer than it is. Where rewards are bits v = 1 - m^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from discreet.base.types import Floats
from discreet.worlds.planning.shrinkage import shares_kept, spread_of_rows

_LEAST = 2.0**-22  # the variance of rounding to a grid of 1 / 1024, at most


class Outcomes(NamedTuple):
    """Rows: visits, sums of r, slacks (NaN where rewards are bits), and the variances of their noise."""

    visits: Floats
    visit_noise: Floats
    sums: Floats
    sum_noise: Floats
    slacks: Floats
    slack_noise: Floats

    def added(self, axis: int) -> Outcomes:
        """The rows of all actions together."""
        return Outcomes(*(table.sum(axis=axis) for table in self))

    @property
    def counted(self) -> Floats:
        """Visits that can be divided by."""
        return np.maximum(self.visits, np.maximum(1.0, 0.5 * np.sqrt(self.visit_noise)))

    @property
    def means(self) -> Floats:
        """The mean of r in every row, as the noise left it, but within its range."""
        return np.clip(self.sums / self.counted, -1.0, 1.0)

    def mean_noise(self, at: Floats) -> Floats:
        """The variance of the noise in a mean that is about ``at``."""
        return (self.sum_noise + at**2 * self.visit_noise) / self.counted**2

    def spread(self) -> Floats:
        """The variance of r in every row."""
        n, m = self.counted, self.means
        if np.isnan(self.slacks).any():
            return np.maximum(1 - m**2, 1 / (1 + n))
        share = self.slacks / n
        noise = (self.slack_noise + share**2 * self.visit_noise) / n**2 + 4 * m**2 * self.mean_noise(m)
        own, weights = 1 - share - m**2, n / n.sum()
        common = float(np.clip((weights * own).sum() + np.sqrt((weights**2 * noise).sum()), _LEAST, 1.0))
        errors = noise + 2 * common**2 / n
        kept = shares_kept(spread_of_rows(((own - common) ** 2).ravel(), errors.ravel(), 1.0), errors, n > 1)
        return np.clip(common + kept * (own - common), np.maximum(common / 4, _LEAST), 1.0)


def outcomes_of(statistics: Mapping[str, tuple[Floats, Floats]], rows: tuple[int, ...]) -> Outcomes:
    """The rows (groups, states, actions) of a release with visits and rewards."""
    found = {name: statistics[name] for name in ("visits", "rewards", "slacks") if name in statistics}
    values = {name: estimate[0].reshape(rows) for name, estimate in found.items()}
    noise = {name: np.broadcast_to(estimate[1], rows) for name, estimate in found.items()}
    sums = 2 * values["rewards"] - values["visits"]
    nothing = np.full(rows, np.nan)
    return Outcomes(
        values["visits"], noise["visits"], sums, np.maximum(4 * noise["rewards"] - noise["visits"], 0.0),
        values.get("slacks", nothing), noise.get("slacks", nothing),
    )  # fmt: skip

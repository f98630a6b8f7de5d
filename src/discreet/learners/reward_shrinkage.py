r"""Rows that noise made look bad are taken to be about as good as others, as far as their noise allows.

Where every block has noise of its own, a row (state, action) that nobody plays keeps the draw that it had when somebody
did. With more than two actions one of them is the unluckiest: its reward looks far worse than any other in the world,
the plan never asks again, and the run ends with a bad policy (lock-in). More optimism for all rows would be dear. But
what a row with much noise is worth is better guessed by what rows are worth in this world than by its own draw. With N
and R its released visits and rewards, n = max(1, N), x = R / n, r = x within [0, 1], and sd_n, sd_r the deviations of
noise,

    v        = (sd_r^2 + r^2 sd_n^2) / n^2                                  the variance of the noise in r
    e^2      = (sd_r^2 + sd_n^2 / 4) / n^2 + 1 / (4 n)                      of noise and chance, for r = 1/2
    m, T     = mean and variance of rewards over rows: m = sum of w x / sum of w,  w = 1 / (T + e^2),
               T = sum of w^2 ((x - m)^2 - e^2) / sum of w^2, at least 1e-4
    r'       = max(r, (T r + v m) / (T + v))                                in place of r

over all rows that were seen (N >= 1/2 + sd_n). The second number is the mean of the posterior if rewards are draws with
mean m and variance T (empirical Bayes). Only what looks bad is lifted: what looks good is played, and corrects itself.
With two actions nothing is gained (a plan asks about the other one soon enough), nor where noise comes from prefix
sums, where undecided actions are played side by side (:mod:`discreet.learners.soft_greedy`), nor with laws per step,
where rows borrow from other steps (:mod:`discreet.learners.partial_pooling`). What is recommended in the end is planned
from the release as it is.

**Formal guarantees.** Post-processing of a release.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.mechanisms.release import Release

_FIRST, _LEAST = 0.08, 1e-4  # T: where its search begins (rewards anywhere in their range), and at least
_ROUNDS = 30


def lifted(shape: Shape, release: Release) -> Release:
    """The release with the rewards of unlucky rows lifted; as it is where that brings nothing."""
    adds_up = release.mixing is not None and not release.noise_lasts
    if not adds_up or not shape.homogeneous or shape.horizon == 1 or shape.actions < 3:
        return release
    visits, rewards = release["visits"], release["rewards"]
    n = np.maximum(1.0, visits.values)
    average, seen = rewards.values / n, visits.values >= 0.5 + np.sqrt(visits.variance)
    if np.count_nonzero(seen) < 2:
        return release
    errors = (rewards.variance + 0.25 * visits.variance) / n**2 + 0.25 / n
    mean, spread = rewards_of_rows(average, errors, seen)
    r = np.clip(average, 0.0, 1.0)
    noise = (rewards.variance + r**2 * visits.variance) / n**2
    likely = (spread * r + noise * mean) / (spread + noise)
    values = np.where(seen & (likely > r), n * likely, rewards.values)
    return replace(release, statistics={**release.statistics, "rewards": rewards._replace(values=values)})


def rewards_of_rows(average: Floats, errors: Floats, seen: Mask) -> tuple[float, float]:
    """m and T: mean and variance of what seen rows are worth, by averages with squared errors ``errors``."""
    x, squares, spread, mean = average[seen], errors[seen], _FIRST, 0.5
    for _ in range(_ROUNDS):
        weights = 1 / (spread + squares)
        mean = float(weights @ x / weights.sum())
        found = float(weights**2 @ ((x - mean) ** 2 - squares) / (weights**2).sum())
        spread = max(_LEAST, found)
    return min(1.0, max(0.0, mean)), spread

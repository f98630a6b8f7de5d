r"""Rows whose reward is hardly known are worth another look, whatever their first one showed.

A row (state, action) counts as seen once its visits stand out of their noise. The noise in its reward may still be
two thirds of the whole range, and a single unlucky draw makes the best row of a world look worthless: the plan never
comes back. To believe all rows less would be dear, so this is about the rows of which least is known. With N and R the
visits and rewards of a row that was seen, n = max(1, N), r = R / n within [0, 1], and sd_n, sd_r the deviations of
noise,

    v        = (sd_r^2 + r^2 sd_n^2) / n^2                  the variance of the noise in r
    x        = v^2 / (v^2 + 0.3^2)
    r'       = r + x max(0, 0.7 - r)                        in place of r, for a plan that explores

A deviation of .6 gives x = .59, of .3 x = .08, of .1 x = .001. Successors stay as they were told, which is what makes
this cheaper than to call such rows unseen. What is recommended in the end is planned from the release as it is.

It is for worlds with two actions, and for releases that :mod:`discreet.learners.visit_posterior` is for. With more
actions unlucky rows are lifted already (:mod:`discreet.learners.reward_shrinkage`), and both together cost more than
they save; elsewhere there is less noise in a row (docs/decisions/0015-rows-that-few-users-meet.md).

**Formal guarantees.** Post-processing of a release.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreet.base.shape import Shape
from discreet.learners.visit_posterior import counts_rare_rows
from discreet.mechanisms.release import Release

_KNOWN = 0.3  # the variance of the noise in a reward at which half of it is believed
_WORTH = 0.7  # what a row counts for that nothing is known of


def worth_a_look(shape: Shape, release: Release) -> Release:
    """The release with rewards r'."""
    if shape.actions > 2 or not counts_rare_rows(shape, release):
        return release
    visits, rewards = release["visits"], release["rewards"]
    n = np.maximum(1.0, visits.values)
    r = np.clip(rewards.values / n, 0.0, 1.0)
    noise = (rewards.variance + r**2 * visits.variance) / n**2
    unknown = noise**2 / (noise**2 + _KNOWN**2)
    seen = visits.values >= 0.5 + np.sqrt(visits.variance)
    values = np.where(seen & (r < _WORTH), n * (r + unknown * (_WORTH - r)), rewards.values)
    return replace(release, statistics={**release.statistics, "rewards": rewards._replace(values=values)})

r"""How often a row was visited: by its own count, and by what the policies of all blocks should have brought there.

A row (state, action) that few users meet has a count N that is mostly noise. But policies are public, and the estimated
world says how often those who follow them come to a row: E, the expected visits that blocks are weighed by
(:mod:`discreet.learners.block_history`). E rests on the counts of the way there, which more users went, so of a rare
row it is known far better than N: in a chain of seven states, with 100 true visits of a row at its end, two runs were
told 400 and 231, both ± 226, where E was 105 and 113. With sd the deviation of the noise in N,

    s^2      = (0.3 E)^2 + (sd / 2)^2                       by how much E may be wrong
    N'       = (s^2 N + sd^2 E) / (s^2 + sd^2)              in place of N

is the mean of both by how well they are known. It makes two mistakes rarer: that noise alone makes a row *seen*
(N >= 1/2 + sd), whose reward is then believed though it is nothing but noise, and that a row which users do visit
counts as unseen. What is said about the noise in N stays as it is, because it hides the row's other counts.

**Records that end early** have fewer than H steps, which E does not know. So E is multiplied by the share of all steps
that users had, min(1, (sum of N + 3 deviations) / (users H)) over the release as it came: 1 where nobody ends early.

This is for steps that are pooled, where every block has noise of its own, and where every visit counts: E is about all
visits, and of first visits there are fewer. With laws per step nothing was gained
(docs/decisions/0015-rows-that-few-users-meet.md).

**Formal guarantees.** Post-processing of releases and of public policies.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.mechanisms.release import Release

_SURE = 3.0  # deviations of noise by which all visits must fall short before records are taken to end early
_OFF, _OFF_BY_NOISE = 0.3, 0.5  # of E, and of a deviation of the noise in N: by how much E may be wrong


def with_likely_visits(shape: Shape, release: Release, expected: Floats) -> Release:
    """The release with N' for its visits, given E (group, state, action); as it is where E says nothing about N."""
    if not counts_rare_rows(shape, release):
        return release
    visits = release["visits"]
    off = (_OFF * expected) ** 2 + _OFF_BY_NOISE**2 * visits.variance
    both = off + visits.variance
    share = np.divide(off, both, out=np.ones_like(off), where=both > 0)
    likely = share * visits.values + (1.0 - share) * expected
    return replace(release, statistics={**release.statistics, "visits": visits._replace(values=likely)})


def steps_had(shape: Shape, raw: Release) -> float:
    """The share of all steps that users had, at most, by a release as it came: less than 1 if records end early."""
    visits = raw["visits"]
    most = visits.values.sum() + _SURE * np.sqrt(visits.variance.sum())
    return float(np.clip(most / (raw.users * shape.horizon), 0.0, 1.0)) if raw.users else 1.0


def counts_rare_rows(shape: Shape, release: Release) -> bool:
    """Whether every visit counts, all steps together, with noise of its own for every block."""
    adds_up = release.mixing is not None and not release.noise_lasts
    return adds_up and shape.homogeneous and shape.horizon > 1 and not release.first_visits

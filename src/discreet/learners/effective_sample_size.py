"""Answers of few users: how much UCBVI, PSRL and UCBPO believe each of them.

Where every user is asked about one row (state, action) only (:mod:`discreet.mechanisms.counts.first_visit_question`), a
release counts answers: with 20,000 users and 6 states a few hundred for each row, where all visits of all users would
be a hundred times as many. Widths that are right for that many visits let nobody finish exploring with that few
answers. So an answer, and the deviation of its noise, counts as four visits: chance is taken to be half as wide as it
is, and noise as wide as it is. Less and one goes on trying what is known to be bad, more and two unlucky answers are
believed for ever (docs/decisions/0011-one-question-to-each-user.md).

**Formal guarantees.** Post-processing of releases. It is a heuristic: learners with bounds of their own (OBI) count
answers as they are, and the bounds that a release states (``width``, ``radius``) stay those of the answers.
"""

from __future__ import annotations

from dataclasses import replace

from discreet.mechanisms.release import Estimate, Release

BELIEVED = 4.0  # visits that an answer counts as


def believed(release: Release) -> Release:
    """The release with answers counted as visits; as it is, if it counts visits."""
    if not release.answers:
        return release
    counts = {
        name: Estimate(BELIEVED * values, BELIEVED**2 * variance)
        for name, (values, variance) in release.statistics.items()
    }
    return replace(release, statistics=counts, answers=False)

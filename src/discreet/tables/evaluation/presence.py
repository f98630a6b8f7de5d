"""How many users a released table holds, by its own noisy numbers: post-processing, at no cost.

Every user who is counted at all has a row at the first step (where steps are pooled: one row at least). So the noisy
total of these rows, with the deviation of its noise, says whether anybody is in the table, and whether users are
missing whom it should hold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from discreet.base.shape import Shape
from discreet.mechanisms.release import Release

_DEVIATIONS = 3.0
DECLARATIONS = (
    "first step; states and actions: 4 means 0 to 3, and labels such as 1,2,3,4 are listed; horizon, early end; dates"
)


class Presence(NamedTuple):
    """The noisy total of users in a table, the deviation of its noise, and how many should be in it."""

    total: float
    deviation: float
    users: int

    @property
    def may_be_empty(self) -> bool:
        """Whether noise explains the total if nobody is there, and does not if everybody is.

        Where it explains both, there are too few users for this epsilon, and nothing speaks against the declarations.
        """
        return self.total <= _DEVIATIONS * self.deviation and self.falls_short

    @property
    def falls_short(self) -> bool:
        """Whether noise does not explain that so few are there."""
        return self.total < self.users - _DEVIATIONS * self.deviation

    def words(self, are: str = "are in the released table") -> str:
        """The total as people read it, with three deviations.

        >>> Presence(3.2, 10.0, 2139).words()
        'about 3 ± 30 of 2,139 users are in the released table'
        """
        about = max(round(self.total), 0)
        return f"about {about:,} ± {_DEVIATIONS * self.deviation:,.0f} of {self.users:,} users {are}"


def presence_of(shape: Shape, release: Release, users: int, every_step: bool = False) -> Presence:
    """Who is in a table; with ``every_step`` the step with the fewest, where every user should have all of them.

    A sparse release shows nobody below its threshold, which counts as its deviation. In a release of moments the
    trace is at most the number of users.
    """
    if "matrix" in release.statistics:
        matrix = release["matrix"]
        size = matrix.values.shape[-1]
        own = np.diagonal(np.broadcast_to(matrix.variance, matrix.values.shape), axis1=-2, axis2=-1)
        return Presence(float(np.trace(matrix.values.reshape(size, size))), float(np.sqrt(own.sum())), users)
    visits = release["visits"].values.reshape(shape.groups, -1)
    if "threshold" in release.statistics:
        return Presence(float(visits[0].sum()), float(release["threshold"].values[0]), users)
    variance = np.broadcast_to(release["visits"].variance, release["visits"].values.shape).reshape(visits.shape)
    totals = visits.sum(axis=1)
    group = int(totals.argmin()) if every_step and not shape.homogeneous else 0
    return Presence(float(totals[group]), float(np.sqrt(variance[group].sum())), users)


def present_facts(shape: Shape, release: Release, users: int, per_user: int) -> dict[str, Any] | None:
    """What is in a table, in numbers and in words: records (rows at the first step) and counted steps, with deviations.

    None where a release does not tell: below a threshold nobody is shown, and moments have no counts.
    """
    if {"matrix", "threshold"} & set(release.statistics):
        return None
    first, visits = presence_of(shape, release, users), release["visits"]
    noise = float(np.sqrt(np.broadcast_to(visits.variance, visits.values.shape).sum()))
    steps = Presence(float(visits.values.sum()), noise, users)
    told = shape.horizon == 1 or not shape.homogeneous  # where steps are pooled nothing says which rows begin a record
    counted = "steps, of a user's rows with one state and action the first," if release.first_visits else "steps"
    within = f"about {max(round(steps.total), 0):,} ± {_DEVIATIONS * noise:,.0f} {counted} are in the released table"
    if told and per_user == 1:
        within = f"{first.words()}, with {max(round(steps.total), 0):,} ± {_DEVIATIONS * noise:,.0f} steps"
    short = f"; these are too few for {users:,} users: check the declarations ({DECLARATIONS})"
    return {
        "records": first.total if told else None,
        "records_deviation": first.deviation if told else None,
        "steps": steps.total,
        "steps_deviation": noise,
        "meaning": within + (short if first.falls_short else ""),
    }

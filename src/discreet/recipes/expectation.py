r"""What a recipe is expected to cost in regret, from public numbers alone: how "auto" compares recipes and blocks.

Regret is foretold as a share of what uniform play would cost. Let block b (from 0) have n_b users, after k_b users in
earlier blocks, and let V_b be the variance of the noise that all counts of one row (state, action) carry by then, if
the row was asked about every time. A user visits a row that her policy plays f times, and there are A actions to try:

    e_b    = ACCURACY sqrt(V_b + f k_b) / (f k_b)             what noise and sampling leave unknown before block b
    share  = sum over b of n_b / K * (1 while b < A, then min(1, e_b))

The first term of the sum makes long blocks dear, because a policy that turns out to be bad is followed for a whole
block; the second one makes many blocks dear, because every block brings its own noise. Prefix sums with correlated noise
carry little more of it after many blocks than after few, and the noise of users who add it themselves does not depend
on blocks at all; so all kinds of recipes are compared by one formula.

f is what a policy that visits all states alike would have: H / S counts of every visit, 1 - (1 - 1/S)^H first visits,
1 / S where every step has counts of its own.

**What this is not.** No bound: worlds that are hard to explore cost more than this says, easy ones less. The constant
was chosen on worlds of a few states (docs/decisions/0005-auto-expects-regret.md). ``discreet.rehearse`` measures what
this formula guesses.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from discreet.channels.base import AnyChannel, counts_per_row
from discreet.channels.continual import ContinualChannel
from discreet.channels.schedule import Equal, Schedule, sizes
from discreet.channels.session import Privatizer
from discreet.encoders.first_visit import FirstVisit, FirstVisitTables
from discreet.shape import Shape
from discreet.types import Floats

ACCURACY = 1.5

NoiseAfter = Callable[[Floats, Floats], Floats]  # variance in a row's counts after so many releases and users


def noise_of(privatizer: Privatizer, episodes: int = 0) -> float:
    """The noise variance in all counts of one (state, action) of one release."""
    return sum(channel.noise_per_row() for channel in privatizer.channels)


def expected_regret(privatizer: Privatizer, episodes: int) -> float:
    """The regret that this privatizer is expected to leave, as a share of the regret of uniform play."""
    first_visits = any(isinstance(channel.encoder, FirstVisit | FirstVisitTables) for channel in privatizer.channels)
    noises = [noise_after(channel) for channel in privatizer.channels]
    return expected_share(
        privatizer.shape,
        sizes(privatizer.schedule, episodes),
        lambda releases, users: np.asarray(sum(noise(releases, users) for noise in noises)),
        visits_per_user(privatizer.shape, first_visits),
    )


def expected_share(shape: Shape, blocks: list[int], noise: NoiseAfter, visits: float) -> float:
    """The formula of this module."""
    served = np.cumsum(blocks)
    total, before = served[-1], np.concatenate([[0], served[:-1]]).astype(np.float64)
    releases = np.arange(len(blocks), dtype=np.float64)
    seen = np.maximum(visits * before, 1e-9)
    unknown = ACCURACY * np.sqrt(noise(releases, before) + seen) / seen
    unknown[: shape.actions] = 1.0
    return float(np.asarray(blocks) @ np.minimum(unknown, 1.0) / total)


def visits_per_user(shape: Shape, first_visits: bool) -> float:
    """How often a user counts in a row that her policy plays, if all states are visited alike."""
    if not shape.homogeneous:
        return 1.0 / shape.states
    if first_visits:
        return 1.0 - (1.0 - 1.0 / shape.states) ** shape.horizon
    return shape.horizon / shape.states


def noise_after(channel: AnyChannel) -> NoiseAfter:
    """How the noise in a row's counts grows with releases and users."""
    if isinstance(channel, ContinualChannel):
        unit = channel.law.variance * counts_per_row(channel.encoder)
        errors = channel.accumulator.errors()
        return lambda releases, _users: unit * errors[np.minimum(releases.astype(np.int64), len(errors) - 1)]
    unit = channel.noise_per_row()
    if len(channel.shortcut([1, 1, 1])) < 3:  # users add it: blocks do not matter
        return lambda _releases, users: unit * users
    return lambda releases, _users: unit * releases

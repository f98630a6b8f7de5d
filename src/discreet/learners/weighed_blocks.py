r"""Blocks weighed by how much they can tell about a row, where every block adds noise of its own.

Releases of recipes with blocks are plain sums. A block adds the same noise to all rows (state, action) that its policy
may play, however few of its users come there: after many blocks the sum of a row that one block visited is mostly the
noise of the others. What a block brought is the difference of two releases, so a learner may add blocks with weights
instead. For a row with n expected visits in a block, and variance v of the noise in its visits there, the weight is

    w = n / (n / 2 + v),

which is in proportion to the inverse variance of what the block tells about the row (chance n / 2, noise v, signal n).
With w_max the largest weight so far, the row's counts are sums of w / w_max times those of the blocks, and the variance
of their noise is the sum of (w / w_max)^2 v: as counts of fewer visits with far less noise. Where all blocks tell the
same, or nothing is noisy, these are the plain sums.

**Expected visits** are those of the block's public policy in the estimated world: start in the declared state, or where
visits exceed arrivals (transitions of the last step are not counted, so what is left are starts), then go along the
counts that stand out of the noise by 1.5 deviations, with 0.3 deviations of a row's visits spread over all states for
what is not known.
They are computed twice: by what was known before the block, and again with the block in it. So a row's weight hardly
depends on its own noise, and a first block is not weighed blindly.

**Formal guarantees.** Post-processing of releases and of public policies. Bounds on the noise that a release states
(``width``, ``radius``) are about plain sums: learners with bounds of their own do not weigh.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from discreet.planning.backward import occupancy
from discreet.policies import AnyPolicy
from discreet.release import Estimate, Release
from discreet.shape import Shape
from discreet.types import Floats

COUNTS = ("visits", "transitions", "rewards")
_CHANCE = 0.5  # of the visits of a row: the variance by chance in what is counted there
_CUT = 1.5  # deviations of noise by which a successor must stand out
_UNKNOWN = 0.3  # deviations of noise in the visits of a row that may have led anywhere
_ELSEWHERE = 0.1  # of all users may start anywhere
_TINY = 1e-9  # visits; nothing is divided by less


class Books(NamedTuple):
    """What blocks have told so far: sums with weights, the largest weight, and the last release as it came."""

    raw: Release
    sums: dict[str, Estimate]  # weighted counts (group, state, action[, successor]) and the variance of their noise
    largest: Floats  # (group, state, action)


def weigh(books: Books | None, release: Release, policy: AnyPolicy, shape: Shape) -> tuple[Release, Books | None]:
    """The release with its blocks weighed, the last of which followed ``policy``; as it is where noise does not add."""
    if not release.noise_adds or shape.horizon == 1 or release.statistics.keys() != set(COUNTS):
        return release, None
    users = release.users - (books.raw.users if books is not None else 0)
    rows = (shape.groups, shape.states, shape.actions)
    if books is None:
        visits = np.full(rows, users * shape.horizon / np.prod(rows))
    else:
        visits = users * expected_visits(weighed(books), books.raw, policy, shape)
    first = _with_block(books, release, visits)
    visits = users * expected_visits(weighed(first), release, policy, shape)
    books = _with_block(books, release, visits)
    return weighed(books), books


def weighed(books: Books) -> Release:
    """The last release with weighted sums in place of its plain ones, in units of visits in the best block."""
    share = np.divide(1.0, books.largest, out=np.zeros_like(books.largest), where=books.largest > 0)
    counts = {
        name: Estimate(_along(share, sums.values) * sums.values, share**2 * sums.variance)
        for name, sums in books.sums.items()
    }
    return replace(books.raw, statistics=counts)


def _with_block(books: Books | None, release: Release, visits: Floats) -> Books:
    """The books with the block that this release adds, whose rows have so many expected visits."""
    fresh = {name: _brought(books, release, name) for name in COUNTS}
    weight = visits / np.maximum(_TINY, _CHANCE * visits + fresh["visits"].variance)
    sums = {}
    for name, (values, variance) in fresh.items():
        before = books.sums[name] if books is not None else Estimate(np.zeros(1), np.zeros(1))
        sums[name] = Estimate(before.values + _along(weight, values) * values, before.variance + weight**2 * variance)
    return Books(release, sums, weight if books is None else np.maximum(books.largest, weight))


def _brought(books: Books | None, release: Release, name: str) -> Estimate:
    """What the last block added to a statistic, and the variance of its noise."""
    now = release[name]
    if books is None:
        return now
    before = books.raw[name]
    return Estimate(now.values - before.values, np.maximum(0.0, now.variance - before.variance))


def _along(row: Floats, values: Floats) -> Floats:
    """A number for each row, with an axis for successors where the values have one."""
    return row[..., None] if values.ndim > row.ndim else row


def expected_visits(known: Release, raw: Release, policy: AnyPolicy, shape: Shape) -> Floats:
    """How often a user visits each (group, state, action) under the policy, as far as is known."""
    moves, noise = known["transitions"].values, np.sqrt(known["transitions"].variance)
    weights = np.maximum(0.0, moves - _CUT * noise[..., None])
    anywhere = _UNKNOWN * np.sqrt(known["visits"].variance) + _TINY
    successors = weights + anywhere[..., None] / shape.states
    successors /= (weights.sum(-1) + anywhere)[..., None]
    visits = occupancy(successors, _start(raw, shape), policy)
    return visits if shape.groups > 1 else visits.sum(0, keepdims=True)


def _start(raw: Release, shape: Shape) -> Floats:
    """Where users start, if that is public; else visits that are not arrivals, less a deviation of noise."""
    if shape.start is not None:
        start: Floats = np.zeros(shape.states)
        start[shape.start] = 1.0
        return start
    visits, moves = raw["visits"], raw["transitions"]
    came = visits.values[0].sum(-1)
    variance = visits.variance[0].sum(-1)
    if shape.groups == 1:
        came = came - moves.values[0].sum((0, 1))
        variance = variance + moves.variance[0].sum()
    starts = np.maximum(0.0, came - np.sqrt(variance))
    total = starts.sum()
    likely = starts / total if total > 0 else np.full(shape.states, 1.0 / shape.states)
    return (1.0 - _ELSEWHERE) * likely + _ELSEWHERE / shape.states

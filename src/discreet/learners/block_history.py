r"""Blocks weighed by how much they can tell about a row, where every block has noise of its own.

A block gets the same noise in all rows (state, action) that its policy may play, however few of its users come there:
in a plain sum over blocks a row that one block visited is mostly the noise of the others. What blocks told can be
recovered from releases, so a learner may add it up with weights instead.

**Plain sums.** What a block brought is the difference x of two releases. For a row with n expected visits in the block,
and variance v of the noise in its visits there, the weight is

    w = n / (n / 2 + v),

which is in proportion to the inverse variance of what the block tells about the row (chance n / 2, noise v, signal n).

**Prefix sums by the matrix mechanism** (:mod:`discreet.mechanisms.sums.matrix`). There noise of its own was added to
y_t = x_t + sum over j of c_j x_(t - j): blocks that were mixed, t the releases that asked about the row. Differences of
releases give y back, by the recurrence that mixed the counts. A row with visits n_1, n_2, ... has the signal
m_t = n_t + sum over j of c_j n_(t - j) in y_t, so y_t has the weight m / (m / 2 + v). But for chance this is
generalised least squares: no other linear estimate of a row's law has less noise. A row that a single block visited
shows in all later y, so in the end its noise is what a plain block would have had, and with many visits it is far less.
The prefix sums themselves carry the noise of all of their releases, however few of them tell about the row.

**Units.** With N the expected visits of a row so far and P the sum of w m (w n in plain sums), its counts are N / P
times its weighted sums: as counts of all of its visits, with less noise. Where all blocks tell the same, or nothing is
noisy, plain sums stay what they are.

**Expected visits** are those of the block's public policy in the estimated world: start in the declared state, or where
visits exceed arrivals (transitions of the last step are not counted, so what is left are starts), then go along the
counts that stand out of the noise by 1.5 deviations, with 0.3 deviations of a row's visits spread over all states for
what is not known. They are computed twice: by what was known before the block, and again with the block in it. So a
row's weight hardly depends on its own noise, and a first block is not weighed blindly.

**Formal guarantees.** Post-processing of releases and of public policies. Bounds on the noise that a release states
(``width``, ``radius``) are about its own sums: learners with bounds of their own do not weigh.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from discreet.base.policies import AnyPolicy
from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask, NDArray
from discreet.mechanisms.release import Estimate, MixedBlocks, Release
from discreet.worlds.planning.backward_induction import occupancy

COUNTS = ("visits", "transitions", "rewards")
EXPECTED = "expected"
_CHANCE = 0.5  # of the visits of a row: the variance by chance in what is counted there
_CUT = 1.5  # deviations of noise by which a successor must stand out
_UNKNOWN = 0.3  # deviations of noise in the visits of a row that may have led anywhere
_ELSEWHERE = 0.1  # of all users may start anywhere
_TINY = 1e-9  # visits; nothing is divided by less


class Books(NamedTuple):
    """What blocks have told so far: the last release as it came, and sums with weights."""

    raw: Release
    sums: dict[str, Estimate]  # weighted counts (group, state, action[, successor]) and the variance of their noise
    expected: Floats  # N (group, state, action)
    told: Floats  # P
    past: dict[str, Floats]  # (terms, ...): what blocks brought of each count, and "expected" visits, as they are mixed


def weigh(books: Books | None, release: Release, policy: AnyPolicy, shape: Shape) -> tuple[Release, Books | None]:
    """The release with its blocks weighed, the last of which followed ``policy``; as it is where it does not tell."""
    if release.mixing is None or shape.horizon == 1 or release.statistics.keys() != set(COUNTS):
        return release, None
    mixing = release.mixing
    if books is None:
        books = _empty(release, mixing)
        visits = np.full_like(books.told, release.users * shape.horizon / books.told.size)
    else:
        visits = (release.users - books.raw.users) * expected_visits(weighed(books), books.raw, policy, shape)
    news = _news(books, release, mixing)
    guess = weighed(_with_block(books, release, news, visits, mixing))
    visits = (release.users - books.raw.users) * expected_visits(guess, release, policy, shape)
    books = _with_block(books, release, news, visits, mixing)
    return weighed(books), books


def weighed(books: Books) -> Release:
    """The last release with weighted sums in place of its own, in units of all visits."""
    share = np.divide(books.expected, books.told, out=np.zeros_like(books.told), where=books.told > 0)
    counts = {
        name: Estimate(_along(share, sums.values) * sums.values, share**2 * sums.variance)
        for name, sums in books.sums.items()
    }
    return replace(books.raw, statistics=counts)


class _News(NamedTuple):
    """What the last block told about each row: published counts with noise of their own, and blocks as mixed so far."""

    asked: Mask  # (group, state, action): rows that the release has news about
    counts: dict[str, Estimate]  # y, and the variance v of its noise
    past: dict[str, Floats]


def _news(books: Books, release: Release, mixing: MixedBlocks) -> _News:
    """Published counts from what the release changed."""
    before, counts, past = books.raw, {}, {}
    asked = (release["visits"].variance > before["visits"].variance) | (
        release["visits"].values != before["visits"].values
    )
    for name in COUNTS:
        now, then = release[name], before[name]
        noise = mixing.noise.get(name, np.maximum(0.0, now.variance - then.variance))
        mixed, past[name] = _mixed(books.past[name], now.values - then.values, asked, mixing)
        counts[name] = Estimate(mixed, np.where(asked, noise, 0.0))
    return _News(asked, counts, past)


def _mixed(past: Floats, block: Floats, asked: Mask, mixing: MixedBlocks) -> tuple[Floats, Floats]:
    """A block mixed with those before it, and what the next is mixed with; a row that is not asked stands still."""
    rows = _along(asked, block)
    decays = mixing.decays.reshape(-1, *(1,) * block.ndim)
    mixed = block + np.tensordot(mixing.weights, past, 1)
    return np.where(rows, mixed, 0.0), np.where(rows, decays * (past + block), past)


def _with_block(books: Books, release: Release, news: _News, visits: Floats, mixing: MixedBlocks) -> Books:
    """The books with the block that this release adds, whose rows have so many expected visits."""
    visits = np.where(news.asked, visits, 0.0)
    signal, past = _mixed(books.past[EXPECTED], visits, news.asked, mixing)
    weight = signal / np.maximum(_TINY, _CHANCE * signal + news.counts["visits"].variance)
    sums = {}
    for name, (values, variance) in news.counts.items():
        before = books.sums[name]
        sums[name] = Estimate(before.values + _along(weight, values) * values, before.variance + weight**2 * variance)
    told = books.told + weight * signal
    return Books(release, sums, books.expected + visits, told, {**news.past, EXPECTED: past})


def _empty(release: Release, mixing: MixedBlocks) -> Books:
    """The books before the first block."""
    none = {name: Estimate(0.0 * release[name].values, np.zeros(release["visits"].values.shape)) for name in COUNTS}
    row, terms = none["visits"].values, len(mixing.decays)
    past = {name: np.zeros((terms, *sums.values.shape)) for name, sums in none.items()}
    past[EXPECTED] = np.zeros((terms, *row.shape))
    return Books(replace(release, statistics=none, users=0), none, row, row, past)


def _along(row: NDArray[Any], values: Floats) -> NDArray[Any]:
    """An entry for each row, with an axis for successors where the values have one."""
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

r"""The channel of clipped rewards: counts and reward sums of the same users, and thresholds that look at nobody.

Thresholds lie on a grid B_0 < B_1 < ..., and the threshold of a cell never falls. Two rules say how it rises:

* by the **index** of the user: floor(log2 j) for user j, in all cells alike;
* by **released** counts: after every release the level of a cell c becomes floor(log2 M(c)), with M(c) the largest
  released count of its visits so far, cut to [1, users so far] (in the local model M(c) sqrt(K / j), which the grid
  starts below). A block or a user of a tree is clipped at the levels in force when it opens.

The noise of a reward sum is proportional to the threshold: that of her own time for each user in the local model, that
of the moment when it closes for a node of the tree. The release states both, as its ``public`` tables: ``thresholds``,
and ``clipping_bias``, the most that clipping can have moved the mean of a cell's visits. Since thresholds never fall
that is the mean of the bias over as many *first* users as there were visits, by the released count.

**Formal guarantees.** A user is a fixed response to whatever policy she is shown, and the transcript is the sequence
of all noisy nodes (all noisy reports in the local model). Condition on a prefix of the transcript: policies and levels
are functions of it, so they are the same for two data sets that differ in user k, and every later user contributes the
same to both. Only user k's own contribution differs, in the at most L nodes that hold her. At each step it moves two
counts by one, and reward sums by 2 B(c) in one cell or by B(c) and B(c') in two. A node that closes later has noise of
a threshold at least as large, so in units of each cell's own noise that is at most 2 times epsilon_R / (2 H L). Losses
add up over steps and nodes, and along the transcript, to epsilon_N + epsilon_R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from discreet.base.errors import of_kind
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers
from discreet.mechanisms.counts.encoder import Context, Encoder
from discreet.mechanisms.mechanism import PlainRun, Tabular, WidthOf, counts_per_row, row_shape
from discreet.mechanisms.release import Estimate
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.mechanisms.sums.tree import Tree, next_digit
from discreet.noise.distribution import Law
from discreet.problems.heavy_tails.encoders import ClippedTables, clipping_bias, moments_of

_EXACT, _PER_DOUBLING = 16, 3  # sums of more draws are bounded between numbers that grow by a third of a doubling


class RewardTables(Encoder, Protocol):
    """Counts, followed by one reward sum for each row, of which a public threshold bounds each summand."""

    @property
    def rows(self) -> int:
        """How many reward sums there are."""

    @property
    def counts(self) -> int:
        """How many cells are counts."""

    def threshold(self, user: int) -> float:
        """The threshold that the noise of this user, counted from one, is proportional to."""

    def alike(self, user: int) -> int:
        """How many users, from this one on, have its threshold."""


@dataclass(frozen=True)
class ClippedRewardsChannel(Tabular):
    """Counts and clipped rewards; reward noise is proportional to the threshold of its moment.

    ``tree`` is None where every user adds noise of her own, or nobody any. ``released`` takes thresholds from released
    counts; with ``local`` those count the less the more users have added noise to them.
    """

    encoder: RewardTables
    count_law: Law
    reward_law: Law  # in units of the threshold
    tree: Tree | None
    episodes: int
    released: bool = False
    local: bool = False

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ClippedRewardsRun:
        """Begin a run."""
        return ClippedRewardsRun(self, noise)

    def noise_per_row(self) -> float:
        """Counts, and a reward sum with the largest threshold of the run."""
        counts, tau = counts_per_row(self.encoder), self.encoder.shape.rewards[1]
        rewards = self.reward_law.variance * (self.encoder.threshold(self.episodes) / (2 * tau)) ** 2
        return float(self.count_law.variance * counts + rewards)

    def levels(self, visits: Floats, users: int) -> Integers:
        """The place on the grid of thresholds that released counts of visits are worth after that many users."""
        shape = self.encoder.shape
        counts = np.clip(visits, 1.0, float(users * (shape.horizon if shape.groups == 1 else 1)))
        if self.local:
            counts *= math.sqrt(self.episodes / users)
        return np.asarray(np.frexp(counts)[1] - 1, np.int64)


class ClippedRewardsRun(PlainRun):
    """Noisy sums of one run, the variance of the reward noise in each of them, and the draws of count noise."""

    _channel: ClippedRewardsChannel

    def __init__(self, channel: ClippedRewardsChannel, noise: NoiseSource) -> None:
        self._channel, self._noise = channel, noise
        encoder = channel.encoder
        self._values, self._reward_variance = np.zeros(encoder.size), np.zeros(encoder.rows)
        self._possible = np.flatnonzero(encoder.possible()[: encoder.counts])
        self._draws, self._users = 0, 0
        levels = 0 if channel.tree is None else channel.tree.levels
        self._prefix = np.zeros((levels + 1, encoder.size))
        self._prefix_variance = np.zeros((levels + 1, encoder.rows))
        self._current = levels
        self._rising = RisingThresholds(channel) if isinstance(encoder, ClippedTables) else None

    def encoder_now(self, context: Context) -> RewardTables:
        """What the next users are encoded with: a function of what has been released."""
        return self._channel.encoder if self._rising is None else self._rising.encoder

    @property
    def public(self) -> dict[str, Floats]:
        """The thresholds in force, and how far clipping can have moved a mean."""
        if self._rising is None:
            return {}
        bias = self._rising.bias(self._visits(), self._users)
        tables = {"thresholds": self._thresholds(self._users + 1), "clipping_bias": bias}
        return {name: table.reshape(row_shape(self._channel.encoder.shape)) for name, table in tables.items()}

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Add noise for each of the users, or close a node of the tree; then thresholds may rise."""
        self._values += tally
        if self._channel.tree is None:
            self._noise_of_each(users)
        else:
            self._close_nodes(users)
        if self._rising is not None and self._channel.released:
            self._rising.see(self._visits(), self._users)

    def _thresholds(self, user: int) -> Floats:
        """The threshold of every row for the user with this number."""
        if self._rising is not None and self._channel.released:
            return self._rising.thresholds
        return np.full(self._channel.encoder.rows, self._channel.encoder.threshold(min(user, self._channel.episodes)))

    def _visits(self) -> Floats:
        return self._channel.encoder.marginals(self._values)["visits"].values.reshape(-1)

    def _noise_of_each(self, users: int) -> None:
        encoder, law = self._channel.encoder, self._channel.reward_law
        self._values[self._possible] += self._noise.draw(self._channel.count_law, users, len(self._possible))
        last = self._users + users
        while self._users < last:
            thresholds = self._thresholds(self._users + 1)
            alike = last - self._users
            if not self._channel.released:
                alike = min(alike, encoder.alike(self._users + 1))
            self._values[encoder.counts :] += thresholds * self._noise.draw(law, alike, encoder.rows)
            self._reward_variance += alike * thresholds**2 * law.variance
            self._users += alike
        self._draws += users

    def _close_nodes(self, users: int) -> None:
        """Take in a block, and draw the noise of those nodes of the tree over users that this release is a sum of.

        A release after t users sums the nodes of the binary digits of t. It shares those of the digits above the first
        one in which t differs from the last release; nodes that closed in between and are in no release are not drawn.
        """
        encoder, law = self._channel.encoder, self._channel.reward_law
        last, self._users = self._users, self._users + users
        t, none = self._users, len(self._prefix) - 1
        before = self._prefix[self._current].copy()
        for low in range((t ^ last).bit_length() - 1, -1, -1):
            if not t >> low & 1:
                continue
            above = next_digit(t, low, none)
            # Thresholds never fall, so that of the last user of a node covers everybody in it.
            thresholds = self._thresholds(t >> low << low)
            self._prefix[low] = self._prefix[above]
            self._prefix[low, self._possible] += self._noise.draw(self._channel.count_law, 1, len(self._possible))
            self._prefix[low, encoder.counts :] += thresholds * self._noise.draw(law, 1, encoder.rows)
            self._prefix_variance[low] = self._prefix_variance[above] + thresholds**2 * law.variance
            self._current = low
        self._values += self._prefix[self._current] - before
        self._reward_variance = self._prefix_variance[self._current].copy()
        self._draws = t.bit_count()

    def estimates(self) -> dict[str, Estimate]:
        """Rewards carry the noise of their own thresholds, and some of the counts'."""
        marginals = self._channel.encoder.marginals(self._values)
        tau = self._channel.encoder.shape.rewards[1]
        unit = self._channel.count_law.variance * self._draws
        shape = marginals["visits"].values.shape
        counted = {
            name: Estimate(statistic.values.copy(), np.broadcast_to(unit * statistic.cells, shape).copy())
            for name, statistic in marginals.items()
        }
        rewards = self._reward_variance.reshape(shape) / (4 * tau**2) + counted["visits"].variance / 4
        return {**counted, "rewards": Estimate(marginals["rewards"].values.copy(), rewards)}

    def width_now(self) -> WidthOf:
        """A bound on the noise in counts; for rewards only the variance of the noise is stated."""
        law, draws, shape = self._channel.count_law, self._draws, row_shape(self._channel.encoder.shape)
        return lambda cells_summed, failure_probability: np.full(
            shape, near_quantile(law, draws * cells_summed, failure_probability)
        )


def near_quantile(law: Law, copies: int, tail: float) -> float:
    """The bound on a sum of so many draws, within 0.5% of the exact quantile, from exact ones on a grid.

    Divided by the root of the number of draws it falls slowly and ever more slowly towards that of the normal law, so a
    straight line between two points of the grid (in the logarithm of the number) lies a little above it. Users of the
    local model add noise one by one, and each new number of draws would cost an exact quantile of its own.
    """
    if copies <= _EXACT:
        return float(law.sum_quantile(copies, tail)) if copies > 0 else 0.0
    place = math.floor(_PER_DOUBLING * math.log2(copies / _EXACT))
    low, high = (math.floor(_EXACT * 2 ** ((place + i) / _PER_DOUBLING)) for i in (0, 1))
    at_low, at_high = (float(law.sum_quantile(n, tail)) / math.sqrt(n) for n in (low, high))
    share = math.log(copies / low) / math.log(high / low)
    return math.sqrt(copies) * ((1 - share) * at_low + share * at_high)


class RisingThresholds:
    """Where each row stands on the grid of thresholds, and when it got there."""

    def __init__(self, channel: ClippedRewardsChannel) -> None:
        self._channel, encoder = channel, of_kind(ClippedTables, channel.encoder)
        places, rows = len(encoder.thresholds), encoder.rows
        moments = moments_of(encoder.shape)
        self._grid = np.array(encoder.thresholds)
        self._biases = np.array([clipping_bias(moments, B, encoder.truncated) for B in encoder.thresholds])
        self._levels = np.zeros(rows, np.int64)
        # How many users came before the row reached this place; by index that is known from the start.
        first = np.where(np.arange(places) > 0, channel.episodes, 0) if channel.released else 2 ** np.arange(places) - 1
        self._before = np.repeat(np.minimum(first, channel.episodes)[:, None], rows, axis=1)
        self.encoder = replace(encoder, positions=(0,) * rows) if channel.released else encoder

    @property
    def thresholds(self) -> Floats:
        """The current threshold of every row, which follows from released counts."""
        return np.asarray(self._grid[self._levels])

    def see(self, visits: Floats, users: int) -> None:
        """Raise the thresholds by what was just released."""
        found = np.minimum(self._channel.levels(visits, users), len(self._grid) - 1)
        if (found <= self._levels).all():
            return
        reached = np.arange(len(self._grid))[:, None] <= found
        self._before[reached] = np.minimum(self._before[reached], users)
        self._levels = np.maximum(self._levels, found)
        self.encoder = replace(self.encoder, positions=tuple(self._levels.tolist()))

    def bias(self, visits: Floats, users: int) -> Floats:
        """The mean of the bias over as many first users as could have left these visits."""
        shape = self._channel.encoder.shape
        first = np.clip(visits // (shape.horizon if shape.groups == 1 else 1), 1.0, max(1, users))
        came = np.minimum(self._before, first)
        after = np.vstack([came[1:], first[None]])
        return np.asarray(self._biases @ (after - came) / first)

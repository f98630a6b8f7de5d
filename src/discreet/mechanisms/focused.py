r"""Focused blocks: a block of users answers only for the rows that are worth asking about, with that much less noise.

The noise of a block must hide one user in what is released, and nothing forces all rows (state, action) to be released.
Which rows are is decided before the block, from the public policy and from earlier releases:

* a row that no step of the policy plays is a known zero (policy mask);
* a row whose count already stands far above its noise is known, and is left as it is.

If m rows remain, replacing a user moves at most 3 min(m, 2H) cells (:mod:`discreet.mechanisms.counts.first_visit`), so
the noise of the block is calibrated to m instead of to all S A rows: sqrt(SA / m) times less for Gaussian noise, SA / m
times less for Laplace noise. A row that is not asked about in a block keeps its counts and its noise.

A row is known when its released visits are at least q standard deviations of the noise in its loudest count, with

    q = max(enough, smallest such ratio among playable rows, 1/2 sqrt(t) n / sd)

at block t of n users, sd the noise of a release of all rows: at least ``enough``, never so much that nothing is left to
ask, and rising with what a row that everybody visits could have reached, so that estimates go on improving.

Noise may have invented a transition in a row that is taken for known. A plan that counts on it leads nobody to the rows
that are still asked about, and nothing would ever change. So a block that learned nothing (the visits of its rows that
are played before the last step do not add up to three standard deviations) is followed by one that asks about the known
rows of the policy instead. In that block a row starts anew if its visits alone stand out of their noise more clearly
than together with all that was released of it before.

**Formal guarantees.** Every block is calibrated to the target for the rows that it releases; the guarantee's profile is
the worst over all numbers of rows. Rows are chosen from public things only, every user is in one block, so adaptive
parallel composition and the billboard lemma give joint differential privacy of everything.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from discreet.base.policies import AnyPolicy, Mixture, Policy, StochasticPolicy
from discreet.base.saved_arrays import Saved, nothing_secret
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers, Mask
from discreet.mechanisms.counts.encoder import Context, Encoder, playable_rows
from discreet.mechanisms.mechanism import PlainRun, Tabular, WidthOf, counts_per_row, estimated, row_shape
from discreet.mechanisms.release import Estimate
from discreet.mechanisms.sums.accumulator import NoiseSource, noisy
from discreet.noise.distribution import Law
from discreet.privacy.sensitivity import Sensitivity

_STANDS_OUT = 3.0  # standard deviations: less is noise


class RowEncoder(Encoder, Protocol):
    """An encoder that knows what a user moves when only some of its rows are released."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    def sensitivity(self, rows: int | None = None) -> Sensitivity:
        """What replacing a user moves in that many rows."""


@dataclass(frozen=True)
class FocusedChannel(Tabular):
    """First-visit tables of the rows that are asked about, with noise calibrated to their number.

    ``laws[i]`` is the noise of a release of at most ``rows[i]`` rows.
    """

    encoder: RowEncoder
    rows: tuple[int, ...]
    laws: tuple[Law, ...]
    enough: float = 20.0

    def law_for(self, rows: int) -> Law:
        """The least noise that hides a user in this many rows."""
        return self.laws[bisect.bisect_left(self.rows, rows)]

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> FocusedRun:
        """Begin a run."""
        return FocusedRun(self, shape, noise, masked)

    def noise_per_row(self) -> float:
        """For a release of one row per state, or per step and state, which is what one policy plays."""
        shape = self.encoder.shape
        return float(self.law_for(shape.groups * shape.states).variance * counts_per_row(self.encoder))


class FocusedRun(PlainRun):
    """Released tables, and for each row how much noise of which law it carries."""

    _channel: FocusedChannel

    def __init__(self, channel: FocusedChannel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        self._channel, self._shape, self._noise, self._masked = channel, shape, noise, masked
        self._values = np.zeros(channel.encoder.size)
        # Draws of each law in each cell of a row.
        self._draws = np.zeros((len(channel.laws), *row_shape(shape)), np.int64)
        self._releases, self._learned = 0, True

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in a block: what it says about the rows that are wanted of it, and nothing else."""
        rows = self.wanted(context, users)
        self._releases += 1
        asked = int(np.count_nonzero(rows))
        if asked == 0:
            return
        encoder = self._channel.encoder
        which = bisect.bisect_left(self._channel.rows, asked)
        law, block = self._channel.laws[which], np.zeros(encoder.size)
        where = np.flatnonzero(encoder.rows_to_cells(rows) & encoder.possible())
        block[where] = noisy(tally[where], law, 1, self._noise)
        if not self._learned:
            self._start_anew(rows, block, law)
        self._values += block
        self._draws[which] += rows
        self._learned = not self._masked or self._stands_out(rows & _played_early(self._shape, context), block, law)

    def wanted(self, context: Context, users: int) -> Mask:
        """The rows that the next block answers for: a function of the policy and of earlier releases."""
        if not self._masked:
            return np.ones(self._draws.shape[1:], np.bool_)
        rows = playable_rows(self._shape, context.policy)
        visits = self._visits(self._values)
        deviation = np.sqrt(self._variance() * max(self._channel.cells_per_count().values()))
        ratio = np.divide(visits, deviation, out=np.zeros_like(visits), where=deviation > 0)
        loudest = math.sqrt(self._channel.laws[-1].variance * max(self._channel.cells_per_count().values()))
        reachable = 0.5 * math.sqrt(self._releases + 1) * users / loudest
        known = ratio > max(self._channel.enough, reachable, float(ratio[rows].min(initial=math.inf)))
        return np.asarray(rows & known if not self._learned and (rows & known).any() else rows & ~known)

    def _start_anew(self, rows: Mask, block: Floats, law: Law) -> None:
        """Forget what was released of rows about which this block says more by itself."""
        cells, new = self._channel.cells_per_count()["visits"], self._visits(block)
        alone = new / math.sqrt(law.variance * cells)
        together = (self._visits(self._values) + new) / np.sqrt((self._variance() + law.variance) * cells)
        anew = rows & (alone > np.maximum(together, _STANDS_OUT))
        self._values[self._channel.encoder.rows_to_cells(anew)] = 0.0
        self._draws[:, anew] = 0

    def _stands_out(self, rows: Mask, block: Floats, law: Law) -> bool:
        """Whether users were seen in these rows."""
        noise = math.sqrt(law.variance * self._channel.cells_per_count()["visits"] * np.count_nonzero(rows))
        return float(self._visits(block)[rows].sum()) > _STANDS_OUT * noise

    def _visits(self, cells: Floats) -> Floats:
        return self._channel.encoder.marginals(cells)["visits"].values

    def save(self) -> Saved:
        """Released tables, their draws, the number of blocks, and whether the last one taught anything: all public."""
        return nothing_secret(values=self._values, draws=self._draws, releases=self._releases, learned=self._learned)

    def load(self, saved: Saved) -> None:
        """Go on from these tables."""
        public = saved.public
        self._values, self._draws = public["values"].copy(), public["draws"].copy()
        self._releases, self._learned = int(public["releases"]), bool(public["learned"])

    def estimates(self) -> dict[str, Estimate]:
        """Every row carries the draws of the blocks that were asked about it, each of its own law."""
        return estimated(self._channel.encoder, self._values, self._variance())

    def width_now(self) -> WidthOf:
        """A bound on sums of draws of several laws, see :func:`mixed_widths`."""
        laws, draws = self._channel.laws, self._draws.copy()
        return lambda cells_summed, failure_probability: mixed_widths(laws, draws * cells_summed, failure_probability)

    def _variance(self) -> Floats:
        variances = np.array([law.variance for law in self._channel.laws])
        return np.asarray(np.einsum("l,lgsa->gsa", variances, self._draws.astype(np.float64)))


def _played_early(shape: Shape, context: Context) -> Mask:
    """Rows that are played before the last step: only there a visit shows where it leads."""
    policy = context.policy
    if shape.horizon == 1 or not shape.homogeneous:
        return playable_rows(shape, policy)
    shorter = replace(shape, horizon=shape.horizon - 1)
    rows = np.zeros((shape.groups, shape.states, shape.actions), np.bool_)
    for part in policy.components if isinstance(policy, Mixture) else (policy,):
        cut: AnyPolicy = (
            Policy(part.actions[:-1]) if isinstance(part, Policy) else StochasticPolicy(part.probabilities[:-1])
        )
        rows |= playable_rows(shorter, cut)
    return rows


def mixed_widths(laws: tuple[Law, ...], draws: Integers, failure_probability: float) -> Floats:
    """A bound on sums of draws of several symmetric unimodal laws, ``draws[i]`` of law i (loudest law last).

    The smaller of two bounds: one quantile per law with an equal share of the failure probability, and the quantile
    of as many draws of the loudest law present (sums of symmetric unimodal variables keep their order of peakedness,
    Birnbaum 1948).
    """
    flat = draws.reshape(len(laws), -1)
    out = np.zeros(flat.shape[1])
    for mix in np.unique(flat, axis=1).T:
        present = np.flatnonzero(mix)
        if present.size == 0:
            continue
        loudest = laws[present[-1]].sum_quantile(int(mix.sum()), failure_probability)
        shared = sum(laws[i].sum_quantile(int(mix[i]), failure_probability / present.size) for i in present)
        out[(flat == mix[:, None]).all(axis=0)] = min(loudest, shared)
    return out.reshape(draws.shape[1:])


def row_numbers(rows: int, each: int) -> tuple[int, ...]:
    """Numbers of rows that get a law of their own: each up to ``each``, a power of two; then 4 per octave; and all.

    A block of any other number gets the law of the next larger one: noise for more rows than it releases.
    """
    numbers = {rows, *range(1, min(rows, each) + 1)}
    power = each
    while power < rows:
        numbers |= {min(rows, power + power * quarter // 4) for quarter in range(4)}
        power *= 2
    return tuple(sorted(numbers))

"""Continual counting: sums that are released again and again, with Gaussian noise that hardly grows.

A recipe here releases prefix sums after every user or every block by a factorisation of the matrix of prefix sums, the
buffered square root (:mod:`discreet.mechanisms.sums.matrix`). Blocks of independent noise add up to t draws after t
blocks; these carry a number of draws that grows like a logarithm of t, squared. They pay for it with more noise in the
first few releases, because all later ones show the same user again.

**Formal guarantees.** One user moves the whole sequence of noisy vectors by at most the column norm of the
factorisation times the L2 sensitivity of her own vector, and by a stated slack more, because the mechanism mixes
counts in whole steps of a grid before noise from that grid is added (:mod:`discreet.noise.discrete_gaussian`):
discrete noise, which can be shipped. What is published are these noisy mixtures; releases are computed from them. With
the policy mask every row has a clock that stands still while no step of the public policy plays the row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.base.saved_arrays import Saved, copies
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers
from discreet.mechanisms.counts.encoder import Context, Encoder
from discreet.mechanisms.mechanism import PlainRun, Tabular, WidthOf, asked_rows, counts_per_row, estimated, row_shape
from discreet.mechanisms.release import Estimate, MixedBlocks
from discreet.mechanisms.sums.accumulator import NoiseSource, noisy
from discreet.mechanisms.sums.matrix import Matrix, Mixing, Unmixing, exponential_sum
from discreet.mechanisms.sums.tree import next_release
from discreet.noise import GridGaussian


@dataclass(frozen=True)
class ContinualChannel(Tabular):
    """Counts whose prefix sums are released with correlated noise."""

    encoder: Encoder
    law: GridGaussian
    accumulator: Matrix

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ContinualRun:
        """Begin a run."""
        return ContinualRun(self, shape, noise, masked)

    @cached_property
    def mixing(self) -> MixedBlocks:
        """The matrix's own mixing, with one draw in every published number."""
        sums = exponential_sum(self.accumulator.releases)
        one_draw = np.full(row_shape(self.encoder.shape), self.law.variance)
        nothing = estimated(self.encoder, np.zeros(self.encoder.size), one_draw)
        return MixedBlocks(sums.decays, sums.weights, {name: estimate.variance for name, estimate in nothing.items()})

    def noise_per_row(self) -> float:
        """Noise per block at the release after sqrt(T) of T: comparable with blocks, whose noise adds up.

        What a learner does is decided early in a run, but not by its first release.
        """
        errors = self.accumulator.errors()
        early = max(1, round(math.sqrt(len(errors) - 1)))
        return float(self.law.variance * counts_per_row(self.encoder) * errors[early] / early)


class ContinualRun(PlainRun):
    """Prefix sums of one run, and how often each row has been released: its clock."""

    _channel: ContinualChannel

    def __init__(self, channel: ContinualChannel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        size = channel.encoder.size
        self._channel, self._shape, self._masked = channel, shape, masked
        self._values, self._clock = np.zeros(size), np.zeros(row_shape(shape), np.int64)
        self._errors = channel.accumulator.errors()
        self._mixed = _Mixed(channel.accumulator, channel.law, size, noise)

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in what was counted since the last release; the clocks of the rows that are released move on."""
        encoder = self._channel.encoder
        rows = asked_rows(self._shape, context, self._masked)
        for clock in np.unique(self._clock[rows]):
            next_release(int(clock), len(self._errors) - 1)
        where = np.flatnonzero(encoder.rows_to_cells(rows) & encoder.possible())
        self._values[where] += self._mixed.step(where, tally[where])
        self._clock += rows

    def save(self) -> Saved:
        """Releases, clocks and what was published are public. Mixed counts are raw, and stay secret to the end."""
        mixed = self._mixed
        public = copies(values=self._values, clock=self._clock, buffers=mixed.unmixing.buffers)
        return Saved(public, copies(past=mixed.mixing.past))

    def load(self, saved: Saved) -> None:
        """Go on with these mixtures."""
        mixed, public = self._mixed, saved.public
        self._values, self._clock = public["values"].copy(), public["clock"].copy()
        mixed.unmixing.buffers, mixed.mixing.past = public["buffers"].copy(), saved.secret["past"].copy()

    def estimates(self) -> dict[str, Estimate]:
        """The noise of a row is that of the release which its clock has reached."""
        return estimated(self._channel.encoder, self._values, self._channel.law.variance * self._errors[self._clock])

    def width_now(self) -> WidthOf:
        """The quantile of Gaussian noise, and what the grid can add."""
        channel, errors = self._channel, self._errors[self._clock]
        law, drift = channel.law, channel.accumulator.drift
        return lambda cells, tail: np.sqrt(errors * cells) * law.sum_quantile(1, tail) + cells * drift


class _Mixed:
    """Counts mixed over releases, noised, and unmixed."""

    def __init__(self, matrix: Matrix, law: GridGaussian, size: int, noise: NoiseSource) -> None:
        self.mixing, self.unmixing = Mixing(matrix, size), Unmixing(matrix, size)
        self._law, self._noise = law, noise

    def step(self, where: Integers, counts: Floats) -> Floats:
        """Publish the noisy mixture, and compute from it what the release gains."""
        published = noisy(self.mixing.step(where, counts), self._law, 1, self._noise)
        return self.unmixing.step(where, published)

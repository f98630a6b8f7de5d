r"""Messages for layered problems that are not a vector with noise in every cell.

* ``TableNoise``: discrete L-infinity K-norm noise for a whole loss table at once. One user may move all d entries, each
  by one, so noise for the L1 norm would pay d where this pays 1.
* ``OneBitChannel``: a user picks one of the d pairs by a coin, rounds that loss to a bit and answers it by randomised
  response. The estimate of the whole table is 1/2 everywhere but at her pair, where it is
  1/2 + d ((answer - q) / (p - q) - 1/2): unbiased, with variance at most d / (4 (p - q)^2) in every entry.
* ``SampledLayerChannel``: public coins pick one layer, and she adds noise to her transition in that layer alone, with
  the whole budget. The counts of a layer are then those of the users who were asked about it; nothing is scaled up,
  because a confidence box needs counts and not how many others there were. Bits of losses go the same way, user by user
  (``alone``) and times the number of layers: unbiased, with H times the variance of a layer's noise where noise for all
  layers would have H^2 times.

**Formal guarantees.** Each is pure for any two records of a user; coins that pick a pair or a layer do not depend on
data. What is certified is the loss of the probabilities that are really used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.mechanism import PlainRun, Tabular, WidthOf, estimated, row_shape
from discreet.mechanisms.release import Estimate
from discreet.mechanisms.sums.accumulator import NoiseSource, Run, coins_of
from discreet.mechanisms.sums.blocks import Total
from discreet.noise import DiscreteLaplace, RandomizedResponse
from discreet.privacy.profiles import Profile, PureProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.adversarial.encoders import LayeredTransitions, LossBits, LossTable


@dataclass(frozen=True)
class OneBitChannel(Tabular):
    """One entry of a user's loss table, picked by a coin and answered as one bit."""

    encoder: LossTable
    epsilon: float

    @cached_property
    def law(self) -> RandomizedResponse:
        """How the bit is answered."""
        return RandomizedResponse(self.epsilon)

    @property
    def profile(self) -> Profile:
        """Exact where the coin picks the same pair on both sides, which it does: it does not see the data."""
        return PureProfile(self.law.shipped_epsilon)

    @property
    def variance(self) -> float:
        """An upper bound on the variance of one entry of one user's decoded table."""
        return self.encoder.size / (4 * (self.law.p - self.law.q) ** 2)

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> OneBitRun:
        """Begin a run."""
        return OneBitRun(self, noise)

    def noise_per_row(self) -> float:
        """The noise variance in one user's decoded table."""
        return self.variance


class OneBitRun(PlainRun):
    """Decoded tables, summed over users."""

    _channel: OneBitChannel

    def __init__(self, channel: OneBitChannel, noise: NoiseSource) -> None:
        self._channel, self._noise = channel, noise
        self._values, self._users = np.zeros(channel.encoder.size), 0

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in one user's table: a coin picks the entry that she answers."""
        generator, law, d = _coins(self._noise, users), self._channel.law, len(tally)
        pick = int(generator.integers(d))
        answer = int(law.randomize([float(np.clip(tally[pick], 0.0, 1.0))], generator)[0])
        self._values += 0.5
        self._values[pick] += d * ((answer - law.q) / (law.p - law.q) - 0.5)
        self._users += 1

    def estimates(self) -> dict[str, Estimate]:
        """The variance is an upper bound, the same in every entry."""
        channel = self._channel
        unit = np.full(row_shape(channel.encoder.shape), channel.variance * self._users)
        return estimated(channel.encoder, self._values, unit)

    def width_now(self) -> WidthOf:
        """Bernstein's bound on the error of a sum of decoded tables."""
        channel, rows = self._channel, row_shape(self._channel.encoder.shape)
        variance, users = channel.variance, self._users
        largest = channel.encoder.size / (2 * (channel.law.p - channel.law.q)) + 1.0

        def width(cells_summed: int, failure_probability: float) -> Floats:
            log = math.log(2 / failure_probability)
            bound = math.sqrt(2 * variance * users * cells_summed * log) + largest * log / 3
            return np.full(rows, bound)

        return width


@dataclass(frozen=True)
class SampledLayerChannel(Tabular):
    """The cell of one layer, picked by public coins, with discrete Laplace noise for that layer alone.

    ``alone``: every user's vector is released by itself, scaled up to all layers; otherwise vectors add up as they are.
    """

    encoder: LayeredTransitions | LossBits
    epsilon: float
    alone: bool = False

    @cached_property
    def law(self) -> DiscreteLaplace:
        """The noise in every cell of the layer that was picked."""
        return DiscreteLaplace(2 / self.epsilon)

    @property
    def moves(self) -> Sensitivity:
        """What replacing a user moves in the layer that was picked."""
        return Sensitivity.unit_shifts(1, 1)

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> SampledLayerRun:
        """Begin a run."""
        return SampledLayerRun(self, noise)

    @cached_property
    def layers(self) -> list[int]:
        """The layers that have more than one cell; the others are not asked about, as they show nothing."""
        shape = self.encoder.shape
        return [h for h in range(shape.horizon) if self.encoder.rows_to_cells(self.rows(h)).sum() > 1]

    def rows(self, layer: int) -> Mask:
        """The rows of one layer."""
        rows = np.zeros(row_shape(self.encoder.shape), np.bool_)
        rows[layer] = True
        return rows

    def noise_per_row(self) -> float:
        """The noise variance in the counts of one row of the layer that was picked."""
        return self.law.variance * self.encoder.shape.states


class SampledLayerRun(PlainRun):
    """Noisy counts of every layer, of the users who were asked about it; or what the last user was asked, scaled up."""

    _channel: SampledLayerChannel

    def __init__(self, channel: SampledLayerChannel, noise: NoiseSource) -> None:
        self._channel, self._noise = channel, noise
        self._run = self._begun()

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in one user's cells of the layer that a coin picks."""
        generator, layers = _coins(self._noise, users), self._channel.layers
        if self._channel.alone:
            self._run = self._begun()
        rows = self._channel.rows(layers[int(generator.integers(len(layers)))])
        self._run.add(tally, users, rows, self._channel.encoder.rows_to_cells(rows))

    def estimates(self) -> dict[str, Estimate]:
        """The variance of a scaled vector is that over noise and the choice of the layer together."""
        channel, layers = self._channel, len(self._channel.layers)
        values, copies = self._run.values, self._run.copies.astype(np.float64)
        if channel.alone:
            values, copies = layers * values, np.full(copies.shape, float(layers))
        return estimated(channel.encoder, values, channel.law.variance * copies)

    def width_now(self) -> WidthOf:
        """A bound that holds for all numbers of users at once, because sums over users are a random walk."""
        law, copies = self._channel.law, self._run.copies.copy()
        scale = len(self._channel.layers) if self._channel.alone else 1
        return lambda cells_summed, failure_probability: (
            scale * law.anytime_radius(copies * cells_summed, failure_probability)
        )

    def _begun(self) -> Run:
        encoder = self._channel.encoder
        return Total().start(encoder.size, row_shape(encoder.shape), self._channel.law, self._noise)


def unrounded(encoder: LossTable) -> LossTable:
    """The same encoder without rounding: a one-bit report rounds the one entry that it sends."""
    return replace(encoder, rounded=False)


def _coins(noise: NoiseSource, users: int) -> np.random.Generator:
    generator = coins_of(noise, "this message is made on the user's device, where no tally of clear records exists")
    if users != 1:
        raise Unsupported(f"every user sends a message of her own: ask for one user at a time, not {users}")
    return generator

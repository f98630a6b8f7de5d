"""Randomised response on every bit of every step: the third randomiser of Garcelon et al. (2021).

A user has, at each step, one bit for every (state, action) in the tables of visits and rewards, and one for every
(state, action, successor) in that of transitions. She answers each of them truly with probability e^e / (1 + e^e). A
replaced trajectory changes at most 2H bits of visits, 2H of rewards and 2(H-1) of transitions, so the message is pure

    epsilon = (6 H - 2) e.

The server decodes (ones - n q) / (p - q) and, in time-homogeneous worlds, adds the steps up. A decoded bit has variance
p q / (p - q)^2, whatever it was, so the stated variances are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from discreet.accumulators.base import NoiseSource
from discreet.channels.base import PlainRun, Tabular, WidthOf, asked_rows
from discreet.encoders.base import Context
from discreet.encoders.tables import ThreeTables
from discreet.errors import Unsupported
from discreet.noise import RandomizedResponse
from discreet.release import Estimate
from discreet.shape import Shape
from discreet.types import Floats


@dataclass(frozen=True)
class AnsweredBitsChannel(Tabular):
    """Bits of three tables per step, each answered by ``law``."""

    shape: Shape
    law: RandomizedResponse

    @property
    def encoder(self) -> ThreeTables:
        return ThreeTables(replace(self.shape, homogeneous=False))

    @property
    def bit_variance(self) -> float:
        return float(self.law.variance(1))

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> AnsweredBitsRun:
        return AnsweredBitsRun(self, shape, noise, masked)

    def cells_per_count(self) -> dict[str, int]:
        H = self.shape.horizon if self.shape.homogeneous else 1
        followed = H - 1 if self.shape.homogeneous else int(self.shape.horizon > 1)
        return {"visits": H, "transitions": followed, "rewards": H}

    def shortcut(self, blocks: list[int]) -> list[int]:
        return [blocks[0], sum(blocks[1:])] if len(blocks) > 1 else blocks

    def noise_per_row(self) -> float:
        counts = self.cells_per_count()
        return self.bit_variance * (counts["visits"] + counts["transitions"] * self.shape.states + counts["rewards"])


class AnsweredBitsRun(PlainRun):
    """Decoded sums of answered bits."""

    _channel: AnsweredBitsChannel

    def __init__(self, channel: AnsweredBitsChannel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        self._channel, self._shape, self._noise, self._masked = channel, shape, noise, masked
        self._encoder = channel.encoder
        self._values = np.zeros(self._encoder.size)
        self._bits = np.zeros((shape.horizon, shape.states, shape.actions))  # answers to each bit of a row

    def add(self, tally: Floats, users: int, context: Context) -> None:
        if not self._noise.simulated:
            raise Unsupported("in the local model no tally of clear bits exists: let users answer their own bits")
        law, encoder = self._channel.law, self._encoder
        rows = asked_rows(encoder.shape, context, self._masked)
        cells = np.flatnonzero(encoder.rows_to_cells(rows) & encoder.possible())
        true = tally[cells].astype(np.int64)
        draw: np.random.Generator = self._noise.generator  # type: ignore[attr-defined]
        ones = draw.binomial(true, law.p) + draw.binomial(users - true, law.q)
        self._values[cells] += law.decode(ones, users)
        self._bits += users * rows

    def estimates(self) -> dict[str, Estimate]:
        variance, pooled = self._channel.bit_variance, self._shape.homogeneous
        estimates = {}
        for name, statistic in self._encoder.marginals(self._values).items():
            noise = variance * self._bits * statistic.cells
            values = statistic.values.copy()
            if pooled:
                values, noise = values.sum(axis=0, keepdims=True), noise.sum(axis=0, keepdims=True)
            estimates[name] = Estimate(values, noise)
        return estimates

    def width_now(self) -> WidthOf:
        """Hoeffding's bound on a sum of answered bits, each of range 1 / (p - q)."""
        bits = self._bits.sum(axis=0, keepdims=True) if self._shape.homogeneous else self._bits.copy()
        steps = self._shape.horizon if self._shape.homogeneous else 1
        reach = 1.0 / (self._channel.law.p - self._channel.law.q)

        def width(cells_summed: int, failure_probability: float) -> Floats:
            return np.asarray(reach * np.sqrt(bits / steps * cells_summed * np.log(2 / failure_probability) / 2))

        return width

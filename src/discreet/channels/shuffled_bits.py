"""Recipes of the shuffle model: counts of an encoder, sent as separate bits through a shuffler, batch by batch.

The noise of a batch depends on how many users are in it, and a learner may dictate that number, so every batch is
calibrated when it is asked for: the fewest noise bits per user, then the smallest probability of a one, whose exact
profile keeps (epsilon, delta) (:func:`discreet.noise.calibration.calibrate_binomial`). One user moves as many
counters up as down: H of each for one joint table per step, min(H, S A) for first visits, one if a batch releases one
step only, and three per step for the papers' separate tables. Each moves by at most one, which binomial noise needs.

Users who drop out send no noise, and the noise of users who collude with the analyser is void. ``dropouts`` and
``colluding`` are the shares of a batch that the promise allows for; only the others' noise bits are counted. A batch
with more dropouts must not be released, and dropping out must not depend on the data.

**Formal guarantees.** (epsilon, delta) differential privacy of everything that leaves the shuffler, for replacing one
user: every user is in one batch, and batches are chosen from earlier releases. Joint differential privacy follows by
the billboard lemma. There is no local guarantee: true bits leave the device in clear.

**Differences from the paper.** Bai, Talebi, Zhao, Cheng and Chen (SDP-PE) let a user add her noise bits to her true bit
before sending; that is refused here (see :mod:`discreet.accumulators.shuffled`). Their noise comes from a chain of
bounds, ours from the exact law.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.accumulators.base import NoiseSource
from discreet.accumulators.shuffled import ShuffledRun, shuffled_widths
from discreet.channels.base import PlainRun, Tabular, WidthOf, asked_rows, estimated, row_shape
from discreet.encoders.base import Context, Encoder
from discreet.errors import InvalidInput, Unsupported
from discreet.noise import BinomialNoise
from discreet.noise.calibration import ShuffledBits, calibrate_binomial
from discreet.privacy.guarantee import Guarantee, from_mechanism
from discreet.privacy.sensitivity import Sensitivity
from discreet.release import Estimate, Layer
from discreet.shape import Shape
from discreet.types import Floats, Mask

FEWEST_BLOCKS, _MOST_BLOCKS = 5, 60
# Counters of one step that a user sets: one joint cell, or one in each of three tables, the third in ``levels`` bits.
_PER_STEP = {"first-visit": 1, "joint-histogram": 1, "three-tables": 3, "first-visit-tables": 3, "reward-levels": 3}


@dataclass(frozen=True)
class ShuffledChannel(Tabular):
    """Bits of one encoder through a shuffler, with noise that suits the size of each batch.

    ``absent`` is the share of a batch whose noise does not count, ``block`` the size of a usual batch.
    """

    encoder: Encoder
    epsilon: float
    delta: float
    block: int
    absent: float = 0.0
    bit_level: bool = False

    @property
    def answers(self) -> frozenset[type]:
        return frozenset({Layer}) if _per_step(self.encoder.shape) else frozenset()

    @property
    def law(self) -> BinomialNoise:
        """The noise in one counter of a batch of the usual size."""
        bits = self.bits(self.block)
        return BinomialNoise(self.block * bits.bits, bits.probability)

    def sensitivity(self, what: Layer | None = None) -> Sensitivity:
        """What replacing one user moves in a batch: all steps, or one."""
        return self.encoder.sensitivity() if what is None else layer_sensitivity(self.encoder, what.step)

    def bits(self, users: int, what: Layer | None = None) -> ShuffledBits:
        """The noise bits of every user, for each counter, in a batch of that size."""
        ((_, up, down),) = self.sensitivity(what).shifts or ()
        return calibrate_binomial(users, up, down, self.epsilon, self.delta, dropout=self.absent)

    def certified(self, users: int, what: Layer | None = None) -> Guarantee:
        """The promise of one batch of that size, computed from the noise of those who count."""
        bits = self.bits(users, what)
        counted = int((1 - self.absent) * users) * bits.bits
        law = BinomialNoise(counted, bits.probability)
        name = f"{self.encoder.name} in a batch of {users}"
        return from_mechanism(law, self.sensitivity(what), delta=self.delta, name=name)

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ShuffledChannelRun:
        return ShuffledChannelRun(self, shape, noise, masked)


class ShuffledChannelRun(PlainRun):
    """A channel at work: only the counters that were asked for, and that the policy can reach, are sent."""

    _channel: ShuffledChannel

    def __init__(self, channel: ShuffledChannel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        self._channel, self._shape, self._masked = channel, shape, masked
        self._rows = row_shape(shape)
        self._run = ShuffledRun(channel.encoder.size, self._rows, noise, channel.bit_level)

    def add(self, tally: Floats, users: int, context: Context) -> None:
        encoder = self._channel.encoder
        rows = asked_rows(self._shape, context, self._masked)
        what = context.what if isinstance(context.what, Layer) else None
        if what is not None:
            rows = rows & layer_rows(self._shape, what.step)
        cells = encoder.rows_to_cells(rows) & encoder.possible()
        self._run.add(tally, users, self._channel.bits(users, what), rows, cells)

    def estimates(self) -> dict[str, Estimate]:
        return estimated(self._channel.encoder, self._run.values, self._run.variance())

    def width_now(self) -> WidthOf:
        copies, rows = self._run.copies(), self._rows
        return lambda cells_summed, failure_probability: shuffled_widths(
            copies, rows, cells_summed, failure_probability
        )


def layer_sensitivity(encoder: Encoder, step: int) -> Sensitivity:
    """What replacing one user moves among the counters of one step; the last one has no transitions."""
    shape = encoder.shape
    if not 0 <= step < shape.horizon:
        raise InvalidInput(f"step must lie in 0..{shape.horizon - 1}, got {step!r}")
    if not _per_step(shape):
        raise Unsupported("counts pooled over steps have no layers: declare the world per step")
    counters = _PER_STEP[encoder.name] + getattr(encoder, "levels", 1) - 1
    if counters > 1 and step == shape.horizon - 1:
        counters -= 1
    return Sensitivity.unit_shifts(counters, counters)


def layer_rows(shape: Shape, step: int) -> Mask:
    """The rows of one step."""
    rows = np.zeros((shape.groups, shape.states, shape.actions), np.bool_)
    rows[step] = True
    return rows


def _per_step(shape: Shape) -> bool:
    return not shape.homogeneous or shape.horizon == 1

"""Shuffled bits: every user adds a little noise, a shuffler hides who sent what, and only counts are left.

For one counter of a batch of n users, each user sends *separate* one-bit messages, tagged with the counter: her true
bit and m noise bits that are one with probability p. The shuffler permutes all n (m + 1) messages of the counter. A
permuted bag of bits is nothing but its number of ones, so the analyser learns

    #ones - n m p  =  count + Q - E Q,     Q ~ Binomial(n m, p),

and nothing else. Adding a user's bits up on her device is a different protocol that breaks the promise: the sum m + 1
can only come from a true one, so it gives the user away with probability p^m whatever epsilon is.

``send``, ``shuffle`` and ``analyse`` are the protocol bit by bit. ``ShuffledRun`` accumulates batches; it draws one
binomial per counter, which has exactly the law of the bits, unless told to go through them.

**How many noise bits.** The noise of a batch depends on how many users are in it. ``FittedBits`` calibrates every batch
when it is asked for, because a learner may dictate its size: the fewest noise bits per user, then the smallest
probability of a one, whose exact profile keeps (epsilon, delta)
(:func:`discreet.noise.calibration.calibrate_binomial`). One user moves as many counters up as down: H of each for one
joint table per step, min(H, S A) for first visits, one if a batch releases one step only, and three per step for the
papers' separate tables. Each moves by at most one, which binomial noise needs. ``CertifiedBits`` knows a few sizes,
for which several statistics were calibrated together, and refuses all others.

**Formal guarantees.** (epsilon, delta) differential privacy of everything that leaves the shuffler, for replacing one
user: every user is in one batch, and batches are chosen from earlier releases. Joint differential privacy follows by
the billboard lemma. There is no local guarantee: true bits leave the device in clear. Users who drop out send no noise,
and the noise of users who collude with the analyser is void: ``absent`` is the share of a batch that the promise allows
for. A batch with more dropouts must not be released, and dropping out must not depend on the data.

**Differences from the paper.** Bai, Talebi, Zhao, Cheng and Chen (SDP-PE) let a user add her noise bits to her true bit
before sending; that is refused here. Their noise comes from a chain of bounds, ours from the exact law.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from discreet.base.errors import Unsupported, of_kind
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.mechanisms.counts.encoder import Context, Encoder
from discreet.mechanisms.mechanism import PlainRun, Tabular, WidthOf, asked_rows, estimated, row_shape
from discreet.mechanisms.release import UNMIXED, Estimate, Layer, MixedBlocks
from discreet.mechanisms.sums.accumulator import NoiseSource, SimulatedNoise
from discreet.noise import BinomialNoise
from discreet.noise.calibration import ShuffledBits, calibrate_binomial
from discreet.privacy.guarantee import Guarantee, from_mechanism
from discreet.privacy.sensitivity import Sensitivity

Bits = NDArray[np.uint8]


def send(true_bits: NDArray[Any], noise: ShuffledBits, coins: np.random.Generator) -> Bits:
    """The messages of n users about one counter, (n, m + 1): the true bit first, as they leave the device."""
    bits = np.asarray(true_bits, np.uint8)
    out = np.empty((len(bits), noise.bits + 1), np.uint8)
    out[:, 0] = bits
    out[:, 1:] = coins.random((len(bits), noise.bits)) < noise.probability
    return out


def shuffle(messages: Bits, coins: np.random.Generator) -> Bits:
    """All messages of one counter in random order: whose they were is forgotten."""
    return coins.permutation(messages.reshape(-1))


def analyse(messages: Bits, users: int, noise: ShuffledBits) -> float:
    """The unbiased count: the number of ones less the expected number of noisy ones."""
    return float(messages.sum(dtype=np.int64)) - users * noise.bits * noise.probability


class BatchNoise(Protocol):
    """How many noise bits every user of a batch adds to each counter."""

    @property
    def answers(self) -> frozenset[type]:
        """The kinds of narrow requests that it knows the noise of."""

    def bits(self, users: int, what: Layer | None = None) -> ShuffledBits:
        """The noise bits of every user, for each counter, in a batch of that size."""


@dataclass(frozen=True)
class FittedBits:
    """Noise bits for batches of any size, each calibrated to (epsilon, delta) when it is asked for.

    ``absent`` is the share of a batch whose noise does not count.
    """

    encoder: Encoder
    epsilon: float
    delta: float
    absent: float = 0.0

    @property
    def answers(self) -> frozenset[type]:
        """Requests for one step, where steps are counted apart; otherwise whole tables only."""
        return frozenset({Layer}) if _per_step(self.encoder.shape) else frozenset()

    def sensitivity(self, what: Layer | None = None) -> Sensitivity:
        """What replacing one user moves in a batch: all steps, or one."""
        return self.encoder.sensitivity() if what is None else self.encoder.layer_sensitivity(what.step)

    def bits(self, users: int, what: Layer | None = None) -> ShuffledBits:
        """The fewest noise bits, and the rarest ones, that hide a user in a batch of that size."""
        ((_, up, down),) = self.sensitivity(what).shifts or ()
        return calibrate_binomial(users, up, down, self.epsilon, self.delta, dropout=self.absent)

    def certified(self, users: int, what: Layer | None = None) -> Guarantee:
        """The promise of one batch of that size, computed from the noise of those who count."""
        bits = self.bits(users, what)
        counted = int((1 - self.absent) * users) * bits.bits
        law = BinomialNoise(counted, bits.probability)
        name = f"{self.encoder.name} in a batch of {users}"
        return from_mechanism(law, self.sensitivity(what), delta=self.delta, name=name)


@dataclass(frozen=True)
class CertifiedBits:
    """Noise bits that were certified for a few sizes of batches, listed from small to large."""

    sizes: tuple[tuple[int, ShuffledBits], ...]

    @property
    def answers(self) -> frozenset[type]:
        """No narrow requests: the certified sizes are those of whole tables."""
        return frozenset()

    def bits(self, users: int, what: Layer | None = None) -> ShuffledBits:
        """The noise bits of a batch of a known size; others are refused."""
        found = dict(self.sizes).get(users)
        if found is None:
            known = " or ".join(str(size) for size, _ in self.sizes)
            raise Unsupported(f"no noise was certified for a block of {users} users: let {known} answer together")
        return found


@dataclass(frozen=True)
class ShuffledChannel(Tabular):
    """Bits of one encoder through a shuffler, with noise that suits the size of each batch.

    ``block`` is the size of a usual batch. ``latest``: a release holds the last batch alone, and not the sum of all.
    ``bit_level``: a simulation goes through every single bit.
    """

    encoder: Encoder
    noise: BatchNoise
    block: int
    latest: bool = False
    bit_level: bool = False

    @property
    def mixing(self) -> MixedBlocks | None:
        """Every batch has noise of its own, and releases hold all of them unless they hold the last alone."""
        return None if self.latest else UNMIXED

    @property
    def answers(self) -> frozenset[type]:
        """The narrow requests that its noise bits are known for."""
        return self.noise.answers

    @property
    def law(self) -> BinomialNoise:
        """The noise in one counter of a batch of the usual size."""
        bits = self.bits(self.block)
        return BinomialNoise(self.block * bits.bits, bits.probability)

    def bits(self, users: int, what: Layer | None = None) -> ShuffledBits:
        """The noise bits of every user, for each counter, in a batch of that size."""
        return self.noise.bits(users, what)

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ShuffledRun:
        """Begin a run."""
        return ShuffledRun(self, shape, noise, masked)


class ShuffledRun(PlainRun):
    """Running sums of debiased counts over batches, each with the noise of its own size."""

    _channel: ShuffledChannel

    def __init__(self, channel: ShuffledChannel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        if channel.bit_level and not noise.simulated:
            raise Unsupported("bit by bit is for simulation: real devices toss their own coins; set bit_level=False")
        self._channel, self._shape, self._noise, self._masked = channel, shape, noise, masked
        self._start_anew()

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in a batch. Nobody sends anything about counters that were not asked for, or are known zeros."""
        encoder, what = self._channel.encoder, context.what if isinstance(context.what, Layer) else None
        bits = self._channel.bits(users, what)
        if self._channel.latest:
            self._start_anew()
        rows = asked_rows(self._shape, context, self._masked)
        if what is not None:
            rows = rows & layer_rows(self._shape, what.step)
        where = np.flatnonzero(encoder.rows_to_cells(rows) & encoder.possible())
        law = BinomialNoise(users * bits.bits, bits.probability)
        if self._channel.bit_level:
            self._values[where] += [self._through_bits(int(count), users, bits) for count in tally[where]]
        else:
            self._values[where] += tally[where] + self._centred(law, len(where))
        copies = self._copies.setdefault(law, np.zeros(rows.shape, np.int64))
        copies += rows

    def estimates(self) -> dict[str, Estimate]:
        """The variances of all batches that a row has been in add up."""
        variance = np.zeros(row_shape(self._shape))
        for law, copies in self._copies.items():
            variance += law.variance * copies
        return estimated(self._channel.encoder, self._values, variance)

    def width_now(self) -> WidthOf:
        """The exact quantile of a sum of binomials."""
        copies, rows = {law: copies.copy() for law, copies in self._copies.items()}, row_shape(self._shape)
        return lambda cells_summed, failure_probability: shuffled_widths(
            copies, rows, cells_summed, failure_probability
        )

    def _start_anew(self) -> None:
        self._values = np.zeros(self._channel.encoder.size)
        # How many batches with each law of noise the counters of each row have been in.
        self._copies: dict[BinomialNoise, Integers] = {}

    def _centred(self, law: BinomialNoise, size: int) -> Floats:
        drawn = self._noise.draw(law, 1, size)
        # Secure draws are whole numbers of ones, as devices would send them; simulated ones come without their mean.
        return drawn if self._noise.simulated else drawn - law.mean

    def _through_bits(self, count: int, users: int, bits: ShuffledBits) -> float:
        # Who holds the ones does not matter: the shuffler forgets it.
        coins = of_kind(SimulatedNoise, self._noise).generator
        return analyse(shuffle(send(np.arange(users) < count, bits, coins), coins), users, bits)


def layer_rows(shape: Shape, step: int) -> Mask:
    """The rows of one step."""
    rows = np.zeros(row_shape(shape), np.bool_)
    rows[step] = True
    return rows


def _per_step(shape: Shape) -> bool:
    return not shape.homogeneous or shape.horizon == 1


def shuffled_widths(
    copies: dict[BinomialNoise, Integers], rows: tuple[int, int, int], cells_summed: int, tail: float
) -> Floats:
    """For each row, the exact quantile of the noise in a sum of that many of its counters."""
    laws = list(copies)
    if not laws:
        return np.zeros(rows)
    table = np.stack([copies[law].reshape(-1) for law in laws], axis=1)
    distinct, where = np.unique(table, axis=0, return_inverse=True)
    quantiles = [
        _sum_quantile(tuple((law, int(n) * cells_summed) for law, n in zip(laws, row, strict=True) if n), tail)
        for row in distinct
    ]
    return np.asarray(quantiles)[where.reshape(-1)].reshape(rows)


@lru_cache(maxsize=4096)
def _sum_quantile(parts: tuple[tuple[BinomialNoise, int], ...], tail: float) -> float:
    """t with P(|sum| > t) <= tail for a sum of independent binomials, each less its mean."""
    if not parts or not any(n for _, n in parts):
        return 0.0
    if len(parts) == 1:
        return parts[0][0].sum_quantile(parts[0][1], tail)
    offset, masses = 0.0, np.ones(1)
    for law, n in parts:
        lowest, own = _masses(BinomialNoise(n * law.trials, law.p))
        offset += lowest
        size = len(masses) + len(own) - 1
        masses = np.fft.irfft(np.fft.rfft(masses, 2 * size) * np.fft.rfft(own, 2 * size), 2 * size)[:size]
    distance = np.abs(offset + np.arange(len(masses)))
    order = np.argsort(-distance)
    # A Fourier transform is trusted to 1e-13; what it cannot see counts as beyond the bound.
    beyond = np.cumsum(np.maximum(masses[order], 0.0)) + 1e-13
    return float(distance[order[int(np.searchsorted(beyond, tail, side="right"))]])


def _masses(law: BinomialNoise) -> tuple[float, Floats]:
    """The smallest value and the probabilities from it on; less than 1e-16 lies outside (Bernstein)."""
    reach = 10 * np.sqrt(law.variance) + 40
    low, high = max(0, int(law.mean - reach)), min(law.trials, int(law.mean + reach) + 1)
    values = np.arange(low, high + 1) - law.mean
    return float(values[0]), np.exp(law.log_probability(values))

"""Shuffled bits: every user adds a little noise, a shuffler hides who sent what, and only counts are left.

For one counter of a batch of n users, each user sends *separate* one-bit messages, tagged with the counter: her true
bit and m noise bits that are one with probability p. The shuffler permutes all n (m + 1) messages of the counter. A
permuted bag of bits is nothing but its number of ones, so the analyser learns

    #ones - n m p  =  count + Q - E Q,     Q ~ Binomial(n m, p),

and nothing else. Adding a user's bits up on her device is a different protocol that breaks the promise: the sum m + 1
can only come from a true one, so it gives the user away with probability p^m whatever epsilon is.

``send``, ``shuffle`` and ``analyse`` are the protocol bit by bit. ``ShuffledRun`` accumulates batches; it draws one
binomial per counter, which has exactly the law of the bits, unless told to go through them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accumulators.base import NoiseSource, SimulatedNoise
from discreet.errors import Unsupported
from discreet.noise import BinomialNoise
from discreet.noise.calibration import ShuffledBits
from discreet.types import Floats, Integers, Mask

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


class ShuffledRun:
    """Running sums of debiased counts over batches, each with the noise of its own size."""

    def __init__(self, size: int, rows: tuple[int, int, int], noise: NoiseSource, bit_level: bool = False) -> None:
        if bit_level and not noise.simulated:
            raise Unsupported("bit by bit is for simulation: real devices toss their own coins; set bit_level=False")
        self.values = np.zeros(size)
        self._rows, self._noise, self._bit_level = rows, noise, bit_level
        self._copies: dict[BinomialNoise, Integers] = {}

    def add(
        self,
        tally: Floats,
        users: int,
        bits: ShuffledBits,
        rows: Mask,
        cells: Mask,
    ) -> None:
        """Take in a batch. Counters outside ``cells`` are known zeros, about which nobody sends anything."""
        law = BinomialNoise(users * bits.bits, bits.probability)
        where = np.flatnonzero(cells)
        if self._bit_level:
            self.values[where] += [self._through_bits(int(count), users, bits) for count in tally[where]]
        else:
            self.values[where] += tally[where] + self._centred(law, len(where))
        copies = self._copies.setdefault(law, np.zeros(self._rows, np.int64))
        copies += rows

    def variance(self) -> Floats:
        """Of the noise in one counter of each row, all batches together."""
        total = np.zeros(self._rows)
        for law, copies in self._copies.items():
            total += law.variance * copies
        return total

    def copies(self) -> dict[BinomialNoise, Integers]:
        """How many batches with each law of noise the counters of each row have been in."""
        return {law: copies.copy() for law, copies in self._copies.items()}

    def _centred(self, law: BinomialNoise, size: int) -> Floats:
        drawn = self._noise.draw(law, 1, size)
        # Secure draws are whole numbers of ones, as devices would send them; simulated ones come without their mean.
        return drawn if self._noise.simulated else drawn - law.mean

    def _through_bits(self, count: int, users: int, bits: ShuffledBits) -> float:
        # Who holds the ones does not matter: the shuffler forgets it.
        assert isinstance(self._noise, SimulatedNoise)
        coins = self._noise.generator
        return analyse(shuffle(send(np.arange(users) < count, bits, coins), coins), users, bits)


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

"""Randomised messages: a user reports one item, or one bit per item, with a known chance of lying.

Not additive noise: a message is randomised as a whole and decoded on average. In all three an item's indicator in the
report is one with probability p if the user has the item and q if not, so counts are decoded alike:

    estimate = (ones - users q) / (p - q),
    variance = (count p (1-p) + (users - count) q (1-q)) / (p - q)^2.

Probabilities are whole multiples of 2**-62, with q rounded up. Simulation, real reports and the certificate all use
those same fractions: ``shipped_epsilon`` is the loss of what is really sent, never above the epsilon asked for. The
steps from random bytes to a report are those of ``exact_responses``, which a device can take as they are.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from discreet.base.compiled import dispatch
from discreet.base.errors import InvalidInput
from discreet.base.streams import Stream, below, uniform
from discreet.base.types import ArrayLike, Floats, Integers, NDArray
from discreet.base.validation import check_count, check_epsilon
from discreet.noise.exact_randomized_response import BITS, BYTES
from discreet.noise.exact_randomized_response import WHOLE as _WHOLE
from discreet.noise.exact_sampler import words_of
from discreet.privacy.losses import LossDistribution
from discreet.privacy.profiles import LossProfile, responses_profile

Words = NDArray[np.uint64]

_AT_ONCE = 1 << 16  # words of real answers that are read at a time


def _round_up(probability: float) -> int:
    """Numerator of a probability over 2**62, strictly above it even after floating point error."""
    return math.ceil(probability * (1 + 1e-15) * _WHOLE) + 1


def _odds(epsilon: float) -> float:
    """exp(epsilon), or a number beyond which a lie is rounded up to 2**-62 all the same."""
    return math.exp(min(epsilon, 700.0))


def _simulated(rng: np.random.Generator, shape: tuple[int, ...]) -> Words:
    return rng.integers(0, _WHOLE, shape, dtype=np.uint64)


def _from_system(shape: tuple[int, ...]) -> Words:
    return (words_of(os.urandom(BYTES * math.prod(shape))) >> np.uint64(8 * BYTES - BITS)).reshape(shape)


def _securely(values: NDArray[Any], each: tuple[int, ...], answer: Callable[[Any, Words], Integers]) -> Integers:
    """Real answers, a piece of the users at a time; ``each`` is the shape of one user's answer."""
    flat = values.reshape(-1)
    out = np.empty((flat.size, *each), np.int64)
    users = max(1, _AT_ONCE // math.prod(each))
    for first in range(0, flat.size, users):
        piece = flat[first : first + users]
        out[first : first + users] = answer(piece, _from_system((len(piece), *each)))
    return out.reshape((*values.shape, *each))


def _estimate(ones: ArrayLike, users: ArrayLike, p: float, q: float) -> Floats:
    return (np.asarray(ones, dtype=np.float64) - np.asarray(users, dtype=np.float64) * q) / (p - q)


def _variance(count: ArrayLike, users: ArrayLike, p: float, q: float) -> Floats:
    have = np.asarray(count, dtype=np.float64)
    return (have * p * (1 - p) + (np.asarray(users, dtype=np.float64) - have) * q * (1 - q)) / (p - q) ** 2


def _three_way(loss: float, truth: float, lie: float) -> LossProfile:
    """A pair of inputs whose reports tell them apart (loss up or down) or not at all (loss 0)."""
    losses = LossDistribution(-loss, loss, np.array([lie, max(0.0, 1 - truth - lie), truth]))
    return LossProfile(losses, losses, loss, loss**2 / 2, allowance=0.0)


@dataclass(frozen=True)
class RandomizedResponse:
    """One bit, told truly with probability e^epsilon / (1 + e^epsilon) (Warner 1965).

    An input x between 0 and 1 is answered as the bit of probability x would be: no rounding is needed first.

    Args:
        epsilon: Of the answer.

    Examples:
        >>> from discreet.noise import RandomizedResponse
        >>> round(RandomizedResponse(1.0).p, 3)
        0.731
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))

    @property
    def _lie(self) -> int:
        return min(_round_up(1 / (1 + _odds(self.epsilon))), _WHOLE // 2)

    @property
    def threshold(self) -> int:
        """How many of the 2**62 numbers that a device may draw make it lie."""
        return self._lie

    @property
    def p(self) -> float:
        """The probability of a one for the item that the user has."""
        return (_WHOLE - self._lie) / _WHOLE

    @property
    def q(self) -> float:
        """The probability of a one for an item that she has not."""
        return self._lie / _WHOLE

    @property
    def lie(self) -> Fraction:
        """The probability of a false answer, exactly."""
        return Fraction(self._lie, _WHOLE)

    @property
    def shipped_epsilon(self) -> float:
        """The loss of what is really sent, never above the epsilon asked for."""
        return math.log((_WHOLE - self._lie) / self._lie)

    def profile(self, bits: int = 1) -> LossProfile:
        """Exact privacy of a user whose replacement changes ``bits`` separately answered bits."""
        return responses_profile(self.shipped_epsilon, check_count("bits", bits))

    def randomize(self, x: ArrayLike, rng: np.random.Generator) -> Integers:
        """Bits for simulation, one per entry of x."""
        values = _check_unit(x)
        return self._answer(values, _simulated(rng, values.shape), rng.random(values.shape))

    def randomize_securely(self, x: ArrayLike) -> Integers:
        """Bits for a real report, from the operating system's entropy; x must hold bits."""
        values = _check_unit(x)
        if not np.isin(values, (0.0, 1.0)).all():
            raise InvalidInput("a real report answers bits: round x to 0 or 1 at random first")
        return _securely(values, (), lambda bits, words: self._answer(bits, words, np.full(bits.shape, 0.5)))

    def _answer(self, values: Floats, words: Words, coins: Floats) -> Integers:
        bits = coins < values
        lies = words < np.uint64(self._lie)
        return np.asarray(bits ^ lies, dtype=np.int64)

    def decode(self, ones: ArrayLike, users: ArrayLike) -> Floats:
        """Unbiased count from the number of ones among ``users`` answers."""
        return _estimate(ones, users, self.p, self.q)

    def variance(self, users: ArrayLike, count: ArrayLike = 0) -> Floats:
        """Exact variance of the decoded count, which for one bit does not depend on the true ``count``."""
        return _variance(count, users, self.p, self.q)

    def kernel(self) -> KaryKernel:
        """What ``add_report`` takes in compiled code."""
        return KaryKernel(self.p, 2)


@dataclass(frozen=True)
class KaryRandomizedResponse:
    """One of ``items``: the true one with probability e^epsilon / (e^epsilon + items - 1), else any other one.

    Args:
        epsilon: Of the answer.
        items: How many there are.

    Examples:
        >>> from discreet.noise import KaryRandomizedResponse
        >>> KaryRandomizedResponse(1.0, items=5).items
        5
    """

    epsilon: float
    items: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))
        object.__setattr__(self, "items", check_count("items", self.items, at_least=2))

    @property
    def _each(self) -> int:
        return min(_round_up(1 / (_odds(self.epsilon) + self.items - 1)), _WHOLE // self.items)

    @property
    def threshold(self) -> int:
        """How many of the 2**62 numbers that a device may draw belong to each item that she has not."""
        return self._each

    @property
    def _truth(self) -> int:
        return _WHOLE - (self.items - 1) * self._each

    @property
    def p(self) -> float:
        """The probability of a one for the item that the user has."""
        return self._truth / _WHOLE

    @property
    def q(self) -> float:
        """The probability of a one for an item that she has not."""
        return self._each / _WHOLE

    @property
    def lie(self) -> Fraction:
        """The probability of each wrong item, exactly."""
        return Fraction(self._each, _WHOLE)

    @property
    def shipped_epsilon(self) -> float:
        """The loss of what is really sent, never above the epsilon asked for."""
        return math.log(self._truth / self._each)

    def profile(self) -> LossProfile:
        """Exact: two inputs are told apart only by reports of one of the two."""
        return _three_way(self.shipped_epsilon, self.p, self.q)

    def randomize(self, item: ArrayLike, rng: np.random.Generator) -> Integers:
        """Reports for simulation, one per entry."""
        values = _check_items(item, self.items)
        return self._report(values, _simulated(rng, values.shape))

    def randomize_securely(self, item: ArrayLike) -> Integers:
        """Reports from the operating system's entropy."""
        values = _check_items(item, self.items)
        return _securely(values, (), self._report)

    def _report(self, values: Integers, words: Words) -> Integers:
        # Words from the truth on are shared evenly by the other items, counted from the true one round the circle.
        others = (words.astype(np.int64) - self._truth) // self._each + 1
        return np.where(words < np.uint64(self._truth), values, (values + others) % self.items)

    def decode(self, reports: ArrayLike, users: ArrayLike) -> Floats:
        """Unbiased counts of items from how many users reported each."""
        return _estimate(reports, users, self.p, self.q)

    def variance(self, users: ArrayLike, count: ArrayLike = 0) -> Floats:
        """Exact variance of one decoded count when ``count`` users have the item."""
        return _variance(count, users, self.p, self.q)

    def kernel(self) -> KaryKernel:
        """What ``add_report`` takes in compiled code."""
        return KaryKernel(self.p, self.items)


@dataclass(frozen=True)
class UnaryEncoding:
    """One bit per item: the true one is 1 with probability 1/2, the others with 1/(e^epsilon+1).

    This is the optimised unary encoding of Wang et al. (2017). The variance does not grow with the number of items.

    Args:
        epsilon: Of all bits together.
        items: How many there are.

    Examples:
        >>> from discreet.noise import UnaryEncoding
        >>> UnaryEncoding(1.0, items=5).items
        5
    """

    epsilon: float
    items: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))
        object.__setattr__(self, "items", check_count("items", self.items, at_least=2))

    @property
    def _lie(self) -> int:
        return min(_round_up(1 / (1 + _odds(self.epsilon))), _WHOLE // 2)

    @property
    def threshold(self) -> int:
        """How many of the 2**62 numbers that a device may draw make an item that she has not a one."""
        return self._lie

    @property
    def p(self) -> float:
        """The probability of a one for the item that the user has."""
        return 0.5

    @property
    def q(self) -> float:
        """The probability of a one for an item that she has not."""
        return self._lie / _WHOLE

    @property
    def lie(self) -> Fraction:
        """The probability of a one for a wrong item, exactly."""
        return Fraction(self._lie, _WHOLE)

    @property
    def shipped_epsilon(self) -> float:
        """The loss of what is really sent, never above the epsilon asked for."""
        return math.log((_WHOLE - self._lie) / self._lie)

    def profile(self) -> LossProfile:
        """Exact: only the bits of the two items differ in law."""
        return _three_way(self.shipped_epsilon, (1 - self.q) / 2, self.q / 2)

    def randomize(self, item: ArrayLike, rng: np.random.Generator) -> Integers:
        """Bits for simulation; the last axis of the result is the item."""
        values = _check_items(item, self.items)
        return self._bits(values, _simulated(rng, (*values.shape, self.items)))

    def randomize_securely(self, item: ArrayLike) -> Integers:
        """Bits from the operating system's entropy."""
        values = _check_items(item, self.items)
        return _securely(values, (self.items,), self._bits)

    def _bits(self, values: Integers, words: Words) -> Integers:
        true = np.arange(self.items) == values[..., None]
        return np.asarray(words < np.where(true, np.uint64(_WHOLE // 2), np.uint64(self._lie)), dtype=np.int64)

    def decode(self, ones: ArrayLike, users: ArrayLike) -> Floats:
        """Unbiased counts of items from how many users sent a one for each."""
        return _estimate(ones, users, self.p, self.q)

    def variance(self, users: ArrayLike, count: ArrayLike = 0) -> Floats:
        """Exact variance of one decoded count when ``count`` users have the item."""
        return _variance(count, users, self.p, self.q)

    def kernel(self) -> UnaryKernel:
        """What ``add_report`` takes in compiled code."""
        return UnaryKernel(self.q, self.items)


class KaryKernel(NamedTuple):
    """Compiled randomised response over items."""

    truth: float
    items: int


class UnaryKernel(NamedTuple):
    """Compiled unary encoding."""

    lie: float
    items: int


@dispatch
def add_report(law: KaryKernel | UnaryKernel, item: int, ones: Floats, state: Stream) -> None:
    """Randomise one user's item and add the report's indicators to ``ones``, one entry per item."""


@add_report.implement(KaryKernel)
def _add_kary(law: KaryKernel, item: int, ones: Floats, state: Stream) -> None:
    reported = item
    if uniform(state) >= law.truth:
        reported = (item + 1 + below(state, law.items - 1)) % law.items
    ones[reported] += 1.0


@add_report.implement(UnaryKernel)
def _add_unary(law: UnaryKernel, item: int, ones: Floats, state: Stream) -> None:
    for i in range(law.items):
        chance = 0.5 if i == item else law.lie
        ones[i] += 1.0 if uniform(state) < chance else 0.0


def _check_unit(x: ArrayLike) -> Floats:
    values = np.asarray(x, dtype=np.float64)
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise InvalidInput("answers must lie between 0 and 1: clip them to the declared range first")
    return values


def _check_items(item: ArrayLike, items: int) -> Integers:
    values = np.asarray(item)
    if not np.issubdtype(values.dtype, np.integer) or (
        values.size and not (values.min() >= 0 and values.max() < items)
    ):
        raise InvalidInput(f"items must be whole numbers in 0..{items - 1}: encode them before they are randomised")
    return values.astype(np.int64)

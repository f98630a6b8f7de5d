r"""Shuffled items: how private a histogram is to which every user sends one of k items, randomised on her device.

Each of n users has one of k items. She sends it with probability 1 - (k - 1) b and each other one with probability b: a
coin shows the truth with probability s = 1 - k b, and otherwise the message is drawn evenly from all k items. The
shuffler permutes the n messages, so only the histogram is left.

**Which pair of laws is the worst.** Fix two items x0 and x1 of one user, and anything that the others have. Tell the
adversary of each *other* user whether her coin showed the truth, and if so what it was: that can only help. What is
left are the evenly drawn messages of the others and the message of the one. Let m be their number, N0 of them x0 and N1
of them x1. The probability of what is seen is, in proportion,

    (1 - (k-1) b) N0 + b (m - N0)    with x0,          (1 - (k-1) b) N1 + b (m - N1)    with x1,

because the one message is equally likely to be any of the m. The others' items have left these formulas, so the pair
dominates every crowd, and both directions are alike. If (N0, N1, m - N0 - N1, n - m) is multinomial with n trials and
probabilities (b, b, (k - 2) b, s), then (privacy blanket of Balle, Bell, Gascon, Nissim 2019)

    delta(epsilon) = E[ (s (N0 - e^epsilon N1) - (e^epsilon - 1) b m)+ ] / (n b).

With n = 1 this is randomised response itself, and with s near 0 nothing has been given away. The number m must not be
left out: an adversary who sees the histogram knows it nearly, and a pair of N0 and N1 alone, with the one message
somewhere else counted as no information, promises up to several times too little delta (tests/noise).

**Whole trajectories.** A device draws the step that it reports by coins that do not depend on the record, rounds a
reward by coins, and sends an evenly drawn item where there is none. So the message of a trajectory is a mixture of
messages of items with weights that another trajectory shares (an even item is the even mixture of all). Hockey-stick
divergences are jointly convex: two trajectories are no further apart than their worst pair of items. For the others
nothing was assumed but the evenly drawn part.

**The sum.** C = N0 + N1 is binomial(n, 2 b), N0 given C is binomial(C, 1/2), and R = m - C given C is binomial(n - C,
(k - 2) b / (1 - 2 b)). The expectation is convex and falling in R, so R is moved to the ends of intervals with its mean
kept, and beyond the last point to that point; and it is taken for the largest of a few neighbouring C: never below the
truth. Sums over N0 add positive terms only. What is left out or rounded is below a share of 1e-8 and 1e-10, which every
delta is raised by.

More lies are more private (randomising once more is what anybody could do with the bag). Alone, or with accomplices
everywhere else, a user still has the pure epsilon ln(1 / b - k + 1) of her own message: ``response.shipped_epsilon``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.types import Floats, Integers
from discreet.base.validation import check_count, check_delta, check_epsilon, check_open_unit
from discreet.noise.randomized_response import KaryRandomizedResponse
from discreet.noise.shuffled_randomized_response import binomial
from discreet.privacy.profiles import CERTIFIABLE, PureProfile

_REACH = 8.0  # standard deviations of R that have points of their own
_POINTS = 72  # of them
_LAWS = 32  # of R: for neighbouring counts the one of the largest, which is the smallest R
_ROUNDED = 1 + 1e-8
_LARGEST_EPSILON = 40.0  # of one message: a lie every 2e17
_STEEP = 30.0  # a logarithm of delta that is too far from the target for a line
_TOLERANCE = 1e-4  # of the epsilon of one message
_AT_ONCE = 1 << 21  # numbers in memory
_RESTS = np.array(
    [0.0] + [math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - math.log(2 * math.pi) / 2 for n in range(1, 16)]
)


@dataclass(frozen=True)
class ShuffledItems:
    """One of ``items`` from each of ``users`` users, randomised with ``epsilon``; only the histogram is left."""

    epsilon: float
    items: int
    users: int
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = "every item randomised by itself, and only how often each was sent handed on"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))
        object.__setattr__(self, "items", check_count("items", self.items, at_least=2))
        object.__setattr__(self, "users", check_count("users", self.users))

    @property
    def response(self) -> KaryRandomizedResponse:
        """What each of them does to her item."""
        return KaryRandomizedResponse(self.epsilon, self.items)

    @property
    def variance(self) -> float:
        """The variance of the noise in the decoded count of an item that nobody has."""
        return float(self.response.variance(self.users))

    def profile(self) -> ShuffledItemsProfile:
        """The privacy of a user whose item is replaced by any other, whatever the others have."""
        law = self.response
        return ShuffledItemsProfile(law.p, law.q, self.items, self.users, law.shipped_epsilon)

    def log_ratios(self, side: int, trials: int, rng: np.random.Generator) -> Floats:
        """Log-likelihood ratios of whole histograms in which one user has the first item (side 0) or the second.

        All others have the last item, which hides her least: no truth of theirs falls on either of hers.
        """
        p, q, k = self.response.p, self.response.q, self.items
        own, others = np.full(k, q), np.full(k, q)
        own[side], others[k - 1] = p, p
        seen = rng.multinomial(self.users - 1, others / others.sum(), trials)
        seen += rng.multinomial(1, own / own.sum(), trials)
        # Which of the messages is hers is unknown: each is as likely as her law over that of the others has it.
        weights = seen / others
        extra = (p - q) * weights[:, :2]
        ratio = (q * weights.sum(axis=1) + extra[:, 0]) / (q * weights.sum(axis=1) + extra[:, 1])
        return np.asarray(np.log(ratio))


@dataclass(frozen=True)
class ShuffledItemsProfile:
    """The curve of this module for laws with probabilities p of the true item and q of each other one."""

    p: float
    q: float
    items: int
    users: int
    bound: float  # the loss of one message that is seen

    def delta(self, epsilon: float) -> float:
        """The expectation above, rounded up; never more than what her own message gives away."""
        if epsilon >= self.bound:
            return 0.0
        pure = PureProfile(self.bound).delta(epsilon)
        if self.users == 1:
            return min(pure, (self.p - math.exp(epsilon) * self.q) * _ROUNDED + 1e-15)  # two numbers that may be close
        return min(1.0, pure, self._sum(math.exp(epsilon)) * _ROUNDED + CERTIFIABLE)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at this delta, rounded up; the largest possible loss if delta is zero."""
        if check_delta("delta", delta) == 0:
            return self.bound
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, self.bound
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    @property
    def rho(self) -> float:
        """What the largest loss implies."""
        return self.bound**2 / 2

    def _sum(self, odds: float) -> float:
        crowd = _crowd(self.q, self.items, self.users)
        s, rows = self.p - self.q, max(1, _AT_ONCE // crowd.width)
        total = 0.0
        for first in range(0, len(crowd.counts), rows):
            part = slice(first, first + rows)
            counts = crowd.counts[part, None]
            # (s (N0 - odds N1) - (odds - 1) q m)+ is s (1 + odds) times the excess of N0 over this.
            edge = (odds * counts + (odds - 1) * self.q / s * (counts + crowd.points)) / (1 + odds)
            excess = _excess(crowd.counts[part], crowd.width, edge)
            total += float(crowd.masses[part] @ (excess * crowd.weights[part]).sum(axis=1))
        return s * (1 + odds) * total / (self.users * self.q)


class _Crowd(NamedTuple):
    """The laws of C and R: counts with their masses, points of R, and the mass of each point given each count."""

    counts: Integers
    masses: Floats
    points: Floats
    weights: Floats
    width: int  # numbers of N0 above C / 2 that are summed


@lru_cache(maxsize=64)
def _crowd(q: float, items: int, users: int) -> _Crowd:
    low, masses = binomial(users, 2 * q)
    counts = low + np.arange(len(masses))
    width = math.ceil(4.7 * math.sqrt(counts[-1])) + 40  # of N0 above C / 2; less than 1e-18 lies beyond (Hoeffding)
    chance = (items - 2) * q / (1 - 2 * q)
    if items == 2:
        return _Crowd(counts, masses, np.zeros(1), np.ones((len(counts), 1)), width)
    together = -(-len(counts) // _LAWS)
    largest = np.minimum(counts[0] + together * (1 + np.arange(-(-len(counts) // together))) - 1, counts[-1])
    left = users - largest
    spread = math.sqrt(users * chance * (1 - chance))
    first = max(0.0, math.floor(left[-1] * chance - _REACH * spread))
    last = max(1.0, min(left[0], math.ceil(left[0] * chance + _REACH * spread)))
    points = np.unique(np.append(0.0, np.rint(np.linspace(first, last, _POINTS))))
    weights = np.stack([_moved(*binomial(int(trials), chance), points) for trials in left])
    return _Crowd(counts, masses, points, np.repeat(weights, together, axis=0)[: len(counts)], width)


def _moved(first: int, masses: Floats, points: Floats) -> Floats:
    """The masses of points that a law is moved to: to the ends of intervals, with its mean kept; from beyond, down."""
    values = np.minimum(first + np.arange(len(masses)), points[-1])
    below = np.minimum(np.searchsorted(points, values, side="right") - 1, len(points) - 2)
    upper = masses * (values - points[below]) / (points[below + 1] - points[below])
    ends = np.bincount(below, masses - upper, len(points)) + np.bincount(below + 1, upper, len(points))
    return np.asarray(ends)


def _excess(counts: Integers, width: int, edge: Floats) -> Floats:
    """E[(N - edge)+] for N ~ binomial(count, 1/2), with edges of at least count / 2: one row for each count."""
    start = counts // 2
    values = start[:, None] + np.arange(width)
    inside = values <= counts[:, None]
    law = _fair_coins(counts[:, None], np.where(inside, values, counts[:, None])) * inside
    at_least = np.cumsum(law[:, ::-1], axis=1)[:, ::-1]  # P(N >= value)
    beyond = np.cumsum(at_least[:, ::-1], axis=1)[:, ::-1]  # E[(N - value + 1)+]
    next_value = np.floor(edge).astype(np.int64) + 1
    place = np.clip(next_value - start[:, None], 0, width - 1)
    rows = np.arange(len(counts))[:, None]
    found = beyond[rows, place] - (1 - (next_value - edge)) * at_least[rows, place]
    return np.asarray(np.where(next_value <= start[:, None] + width - 1, np.maximum(found, 0.0), 0.0))


def _fair_coins(count: Integers, heads: Integers) -> Floats:
    """P(heads of ``count`` fair coins) to a share of 1e-11, up to a thousand million of them.

    Logarithms of factorials are too large to be subtracted: of ten million coins that is off by a share of 1e-5. In
    Stirling's formula ln n! = (n + 1/2) ln n - n + ln(2 pi) / 2 + rest(n) the large terms cancel on paper. With h
    heads, t tails and d = (h - t) / n what is left is n ((1 + d) ln(1 + d) + (1 - d) ln(1 - d)) / 2, about n d^2 / 2.
    """
    n, h = count.astype(np.float64), heads.astype(np.float64)
    t = n - h
    both = (h > 0) & (t > 0)  # or else it is 2^-n, also of no coins
    d = np.where(both, h - t, 0.0) / np.maximum(n, 1.0)
    h, t = np.where(both, h, 1.0), np.where(both, t, 1.0)
    far = n / 2 * ((1 + d) * np.log1p(d) + (1 - d) * np.log1p(-d))
    rests = _stirling_rest(np.maximum(n, 1.0)) - _stirling_rest(h) - _stirling_rest(t)
    return np.where(both, np.exp(rests - far) * np.sqrt(n / (2 * math.pi * h * t)), np.exp2(-n))


def _stirling_rest(n: Floats) -> Floats:
    """ln n! - (n + 1/2) ln n + n - ln(2 pi) / 2: from a table below 16, then by its series, off by less than 1e-15."""
    square = n * n
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n
    return np.where(n < len(_RESTS), _RESTS[np.minimum(n, len(_RESTS) - 1).astype(np.int64)], series)


def foreseen_items(users: int, items: int, epsilon: float, delta: float) -> ShuffledItems:
    """About what :func:`calibrate_items` finds, for plans that compare many sizes; nothing is certified.

    The epsilon of one message grows about evenly with the logarithm of the users, so it is taken from two other sizes.
    """
    steps = max(0, (users.bit_length() - 1) // 2)
    ends = [4**steps, 4 ** (steps + 1)]
    own = [calibrate_items(size, items, epsilon, delta).epsilon for size in ends]
    return ShuffledItems(float(np.interp(math.log(users), np.log(ends), own)), items, users)


def calibrate_items(users: int, items: int, epsilon: float, delta: float) -> ShuffledItems:
    """The most truthful messages that give (epsilon, delta) privacy to each of ``users`` users, who shuffle them.

    Never less truthful than pure epsilon, which needs no crowd. Found by search, and certified by its own profile.
    """
    users, items = check_count("users", users), check_count("items", items, at_least=2)
    return _calibrated(users, items, check_epsilon("epsilon", epsilon), check_open_unit("delta", delta))


@lru_cache(maxsize=4096)
def _calibrated(users: int, items: int, epsilon: float, delta: float) -> ShuffledItems:
    def excess(own: float) -> float:
        """How far delta is above the target, as a logarithm."""
        found = ShuffledItems(own, items, users).profile().delta(epsilon)
        return math.log(found / delta) if found > 0 else -math.inf

    low, high = epsilon, max(epsilon, _LARGEST_EPSILON)
    above = excess(high)
    if above <= 0:
        return ShuffledItems(high, items, users)
    below, kept = -math.inf, 0
    while high - low > _TOLERANCE * low:
        # The logarithm is nearly straight, so a line through both ends is followed once they are near; the value of an
        # end that stays is halved, or the other would creep up to it.
        share = below / (below - above) if below > -_STEEP else 0.5
        middle = low + min(max(share, 0.01), 0.99) * (high - low)
        found = excess(middle)
        if found <= 0:
            low, below = middle, found
            above, kept = (above / 2, 1) if kept == 1 else (above, 1)
        else:
            high, above = middle, found
            below, kept = (below / 2, 2) if kept == 2 else (below, 2)
    return ShuffledItems(low, items, users)

r"""Shuffled randomised response: how private the number of ones is when every user answers her bit by herself.

Each of n users answers one bit truly with probability 1 - q and falsely with probability q < 1/2 (the appendix of
Garcelon et al. writes q = p / 2: with probability p a fair coin replaces the bit). A shuffled bag of answers is its
number of ones. If c of the others hold a one, it is

    own answer + W_c,     W_c ~ Binomial(n - 1 - c, q) + Binomial(c, 1 - q),

and replacing the user turns her own answer from Bernoulli(q) into Bernoulli(1 - q), or back. The decoded count
(ones - n q) / (1 - 2 q) carries noise of variance n q (1 - q) / (1 - 2 q)^2, whatever the data are.

**Accounting.** Whom the others are is not known, so the curve that counts is the largest over all c and both
directions,

    h(epsilon) = max over c of  sup over events of  P_c(event) - e^epsilon Q_c(event).

Neither c = 0 nor an even split is the worst for every epsilon. A maximum of privacy curves is a privacy curve itself
(convex and falling in e^epsilon), so there is a pair of laws that has it, that dominates every crowd, and that may be
composed over all counters that a user moves. Counting the bits upside down turns c into n - 1 - c and one direction
into the other, so half of the crowds are enough if both directions are tried.

With many users crowds are tried in ranges: for c between a and b, tell the adversary what b - a of them answered, which
can only help, and Binomial(n - 1 - b, q) + Binomial(a, 1 - q) is left. Thirty-two ranges cost 1.6% of the noise.

More noise is more private: answering the answers once more is something that anybody could do with the shuffled bag.
Alone in a batch, or with accomplices everywhere else, a user still has the pure epsilon ln((1 - q) / q) of each bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.types import Floats
from discreet.base.validation import check_count, check_epsilon, check_open_unit
from discreet.noise.randomized_response import RandomizedResponse
from discreet.privacy.losses import LossDistribution, repeat
from discreet.privacy.profiles import GaussianProfile, LossProfile
from discreet.privacy.sensitivity import Sensitivity

_RANGES = 32  # of crowds with up to half of the ones; the other half mirrors them
_RESOLUTION = 64  # grid points per standard deviation of one counter's loss
_MOST_POINTS = 1 << 14
_NEGLIGIBLE = 1e-18  # relative to the likeliest count
_LARGEST_BIT_EPSILON = 36.0  # a false answer every 4e15 bits
_TOLERANCE = 1e-3  # of the variance
_BRACKET = 1.1


@dataclass(frozen=True)
class ShuffledResponse:
    """Bits of ``users`` users, each answered with ``epsilon`` by randomised response; only the number of ones is left.

    As a law it is asked for its profile like any other; it is not additive, so counts are decoded by ``response``.
    """

    epsilon: float
    users: int
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = "every bit answered by itself, and only the number of ones of each counter handed on"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))
        object.__setattr__(self, "users", check_count("users", self.users))

    @property
    def response(self) -> RandomizedResponse:
        """What each of them does to each of her bits."""
        return RandomizedResponse(self.epsilon)

    @property
    def variance(self) -> float:
        """The variance of the noise in a decoded count."""
        return float(self.response.variance(self.users))

    def profile(self, sensitivity: Sensitivity) -> LossProfile:
        """The exact privacy of a user whose replacement flips so many bits, each in a counter of its own."""
        if not sensitivity.unit:
            raise Unsupported(
                f"answered bits are certified for counters that move by at most one; linf is {sensitivity.linf:g}: "
                "give every step a counter of its own"
            )
        return _profile(self.response, self.users - 1, check_count("moved counters", sensitivity.cells))

    def log_ratios(self, moves: int, side: int, trials: int, rng: np.random.Generator) -> Floats:
        """Log-likelihood ratios of batches in which a user's ``moves`` bits are zeros (side 0) or ones (side 1).

        Nobody else holds a one in these counters: of all crowds the one that hides least at large losses.
        """
        q, crowd = self.response.q, self.users - 1
        own = rng.random((trials, moves)) < (q if side == 0 else 1 - q)
        seen = rng.binomial(crowd, q, (trials, moves)) + own
        # f(y) and f(y - 1) of the crowd's binomial are as (crowd - y + 1) q to y (1 - q).
        here, below = (crowd - seen + 1) * q, seen * (1 - q)
        ratios = np.log((q * below + (1 - q) * here) / ((1 - q) * below + q * here))
        return np.asarray(ratios.sum(axis=1))


def calibrate_response(users: int, moves: int, epsilon: float, delta: float) -> ShuffledResponse:
    """The most truthful answers that give (epsilon, delta) privacy to each of ``users`` users, who shuffle her bits.

    ``moves`` of them flip when a user is replaced. Never less truthful than pure epsilon / moves a bit, which needs no
    crowd. Found by bisection, to a thousandth of the variance, and certified by its own profile.
    """
    users, moves = check_count("users", users), check_count("moves", moves)
    return _calibrated(users, moves, check_epsilon("epsilon", epsilon), check_open_unit("delta", delta))


@lru_cache(maxsize=4096)
def _calibrated(users: int, moves: int, epsilon: float, delta: float) -> ShuffledResponse:
    sensitivity = Sensitivity.unit_shifts(moves - moves // 2, moves // 2)
    alone = ShuffledResponse(epsilon / moves, users)

    def law(variance: float) -> ShuffledResponse:
        bit = min(2 * math.asinh(0.5 * math.sqrt(users / variance)), _LARGEST_BIT_EPSILON)
        return alone if variance >= alone.variance else ShuffledResponse(bit, users)

    def enough(variance: float) -> bool:
        return variance >= alone.variance or law(variance).profile(sensitivity).delta(epsilon) <= delta

    # To first order the noise is Gaussian. What is returned has been certified, so the guess need not be good.
    low = high = moves / _gaussian_shift(epsilon, delta) ** 2
    while not enough(high):
        low, high = high, high * _BRACKET
    while enough(low) and law(low).epsilon < _LARGEST_BIT_EPSILON:
        low, high = low / _BRACKET, low
    while high > low * (1 + _TOLERANCE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return law(high)


def _gaussian_shift(epsilon: float, delta: float) -> float:
    """The largest shift, in standard deviations, that Gaussian noise hides."""
    low, high = 0.0, 1.0
    while GaussianProfile(high).delta(epsilon) <= delta:
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if GaussianProfile(middle).delta(epsilon) <= delta else (low, middle)
    return low


@lru_cache(maxsize=1024)
def _profile(response: RandomizedResponse, crowd: int, moves: int) -> LossProfile:
    if crowd == 0:
        return response.profile(moves)
    one = repeat(_dominating(response, crowd), moves)
    # The loss of a bit is bounded without any crowd.
    pure = response.shipped_epsilon
    return LossProfile(one, one, moves * pure, moves * pure**2 / 2)


def _dominating(response: RandomizedResponse, crowd: int) -> LossDistribution:
    """Losses of a pair of laws that is at least as far apart as any crowd leaves the two answers of one user."""
    pairs = [pair for zeros, ones in crowds(crowd) for pair in both_directions(response, zeros, ones)]
    step = max(_spread(pairs[-1]) / _RESOLUTION, response.shipped_epsilon / _MOST_POINTS)
    points = math.ceil(response.shipped_epsilon / step) + 1
    grid = step * np.arange(points, dtype=np.float64)
    curve = np.max([hockey_stick(p, q, grid) for p, q in pairs], axis=0)
    curve[-1] = 0.0  # the largest loss of a single bit is below the last point
    return _from_curve(curve, step)


def crowds(size: int) -> list[tuple[int, int]]:
    """Pairs (zeros, ones) that cover, with their mirror images, every crowd of that size: what must hide a user."""
    half = size // 2  # crowds with up to this many ones; the others are their mirror images
    width = -(-(half + 1) // _RANGES)
    return [(size - min(first + width - 1, half), first) for first in range(0, half + 1, width)]


def both_directions(response: RandomizedResponse, zeros: int, ones: int) -> list[tuple[Floats, Floats]]:
    """The laws of the number of ones with a true answer of one and of zero; then read from the top, and swapped.

    In both the ratio of the first law to the second grows along the array.
    """
    q = response.q
    hidden = np.convolve(binomial(zeros, q)[1], binomial(ones, q)[1][::-1])
    kept = np.flatnonzero(hidden > _NEGLIGIBLE * hidden.max())
    hidden = hidden[kept[0] : kept[-1] + 1]
    hidden /= hidden.sum()
    risen, stayed = np.append(0.0, hidden), np.append(hidden, 0.0)
    one, zero = (1 - q) * risen + q * stayed, q * risen + (1 - q) * stayed
    return [(one, zero), (zero[::-1], one[::-1])]


def hockey_stick(p: Floats, q: Floats, epsilons: Floats) -> Floats:
    """sup over events of P - e^epsilon Q, where P / Q grows along the arrays: the best event is an upper end."""
    first = np.searchsorted(np.log(p / q), epsilons, side="right")
    above_p, above_q = (np.append(np.cumsum(law[::-1])[::-1], 0.0)[first] for law in (p, q))
    return np.asarray(np.maximum(above_p - np.exp(epsilons) * above_q, 0.0))


def _from_curve(curve: Floats, step: float) -> LossDistribution:
    """The losses whose curve is linear in e^epsilon between the given points, and so nowhere below the true one.

    The curve is given at 0, step, 2 step, ... and ends in zero. The second law has the jumps of its slope as masses,
    the first e^epsilon times as much. Exchanging the laws changes nothing, so the mass at -epsilon is e^(-epsilon)
    times that at epsilon.
    """
    alphas = np.exp(step * np.arange(len(curve)))
    slopes = np.append(np.diff(curve) / np.diff(alphas), 0.0)
    above = np.maximum(np.diff(slopes), 0.0) * alphas[1:]
    below = above / alphas[1:]
    even = max(0.0, 1.0 - float(above.sum() + below.sum()))
    masses = np.concatenate([below[::-1], [even], above])
    return LossDistribution(-step * (len(curve) - 1), step, masses)


def binomial(trials: int, p: float) -> tuple[int, Floats]:
    """The first count, and probabilities from there on, around the mean; less than 1e-16 lies outside (Bernstein).

    They are built from ratios of neighbours.
    """
    reach = math.ceil(10 * math.sqrt(trials * p * (1 - p)) + 40)
    low, high = max(0, math.floor(trials * p) - reach), min(trials, math.ceil(trials * p) + reach)
    counts = np.arange(low + 1, high + 1, dtype=np.float64)
    ratios = np.log((trials - counts + 1) / counts) + (math.log(p) - math.log1p(-p))
    logs = np.concatenate(([0.0], np.cumsum(ratios)))
    masses = np.exp(logs - logs.max())
    return low, np.asarray(masses / masses.sum())


def _spread(pair: tuple[Floats, Floats]) -> float:
    p, q = pair
    losses = np.log(p / q)
    return math.sqrt(max(float(np.dot(p, losses**2) - np.dot(p, losses) ** 2), 1e-30))

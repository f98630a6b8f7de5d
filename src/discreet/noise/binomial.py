"""Binomial noise: the sum of ``trials`` coins of probability p, less its mean. What shuffled noise bits add up to.

A cell that rises by one has loss ln f(o) / f(o-1) at count o, with f the binomial probabilities, and an infinite loss
at o = 0; falling is the same pair read backwards. If p is not 1/2 the two directions differ, so a shift that moves
``up`` cells up and ``down`` cells down composes ``up`` copies of one with ``down`` copies of the other; neither may
stand in for both.

**Why two directions are enough for one release, and not for several.** A sensitivity (up, down) says that two records
differ by at most ``up`` cells that rise and ``down`` others that fall, or, with the records exchanged, the reverse. A
move of fewer cells is the same pair of laws with some cells left out, which is post-processing, so the full move is the
worst, and a profile holds both of its directions. In a second release the same user may move the other way round than
in the first, though, and a rise beside a fall may lose more than two rises or two falls. ``privacy.profiles.compose``
tries all ways. Statistics whose cells move any way (tables of losses, first-visit tables) need every split of their
cells: they are refused here unless p is 1/2, where all splits are alike, and
:mod:`discreet.problems.adversarial.shuffle_recipes` tries every split of those that it releases.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.scientific import special
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_count, check_open_unit
from discreet.noise.distribution import (
    IN_EVERY_CELL,
    Size,
    TableKernel,
    smallest_point,
    stitched_lines,
    stitched_radius,
    table_kernel,
)
from discreet.privacy.losses import LossDistribution, convolve, on_grid, repeat
from discreet.privacy.profiles import LossProfile, Profile, PureProfile
from discreet.privacy.sensitivity import Sensitivity

_WORDS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class BinomialNoise:
    """Binomial(trials, p) - trials * p. The shipped p is the float itself, a multiple of 2**-64.

    Args:
        trials: Coins.
        p: The probability of each.

    Examples:
        >>> from discreet.noise import BinomialNoise
        >>> BinomialNoise(100).variance
        25.0
    """

    trials: int
    p: float = 0.5
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = IN_EVERY_CELL

    def __post_init__(self) -> None:
        object.__setattr__(self, "trials", check_count("trials", self.trials))
        object.__setattr__(self, "p", check_open_unit("p", self.p))
        if (Fraction(self.p) * 2**64).denominator != 1:
            raise InvalidInput(
                f"p must be a multiple of 2**-64 to be tossed exactly, got {self.p!r}; 2**-11 and up are"
            )

    @property
    def mean(self) -> float:
        """What is subtracted from the count."""
        return self.trials * self.p

    @property
    def variance(self) -> float:
        """The variance of the noise in one cell."""
        return self.trials * self.p * (1 - self.p)

    def log_probability(self, x: ArrayLike) -> Floats:
        """The logarithm of the probability that the centred count is x."""
        count = np.asarray(x, dtype=np.float64) + self.mean
        k = np.round(count)
        inside = (np.abs(count - k) < 1e-6) & (k >= 0) & (k <= self.trials)
        k = np.clip(k, 0, self.trials)
        choices = special.gammaln(self.trials + 1) - special.gammaln(k + 1) - special.gammaln(self.trials - k + 1)
        logs = choices + k * math.log(self.p) + (self.trials - k) * math.log1p(-self.p)
        return np.where(inside, logs, -np.inf)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """Both directions of every cell, for unit shifts; nothing is proved for larger ones."""
        if not sensitivity.unit:
            raise Unsupported(
                f"binomial noise is certified for cells that move by at most one; linf is {sensitivity.linf:g}: "
                "encode with unit shifts (first visits, unary levels) or use discrete Gaussian noise"
            )
        if not sensitivity.cells:
            return PureProfile(0.0)
        if sensitivity.any_way and sensitivity.cells > 1 and self.p != 0.5:
            raise Unsupported(
                f"coins of probability {self.p:g} hide a rise and a fall unequally, and {sensitivity.cells} cells may "
                "each do either: use fair coins (p = 0.5) or discrete Gaussian noise"
            )
        up = sum(rising for _, rising, _ in sensitivity.shifts or ())
        return _profile(self.trials, self.p, up, sensitivity.cells - up)

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent draws for simulation."""
        return self.draw_sum(1, rng, size)

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """A sum of binomial draws is binomial."""
        trials = self.trials * np.broadcast_to(np.asarray(copies, dtype=np.int64), size)
        centred: Floats = rng.binomial(trials, self.p) - trials * self.p
        return centred

    def secure(self, size: Size) -> Integers:
        """Counts of ones, NOT centred: subtract ``mean`` after they are added to the statistic."""
        threshold = np.uint64(int(Fraction(self.p) * 2**64))
        out = np.zeros(size, dtype=np.int64)
        for cell in range(out.size):
            left = self.trials
            while left:
                words = min(left, _WORDS_AT_ONCE)
                coins = np.frombuffer(os.urandom(8 * words), np.uint64)
                out.flat[cell] += int((coins < threshold).sum())
                left -= words
        return out

    def sum_quantile(self, copies: int, tail: float) -> float:
        """Exact, both tails of the binomial counted."""
        check_count("copies", copies, at_least=0)
        check_open_unit("tail", tail)
        return _sum_quantile(self.trials * int(copies), self.p, float(tail)) if copies else 0.0

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        """A bound on sums of all numbers of draws at once; the two signs have bounds of their own."""
        above, below = (_lines(self.trials, self.p, sign, failure_probability) for sign in (1, -1))
        return np.maximum(stitched_radius(above, copies), stitched_radius(below, copies))

    def kernel(self) -> TableKernel:
        """What ``add_noise`` takes in compiled code."""
        low, pmf, _ = _window(self.trials, self.p)
        return table_kernel(pmf, low - self.mean)


def _window(trials: int, p: float) -> tuple[int, Floats, Floats]:
    """Counts that hold all but 1e-16 of the mass: the first one, probabilities, ln f(o)/f(o-1) from the second on.

    Bernstein: a deviation of 10 sd + 40 has probability below exp(-40). Probabilities are built from the ratios of
    neighbours, so their errors do not grow with the number of trials.
    """
    deviation = math.sqrt(trials * p * (1 - p))
    reach = math.ceil(10 * deviation + 40)
    low, high = max(0, math.floor(trials * p) - reach), min(trials, math.ceil(trials * p) + reach)
    counts = np.arange(low + 1, high + 1, dtype=np.float64)
    ratios = np.log((trials - counts + 1) / counts) + (math.log(p) - math.log1p(-p))
    logs = np.concatenate(([0.0], np.cumsum(ratios)))
    pmf = np.exp(logs - logs.max())
    return low, pmf / pmf.sum(), ratios


# Grid points per standard deviation of one cell's loss.
_RESOLUTION = 64


@lru_cache(maxsize=1024)
def _profile(trials: int, p: float, up: int, down: int) -> LossProfile:
    _, pmf, ratios = _window(trials, p)
    # A cell that rises: P has f(o) and Q has f(o-1); at the first count only P has mass (all but 1e-16 of it, where the
    # window ends before the support does).
    rising_p, falling_p = pmf[1:], pmf[:-1]
    centre = float(np.dot(ratios, rising_p))
    spread = math.sqrt(max(float(np.dot((ratios - centre) ** 2, rising_p)), 1e-30))
    step = spread / _RESOLUTION
    rising = on_grid(ratios, rising_p, step, infinite=float(pmf[0]))
    # The reverse pair: P has f(o-1), Q has f(o); beyond the last count only P has mass.
    falling = on_grid(-ratios, falling_p, step, infinite=float(pmf[-1]))

    def total(first: int, second: int) -> LossDistribution:
        parts = [repeat(part, times) for part, times in ((rising, first), (falling, second)) if times]
        return convolve(*parts) if len(parts) == 2 else parts[0]

    forward = total(up, down)
    return LossProfile(forward, forward if up == down else total(down, up))


@lru_cache(maxsize=4096)
def _sum_quantile(trials: int, p: float, tail: float) -> float:
    mean = trials * Fraction(p)

    def beyond(lowest: int, highest: int) -> float:
        """P(count < lowest or count > highest)."""
        below = (
            float(special.betaincc(lowest, trials - lowest + 1, p)) if 0 < lowest <= trials else float(lowest > trials)
        )
        above = (
            float(special.betainc(highest + 1, trials - highest, p)) if 0 <= highest < trials else float(highest < 0)
        )
        return below + above

    def by_upper_end(i: int) -> float:
        highest = math.ceil(mean) + i
        return beyond(math.ceil(2 * mean - highest), highest)

    def by_lower_end(i: int) -> float:
        lowest = math.floor(mean) - i
        return beyond(lowest, math.floor(2 * mean - lowest))

    guess = math.sqrt(2 * trials * p * (1 - p) * math.log(2 / tail))
    upper = math.ceil(mean) + smallest_point(by_upper_end, tail, guess) - mean
    lower = mean - math.floor(mean) + smallest_point(by_lower_end, tail, guess)
    return float(min(upper, lower))


@lru_cache(maxsize=256)
def _lines(trials: int, p: float, sign: int, failure_probability: float) -> tuple[Floats, Floats]:
    def cumulant(l: float) -> float:
        return trials * (math.log1p(p * math.expm1(sign * l)) - p * sign * l)

    return stitched_lines(cumulant, 700.0, failure_probability, math.sqrt(trials * p * (1 - p)))

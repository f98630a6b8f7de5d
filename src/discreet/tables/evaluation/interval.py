r"""Intervals around private means: sampling, noise, clipping, and what a wrong model can do.

A private sum is S = sum + (sampling error) + (Laplace noise of scale b). The sampling error is normal with deviation
t to first order; the half-width q is where P(|t Z + b L| > q) = 5%, exactly, for Z normal and L Laplace:

    P(t Z + b L > q) = [1 - Phi(q/t)] + (1/2) e^{k^2/2 - q/b} Phi(q/t - k) - (1/2) e^{k^2/2 + q/b} (1 - Phi(q/t + k)),
    k = t / b.

An end of the interval then allows for three more things (:mod:`discreet.tables.evaluation.policy_value`):

    half = sqrt(q^2 + (1.96 beta)^2) + excess + kappa |m - m_model|.

beta is the bias that an estimated model causes, *excess* what clipping may have removed. Both are computed in the model
that was released, and kappa = 1/4 allows for that model being wrong: the further the users' mean is from what the model
expected, the less the model is believed. q is a theorem (to the central limit theorem); beta, excess and kappa are
heuristics, tried on many worlds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from discreet.base.scientific import special

KAPPA = 0.25
_Law: TypeAlias = Callable[[float], float]


@dataclass(frozen=True)
class Interval:
    """An estimate and where the truth is, with this confidence; in the owner's units.

    Args:
        estimate: The middle.
        low: The lower end.
        high: The upper end.
        confidence: The probability with which the truth is inside.

    Examples:
        >>> from discreet.offline import Interval
        >>> Interval(0.5, 0.4, 0.6).confidence
        0.95
    """

    estimate: float
    low: float
    high: float
    confidence: float = 0.95

    @property
    def width(self) -> float:
        """How long the interval is."""
        return self.high - self.low

    def holds(self, value: float) -> bool:
        """Whether a value lies in the interval."""
        return self.low <= value <= self.high

    def words(self) -> str:
        """The estimate and the two ends, as a person reads them."""
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"estimate": self.estimate, "low": self.low, "high": self.high, "confidence": self.confidence}

    def within(self, low: float, high: float) -> Interval:
        """The part of the interval that is possible at all; everything that is, where no part of it is.

        An interval outside of what is possible says that its half-width was computed where it does not hold. Then
        nothing is known.
        """
        if self.low > high or self.high < low:
            return Interval(min(max(self.estimate, low), high), low, high, self.confidence)
        ends = [min(max(end, low), high) for end in (self.estimate, self.low, self.high)]
        return Interval(ends[0], ends[1], ends[2], self.confidence)


def between(
    lower: tuple[float, float, float], upper: tuple[float, float, float], confidence: float, by_chance: float = 0.0
) -> Interval:
    """From a lower end to an upper end, each with its half-widths below and above it.

    The value lies between what the two ends estimate. Their own noise may let them cross ``by_chance``, which their
    half-widths allow for. Further apart, the upper end is in error or the lower one is, and nobody knows which: then
    the interval is all that either of them allows. What both allow would be the narrower the worse they contradict each
    other.

    >>> between((0.2, 0.1, 0.1), (0.6, 0.2, 0.2), 0.95).words(), between((0.6, 0.1, 0.1), (0.2, 0.2, 0.2), 0.95).words()
    ('0.4 [0.1, 0.8]', '0.4 [0, 0.7]')
    """
    (low, less, up), (high, down, more) = lower, upper
    middle = (low + high) / 2
    if low <= high + by_chance:
        return Interval(middle, low - less, high + more, confidence)
    return Interval(middle, min(low - less, high - down), max(low + up, high + more), confidence)


def normal_quantile(confidence: float) -> float:
    """z with P(|Z| <= z) = confidence."""
    return float(special.ndtri(0.5 + confidence / 2))


def half_width(deviation: float, scale: float, confidence: float) -> float:
    """q with P(|t Z + b L| > q) = 1 - confidence, for a normal of deviation t and a Laplace of scale b.

    >>> round(half_width(1.0, 0.0, 0.95), 3), round(half_width(0.0, 1.0, 0.95), 3)
    (1.96, 2.996)
    """
    tail = 1 - confidence
    if scale <= 1e-9 * deviation or deviation + scale <= 0:
        return normal_quantile(confidence) * deviation
    if deviation <= 1e-9 * scale:
        return -scale * math.log(tail)
    low, high = 0.0, normal_quantile(confidence) * deviation - scale * math.log(tail)
    laws = special.ndtr, special.log_ndtr  # looked up once
    while _tail(high, deviation, scale, *laws) > tail:
        high *= 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(middle, deviation, scale, *laws) > tail else (low, middle)
    return high


def explained(distance: float, deviation: float, scale: float, confidence: float) -> bool:
    """Whether a distance is at most the half-width, which need not be computed for that.

    >>> explained(1.95, 1.0, 0.0, 0.95), explained(3.0, 0.0, 1.0, 0.95), explained(1.97, 1.0, 0.1, 0.95)
    (True, False, True)
    """
    if scale <= 1e-9 * deviation or deviation <= 1e-9 * scale:
        return distance <= half_width(deviation, scale, confidence)
    return _tail(distance, deviation, scale, special.ndtr, special.log_ndtr) >= 1 - confidence


def _tail(q: float, t: float, b: float, ndtr: _Law, log_ndtr: _Law) -> float:
    """P(|t Z + b L| > q)."""
    k, x = t / b, q / t
    near = math.exp(k * k / 2 - q / b + float(log_ndtr(x - k)))
    far = math.exp(k * k / 2 + q / b + float(log_ndtr(-x - k)))
    return 2 * float(ndtr(-x)) + near - far

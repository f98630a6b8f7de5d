"""Distributions of the privacy loss in one direction, on an evenly spaced set of losses.

For a pair of laws (P, Q) the privacy loss is ln P(x)/Q(x) with x drawn from P, and

    delta(epsilon) = P(loss = infinity) + E[(1 - exp(epsilon - loss))+].

Losses add up under composition. Everything that is done to a distribution here can only raise delta: an atom between
two grid points is split so that both its P-mass and its Q-mass are kept (merging the two halves is post-processing, so
the split pair dominates), a truncated upper tail becomes an infinite loss, a truncated lower tail is moved up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from discreet.base.scientific import special
from discreet.base.types import Floats

# Mass that one truncation may move into the worst case: above the noise of a Fourier transform, so that its floor does
# not keep arrays long, and far below what is certified (profiles.CERTIFIABLE).
_TRUNCATED = 1e-12


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """``masses[i]`` is the probability that the loss is ``start + i * step``; ``infinite`` that it is infinite."""

    start: float
    step: float
    masses: Floats
    infinite: float = 0.0

    @property
    def losses(self) -> Floats:
        """The losses that have masses."""
        return self.start + self.step * np.arange(len(self.masses), dtype=np.float64)

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence at exp(epsilon)."""
        place = (epsilon - self.start) / self.step  # beyond all numbers where epsilon is large and a step is short
        first = max(0, math.floor(min(max(0.0, place), float(len(self.masses)))) - 1)  # the place is rounded, too
        gaps = epsilon - (self.start + self.step * np.arange(first, len(self.masses)))
        return float(self.infinite + np.dot(-np.expm1(np.minimum(gaps, 0.0)), self.masses[first:]))


def on_grid(losses: Floats, masses: Floats, step: float, infinite: float = 0.0) -> LossDistribution:
    """Split atoms at arbitrary finite losses between the neighbouring multiples of ``step``.

    An atom of mass p at loss l in [a, a + step] gives p (1 - e^(a-l)) / (1 - e^(-step)) to the upper end, the rest to
    the lower: then both sum(p) and sum(p e^(-loss)) stay as they were.
    """
    position = losses / step
    below = np.floor(position)
    lowest = int(below.min())
    index = (below - lowest).astype(np.int64)
    upper = masses * (np.expm1(-(position - below) * step) / np.expm1(-step))
    size = int(index.max()) + 2
    spread = np.zeros(size)
    np.add.at(spread, index, masses - upper)
    np.add.at(spread, index + 1, upper)
    return LossDistribution(lowest * step, step, spread, infinite)


def split_intervals(start: float, step: float, p: Floats, q: Floats) -> Floats:
    """Masses at start, start + step, ... from the masses under both laws of the intervals of losses between them.

    Interval i gives (p - q e^(lower end)) / (1 - e^(-step)) to its upper end and the rest to its lower end, which keeps
    its mass under both laws.
    """
    lower_ends = start + step * np.arange(len(p))
    with np.errstate(divide="ignore"):
        tilted = np.exp(np.log(q) + lower_ends)  # not q * exp(..), which may be zero times infinity
    upper = np.clip((p - tilted) / -np.expm1(-step), 0.0, p)
    masses = np.zeros(len(p) + 1)
    masses[:-1] += p - upper
    masses[1:] += upper
    return masses


def gaussian_losses(mu: float, step: float) -> LossDistribution:
    """The losses of a Gaussian shift by ``mu`` deviations, N(mu^2/2, mu^2), on multiples of ``step``.

    Every interval of the grid keeps its mass under both laws, split between its two ends.
    """
    if mu == 0:
        return LossDistribution(0.0, step, np.ones(1))
    low = math.floor((mu * mu / 2 - 9 * mu) / step)
    high = math.ceil((mu * mu / 2 + 9 * mu) / step)
    edges = np.arange(low, high + 1) * step
    below_p, below_q = np.exp(special.log_ndtr(edges / mu - mu / 2)), np.exp(special.log_ndtr(edges / mu + mu / 2))
    masses = split_intervals(low * step, step, np.diff(below_p), np.diff(below_q))
    masses[0] += below_p[0]
    return LossDistribution(low * step, step, masses, infinite=math.exp(special.log_ndtr(mu / 2 - edges[-1] / mu)))


def regrid(distribution: LossDistribution, step: float) -> LossDistribution:
    """The same distribution, or one that dominates it, on multiples of ``step``."""
    return on_grid(distribution.losses, distribution.masses, step, distribution.infinite)


def convolve(first: LossDistribution, second: LossDistribution) -> LossDistribution:
    """The distribution of the sum of two independent losses on grids of one step."""
    if not np.isclose(first.step, second.step, rtol=1e-12):
        raise ValueError(f"steps differ: {first.step} and {second.step}")
    size = len(first.masses) + len(second.masses) - 1
    if size <= 256:
        masses = np.convolve(first.masses, second.masses)
    else:
        length = 1 << (size - 1).bit_length()
        spectrum = np.fft.rfft(first.masses, length) * np.fft.rfft(second.masses, length)
        masses = np.maximum(np.fft.irfft(spectrum, length)[:size], 0.0)
    infinite = first.infinite + second.infinite - first.infinite * second.infinite
    return _truncate(LossDistribution(first.start + second.start, first.step, masses, infinite))


def repeat(distribution: LossDistribution, times: int) -> LossDistribution:
    """The distribution of the sum of ``times`` independent copies, by repeated squaring."""
    powers = []
    while times:
        if times & 1:
            powers.append(distribution)
        times >>= 1
        if times:
            distribution = convolve(distribution, distribution)
    return reduce(convolve, powers)


def _truncate(distribution: LossDistribution) -> LossDistribution:
    masses = distribution.masses
    above = np.cumsum(masses[::-1])
    cut_above = int(np.searchsorted(above, _TRUNCATED))  # how many atoms at the top hold less than that
    below = np.cumsum(masses)
    cut_below = int(np.searchsorted(below, _TRUNCATED))
    if cut_above + cut_below >= len(masses):
        return distribution
    kept = masses[cut_below : len(masses) - cut_above].copy()
    kept[0] += below[cut_below - 1] if cut_below else 0.0
    infinite = distribution.infinite + (above[cut_above - 1] if cut_above else 0.0)
    return LossDistribution(
        distribution.start + cut_below * distribution.step, distribution.step, kept, float(infinite)
    )

"""Goodness of fit: are these draws of that law? Pearson's chi-square over bins, and what it would have seen.

The probabilities of bins come from a law's ``log_probability`` and from nothing else. Two lists of draws are tested for
independence over quarters of the law. Against noise of the right form and the wrong scale the statistic has a
noncentral chi-square law, which gives the power.

**False alarms.** Each test errs with probability ``LEVEL``, one in a million. Bins expect ten draws at least.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from discreet.audit.noise_coupling import places
from discreet.base.errors import DiscreetError, Unsupported
from discreet.base.scientific import special
from discreet.base.types import Floats, Integers
from discreet.noise import (
    BinomialNoise,
    BoundedNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    GridGaussian,
    KaryRandomizedResponse,
    Laplace,
    RandomizedResponse,
    UnaryEncoding,
)
from discreet.noise.knorm import TableNoise

LEVEL = 1e-6
FEWEST = 10.0  # draws that a bin should expect
BINS = 14
_ENDS = (0.001, 0.01)  # tails that have a bin of their own where draws are many
_QUARTERS = 4
_SURE = 0.95
_HALVINGS = 12


class Bins(NamedTuple):
    """Edges between bins, and the probability of each bin."""

    edges: Floats
    masses: Floats


@lru_cache(maxsize=512)
def bins_of(law: Any, copies: int, draws: int) -> Bins:
    """Bins of a sum of ``copies`` draws, about equally likely, and its tails where there are draws enough for them."""
    z, _ = places(law, 0.0)
    masses = np.exp(np.asarray(law.log_probability(z), np.float64))
    masses /= masses.sum()
    step = z[1] - z[0]
    total, first = masses, z[0]
    for _ in range(copies - 1):
        size = len(total) + len(masses) - 1
        length = 1 << size.bit_length()
        total = np.maximum(np.fft.irfft(np.fft.rfft(total, length) * np.fft.rfft(masses, length), length)[:size], 0.0)
        first += z[0]
    below = np.cumsum(total)
    tails = [tail for tail in _ENDS if draws * tail >= FEWEST]
    wanted = sorted({*tails, *(1 - tail for tail in tails), *(np.arange(1, BINS) / BINS)})
    last = np.unique(np.searchsorted(below, wanted))
    last = last[(last >= 0) & (last < len(total) - 1)]
    shares = np.diff(np.concatenate([[0.0], below[last], [1.0]]))
    edges = first + step * (last + 0.5)
    return merged(edges, shares, FEWEST / draws)


def merged(edges: Floats, shares: Floats, least: float) -> Bins:
    """Bins that expect too few draws are joined with the next one."""
    kept: list[float] = []
    masses: list[float] = [0.0]
    for i, share in enumerate(shares):
        masses[-1] += float(share)
        if i < len(edges) and masses[-1] >= least:
            kept.append(float(edges[i]))
            masses.append(0.0)
    if len(masses) > 1 and masses[-1] < least:
        rest = masses.pop()
        masses[-1] += rest
        kept.pop()
    return Bins(np.array(kept), np.array(masses))


def counted(drawn: Floats, bins: Bins) -> Integers:
    """How many draws fall into each bin."""
    return np.bincount(np.searchsorted(bins.edges, drawn), minlength=len(bins.masses))


def chi_square(counts: Integers | Floats, masses: Floats) -> float:
    """The p-value of counts against probabilities."""
    total = float(counts.sum())
    if len(masses) < 2:
        return 1.0
    expected = total * masses
    statistic = float(((counts - expected) ** 2 / np.maximum(expected, 1e-300)).sum())
    return float(special.chdtrc(len(masses) - 1, statistic))


def independence(first: Floats, second: Floats, bins: Bins) -> float:
    """The p-value of pairs of draws against being independent with this law."""
    quarters = _quarters(bins)
    a, b = (np.searchsorted(quarters.edges, x) for x in (first, second))
    k = len(quarters.masses)
    counts = np.bincount(a * k + b, minlength=k * k)
    return chi_square(counts, np.outer(quarters.masses, quarters.masses).ravel())


def _quarters(bins: Bins) -> Bins:
    below = np.cumsum(bins.masses)[:-1]
    if not len(below):
        return bins
    chosen = np.unique(np.searchsorted(below, np.arange(1, _QUARTERS) / _QUARTERS))
    chosen = chosen[chosen < len(below)]
    return Bins(bins.edges[chosen], np.diff(np.concatenate([[0.0], below[chosen], [1.0]])))


def quieter(law: Any, share: float) -> Any:
    """The same kind of noise at this share of its scale; answers that tell that much more."""
    match law:
        case Gaussian(sigma) | DiscreteGaussian(sigma):
            return type(law)(sigma * share)
        case GridGaussian(sigma, bits):
            return GridGaussian(sigma * share, bits)
        case Laplace(scale) | DiscreteLaplace(scale):
            return type(law)(scale * share)
        case TableNoise(dimension, scale):
            return TableNoise(dimension, scale * share)
        case BoundedNoise(radius):
            return BoundedNoise(radius * share)
        case BinomialNoise(trials, p):
            return BinomialNoise(max(1, round(trials * share**2)), p)
        case RandomizedResponse(epsilon):
            return RandomizedResponse(epsilon / share)
        case KaryRandomizedResponse(epsilon, items) | UnaryEncoding(epsilon, items):
            return type(law)(epsilon / share, items)
    raise Unsupported(f"nobody knows how to make a {type(law).__name__} quieter")


def share_seen(masses_at: Callable[[float], Floats], draws: int) -> float:
    """The largest share of its scale at which noise is convicted with probability 95%.

    ``masses_at`` gives the probabilities of the bins when noise has that share of its scale.
    """
    masses = masses_at(1.0)
    df = len(masses) - 1
    if df < 1:
        return 0.0
    critical = float(special.chdtri(df, LEVEL))
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        distance = draws * float(((masses_at(share) - masses) ** 2 / masses).sum())
        seen = 1 - float(special.chndtr(critical, df, min(distance, 1e4)))
        low, high = (share, high) if seen >= _SURE else (low, share)
    return low


def _masses_at(law: Any, bins: Bins) -> Callable[[float], Floats]:
    def masses(share: float) -> Floats:
        if share == 1.0:
            return bins.masses
        other = quieter(law, max(share, 1e-3))
        z, _ = places(other, 0.0)
        weights = np.exp(np.asarray(other.log_probability(z), np.float64))
        shares = np.bincount(np.searchsorted(bins.edges, z), weights / weights.sum(), len(bins.masses))
        return np.asarray(shares, np.float64)

    return masses


@lru_cache(maxsize=512)
def scale_seen(law: Any, draws: int) -> float:
    """The largest share of its scale at which draws of a law are convicted with probability 95%; 0 if not known."""
    try:
        return share_seen(_masses_at(law, bins_of(law, 1, draws)), draws)
    except DiscreetError:
        return 0.0  # no quieter law of this kind is known, so nothing is said about power

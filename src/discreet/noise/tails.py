"""Tail bounds that hold for all numbers of draws at once.

Let S_n be a sum of n independent draws with cumulant generating function psi(l) = ln E exp(l X). For every l > 0 the
process exp(l S_n - n psi(l)) is a non-negative martingale of mean one, so by Ville's inequality

    P(some n has S_n > (ln(1/d) + n psi(l)) / l) <= d.

One l is tight around one n only. Stitching: cut 1, 2, ... into epochs [3^j, 3^(j+1)), give epoch j the share
1 / ((j+1)(j+2)) of the failure probability (the shares sum to one) and the l that is best at the middle n = 3^(j+1/2).
Inside an epoch the bound is the straight line above, so it costs at most 4% over the best l, and the shares cost
ln((j+1)(j+2)): the radius grows like sqrt(2 n var ln ln n). Both signs are covered with half of the probability each.
Any l is valid, so the numerical minimisation needs no proof. The sum may be stopped, or a cell's clock may run,
as the released past dictates: the bound holds for all n simultaneously.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.scientific import optimize
from discreet.types import Floats
from discreet.validation import check_open_unit

_RATIO = 3.0
_EPOCHS = 40  # 3^40 draws


def stitched_lines(
    cumulant: Callable[[float], float], largest: float, failure_probability: float, scale: float
) -> tuple[Floats, Floats]:
    """Intercepts and slopes of the lines, one per epoch, that bound one sign of the sum with half of the probability.

    ``cumulant`` is finite on (0, ``largest``); ``scale`` is the standard deviation of one draw, to start the search.
    """
    check_open_unit("failure_probability", failure_probability)
    lines = np.empty((_EPOCHS, 2))
    for j in range(_EPOCHS):
        log_odds = math.log(2 * (j + 1) * (j + 2) / failure_probability)
        middle = _RATIO ** (j + 0.5)
        guess = math.sqrt(2 * log_odds / middle) / scale
        guess = guess * largest / (guess + largest) if math.isfinite(largest) else guess

        def height(u: float, log_odds: float = log_odds, middle: float = middle, guess: float = guess) -> float:
            l = guess * math.exp(u)
            return (log_odds + middle * cumulant(l)) / l if l < largest else math.inf

        best = guess * math.exp(float(optimize.minimize_scalar(height, bounds=(-4.0, 1.0), method="bounded").x))
        best = best if best < largest else guess
        lines[j] = log_odds / best, cumulant(best) / best
    return lines[:, 0].copy(), lines[:, 1].copy()


def stitched_radius(lines: tuple[Floats, Floats], copies: ArrayLike) -> Floats:
    """The bound at every number of draws; zero where there is none."""
    n = np.asarray(copies, dtype=np.float64)
    if n.size and (n.min() < 0 or n.max() >= _RATIO**_EPOCHS):
        raise InvalidInput(f"copies must lie in 0..1e19, got a range of {n.min():g} to {n.max():g}")
    # The epoch of n; computed with a margin because a logarithm may round the wrong way at a power of three.
    epoch = np.floor(np.log(np.maximum(n, 1.0)) / math.log(_RATIO) + 1e-12).astype(np.int64)
    intercepts, slopes = lines
    return np.where(n > 0, intercepts[epoch] + n * slopes[epoch], 0.0)


def smallest_point(tail_beyond: Callable[[int], float], tail: float, guess: float) -> int:
    """The smallest whole t >= 0 with ``tail_beyond(t)`` <= ``tail``, searched outwards from a guess."""
    if tail_beyond(0) <= tail:
        return 0
    high = max(1, math.ceil(guess))
    reach = max(1, high // 64)
    low = max(0, high - reach)
    while tail_beyond(high) > tail:
        low, high, reach = high, high + reach, 2 * reach
    while low > 0 and tail_beyond(low) <= tail:
        low, high, reach = max(0, low - reach), low, 2 * reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail_beyond(middle) <= tail else (middle, high)
    return high

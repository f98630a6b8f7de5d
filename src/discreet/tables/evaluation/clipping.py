"""Where to clip a quantity, chosen without anybody's data.

In the released model the quantity x has a known distribution. It is clipped around its median there, at the bound B of
a dyadic grid R/1024, R/512, ..., 256 R for which

    E |x - clip(x)| + 1.96 sd(noisy mean of clipped x)

is smallest. The first term is the *excess*: clipping moves the mean by at most that, and the interval is widened by it.
(The absolute value matters: excesses on both sides cancel in the mean of one world, and not in that of another.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.base.types import Floats
from discreet.tables.evaluation.private_mean import Clip

_GRID = 2.0 ** np.arange(-10, 9)


class Chosen(NamedTuple):
    """A clip, what it may remove from the mean, and what the model expects of clipped values: mean and deviation."""

    clip: Clip
    excess: float
    expected: float | None
    deviation: float = 0.0  # 0: the model says nothing


def choose_clip(
    imagined: Floats, span: float, users: int, epsilon: float, limits: tuple[float, float] | None = None
) -> Chosen:
    """The best clip for a mean over ``users`` users at this epsilon, judged by imagined ones.

    ``limits`` are those that the quantity keeps anyway, where it has any: clipping there is tried too.
    """
    middle = float(np.median(imagined))
    candidates = [Clip(middle, bound) for bound in (span * _GRID).tolist()]
    if limits is not None:
        candidates.append(known_range(*limits).clip)
    chosen, least, many = None, math.inf, len(imagined)
    apart = np.sort(imagined) - middle  # sums over those below a clip, within, and above it: sorted once for all
    sums, squares = (np.append(0.0, each.cumsum()).tolist() for each in (apart, apart * apart))
    for clip in candidates:
        low, high = clip.centre - clip.bound - middle, clip.centre + clip.bound - middle
        first, last = (int(each) for each in np.searchsorted(apart, (low, high)))
        mean = (first * low + sums[last] - sums[first] + (many - last) * high) / many
        square = (first * low * low + squares[last] - squares[first] + (many - last) * high * high) / many
        excess = max(first * low - sums[first] + sums[many] - sums[last] - (many - last) * high, 0.0) / many
        variance, noise = max(square - mean * mean, 0.0), 2 * clip.bound / (users * epsilon)
        total = excess + 1.96 * math.sqrt(variance / users + 2 * noise * noise)
        if chosen is None or total < least:
            least, chosen = total, Chosen(clip, excess, middle + mean, math.sqrt(variance))
    assert chosen is not None
    return chosen


def known_range(low: float, high: float) -> Chosen:
    """The clip of a quantity that lies between two limits: nothing is removed."""
    middle = (low + high) / 2
    return Chosen(Clip(middle, max((high - low) / 2, 1e-12)), 0.0, None)

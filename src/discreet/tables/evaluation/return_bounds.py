"""The least and the largest sum of rewards from every step on, in the owner's units: from declarations alone.

A step brings a reward of the declared range. Where episodes may end early, steps that are not taken bring 0, and the
first of them is taken. ``returns`` declares a range for the sum itself, from any step on: in a table whose only reward
is an outcome of -1 or +1 at the end it is (-1, 1), however many steps there are. Like every declaration it is public
and enforced: sums beyond it are clipped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.base.validation import check_range


class Limits(NamedTuple):
    """The worst and the best sum of rewards from step h on, h = 0 .. H; both are 0 at H."""

    worst: Floats
    best: Floats
    ends: bool  # whether episodes may end early

    @property
    def span(self) -> float:
        """R: by how much two returns of whole episodes can differ."""
        return float(self.best[0] - self.worst[0])

    def of_records(self, shape: Shape) -> Limits:
        """The same where a record may end behind any row: those who judge are followed until theirs does."""
        if self.ends:
            return self
        worst, best, _ = limits_of(shape, True)
        low, high = min(self.worst[0], 0.0), max(self.best[0], 0.0)
        return Limits(np.maximum(worst, low), np.minimum(best, high), True)


def limits_of(shape: Shape, ends: bool, returns: tuple[float, float] | None = None) -> Limits:
    """The limits of a shape, and of a declared range of returns if there is one.

    >>> limits_of(Shape(2, 2, 3, rewards=(-1.0, 1.0)), ends=True, returns=(-1.0, 1.0)).worst.tolist()
    [-1.0, -1.0, -1.0, 0.0]
    """
    low, high = shape.rewards
    left = np.arange(shape.horizon, -1, -1.0)
    after = np.maximum(left - 1, 0)
    taken = np.minimum(left, 1)
    worst = taken * low + after * (min(low, 0.0) if ends else low)
    best = taken * high + after * (max(high, 0.0) if ends else high)
    if returns is not None:
        least, most = check_range("returns", returns)
        if least > best[0] or most < worst[0] or (ends and not least <= 0.0 <= most):
            raise InvalidInput(
                f"returns {returns!r} do not fit rewards in {shape.rewards!r} over {shape.horizon} steps: give the "
                "range of the sum of rewards from any step on"
                + (", which 0 lies in where episodes may end" if ends else "")
            )
        worst, best = np.clip(worst, least, most), np.clip(best, least, most)
        worst[-1] = best[-1] = 0.0
    return Limits(worst, best, ends)

"""The largest mean of a coin that agrees with what was seen of it: the index of KL-UCB.

For means r (seen) and q of two coins the divergence is

    kl(r, q) = r ln(r / q) + (1 - r) ln((1 - r) / (1 - q)),

and a coin of mean q shows the mean r or less in n throws with probability at most exp(-n kl(r, q)), for q >= r; so does
any other reward in [0, 1] of that mean. The bound is never above 1, and tight for means near 0 and 1.
"""

from __future__ import annotations

import math

from discreet.base.compiled import fused
from discreet.base.streams import fast_log

_HALVINGS = 32  # of the interval: what is left of it is below a billionth of its length


@fused
def largest_mean(r: float, divergence: float) -> float:
    """The largest q >= r with kl(r, q) at most ``divergence``, within a billionth; r itself for a divergence of 0."""
    low, high = r, min(1.0, r + math.sqrt(0.5 * max(0.0, divergence)))  # kl(r, q) >= 2 (q - r)^2
    known = (r * fast_log(r) if r > 0.0 else 0.0) + ((1.0 - r) * fast_log(1.0 - r) if r < 1.0 else 0.0)
    for _ in range(_HALVINGS):
        q = 0.5 * (low + high)
        if q <= 0.0 or q >= 1.0:
            break
        if known - r * fast_log(q) - (1.0 - r) * fast_log(1.0 - q) <= divergence:
            low = q
        else:
            high = q
    return low

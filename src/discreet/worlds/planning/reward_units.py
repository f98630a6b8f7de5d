"""The owner's units: rewards of any declared range, episodes that may end early, and values that mean what she says.

Counts hold rewards as shares of the declared range (low, high): a reward r is x = (r - low) / (high - low), in [0, 1].
Planners work with shares. The value of a policy in the owner's units is the expected sum of its rewards up to the end
of the episode; steps after an end are worth zero *to her*. Write her value of a state with n steps to go as

    V = n low + (high - low) W.

If every episode has all its steps, W is the expected sum of shares, between 0 and n. If episodes may end early, a step
that is not taken brings 0 and not low: it is worth the share

    z = (0 - low) / (high - low)

and an end with n steps to go is worth W = n z, which is V = 0. So "ended" is a successor of value n z, and everything
else stays as it is: the shift n low is the same for all successors, the end included, so neither the best action nor
the spread of the values, which the penalties are made of, depends on how the range was declared. The offset n low is
not paid for steps that are never taken, because n z takes it back for each of them.

With n steps to go, the first of which is taken for certain, W lies between min(0, z) (n - 1) and 1 + max(1, z) (n - 1).
For a range that holds zero this is [0, n] as before; only for ranges beyond zero, such as (1, 5), does it differ.
Nothing here touches privacy: it is arithmetic on what was released.
"""

from __future__ import annotations

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats


def end_share(shape: Shape) -> float:
    """z: what a step after the end is worth, which is 0 in the owner's units, as a share of the declared range."""
    return 0.0 - shape.rewards[0] / shape.reward_span


def end_value(shape: Shape, left: int) -> float:
    """The value of having ended with ``left`` steps to go, in shares: zero in the owner's units."""
    return left * end_share(shape)


def value_limits(shape: Shape, left: int, ends: bool) -> tuple[float, float]:
    """The least and the largest value, in shares, of a state with ``left`` steps to go, of which one is taken."""
    z = end_share(shape) if ends else 0.0
    return min(0.0, z) * (left - 1), 1.0 + max(1.0, z) * (left - 1)


def widest_step(shape: Shape, ends: bool) -> float:
    """By how much two outcomes of one step can differ, in shares: 1, unless the range lies beyond zero."""
    z = end_share(shape) if ends else 0.0
    return max(1.0, z, 1.0 - z)


def in_owner_units(shape: Shape, values: Floats) -> Floats:
    """Values (H + 1, S) in shares, as a planner has them, in the units of the declared range of rewards."""
    left = np.arange(shape.horizon, -1, -1.0)[:, None]
    return left * shape.rewards[0] + shape.reward_span * values

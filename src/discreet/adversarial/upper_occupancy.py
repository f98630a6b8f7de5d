"""Upper occupancy bounds: how often a policy can reach a state under the most favourable transitions of a box.

    u(x) = max { q^{P, pi}(x) : lower <= P <= upper },        u(x, a) = pi(a|x) u(x)

This is COMP-UOB of Jin et al. (2020), the divisor of bandit loss estimates. For one target state x let f be one there
and zero in the rest of its layer, and go back layer by layer: a row (x', a) has p = lower and spends what is missing to
one on the states of the next layer in decreasing order of f, up to their upper bounds; then
f(x') = sum_a pi(a|x') <p, f>. Rows are chosen independently of each other, so the greedy choice is the maximum and
u(x) = f(x_0). Each layer is sorted once per target.

Formal guarantees
    u(x) >= q^{P, pi}(x) for every P of the box, with equality for the P that the greedy choice builds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from discreet.adversarial.layers import Box, LayerArrays, Layers, check_box
from discreet.compiled import kernel
from discreet.types import Floats, Integers
from discreet.validation import check_probabilities


def upper_occupancy(layers: Layers, policy: ArrayLike, box: Box) -> Floats:
    """The largest probability with which the policy reaches each state, as an array (states,).

    >>> from discreet.adversarial.layers import confidence_box
    >>> layers = Layers((1, 2, 1), actions=1)
    >>> box = confidence_box(layers, layers.uniform_transitions(), 0.1)
    >>> upper_occupancy(layers, [[1.0], [1.0], [1.0]], box).round(12)
    array([1. , 0.6, 0.6])
    """
    pi = check_probabilities("policy", policy, (layers.states, layers.actions))
    lower, upper = check_box(layers, box)
    bounds = np.empty(layers.states)
    reach_bounds(layers.arrays, pi, lower, upper, bounds)
    return bounds


@kernel
def reach_bounds(layers: LayerArrays, policy: Floats, lower: Floats, upper: Floats, bounds: Floats) -> None:
    """Write u(x) for every state."""
    A, first, offset = layers.actions, layers.first, layers.offset
    value = np.zeros(first[-1])
    bounds[0] = 1.0
    for top in range(1, first.shape[0] - 2):
        for target in range(first[top], first[top + 1]):
            value[first[top] : first[top + 1]] = 0.0
            value[target] = 1.0
            for h in range(top - 1, -1, -1):
                begin = first[h + 1]
                order = np.argsort(-value[begin : first[h + 2]])
                for x in range(first[h], first[h + 1]):
                    value[x] = 0.0
                    for a in range(A):
                        value[x] += policy[x, a] * _best_row(value, begin, order, lower, upper, offset[x * A + a])
            bounds[target] = value[0]


@kernel
def _best_row(value: Floats, begin: int, order: Integers, lower: Floats, upper: Floats, at: int) -> float:
    """The largest <p, value> over one row of the box; ``order`` lists the next layer from the best state down."""
    rest, total = 1.0, 0.0
    for j in range(order.shape[0]):
        rest -= lower[at + j]
        total += lower[at + j] * value[begin + j]
    for j in order:
        if rest <= 0.0:
            break
        more = min(upper[at + j] - lower[at + j], rest)
        rest -= more
        total += more * value[begin + j]
    return total

"""Backward induction: exact values of policies, and the best one, in a known finite-horizon model.

With V_H = 0 and h running from H-1 down to 0,

    Q_h(s, a) = r_h(s, a) + sum_s' P_h(s' | s, a) V_{h+1}(s'),

the best policy takes V_h(s) = max_a Q_h(s, a) (Bellman), and a given policy V_h(s) = sum_a pi_h(a | s) Q_h(s, a).

Arrays: transitions (G, S, A, S) and means (G, S, A), where G is 1 for laws that do not depend on the step and H
otherwise; the two may differ in G. Values are (H + 1, S) with a last row of zeros; actions (H, S); probabilities
(H, S, A). The kernels write into the arrays that they are given and allocate nothing, because simulations call them
whenever the policy changes. Rows of ``transitions`` need not sum to one: released models may lose or gain mass.
"""

from __future__ import annotations

import numpy as np

from discreet.compiled import fused, inlined, kernel
from discreet.types import Floats, Integers


@inlined
def group(groups: int, h: int) -> int:
    """Which of ``groups`` models holds at step ``h``: the only one, or the step's own."""
    return h if groups > 1 else 0


@fused
def backup(transitions: Floats, means: Floats, h: int, s: int, a: int, following: Floats) -> float:
    """Q_h(s, a): the mean reward now plus the expected value of what follows."""
    row = transitions[group(transitions.shape[0], h), s, a]
    total = means[group(means.shape[0], h), s, a]
    for t in range(row.shape[0]):
        total += row[t] * following[t]
    return total  # type: ignore[no-any-return]


@kernel
def plan(transitions: Floats, means: Floats, H: int, values: Floats, actions: Integers) -> None:
    """Fill ``values`` with the optimal values and ``actions`` with an optimal policy (ties: the lowest action)."""
    S, A = transitions.shape[1], transitions.shape[2]
    values[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            best, choice = -np.inf, 0
            for a in range(A):
                q = backup(transitions, means, h, s, a, values[h + 1])
                if q > best:
                    best, choice = q, a
            values[h, s] = best
            actions[h, s] = choice


@inlined
def evaluate(transitions: Floats, means: Floats, actions: Integers, values: Floats) -> None:
    """Fill ``values`` with the values of the deterministic policy ``actions``."""
    H, S = actions.shape
    values[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            values[h, s] = backup(transitions, means, h, s, actions[h, s], values[h + 1])


@kernel
def evaluate_stochastic(transitions: Floats, means: Floats, probabilities: Floats, values: Floats) -> None:
    """Fill ``values`` with the values of the policy that draws actions from ``probabilities``."""
    H, S, A = probabilities.shape
    values[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            total = 0.0
            for a in range(A):
                if probabilities[h, s, a] > 0.0:
                    total += probabilities[h, s, a] * backup(transitions, means, h, s, a, values[h + 1])
            values[h, s] = total

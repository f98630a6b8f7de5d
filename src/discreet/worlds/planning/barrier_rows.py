"""One row of the barrier program: the cheapest way to send barrier-weighted mass through a box of transitions.

For a pair (x, a) with prices r_j per unit sent to the j-th next state,

    minimise  sum_j (r_j q_j - ln q_j)    over  lower_j M <= q_j <= upper_j M,   M = sum_j q_j.

The constraints are a cone, so at the optimum r.q = S, the length of the row: given the shape p = q / M, the mass is
M = S / (r.p), and there is no optimum where some shape in the box has r.p <= 0. With one multiplier theta for
M = sum q, entries strictly between their bounds have q_j = 1 / (r_j + theta). So for a given theta the shape is

    p_j = clip(m / (r_j + theta), lower_j, upper_j),    m such that sum p = 1,

found by fixing entries at their bounds, and theta is the root of a monotone function of one variable. With F the free
entries, C the others, R = sum_C p_j r_j and T = sum_F 1 / (r_j + theta) it reads |C| / T + theta - R / (mass of F): a
harmonic sum, nearly linear, so that Newton's method needs one or two steps.
"""

from __future__ import annotations

import numpy as np

from discreet.base.compiled import inlined
from discreet.base.types import Floats, Mask

_PASSES = 100
_ROUNDING = 1e-14
_STEPS = 4  # of Newton's method before the free entries are looked for again
_CLOSE = 1e-5  # relative change of q below which one more Newton step leaves rounding errors only


@inlined
def cheapest_row(
    r: Floats,
    lower: Floats,
    upper: Floats,
    at: int,
    S: int,
    theta: float,
    p: Floats,
    free: Mask,
    inverse: Floats,
) -> tuple[float, float]:
    """Write the optimal shape into p and free at ``at``..``at + S``; returns (mass, theta), mass 0 if there is none.

    theta, free and the entries of p that are not free are first guesses: where the same entries stand at the same
    bounds again, little is left to do. r and the workspace ``inverse`` are used from their beginning.
    """
    low, high = -np.inf, np.inf
    for attempt in range(_PASSES):
        left = S if attempt == 0 else _fill(r, lower, upper, at, S, theta, p, free, inverse)
        if left < 0:  # the cheapest entries overflow the row: theta is below its domain
            pole = -np.inf
            for j in range(S):
                if r[j] + theta <= 0.0:
                    pole = max(pole, r[j])
            low = max(low, theta if pole == -np.inf else -pole)
            theta = 0.5 * (low + high) if high < np.inf else low + max(abs(low), 1.0)
            continue
        if attempt > 0 and _mass(r, p, at, S) == 0.0:
            break
        found, goal, excess = _follow(r, lower, upper, at, S, theta, p, free, inverse)
        if found:
            return _mass(r, p, at, S), goal
        if attempt == 0:
            continue
        if excess > 0.0:
            high = theta
        else:
            low = theta
        if not low < goal < high:
            goal = 0.5 * (low + high)
            if not low < goal < high:  # rounding decides between two sets of free entries
                _fill(r, lower, upper, at, S, theta, p, free, inverse)
                return _mass(r, p, at, S), theta
        theta = goal
    free[at : at + S] = True  # no guess for the next time
    return 0.0, 0.0


@inlined
def _follow(
    r: Floats,
    lower: Floats,
    upper: Floats,
    at: int,
    S: int,
    theta: float,
    p: Floats,
    free: Mask,
    inverse: Floats,
) -> tuple[bool, float, float]:
    """Newton's method for theta while the same entries are free.

    Returns (whether p, rewritten, is optimal; the last theta; a number of the sign of the given theta's excess).
    """
    fixed, rest, price = 0, 1.0, 0.0
    for j in range(S):
        if not free[at + j]:
            fixed += 1
            rest -= p[at + j]
            price += p[at + j] * r[j]
    if fixed == S:
        return _corner(r, lower, upper, at, S, theta, p)  # type: ignore[no-any-return]
    first = 0.0
    for step in range(_STEPS):
        total, squares, largest = 0.0, 0.0, 0.0
        for j in range(S):
            if free[at + j]:
                inverse[j] = 1.0 / (r[j] + theta)
                total += inverse[j]
                squares += inverse[j] * inverse[j]
                largest = max(largest, inverse[j]) if inverse[j] > 0.0 else np.inf
        if not largest < np.inf:
            break
        excess = fixed / total + theta - price / rest
        first = excess if step == 0 else first
        change = excess / (1.0 + fixed * squares / (total * total))
        if abs(change) * largest <= _CLOSE:
            return _settle(r, lower, upper, at, S, theta - change, rest, p, free, inverse), theta - change, first
        theta -= min(change, 0.9 / largest)  # no further than most of the way to the next pole
    return False, theta, first


@inlined
def _settle(
    r: Floats,
    lower: Floats,
    upper: Floats,
    at: int,
    S: int,
    theta: float,
    rest: float,
    p: Floats,
    free: Mask,
    inverse: Floats,
) -> bool:
    """Write the free entries for this theta; whether they keep their bounds and the others still belong on theirs."""
    total = 0.0
    for j in range(S):
        inverse[j] = 1.0 / (r[j] + theta)
        total += inverse[j] if free[at + j] else 0.0
    scale = rest / total
    optimal = True
    for j in range(S):
        i = at + j
        wanted = inverse[j] * scale
        if free[i]:
            p[i] = wanted
            optimal = optimal and lower[i] <= wanted <= upper[i]
        elif p[i] == lower[i]:
            optimal = optimal and (0.0 < wanted <= lower[i] or lower[i] == upper[i])
        else:
            optimal = optimal and (wanted >= upper[i] or wanted <= 0.0)
    return optimal


@inlined
def _mass(r: Floats, p: Floats, at: int, S: int) -> float:
    price = 0.0
    for j in range(S):
        price += r[j] * p[at + j]
    return S / price if price > 0.0 else 0.0


@inlined
def _fill(
    r: Floats,
    lower: Floats,
    upper: Floats,
    at: int,
    S: int,
    theta: float,
    p: Floats,
    free: Mask,
    inverse: Floats,
) -> int:
    """The shape for a given theta; returns how many entries are free.

    Where cutting the free entries to their bounds would add mass, those below their lower bound are there at the
    solution too and are fixed; where it would take mass away, those above their upper bound are. Entries with
    r + theta <= 0 stand at their upper bounds from the start; where too little is left for the rest, it
    returns -1.
    """
    left, rest, needed = S, 1.0, 0.0
    for j in range(S):
        i = at + j
        inverse[j] = 1.0 / (r[j] + theta)
        free[i] = r[j] + theta > 0.0
        if free[i]:
            needed += lower[i]
        else:
            p[i] = upper[i]
            rest -= upper[i]
            left -= 1
    if rest < needed - _ROUNDING:
        return -1
    while left > 0:
        if rest <= _ROUNDING:  # nothing is left but errors of rounding: lower bounds, where those are above zero
            for i in range(at, at + S):
                if free[i]:
                    p[i], free[i] = lower[i], False
                    if lower[i] == 0.0:
                        return -1
            return 0
        total = 0.0
        for j in range(S):
            if free[at + j]:
                total += inverse[j]
        scale = rest / total
        short, over = 0.0, 0.0
        for j in range(S):
            i = at + j
            if free[i]:
                p[i] = inverse[j] * scale
                short += max(lower[i] - p[i], 0.0)
                over += max(p[i] - upper[i], 0.0)
        if short == 0.0 and over == 0.0:
            break
        for i in range(at, at + S):
            if free[i] and ((short > over and p[i] < lower[i]) or (short <= over and p[i] > upper[i])):
                p[i] = lower[i] if short > over else upper[i]
                free[i] = False
                rest -= p[i]
                left -= 1
    return left


@inlined
def _corner(
    r: Floats, lower: Floats, upper: Floats, at: int, S: int, theta: float, p: Floats
) -> tuple[bool, float, float]:
    """What ``_follow`` returns where no entry is free: the shape is optimal for the thetas of an interval, if any."""
    mass = _mass(r, p, at, S)
    least, most = -np.inf, np.inf
    for j in range(S):
        i = at + j
        if lower[i] < upper[i]:
            even = (1.0 / (p[i] * mass) if mass > 0.0 else 0.0) - r[j]
            if p[i] == lower[i]:
                least = max(least, even)
            else:
                most = min(most, even)
    goal = most if theta > most else max(theta, least)
    return mass > 0.0 and least <= most, goal, theta - goal

"""The dual of the barrier program: its value, gradient and curvature at multipliers y, and what they prove.

The program is min cost.q - sum ln q over the occupancy measures of a box. Give the flow through state x a free
multiplier y(x), zero at x_H, and the rows part: each one minimises sum_j (r_j q_j - ln q_j) in its own cone of the box,
at prices r_j = cost_j + y(x'_j) - y(x), a small problem that :mod:`discreet.worlds.planning.barrier_rows` solves to
rounding. What is left,

    D(y) = y(x_0) + sum_{x,a} min_q { r.q - sum_j ln q_j },

is concave, and its gradient is what enters minus what leaves a state. A row of mass M whose free entries F hold p_F of
it and whose C other entries stand at their bounds adds

    g (e_x - t)(e_x - t)^T + diag(v) - v v^T / sum(v),    v = (M p)^2 on F, else 0,    t = p_F v / sum(v) on F, else p,

to the Hessian of -D, with g = M^2 b / (1 + C b) and b = sum_F p^2 / p_F^2: everything stays in scale however thin the
box is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.types import Floats, Mask
from discreet.problems.adversarial.layers import LayerArrays, add_pair
from discreet.worlds.planning.barrier_rows import cheapest_row


class Program(NamedTuple):
    """Minimise cost.q - sum ln q over the occupancy measures of a box."""

    layers: LayerArrays
    cost: Floats
    lower: Floats
    upper: Floats


class Point(NamedTuple):
    """The best row of every pair at one y; filled in place."""

    rows: Floats  # flat: their shapes p
    free: Mask  # flat: entries strictly between their bounds
    theta: Floats  # (pairs,) the multiplier of each row's mass
    mass: Floats  # (pairs,)
    gradient: Floats  # (states,) of -D: outflow - inflow
    first: Floats  # workspaces as long as the longest row
    second: Floats


@kernel
def new_point(states: int, rows: Floats, actions: int) -> Point:
    """Room for a point whose rows are kept in the given array."""
    return Point(
        rows,
        np.ones(rows.shape[0], dtype=np.bool_),
        np.zeros(states * actions),
        np.empty(states * actions),
        np.empty(states),
        np.empty(states + 1),
        np.empty(states + 1),
    )


@kernel
def evaluate(program: Program, y: Floats, point: Point) -> float:
    """-D(y), infinite where a row has no optimum; fills the point."""
    A, first, offset = program.layers.actions, program.layers.first, program.layers.offset
    n = point.gradient.shape[0]
    r, inverse = point.first, point.second
    point.gradient[:] = 0.0
    point.gradient[0] = -1.0
    total, product = -y[0], 1.0
    for h in range(first.shape[0] - 2):
        begin, S = first[h + 1], first[h + 2] - first[h + 1]
        for pair in range(first[h] * A, first[h + 1] * A):
            x, at = pair // A, offset[pair]
            for j in range(S):
                r[j] = program.cost[at + j] + y[begin + j] - y[x]
            if S == 1:
                mass, point.rows[at], point.free[at] = max(1.0 / r[0], 0.0), 1.0, True
            else:
                mass, point.theta[pair] = cheapest_row(
                    r, program.lower, program.upper, at, S, point.theta[pair], point.rows, point.free, inverse
                )
            if not mass > 0.0:
                return np.inf
            point.mass[pair] = mass
            point.gradient[x] += mass
            total -= S
            for j in range(S):
                arriving = mass * point.rows[at + j]
                if begin < n:
                    point.gradient[begin + j] -= arriving
                product *= arriving
                if not 1e-150 < product < 1e150:  # one logarithm for many factors
                    total += np.log(product)
                    product = 1.0
    return total + np.log(product)  # type: ignore[no-any-return]


@kernel
def imbalance(layers: LayerArrays, point: Point) -> float:
    """The largest difference between what enters and what leaves a state, as a share of what leaves."""
    A, worst = layers.actions, 0.0
    for x in range(point.gradient.shape[0]):
        leaving = 0.0
        for a in range(A):
            leaving += point.mass[x * A + a]
        worst = max(worst, abs(point.gradient[x]) / leaving)
    return worst


@kernel
def curvature(layers: LayerArrays, point: Point, matrix: Floats) -> None:
    """The generalised Hessian of -D, lower triangle."""
    A, first, offset = layers.actions, layers.first, layers.offset
    n = point.gradient.shape[0]
    t, v = point.first, point.second
    matrix[:] = 0.0
    for h in range(first.shape[0] - 2):
        begin, S = first[h + 1], first[h + 2] - first[h + 1]
        for pair in range(first[h] * A, first[h + 1] * A):
            x, at, square = pair // A, offset[pair], point.mass[pair] * point.mass[pair]
            if begin == n:
                matrix[x, x] += square
                continue
            share, squares, fixed, largest = 0.0, 0.0, S, 0
            for j in range(S):
                p = point.rows[at + j]
                t[j], v[j] = p, 0.0
                largest = j if p > t[largest] else largest
                if point.free[at + j]:
                    share, squares, fixed, v[j] = share + p, squares + p * p, fixed - 1, p * p
            if fixed == S:  # a corner: as if its largest entry were free, alone
                p = t[largest]
                share, squares, fixed, v[largest] = p, p * p, S - 1, p * p
            evenness = squares / (share * share)
            for j in range(S):
                if v[j] > 0.0:
                    t[j] = v[j] * share / squares
                    v[j] *= square
            add_pair(matrix, x, begin, S, square * evenness / (1.0 + fixed * evenness), t, v, 1.0 / (square * squares))


@kernel
def certified_gap(program: Program, y: Floats, point: Point, q: Floats) -> float:
    """The objective cost.q - sum ln q minus the dual value y(x_0) + sum(1 + ln reduced cost).

    Any multipliers z1, z2 >= 0 of the bounds prove a dual value, with reduced costs r - z1 + z2 + sum(lower z1 -
    upper z2) over the row. Those of theta, z1 - z2 = r + theta - 1 / (M p), leave 1 / (M p) up to rounding.
    """
    A, first, offset = program.layers.actions, program.layers.first, program.layers.offset
    gap = -y[0]
    for h in range(first.shape[0] - 2):
        begin, S = first[h + 1], first[h + 2] - first[h + 1]
        for pair in range(first[h] * A, first[h + 1] * A):
            x, at, shift = pair // A, offset[pair], -point.theta[pair]
            for j in range(S):
                i = at + j
                point.first[j] = 1.0 / (point.mass[pair] * point.rows[i])
                z = program.cost[i] + y[begin + j] - y[x] + point.theta[pair] - point.first[j]
                shift += (program.lower[i] if z > 0.0 else program.upper[i]) * z
            product = 1.0
            for j in range(S):
                reduced = point.first[j] + shift
                if not reduced > 0.0:
                    return np.inf
                gap += program.cost[at + j] * q[at + j] - 1.0
                product *= q[at + j] * reduced
                if not 1e-150 < product < 1e150:
                    gap -= np.log(product)
                    product = 1.0
            gap -= np.log(product)
    return gap  # type: ignore[no-any-return]

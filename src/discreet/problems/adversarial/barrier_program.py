"""The log-barrier mirror step over occupancy measures, solved through a dual with one unknown per state.

Private-UOB-LBPS and other methods that learn from bandit losses step from q_k to

    argmin  eta <l, q> + sum_{x,a,x'} [ ln(q_k / q) + q / q_k - 1 ]
    over occupancy measures q with  lower q(x,a) <= q(x,a,x') <= upper q(x,a).

With c = eta l + 1 / q_k that is min c.q - sum ln q. Its dual has one unknown per state and, once each row (x, a) is
solved as a small problem of its own, no inequality left; Newton's method finds its maximum in a handful of steps with
matrices that couple neighbouring layers only.

y = 0 is exact where q_k lies in the box and the losses are nil, so a chain of steps starts there. Where q_k is far from
the box, a dynamic program with the rows held fixed moves y first; where that is not enough, costs grow from nothing.

Formal guarantees
    Whatever the accuracy of y, the policy and transitions read off it are feasible: rows lie in the box exactly and q
    comes from a forward pass. ``gap`` is the objective at q minus a dual value that multipliers prove: a bound on how
    far q is from optimal that does not rest on convergence.

Differences from the paper
    q_k is floored at 1e-14, where its reciprocal would drown everything else.

**The dual**: its value, gradient and curvature at multipliers y, and what they prove. The program is min cost.q - sum
ln q over the occupancy measures of a box. Give the flow through state x a free multiplier y(x), zero at x_H, and the
rows part: each one minimises sum_j (r_j q_j - ln q_j) in its own cone of the box, at prices r_j = cost_j + y(x'_j) -
y(x), a small problem that :mod:`discreet.worlds.planning.barrier_rows` solves to rounding. What is left,

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
from discreet.base.errors import InvalidInput
from discreet.base.types import ArrayLike, Floats, Mask
from discreet.base.validation import check_array, check_positive
from discreet.problems.adversarial.layers import (
    Box,
    LayerArrays,
    Layers,
    add_pair,
    check_box,
    envelope,
    factor_layered,
    forward,
    solve_layered,
)
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


_ITERATIONS = 100
_SMALLEST = 1e-14  # floor of the previous occupancy
_NEAR = 0.5  # a start whose flows are out of balance by less than this share is as good as any
_SWEEPS = 2  # of the dynamic program that finds another start
_HALVINGS = 40
_GROWTH = 4.0  # of the costs, from one program of a sequence to the next
_ROUGH = 0.01  # accuracy of the programs on the way


class BarrierSolution(NamedTuple):
    """What the barrier program returns; ``occupancy`` is the next step's previous one."""

    policy: Floats  # (states, actions)
    transitions: Floats  # flat, inside the box
    occupancy: Floats  # flat, of policy and transitions
    gap: float  # certified distance of the objective from its optimum
    iterations: int
    converged: bool


def solve_barrier_program(
    layers: Layers, losses: ArrayLike, rate: float, previous: ArrayLike, box: Box, *, tolerance: float = 1e-8
) -> BarrierSolution:
    """One log-barrier mirror step from the occupancy ``previous`` with loss estimates (states, actions) and a rate.

    The search stops when no state's flow is out of balance by more than the share ``tolerance`` of it.

    >>> from discreet.problems.adversarial.layers import confidence_box, occupancy
    >>> layers = Layers((1, 1), actions=2)
    >>> box = confidence_box(layers, layers.uniform_transitions(), 0.0)
    >>> solution = solve_barrier_program(layers, [[0.0, 1.5]], 1.0, [0.5, 0.5], box)
    >>> solution.policy.round(4)  # 1 / q = 1 / q_k + loss - 0.5
    array([[0.6667, 0.3333]])
    """
    table = check_array("losses", losses, (layers.states, layers.actions))
    last = check_array("previous", previous, (layers.triples,))
    lower, upper = check_box(layers, box)
    if upper.min() <= 0:
        raise InvalidInput("the upper bounds of the box must be above 0: the barrier keeps every transition possible")
    cost = layers.spread(check_positive("rate", rate) * table) + 1.0 / np.maximum(last, _SMALLEST)
    policy, transitions, q = (
        np.empty((layers.states, layers.actions)),
        np.empty(layers.triples),
        np.empty(layers.triples),
    )
    error, gap, iterations = barrier_step(
        layers.arrays, cost, lower, upper, check_positive("tolerance", tolerance), policy, transitions, q
    )
    return BarrierSolution(policy, transitions, q, gap, iterations, error <= tolerance)


@kernel
def barrier_step(
    layers: LayerArrays,
    cost: Floats,
    lower: Floats,
    upper: Floats,
    tolerance: float,
    policy: Floats,
    transitions: Floats,
    q: Floats,
) -> tuple[float, float, int]:
    """Minimise cost.q - sum ln q over the box; writes policy, transitions and q, returns (error, gap, iterations)."""
    n, A = policy.shape
    program = Program(layers, cost, lower, upper)
    point = new_point(n, transitions, A)
    y = np.zeros(n + 1)
    value = _start(program, y, policy, q, point)
    error, iterations = _newton(program, y, value, tolerance, point)
    if not error <= tolerance:  # a start from too far away
        error, more = _follow_costs(program, y, tolerance, point)
        iterations += more
    _read_policy(point, policy)
    forward(layers, transitions, policy, q)
    return error, certified_gap(program, y, point, q), iterations


@kernel
def _start(program: Program, y: Floats, policy: Floats, q: Floats, point: Point) -> float:
    """Write a first y with finite -D and return that; policy and q are workspaces."""
    value = evaluate(program, y, point)
    if not value < np.inf:  # some price is negative: let it pay to wait, layer by layer, until none is
        _raise_prices(program, y)
        value = evaluate(program, y, point)
    if imbalance(program.layers, point) <= _NEAR:
        return value  # type: ignore[no-any-return]
    n = policy.shape[0]
    far, trial = np.empty(n + 1), np.zeros(n + 1)
    for _ in range(_SWEEPS):
        _read_policy(point, policy)
        forward(program.layers, point.rows, policy, q)
        _price_states(program, point.rows, q, policy, far)
        share, moved = 1.0, np.inf
        while not moved < value and share > 0.05:
            for x in range(n):
                trial[x] = y[x] + share * (far[x] - y[x])
            moved = evaluate(program, trial, point)
            share *= 0.6
        if not moved < value:
            return evaluate(program, y, point)  # type: ignore[no-any-return]
        y[:] = trial
        value = moved
    return value  # type: ignore[no-any-return]


@kernel
def _raise_prices(program: Program, y: Floats) -> None:
    """y that falls from layer to layer by enough to leave every price at least one."""
    A, first, offset = program.layers.actions, program.layers.first, program.layers.offset
    total = 0.0
    for h in range(first.shape[0] - 3, -1, -1):
        lowest = program.cost[offset[first[h] * A] : offset[first[h + 1] * A]].min()
        total += max(1.0 - lowest, 0.0)
        y[first[h] : first[h + 1]] = -total


@kernel
def _price_states(program: Program, rows: Floats, q: Floats, ahead: Floats, y: Floats) -> None:
    """y for given rows and inflows q: what enters a state leaves by its pairs, of masses S / (cost to go - y(x)).

    ``ahead`` is the workspace of the costs to go, (states, actions).
    """
    A, first, offset = program.layers.actions, program.layers.first, program.layers.offset
    y[-1] = 0.0
    for h in range(first.shape[0] - 3, -1, -1):
        S = first[h + 2] - first[h + 1]
        for x in range(first[h], first[h + 1]):
            inflow, least = 0.0, np.inf
            for a in range(A):
                at = offset[x * A + a]
                ahead[x, a] = 0.0
                for j in range(S):
                    inflow += q[at + j]
                    ahead[x, a] += rows[at + j] * (program.cost[at + j] + y[first[h + 1] + j])
                least = min(least, ahead[x, a])
            y[x] = least - S / inflow
            for _ in range(20):  # the reciprocal of the outflow is nearly linear in y(x)
                outflow, slope = 0.0, 0.0
                for a in range(A):
                    mass = S / (ahead[x, a] - y[x])
                    outflow += mass
                    slope += mass * mass / S
                if abs(outflow - inflow) <= 1e-3 * inflow:
                    break
                y[x] += (outflow / inflow) * (inflow - outflow) / slope


@kernel
def _read_policy(point: Point, policy: Floats) -> None:
    n, A = policy.shape
    for x in range(n):
        leaving = point.mass[x * A : (x + 1) * A].sum()
        for a in range(A):
            policy[x, a] = point.mass[x * A + a] / leaving


@kernel
def _follow_costs(program: Program, y: Floats, tolerance: float, point: Point) -> tuple[float, int]:
    """Solve for costs that are next to nothing first and let them grow to the given ones; returns as ``_newton``."""
    A, first = program.layers.actions, program.layers.first
    y[:] = 0.0
    for h in range(first.shape[0] - 3, -1, -1):  # even rows everywhere
        y[first[h] : first[h + 1]] = y[first[h + 1]] - (first[h + 1] - first[h]) * A * (first[h + 2] - first[h + 1])
    share, growth = 1.0 / max(np.abs(program.cost).max(), 1.0), _GROWTH
    solved, last = share, y.copy()
    error, iterations = np.inf, 0
    while growth > 1.01:
        part = Program(program.layers, share * program.cost, program.lower, program.upper)
        final = share == 1.0
        error, more = _newton(part, y, evaluate(part, y, point), tolerance if final else _ROUGH, point)
        iterations += more
        if error <= _ROUGH:
            if final:
                break
            solved, last, growth = share, y.copy(), _GROWTH
        else:
            growth = np.sqrt(growth)
        share = min(solved * growth, 1.0)
        y[:] = last * (share / solved)  # prices grow with the costs, and none turns negative
    return error, iterations


@kernel
def _newton(program: Program, y: Floats, value: float, tolerance: float, point: Point) -> tuple[float, int]:
    """Damped Newton on -D from y, in place; returns (largest relative flow imbalance, iterations)."""
    n = point.gradient.shape[0]
    start, matrix = envelope(program.layers.first, n), np.zeros((n, n))
    step, trial = np.empty(n), np.zeros(n + 1)
    error = imbalance(program.layers, point)
    iterations = 0
    while error > tolerance and iterations < _ITERATIONS:
        iterations += 1
        curvature(program.layers, point, matrix)
        if not factor_layered(matrix, start, 0.0):
            break
        for x in range(n):
            step[x] = -point.gradient[x]
        solve_layered(matrix, start, step)
        slope = 0.0
        for x in range(n):
            slope += step[x] * point.gradient[x]
        share, accepted = 1.0, False
        for _ in range(_HALVINGS):
            for x in range(n):
                trial[x] = y[x] + share * step[x]
            moved = evaluate(program, trial, point)
            now = imbalance(program.layers, point)
            # Close to the optimum -D cannot resolve the decrease any more; the flow imbalance still can.
            flat = abs(moved - value) <= 1e-12 * (1.0 + abs(value)) and now < error
            if moved <= value + 1e-4 * share * slope or flat:
                accepted = True
                break
            # A barrier never fails at the share 1 / (1 + sqrt(-slope)); kinks where bounds take hold may need less.
            share *= 0.5 if share < 1.0 else min(0.5, 1.0 / (1.0 + np.sqrt(-slope)))
        if not accepted:
            evaluate(program, y, point)
            break
        y[:] = trial
        value, error = moved, now
    return error, iterations

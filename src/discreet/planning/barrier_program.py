"""The log-barrier mirror step over occupancy measures, by a primal-dual method with one unknown per state.

Private-UOB-LBPS and other methods that learn from bandit losses step from q_k to

    argmin  eta <l, q> + sum_{x,a,x'} [ ln(q_k / q) + q / q_k - 1 ]
    over occupancy measures q with  lower q(x,a) <= q(x,a,x') <= upper q(x,a).

With c = eta l + 1 / q_k that is a linear program, min c.q, at the point where q z0 = 1 for the multiplier z0 of q >= 0
while the multipliers z of the other slacks s vanish with them: s z = mu -> 0. Following that path needs only linear
systems. A row (x, a) is described by its mass M and the departures d_j from its present shape p = q / M, sum d = 0:

    q = p M + d,    q - lower M = s1 = (s1 / M) M + d,    upper M - q = s2 = (s2 / M) M - d,

so nothing cancels however thin the box, and the row's matrix is diagonal but for two rank-one terms: everything costs
O(size of the row). What is left couples neighbouring layers only.

Formal guarantees
    The iterates start and stay inside the feasible set. The transitions read off the last one are put back into the
    exact box and q comes from a forward pass, so the result is feasible whatever the accuracy. ``gap`` is the objective
    at q minus a dual value that the multipliers prove: a bound on how far q is from optimal.

Differences from the paper
    q_k is floored at 1e-14, where its reciprocal would drown everything else. While iterating, lower bounds are
    loosened and upper bounds raised by one part in 10^9, so that known rows have an interior too; the result obeys the
    bounds as given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.compiled import kernel
from discreet.errors import InvalidInput
from discreet.planning.layer_matrix import envelope, factor, solve
from discreet.planning.layered import Box, LayerArrays, Layers, check_box, forward
from discreet.validation import check_array, check_positive

Floats = NDArray[np.float64]

_ITERATIONS = 200
_SMALLEST = 1e-14  # floor of the previous occupancy
_LOOSEN = 1e-9  # relative room that every bound is given inside the method
_INTERIOR = 0.2  # share of the box's centre in the first point
_COMPLEMENTARITY = 0.1  # s z of the bounds in the first point
_BOUNDARY = 0.99  # how far towards the boundary a step may go


class BarrierSolution(NamedTuple):
    """What the barrier program returns; ``occupancy`` is the next step's previous one."""

    policy: Floats  # (states, actions)
    transitions: Floats  # flat, inside the box
    occupancy: Floats  # flat, of policy and transitions
    gap: float  # certified distance of the objective from its optimum
    iterations: int
    converged: bool


class _Iterate(NamedTuple):
    """The point and its multipliers, flat over (x, a, x') but for ``y``; a bound with a multiplier of zero is none."""

    q: Floats
    s1: Floats
    s2: Floats
    z0: Floats
    z1: Floats
    z2: Floats
    y: Floats  # (states,) of the flow constraints


class _Rows(NamedTuple):
    """The inverse of each row's matrix in (M, d), see ``_invert_rows``, and the step that it gives."""

    over_q: Floats  # flat: 1 / q, and 1 / s1, 1 / s2 below: every part of a step divides by them
    over_s1: Floats
    over_s2: Floats
    cross: Floats  # flat: (z0 + z1 - z2) / M, what ties d to M
    answer: Floats  # flat: the departures that follow a unit of M, K cross
    spread: Floats  # flat: 1 / h, the give of each departure
    pivot: NDArray[np.int64]  # (pairs,) the entry with the most give, written as minus the sum of the others
    keep: Floats  # (pairs,) 1 / (1 + h_pivot * the give of the others)
    give: Floats  # (pairs,) the give of M when d follows
    mass: Floats  # (pairs,) M
    mass_step: Floats  # (pairs,) dM
    departure: Floats  # flat: dd


def solve_barrier_program(
    layers: Layers, losses: ArrayLike, rate: float, previous: ArrayLike, box: Box, *, tolerance: float = 1e-8
) -> BarrierSolution:
    """One log-barrier mirror step from the occupancy ``previous`` with loss estimates (states, actions) and a rate.

    ``tolerance`` bounds the relative error of the stationarity conditions at the last point.

    >>> from discreet.planning.layered import confidence_box, occupancy
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
        layers.arrays, cost, last, lower, upper, check_positive("tolerance", tolerance), policy, transitions, q
    )
    return BarrierSolution(policy, transitions, q, gap, iterations, error <= tolerance)


@kernel
def barrier_step(
    layers: LayerArrays,
    cost: Floats,
    previous: Floats,
    lower: Floats,
    upper: Floats,
    tolerance: float,
    policy: Floats,
    transitions: Floats,
    q: Floats,
) -> tuple[float, float, int]:
    """Minimise cost.q - sum ln q over the box; writes policy, transitions and q, returns (error, gap, iterations)."""
    n, N, pairs = policy.shape[0], cost.shape[0], policy.size
    loose_lower, loose_upper = lower * (1.0 - _LOOSEN), np.minimum(1.0, upper * (1.0 + _LOOSEN))
    point = _Iterate(np.empty(N), np.empty(N), np.empty(N), np.empty(N), np.zeros(N), np.zeros(N), np.zeros(n))
    rows = _Rows(
        np.empty(N),
        np.empty(N),
        np.empty(N),
        np.empty(N),
        np.empty(N),
        np.empty(N),
        np.empty(pairs, dtype=np.int64),
        np.empty(pairs),
        np.empty(pairs),
        np.empty(pairs),
        np.empty(pairs),
        np.empty(N),
    )
    start, matrix, flow = envelope(layers.first, n), np.zeros((n, n)), np.empty(n)
    _first_point(layers, previous, lower, upper, loose_lower, loose_upper, point, policy, transitions)
    centring, error, iterations = 0.2, np.inf, 0
    for _ in range(_ITERATIONS):
        error, average = _errors(layers, cost, loose_lower, loose_upper, point)
        if error <= tolerance:
            break
        iterations += 1
        target = centring * average
        _invert_rows(layers, point, rows)
        _respond(layers, cost, target, point.y, point, rows)
        _assemble(layers, point, rows, matrix, flow)
        if not factor(matrix, start, 0.0):
            break
        solve(matrix, start, flow)
        flow += point.y
        _respond(layers, cost, target, flow, point, rows)
        length = _advance(layers, target, flow, point, rows)
        centring = 0.01 if length > 0.9 else (0.2 if length > 0.5 else 0.5)
    _read_out(layers, point.q, lower, upper, policy, transitions)
    forward(layers, transitions, policy, q)
    return error, _gap(layers, cost, lower, upper, point, q), iterations


@kernel
def _first_point(
    layers: LayerArrays,
    previous: Floats,
    lower: Floats,
    upper: Floats,
    loose_lower: Floats,
    loose_upper: Floats,
    point: _Iterate,
    policy: Floats,
    transitions: Floats,
) -> None:
    """The previous policy, its transitions brought into the box and a little towards the middle of it."""
    floored = np.maximum(previous, _SMALLEST)
    _read_out(layers, floored, lower, upper, policy, transitions)
    offset = layers.offset
    for pair in range(offset.shape[0] - 1):
        begin, end = offset[pair], offset[pair + 1]
        least, most = 0.0, 0.0
        for i in range(begin, end):
            least += lower[i]
            most += upper[i]
        along = min(max((1.0 - least) / (most - least), 0.0), 1.0) if most > least else 0.0
        for i in range(begin, end):
            middle = lower[i] + along * (upper[i] - lower[i])
            transitions[i] = (1.0 - _INTERIOR) * transitions[i] + _INTERIOR * middle
    forward(layers, transitions, policy, point.q)
    for pair in range(offset.shape[0] - 1):
        begin, end = offset[pair], offset[pair + 1]
        mass = point.q[begin:end].sum()
        for i in range(begin, end):
            point.z0[i] = 1.0 / point.q[i]
            point.s1[i] = point.s2[i] = 1.0  # of bounds that are none: never read, but divided by
            if end - begin > 1 and lower[i] > 0.0:
                point.s1[i] = (transitions[i] - loose_lower[i]) * mass
                point.z1[i] = _COMPLEMENTARITY / point.s1[i]
            if end - begin > 1 and loose_upper[i] < 1.0:
                point.s2[i] = (loose_upper[i] - transitions[i]) * mass
                point.z2[i] = _COMPLEMENTARITY / point.s2[i]


@kernel
def _errors(layers: LayerArrays, cost: Floats, lower: Floats, upper: Floats, point: _Iterate) -> tuple[float, float]:
    """(the worst relative breach of the optimality conditions, the mean of s z over the bounds)."""
    worst, total, bounds = 0.0, 0.0, 0
    reduced = np.empty(cost.shape[0])
    _reduced_cost(layers, cost, lower, upper, point, reduced)
    for i in range(cost.shape[0]):
        worst = max(worst, abs(point.q[i] * (reduced[i] - point.z0[i])), abs(point.q[i] * point.z0[i] - 1.0))
        total += point.z1[i] * point.s1[i] + point.z2[i] * point.s2[i]
        bounds += (point.z1[i] > 0.0) + (point.z2[i] > 0.0)
    return max(worst, total), total / max(bounds, 1)


@kernel
def _reduced_cost(
    layers: LayerArrays, cost: Floats, lower: Floats, upper: Floats, point: _Iterate, reduced: Floats
) -> None:
    """The gradient of the Lagrangian without the barrier: at the optimum it equals 1 / q."""
    A, first, offset = layers.actions, layers.first, layers.offset
    n = point.y.shape[0]
    for h in range(first.shape[0] - 2):
        S = first[h + 2] - first[h + 1]
        for pair in range(first[h] * A, first[h + 1] * A):
            at = offset[pair]
            pull = -point.y[pair // A]
            for i in range(at, at + S):
                pull += lower[i] * point.z1[i] - upper[i] * point.z2[i]
            for j in range(S):
                i = at + j
                behind = point.y[first[h + 1] + j] if first[h + 1] < n else 0.0
                reduced[i] = cost[i] + pull - point.z1[i] + point.z2[i] + behind


@kernel
def _invert_rows(layers: LayerArrays, point: _Iterate, rows: _Rows) -> None:
    """Invert each row's matrix in the unknowns (M, d).

    With h = z0/q + z1/s1 + z2/s2 the matrix has sum(z0 q + z1 s1 + z2 s2) / M^2 for M, (z0 + z1 - z2) / M between M
    and d, and diag(h) for d. The departure with the smallest h is minus the sum of the others, whose matrix
    diag(h) + h_min 1 1^T inverts by Sherman-Morrison without cancellation: K below.
    """
    offset = layers.offset
    for pair in range(offset.shape[0] - 1):
        begin, end = offset[pair], offset[pair + 1]
        mass, weight, best, others = 0.0, 0.0, begin, 0.0
        for i in range(begin, end):
            mass += point.q[i]
            weight += point.z0[i] * point.q[i] + point.z1[i] * point.s1[i] + point.z2[i] * point.s2[i]
            rows.over_q[i], rows.over_s1[i], rows.over_s2[i] = 1.0 / point.q[i], 1.0 / point.s1[i], 1.0 / point.s2[i]
            stiffness = point.z0[i] * rows.over_q[i] + point.z1[i] * rows.over_s1[i] + point.z2[i] * rows.over_s2[i]
            rows.spread[i] = 1.0 / stiffness
            if rows.spread[i] > rows.spread[best]:
                best = i
        per_mass = 1.0 / mass
        for i in range(begin, end):
            rows.cross[i] = (point.z0[i] + point.z1[i] - point.z2[i]) * per_mass
            others += rows.spread[i] if i != best else 0.0
        rows.mass[pair] = mass
        rows.pivot[pair] = best
        rows.keep[pair] = 1.0 / (1.0 + others / rows.spread[best])
        energy = _relax(rows.spread, best, rows.keep[pair], begin, end, rows.cross, rows.answer)
        rows.give[pair] = 1.0 / (weight / (mass * mass) - energy)


@kernel
def _relax(spread: Floats, best: int, keep: float, begin: int, end: int, force: Floats, departure: Floats) -> float:
    """Write the departures d = K force, sum d = 0, of one row and return force.K.force."""
    pull = 0.0
    for i in range(begin, end):
        if i != best:
            departure[i] = spread[i] * (force[i] - force[best])
            pull += departure[i]
    pull *= keep / spread[best]
    total, energy = 0.0, 0.0
    for i in range(begin, end):
        if i != best:
            departure[i] -= spread[i] * pull
            total += departure[i]
            energy += departure[i] * (force[i] - force[best])
    departure[best] = -total
    return energy


@kernel
def _respond(layers: LayerArrays, cost: Floats, target: float, y: Floats, point: _Iterate, rows: _Rows) -> None:
    """The step (dM, dd) of every row towards q z0 = 1 and s z = target, were the flow multipliers y."""
    A, first, offset = layers.actions, layers.first, layers.offset
    force = np.empty(cost.shape[0])
    for h in range(first.shape[0] - 2):
        for pair in range(first[h] * A, first[h + 1] * A):
            begin, end = offset[pair], offset[pair + 1]
            mass_force, per_mass = y[pair // A], 1.0 / rows.mass[pair]
            for i in range(begin, end):
                x = first[h + 1] + i - begin
                force[i] = rows.over_q[i] - cost[i] - (y[x] if x < y.shape[0] else 0.0)
                mass_force += force[i] * point.q[i] * per_mass
                if point.z1[i] > 0.0:
                    force[i] += target * rows.over_s1[i]
                    mass_force += target * per_mass
                if point.z2[i] > 0.0:
                    force[i] -= target * rows.over_s2[i]
                    mass_force += target * per_mass
            _relax(rows.spread, rows.pivot[pair], rows.keep[pair], begin, end, force, rows.departure)
            for i in range(begin, end):
                mass_force -= rows.cross[i] * rows.departure[i]
            rows.mass_step[pair] = rows.give[pair] * mass_force
            for i in range(begin, end):
                rows.departure[i] -= rows.answer[i] * rows.mass_step[pair]


@kernel
def _assemble(layers: LayerArrays, point: _Iterate, rows: _Rows, matrix: Floats, flow: Floats) -> None:
    """The system for the change of y: its matrix sums give (e_x - t)(e_x - t)^T + K over rows, t = q / M - answer; its
    right-hand side is the imbalance of flow that the step at the present y would leave."""
    A, first, offset = layers.actions, layers.first, layers.offset
    n = flow.shape[0]
    matrix[:] = 0.0
    flow[:] = 0.0
    flow[0] = 1.0
    shift = np.empty(point.q.shape[0])
    for h in range(first.shape[0] - 2):
        for pair in range(first[h] * A, first[h + 1] * A):
            x, give, keep = pair // A, rows.give[pair], rows.keep[pair]
            matrix[x, x] += give
            flow[x] -= rows.mass[pair] + rows.mass_step[pair]
            if first[h + 1] == n:
                continue
            at = offset[pair] - first[h + 1]
            best = rows.pivot[pair]
            stiff, others, per_mass = keep / rows.spread[best], 0.0, 1.0 / rows.mass[pair]
            for i in range(first[h + 1], first[h + 2]):
                k = at + i
                shape = point.q[k] * per_mass
                shift[k] = shape - rows.answer[k]
                flow[i] += point.q[k] + shape * rows.mass_step[pair] + rows.departure[k]
                matrix[i, x] -= give * shift[k]
                for j in range(first[h + 1], i + 1):
                    matrix[i, j] += give * shift[k] * shift[at + j]
                if k != best:
                    others += rows.spread[k]
                    matrix[i, i] += rows.spread[k]
                    for j in range(first[h + 1], i + 1):
                        if at + j != best:
                            matrix[i, j] -= stiff * rows.spread[k] * rows.spread[at + j]
            centre = best - at
            matrix[centre, centre] += keep * others
            for i in range(first[h + 1], first[h + 2]):
                if i != centre:
                    matrix[max(i, centre), min(i, centre)] -= keep * rows.spread[at + i]


@kernel
def _advance(layers: LayerArrays, target: float, y: Floats, point: _Iterate, rows: _Rows) -> float:
    """Move the point and, by a step length of their own, its multipliers; returns the shorter length."""
    offset = layers.offset
    N = point.q.shape[0]
    dq, ds1, ds2 = np.empty(N), np.empty(N), np.empty(N)
    dz0, dz1, dz2 = np.empty(N), np.empty(N), np.empty(N)
    shrink, dual = 1e-300, 1.0
    for pair in range(offset.shape[0] - 1):
        growth = rows.mass_step[pair] / rows.mass[pair]
        for i in range(offset[pair], offset[pair + 1]):
            dq[i] = point.q[i] * growth + rows.departure[i]
            ds1[i] = point.s1[i] * growth + rows.departure[i]
            ds2[i] = point.s2[i] * growth - rows.departure[i]
            dz0[i] = rows.over_q[i] * (1.0 - point.z0[i] * dq[i]) - point.z0[i]
            dz1[i] = rows.over_s1[i] * (target - point.z1[i] * ds1[i]) - point.z1[i]
            dz2[i] = rows.over_s2[i] * (target - point.z2[i] * ds2[i]) - point.z2[i]
            shrink = max(shrink, -dq[i] * rows.over_q[i])
            dual = min(dual, _room(point.z0[i], dz0[i]))
            if point.z1[i] > 0.0:
                shrink = max(shrink, -ds1[i] * rows.over_s1[i])
                dual = min(dual, _room(point.z1[i], dz1[i]))
            if point.z2[i] > 0.0:
                shrink = max(shrink, -ds2[i] * rows.over_s2[i])
                dual = min(dual, _room(point.z2[i], dz2[i]))
    primal = min(1.0, _BOUNDARY / shrink)
    for i in range(N):
        point.q[i] += primal * dq[i]
        point.z0[i] += dual * dz0[i]
        if point.z1[i] > 0.0:
            point.s1[i] += primal * ds1[i]
            point.z1[i] += dual * dz1[i]
        if point.z2[i] > 0.0:
            point.s2[i] += primal * ds2[i]
            point.z2[i] += dual * dz2[i]
    for x in range(y.shape[0]):
        point.y[x] += dual * (y[x] - point.y[x])
    return min(primal, dual)


@kernel
def _room(value: float, change: float) -> float:
    """The step length that takes a positive value most of the way to zero."""
    return -_BOUNDARY * value / change if change < 0.0 else 1.0


@kernel
def _read_out(
    layers: LayerArrays, q: Floats, lower: Floats, upper: Floats, policy: Floats, transitions: Floats
) -> None:
    """The policy and transitions of q, each row of the latter put into the box exactly."""
    A, offset = layers.actions, layers.offset
    for x in range(policy.shape[0]):
        visits = q[offset[x * A] : offset[(x + 1) * A]].sum()
        for a in range(A):
            begin, end = offset[x * A + a], offset[x * A + a + 1]
            mass, total = q[begin:end].sum(), 0.0
            policy[x, a] = mass / visits
            for i in range(begin, end):
                transitions[i] = min(max(q[i] / mass, lower[i]), upper[i])
                total += transitions[i]
            room = 0.0
            for i in range(begin, end):
                room += upper[i] - transitions[i] if total < 1.0 else transitions[i] - lower[i]
            share = min(abs(1.0 - total) / room, 1.0) if room > 0.0 else 0.0
            for i in range(begin, end):
                transitions[i] += share * ((upper[i] if total < 1.0 else lower[i]) - transitions[i])


@kernel
def _gap(layers: LayerArrays, cost: Floats, lower: Floats, upper: Floats, point: _Iterate, q: Floats) -> float:
    """The objective cost.q - sum ln q minus the dual value sum(1 + ln reduced cost) + y(x_0)."""
    reduced = np.empty(cost.shape[0])
    _reduced_cost(layers, cost, lower, upper, point, reduced)
    gap = -point.y[0]
    for i in range(cost.shape[0]):
        if not reduced[i] > 0.0:
            return np.inf
        gap += cost[i] * q[i] - 1.0 - np.log(q[i] * reduced[i])
    return gap  # type: ignore[no-any-return]

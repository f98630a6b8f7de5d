"""The entropy program over occupancy measures, solved through a dual with one unknown per state.

Private-UC-O-REPS and every other method with relative entropy deploys in each episode the policy of

    minimise  sum_{x,a,x'} q (ln q - ref)    over occupancy measures with  lower q(x,a) <= q(x,a,x') <= upper q(x,a).

Follow-the-regularised-leader has ref = -eta L, a mirror-descent step from q_k has ref = ln q_k - eta l. Write
q(x,a,x') = m(x,a) p(x'|x,a), give the flow through state x a free multiplier y(x) (zero at both ends), and the bounds
leave the dual for good, because for given y every row is a small problem of its own:

    g(x,a; y) = max { sum_j p_j (y(x'_j) + ref_j - ln p_j) : lower <= p <= upper, sum p = 1 },
    F(y)      = sum_h ln sum_{(x,a) in h} exp(g(x,a; y) - y(x)),        optimal value = -min_y F(y).

F is convex and once differentiable; its gradient is what enters minus what leaves a state. Row problems are solved
exactly by fixing entries at their bounds (p_j = exp(theta + w_j) elsewhere), F by a damped semismooth Newton method
whose matrix couples neighbouring layers only, from a soft dynamic program that already has the scale of y right. This
replaces the dual of Jin et al. (2020) and of the private version, which keeps two multipliers per bound and needs
thousands of first-order steps.

Formal guarantees
    Whatever the accuracy of y, the policy and transitions read off it are feasible: rows lie in the box exactly and q
    comes from a forward pass. ``gap`` is the objective at q minus the dual value -F(y), a bound on how far q is from
    optimal that does not rest on convergence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput
from discreet.base.types import ArrayLike, Floats, Integers, Mask
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

_ITERATIONS = 200
_STEP_CAP = 20.0  # largest change of a multiplier in one step: e^20 is a world away already
_DAMPING = 1e-9  # smallest relative Levenberg-Marquardt term
_FLOOR = 1e-6  # states of next to no mass are damped as if they had this share of the largest curvature
_GAUGE = 1e-3  # y is free up to a constant per layer; this share of the largest curvature pins it
_SMALLEST = 1e-300  # the smallest occupancy that a logarithm is taken of


class EntropySolution(NamedTuple):
    """What the entropy program returns; ``dual`` warm-starts the next one."""

    policy: Floats  # (states, actions)
    transitions: Floats  # flat, inside the box
    occupancy: Floats  # flat, of policy and transitions
    dual: Floats  # (states + 1,)
    residual: float  # largest flow imbalance at the dual point
    gap: float  # certified distance of the objective from its optimum
    iterations: int
    converged: bool


def solve_entropy_program(
    layers: Layers, reference: ArrayLike, box: Box, *, start: ArrayLike | None = None, tolerance: float = 1e-9
) -> EntropySolution:
    """Minimise sum q (ln q - reference) over the occupancy measures of the box.

    ``reference`` is flat over (x, a, x'); ``start`` is the dual of a nearby program; a search from it that fails begins
    again without it. The search stops when no state's flow is out of balance by more than ``tolerance``.

    >>> from discreet.problems.adversarial.layers import confidence_box
    >>> layers = Layers((1, 2, 1), actions=1)
    >>> box = confidence_box(layers, layers.uniform_transitions(), 0.1)
    >>> solution = solve_entropy_program(layers, [0.0, 5.0, 0.0, 0.0], box)
    >>> solution.transitions.round(6)
    array([0.4, 0.6, 1. , 1. ])
    """
    ref = check_array("reference", reference, (layers.triples,))
    lower, upper = check_box(layers, box)
    y = np.empty(layers.states + 1)
    if start is None:
        cold_start(layers.arrays, ref, lower, upper, y)
    else:
        y[:] = check_array("start", start, (layers.states + 1,))
    policy, transitions, q = (
        np.empty((layers.states, layers.actions)),
        np.empty(layers.triples),
        np.empty(layers.triples),
    )
    residual, gap, iterations = entropy_step(
        layers.arrays, ref, lower, upper, y, check_positive("tolerance", tolerance), policy, transitions, q
    )
    return EntropySolution(policy, transitions, q, y, residual, gap, iterations, residual <= tolerance)


def leader_reference(layers: Layers, losses: ArrayLike, rate: float) -> Floats:
    """The reference of follow-the-regularised-leader: minus the rate times cumulated losses (states, actions)."""
    return layers.spread(-rate * check_array("losses", losses, (layers.states, layers.actions)))


def mirror_reference(layers: Layers, previous: ArrayLike, losses: ArrayLike, rate: float) -> Floats:
    """The reference of a mirror-descent step from the occupancy measure ``previous`` (floored at 1e-300)."""
    q = check_array("previous", previous, (layers.triples,))
    if q.min() < 0:
        raise InvalidInput(f"previous must be an occupancy measure without negative entries, got {q.min():g}")
    return np.log(np.maximum(q, _SMALLEST)) + leader_reference(layers, losses, rate)


class _Point(NamedTuple):
    """F and its derivatives' ingredients at one y; filled in place."""

    rows: Floats  # flat: the maximisers p
    free: Mask  # flat: entries strictly between their bounds
    free_mass: Floats  # (pairs,) their mass in each row
    score: Floats  # (pairs,) g - y(x)
    mass: Floats  # (pairs,) softmax of the scores over a layer
    gradient: Floats  # (states,) inflow - outflow


@kernel
def entropy_step(
    layers: LayerArrays,
    ref: Floats,
    lower: Floats,
    upper: Floats,
    y: Floats,
    tolerance: float,
    policy: Floats,
    transitions: Floats,
    q: Floats,
) -> tuple[float, float, int]:
    """Solve from y (overwritten), write policy, transitions and q, and return (residual, gap, iterations)."""
    states, variables = policy.shape[0], ref.shape[0]
    point = _Point(
        transitions,
        np.empty(variables, dtype=np.bool_),
        np.empty(states * layers.actions),
        np.empty(states * layers.actions),
        np.empty(states * layers.actions),
        np.empty(states),
    )
    residual, iterations = _newton(layers, ref, lower, upper, y, tolerance, point)
    if not residual <= tolerance:  # a start from too far away
        cold_start(layers, ref, lower, upper, y)
        residual, more = _newton(layers, ref, lower, upper, y, tolerance, point)
        iterations += more
    value = _evaluate(layers, ref, lower, upper, y, point)
    _read_policy(layers, point.score, policy)
    forward(layers, transitions, policy, q)
    objective = 0.0
    for i in range(variables):
        if q[i] > 0.0:
            objective += q[i] * (np.log(q[i]) - ref[i])
    return residual, objective + value, iterations


@kernel
def cold_start(layers: LayerArrays, ref: Floats, lower: Floats, upper: Floats, y: Floats) -> None:
    """Write a first guess into y: at the optimum y(x) = ln sum_a e^g(x,a) - ln q(x) up to a constant per layer.

    The first pass takes q(x) for equal within a layer, the second has it from the first one's policy.
    """
    A, first, offset = layers.actions, layers.first, layers.offset
    n = first[-1] - 1
    rows, free, w = np.empty(ref.shape[0]), np.empty(ref.shape[0], dtype=np.bool_), np.empty(ref.shape[0])
    score, policy, q = np.empty(n * A), np.empty((n, A)), np.empty(ref.shape[0])
    reach = np.ones(n)
    y[n] = 0.0
    for sweep in range(2):
        for h in range(first.shape[0] - 3, -1, -1):
            S = first[h + 2] - first[h + 1]
            for x in range(first[h], first[h + 1]):
                top = -np.inf
                for pair in range(x * A, (x + 1) * A):
                    for j in range(S):
                        w[j] = y[first[h + 1] + j] + ref[offset[pair] + j]
                    score[pair], _ = tilt_row(w, lower, upper, offset[pair], S, rows, free)
                    top = max(top, score[pair])
                total = 0.0
                for pair in range(x * A, (x + 1) * A):
                    total += np.exp(score[pair] - top)
                y[x] = top + np.log(total) - np.log(max(reach[x], 1e-100))
        if sweep == 0:
            _read_policy(layers, score, policy)
            forward(layers, rows, policy, q)
            reach[:] = 0.0
            for x in range(n):
                for i in range(offset[x * A], offset[(x + 1) * A]):
                    reach[x] += q[i]
    y[0] = 0.0


@kernel
def _newton(
    layers: LayerArrays, ref: Floats, lower: Floats, upper: Floats, y: Floats, tolerance: float, point: _Point
) -> tuple[float, int]:
    """Damped semismooth Newton on F from y, in place; returns (largest flow imbalance, iterations)."""
    n = point.gradient.shape[0]
    start = envelope(layers.first, n)
    hessian, matrix = np.zeros((n, n)), np.zeros((n, n))
    step, trial = np.empty(n), np.zeros(n + 1)
    damping = _DAMPING
    value = _evaluate(layers, ref, lower, upper, y, point)
    residual = np.abs(point.gradient).max()
    iterations = 0
    while residual > tolerance and iterations < _ITERATIONS and damping < 1e8:
        iterations += 1
        _curvature(layers, point, hessian)
        largest = _FLOOR  # where every layer has settled on one pair, F is linear and has no curvature at all
        for i in range(1, n):
            largest = max(largest, hessian[i, i])
        _damped(layers.first, hessian, start, damping, largest, matrix)
        if not factor_layered(matrix, start, 1e-14):
            damping *= 100.0
            continue
        for i in range(n):
            step[i] = -point.gradient[i]
        solve_layered(matrix, start, step)
        scale = min(1.0, _STEP_CAP / max(np.abs(step).max(), 1e-300))
        slope = 0.0
        for i in range(n):
            slope += step[i] * point.gradient[i]
        accepted = False
        for _ in range(6):
            for i in range(n):
                trial[i] = y[i] + scale * step[i]
            moved = _evaluate(layers, ref, lower, upper, trial, point)
            now = np.abs(point.gradient).max()
            # Close to the optimum F cannot resolve the decrease any more; the flow imbalance still can.
            flat = abs(moved - value) <= 1e-13 * (1.0 + abs(value)) and now < residual
            if moved <= value + 1e-4 * scale * slope or flat:
                accepted = True
                break
            scale *= 0.4
        if accepted:
            y[:] = trial
            value, residual = moved, now
            damping = max(_DAMPING, 0.1 * damping if scale > 0.5 else damping)
        else:
            damping = max(1e-6, 30.0 * damping)
            value = _evaluate(layers, ref, lower, upper, y, point)
    return residual, iterations


@kernel
def _evaluate(layers: LayerArrays, ref: Floats, lower: Floats, upper: Floats, y: Floats, point: _Point) -> float:
    """F(y); fills the point."""
    A, first, offset = layers.actions, layers.first, layers.offset
    w = np.empty(ref.shape[0])
    total = 0.0
    point.gradient[:] = 0.0
    for h in range(first.shape[0] - 2):
        S = first[h + 2] - first[h + 1]
        top = -np.inf
        for pair in range(first[h] * A, first[h + 1] * A):
            at = offset[pair]
            for j in range(S):
                w[j] = y[first[h + 1] + j] + ref[at + j]
            value, mass = tilt_row(w, lower, upper, at, S, point.rows, point.free)
            point.free_mass[pair] = mass
            point.score[pair] = value - y[pair // A]
            top = max(top, point.score[pair])
        weight = 0.0
        for pair in range(first[h] * A, first[h + 1] * A):
            point.mass[pair] = np.exp(point.score[pair] - top)
            weight += point.mass[pair]
        total += top + np.log(weight)
        for pair in range(first[h] * A, first[h + 1] * A):
            point.mass[pair] /= weight
            point.gradient[pair // A] -= point.mass[pair]
            if first[h + 1] < point.gradient.shape[0]:
                for j in range(S):
                    point.gradient[first[h + 1] + j] += point.mass[pair] * point.rows[offset[pair] + j]
    point.gradient[0] = 0.0
    return total


@kernel
def tilt_row(w: Floats, lower: Floats, upper: Floats, at: int, S: int, p: Floats, free: Mask) -> tuple[float, float]:
    """Maximise sum p (w - ln p) over lower <= p <= upper, sum p = 1; returns (value, mass of the free entries).

    Starts with every entry free, p proportional to e^w. Where cutting p to its bounds would add mass, the entries below
    their lower bound are there at the optimum too and are fixed; where it would take mass away, those above their upper
    bound are. Every pass fixes an entry, so there are at most S passes. Row ``at``..``at + S`` of p and free is
    written; w is read from its beginning.
    """
    if S == 1:
        p[at], free[at] = 1.0, False
        return w[0], 0.0
    top = w[0]
    for j in range(S):
        top = max(top, w[j])
        free[at + j] = True
    rest, left, scale = 1.0, S, 1.0
    weights = np.empty(S)
    for j in range(S):
        weights[j] = np.exp(w[j] - top)
    for _ in range(S):
        if left == 0:
            break
        total = 0.0
        for j in range(S):
            if free[at + j]:
                total += weights[j]
        if total < 1e-100:  # the entries that set the scale are fixed by now: move the scale to those left
            top = -np.inf
            for j in range(S):
                if free[at + j]:
                    top = max(top, w[j])
            total = 0.0
            for j in range(S):
                if free[at + j]:
                    weights[j] = np.exp(w[j] - top)
                    total += weights[j]
        scale = rest / total
        short, over = 0.0, 0.0
        for j in range(S):
            i = at + j
            if free[i]:
                p[i] = weights[j] * scale
                short += max(lower[i] - p[i], 0.0)
                over += max(p[i] - upper[i], 0.0)
        if short == 0.0 and over == 0.0:
            break
        for j in range(S):
            i = at + j
            if free[i] and ((short > over and p[i] < lower[i]) or (short <= over and p[i] > upper[i])):
                p[i] = lower[i] if short > over else upper[i]
                free[i] = False
                rest -= p[i]
                left -= 1
        if rest <= 0.0:  # only by rounding, in a box with next to no room
            for i in range(at, at + S):
                if free[i]:
                    p[i], free[i] = lower[i], False
            left = 0
    value, mass = 0.0, 0.0
    for j in range(S):
        i = at + j
        if free[i]:
            mass += p[i]
        elif p[i] > 0.0:
            value += p[i] * (w[j] - np.log(p[i]))
    if left > 0:
        value += mass * (top - np.log(scale))
    return value, mass


@kernel
def _curvature(layers: LayerArrays, point: _Point, hessian: Floats) -> None:
    """The generalised Hessian of F, lower triangle; the state x_0, which is no unknown, gets a row of its own."""
    A, first, offset = layers.actions, layers.first, layers.offset
    n = point.gradient.shape[0]
    hessian[:] = 0.0
    reach, inflow, p, k = np.zeros(n), np.zeros(n), np.empty(n), np.empty(n)
    for h in range(first.shape[0] - 2):
        begin, end = first[h + 1], min(first[h + 2], n)
        for pair in range(first[h] * A, first[h + 1] * A):
            x, m, at = pair // A, point.mass[pair], offset[pair]
            reach[x] += m
            for j in range(end - begin):
                p[j] = point.rows[at + j]
                k[j] = m * p[j] if point.free[at + j] else 0.0
                inflow[begin + j] += m * p[j]
            loose = m * point.free_mass[pair]
            add_pair(hessian, x, begin, end - begin, m, p, k, 1.0 / loose if loose > _SMALLEST else 0.0)
        for i in range(max(first[h], 1), end):
            mean = inflow[i] if i >= begin else -reach[i]
            for j in range(max(first[h], 1), i + 1):
                hessian[i, j] -= mean * (inflow[j] if j >= begin else -reach[j])
    hessian[:, 0] = 0.0
    hessian[0, 0] = 1.0


@kernel
def _damped(
    first: Integers,
    hessian: Floats,
    start: Integers,
    damping: float,
    largest: float,
    matrix: Floats,
) -> None:
    """The Hessian with its gauge pinned and its diagonal raised."""
    for h in range(first.shape[0] - 2):
        for i in range(first[h], first[h + 1]):
            for j in range(start[i], i + 1):
                matrix[i, j] = hessian[i, j]
                if j >= first[h] and h > 0:
                    matrix[i, j] += _GAUGE * largest
            matrix[i, i] += damping * max(hessian[i, i], _FLOOR * largest)


@kernel
def _read_policy(layers: LayerArrays, score: Floats, policy: Floats) -> None:
    """pi(a|x) proportional to e^score: in logarithms, so that states of no mass have a policy as well."""
    A = layers.actions
    for x in range(policy.shape[0]):
        top = -np.inf
        for a in range(A):
            top = max(top, score[x * A + a])
        total = 0.0
        for a in range(A):
            policy[x, a] = np.exp(score[x * A + a] - top)
            total += policy[x, a]
        for a in range(A):
            policy[x, a] /= total

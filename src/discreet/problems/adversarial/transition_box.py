r"""From released counts to a box that holds the true transitions of a layered world, and how far it lets a policy go.

Noisy counts c(x,a,x') are first made into counts that could be (:mod:`discreet.worlds.planning.count_projection`): with
w a bound on the noise in a row's sum and E = 4 w, the projected counts n and

    N(x,a) = sum n + E / 2,    N(x,a,x') = n + E / (2 X'),    P = N(x,a,x') / N(x,a)

satisfy N_true <= N <= N_true + E and |N(x,a,x') - N_true(x,a,x')| <= E whenever the noise obeys its bounds. Without
noise E = 0 and all of this is the identity. The box is P -+ beta, cut to [0, 1]; before any data it is [0, 1].

``corrected`` (default): empirical Bernstein for the true frequencies, and what the noise can have moved. With
L = ln(2 C K / p) for C unknown triples and M = N - E, which is at most the true count,

    beta = sqrt(2 (P (1 - P) + 2 E / N) L / (M - 1)) + 7 L / (3 (M - 1)) + 2 E / N.

    Why: |P - P_true_frequency| <= 2 E / N, so its variance is at most P (1 - P) + 2 E / N, and M - 1 is at most the
    count that Maurer and Pontil's bound divides by.
``published``: sqrt(2 P (1 - P) L / N) + (4 E + 7 L) / N with L = ln(X A K / p), as printed; see docs/adversarial.md.
``l1``: the smallest box around the ball |P - P_hat|_1 <= sqrt(2 X' L / max(1, N)) of Rosenberg and Mansour (2019).
``jin``: 2 sqrt(P L / max(1, N - 1)) + 14 L / (3 max(1, N - 1)), of Jin et al. (2020).

The last two know nothing of noise and refuse noisy counts.

**Upper occupancy bounds**: how often a policy can reach a state under the most favourable transitions of a box,

    u(x) = max { q^{P, pi}(x) : lower <= P <= upper },        u(x, a) = pi(a|x) u(x).

This is COMP-UOB of Jin et al. (2020), the divisor of bandit loss estimates. For one target state x let f be one there
and zero in the rest of its layer, and go back layer by layer: a row (x', a) has p = lower and spends what is missing to
one on the states of the next layer in decreasing order of f, up to their upper bounds; then
f(x') = sum_a pi(a|x') <p, f>. Rows are chosen independently of each other, so the greedy choice is the maximum and
u(x) = f(x_0). Each layer is sorted once per target. So u(x) >= q^{P, pi}(x) for every P of the box, with equality for
the P that the greedy choice builds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.errors import Unsupported, check_name
from discreet.base.shape import LayeredShape
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_probabilities
from discreet.mechanisms.release import Release
from discreet.problems.adversarial.layers import Box, LayerArrays, Layers, check_box
from discreet.worlds.planning.count_projection import project_row

WIDTHS = ("corrected", "published", "l1", "jin")
_OF_NOISE = ("corrected", "published")


class Counts(NamedTuple):
    """Repaired counts of the unknown rows, their totals and how far the noise can have moved them."""

    cells: Floats  # flat over the unknown triples
    totals: Floats  # (unknown pairs,)
    error: Floats  # (unknown pairs,) E


def check_width(width: str) -> None:
    """Refuse a width that does not exist."""
    check_name("width", width, WIDTHS)


def log_term(width: str, layers: Layers, episodes: int, failure_probability: float) -> float:
    """The logarithm in the width: a union over unknown triples and episodes, or the papers'."""
    outcomes = 2 * layers.unknown if width == "corrected" else layers.pairs
    return math.log(max(outcomes, 1) * episodes / failure_probability)


def first_box(layers: Layers) -> Box:
    """What is known before any data: nothing but the last step."""
    lower, upper = np.zeros(layers.triples), np.ones(layers.triples)
    lower[layers.unknown :] = 1.0
    return Box(lower, upper)


def vacuous_share(layers: Layers, box: Box) -> float:
    """The share of unknown transition probabilities of which the box says nothing; 0 where none is unknown."""
    width = (box.upper - box.lower)[: layers.unknown]
    return float((width >= 1).mean()) if layers.unknown else 0.0


def counts_of(
    release: Release, shape: LayeredShape, layers: Layers, episodes: int, failure_probability: float, scale: float
) -> Counts:
    """Counts that could be, from a release; ``scale`` multiplies the bound on the noise."""
    cells = release["transitions"].values[shape.triple_mask]
    offset = layers.arrays.offset
    rows = int(np.searchsorted(offset, layers.unknown))
    error = np.zeros(rows)
    pairs = shape.pair_mask[:-1]
    if release["transitions"].variance.any():
        tail = failure_probability / (2 * max(layers.unknown, 1) * episodes)
        if "visits" in release.statistics:  # a total of its own: every count is as noisy as any other
            error += 4 * scale * release.width(1, tail, "transitions")[:-1][pairs].max(initial=0.0)
        else:
            for successors in set(shape.sizes[1:-1]):
                wide = np.array([size == successors for size in shape.sizes[1:-1]])
                bound = 4 * scale * release.width(successors, tail, "transitions")[:-1]
                error[np.repeat(wide, pairs.sum(axis=(1, 2)))] = bound[wide][pairs[wide]]
    if "visits" in release.statistics:
        totals = release["visits"].values[:-1][pairs]
    else:
        totals = np.add.reduceat(cells, offset[:rows]) if rows else np.zeros(0)
    repaired = np.empty(layers.unknown)
    _repair(offset, cells, totals, error, repaired, totals_out := np.empty(rows))
    return Counts(repaired, totals_out, error)


def box_of(width: str, layers: Layers, counts: Counts, log: float) -> Box:
    """The box around the estimated transitions."""
    if width not in _OF_NOISE and counts.error.any():
        raise Unsupported(f"the width {width!r} is proved for exact counts only; with noisy ones use width='corrected'")
    box = first_box(layers)
    _bounds(layers.arrays, counts.cells, counts.totals, counts.error, log, WIDTHS.index(width), box.lower, box.upper)
    return box


@kernel
def _repair(offset: Integers, cells: Floats, totals: Floats, error: Floats, counts: Floats, lifted: Floats) -> None:
    """Project every row and lift it, so that no total is below the true one."""
    for row in range(totals.shape[0]):
        begin, end = offset[row], offset[row + 1]
        project_row(cells, begin, end, totals[row], error[row] / 4, counts)
        lifted[row] = error[row] / 2
        for i in range(begin, end):
            lifted[row] += counts[i]
            counts[i] += error[row] / (2 * (end - begin))


@kernel
def _bounds(
    layers: LayerArrays,
    cells: Floats,
    totals: Floats,
    error: Floats,
    log: float,
    width: int,
    lower: Floats,
    upper: Floats,
) -> None:
    """Write P -+ beta for the rows that have counts; the others keep the bounds that they have."""
    for row in range(totals.shape[0]):
        begin, end = layers.offset[row], layers.offset[row + 1]
        N, E = totals[row], error[row]
        if N <= 0.0:
            continue
        M = max(N - E - 1.0, 0.0)
        for i in range(begin, end):
            P = cells[i] / N
            if width == 0:
                spread = 2.0 * (P * (1.0 - P) + 2.0 * E / N) * log
                beta = math.sqrt(spread / M) + 7.0 * log / (3.0 * M) + 2.0 * E / N if M > 0.0 else 1.0
            elif width == 1:
                beta = math.sqrt(2.0 * P * (1.0 - P) * log / N) + (4.0 * E + 7.0 * log) / N
            elif width == 2:
                beta = 0.5 * math.sqrt(2.0 * (end - begin) * log / max(1.0, N))
            else:
                beta = 2.0 * math.sqrt(P * log / max(1.0, N - 1.0)) + 14.0 * log / (3.0 * max(1.0, N - 1.0))
            lower[i] = max(0.0, P - beta)
            upper[i] = min(1.0, P + beta)


def upper_occupancy(layers: Layers, policy: ArrayLike, box: Box) -> Floats:
    """The largest probability with which the policy reaches each state, as an array (states,).

    >>> from discreet.problems.adversarial.layers import confidence_box
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

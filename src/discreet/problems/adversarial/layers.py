"""Loop-free layered worlds: their layout in memory, occupancy measures, confidence boxes and linear systems.

States stand in layers X_0 = {x_0}, X_1, ..., X_{H-1}, X_H = {x_H} and every step leads from a layer to the next. A
policy pi and transitions P have the occupancy measure

    q(x, a, x') = q(x) pi(a|x) P(x'|x, a),    q(x_0) = 1,    q(x') = sum_{x, a} q(x, a, x'),

which is linear in what a convex program needs: q >= 0 is an occupancy measure exactly when what leaves a state is what
enters it and layer 0 sums to one.

States are numbered layer by layer, x_0 = 0 first and x_H last. A table over (x, a) is an array (states, actions), where
``states`` leaves x_H out. A table over (x, a, x') holds, because layers differ in size, one row of X_{h+1} numbers per
pair, one after the other in a flat array; ``Layers.split`` shows it as one block per layer. The last step into x_H is
certain, so its rows are the single number one and need no estimate.

**Linear systems.** Both convex programs over occupancy measures end in a symmetric positive system with one unknown per
state. Every pair (x, a) adds

    weight * (e_x - t)(e_x - t)^T + diag(k) - tie * k k^T

where t and k live on the next layer. Row i of the lower triangle is zero before the layer that precedes i's own; the
Cholesky factor keeps this envelope, so its cost grows with the sum of cubed layer sizes and not with the cube of the
number of states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from discreet.base.compiled import inlined, kernel
from discreet.base.errors import InvalidInput
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_array, check_count, check_probabilities

# A row of a box counts as empty only beyond what rounding does to a sum of probabilities.
_ROUNDING = 1e-12


class LayerArrays(NamedTuple):
    """The layout as kernels read it."""

    actions: int
    first: Integers  # (H + 2,) first state of each layer; the last entry is one past x_H
    offset: Integers  # (states * actions + 1,) where the row of each pair x * actions + a begins


class Box(NamedTuple):
    """Entrywise bounds on transition probabilities, flat like the transitions themselves."""

    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class Layers:
    """The public layout of a layered world: the sizes of layers 0..H (first and last are one) and how many actions.

    >>> layers = Layers((1, 2, 3, 1), actions=2)
    >>> layers.horizon, layers.states, layers.pairs, layers.triples, layers.unknown
    (3, 6, 12, 22, 16)
    """

    sizes: tuple[int, ...]
    actions: int

    def __post_init__(self) -> None:
        sizes = tuple(check_count("sizes", size) for size in self.sizes)
        if len(sizes) < 2 or sizes[0] != 1 or sizes[-1] != 1:
            raise InvalidInput(
                f"sizes must list at least two layers of which the first and last have one state, got {sizes}"
            )
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "actions", check_count("actions", self.actions))

    @property
    def horizon(self) -> int:
        """How many steps there are, H: one less than layers."""
        return len(self.sizes) - 1

    @property
    def states(self) -> int:
        """How many states there are where an action is taken (all but x_H)."""
        return sum(self.sizes[:-1])

    @property
    def pairs(self) -> int:
        """How many (x, a) there are."""
        return self.states * self.actions

    @property
    def triples(self) -> int:
        """The length of a flat table over (x, a, x')."""
        return int(self.arrays.offset[-1])

    @property
    def unknown(self) -> int:
        """How many triples have a probability that is not known beforehand: all but those into x_H."""
        return self.triples - self.sizes[-2] * self.actions

    @cached_property
    def layer(self) -> Integers:
        """(states + 1,) the layer of each state."""
        return np.repeat(np.arange(self.horizon + 1), self.sizes)

    @cached_property
    def arrays(self) -> LayerArrays:
        """The layout for compiled code."""
        first = np.concatenate(([0], np.cumsum(self.sizes)))
        widths = np.repeat(self.sizes[1:], np.array(self.sizes[:-1]) * self.actions)
        return LayerArrays(self.actions, first, np.concatenate(([0], np.cumsum(widths))))

    def split(self, flat: Floats) -> list[Floats]:
        """Views of a flat table over (x, a, x'): one array (X_h, actions, X_{h+1}) per layer."""
        ends = np.cumsum([self.sizes[h] * self.actions * self.sizes[h + 1] for h in range(self.horizon)])
        parts = np.split(flat, ends[:-1])
        return [part.reshape(self.sizes[h], self.actions, self.sizes[h + 1]) for h, part in enumerate(parts)]

    def spread(self, table: ArrayLike) -> Floats:
        """A table over (x, a) as the flat table over (x, a, x') that does not depend on x'."""
        values = check_array("table", table, (self.states, self.actions))
        return np.repeat(values.ravel(), np.diff(self.arrays.offset))

    def uniform_transitions(self) -> Floats:
        """The transitions to assume before any data."""
        widths = np.diff(self.arrays.offset)
        return np.repeat(1.0 / widths, widths)


def occupancy(layers: Layers, transitions: ArrayLike, policy: ArrayLike) -> Floats:
    """The occupancy measure (flat over (x, a, x')) of a policy (states, actions) under transitions (flat)."""
    flat = check_array("transitions", transitions, (layers.triples,))
    pi = check_probabilities("policy", policy, (layers.states, layers.actions))
    q = np.empty(layers.triples)
    forward(layers.arrays, flat, pi, q)
    return q


def pair_occupancy(layers: Layers, q: Floats) -> Floats:
    """The occupancy q(x, a) as an array (states, actions)."""
    sums: Floats = np.add.reduceat(q, layers.arrays.offset[:-1])
    return sums.reshape(layers.states, layers.actions)


def flow_residual(layers: Layers, q: ArrayLike) -> float:
    """How far q is from an occupancy measure: the worst difference between what enters and what leaves a state."""
    worst: float = max_flow_residual(layers.arrays, check_array("q", q, (layers.triples,)))
    return worst


def box_violation(layers: Layers, q: ArrayLike, box: Box) -> float:
    """The worst breach of lower * q(x, a) <= q(x, a, x') <= upper * q(x, a), or of q >= 0; zero where there is none."""
    flat = check_array("q", q, (layers.triples,))
    mass = layers.spread(pair_occupancy(layers, flat))
    return float(max(0.0, -flat.min(), (box.lower * mass - flat).max(), (flat - box.upper * mass).max()))


def confidence_box(layers: Layers, centre: ArrayLike, radius: ArrayLike) -> Box:
    """The box max(0, centre - radius) <= P <= min(1, centre + radius), with the known rows into x_H set to one.

    ``centre`` holds transition probabilities (flat, rows sum to one), ``radius`` is a number or one per triple.
    """
    middle = check_array("centre", centre, (layers.triples,))
    width = check_array("radius", np.broadcast_to(np.asarray(radius, dtype=np.float64), middle.shape))
    if width.min() < 0:
        raise InvalidInput(f"radius must not be negative, got {width.min():g}")
    lower, upper = np.maximum(0.0, middle - width), np.minimum(1.0, middle + width)
    lower[layers.unknown :] = upper[layers.unknown :] = 1.0
    return check_box(layers, Box(lower, upper))


def intersect(layers: Layers, running: Box, fresh: Box) -> Box:
    """The running intersection of confidence boxes; a row that would become empty starts again from the fresh box."""
    lower, upper = running.lower.copy(), running.upper.copy()
    intersect_rows(layers.arrays, lower, upper, fresh.lower, fresh.upper)
    return Box(lower, upper)


def check_box(layers: Layers, box: Box) -> Box:
    """The box itself, if every row of it holds a probability distribution."""
    lower = check_array("box.lower", box.lower, (layers.triples,))
    upper = check_array("box.upper", box.upper, (layers.triples,))
    pair = int(first_empty_row(layers.arrays, lower, upper))
    if pair >= 0:
        x, a = divmod(pair, layers.actions)
        raise InvalidInput(
            f"the box of state {x}, action {a} holds no probability distribution: it needs 0 <= lower <= upper, lower "
            "bounds that sum to at most 1 and upper bounds that sum to at least 1"
        )
    return Box(lower, upper)


@kernel
def forward(layers: LayerArrays, transitions: Floats, policy: Floats, q: Floats) -> None:
    """Write the occupancy measure of (transitions, policy) into q."""
    A, first, offset = layers.actions, layers.first, layers.offset
    reach = np.zeros(first[-1])
    reach[0] = 1.0
    for h in range(first.shape[0] - 2):
        for x in range(first[h], first[h + 1]):
            for a in range(A):
                mass = reach[x] * policy[x, a]
                at = offset[x * A + a]
                for j in range(first[h + 2] - first[h + 1]):
                    q[at + j] = mass * transitions[at + j]
                    reach[first[h + 1] + j] += q[at + j]


@kernel
def max_flow_residual(layers: LayerArrays, q: Floats) -> float:
    """The worst difference between what enters and what leaves a state; one enters x_0."""
    A, first, offset = layers.actions, layers.first, layers.offset
    balance = np.zeros(first[-1])
    balance[0] = 1.0
    worst = 0.0
    for h in range(first.shape[0] - 2):
        for x in range(first[h], first[h + 1]):
            for i in range(offset[x * A], offset[(x + 1) * A]):
                balance[x] -= q[i]
            worst = max(worst, abs(balance[x]))
            for a in range(A):
                at = offset[x * A + a]
                for j in range(first[h + 2] - first[h + 1]):
                    balance[first[h + 1] + j] += q[at + j]
    return worst


@kernel
def first_empty_row(layers: LayerArrays, lower: Floats, upper: Floats) -> int:
    """The first pair whose box holds no probability distribution, or -1."""
    offset = layers.offset
    for pair in range(offset.shape[0] - 1):
        least, most = 0.0, 0.0
        ordered = True
        for i in range(offset[pair], offset[pair + 1]):
            ordered = ordered and 0.0 <= lower[i] <= upper[i]
            least += lower[i]
            most += upper[i]
        if not ordered or least > 1.0 + _ROUNDING or most < 1.0 - _ROUNDING:
            return pair
    return -1


@kernel
def intersect_rows(layers: LayerArrays, lower: Floats, upper: Floats, fresh_lower: Floats, fresh_upper: Floats) -> None:
    """Narrow (lower, upper) in place by the fresh box, row by row; a row that would become empty is replaced."""
    offset = layers.offset
    for pair in range(offset.shape[0] - 1):
        least, most = 0.0, 0.0
        ordered = True
        for i in range(offset[pair], offset[pair + 1]):
            low, high = max(lower[i], fresh_lower[i]), min(upper[i], fresh_upper[i])
            ordered = ordered and low <= high
            least += low
            most += high
        keep = ordered and least <= 1.0 and most >= 1.0
        for i in range(offset[pair], offset[pair + 1]):
            lower[i] = max(lower[i], fresh_lower[i]) if keep else fresh_lower[i]
            upper[i] = min(upper[i], fresh_upper[i]) if keep else fresh_upper[i]


@kernel
def envelope(first: Integers, states: int) -> Integers:
    """The first column that row i of the lower triangle may use: the start of the layer before i's own."""
    start = np.zeros(states, dtype=np.int64)
    for h in range(1, first.shape[0] - 2):
        for x in range(first[h], first[h + 1]):
            start[x] = first[h - 1]
    return start


@inlined
def add_pair(matrix: Floats, x: int, begin: int, size: int, weight: float, t: Floats, k: Floats, tie: float) -> None:
    """Add weight (e_x - t)(e_x - t)^T + diag(k) - tie k k^T; t and k hold the next layer, which starts at begin."""
    matrix[x, x] += weight
    for i in range(size):
        pull, tied = weight * t[i], tie * k[i]
        matrix[begin + i, x] -= pull
        for j in range(i + 1):
            matrix[begin + i, begin + j] += pull * t[j] - tied * k[j]
        matrix[begin + i, begin + i] += k[i]


@kernel
def factor_layered(matrix: Floats, start: Integers, tiny: float) -> bool:
    """Overwrite the lower triangle with its Cholesky factor; False if a pivot is not above tiny times its diagonal."""
    for i in range(matrix.shape[0]):
        for j in range(start[i], i):
            total = matrix[i, j]
            for k in range(max(start[i], start[j]), j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = total / matrix[j, j]
        diagonal = matrix[i, i]
        pivot = diagonal
        for k in range(start[i], i):
            pivot -= matrix[i, k] * matrix[i, k]
        if not pivot > tiny * diagonal:
            return False
        matrix[i, i] = np.sqrt(pivot)
    return True


@kernel
def solve_layered(matrix: Floats, start: Integers, right: Floats) -> None:
    """Overwrite the right-hand side with the solution, given the factor."""
    n = matrix.shape[0]
    for i in range(n):
        total = right[i]
        for k in range(start[i], i):
            total -= matrix[i, k] * right[k]
        right[i] = total / matrix[i, i]
    for i in range(n - 1, -1, -1):
        right[i] /= matrix[i, i]
        for k in range(start[i], i):
            right[k] -= matrix[i, k] * right[i]

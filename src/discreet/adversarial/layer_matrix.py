"""Symmetric positive systems whose unknowns stand in layers and meet only within a layer and its neighbours.

Both convex programs over occupancy measures end in such a system with one unknown per state. Every pair (x, a) adds

    weight * (e_x - t)(e_x - t)^T + diag(k) - tie * k k^T

where t and k live on the next layer. Row i of the lower triangle is zero before the layer that precedes i's own; the
Cholesky factor keeps this envelope, so its cost grows with the sum of cubed layer sizes and not with the cube of the
number of states.
"""

from __future__ import annotations

import numpy as np

from discreet.compiled import inlined, kernel
from discreet.types import Floats, Integers


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
def factor(matrix: Floats, start: Integers, tiny: float) -> bool:
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
def solve(matrix: Floats, start: Integers, right: Floats) -> None:
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

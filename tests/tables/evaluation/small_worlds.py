"""Worlds so small that all trajectories can be gone through."""

from __future__ import annotations

import numpy as np

from discreet.base.shape import Shape
from discreet.tables.evaluation.released_model import Model

S, A, H = 2, 2, 3
SHAPE = Shape(S, A, H, rewards=(-1.0, 1.0))


def world(seed: int, ends: bool) -> Model:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(S + 1), (H, S, A))
    if not ends:
        rows[..., S] = 0.0
        rows /= rows.sum(axis=3, keepdims=True)
    means = rng.uniform(-1, 1, (H, S, A))
    start = rng.dirichlet(np.ones(S))
    zero = np.zeros((H, S, A))
    return Model(zero + 100, zero, 0.0, rows, rows, means, means, zero, zero == 0, start, 1000, H)


def policies(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, 1])
    return rng.dirichlet(np.ones(A), (H, S)), rng.dirichlet(np.full(A, 3.0), (H, S))

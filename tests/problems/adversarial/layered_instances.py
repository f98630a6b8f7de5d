"""Random layered worlds and boxes to test the convex programs on, and a certificate that shares no code with them."""

from __future__ import annotations

import numpy as np

from discreet.problems.adversarial.layers import Box, Layers, confidence_box

SQUARE = Layers((1, 5, 5, 5, 1), actions=3)
RAGGED = Layers((1, 3, 1, 7, 2, 1), actions=2)
WIDTHS = (1.0, 0.3, 0.03, 1e-3, 1e-9, 0.0)


def random_rows(layers: Layers, rng: np.random.Generator) -> np.ndarray:
    rows = []
    for h in range(layers.horizon):
        S = layers.sizes[h + 1]
        rows.append(0.15 / S + 0.85 * rng.dirichlet(np.full(S, 0.3), size=layers.sizes[h] * layers.actions))
    return np.concatenate([block.ravel() for block in rows])


def random_box(layers: Layers, width: float, rng: np.random.Generator, *, zero_lower: bool = False) -> Box:
    """A box of random radii up to ``width``; ``zero_lower`` takes half of the lower bounds away."""
    box = confidence_box(layers, random_rows(layers, rng), width * rng.uniform(0.5, 1.0, layers.triples))
    if zero_lower:
        box.lower[: layers.unknown] *= rng.random(layers.unknown) < 0.5
    return box


def random_policy(layers: Layers, rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet(np.ones(layers.actions), size=layers.states)


def linear_minimum(layers: Layers, cost: np.ndarray, box: Box) -> float:
    """min <cost, q> over the occupancy measures of the box, by backward induction with greedy rows."""
    value = np.zeros(1)
    blocks = zip(*(layers.split(flat) for flat in (cost, box.lower, box.upper)))
    for costs, lower, upper in reversed(list(blocks)):
        now = np.full(costs.shape[0], np.inf)
        for x, a in np.ndindex(costs.shape[:2]):
            worth = costs[x, a] + value
            p = lower[x, a].copy()
            for j in np.argsort(worth):
                p[j] += min(upper[x, a, j] - p[j], max(0.0, 1.0 - p.sum()))
            now[x] = min(now[x], p @ worth)
        value = now
    return float(value[0])


def first_order_gap(layers: Layers, gradient: np.ndarray, q: np.ndarray, box: Box) -> float:
    """<gradient, q - s> for the best s: a convex objective at q is at most this far above its minimum."""
    return float(gradient @ q) - linear_minimum(layers, gradient, box)

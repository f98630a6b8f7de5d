from __future__ import annotations

import numpy as np
import pytest

from discreet.base.compiled import kernel
from discreet.worlds.planning.barrier_rows import cheapest_row


@kernel
def solved(r: np.ndarray, lower: np.ndarray, upper: np.ndarray, guess: float) -> tuple[float, np.ndarray]:
    S = r.shape[0]
    p = np.empty(S)
    mass, _ = cheapest_row(r, lower, upper, 0, S, guess, p, np.ones(S, dtype=np.bool_), np.empty(S))
    return mass, p


def lowest(prices: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """The smallest prices.p over the distributions p of the box: fill the cheapest entries first."""
    p = lower.copy()
    for j in np.argsort(prices):
        p[j] += min(upper[j] - p[j], max(0.0, 1.0 - p.sum()))
    return float(prices @ p)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("width", [1.0, 0.3, 0.01, 1e-6, 1e-9, 0.0])
def test_rows_are_optimal_or_have_no_optimum(width: float, symmetric: bool, signed: bool) -> None:
    rng = np.random.default_rng(1)
    unbounded = 0
    for _ in range(300):
        S = int(rng.integers(2, 7))
        centre = np.maximum(rng.dirichlet(np.full(S, 0.5)), 1e-6)
        centre /= centre.sum()
        radius = width * (np.ones((2, S)) if symmetric else rng.uniform(0.5, 1.0, (2, S)))
        lower, upper = np.maximum(0.0, centre - radius[0]), np.minimum(1.0, centre + radius[1])
        r = 10.0 ** rng.uniform(-1, 4, S) - (10.0 ** rng.uniform(-1, 3) if signed else 0.0)
        mass, p = solved(r, lower, upper, float(rng.normal() * 10.0 ** rng.uniform(-2, 2)))
        if lowest(r, lower, upper) <= 0.0:
            unbounded += 1
            assert mass == 0.0
            continue
        assert abs(p.sum() - 1.0) < 1e-12
        assert (lower <= p).all()
        assert (p <= upper).all()
        gradient = r - 1 / (mass * p)
        assert abs(mass * (gradient @ p)) < 1e-12 * S * r.max() * mass  # the mass is best for the shape
        # No direction in the cone of the box leads down: the shape is best as well.
        assert mass * lowest(gradient, lower, upper) > -1e-7
    assert (unbounded > 30) == signed


def test_bounds_that_leave_nothing_but_rounding_to_the_rest() -> None:
    """Two states seen, six not: one's lower and the other's upper bound sum to one, and the six need some mass too."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        seen, radius = rng.uniform(0.3, 0.7), rng.uniform(0.01, 0.2)
        lower, upper = np.zeros(8), np.full(8, radius / 3)
        lower[:2] = seen - radius, 1 - seen - radius
        upper[:2] = seen + radius, 1 - seen + radius
        r = np.append(rng.uniform(-5.0, 60.0, 2), 10.0 ** rng.uniform(2, 4, 6))
        mass, p = solved(r, lower, upper, float(rng.normal() * 10.0))
        if lowest(r, lower, upper) > 0.0:
            assert p.min() > 1e-9
            assert mass * lowest(r - 1 / (mass * p), lower, upper) > -1e-7

r"""How likely each of several numbers is the smallest if independent normal noise is added to all of them.

    p_a = Pr[ z_a + s_a N_a < z_b + s_b N_b for all b != a ] = E prod_{b != a} Phi((z_b - z_a - s_a N) / s_b),

an integral over one normal variable, by Gauss-Hermite quadrature. Following the perturbed leader plays action a with
this probability.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from discreet.base.scientific import special
from discreet.base.types import Floats

_NODES = 41
_LEAST = 1e-9  # of a deviation: below it the smallest number wins for certain


def chances_of_smallest(values: Floats, deviations: Floats) -> Floats:
    """For every row of ``values`` (n, A) with these deviations: the probability of each to be the smallest.

    >>> chances_of_smallest(np.array([[0.0, 0.0], [0.0, 1.0]]), np.full((2, 2), 0.5)).round(4).tolist()
    [[0.5, 0.5], [0.9214, 0.0786]]
    """
    nodes, weights = _quadrature()
    values = values - values.min(axis=1, keepdims=True)
    scale = np.maximum(deviations, _LEAST * (1.0 + values.max(axis=1, keepdims=True)))
    drawn = values[:, :, None] + scale[:, :, None] * nodes  # (n, A, nodes): what action a may come to
    above = special.ndtr((values[:, None, :, None] - drawn[:, :, None, :]) / scale[:, None, :, None])
    each = np.arange(values.shape[1])
    above[:, each, each, :] = 1.0
    chances = (above.prod(axis=2) * weights).sum(axis=2)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


@cache
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights / weights.sum()

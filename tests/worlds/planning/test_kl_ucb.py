"""The largest mean that agrees with what was seen of a coin, against a root that SciPy finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import rel_entr
from scipy.stats import binom

from discreet.worlds.planning.kl_ucb import largest_mean

SEEN = np.array([0.0, 1e-9, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9, 1.0])
DIVERGENCES = np.array([0.0, 1e-12, 1e-4, 0.03, 0.4, 2.0, 30.0])


def root(r: float, divergence: float, factor: float = 1.0) -> float:
    def excess(q: float) -> float:
        return float(rel_entr(r, q) + rel_entr(1 - r, 1 - q)) - factor * divergence

    return brentq(excess, r, 1 - 1e-15) if r < 1 - 1e-15 and excess(1 - 1e-15) > 0 else 1.0


def distance(factor: float = 1.0) -> float:
    """The largest difference to the root of another divergence (a factor of 1: of the same)."""
    pairs = [(r, x) for r in SEEN for x in DIVERGENCES]
    return max(abs(largest_mean(r, x) - root(r, x, factor)) for r, x in pairs)


def test_it_is_the_root_of_the_divergence():
    assert distance() < 1e-8
    assert distance(factor=1.1) > 1e-3  # the comparison sees a wrong divergence


@pytest.mark.parametrize("mean", [0.05, 0.5, 0.9])
def test_a_coin_is_rarely_above_its_bound(mean):
    """Chernoff: the chance that the bound of n throws is below the true mean is at most exp(-n * divergence)."""
    throws, divergence = 40, 0.06
    bounds = np.array([largest_mean(x / throws, divergence) for x in range(throws + 1)])
    missed = binom.pmf(np.arange(throws + 1), throws, mean)[bounds < mean].sum()
    assert missed <= np.exp(-throws * divergence)
    assert bounds[throws // 2] < 1.0

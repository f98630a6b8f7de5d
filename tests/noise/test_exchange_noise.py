"""The tree's exchange of noise: one pass for Laplace noise, three for every other law, and the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.streams import NOISE, stream
from discreet.noise import DiscreteLaplace, Gaussian, Laplace, add_noise
from discreet.noise.distribution import exchange_noise


@pytest.mark.parametrize("law", [Laplace(3.0), Gaussian(2.0), DiscreteLaplace(4.0)], ids=lambda law: type(law).__name__)
def test_cells_carry_the_new_noise_instead_of_the_old(law):
    rng = np.random.default_rng(0)
    base, old, counts = (rng.normal(size=101) for _ in range(3))
    new, cells = np.full(101, np.nan), counts + old
    exchange_noise(law.kernel(), base, old, new, cells, stream(5, 0, NOISE))
    fresh = base.copy()
    add_noise(law.kernel(), fresh, stream(5, 0, NOISE))
    np.testing.assert_allclose(new, fresh, rtol=0, atol=1e-12)
    np.testing.assert_allclose(cells, counts + fresh, rtol=0, atol=1e-12)

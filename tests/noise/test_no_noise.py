"""No noise adds nothing and promises nothing."""

from __future__ import annotations

import math

import numpy as np

from discreet.noise import NoNoise
from discreet.privacy.sensitivity import Sensitivity

LAW = NoNoise()


def test_every_draw_is_zero_and_says_so():
    rng = np.random.default_rng(0)
    for drawn in (LAW.draw(rng, (2, 3)), LAW.draw_sum(5, rng, (2, 3)), LAW.secure((2, 3))):
        np.testing.assert_array_equal(drawn, np.zeros((2, 3)))
    assert LAW.variance == LAW.sum_quantile(9, 0.01) == 0
    np.testing.assert_array_equal(LAW.log_probability([0, 1, -2]), [0, -np.inf, -np.inf])
    np.testing.assert_array_equal(LAW.anytime_radius([1, 2], 0.1), [0, 0])


def test_it_protects_only_what_cannot_move():
    assert LAW.profile(Sensitivity.unit_shifts(1, 0)).epsilon(0.0) == math.inf
    assert LAW.profile(Sensitivity.unit_shifts(0, 0)).epsilon(0.0) == 0

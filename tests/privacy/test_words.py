"""What a guarantee says in words: laws, sensitivities, and numbers that are rounded up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.words import describe_law, describe_sensitivity, rounded_up


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1.00049, 4, "1.001"),
        (1.0, 4, "1"),
        (0.5, 4, "0.5"),
        (9.9991, 4, "10"),
        (999.91, 4, "1000"),
        (12344.9, 4, "1.235e+04"),
        (99999.0, 4, "1e+05"),
        (1e-5, 3, "1e-05"),
        (1.2341e-5, 3, "1.24e-05"),
        (0.1, 1, "0.1"),
        (0.11, 1, "0.2"),
        (0.1 + 0.2, 4, "0.3"),  # floating point, not a larger loss
        (0.3000001, 4, "0.3001"),
        (0.0, 4, "0"),
        (math.inf, 4, "inf"),
        (1.5e-310, 1, "2e-310"),
        (None, 4, "unknown"),
    ],
)
def test_numbers_are_rounded_up(value, digits, text):
    assert rounded_up(value, digits) == text


@pytest.mark.parametrize("digits", [1, 2, 3, 4, 6])
def test_what_is_printed_is_never_less_and_at_most_one_digit_more(digits):
    rng = np.random.default_rng(5)
    for value in 10 ** rng.uniform(-12, 12, 2000):
        printed = float(rounded_up(float(value), digits))
        assert value * (1 - 1e-12) <= printed <= value * (1 + 10.0 ** (1 - digits))


def test_descriptions():
    assert describe_sensitivity(Sensitivity(4.0, 2.0, 1.0)) == "the cells by at most L1 4, L2 2, L-infinity 1"
    assert "standard deviation" in describe_law(DiscreteLaplace(2.0))


def test_a_law_that_cannot_be_shipped_says_so():
    assert "simulation only" in describe_law(Gaussian(2.0))
    assert "simulation only" in describe_law(Laplace(2.0))
    assert "simulation only" not in describe_law(DiscreteGaussian(2.0))
    assert "simulation only" not in describe_law(DiscreteLaplace(2.0))

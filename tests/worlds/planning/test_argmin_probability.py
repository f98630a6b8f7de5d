"""Chances to be the smallest: against draws, and at the ends."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.problems.adversarial.perturbed_leader import chances_of_smallest


def test_chances_are_those_of_draws():
    """A share of 200,000 draws has a deviation below 0.0012, and quadrature adds some 0.002: 0.007 is five of them."""
    rng = np.random.default_rng(0)
    values, deviations = np.array([[0.0, 0.4, 1.0, 0.2]]), np.array([[0.5, 1.0, 0.7, 0.3]])
    drawn = (values + deviations * rng.normal(size=(200_000, 4))).argmin(axis=1)
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    assert chances_of_smallest(values, deviations)[0] == pytest.approx(shares, abs=0.007)
    assert np.abs(chances_of_smallest(values, 2 * deviations)[0] - shares).max() > 0.02


def test_without_noise_the_smallest_wins_and_equals_share():
    chances = chances_of_smallest(np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 9.0]]), np.zeros((2, 3)))
    assert chances == pytest.approx(np.array([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]), abs=1e-9)


def test_large_numbers_change_nothing():
    values, deviations = np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])
    assert chances_of_smallest(values + 1e9, deviations) == pytest.approx(chances_of_smallest(values, deviations))

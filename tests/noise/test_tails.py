"""Bounds for all numbers of draws at once: wide enough, hardly wider, and searched without a slip."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.noise.distribution import smallest_point, stitched_lines, stitched_radius

FAILURE = 0.1
LINES = stitched_lines(lambda l: l * l / 2, math.inf, FAILURE, 1.0)  # standard normal draws


def test_one_sum_alone_is_bounded_by_more_than_its_own_quantile():
    n = 3.0 ** np.arange(0, 12)
    alone = np.sqrt(2 * n * math.log(2 / FAILURE))  # Chernoff's bound for a single n
    radius = stitched_radius(LINES, n)
    assert (radius > alone).all()
    assert (radius < 2.2 * alone).all()  # the price of holding for every n at once


def test_whole_paths_stay_inside_and_leave_a_bound_of_two_thirds():
    """400 paths of 3,000 draws: 40 may leave if the bound were exact; more than 65 has probability below 1e-4."""
    paths = np.cumsum(np.random.default_rng(7).standard_normal((400, 3_000)), axis=1)
    radius = stitched_radius(LINES, np.arange(1, 3_001))
    assert (np.abs(paths) > radius).any(axis=1).sum() <= 65
    assert (np.abs(paths) > radius * 2 / 3).any(axis=1).sum() > 65


def test_the_radius_grows_and_is_nothing_for_nothing():
    radius = stitched_radius(LINES, np.arange(0, 1_000))
    assert radius[0] == 0
    assert (np.diff(radius) > -0.04 * radius[1:]).all()  # lines of neighbouring epochs nearly meet
    with pytest.raises(InvalidInput, match="copies must lie in"):
        stitched_radius(LINES, [-1])


@pytest.mark.parametrize("guess", [0.0, 1.0, 36.0, 37.0, 38.0, 5_000.0])
def test_the_smallest_point_is_found_from_any_guess(guess):
    assert smallest_point(lambda t: math.exp(-t / 4), 1e-4, guess) == math.ceil(4 * math.log(1e4))
    assert smallest_point(lambda t: 0.0, 1e-4, guess) == 0

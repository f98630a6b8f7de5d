"""Sparse releases: delta by enumeration, thresholds that are as low as they can be, and nothing that was not there."""

from __future__ import annotations

import functools
import itertools
import math

import mpmath
import numpy as np
import pytest

from discreet.base.errors import Unsupported
from discreet.mechanisms.sparse import (
    ThresholdedGaussian,
    ThresholdedLaplace,
    calibrate_sparse,
    own_cells,
    release_sparse,
    sparse_rows,
    tail_from,
)
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.privacy.sensitivity import Sensitivity


def output_law(law, count):
    """The law of what one cell shows: first nothing (absent or below the threshold), then the numbers above it."""
    shown = law.threshold + np.arange(24)
    seen = np.exp(law.noise.log_probability(shown - count)) if count > 0 else np.zeros(24)
    return np.concatenate([[1.0 - tail_from(law.noise, law.threshold - count) if count > 0 else 1.0], seen])


def enumerated_delta(law, first, second, epsilon):
    """The hockey-stick divergence of two tables over all that their cells can show (the far tail left out)."""
    p, q = np.ones(1), np.ones(1)
    for a, b in zip(first, second, strict=True):
        p, q = np.outer(p, output_law(law, a)).ravel(), np.outer(q, output_law(law, b)).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


LAWS = [ThresholdedLaplace(1.3, 4.0), ThresholdedGaussian(1.2, 4.0)]


@pytest.mark.parametrize("law", LAWS, ids=["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("first", "second"),
    [([1, 0], [0, 1]), ([0, 1], [1, 0]), ([3, 1], [2, 2]), ([1, 5], [0, 6]), ([2, 0], [1, 1]), ([0, 4], [1, 3])],
    ids=str,
)
@pytest.mark.parametrize("epsilon", [0.8, 1.6, 2.5])
def test_the_stated_delta_covers_every_pair_of_tables_for_one_cell(law, first, second, epsilon):
    stated = law.profile(Sensitivity.unit_shifts(1, 1)).delta(epsilon)
    assert enumerated_delta(law, first, second, epsilon) <= stated + 1e-12


@pytest.mark.parametrize("law", LAWS, ids=["laplace", "gaussian"])
def test_the_stated_delta_covers_two_cells(law):
    stated = law.profile(Sensitivity.unit_shifts(2, 2))
    for epsilon in (2.0, 3.5):
        for first, second in (([1, 1, 0, 0], [0, 0, 1, 1]), ([1, 3, 0, 2], [0, 2, 1, 3])):
            assert enumerated_delta(law, first, second, epsilon) <= stated.delta(epsilon) + 1e-12


LOW = [ThresholdedLaplace(1.3, 2.0), ThresholdedGaussian(1.2, 2.0), ThresholdedGaussian(2.0, 3.0)]


@pytest.mark.parametrize("law", LOW, ids=str)
@pytest.mark.parametrize(
    ("moves", "cells", "most"),
    [
        (Sensitivity.unit_shifts(1, 1), 2, 6),
        (Sensitivity.unit_shifts(2, 2), 3, 2),
        (Sensitivity.worst_shift((2, 1, 1)), 2, 5),
    ],
    ids=["one cell", "two cells", "two units"],
)
def test_the_stated_delta_covers_all_small_tables_even_if_cells_appear_often(law, moves, cells, most):
    """Exactly, over all pairs of neighbouring tables, where p is a third and (1 - p)^-m would be anything but one."""
    stated = law.profile(moves)
    assert stated.appears > 0.2
    shown = {count: output_law(law, count) for count in range(most + 1)}
    laws = {
        table: functools.reduce(lambda p, count: np.outer(p, shown[count]).ravel(), table, np.ones(1))
        for table in itertools.product(range(most + 1), repeat=cells)
    }
    pairs = 0
    for first, second in itertools.permutations(laws, 2):
        shift = np.subtract(second, first)
        if np.abs(shift).max() > moves.linf or max(shift[shift > 0].sum(), -shift[shift < 0].sum()) > own_cells(moves):
            continue
        pairs += 1
        for epsilon in (0.6, 1.2, 2.4, 4.0):
            exact = np.maximum(laws[first] - math.exp(epsilon) * laws[second], 0.0).sum()
            assert exact <= stated.delta(epsilon) + 1e-12
    assert pairs > 50


def test_with_pure_noise_delta_is_attained():
    """Beyond the epsilon of the noise only cells that appear count: exactly 1 - (1 - p)^m."""
    law = LAWS[0]
    p = tail_from(law.noise, 3)
    stated = law.profile(Sensitivity.unit_shifts(1, 1)).delta(2 / 1.3 - math.log1p(-p) + 1e-9)
    assert stated == pytest.approx(p)
    assert enumerated_delta(law, [1, 0], [0, 1], 2 / 1.3 + 0.1) == pytest.approx(p, rel=1e-6)


def test_tails_are_those_of_the_laws():
    z = np.arange(-400, 401)
    for law in (DiscreteLaplace(2.5), DiscreteGaussian(3.0)):
        mass = np.exp(law.log_probability(z))
        for least in (-3, 0, 1, 2.5, 7):
            assert tail_from(law, least) == pytest.approx(mass[z >= least].sum(), rel=1e-9)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("m", [1, 20])
def test_calibration_keeps_the_target_with_the_lowest_threshold(gaussian, m):
    moves = Sensitivity.unit_shifts(m, m)
    law = calibrate_sparse(gaussian, moves, epsilon=1.0, delta=1e-6)
    profile = law.profile(moves)
    assert profile.delta(1.0) <= 1e-6
    assert profile.epsilon(1e-6) <= 1.0 + 1e-9
    lower = type(law)(law.sigma if gaussian else law.scale, law.threshold - 1)
    assert lower.profile(moves).delta(1.0) > 1e-6
    assert profile.epsilon(1e-9) == math.inf
    assert profile.delta(0.0) == 1.0 or profile.delta(0.0) > 1e-3


HALVED = {(False, 1): (30, 2.0), (False, 3): (91, 6.0), (True, 1): (32, 6.168), (True, 20): (152, 27.608)}


@pytest.mark.parametrize(("gaussian", "m"), list(HALVED), ids=str)
def test_dividing_delta_well_lowers_the_threshold_or_the_noise(gaussian, m):
    """Against half of delta for each; what is taken keeps (1, 1e-6) and uses more than nine tenths of delta."""
    moves, (threshold, scale) = Sensitivity.unit_shifts(m, m), HALVED[gaussian, m]
    law = calibrate_sparse(gaussian, moves, epsilon=1.0, delta=1e-6)
    now = law.threshold, law.sigma if gaussian else law.scale
    assert now[0] < threshold or (now[0] == threshold and now[1] < 0.995 * scale)
    assert 0.9e-6 < law.profile(moves).delta(1.0) <= 1e-6


@pytest.mark.parametrize("gaussian", [False, True])
def test_what_was_searched_for_keeps_its_delta_by_enumeration(gaussian):
    """All pairs of small tables of one user's two cells; a threshold of two less breaks it in one of them."""
    moves = Sensitivity.unit_shifts(1, 1)
    law = calibrate_sparse(gaussian, moves, epsilon=1.5, delta=0.02)
    least = type(law)(law.sigma if gaussian else law.scale, law.threshold - 2)
    tables = [(a, b) for a in range(9) for b in range(9)]
    pairs = [(t, (t[0] - 1, t[1] + 1)) for t in tables if t[0] > 0]
    pairs += [(b, a) for a, b in pairs]
    assert max(enumerated_delta(law, *pair, 1.5) for pair in pairs) <= 0.02
    assert max(enumerated_delta(least, *pair, 1.5) for pair in pairs) > 0.02


def test_users_with_several_trajectories_can_have_more_cells_of_their_own():
    moves = Sensitivity.unit_shifts(3, 3).scaled(2)
    assert own_cells(moves) == 6
    once, twice = (calibrate_sparse(False, s, epsilon=1.0, delta=1e-6) for s in (Sensitivity.unit_shifts(3, 3), moves))
    assert twice.threshold > 1.7 * once.threshold


def test_only_what_occurs_and_reaches_the_threshold_leaves():
    law = ThresholdedGaussian(2.0, 12.0)
    keys, counts = np.array([7, 3, 11, 5]), np.array([100.0, 12.0, 0.0, 1.0])
    seen = []
    for seed in range(200):
        released, noisy = release_sparse(keys, counts, law, SimulatedNoise(np.random.default_rng(seed)))
        assert (np.diff(released) > 0).all()
        assert (noisy >= 12).all()
        assert set(released.tolist()) <= {3, 5, 7}
        seen += released.tolist()
    assert seen.count(7) == 200
    assert 70 < seen.count(3) < 150  # about every second time
    assert seen.count(5) == 0


def test_rows_are_laid_out_by_their_numbers():
    table = sparse_rows(np.array([1, 5]), np.array([3.0, 4.0]), 2, 4)
    np.testing.assert_array_equal(table.toarray(), [[0, 3, 0, 0], [0, 4, 0, 0]])


def test_impossible_targets_are_refused():
    moves = Sensitivity.unit_shifts(1, 1)
    with pytest.raises(Unsupported, match="delta above 0"):
        calibrate_sparse(False, moves, epsilon=1.0, delta=0.0)
    with pytest.raises(Unsupported, match="raise it"):
        calibrate_sparse(False, moves, epsilon=1e-9, delta=1e-3)
    with pytest.raises(Unsupported, match="how many cells"):
        own_cells(Sensitivity(2.0, 1.4, 1.0))


@pytest.mark.parametrize("scale", [10.3, 1e6 + 0.3, 1e8 + 0.1, 3e8 + 0.7])
def test_the_tail_of_wide_noise_is_not_rounded_down(scale):
    """A high power of a rounded number is off by as many last digits as the power is high."""
    for least in (-math.ceil(2 * scale), 1, math.ceil(25 * scale)):
        with mpmath.workdps(40):
            t = mpmath.exp(-1 / mpmath.mpf(scale))
            beyond = mpmath.exp(-mpmath.mpf(max(least, 1 - least)) / mpmath.mpf(scale)) / (1 + t)
            true = beyond if least > 0 else 1 - beyond
            found = mpmath.mpf(tail_from(DiscreteLaplace(scale), least))
            assert true <= found <= true * (1 + mpmath.mpf("1e-11"))


def test_cells_that_may_all_rise_are_not_taken_for_half_as_many():
    """Of four cells that move any way two may be said to rise, and all four be one user's own."""
    assert own_cells(Sensitivity.unit_shifts(2, 2)) == 2
    with pytest.raises(Unsupported, match="how many cells one user can have"):
        own_cells(Sensitivity.unit_shifts(2, 2, any_way=True))

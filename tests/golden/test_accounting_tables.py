"""Numbers that accounting must reproduce: exact deltas of published noise, calibration tables, worst pairs.

The tables come from independent prototypes (their losses are rounded up, so ours may be up to 0.5% smaller) and from
dp-accounting; the worst-pair theorem and its failure on a lattice are checked by enumeration.
"""

import itertools
import math

import numpy as np
import pytest

from discreet.noise import (
    BinomialNoise,
    BoundedNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    RandomizedResponse,
)
from discreet.noise.calibration import calibrate_binomial, calibrate_noise
from discreet.privacy.profiles import GaussianProfile, compose
from discreet.privacy.sensitivity import Sensitivity


def three_tables(horizon):
    """Reward sums, visits and transitions of one trajectory: all visits in one cell against all in another."""
    return Sensitivity.worst_shift((horizon, 2, 2), (horizon - 1, 1, 1))


# Standard deviation per counter at S = A = H = 2: Laplace and Gaussian at (epsilon, delta), radius of bounded noise.
LOCAL_TABLE = [
    (0.1, 0.2, 13.49, 9.754, 36.72),
    (0.1, 1.0, 6.067, 4.607, 19.10),
    (0.1, 2.0, 3.906, 3.105, 14.04),
    (0.1, 20.0, 0.6403, 0.7993, 6.749),
    (1e-5, 0.2, 70.7, 69.17, 600.6),
    (1e-5, 1.0, 14.14, 15.83, 165.3),
    (1e-5, 2.0, 7.07, 8.459, 97.67),
    (1e-5, 20.0, 0.707, 1.231, 25.39),
]


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "epsilon", "laplace", "gaussian", "radius"), LOCAL_TABLE)
def test_local_calibration_table(delta, epsilon, laplace, gaussian, radius):
    moved = three_tables(2)
    calibrated = {
        name: calibrate_noise(name, moved, epsilon=epsilon, delta=delta) for name in ("laplace", "gaussian", "bounded")
    }
    assert math.sqrt(calibrated["laplace"].variance) == pytest.approx(laplace, rel=5e-3)
    assert calibrated["gaussian"].sigma == pytest.approx(gaussian, rel=1e-3)
    assert calibrated["bounded"].radius == pytest.approx(radius, rel=5e-3)


@pytest.mark.parametrize(
    ("epsilon", "paper", "tight"),
    [(0.2, 84.85, 70.71), (1.0, 16.97, 14.14), (2.0, 8.476, 7.059), (20.0, 0.7577, 0.6017)],
)
def test_randomised_response_table(epsilon, paper, tight):
    """A counter of visits adds the answers of both steps; 6H or 6H - 2 = 10 bits share the budget."""
    assert math.sqrt(2 * RandomizedResponse(epsilon / 12).variance(1)) == pytest.approx(paper, rel=1e-3)
    assert math.sqrt(2 * RandomizedResponse(epsilon / 10).variance(1)) == pytest.approx(tight, rel=1e-3)


@pytest.mark.parametrize(
    ("horizon", "claimed", "epsilon", "exact"),
    [
        (2, 0.1, 0.2, 4.8e-4),
        (2, 0.1, 1.0, 3.5e-3),
        (2, 0.1, 2.0, 1.1e-2),
        (2, 0.1, 20.0, 0.986),
        (2, 1e-5, 1.0, 1.67e-5),
        (2, 1e-5, 2.0, 5.4e-5),
        (2, 1e-5, 20.0, 0.156),
        (20, 1e-5, 0.2, 1.4e-5),
        (20, 1e-5, 1.0, 1.0e-4),
        (20, 1e-5, 2.0, 3.2e-4),
        (20, 1e-5, 20.0, 0.42),
    ],
)
def test_what_the_published_gaussian_noise_really_gives(horizon, claimed, epsilon, exact):
    """sigma = c H / epsilon with c^2 = 4 ln(24 / delta): the exact delta at the claimed epsilon."""
    sigma = math.sqrt(4 * math.log(24 / claimed)) * horizon / epsilon
    assert Gaussian(sigma).profile(three_tables(horizon)).delta(epsilon) == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize(
    ("epsilon", "per_step", "whole"), [(0.2, 0.0152, 0.32), (1.0, 0.105, 0.98), (2.0, 0.275, 1.0), (20.0, 1.0, 1.0)]
)
def test_what_the_published_bounded_noise_really_gives(epsilon, per_step, whole):
    """Radii sqrt(SA ln 10) / e and S sqrt(A ln 10) / e at S = A = H = 2, with e = epsilon / 3H or e = epsilon."""
    for share, exact in ((epsilon / 6, per_step), (epsilon, whole)):
        small = BoundedNoise(math.sqrt(4 * math.log(10)) / share).profile(Sensitivity.worst_shift((2, 2, 2)))
        large = BoundedNoise(2 * math.sqrt(2 * math.log(10)) / share).profile(Sensitivity.worst_shift((1, 1, 1)))
        assert compose([small, large]).delta(epsilon) == pytest.approx(exact, rel=0.03)


# Smallest numbers of fair noise bits at delta = 1e-5, by epsilon and how many cells move.
FAIR_BITS = [
    (1.0, 36, 2008),
    (1.0, 24, 1340),
    (1.0, 12, 670),
    (1.0, 4, 225),
    (1.0, 2, 115),
    (0.1, 36, 136_448),
    (0.1, 24, 91_008),
    (0.1, 12, 45_440),
    (0.1, 4, 15_168),
    (0.1, 2, 7_584),
]


@pytest.mark.parametrize(("epsilon", "cells", "bits"), FAIR_BITS)
def test_fair_shuffled_bits(epsilon, cells, bits):
    ours = calibrate_binomial(1, cells // 2, cells // 2, epsilon, 1e-5).bits
    assert ours == pytest.approx(bits, rel=0.02)
    assert ours <= bits


@pytest.mark.parametrize(
    ("users", "cells", "bits", "deviation"),
    [
        (64, 36, 32, 22.6),
        (512, 36, 4, 22.6),
        (4096, 36, 1, 22.4),
        (64, 12, 11, 13.3),
        (4096, 12, 1, 13.0),
        (64, 2, 2, 5.7),
        (512, 2, 1, 5.7),
        (4096, 2, 1, 5.8),
    ],
)
def test_shuffled_bits_by_number_of_users(users, cells, bits, deviation):
    """The table's deviations are those of fair bits; smaller probabilities shave off what rounding the bits up cost."""
    ours = calibrate_binomial(users, cells // 2, cells // 2, 1.0, 1e-5)
    assert ours.bits == bits
    assert math.sqrt(users * ours.bits * ours.probability * (1 - ours.probability)) <= 1.01 * deviation


def test_discrete_gaussian_is_not_the_gaussian():
    """At the analytic sigma its delta is 3.5% too large at epsilon 1 and one cell, and right for twelve cells."""
    ratios = {}
    for cells in (1, 12):
        moved = Sensitivity.unit_shifts(cells, 0)
        sigma = calibrate_noise("gaussian", moved, epsilon=1.0, delta=1e-5).sigma
        ratios[cells] = DiscreteGaussian(sigma).profile(moved).delta(1.0) / 1e-5
    assert ratios[1] == pytest.approx(1.035, abs=0.003)
    assert ratios[12] == pytest.approx(1.0, abs=0.0012)


# --- dp-accounting as the oracle


@pytest.fixture(scope="module")
def oracle():
    return pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_laplace_composition_agrees(oracle, epsilon):
    ours = Laplace(3.0).profile(three_tables(2)).delta(epsilon)
    by_two = oracle.from_laplace_mechanism(3.0, sensitivity=2, value_discretization_interval=1e-4).self_compose(4)
    by_one = oracle.from_laplace_mechanism(3.0, sensitivity=1, value_discretization_interval=1e-4).self_compose(2)
    theirs = by_two.compose(by_one).get_delta_for_epsilon(epsilon)
    assert ours == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize(("sigma", "cells"), [(1.0, 1), (4.0, 3), (13.0, 12)])
def test_discrete_gaussian_composition_agrees(oracle, sigma, cells):
    ours = DiscreteGaussian(sigma).profile(Sensitivity.unit_shifts(cells, 0))
    theirs = oracle.from_discrete_gaussian_mechanism(
        sigma, sensitivity=1, value_discretization_interval=1e-4
    ).self_compose(cells)
    for epsilon in (0.5, 1.0):
        bound = theirs.get_delta_for_epsilon(epsilon)  # rounds the losses of every cell up
        assert 0.99 * bound <= ours.delta(epsilon) <= bound * (1 + 1e-6) + 2e-10


def test_discrete_laplace_composition_agrees(oracle):
    ours = DiscreteLaplace(2.5).profile(Sensitivity.unit_shifts(4, 4))
    theirs = oracle.from_discrete_laplace_mechanism(
        0.4, sensitivity=1, value_discretization_interval=1e-4
    ).self_compose(8)
    for epsilon in (0.0, 0.5, 1.5):
        assert ours.delta(epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=2e-3)


@pytest.mark.parametrize(("trials", "p", "up", "down"), [(670, 0.5, 6, 6), (113, 0.5, 1, 1), (60, 0.25, 2, 1)])
def test_binomial_composition_agrees(oracle, trials, p, up, down):
    law = BinomialNoise(trials, p)
    counts = np.arange(trials + 1)
    logs = law.log_probability(counts - law.mean)
    at_zero = dict(zip(counts.tolist(), logs.tolist()))
    at_one = dict(zip((counts + 1).tolist(), logs.tolist()))
    options = {"value_discretization_interval": 1e-4, "log_mass_truncation_bound": -60}
    rises = oracle.from_two_probability_mass_functions(at_one, at_zero, **options)
    falls = oracle.from_two_probability_mass_functions(at_zero, at_one, **options)
    theirs = rises.self_compose(up).compose(falls.self_compose(down))
    for epsilon in (0.5, 1.0):
        ours = law.profile(Sensitivity.unit_shifts(up, down)).delta(epsilon)
        assert ours == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-2)
        assert ours <= theirs.get_delta_for_epsilon(epsilon) * (1 + 1e-4) + 2e-10  # theirs rounds losses up


def test_mixed_composition_agrees(oracle):
    parts = [
        GaussianProfile(0.7),
        Laplace(2.0).profile(Sensitivity.unit_shifts(1, 0)),
        DiscreteLaplace(3.0).profile(Sensitivity.unit_shifts(1, 1)),
    ]
    fine = {"value_discretization_interval": 1e-4}
    theirs = (
        oracle.from_gaussian_mechanism(1 / 0.7, **fine)
        .compose(oracle.from_laplace_mechanism(2.0, **fine))
        .compose(oracle.from_discrete_laplace_mechanism(1 / 3, **fine).self_compose(2))
    )
    ours = compose(parts)
    for epsilon in (0.2, 1.0, 3.0):
        assert ours.delta(epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=5e-3)


# --- the worst pair, by enumeration


def statistics(horizon, rewards=(0.0, 1.0)):
    """All (reward sums, visits, transitions) of trajectories with two states and two actions, flattened."""
    found = set()
    for states in itertools.product(range(2), repeat=horizon):
        for actions in itertools.product(range(2), repeat=horizon):
            for reward in itertools.product(rewards, repeat=horizon):
                sums, visits, moves = np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 2, 2))
                for h in range(horizon):
                    sums[states[h], actions[h]] += reward[h]
                    visits[states[h], actions[h]] += 1
                    if h + 1 < horizon:
                        moves[states[h], actions[h], states[h + 1]] += 1
                found.add(tuple(np.concatenate([sums.ravel(), visits.ravel(), moves.ravel()])))
    return np.array(sorted(found))


@pytest.mark.parametrize(("horizon", "l1", "l2_squared"), [(2, 10, 18), (3, 16, 44)])
def test_diameters_of_the_three_tables(horizon, l1, l2_squared):
    table = statistics(horizon)
    shifts = (table[:, None, :] - table[None, :, :]).reshape(-1, table.shape[1])
    assert np.abs(shifts).sum(axis=1).max() == l1 == three_tables(horizon).l1
    assert (shifts**2).sum(axis=1).max() == l2_squared
    assert three_tables(horizon).l2 == pytest.approx(math.sqrt(l2_squared))


@pytest.mark.slow
def test_the_stated_worst_pair_is_the_worst_of_all_pairs():
    """Every shift class at horizon 2, rewards in halves: none has a larger delta than the stated one, which occurs.

    Symmetric noise sees the sizes of the moves only; they are doubled to be whole, and so is the scale.
    """
    table = 2 * statistics(2, rewards=(0.0, 0.5, 1.0))
    shifts = np.abs(table[:, None, :] - table[None, :, :]).reshape(-1, table.shape[1]).astype(int)
    classes = {tuple(sorted(row[row > 0].tolist())) for row in shifts} - {()}
    assert len(classes) == 80  # and the empty one
    stated = (2, 2, 4, 4, 4, 4)
    assert stated in classes

    def sizes(moves):
        return Sensitivity.worst_shift(*((int(size), moves.count(size), 0) for size in sorted(set(moves))))

    for law, epsilon in ((Laplace(9.0), 0.5), (Laplace(3.0), 2.0), (BoundedNoise(30.0), 1.0)):
        deltas = {moves: law.profile(sizes(moves)).delta(epsilon) for moves in classes}
        assert max(deltas, key=deltas.__getitem__) == stated


def hockey(laws, shift, epsilon=0.0):
    """The delta of a shift under independent laws given as {point: probability}."""
    total = 0.0
    ranges = [sorted({x + s for x in law for s in (0, v)}) for law, v in zip(laws, shift)]
    for output in itertools.product(*ranges):
        p = math.prod(law.get(o, 0.0) for law, o in zip(laws, output))
        q = math.prod(law.get(o - v, 0.0) for law, o, v in zip(laws, output, shift))
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


def test_on_a_lattice_the_worst_shift_need_not_be_extreme():
    """(1,1,1) is the midpoint of (2,0,2) and (0,2,0) and worse than both: on integers extreme points are not enough."""
    flat = {-1: 1 / 3, 0: 1 / 3, 1: 1 / 3}
    peaked = {-1: 0.05, 0: 0.9, 1: 0.05}
    laws = (flat, peaked, flat)
    middle = hockey(laws, (1, 1, 1))
    assert middle == pytest.approx(0.956, abs=5e-4)
    assert middle > hockey(laws, (2, 0, 2))
    assert middle > hockey(laws, (0, 2, 0))
    # One cell at a time delta does rise with the size of the move, which is what unit shifts rely on.
    for larger, smaller in (((1, 1, 1), (1, 0, 1)), ((2, 0, 2), (1, 0, 2)), ((0, 2, 0), (0, 1, 0))):
        assert hockey(laws, larger) >= hockey(laws, smaller)

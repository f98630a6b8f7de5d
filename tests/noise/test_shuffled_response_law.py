"""Shuffled answers: the accounting against enumeration of every crowd, every direction and every data set."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from discreet.audit.likelihoods import response_transcript
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import COINS, stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.noise import RandomizedResponse, shuffled_randomized_response
from discreet.noise.shuffled_randomized_response import ShuffledResponse, calibrate_response, crowds
from discreet.privacy.sensitivity import Sensitivity

EPSILONS = np.array([0.0, 0.1, 0.3, 0.7, 1.2])


def moves(n):
    return Sensitivity.unit_shifts(n - n // 2, n // 2)


def answered(bits, q):
    """The law of the number of ones among answers to these bits, by enumerating who lies."""
    law = np.ones(1)
    for bit in bits:
        one = 1 - q if bit else q
        law = np.convolve(law, [1 - one, one])
    return law


def delta(p, q, epsilon):
    return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())


def pairs(crowd, q):
    """Both laws of a counter for every crowd, and the same exchanged."""
    found = []
    for ones in range(crowd + 1):
        others = [1] * ones + [0] * (crowd - ones)
        both = answered([1, *others], q), answered([0, *others], q)
        found += [both, both[::-1]]
    return found


@pytest.mark.parametrize("crowd", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("bit_epsilon", [0.4, 1.5])
def test_one_counter_is_the_worst_of_all_crowds(crowd, bit_epsilon):
    law = ShuffledResponse(bit_epsilon, crowd + 1)
    found = pairs(crowd, law.response.q)
    for epsilon in EPSILONS:
        exact = max(delta(p, q, epsilon) for p, q in found)
        assert exact <= law.profile(moves(1)).delta(epsilon) + 1e-12 <= exact * 1.001 + 2e-5


@pytest.mark.parametrize(("crowd", "counters"), [(1, 3), (2, 2), (3, 2), (2, 3)])
def test_several_counters_are_never_worse_than_stated(crowd, counters):
    """Every combination of crowds and directions; the largest of them reaches most of the bound."""
    law = ShuffledResponse(0.8, crowd + 1)
    profile, found = law.profile(moves(counters)), pairs(crowd, law.response.q)
    for epsilon in EPSILONS:
        exact = 0.0
        for chosen in product(found, repeat=counters):
            p, q = np.ones(1), np.ones(1)
            for own_p, own_q in chosen:
                p, q = np.outer(p, own_p).ravel(), np.outer(q, own_q).ravel()
            exact = max(exact, delta(p, q, epsilon))
        assert 0.7 * profile.delta(epsilon) - 1e-5 <= exact <= profile.delta(epsilon)


def test_the_worst_crowd_depends_on_epsilon():
    """Nobody, everybody and half of the others each hide least somewhere, so none of them may stand in for all."""
    q, crowd = RandomizedResponse(0.85).q, 40

    def at(ones, epsilon):
        law = np.convolve(
            binom.pmf(np.arange(crowd - ones + 1), crowd - ones, q), binom.pmf(np.arange(ones + 1), ones, 1 - q)
        )
        return delta(np.convolve(law, [q, 1 - q]), np.convolve(law, [1 - q, q]), epsilon)

    worst = [max(range(crowd + 1), key=lambda ones, e=epsilon: at(ones, e)) for epsilon in (0.0, 0.1, 0.6)]
    assert len(set(worst)) > 1
    profile = ShuffledResponse(0.85, crowd + 1).profile(moves(1))
    for ones, epsilon in product(range(crowd + 1), (0.0, 0.1, 0.3, 0.6)):
        assert at(ones, epsilon) <= profile.delta(epsilon)


@pytest.mark.parametrize(("shape", "users"), [(Shape(2, 1, 1), 3), (Shape(1, 2, 1), 3), (Shape(1, 2, 2), 2)])
def test_no_two_data_sets_of_a_tiny_world_are_further_apart_than_stated(all_records, shape, users):
    """All trajectories of one user and of the others: the exact law of every counter, multiplied."""
    encoder = ThreeTables(shape)
    bits = np.unique(encode(encoder, all_records(shape), stream(0, 0, COINS)), axis=0)[:, encoder.possible()]
    flipped = np.abs(bits[:, None] - bits[None]).sum(axis=2)
    most = 6 * shape.horizon - 2
    assert flipped.max() == most == encoder.sensitivity().cells
    law = ShuffledResponse(0.6, users)
    profile, q = law.profile(moves(most)), law.response.q
    pairs_tried = np.argwhere(flipped == most) if shape.horizon > 1 else np.argwhere(flipped > 0)
    worst = dict.fromkeys(EPSILONS, 0.0)
    for i, j in pairs_tried:
        for others in product(bits, repeat=users - 1):
            p, r = np.ones(1), np.ones(1)
            for cell in np.flatnonzero(bits[i] != bits[j]):
                crowd = [other[cell] for other in others]
                p = np.outer(p, answered([bits[i, cell], *crowd], q)).ravel()
                r = np.outer(r, answered([bits[j, cell], *crowd], q)).ravel()
            for epsilon in EPSILONS:
                worst[epsilon] = max(worst[epsilon], delta(p, r, epsilon))
    for epsilon, exact in worst.items():
        assert 0.85 * profile.delta(epsilon) - 1e-4 <= exact <= profile.delta(epsilon)


def test_ranges_cover_every_crowd():
    """A crowd, or its mirror image, holds at least the zeros and at least the ones of some range."""
    for size in (*range(1, 70), 200, 1001):
        ranges = crowds(size)
        assert len(ranges) <= shuffled_randomized_response._RANGES
        for ones in range(size + 1):
            few = min(ones, size - ones)
            assert any(zeros <= size - few and low <= few for zeros, low in ranges)
        assert min(zeros + low for zeros, low in ranges) >= size * (1 - 0.5 / shuffled_randomized_response._RANGES) - 1


def test_ranges_cost_little_and_never_gain(monkeypatch):
    law = ShuffledResponse(1.0, 400)
    ranged = law.profile(moves(8))
    monkeypatch.setattr(shuffled_randomized_response, "_RANGES", 10**6)
    shuffled_randomized_response._profile.cache_clear()
    every = law.profile(moves(8))
    shuffled_randomized_response._profile.cache_clear()
    assert every is not ranged
    for epsilon in (0.2, 0.5, 1.0):
        assert every.delta(epsilon) <= ranged.delta(epsilon)
    assert ranged.epsilon(1e-5) < 1.02 * every.epsilon(1e-5)


@pytest.mark.parametrize(("users", "bit_epsilon"), [(20, 0.5), (300, 1.0), (5000, 3.0)])
def test_the_dominating_pair_is_a_pair_of_laws(users, bit_epsilon):
    """Masses of both laws sum to one, and exchanging the laws changes nothing."""
    losses = shuffled_randomized_response._dominating(RandomizedResponse(bit_epsilon), users - 1)
    assert losses.masses.sum() == pytest.approx(1.0, abs=1e-11)
    assert (losses.masses * np.exp(-losses.losses)).sum() == pytest.approx(1.0, abs=1e-11)
    for epsilon in (0.05, 0.2):
        swapped = 1 - np.exp(-epsilon) + np.exp(-epsilon) * losses.delta(epsilon)
        assert losses.delta(-epsilon) == pytest.approx(swapped, abs=1e-9)


def test_more_truthful_answers_and_smaller_crowds_are_less_private():
    def at(bit_epsilon, users, counters):
        return ShuffledResponse(bit_epsilon, users).profile(moves(counters)).epsilon(1e-5)

    assert at(0.9, 100, 6) < at(1.0, 100, 6) < at(1.0, 90, 6) < at(1.0, 90, 7)
    assert at(1.0, 1, 6) <= ShuffledResponse(1.0, 1).profile(moves(6)).epsilon(0.0) == pytest.approx(6.0)
    assert ShuffledResponse(1.0, 100).profile(moves(6)).epsilon(0.0) == pytest.approx(6.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("users", [1, 7, 333, 20_000])
@pytest.mark.parametrize("counters", [1, 12, 34])
def test_calibration_keeps_the_promise_and_wastes_little(epsilon, users, counters):
    law = calibrate_response(users, counters, epsilon, 1e-5)
    assert law.users == users
    assert law.profile(moves(counters)).delta(epsilon) <= 1e-5
    louder = ShuffledResponse(1.01 * law.epsilon, users)
    assert louder.profile(moves(counters)).delta(epsilon) > 1e-5


def test_a_tiny_delta_falls_back_to_the_promise_of_the_device():
    law = calibrate_response(1000, 10, 1.0, 1e-13)
    assert law.epsilon == pytest.approx(0.1, rel=0.2)
    assert law.profile(moves(10)).delta(1.0) <= 1e-13


def test_a_crowd_pays():
    """To first order the noise in a decoded count does not depend on how many share it."""
    alone, many = (calibrate_response(users, 12, 1.0, 1e-5) for users in (1, 20_000))
    assert 0.7 < many.variance / alone.variance < 1.4
    assert many.epsilon > 30 * alone.epsilon


def test_the_ratios_of_an_audit_are_those_of_the_law():
    law, trials = ShuffledResponse(0.9, 5), 40_000
    q = law.response.q
    zero, one = answered([0] * 5, q), answered([1, 0, 0, 0, 0], q)
    expected = [float(np.dot(own, np.log(zero / one))) for own in (zero, one)]
    for side in (0, 1):
        ratios = response_transcript(law, 3).sample(side, trials, stream(3, side, COINS))
        error = ratios.std() / np.sqrt(trials)
        assert abs(ratios.mean() - 3 * expected[side]) < 5 * error
        assert abs(ratios.mean() - 2 * expected[side]) > 5 * error


def test_refusals():
    with pytest.raises(Unsupported, match="counter of its own"):
        ShuffledResponse(1.0, 10).profile(Sensitivity.worst_shift((2, 1, 1)))
    with pytest.raises(InvalidInput):
        ShuffledResponse(0.0, 10)
    with pytest.raises(InvalidInput):
        calibrate_response(10, 0, 1.0, 1e-5)
    with pytest.raises(InvalidInput):
        calibrate_response(10, 4, 1.0, 0.0)


@pytest.mark.parametrize(("users", "counters", "epsilon"), [(333, 12, 1.0), (333, 34, 1.0), (4000, 12, 0.1)])
def test_another_accountant_finds_nearly_as_much_for_one_crowd(users, counters, epsilon):
    """Nobody else holds a one, by dp-accounting: at most what is stated for all crowds, and most of it."""
    distributions = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

    law = calibrate_response(users, counters, epsilon, 1e-5)
    q, ones = law.response.q, np.arange(users + 1)
    crowd = binom.pmf(np.arange(users), users - 1, q)
    one, zero = np.convolve(crowd, [q, 1 - q]), np.convolve(crowd, [1 - q, q])
    kept = (one > 1e-300) & (zero > 1e-300)
    laws = [dict(zip(ones[kept].tolist(), np.log(pmf[kept]).tolist(), strict=True)) for pmf in (one, zero)]
    pair = distributions.from_two_probability_mass_functions(*laws, value_discretization_interval=1e-4)
    found = pair.self_compose(counters).get_delta_for_epsilon(epsilon)
    assert 0.7e-5 < found <= 1e-5

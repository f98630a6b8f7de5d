"""Shuffled items: the accounting against enumeration of every crowd and of trajectories, and a wrong accounting."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from discreet.audit.likelihoods import MessageTranscript
from discreet.base.errors import InvalidInput
from discreet.base.streams import NOISE, stream
from discreet.noise import KaryRandomizedResponse, shuffled_histogram
from discreet.noise.shuffled_histogram import ShuffledItems, ShuffledItemsProfile, calibrate_items, foreseen_items

EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0)


def histograms(laws):
    """The law of the histogram of independent messages with these laws, by enumeration."""
    found = {(0,) * len(laws[0]): 1.0}
    for law in laws:
        more = {}
        for histogram, mass in found.items():
            for item, chance in enumerate(law):
                sent = (*histogram[:item], histogram[item] + 1, *histogram[item + 1 :])
                more[sent] = more.get(sent, 0.0) + mass * chance
        found = more
    return found


def delta(p, q, epsilon):
    return sum(max(0.0, mass - math.exp(epsilon) * q[seen]) for seen, mass in p.items())


def message(item, k, b):
    """The law of a message of one item; None is a user without one, who sends any item evenly."""
    return [1 / k] * k if item is None else [1 - (k - 1) * b if sent == item else b for sent in range(k)]


def worst_of_crowds(k, n, b, epsilon, held=None):
    held = range(k) if held is None else held
    found = 0.0
    for crowd in combinations_with_replacement(held, n - 1):
        others = [message(item, k, b) for item in crowd]
        laws = [histograms([message(own, k, b), *others]) for own in (0, 1)]
        found = max(found, delta(*laws, epsilon), delta(*laws[::-1], epsilon))
    return found


@pytest.mark.parametrize(("k", "n"), [(2, 2), (2, 5), (3, 1), (3, 3), (4, 3), (5, 3)])
@pytest.mark.parametrize("own", [0.6, 1.5, 4.0])
def test_no_crowd_hides_less_than_stated(k, n, own):
    """Every crowd of small batches, and users without an item; the worst of them reaches nearly what is stated."""
    law = ShuffledItems(own, k, n)
    profile, b = law.profile(), law.response.q
    for epsilon in EPSILONS:
        exact = worst_of_crowds(k, n, b, epsilon, [None, *range(k)] if n < 3 else None)
        assert exact <= profile.delta(epsilon) + 1e-14
        assert profile.delta(epsilon) <= 1.13 * exact + 1e-3
    assert profile.delta(own) == 0.0
    assert profile.epsilon(0.0) == pytest.approx(own, rel=1e-9)


def only_the_two_items(k, n, b, epsilon):
    """An accounting that forgets m: N0 and N1 alone, her own message elsewhere being no information."""
    truth = 1 - (k - 1) * b
    laws = {}, {}
    for first, second in product(range(n), repeat=2):
        if first + second >= n:
            continue
        ways = math.comb(n - 1, first) * math.comb(n - 1 - first, second)
        mass = ways * b ** (first + second) * (1 - 2 * b) ** (n - 1 - first - second)
        for side, law in enumerate(laws):
            chances = (truth, b) if side == 0 else (b, truth)
            for up, down, chance in ((1, 0, chances[0]), (0, 1, chances[1]), (0, 0, (k - 2) * b)):
                seen = first + up, second + down
                law[seen] = law.get(seen, 0.0) + mass * chance
    return delta(*laws, epsilon)


def test_how_many_even_messages_there_were_must_be_counted():
    """The histogram shows more than how often her two items were sent; leaving that out promises too much."""
    k, n, b, epsilon = 3, 2, 0.1, 2.0
    exact = worst_of_crowds(k, n, b, epsilon)
    truth = 1 - (k - 1) * b
    stated = ShuffledItemsProfile(truth, b, k, n, math.log(truth / b)).delta(epsilon)
    assert only_the_two_items(k, n, b, epsilon) < exact / 5
    assert exact <= stated <= exact * (1 + 1e-7) + 1e-9


def test_whole_trajectories_are_no_further_apart_than_items():
    """Two records with an item at each of two steps, one of which their devices draw; all pairs of such records."""
    k, n, steps = 3, 3, 2
    law = ShuffledItems(1.2, k, n)
    b, profile = law.response.q, law.profile()
    messages = {
        record: np.mean([message(item, k, b) for item in record], axis=0)
        for record in combinations_with_replacement([None, *range(k)], steps)
    }
    some = list(messages)[::4]
    for epsilon in (0.1, 0.5):
        for first, second in product(messages, repeat=2):
            for crowd in combinations_with_replacement(some[:3], n - 1):
                others = [messages[record] for record in crowd]
                laws = [histograms([messages[own], *others]) for own in (first, second)]
                assert delta(*laws, epsilon) <= profile.delta(epsilon)


@pytest.mark.parametrize(("k", "n", "own"), [(2, 12, 1.0), (4, 12, 2.0), (7, 20, 3.0)])
def test_the_sum_is_the_expectation(k, n, own):
    law = ShuffledItems(own, k, n)
    b, s = law.response.q, law.response.p - law.response.q
    for epsilon in (0.0, 0.3, 0.9):
        odds, total = math.exp(epsilon), 0.0
        for zero, one, rest in product(range(n + 1), repeat=3):
            left = n - zero - one - rest
            if left < 0 or (k == 2 and rest):
                continue
            ways = math.factorial(n) / math.prod(map(math.factorial, (zero, one, rest, left)))
            mass = ways * b ** (zero + one) * ((k - 2) * b) ** rest * (1 - k * b) ** left
            total += mass * max(0.0, s * (zero - odds * one) - (odds - 1) * b * (zero + one + rest))
        assert law.profile().delta(epsilon) == pytest.approx(total / (n * b), rel=1e-6, abs=2e-10)
        assert law.profile().delta(epsilon) >= total / (n * b)


@pytest.mark.parametrize("coins", [2, 16, 30, 1000, 100_000, 3_000_000, 40_000_000])
def test_sums_over_very_many_coins_are_not_below_the_truth(coins):
    """E(N - n/2)+ = n/4 P(N = n/2), and C(2m, m) / 4^m by its own series; factorials of 3,000,000 are off by 2e-6."""
    m = coins // 2
    middle = (
        math.comb(coins, m) / 2**coins if m < 500 else (1 - 1 / (8 * m) + 1 / (128 * m**2)) / math.sqrt(math.pi * m)
    )
    width = math.ceil(4.7 * math.sqrt(coins)) + 40
    found = shuffled_histogram._excess(np.array([coins]), width, np.array([[coins / 2]]))[0, 0]
    assert found == pytest.approx(coins / 4 * middle, rel=2e-9)


@pytest.mark.parametrize("coins", [0, 1, 2, 5, 17, 40])
def test_fair_coins(coins):
    heads = np.arange(coins + 1)
    exact = [math.comb(coins, h) / 2**coins for h in heads]
    np.testing.assert_allclose(shuffled_histogram._fair_coins(np.full(coins + 1, coins), heads), exact, rtol=1e-13)


def test_coarse_points_only_add(monkeypatch):
    law = ShuffledItems(3.4, 40, 400)
    fine = [law.profile().delta(epsilon) for epsilon in (0.5, 1.0, 1.5)]
    for name, few in (("_POINTS", 9), ("_LAWS", 5)):
        with monkeypatch.context() as patch:
            patch.setattr(shuffled_histogram, name, few)
            shuffled_histogram._crowd.cache_clear()
            coarse = [law.profile().delta(epsilon) for epsilon in (0.5, 1.0, 1.5)]
        assert all(many <= one <= 2 * many for many, one in zip(fine, coarse, strict=True))
        assert coarse != fine
    shuffled_histogram._crowd.cache_clear()


@pytest.mark.parametrize(
    ("users", "items", "epsilon", "target"),
    [(1, 5, 1.0, 1e-5), (30, 8, 0.5, 1e-4), (400, 40, 1.0, 1e-5), (300, 2, 0.3, 1e-6)],
)
def test_calibration_is_certified_and_not_wasteful(users, items, epsilon, target):
    law = calibrate_items(users, items, epsilon, target)
    assert (law.users, law.items) == (users, items)
    assert law.profile().delta(epsilon) <= target
    assert ShuffledItems(1.01 * law.epsilon, items, users).profile().delta(epsilon) > target
    assert law.epsilon >= epsilon  # alone nobody needs more lies than pure epsilon


def test_more_users_answer_more_truthfully_and_forecasts_are_near():
    own = [calibrate_items(users, 20, 1.0, 1e-5).epsilon for users in (10, 100, 300, 1000)]
    assert own == sorted(own)
    assert foreseen_items(300, 20, 1.0, 1e-5).epsilon == pytest.approx(own[2], rel=0.05)
    assert foreseen_items(300, 20, 1.0, 1e-5).users == 300


def test_a_profile_answers_both_ways():
    profile = ShuffledItems(2.0, 6, 50).profile()
    for target in (0.3, 1e-2, 1e-6):
        epsilon = profile.epsilon(target)
        assert profile.delta(epsilon) <= target
        assert epsilon == 0 or profile.delta(epsilon * (1 - 1e-6)) > target
    assert profile.rho == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.4, 0.8])
def test_likelihood_ratios_are_those_of_a_real_batch(epsilon):
    """Of the enumerated crowd that has the last item; ratios of both sides in 40,000 batches, within 5 deviations."""
    law = ShuffledItems(2.0, 4, 5)
    b = law.response.q
    others = [message(3, 4, b)] * 4
    laws = [histograms([message(own, 4, b), *others]) for own in (0, 1)]
    exact = sum(mass for seen, mass in laws[0].items() if mass > math.exp(epsilon) * laws[1][seen])
    wrong = sum(mass for seen, mass in laws[1].items() if mass > math.exp(epsilon) * laws[0][seen])
    draws = stream(7, 0, NOISE)
    for side, expected in (
        (0, exact),
        (1, sum(laws[1][s] for s, m in laws[0].items() if m > math.exp(epsilon) * laws[1][s])),
    ):
        ratios = MessageTranscript(law.log_ratios).sample(side, 40_000, draws)[:, 0]
        found, deviation = (ratios > epsilon).mean(), math.sqrt(expected * (1 - expected) / 40_000)
        assert abs(found - expected) < 5 * deviation
        assert abs(found - 1.2 * expected) > 5 * deviation
    assert wrong == pytest.approx(exact)  # the crowd has neither item, so both directions are alike


@pytest.mark.parametrize("values", [(0.0, 5, 3), (1.0, 1, 3), (1.0, 5, 0), (math.nan, 5, 3)])
def test_laws_that_are_none_are_refused(values):
    with pytest.raises(InvalidInput):
        ShuffledItems(*values)


def test_the_response_is_the_one_of_the_local_model():
    law = ShuffledItems(1.5, 9, 40)
    assert law.response == KaryRandomizedResponse(1.5, 9)
    assert law.variance == pytest.approx(float(law.response.variance(40)))

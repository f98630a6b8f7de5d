"""Randomised reports: exact losses of what is shipped, unbiased decoding, exact variances."""

import itertools
import math

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.base.streams import stream
from discreet.noise import KaryRandomizedResponse, RandomizedResponse, UnaryEncoding, add_report
from discreet.privacy.profiles import PureProfile

EPSILONS = (0.05, 0.5, 2.0, 8.0, 30.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    "make", [RandomizedResponse, lambda e: KaryRandomizedResponse(e, 7), lambda e: UnaryEncoding(e, 7)]
)
def test_what_is_shipped_is_within_the_promise_and_close_to_it(make, epsilon):
    law = make(epsilon)
    assert law.shipped_epsilon <= epsilon
    assert law.shipped_epsilon == pytest.approx(epsilon, rel=1e-4)
    assert law.profile().epsilon(0.0) == law.shipped_epsilon


def reports(law, item):
    """All reports of one item with their probabilities."""
    if isinstance(law, KaryRandomizedResponse):
        return np.where(np.arange(law.items) == item, law.p, law.q)
    chances = np.where(np.arange(law.items) == item, law.p, law.q)
    return np.array(
        [np.prod(np.where(bits, chances, 1 - chances)) for bits in itertools.product((0, 1), repeat=law.items)]
    )


@pytest.mark.parametrize(
    "law", [KaryRandomizedResponse(1.2, 2), KaryRandomizedResponse(1.2, 5), UnaryEncoding(1.2, 4)], ids=str
)
def test_profiles_are_exact(law):
    p, q = reports(law, 0), reports(law, 1)
    assert p.sum() == pytest.approx(1.0)
    assert np.abs(np.log(p / q)).max() == pytest.approx(law.shipped_epsilon, rel=1e-12)
    for epsilon in (0.0, 0.3, 1.0):
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert law.profile().delta(epsilon) == pytest.approx(exact, rel=1e-9)
        assert exact <= PureProfile(1.2).delta(epsilon) * (1 + 1e-9)


def test_several_answers_compose():
    law = RandomizedResponse(0.4)
    assert law.profile(10).epsilon(0.0) == pytest.approx(4.0)
    assert law.profile(10).delta(2.0) < PureProfile(4.0).delta(2.0)


@pytest.mark.parametrize("law", [KaryRandomizedResponse(0.7, 4), UnaryEncoding(0.7, 4)], ids=str)
def test_decoding_is_unbiased_with_the_stated_variance(law):
    """Exact expectations over all reports of two users with items 0 and 2, for every item."""
    for item in range(4):
        means, variances = [], []
        for have in (0, 2):
            chance = law.p if have == item else law.q
            low, high = law.decode(0, 1), law.decode(1, 1)
            means.append(chance * high + (1 - chance) * low)
            variances.append(chance * (1 - chance) * (high - low) ** 2)
        count = int(item in (0, 2))
        assert sum(means) == pytest.approx(count, abs=1e-12)
        assert law.variance(2, count) == pytest.approx(sum(variances))


def test_binary_variance_is_the_closed_form():
    assert RandomizedResponse(0.6).variance(1) == pytest.approx(1 / (2 * math.sinh(0.3)) ** 2, rel=1e-9)
    assert RandomizedResponse(0.6).variance(5, 3) == pytest.approx(5 * RandomizedResponse(0.6).variance(1))


def test_unary_variance_does_not_grow_with_the_items():
    assert UnaryEncoding(1.0, 3).variance(9) == UnaryEncoding(1.0, 3000).variance(9)
    assert KaryRandomizedResponse(1.0, 3000).variance(9) > 100 * KaryRandomizedResponse(1.0, 3).variance(9)


def test_reports_stay_in_the_domain_and_have_the_right_shape():
    rng = np.random.default_rng(0)
    items = rng.integers(0, 5, (40, 3))
    for draw in (lambda law: law.randomize(items, rng), lambda law: law.randomize_securely(items)):
        reported = draw(KaryRandomizedResponse(0.1, 5))
        assert reported.shape == items.shape
        assert set(np.unique(reported)) == set(range(5))
        assert draw(UnaryEncoding(0.1, 5)).shape == (40, 3, 5)
        assert set(np.unique(draw(UnaryEncoding(0.1, 5)))) == {0, 1}
    bits = rng.integers(0, 2, 50)
    assert set(np.unique(RandomizedResponse(0.1).randomize_securely(bits))) == {0, 1}


def test_a_large_epsilon_tells_the_truth():
    items = np.arange(5)
    assert np.array_equal(KaryRandomizedResponse(30.0, 5).randomize_securely(items), items)
    assert np.array_equal(RandomizedResponse(30.0).randomize_securely([0, 1, 1]), [0, 1, 1])


def test_the_kernel_adds_one_report():
    ones = np.full(5, 10.0)
    add_report(KaryRandomizedResponse(0.3, 5).kernel(), 2, ones, stream(0, 0, 1))
    assert ones.sum() == 51
    add_report(UnaryEncoding(0.3, 5).kernel(), 2, ones, stream(0, 0, 1))
    assert 51 <= ones.sum() <= 56


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: RandomizedResponse(0.0),
        lambda: KaryRandomizedResponse(1.0, 1),
        lambda: UnaryEncoding(-1.0, 3),
        lambda: KaryRandomizedResponse(1.0, 3).randomize([3], np.random.default_rng(0)),
        lambda: KaryRandomizedResponse(1.0, 3).randomize([0.5], np.random.default_rng(0)),
        lambda: RandomizedResponse(1.0).randomize([1.5], np.random.default_rng(0)),
        lambda: RandomizedResponse(1.0).randomize_securely([0.5]),
    ],
)
def test_what_is_outside_the_domain_is_refused(wrong):
    with pytest.raises(InvalidInput):
        wrong()


def test_errors_do_not_quote_the_datum():
    with pytest.raises(InvalidInput) as caught:
        KaryRandomizedResponse(1.0, 3).randomize([777], np.random.default_rng(0))
    assert "777" not in str(caught.value)

"""Shuffled bits: what the analyser can see, what is debiased, and the exact widths of mixed batches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from discreet.base.errors import Unsupported
from discreet.base.policies import Policy
from discreet.base.shape import Shape
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.joint_histogram import MarginalTable
from discreet.mechanisms.shuffled import (
    CertifiedBits,
    ShuffledChannel,
    analyse,
    send,
    shuffle,
    shuffled_widths,
)
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.noise import BinomialNoise
from discreet.noise.calibration import ShuffledBits

SHAPE = Shape(2, 1, 1, start=0)  # the policy mask knows that nobody is in the second state
CONTEXT = Context(Policy(np.zeros((1, 2), np.int64)))
ROWS = (1, 2, 1)
BATCH = (30, ShuffledBits(4, 0.25))


def coins(seed=0):
    return np.random.default_rng(seed)


def run(noise=None, bit_level=False, batches=(BATCH,), masked=False, latest=False):
    """The estimate of the visits of two states, after batches of which the first state has 12 each."""
    known = CertifiedBits(tuple(batches))
    channel = ShuffledChannel(MarginalTable(SHAPE, successors=False), known, batches[-1][0], latest, bit_level)
    out = channel.start(SHAPE, noise or SimulatedNoise(coins()), masked)
    for users, _bits in batches:
        out.add(np.array([12.0, 0.0]), users, CONTEXT)
    return out.estimates()["visits"]


def test_every_user_sends_her_true_bit_and_her_noise_bits_separately():
    messages = send(np.array([1, 0, 1]), ShuffledBits(5, 0.5), coins())
    assert messages.shape == (3, 6)
    assert messages[:, 0].tolist() == [1, 0, 1]
    assert set(np.unique(messages)) <= {0, 1}
    assert not send(np.zeros(3), ShuffledBits(5, 2.0**-40), coins()).any()


def test_the_shuffler_keeps_the_bag_and_forgets_the_order():
    messages = send(np.arange(40) < 10, ShuffledBits(3, 0.25), coins())
    shuffled = shuffle(messages, coins(1))
    assert shuffled.shape == (160,)
    assert shuffled.sum() == messages.sum()
    assert not np.array_equal(shuffled, messages.reshape(-1))


def test_only_the_count_matters_not_who_holds_the_ones():
    """With the same coins, any holders of the same number of ones leave the same bag."""
    noise = ShuffledBits(3, 0.25)
    bags = [np.sort(shuffle(send(ones, noise, coins(2)), coins())) for ones in (np.arange(9) < 4, np.arange(9) >= 5)]
    np.testing.assert_array_equal(*bags)


def test_the_analyser_takes_the_expected_noise_off():
    noise = ShuffledBits(4, 0.25)
    assert analyse(np.array([1, 0, 1, 1], np.uint8), 8, noise) == 3 - 8.0
    exact = ShuffledBits(4, 2.0**-40)
    assert analyse(shuffle(send(np.arange(8) < 5, exact, coins()), coins()), 8, exact) == pytest.approx(5)


@pytest.mark.parametrize("bit_level", [False, True])
def test_debiased_counts_lie_on_the_lattice_of_counts(bit_level):
    values = run(bit_level=bit_level).values.ravel() + 30 * 4 * 0.25
    np.testing.assert_array_equal(values, np.round(values))
    assert (values >= [12, 0]).all()
    assert (values <= [12 + 120, 120]).all()


@pytest.mark.parametrize("bit_level", [False, True])
def test_known_zeros_are_not_sent(bit_level):
    batch = run(bit_level=bit_level, masked=True)
    assert batch.values[0, 1, 0] == 0
    assert batch.variance.tolist() == [[[30 * 4 * 0.1875], [0.0]]]


def test_secure_noise_is_debiased_too():
    """Secure draws come as numbers of ones; forgetting the mean would be 300 too much with a deviation of 15."""
    values = run(SecureNoise(), batches=((600, ShuffledBits(1, 0.5)),)).values.ravel()
    assert abs(values[0] - 12) < 8 * np.sqrt(150)
    assert abs(values[1]) < 8 * np.sqrt(150)


def test_real_noise_is_never_drawn_bit_by_bit_from_a_seed():
    with pytest.raises(Unsupported, match="simulation"):
        run(SecureNoise(), bit_level=True)


def test_variances_of_batches_of_different_sizes_add_up():
    batches = (BATCH, (50, ShuffledBits(2, 0.5)), BATCH)
    np.testing.assert_allclose(run(batches=batches).variance, np.full(ROWS, 2 * 120 * 0.1875 + 100 * 0.25))
    np.testing.assert_allclose(run(batches=batches, latest=True).variance, np.full(ROWS, 120 * 0.1875))


def test_the_noise_of_a_size_that_nobody_certified_is_refused():
    with pytest.raises(Unsupported, match="block of 31 users: let 30 answer together"):
        CertifiedBits((BATCH,)).bits(31)


@pytest.mark.parametrize("tail", [0.3, 0.01, 1e-6])
def test_widths_of_mixed_batches_are_exact(tail):
    """By brute force: the law of the sum of two binomials, and the smallest t with at most that much beyond it."""
    first, second = BinomialNoise(40, 0.25), BinomialNoise(30, 0.5)
    copies = {first: np.full(ROWS, 2), second: np.array([1, 0]).reshape(ROWS)}
    widths = shuffled_widths(copies, ROWS, 3, tail)
    masses = np.convolve(binom.pmf(np.arange(241), 240, 0.25), binom.pmf(np.arange(91), 90, 0.5))
    distance = np.abs(np.arange(332)[: len(masses)] - 60 - 45)

    def beyond(t):
        return masses[distance > t + 1e-9].sum()

    assert beyond(widths[0, 0, 0]) <= tail
    assert beyond(widths[0, 0, 0] - 1) > tail
    assert widths[0, 1, 0] == first.sum_quantile(6, tail)


def test_nothing_released_has_no_width():
    assert shuffled_widths({}, ROWS, 3, 0.1).tolist() == np.zeros(ROWS).tolist()
    none = {BinomialNoise(10, 0.5): np.zeros(ROWS, np.int64)}
    assert shuffled_widths(none, ROWS, 3, 0.1).tolist() == np.zeros(ROWS).tolist()

"""SDP-PE's noise bits as printed: tau in every batch, of one step too, and a guarantee that covers every batch."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.mechanisms.release import Layer
from discreet.noise import BinomialNoise
from discreet.papers.sdp_pe import PrintedBits, shuffle_noise_bits
from discreet.problems.elimination.learners import PolicyElimination
from discreet.recipes.registry import build

RIVER = Shape(4, 2, 6, start=0)
ARMS = Shape(1, 20, 1, start=0)
RECIPE = "shuffle/published-sdp-pe"


def noise_of(shape: Shape, epsilon: float = 1.0, episodes: int = 20_000) -> PrintedBits:
    (channel,) = build(discreet.Shuffle(epsilon, 1e-5, recipe=RECIPE), shape, episodes).channels
    return channel.noise


@pytest.mark.parametrize("users", [4, 341, 4096, 5144])
@pytest.mark.parametrize("what", [None, Layer(2)])
def test_every_batch_has_tau_fair_bits_whatever_is_asked(users, what):
    tau = shuffle_noise_bits(6, 4, 2, 1.0, 1e-5)
    bits = noise_of(RIVER).bits(users, what)
    assert bits.probability == 0.5
    assert tau <= users * bits.bits < tau + users
    # The standard deviation that the paper has, in crude layers too: 353.6 and rounding up.
    assert BinomialNoise(users * bits.bits, 0.5).variance ** 0.5 == pytest.approx(353.6, rel=0.01)


def test_the_guarantee_is_twenty_times_what_is_claimed():
    guarantee = build(discreet.Shuffle(1.0, 1e-5, recipe=RECIPE), RIVER, 20_000).guarantee
    assert guarantee.epsilon == pytest.approx(0.048, abs=1e-3)
    assert guarantee.claimed.epsilon == 1.0
    assert "transitions of the last step" in guarantee.explain()


def test_batches_larger_than_tau_toss_one_unfair_bit_each_and_are_certified():
    noise = noise_of(ARMS, epsilon=4.0, episodes=200_000)
    users = 100_000
    assert users > noise.tau
    bits = noise.bits(users)
    assert bits == (1, noise.tau / (2 * users))
    law = BinomialNoise(users, bits.probability)
    assert law.profile(noise.encoder.sensitivity()).delta(noise.epsilon) <= noise.delta
    # With a tenth of the noise the same batch does not keep the promise, and is refused.
    with pytest.raises(Unsupported, match="ask for fewer users"):
        PrintedBits(noise.encoder, noise.tau / 10, noise.epsilon, noise.delta).bits(users)


def test_sdp_pe_as_printed_runs_and_is_blind():
    """The noise exceeds every count of 600 users: nothing is eliminated, so regret is that of playing at random."""
    world = discreet.worlds.river_swim(3, 3).with_time(homogeneous=False)
    target = discreet.Shuffle(1.0, 1e-5, recipe=RECIPE)
    result = discreet.simulate(world, PolicyElimination.published(), target, episodes=600, runs=4, seed=1)
    uniform = 600 * world.gap(discreet.base.policies.uniform_policy(world.shape))
    assert result.recipe == RECIPE
    assert np.median(result.total_regret) == pytest.approx(uniform, rel=0.35)


def test_targets_and_worlds_that_it_was_not_printed_for():
    with pytest.raises(Unsupported, match="pooled over 6 steps"):
        build(discreet.Shuffle(1.0, 1e-5, recipe=RECIPE), Shape(4, 2, 6, homogeneous=True), 100)

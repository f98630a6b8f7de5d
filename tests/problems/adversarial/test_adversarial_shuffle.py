"""Losses of layered worlds through a shuffler: certified noise, the law of the bits, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import discreet
from discreet import Shuffle
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import uniform_policy
from discreet.base.shape import layered_shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import Context, encode
from discreet.mechanisms.schedule import sizes
from discreet.mechanisms.shuffled import CertifiedBits, ShuffledChannel
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import BinomialNoise
from discreet.noise.calibration import ShuffledBits
from discreet.privacy.profiles import compose
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.adversarial.encoders import LayeredTransitions, LossBits, LossTable
from discreet.problems.adversarial.shuffle_recipes import _bits, _directions
from discreet.recipes.registry import build

SHAPE = layered_shape((1, 5, 5, 5, 1), 3)
K, D, H = 5000, 48, 4
NAMES = {"full": "shuffle/loss-tables-binomial", "bandit": "shuffle/observed-losses-binomial"}
LEARNERS = {"full": discreet.learners.UCOREPS(), "bandit": discreet.learners.UOBLBPS()}
MOVES = {"full": (D, 0), "bandit": (H, H)}


def built(feedback, epsilon=1.0, delta=1e-5, shape=SHAPE, episodes=K, **options):
    return build(Shuffle(epsilon, delta, recipe=NAMES[feedback], options=options), shape, episodes)


def profile(privatizer, users, moves, thinner=1.0):
    """Of a block of that size, computed here from the bits alone."""
    laws = [channel.bits(users) for channel in privatizer.channels]
    all_moves = [Sensitivity.unit_shifts(H - 1, H - 1), Sensitivity.unit_shifts(*moves)]
    return compose(
        BinomialNoise(round(users * bits.bits * thinner), bits.probability).profile(move)
        for bits, move in zip(laws, all_moves, strict=True)
    )


@pytest.mark.parametrize("feedback", NAMES)
def test_every_block_keeps_the_promise_with_little_to_spare(feedback):
    privatizer = built(feedback, blocks=70)
    blocks = sorted(set(sizes(privatizer.schedule, K)))
    assert blocks == [71, 72]
    for users in blocks:
        assert profile(privatizer, users, MOVES[feedback]).delta(1.0) <= 1e-5
        assert profile(privatizer, users, MOVES[feedback], thinner=0.97).delta(1.0) > 1e-5
    assert (privatizer.guarantee.model, privatizer.guarantee.epsilon, privatizer.guarantee.delta) == (
        "shuffle", 1.0, 1e-5,
    )  # fmt: skip


def test_tables_may_move_in_any_directions():
    privatizer = built("full", blocks=5, split=0.3)
    (users,) = set(sizes(privatizer.schedule, K))
    assert privatizer.channels[1].bits(users).probability < 0.4
    deltas = [profile(privatizer, users, (D - down, down)).delta(1.0) for down in range(D + 1)]
    assert max(deltas) <= 1e-5
    assert max(deltas) > 1.005 * min(deltas)  # directions do matter
    checked = {(up, down) for moves in _directions(LossTable(SHAPE)) for _, up, down in moves.shifts}
    assert checked == {(D - down, down) for down in range(D + 1)}


def test_noise_is_split_in_the_ratio_of_shares():
    for split in (0.2, 0.5):
        counts, losses = (channel.law.variance for channel in built("bandit", split=split, blocks=20).channels)
        expected = (2 * (H - 1) / split) / (2 * H / (1 - split))
        assert counts / losses == pytest.approx(expected, rel=1e-3)
    assert built("bandit", split=0.0, blocks=20).statistics == {"observed_losses", "signed_losses"}


def test_bits_have_the_variance_that_was_asked_for():
    for users, variance in ((10, 100.0), (1000, 100.0), (4, 1.0), (100_000, 3.0)):
        bits = _bits(users, variance)
        assert BinomialNoise(users * bits.bits, bits.probability).variance == pytest.approx(variance, rel=1e-4)
        assert bits.bits == 1 or users * (bits.bits - 1) < 4 * variance


@pytest.mark.slow
@pytest.mark.parametrize("feedback", NAMES)
def test_more_privacy_means_fewer_blocks_and_auto_finds_the_recipe(feedback):
    number = [len(sizes(built(feedback, e).schedule, K)) for e in (0.3, 1.0, 3.0)]
    assert number[0] < number[1] < number[2]
    privacy = Shuffle(1.0, 1e-5)
    assert build(privacy, SHAPE, K, LEARNERS[feedback].needs).recipe == NAMES[feedback]


def test_losses_are_of_the_last_block_and_counts_of_all():
    shape = layered_shape((1, 2, 1), 2)
    world = discreet.worlds.layered((1, 2, 1), 2, "random", instance=1)
    privacy = Shuffle(50.0, 1e-5, options={"blocks": 4, "bit_level": True})
    result = discreet.simulate(world, LEARNERS["bandit"], privacy, episodes=400, keep_release=True)
    release = result.releases[0]
    per_block = release["observed_losses"].variance.max()
    made = build(Shuffle(50.0, 1e-5, recipe=NAMES["bandit"], options={"blocks": 4}), shape, 400)
    counts, losses = made.channels
    assert per_block == pytest.approx(losses.law.variance)
    assert release["transitions"].variance.max() == pytest.approx(4 * counts.law.variance)
    assert abs(release["transitions"].values.sum() - 400) < 12 * math.sqrt(4 * counts.law.variance * 4)
    assert release["signed_losses"].variance.max() == pytest.approx(2 * per_block)
    # Losses lie in [0, 1] and there are two per user: a block of 100, never 400.
    assert abs(release["observed_losses"].values.sum() - 100) < 100 + 12 * math.sqrt(per_block * 6)


def test_bits_one_by_one_have_the_law_of_the_shortcut():
    """A counter of 40 users of whom 12 have a one: means and variances, 4,000 runs; 5 standard errors (below 1e-5)."""
    encoder = LossTable(layered_shape((1, 1), 1))
    bits = ShuffledBits(3, 0.25)
    context = Context(uniform_policy(encoder.shape))
    for bit_level in (True, False):
        channel = ShuffledChannel(encoder, CertifiedBits(((40, bits),)), 40, latest=True, bit_level=bit_level)
        run = channel.start(encoder.shape, SimulatedNoise(np.random.default_rng(3)), False)
        values = []
        for _ in range(4000):
            run.add(np.array([12.0]), 40, context)
            values.append(run.estimates()["losses"].values[0, 0, 0])
        variance = channel.law.variance
        assert abs(np.mean(values) - 12) < 5 * math.sqrt(variance / 4000)
        assert abs(np.var(values) / variance - 1) < 5 * math.sqrt(2 / 4000)
        assert abs(np.var(values) / (1.5 * variance) - 1) > 5 * math.sqrt(2 / 4000)  # the wrong law is told apart


def test_absent_users_make_the_others_add_more():
    usual, robust = (built("bandit", blocks=20, **options) for options in ({}, {"dropouts": 0.2, "colluding": 0.1}))
    (users,) = set(sizes(usual.schedule, K))
    whole, part = (p.channels[1].bits(users) for p in (usual, robust))
    assert part.bits * part.probability * (1 - part.probability) > 1.3 * whole.bits * whole.probability * (
        1 - whole.probability
    )
    laws = [channel.bits(users) for channel in robust.channels]
    moves = [Sensitivity.unit_shifts(H - 1, H - 1), Sensitivity.unit_shifts(H, H)]
    kept = compose(
        BinomialNoise(math.floor(0.7 * users) * bits.bits, bits.probability).profile(move)
        for bits, move in zip(laws, moves, strict=True)
    )
    assert kept.delta(1.0) <= 1e-5
    assert "0.7 of the noise counted" in robust.guarantee.explain()


def test_what_was_not_certified_is_refused():
    channel = built("bandit", blocks=20).channels[1]
    run = channel.start(SHAPE, SimulatedNoise(np.random.default_rng(0)), False)
    with pytest.raises(Unsupported, match="block of 17 users"):
        run.add(np.zeros(LossBits(SHAPE).size), 17, Context(uniform_policy(SHAPE)))
    with pytest.raises(Unsupported, match="rho"):
        build(Shuffle(rho=0.1, delta=1e-5, recipe=NAMES["full"]), SHAPE, K)
    with pytest.raises(InvalidInput, match="leaves nobody"):
        built("full", dropouts=0.6, colluding=0.5)
    with pytest.raises(InvalidInput, match="nobody is left"):
        built("full", blocks=K, dropouts=0.5)
    with pytest.raises(Unsupported, match="layered"):
        build(Shuffle(1.0, 1e-5, recipe=NAMES["full"]), discreet.Shape(2, 2, 2), 10)


@pytest.mark.parametrize("feedback", NAMES)
def test_audits_do_not_convict(feedback):
    report = discreet.audit(Shuffle(1.0, 0.01, recipe=NAMES[feedback]), SHAPE, episodes=K, trials=10_000)
    assert report.holds
    assert report.certified <= 1.0
    assert report.exact <= 1.0
    assert report.lower_bound > 0.1


def test_all_directions_in_which_counters_can_move_are_certified():
    """Brute force over all records, strays and early ends among them; binomial noise is not symmetric."""
    shape = layered_shape((1, 1, 1, 2, 1), 1)
    paths = np.array([*product(range(shape.states), repeat=shape.horizon)])
    zeros = np.zeros_like(paths)
    full = Trajectories.from_arrays(paths, zeros, zeros.astype(float), shape)
    encoder = LayeredTransitions(shape)
    ends = [replace(full, lengths=np.full(len(full), length)) for length in range(shape.horizon + 1)]
    cells = np.unique(np.vstack([encode(encoder, records, stream(0, 0, USERS)) for records in ends]), axis=0)
    shifts = cells[:, None] - cells[None]
    seen = {(int((s > 0).sum()), int((s < 0).sum())) for s in shifts.reshape(-1, encoder.size)}
    stated = [(up, down) for moves in _directions(encoder) for _, up, down in moves.shifts]
    assert all(any(up <= u and down <= d for u, d in stated) for up, down in seen)
    assert len(stated) == 3

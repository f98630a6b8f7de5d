"""The shuffle model: noise for the size of every batch, layers, users whose noise does not count, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Policy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, NOISE, USERS, generator, stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.counts.first_visit import FirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.release import Layer, Request
from discreet.mechanisms.schedule import Equal, GrowThenEqual
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.noise import BinomialNoise
from discreet.noise.calibration import calibrate_binomial
from discreet.privacy.guarantee import compose, shuffled
from discreet.recipes.predicted_regret import noise_of
from discreet.recipes.registry import build, recipes
from discreet.simulation.users import TabularUsers

POOLED = discreet.Shape(3, 2, 4, homogeneous=True)
PER_STEP = discreet.Shape(3, 2, 4)
WORLD = discreet.worlds.river_swim(states=3, horizon=4).with_time(False)
NAMES = [
    recipe.name
    for recipe in recipes("shuffle")
    # Layered ones and those as printed have tests of their own.
    if recipe.law == "binomial" and not recipe.encoder.startswith("layered") and "published" not in recipe.name
]


def target(epsilon=1.0, delta=1e-5, recipe="shuffle/first-visit-binomial", **options):
    return discreet.Shuffle(epsilon, delta, recipe=recipe, options=options)


def session(total=200, **options):
    privatizer = build(target(recipe="shuffle/joint-histogram-binomial", **options), WORLD.shape, total)
    users = TabularUsers(WORLD, stream(0, 0, USERS), generator(0, 0, COINS))
    return privatizer.open(users, SimulatedNoise(generator(0, 0, NOISE)), total)


def test_auto_takes_what_is_quietest():
    """Three tables of first visits move 3 cells a pair, two tables 4 a pair or a step: better where pairs are many."""
    few, many = discreet.Shape(3, 2, 20, homogeneous=True), discreet.Shape(2, 40, 4, homogeneous=True)
    assert build(target(recipe="auto"), few, 1000).recipe == "shuffle/first-visit-tables-randomised-response"
    assert build(target(recipe="auto"), many, 1000).recipe == "shuffle/first-visit-two-tables-binomial"
    assert build(target(recipe="auto"), PER_STEP, 1000).recipe == "shuffle/two-tables-binomial"


def test_first_visits_are_quieter_than_every_visit_of_a_long_run():
    long = discreet.Shape(3, 2, 20, homogeneous=True)
    assert noise_of(build(target(), long, 100)) < 0.7 * noise_of(
        build(target(recipe="shuffle/joint-histogram-binomial"), replace(long, homogeneous=False), 100)
    )


@pytest.mark.parametrize("users", [1, 10, 333, 5000])
@pytest.mark.parametrize("name", NAMES)
def test_every_batch_is_certified_by_its_own_law(name, users):
    """The law that is drawn keeps the target at the encoder's sensitivity; with 2% less probability it does not."""
    privatizer = build(target(recipe=name), POOLED if "first" in name else PER_STEP, 100)
    (channel,) = privatizer.channels
    for what in [None] if "first" in name else [None, Layer(0), Layer(3)]:
        bits, sensitivity = channel.bits(users, what), channel.noise.sensitivity(what)
        law = BinomialNoise(users * bits.bits, bits.probability)
        assert law.profile(sensitivity).delta(1.0) <= 1e-5
        assert channel.noise.certified(users, what).epsilon <= 1.0
        less = BinomialNoise(users * bits.bits, round(0.98 * bits.probability * 2**32) / 2**32)
        assert less.profile(sensitivity).delta(1.0) > 1e-5
    assert privatizer.guarantee.model == "shuffle"
    assert privatizer.guarantee.also == ("joint",)
    assert (privatizer.guarantee.epsilon, privatizer.guarantee.delta) == (1.0, 1e-5)
    assert privatizer.guarantee.delta_at(1.0) <= 1e-5
    assert privatizer.guarantee.delta_at(0.9) > 0.02


def test_a_batch_that_misses_the_target_has_no_guarantee():
    batch = build(target(), POOLED, 100).channels[0].noise.certified(100)
    assert shuffled([batch], epsilon=1.0, delta=1e-5, why="enough").epsilon == 1.0
    with pytest.raises(InvalidInput, match="above 1e-05"):
        shuffled([batch], epsilon=0.9, delta=1e-5, why="too little")


def test_the_guarantee_composes_like_any_point():
    """Twice (1, 1e-5) is (2, 2e-5) in the worst case, and the profile of the whole is that worst case."""
    once = build(target(), POOLED, 100).guarantee
    twice = compose([once, once], delta=3e-5, why="two mechanisms")
    assert 1.99 < twice.epsilon <= 2.0
    assert twice.delta_at(2.0) == pytest.approx(2e-5, rel=1e-3)


def test_the_derivation_shows_every_rule():
    text = build(target(), POOLED, 100).guarantee.explain()
    for rule in ("billboard lemma:", "parallel composition:", "shuffler:", "sensitivity:", "law:", "first-visit"):
        assert rule in text


@pytest.mark.parametrize("encoder", [JointHistogram, ThreeTables])
@pytest.mark.parametrize("step", [0, 1])
def test_the_sensitivity_of_a_layer_is_attained_and_never_exceeded(all_records, encoder, step):
    shape = discreet.Shape(2, 2, 2)
    own = encoder(shape)
    rows = np.zeros((2, 2, 2), bool)
    rows[step] = True
    cells = encode(own, all_records(shape), stream(0, 0, COINS))[:, own.rows_to_cells(rows) & own.possible()]
    shifts = cells[:, None] - cells[None]
    assert np.abs(shifts).max() == 1
    worst = own.layer_sensitivity(step)
    ((_, up, down),) = worst.shifts
    assert ((shifts > 0).sum(axis=2).max(), (shifts < 0).sum(axis=2).max()) == (up, down)


def test_a_layer_request_releases_that_layer_only_and_with_less_noise():
    opened = session()
    release = opened.answer(Request(uniform_policy(WORLD.shape), 100, Layer(1)))
    visits = release["visits"]
    assert not visits.values[[0, 2, 3]].any()
    assert not visits.variance[[0, 2, 3]].any()
    bits = calibrate_binomial(100, 1, 1, 1.0, 1e-5)
    law = BinomialNoise(100 * bits.bits, bits.probability)
    np.testing.assert_allclose(visits.variance[1], 8 * law.variance)
    assert release.width(2, 0.1)[1, 0, 0] == law.sum_quantile(2, 0.1)
    whole = opened.answer(Request(uniform_policy(WORLD.shape), 100))["visits"].variance
    assert (whole[1] > 4 * visits.variance[1]).all()
    assert (whole[2] > 3 * visits.variance[1]).all()


def test_users_are_counted_unbiased_whatever_the_batches():
    """The sum over all counts of a step is the number of users, up to the noise of its cells."""
    opened = session(total=5000, masked=False)
    for users in (1000, 3000, 1000):
        release = opened.answer(Request(uniform_policy(WORLD.shape), users))
    visits = release["visits"]
    totals, deviation = visits.values.sum(axis=(1, 2)), np.sqrt(visits.variance.sum(axis=(1, 2)))
    assert (np.abs(totals - 5000) < 5 * deviation).all()
    assert (deviation < 250).all()


def test_masked_rows_carry_no_noise():
    policy = Policy(np.ones((4, 3), np.int64))
    visits = session().answer(Request(policy))["visits"]
    assert not visits.variance[..., 0].any()
    assert visits.variance[1, 2, 1] > 0
    assert not visits.values[..., 0].any()


@pytest.mark.parametrize("options", [{"dropouts": 0.2}, {"colluding": 0.2}, {"dropouts": 0.1, "colluding": 0.1}])
def test_noise_that_may_be_missing_is_not_counted(options):
    """The remaining 80% of the users hide everybody; all 100% send, so the noise grows."""
    (plain,), (careful,) = (build(target(**given), POOLED, 20_000).channels for given in ({}, options))
    bits = careful.bits(1000)
    remaining = BinomialNoise(800 * bits.bits, bits.probability)
    assert remaining.profile(careful.noise.sensitivity()).delta(1.0) <= 1e-5
    assert careful.noise.certified(1000).epsilon <= 1.0
    assert 1.15 < careful.law.variance / plain.law.variance < 1.35
    assert "0.8 of the noise" in build(target(**options), POOLED, 20_000).guarantee.explain()


def test_bit_level_batches_are_simulated_bit_by_bit():
    release = session(bit_level=True).answer(Request(uniform_policy(WORLD.shape), 50))
    plain = session().answer(Request(uniform_policy(WORLD.shape), 50))
    for name in ("visits", "transitions", "rewards"):
        np.testing.assert_array_equal(release[name].variance, plain[name].variance)
    assert not np.array_equal(release["visits"].values, plain["visits"].values)


def test_the_integer_encoder_is_refused():
    with pytest.raises(Unsupported, match="separate bits"):
        build(target(messages="integer"), POOLED, 100)


@pytest.mark.parametrize("name", [name for name in NAMES if "first" not in name])
def test_counts_that_move_by_more_than_one_are_refused(name):
    with pytest.raises(Unsupported, match="per step"):
        build(target(recipe=name), POOLED, 100)


def test_pooled_counts_have_no_layers():
    with pytest.raises(Unsupported, match="no layers"):
        FirstVisit(POOLED).layer_sensitivity(0)
    assert build(target(), POOLED, 100).channels[0].answers == frozenset()
    with pytest.raises(InvalidInput, match=r"0\.\.3"):
        JointHistogram(PER_STEP).layer_sensitivity(4)


@pytest.mark.parametrize(
    "options", [{"dropouts": 1.0}, {"dropouts": 0.5, "colluding": 0.5}, {"colluding": -0.1}, {"blocks": 0}]
)
def test_options_outside_their_domain_are_refused(options):
    with pytest.raises((InvalidInput, Unsupported)):
        build(target(recipe="shuffle/first-visit-binomial", **options), POOLED, 100)


def test_a_concentrated_target_is_refused():
    with pytest.raises(Unsupported, match="rho"):
        build(discreet.Shuffle(rho=0.1, delta=1e-5, recipe="shuffle/first-visit-binomial"), POOLED, 100)


@pytest.mark.parametrize(
    ("epsilon", "episodes", "blocks"), [(3.0, 20_000, 113), (1.0, 20_000, 67), (0.1, 20_000, 24), (1.0, 3, 3)]
)
def test_louder_noise_means_fewer_blocks(epsilon, episodes, blocks):
    assert build(target(epsilon), POOLED, episodes).schedule == Equal(blocks)


def test_schedules_may_be_chosen():
    assert build(target(blocks=50), POOLED, 1000).schedule == Equal(50)
    growing = build(target(blocks=10, first=5), POOLED, 1000)
    assert growing.schedule == GrowThenEqual(10, 5)
    assert growing.channels[0].block == 100


@pytest.mark.parametrize("recipe", ["joint-histogram-binomial", "three-tables-binomial", "sampled-item"])
@pytest.mark.parametrize("users", [1, 2])
@pytest.mark.parametrize("epsilon", [700.0, 1e5])
def test_next_to_no_privacy_is_a_promise_like_any_other(recipe, users, epsilon):
    """A single coin has one finite loss, so that steps of losses were too short to be counted up to epsilon."""
    guarantee = build(discreet.Shuffle(epsilon, 1e-5, recipe=f"shuffle/{recipe}"), Shape(2, 2, 2), users).guarantee
    assert (guarantee.epsilon, guarantee.delta) == (epsilon, 1e-5)

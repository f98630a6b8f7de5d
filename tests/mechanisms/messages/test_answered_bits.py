"""The local paper's shuffle appendix: batches with their true promise, and the printed prefix, which hides nobody."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.audit.audit import audit
from discreet.audit.binomial_audit import Charge, audit_pairs
from discreet.audit.likelihoods import response_transcript
from discreet.audit.neighbours import worst_pair
from discreet.audit.trials import FixedUsers, WholeSession, likelihood_of, profile_of
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Policy, uniform_policy
from discreet.base.streams import COINS, stream
from discreet.mechanisms.counts.encoder import Context, encode
from discreet.mechanisms.counts.three_tables import RewardLevels, ThreeTables
from discreet.mechanisms.messages.answered_bits import ResponseRun, respond
from discreet.mechanisms.release import Layer, Request
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import RandomizedResponse
from discreet.noise.shuffled_randomized_response import ShuffledResponse
from discreet.papers.ldp_obi import newcomer, prefix_views, printed_epsilon, printed_p
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.words import rounded_up
from discreet.recipes.registry import build, recipes

POOLED = discreet.Shape(3, 2, 4, homogeneous=True)
PER_STEP = discreet.Shape(3, 2, 4)
NAMES = [
    recipe.name
    for recipe in recipes("shuffle")
    if recipe.law == "randomised-response" and recipe.source == "discreet" and recipe.encoder != "arm-rewards"
]
TABLES = "shuffle/three-tables-randomised-response"
PREFIX = "shuffle/published-prefix"


def target(epsilon=1.0, delta=1e-5, recipe=TABLES, **options):
    return discreet.Shuffle(epsilon, delta, recipe=recipe, options=options)


def shape_for(name):
    return POOLED if "first" in name else PER_STEP


@pytest.mark.parametrize("users", [1, 10, 333, 5000])
@pytest.mark.parametrize("name", NAMES)
def test_every_batch_is_certified_by_its_own_answers(name, users):
    """The answers keep the target at the encoder's sensitivity; one percent more truthful they do not."""
    privatizer = build(target(recipe=name), shape_for(name), 100)
    (channel,) = privatizer.channels
    for what in [None] if "first" in name else [None, Layer(0), Layer(3)]:
        law, moves = channel.response(users, what), channel.sensitivity(what)
        assert law.profile(moves).delta(1.0) <= 1e-5
        assert channel.certified(users, what).epsilon <= 1.0
        assert ShuffledResponse(1.01 * law.epsilon, users).profile(moves).delta(1.0) > 1e-5
    guarantee = privatizer.guarantee
    assert (guarantee.model, guarantee.epsilon, guarantee.delta) == ("shuffle", 1.0, 1e-5)
    assert guarantee.also == ("joint",)
    assert guarantee.delta_at(1.0) <= 1e-5


@pytest.mark.parametrize(("levels", "horizon", "bits"), [(1, 2, 10), (2, 2, 14), (1, 3, 16), (2, 3, 22), (3, 1, 8)])
def test_the_paper_counts_too_few_bits(all_records, levels, horizon, bits):
    """2 (m + 2) H - 2 of them flip, found by trying all pairs of trajectories; the paper says about H."""
    shape = discreet.Shape(2, 1, horizon)
    encoder = RewardLevels(shape, levels)
    cells = np.unique(encode(encoder, all_records(shape), stream(0, 0, COINS)), axis=0)
    shifts = cells[:, None] - cells[None]
    assert np.abs(shifts).max() == 1
    assert np.abs(shifts).sum(axis=2).max() == bits == 2 * (levels + 2) * horizon - 2
    stated = encoder.sensitivity()
    assert (stated.cells, stated.unit) == (bits, True)
    assert ((shifts > 0).sum(axis=2).max(), (shifts < 0).sum(axis=2).max()) == (bits // 2, bits // 2)


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("step", [0, 1])
def test_a_layer_flips_what_is_stated(all_records, levels, step):
    shape = discreet.Shape(2, 1, 2)
    (channel,) = build(target(levels=levels), shape, 10).channels
    encoder, rows = channel.encoder, np.zeros((2, 2, 1), bool)
    rows[step] = True
    cells = encode(encoder, all_records(shape), stream(0, 0, COINS))[
        :, encoder.rows_to_cells(rows) & encoder.possible()
    ]
    assert np.abs(cells[:, None] - cells[None]).sum(axis=2).max() == channel.sensitivity(Layer(step)).cells


@pytest.mark.parametrize("name", NAMES)
def test_the_only_layer_of_a_bandit_is_all_of_it(name):
    shape = discreet.Shape(1, 5, 1, homogeneous=True)
    (channel,) = build(target(recipe=name), shape, 100).channels
    assert channel.answers == {Layer}
    assert channel.sensitivity(Layer(0)).cells == channel.sensitivity().cells


def test_one_level_is_the_three_tables():
    records = Trajectories(np.array([[0, 1], [1, 1]]), np.array([[0, 1], [1, 0]]), np.eye(2), np.array([2, 2]))
    levels, tables = RewardLevels(discreet.Shape(2, 2, 2), 1), ThreeTables(discreet.Shape(2, 2, 2))
    ours, theirs = (
        encoder.marginals(encode(encoder, records, stream(0, 0, 0)).sum(axis=0)) for encoder in (levels, tables)
    )
    for name in ("visits", "transitions", "rewards"):
        np.testing.assert_array_equal(ours[name].values, theirs[name].values)
        np.testing.assert_array_equal(ours[name].cells, theirs[name].cells)


def test_rewards_in_levels_are_rounded_without_bias():
    """A reward of 0.55 of the range in 4 levels: two ones, a coin of 0.2, a zero."""
    shape = discreet.Shape(1, 1, 1, rewards=(-1.0, 3.0))
    users = 4000
    records = Trajectories(
        *(np.zeros((users, 1), np.int64),) * 2, np.full((users, 1), -1 + 4 * 0.55), np.ones(users, int)
    )
    encoder = RewardLevels(shape, 4)
    bits = encode(encoder, records, stream(0, 0, COINS))[:, 2:]
    assert (bits[:, :2] == 1).all()
    assert not bits[:, 3].any()
    assert abs(bits[:, 2].mean() - 0.2) < 5 * 0.4 / math.sqrt(users)
    mean = encoder.marginals(encode(encoder, records, stream(0, 0, COINS)).mean(axis=0))["rewards"].values
    assert mean[0, 0, 0] == pytest.approx(0.55, abs=5 * 0.1 / math.sqrt(users))


def batch(channel, shape, masked=False, seed=0):
    return ResponseRun(channel, SimulatedNoise(np.random.default_rng(seed)), masked), Context(uniform_policy(shape))


@pytest.mark.parametrize("bit_level", [False, True])
@pytest.mark.parametrize(("name", "options"), [(name, {}) for name in NAMES] + [(TABLES, {"levels": 3})])
def test_counts_are_unbiased_and_scatter_as_stated(name, options, bit_level):
    """300 batches of 24 users with made-up tallies: means within 5 standard errors, variances within 40%.

    The mean of 300 squared standard normals exceeds 1.4 once in a million times. Twice the variance is rejected.
    """
    shape = replace(shape_for(name), states=2, horizon=2)
    (channel,) = build(target(2.0, recipe=name, bit_level=bit_level, **options), shape, 100).channels
    size, batches = channel.encoder.size, 300
    tally = np.arange(size) % 5 * channel.encoder.possible()
    truth = channel.encoder.marginals(tally.astype(float))
    found = {key: [] for key in truth}
    for i in range(batches):
        run, context = batch(channel, shape, seed=i)
        run.add(tally.astype(float), 24, context)
        for key, estimate in run.estimates().items():
            found[key].append(estimate.values)
    for key, values in found.items():
        stated = run.estimates()[key].variance
        stated = stated[..., None] if key == "transitions" else stated
        errors = np.array(values) - truth[key].values
        noisy = np.broadcast_to(stated > 0, errors.shape[1:])
        assert not errors[:, ~noisy].any()
        scaled = (errors / np.sqrt(np.where(stated > 0, stated, 1.0)))[:, noisy]
        assert (np.abs(scaled.mean(axis=0)) < 5 / math.sqrt(batches)).all()
        assert ((scaled**2).mean(axis=0) < 1.4).all()
        assert ((scaled**2).mean(axis=0) > 0.6).all()
        assert not ((2 * scaled**2).mean(axis=0) < 1.4).any()


def test_steps_are_pooled_after_the_shuffler():
    (channel,) = build(target(), POOLED, 200).channels
    run, context = batch(channel, POOLED)
    records = Trajectories(np.zeros((40, 4), int), np.zeros((40, 4), int), np.ones((40, 4)), np.full(40, 4))
    run.add(encode(channel.encoder, records, stream(0, 0, COINS)).sum(axis=0), 40, context)
    visits = run.estimates()["visits"]
    assert visits.values.shape == (1, 3, 2)
    np.testing.assert_allclose(visits.variance, 4 * channel.response(40).variance)
    assert abs(visits.values[0, 0, 0] - 160) < 5 * math.sqrt(visits.variance[0, 0, 0])
    np.testing.assert_allclose(run.estimates()["transitions"].variance, 3 * channel.response(40).variance)
    assert channel.cells_per_count() == {"visits": 4, "transitions": 3, "rewards": 4}
    log, step = math.log(2 / 0.05), channel.response(40).response.p / (1 - 2 * channel.response(40).response.q)
    bernstein = math.sqrt(2 * visits.variance[0, 0, 0] * log + (step * log / 3) ** 2) + step * log / 3
    np.testing.assert_allclose(run.width_now()(4, 0.05), bernstein)
    assert (run.width_now()(8, 0.05) > 1.3 * bernstein).all()
    assert (run.radius_now()("followed", 0.05) > run.radius_now()("transitions", 0.05)).all()
    assert build(target(levels=3), POOLED, 200).channels[0].cells_per_count()["rewards"] == 4


def test_masked_rows_are_not_sent_and_layers_only_when_asked():
    (channel,) = build(target(), PER_STEP, 200).channels
    run, _ = batch(channel, PER_STEP, masked=True)
    policy = Policy(np.ones((4, 3), np.int64))
    run.add(np.zeros(channel.encoder.size), 50, Context(policy, Layer(1)))
    visits = run.estimates()["visits"]
    assert not visits.variance[[0, 2, 3]].any()
    assert not visits.variance[1, :, 0].any()
    np.testing.assert_allclose(visits.variance[1, :, 1], channel.response(50, Layer(1)).variance)
    assert channel.response(50, Layer(1)).variance < 0.4 * channel.response(50).variance
    assert channel.answers == {Layer}
    assert build(target(), POOLED, 200).channels[0].answers == frozenset()


@pytest.mark.parametrize("bound", ["width", "radius"])
def test_widths_hold_for_every_crowd(bound):
    """Noise of 400 counters, half of them held by nobody and half by everybody: fewer are outside than allowed."""
    shape = discreet.Shape(1, 200, 1)
    (channel,) = build(target(recipe="shuffle/three-tables-randomised-response"), shape, 5000).channels
    run, context = batch(channel, shape)
    tally = np.zeros(channel.encoder.size)
    tally[::2] = 300
    for _ in range(3):
        run.add(tally, 300, context)
    estimate = run.estimates()["visits"]
    error = np.abs(estimate.values - 3 * tally[:200].reshape(1, 1, 200))
    limit = run.width_now()(1, 0.05) if bound == "width" else run.radius_now()("visits", 0.05)
    assert (error > limit).mean() < 0.05
    assert (limit < 8 * np.sqrt(estimate.variance)).all()
    assert (limit > 2 * np.sqrt(estimate.variance)).all()
    wide = run.width_now()(4, 0.05) if bound == "width" else run.radius_now()("visits", 1e-9)
    assert (wide > 1.5 * limit).all()


@pytest.mark.parametrize("options", [{"dropouts": 0.25}, {"colluding": 0.25}, {"dropouts": 0.125, "colluding": 0.125}])
def test_a_crowd_that_may_be_missing_is_not_counted(options):
    (channel,) = build(target(**options), PER_STEP, 20_000).channels
    law = channel.response(1000)
    assert law.users == 1000
    assert replace(law, users=750).profile(channel.sensitivity()).delta(1.0) <= 1e-5
    assert replace(law, users=735).profile(channel.sensitivity()).delta(1.0) > 1e-5
    assert "0.75 of them counted" in build(target(**options), PER_STEP, 20_000).guarantee.explain()
    assert channel.response(1).users == 1


def test_a_failing_shuffler_leaves_a_local_promise():
    privatizer = build(target(), PER_STEP, 20_000)
    (channel,) = privatizer.channels
    alone = channel.unshuffled(channel.block)
    bits = 6 * 4 - 2
    assert (alone.model, alone.delta) == ("local", 0.0)
    assert alone.epsilon == pytest.approx(bits * channel.law.epsilon, rel=1e-9)
    assert alone.epsilon > 5
    assert f"epsilon {rounded_up(alone.epsilon)}" in privatizer.guarantee.explain()


def test_devices_answer_every_bit_by_themselves():
    law = RandomizedResponse(1.0)
    bits = np.arange(40_000) % 2
    for sent in (respond(bits, law, np.random.default_rng(0)), respond(bits, law)):
        flipped = (sent != bits).mean()
        assert abs(flipped - law.q) < 5 * math.sqrt(law.p * law.q / len(bits))
    with pytest.raises(Unsupported, match="answer their own bits"):
        build(target(), PER_STEP, 10).channels[0].start(PER_STEP, SecureNoise(), True)


@pytest.mark.parametrize("learner", ["UCBVI", "UCBPO", "OBI", "PSRL"])
def test_learners_that_take_counts_run_on_rewards_in_levels(learner):
    world = discreet.worlds.river_swim(states=3, horizon=3)
    privacy = target(levels=2, blocks=3)
    result = discreet.simulate(world, getattr(discreet.learners, learner)(), privacy, episodes=60, seed=1)
    assert (result.guarantee.model, result.guarantee.epsilon) == ("shuffle", 1.0)
    assert np.isfinite(result.regret).all()


@pytest.mark.slow
def test_the_audit_does_not_convict_it_and_sees_it():
    """At delta 0.05 what is certified is nearly reached; whole sessions of two users stay below as well."""
    shape = discreet.Shape(2, 1, 1)
    privatizer = build(target(1.0, 0.05), shape, 2)
    (channel,) = privatizer.channels
    assert profile_of(channel).delta(1.0) <= 0.05
    finding = audit_pairs([Charge(likelihood_of(channel), 1.0, 0.05)], trials=200_000, seed=1)
    assert 0.6 < finding.lower_bound <= 1.0
    session = WholeSession(build(target(1.0, 0.05, blocks=1), shape, 3), worst_pair(channel.encoder).records, 3, None)
    assert audit_pairs([Charge(session, 1.0, 0.05)], trials=4000, seed=1).lower_bound <= 1.0


# What the paper's formula gives for one batch, with the square root of its source.


def batch_by_formula(users, horizon, epsilon=1.0, delta=1e-5, root=True):
    p = printed_p(users * horizon, epsilon, delta, root=root)
    return ShuffledResponse(math.log(2 / p - 1), users), Sensitivity.unit_shifts(3 * horizon - 1, 3 * horizon - 1)


def test_a_batch_with_the_p_of_the_formula_is_convicted():
    law, moves = batch_by_formula(20_000, 6)
    true = law.profile(moves).epsilon(1e-5)
    assert true == pytest.approx(4.08, abs=0.01)
    finding = audit_pairs([Charge(response_transcript(law, moves.cells), 1.0, 1e-5)], trials=100_000, seed=0)
    assert 1.0 < finding.lower_bound < true


def test_the_audit_does_not_convict_the_printed_formula():
    name = "published/ldp-shuffle-appendix-batch"
    report = audit(discreet.Shuffle(1.0, 1e-5, recipe=name), discreet.Shape(4, 2, 6), trials=60_000)
    assert report.holds
    assert report.lower_bound <= report.certified


def test_as_printed_the_formula_is_safe_by_accident_and_not_at_long_horizons():
    law, moves = batch_by_formula(20_000, 6, root=False)
    assert law.profile(moves).epsilon(1e-5) < 0.3
    law, moves = batch_by_formula(100_000, 60, root=False)
    assert law.profile(moves).epsilon(1e-5) > 1.5
    assert printed_epsilon(0.5, 12_000, 1e-6) == pytest.approx(
        32 * math.log(4e6) / math.sqrt(12_000 * 0.4653) * 0.5347, rel=1e-3
    )
    assert printed_epsilon(0.5, 12_000, 1e-6, root=True) == pytest.approx(
        printed_epsilon(0.5, 12_000, 1e-6) / math.sqrt(32 * math.log(4e6))
    )
    with pytest.raises(InvalidInput, match="needs p from"):
        printed_epsilon(1e-4, 12_000, 1e-6)
    with pytest.raises(InvalidInput, match="more users"):
        printed_p(100, 1.0, 1e-5)


# The printed protocol.


def test_two_views_in_a_row_give_away_one_message():
    """Algorithm 8 with the messages of algorithm 10: whatever the permutations, user k's message is the difference."""
    shape = discreet.Shape(2, 2, 3)
    world = discreet.worlds.random_mdp(horizon=3, instance=3).with_time(False)
    coins, draws = np.random.default_rng(0), stream(0, 0, COINS)
    users = 12
    states, actions = coins.integers(0, 2, (2, users, 3))
    records = Trajectories(states, actions, coins.integers(0, 2, (users, 3)).astype(float), np.full(users, 3))
    assert world.shape.horizon == 3
    encoder, law = ThreeTables(shape), RandomizedResponse(1.0 / 3)
    messages = [respond(bits, law, coins) for bits in encode(encoder, records, draws)]
    views = list(prefix_views(messages, coins))
    assert [len(view) for view in views] == list(range(users + 1))
    moved = 0
    for k in range(users):
        np.testing.assert_array_equal(newcomer(views[k], views[k + 1]), messages[k])
        moved += any(not np.array_equal(a, b) for a, b in zip(views[k], views[k + 1], strict=False))
    assert moved > users // 2  # the shuffler did permute
    with pytest.raises(InvalidInput, match="not two views in a row"):
        newcomer(views[3], views[5])
    with pytest.raises(InvalidInput, match="not two views in a row"):
        newcomer([messages[0]], [messages[1], messages[2]])


def test_two_views_are_told_apart_as_well_as_the_message_itself():
    """Both views together lose what the one message loses: pure (6 H - 2) times the epsilon of a bit."""
    shape = discreet.Shape(2, 1, 1)
    encoder, law = ThreeTables(shape), RandomizedResponse(0.5)
    pair = worst_pair(encoder)
    coins = np.random.default_rng(4)
    other = respond(pair.cells[0], law, coins)
    largest = 0.0
    for _ in range(400):
        own = respond(pair.cells[0], law, coins)
        views = list(prefix_views([other, own], coins))
        seen = newcomer(views[1], views[2])
        agree = [(seen == cells)[pair.shift != 0].sum() for cells in pair.cells]
        largest = max(largest, (agree[0] - agree[1]) * law.shipped_epsilon)
    assert largest == pytest.approx(build(target(0.5, recipe=PREFIX), shape, 10).guarantee.epsilon)
    assert largest == pytest.approx(4 * 0.5)


@pytest.mark.parametrize("horizon", [1, 2, 6])
def test_the_printed_prefix_has_a_local_promise_and_nothing_else(horizon):
    shape = discreet.Shape(2, 2, horizon, homogeneous=True)
    privatizer = build(target(recipe=PREFIX), shape, 100)
    guarantee = privatizer.guarantee
    assert guarantee.epsilon == pytest.approx(6 - 2 / horizon)
    assert guarantee.delta == 0.0
    assert guarantee.claimed.epsilon == 1.0
    assert "nothing is amplified" in guarantee.explain()
    assert "only up to a constant factor, and so it is said" in guarantee.explain()
    (channel,) = privatizer.channels
    assert channel.law.q == pytest.approx(1 / (math.exp(1 / horizon) + 1))  # p / 2


@pytest.mark.parametrize("name", ["shuffle/joint-histogram-randomised-response"])
def test_pooled_cells_that_move_by_more_than_one_are_refused(name):
    with pytest.raises(Unsupported, match="more than one"):
        build(target(recipe=name), POOLED, 100)


def test_refusals():
    for name in (TABLES, PREFIX):
        with pytest.raises(Unsupported, match="instead of rho"):
            build(discreet.Shuffle(rho=0.1, delta=1e-5, recipe=name), PER_STEP, 10)
    with pytest.raises(InvalidInput, match="levels"):
        build(target(levels=0), PER_STEP, 10)
    with pytest.raises(Unsupported, match="pool afterwards"):
        RewardLevels(POOLED, 2)
    with pytest.raises(InvalidInput, match="leaves nobody"):
        build(target(dropouts=1.0), PER_STEP, 10)


def test_a_session_releases_what_it_promises():
    world = discreet.worlds.river_swim(states=3, horizon=4)
    privatizer = build(target(8.0, masked=False), world.shape, 4000)
    users = FixedUsers(
        [Trajectories(*(np.zeros((4000, 4), int),) * 2, np.zeros((4000, 4)), np.full(4000, 4))], stream(0, 0, 0)
    )
    session = privatizer.open(users, SimulatedNoise(np.random.default_rng(0)), 4000)
    release = session.answer(Request(uniform_policy(world.shape), users=4000))
    visits = release["visits"]
    assert abs(visits.values[0, 0, 0] - 16_000) < 6 * math.sqrt(visits.variance[0, 0, 0])
    assert abs(release["rewards"].values).max() < 6 * math.sqrt(release["rewards"].variance.max())
    assert release.radius("followed", 0.1).shape == (1, 3, 2)
    assert release.guarantee.model == "shuffle"

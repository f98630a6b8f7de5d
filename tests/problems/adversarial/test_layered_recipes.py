"""Recipes for adversarial losses: computed guarantees, budget splits, reports that are unbiased, audits that agree."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet import Central, Local
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import uniform_policy
from discreet.base.shape import layered_shape
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.schedule import sizes
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.sums.blocks import Blocks
from discreet.noise.knorm import TableNoise
from discreet.papers import published
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.adversarial.encoders import LayeredTransitions, LossBits, LossTable
from discreet.problems.adversarial.mechanisms import OneBitChannel, SampledLayerChannel
from discreet.recipes.registry import build

SHAPE = layered_shape((1, 4, 4, 4, 1), 3)
K, D, H = 5000, 39, 4


def built(privacy, shape=SHAPE, episodes=K):
    return build(privacy, shape, episodes)


def central(recipe="central/loss-tables", epsilon=1.0, **options):
    return built(Central(epsilon, recipe=recipe, options=options))


def laws(privatizer):
    return [channel.law for channel in privatizer.channels]


@pytest.mark.parametrize("accumulator", ["tree", "even-tree"])
def test_a_tree_pays_for_every_level(accumulator):
    counts, losses = laws(central(accumulator=accumulator, losses="k-norm", split=0.5))
    levels = K.bit_length()
    assert counts.scale == pytest.approx(2 * (H - 1) * levels / 0.5)
    assert (losses.dimension, losses.scale) == (D, pytest.approx(levels / 0.5))
    _, losses = laws(central(accumulator=accumulator, losses="laplace", split=0.5))
    assert losses.scale == pytest.approx(D * levels / 0.5)


def test_blocks_pay_once():
    privatizer = central(losses="k-norm", blocks=40, split=0.5)
    counts, losses = laws(privatizer)
    assert isinstance(privatizer.channels[0].accumulator, Blocks)
    assert counts.scale == pytest.approx(2 * (H - 1) / 0.5)
    assert losses.scale == pytest.approx(1 / 0.5)
    assert len(sizes(privatizer.schedule, K)) == 40
    assert "exactly one block" in privatizer.guarantee.explain()


def test_more_privacy_means_fewer_blocks():
    number = {e: len(sizes(central(epsilon=e).schedule, K)) for e in (0.1, 1.0, 10.0)}
    assert 1 <= number[0.1] < number[1.0] < number[10.0] <= K
    deviation = math.sqrt(laws(central())[1].variance)
    assert number[1.0] == round(K / (3.5 * deviation))


@pytest.mark.parametrize("split", [0.2, 0.5, 0.9])
def test_the_split_divides_epsilon_and_nothing_is_lost(split):
    privatizer = central(split=split, losses="k-norm", blocks=40)
    counts, losses = laws(privatizer)
    assert counts.scale == pytest.approx(2 * (H - 1) / split)
    assert losses.scale == pytest.approx(1 / (1 - split))
    assert privatizer.guarantee.epsilon == pytest.approx(1.0, abs=1e-12)


def test_known_transitions_leave_everything_to_the_losses():
    privatizer = central(split=0.0, losses="k-norm")
    assert privatizer.statistics == {"losses"}
    assert laws(privatizer)[0].scale == pytest.approx(1.0)


@pytest.mark.parametrize("split", [-0.1, 1.0, 1.2])
def test_a_split_that_leaves_nothing_is_refused(split):
    with pytest.raises(InvalidInput, match="split"):
        central(split=split)


def test_public_losses_are_published_as_they_are_and_the_guarantee_says_so():
    privatizer = central(losses_private=False)
    counts, losses = laws(privatizer)
    assert losses.variance == 0
    assert counts.scale == pytest.approx(2 * (H - 1) * K.bit_length())  # nothing to wait for: a tree over users
    assert privatizer.guarantee.epsilon == pytest.approx(1.0)
    assert "public: the loss tables" in privatizer.guarantee.explain()
    with pytest.raises(InvalidInput, match="no privacy is at stake"):
        built(Central(1.0, recipe="central/loss-tables", options={"losses_private": False}), layered_shape((1, 1), 3))


def test_auto_takes_the_quieter_of_tree_and_one_bit():
    """Few users: one bit each. Many: a tree, whose noise grows with the logarithm of their number only."""
    few = built(Central(1.0, recipe="central/loss-tables", options={"accumulator": "tree"}), episodes=1000)
    many = built(Central(1.0, recipe="central/loss-tables", options={"accumulator": "tree"}), episodes=5_000_000)
    assert isinstance(few.channels[1], OneBitChannel)
    assert isinstance(many.channels[1].law, TableNoise)
    assert few.guarantee.epsilon == pytest.approx(1.0) == many.guarantee.epsilon


def test_bandit_losses_are_private_user_by_user():
    counts, losses = laws(central("central/observed-losses"))
    assert losses.scale == pytest.approx(2 * H / 0.5)
    assert counts.scale == pytest.approx(2 * (H - 1) * K.bit_length() / 0.5)
    local = built(Local(1.0, recipe="local/observed-losses", options={"split": 0.5}))
    assert local.guarantee.model == "local"
    assert [law.scale for law in laws(local)] == [pytest.approx(2 / 0.5)] * 2  # one layer only


def test_gaussian_recipes_split_rho():
    half = {"split": 0.5, "blocks": 40}
    privatizer = built(Central(rho=0.5, recipe="central/loss-tables-gaussian", options=half))
    assert privatizer.guarantee.rho == pytest.approx(0.5)
    counts, losses = laws(privatizer)
    assert counts.sigma**2 == pytest.approx(6 * 2 * (H - 1) / (2 * 0.25))  # a tree of six levels over forty blocks
    assert losses.sigma**2 == pytest.approx(D / (2 * 0.25))
    target = built(Central(1.0, 1e-5, recipe="central/observed-losses-gaussian"))
    assert 0.999 < target.guarantee.epsilon <= 1.0
    with pytest.raises(Unsupported, match="delta"):
        built(Central(1.0, recipe="central/loss-tables-gaussian"))
    with pytest.raises(Unsupported, match="epsilon"):
        built(Central(rho=0.5, recipe="central/loss-tables"))


def test_published_recipes_state_what_they_really_give():
    """Per layer two cells move and not one, and with full information the whole table does; (4/3 + d/3H) and more."""
    levels, log = K.bit_length(), math.log2(K)
    table = built(Central(1.0, recipe="central/loss-tables-published")).guarantee
    assert table.claimed.epsilon == 1.0
    assert "NOT TRUE" in table.explain()
    counted = (2 * H + 2 * (H - 1)) / (3 * H)  # the last step's transitions are certain and not released here
    assert table.epsilon == pytest.approx((counted + D / (3 * H)) * levels / log)
    bandit = built(Local(1.0, recipe="local/observed-losses-published")).guarantee
    assert bandit.epsilon == pytest.approx(counted + 2 / 3)
    printed = published("published/adversarial-full-information").truth(SHAPE, epsilon=1.0, episodes=K)
    assert printed.epsilon == pytest.approx((4 / 3 + D / (3 * H)) * levels / log)


@pytest.mark.parametrize("recipe", ["central/loss-tables", "local/observed-losses", "none/loss-tables"])
def test_other_worlds_are_refused(recipe):
    model = {"central": Central, "local": Local}.get(recipe.split("/")[0])
    privacy = discreet.NoPrivacy(recipe=recipe) if model is None else model(1.0, recipe=recipe)
    with pytest.raises(Unsupported, match="layered"):
        build(privacy, discreet.Shape(2, 2, 2), 10)


@pytest.mark.parametrize("option", [{"losses": "l2"}, {"accumulator": "bush"}, {"accumulator": "tree", "blocks": 3}])
def test_options_that_do_not_exist_are_refused(option):
    with pytest.raises(InvalidInput):
        central(**option)


def test_one_bit_needs_every_user_by_herself():
    with pytest.raises(Unsupported, match="accumulator='tree'"):
        central(losses="one-bit", accumulator="blocks")
    assert isinstance(central(losses="one-bit").channels[1], OneBitChannel)
    run = OneBitChannel(LossTable(SHAPE, rounded=False), 1.0).start(
        SHAPE, SimulatedNoise(np.random.default_rng(0)), False
    )
    with pytest.raises(Unsupported, match="one user at a time"):
        run.add(np.zeros(D), 2, Context(uniform_policy(SHAPE)))
    real = OneBitChannel(LossTable(SHAPE, rounded=False), 1.0).start(SHAPE, SecureNoise(), False)
    with pytest.raises(Unsupported, match="device"):
        real.add(np.zeros(D), 1, Context(uniform_policy(SHAPE)))


def test_a_table_of_noise_pays_for_its_largest_entry_in_every_release():
    noise = TableNoise(5, 10.0)
    assert noise.profile(Sensitivity.unit_shifts(5, 0)).bound == pytest.approx(1 / 10)
    assert noise.profile(Sensitivity.unit_shifts(15, 0)).bound == pytest.approx(3 / 10)
    assert noise.profile(Sensitivity.unit_shifts(0, 0)).bound == 0
    with pytest.raises(Unsupported, match="how many tables"):  # three tables, or eleven of which a cell each moves
        noise.profile(Sensitivity.unit_shifts(11, 0))
    with pytest.raises(InvalidInput, match="5 entries"):
        noise.draw(np.random.default_rng(0), 4)


def test_the_layer_that_is_asked_about_gets_all_the_noise_and_all_the_data():
    channel = SampledLayerChannel(LayeredTransitions(SHAPE), 1.0)
    run = channel.start(SHAPE, SimulatedNoise(np.random.default_rng(0)), False)
    for _ in range(60):
        run.add(np.ones(channel.encoder.size), 1, Context(uniform_policy(SHAPE)))
    transitions = run.estimates()["transitions"]
    asked = transitions.variance[:, 0, 0] / channel.law.variance
    assert asked[-1] == 0
    assert asked[:-1].sum() == 60
    assert (asked[:-1] > 0).all()
    error = np.abs(transitions.values - asked[:, None, None, None])[SHAPE.triple_mask]
    assert error.max() <= run.width_now()(1, 1e-6).max()
    assert error.max() > 0


def test_gaussian_parts_are_calibrated_together_and_exactly():
    """Zero-concentration alone would need more noise for (1, 1e-5)."""
    privatizer = built(Central(1.0, 1e-5, recipe="central/loss-tables-gaussian", options={"split": 0.2, "blocks": 40}))
    counts, losses = laws(privatizer)
    assert 0.9999 < privatizer.guarantee.epsilon <= 1.0
    assert ZeroConcentratedProfile(privatizer.guarantee.rho).epsilon(1e-5) > 1.02
    assert (losses.sigma / counts.sigma) ** 2 == pytest.approx((D / 0.8) / (6 * 2 * (H - 1) / 0.2))


@pytest.mark.slow
def test_the_losses_of_one_layer_stand_for_all():
    """Every layer has a one in every cell: scaled up, the mean is one; 4,000 users, 5 standard errors (below 1e-5)."""
    channel = SampledLayerChannel(LossBits(SHAPE), 20.0, alone=True)
    assert channel.layers == [0, 1, 2, 3]
    run = channel.start(SHAPE, SimulatedNoise(np.random.default_rng(0)), False)
    ones, total = np.r_[np.zeros(D), np.ones(D)], np.zeros(SHAPE.pair_mask.shape)
    for _ in range(4000):
        run.add(ones, 1, Context(uniform_policy(SHAPE)))
        estimate = run.estimates()["signed_losses"]
        total += estimate.values
        assert set(np.flatnonzero(estimate.values.any(axis=(1, 2)))) <= set(range(H))
    mean = total[SHAPE.pair_mask] / 4000
    assert estimate.variance[SHAPE.pair_mask] == pytest.approx(2 * H * channel.law.variance)
    spread = math.sqrt((H - 1 + 2 * H * channel.law.variance) / 4000)
    assert np.abs(mean - 1).max() < 5 * spread
    assert np.abs(mean / H - 1).min() > 5 * spread  # what it would be without scaling up


AUDITED = [
    Central(1.0, recipe="central/observed-losses-blocks"),
    Central(1.0, recipe="central/observed-losses-blocks", options={"split": 0.5}),
    Central(1.0, recipe="central/observed-losses-blocks", options={"cells": "signed"}),
    Central(1.0, recipe="central/loss-tables"),
    Central(1.0, recipe="central/loss-tables", options={"accumulator": "tree", "losses": "k-norm"}),
    Central(1.0, recipe="central/loss-tables", options={"accumulator": "tree", "losses": "one-bit"}),
    Central(1.0, recipe="central/observed-losses"),
    Local(1.0, recipe="local/loss-tables"),
    Local(1.0, recipe="local/observed-losses"),
]


@pytest.mark.parametrize(
    "privacy", AUDITED, ids=lambda p: f"{p.recipe}-{p.options.get('losses', '')}{p.options.get('cells', '')}"
)
def test_audits_come_close_to_what_is_certified_and_not_above(privacy):
    report = discreet.audit(privacy, SHAPE, episodes=K, trials=20_000)
    assert report.holds
    assert report.certified == pytest.approx(1.0)
    assert report.exact == pytest.approx(1.0, abs=1e-9)  # the worst pair reaches what was promised
    assert report.lower_bound > 0.6


def test_what_was_declared_public_is_no_loss():
    privacy = Central(1.0, recipe="central/loss-tables", options={"losses_private": False})
    report = discreet.audit(privacy, SHAPE, episodes=K, trials=4000)
    assert report.holds
    assert report.exact == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["full-information", "bandit", "full-information-local", "bandit-local"])
def test_published_noise_is_convicted(name):
    report = discreet.audit(f"published/adversarial-{name}", SHAPE, episodes=K, trials=30_000)
    assert not report.holds
    assert report.lower_bound > 1.0
    assert report.exact >= 2.0 - 1e-9


def test_counters_as_printed_have_one_law_for_all_releases():
    """Algorithm 4 fills every release up to as many draws as there are levels; a plain tree has one to ten."""
    shape = layered_shape((1, 2, 1), 2)
    for recipe, learner in (("loss-tables", "uc-o-reps"), ("observed-losses", "uob-lbps")):
        target = discreet.Central(1.0, recipe=f"central/{recipe}-published")
        privatizer = build(target, shape, 1000)
        trees = [channel.accumulator for channel in privatizer.channels if channel.encoder.name != "observed-losses"]
        assert {tree.name for tree in trees} == {"even-tree"}
        world = discreet.worlds.registry.make_world("layered", layers=(1, 2, 1), actions=2)
        last = discreet.simulate(world, learner, target, episodes=256, keep_release=True).releases[0]
        law = build(target, shape, 256).channels[0].law
        assert last["visits"].variance[0, 0, 0] == pytest.approx(9 * law.variance)  # 256 is one node of a plain tree

"""Recipes for heavy tails: exact guarantees, thresholds that look at nobody, noise as stated, learning."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.accumulators.base import SimulatedNoise
from discreet.encoders.base import Context
from discreet.errors import Unsupported
from discreet.heavy_tails.recipes import best_threshold, index_thresholds, released_thresholds
from discreet.policies import uniform_policy
from discreet.recipes.registry import build, recipes

WORLD = discreet.worlds.river_swim(3, 4, rewards="stable", alpha=1.8)
HEAVY = [recipe for recipe in recipes() if recipe.heavy_tails]


def target(recipe, epsilon=1.0):
    kinds = {
        "none": lambda: discreet.NoPrivacy(recipe=recipe.name),
        "central": discreet.Central,
        "local": discreet.Local,
    }
    if recipe.model == "none":
        return kinds["none"]()
    return kinds[recipe.model](epsilon, 0.0 if recipe.pure else 1e-5, recipe=recipe.name)


@pytest.mark.parametrize(
    "recipe", [r for r in HEAVY if r.model != "none" and r.source == "discreet"], ids=lambda r: r.name
)
@pytest.mark.parametrize("world", [WORLD, WORLD.with_time(homogeneous=False)], ids=["pooled", "per-step"])
def test_the_guarantee_is_the_target_and_no_less(recipe, world):
    if recipe.encoder.startswith("signed") and not world.shape.homogeneous:
        with pytest.raises(Unsupported, match="homogeneous"):
            build(target(recipe), world.shape, 100)
        return
    guarantee = build(target(recipe, 0.8), world.shape, 100).guarantee
    assert guarantee.epsilon == pytest.approx(0.8, rel=1e-4)
    assert guarantee.model == {"central": "joint", "local": "local"}[recipe.model]


def test_scales_are_those_of_the_repaired_mechanism():
    """Counts 3HL/epsilon per node, rewards 6HL/epsilon times the threshold; 127 users have 7 levels."""
    channel = build(discreet.Central(0.5, recipe="central/heavy-tailed"), WORLD.shape, 127).channels[0]
    assert channel.count_law.scale == pytest.approx(3 * 4 * 7 / 0.5)
    assert channel.reward_law.scale == pytest.approx(6 * 4 * 7 / 0.5)
    local = build(discreet.Local(0.5, recipe="local/heavy-tailed"), WORLD.shape, 127).channels[0]
    assert local.count_law.scale == pytest.approx(3 * 4 / 0.5)
    assert local.reward_law.scale == pytest.approx(6 * 4 / 0.5)


@pytest.mark.parametrize("levels", [9, None], ids=["tree", "local"])
def test_thresholds_never_fall_and_do_not_depend_on_data(levels):
    found = index_thresholds(discreet.Central(1.0), WORLD.shape, 500, levels, 0.1)
    assert len(found) == (500).bit_length()
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize("levels", [9, None], ids=["tree", "local"])
def test_grids_by_hand(levels):
    """500 users, H = 4, S A = 6: both rules by their formulas."""
    v, u, K = WORLD.shape.moments.order, WORLD.shape.moments.bound, 500
    log = math.log(3 * 6 * K * 4 / 0.1)

    def b(n, j):
        spread = 9**1.5 * log if levels else math.sqrt(j * log)
        return (0.7 * u * n / (4 * spread)) ** (1 / (1 + v))

    index = index_thresholds(discreet.Central(0.7), WORLD.shape, K, levels, 0.1)
    assert index[-1] == pytest.approx(b(256 / 6, 256))
    released = released_thresholds(discreet.Central(0.7), WORLD.shape, K, levels, 0.1)
    assert released[5] == pytest.approx(b(32, K))
    assert len(released) == (K * 4).bit_length()  # one cell may have all visits of all users


@pytest.mark.slow
@pytest.mark.parametrize("world", [WORLD, WORLD.with_time(homogeneous=False)], ids=["pooled", "per-step"])
@pytest.mark.parametrize("name", ["central/heavy-tailed", "local/heavy-tailed"])
def test_released_noise_has_the_stated_variance(name, world):
    """600 runs of 6 rows of one step: sample variances of Laplace sums are within 20% (5 standard errors)."""
    privatizer = build((discreet.Central if "central" in name else discreet.Local)(1.0, recipe=name), world.shape, 7)
    channel, rng, ends = privatizer.channels[0], np.random.default_rng(2), []
    for _ in range(600):
        run = channel.start(world.shape, SimulatedNoise(rng), False)
        for users in (1, 1, 1, 3) if channel.tree is None else (1,) * 6:
            run.add(np.zeros(channel.encoder.size), users, Context(uniform_policy(world.shape)))
        ends.append(run.estimates())
    for statistic in ("visits", "rewards", "transitions"):
        for step in (0, -1):  # the last step of a world with laws per step has fewer cells
            values = np.array([end[statistic].values[step] for end in ends])
            assert values.var() == pytest.approx(float(ends[0][statistic].variance[step].mean()), rel=0.2)


def test_node_noise_uses_the_threshold_at_closing():
    """The release after 32 users is one node: its reward variance is that of user 32's threshold alone."""
    channel = build(discreet.Central(1.0, recipe="central/heavy-tailed"), WORLD.shape, 60).channels[0]
    run = channel.start(WORLD.shape, SimulatedNoise(np.random.default_rng(0)), False)
    for _ in range(32):
        run.add(np.zeros(channel.encoder.size), 1, Context(uniform_policy(WORLD.shape)))
    estimates = run.estimates()
    assert channel.encoder.threshold(32) > 1.5 * channel.encoder.threshold(1)
    own = estimates["rewards"].variance - estimates["visits"].variance / 4
    np.testing.assert_allclose(own, channel.encoder.threshold(32) ** 2 * channel.reward_law.variance / 4)


def test_the_best_threshold_grows_with_data_and_falls_with_noise():
    few, many = best_threshold(WORLD.shape, 50.0, 100), best_threshold(WORLD.shape, 50.0, 10_000)
    assert 1.0 <= few < many
    assert best_threshold(WORLD.shape, 500.0, 10_000) < many


def test_recipes_keep_to_their_kind_of_rewards():
    plain = discreet.worlds.river_swim(3, 4).shape
    for recipe in HEAVY:
        with pytest.raises(Unsupported, match="range"):
            build(target(recipe), plain, 100)
    with pytest.raises(Unsupported, match="heavy tails"):
        build(discreet.Central(1.0, recipe="central/first-visit-laplace"), WORLD.shape, 100)
    assert build(discreet.Central(1.0), WORLD.shape, 100).recipe == "central/heavy-tailed-focused-laplace"
    assert build(discreet.Central(1.0, 1e-5), WORLD.shape, 20_000).recipe == "central/heavy-tailed-matrix"
    assert build(discreet.NoPrivacy(), WORLD.shape, 100).recipe == "none/heavy-tailed"


@pytest.mark.slow
def test_private_learning_from_stable_rewards_beats_uniform_play_and_the_paper_s_noise_does_not():
    world = discreet.worlds.river_swim(4, 6, rewards="stable", alpha=1.8)
    uniform = world.gap(uniform_policy(world.shape))
    for privacy, episodes, at_least, at_most in (
        (discreet.Central(2.0, 1e-5), 20_000, 0.0, 0.6),
        (discreet.Central(2.0, recipe="central/heavy-tailed"), 1500, 0.9, 1.2),
    ):
        result = discreet.simulate(world, discreet.learners.UCBVI(), privacy, episodes=episodes, runs=3, seed=3)
        assert at_least < result.regret[:, -1].mean() / (episodes * uniform) < at_most

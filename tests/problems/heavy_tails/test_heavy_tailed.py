"""Recipes for heavy tails: exact guarantees, thresholds that look at nobody, noise as stated, learning."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.base.errors import Unsupported
from discreet.base.policies import MIXED, uniform_policy
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.noise import DiscreteLaplace
from discreet.problems.heavy_tails.learners import HeavyUCBPO, HeavyUCBVI
from discreet.problems.heavy_tails.mechanisms import near_quantile
from discreet.problems.heavy_tails.recipes import (
    best_threshold,
    index_thresholds,
    no_noise_thresholds,
    released_thresholds,
)
from discreet.problems.heavy_tails.world import around
from discreet.recipes.registry import build, recipes
from discreet.worlds.tabular import TabularWorld

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


@pytest.mark.parametrize("world", [WORLD, WORLD.with_time(homogeneous=False)], ids=["pooled", "per-step"])
def test_auto_serves_pooled_steps_and_laws_per_step(world):
    """Also learners that mix actions; what it takes is verified by the checker's rules as any other recipe."""
    for privacy, recipe in (
        (discreet.NoPrivacy(), "none/heavy-tailed"),
        (discreet.Central(1.0), "central/heavy-tailed-joint"),
        (discreet.Central(1.0, 1e-5), "central/heavy-tailed-matrix"),
        (discreet.Local(1.0), "local/heavy-tailed-sampled-step"),
    ):
        privatizer = build(privacy, world.shape, 20_000, {"visits", "transitions", "rewards", MIXED})
        assert privatizer.recipe == recipe
        if privacy.epsilon is not None:
            assert privatizer.guarantee.epsilon == pytest.approx(1.0, rel=1e-3)
            assert privatizer.guarantee.delta_at(1.0) <= privacy.delta


def test_refusals_name_a_recipe_that_would_serve():
    assert build(discreet.Local(rho=0.5), WORLD.shape, 100).recipe == "local/heavy-tailed-sampled-step"
    with pytest.raises(Unsupported, match="'local/heavy-tailed-sampled-step' serves this"):
        build(discreet.Shuffle(1.0, 1e-6), WORLD.shape, 100)


def test_thresholds_of_the_local_model_fall_with_noise_and_rise_with_users():
    def threshold(epsilon, episodes):
        return build(discreet.Local(epsilon), WORLD.shape, episodes).channels[0].encoder.threshold

    assert 1.0 <= threshold(1.0, 20_000) < threshold(4.0, 20_000) < threshold(4.0, 200_000)
    assert threshold(0.1, 1000) == 1.0  # never below tau


def test_thresholds_without_noise():
    """Root and theory agree where the variance is bounded; with heavier tails the root is far below."""
    bounded = discreet.worlds.river_swim(3, 4, rewards="stable", alpha=2.0).shape
    heavy = discreet.worlds.river_swim(3, 4, rewards="stable", alpha=1.2).shape
    np.testing.assert_allclose(
        no_noise_thresholds(bounded, 5000, "root", 0.1), no_noise_thresholds(bounded, 5000, "index", 0.1)
    )
    root, theory = (no_noise_thresholds(heavy, 20_000, name, 0.1) for name in ("root", "index"))
    v = heavy.moments.order
    np.testing.assert_allclose(np.array(root) ** 2, np.array(theory) ** (1 + v))
    assert theory[-1] > 5 * root[-1]


def test_reported_noise_has_the_stated_variance():
    """500 runs of 200 users without a visit: sample variances of three rows' sums within 25% (4 standard errors each).

    The twin, noise of the bits as if they were worth 0 and 1, is far outside.
    """
    shape = WORLD.with_time(homogeneous=False).shape
    for response in ("kary", "unary"):
        options = {"response": response, "threshold": 5.0, "masked": False}
        channel = build(discreet.Local(2.0, options=options), shape, 1000).channels[0]
        rng, ends = np.random.default_rng(4), []
        asked = np.full(shape.horizon, 50.0)
        tally = np.concatenate([np.zeros(channel.encoder.layout.size), asked])
        for _ in range(500):
            run = channel.start(shape, SimulatedNoise(rng), False)
            # everybody was in state 0 at every step and took action 1, so rows of action 0 have no visits
            items, _asked = channel.encoder.split(tally.copy())
            items[:-1, 0, 1, 0, :], items[-1, 0, 1, -1, :] = 25.0, 25.0
            run.add(np.concatenate([items.reshape(-1), asked]), 200, Context(uniform_policy(shape)))
            ends.append(run.estimates()["rewards"])
        values = np.array([end.values[1, :, 0] for end in ends])
        stated = float(ends[0].variance[1, 0, 0])
        assert values.var() == pytest.approx(stated, rel=0.25)
        assert values.var() > 3 * stated / channel._reward_worth()


@pytest.mark.parametrize("scale", [6.0, 400.0])
def test_widths_on_a_grid_are_those_of_the_slow_twin(scale):
    """Every number of draws would cost an exact quantile; between points of a grid the bound is within 0.5% of it."""
    law = DiscreteLaplace(scale)
    for n in (1, 15, 16, 17, 19, 30, 47, 101, 640, 7001):
        exact = law.sum_quantile(n, 1e-8)
        assert exact * 0.995 <= near_quantile(law, n, 1e-8) <= exact * 1.005
    assert near_quantile(law, 0, 1e-8) == 0.0


def test_few_exact_quantiles_are_computed(monkeypatch):
    law, asked = DiscreteLaplace(30.0), set()
    real = DiscreteLaplace.sum_quantile
    monkeypatch.setattr(DiscreteLaplace, "sum_quantile", lambda self, n, tail: asked.add(n) or real(self, n, tail))
    for n in range(100, 1000):
        near_quantile(law, n, 1e-6)
    assert len(asked) <= 12


def bandit(means, alpha):
    """Arms with stable rewards: a world of one state and one step."""
    law, moments = around("stable", np.array(means)[None, None], alpha, 1.0, None)
    return TabularWorld("arms", np.ones((1, 1, len(means), 1)), law, np.ones(1), 1, (-1.0, 1.0), moments)


def shares(world, learner, privacy, episodes, runs=3, seed=3):
    result = discreet.simulate(world, learner, privacy, episodes=episodes, runs=runs, seed=seed)
    return result.regret[:, -1] / (episodes * world.gap(uniform_policy(world.shape)))


PER_STEP = discreet.worlds.river_swim(3, 4, rewards="stable", alpha=1.8).with_time(homogeneous=False)
HEAVIER = discreet.worlds.river_swim(3, 4, rewards="stable", alpha=1.2)


@pytest.mark.parametrize("learner", [HeavyUCBVI(), HeavyUCBPO()], ids=["vi", "po"])
@pytest.mark.parametrize(
    ("world", "privacy", "users"),
    [
        (PER_STEP, discreet.Central(1.0, 1e-5), 20_000),
        (PER_STEP, discreet.Central(1.0), 20_000),
        (PER_STEP, discreet.Local(4.0), 8_000),
        (HEAVIER, discreet.Central(1.0, 1e-5), 20_000),
        (HEAVIER, discreet.Local(4.0), 8_000),
        (bandit([0.9, 0.4, 0.2], 1.8), discreet.Central(1.0), 10_000),
        (bandit([0.9, 0.4, 0.2], 1.2), discreet.Local(1.0), 10_000),
    ],
    ids=["per-step", "per-step-pure", "per-step-local", "alpha-1.2", "alpha-1.2-local", "bandit", "bandit-local"],
)
def test_private_learning_from_heavy_tails(learner, world, privacy, users):
    """With what "auto" takes. Below .42 each; at a fiftieth of epsilon the same means are .62 and more."""
    assert shares(world, learner, privacy, users).mean() < 0.55


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

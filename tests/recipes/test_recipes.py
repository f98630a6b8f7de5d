"""Recipes: calibrated to the target and no further, the quietest by default, and refusals in words."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.mechanisms.schedule import Equal, Growing, GrowThenEqual
from discreet.noise import DiscreteLaplace
from discreet.recipes import additive_noise
from discreet.recipes.predicted_regret import expected_regret, noise_of
from discreet.recipes.registry import build, find, recipes

POOLED = discreet.Shape(3, 2, 4, homogeneous=True)
PER_STEP = discreet.Shape(3, 2, 4)
TARGETS = {"central": discreet.Central, "local": discreet.Local}
PRIVATE = [recipe for recipe in additive_noise.RECIPES if recipe.model in TARGETS]


def target(recipe, epsilon=1.0):
    return TARGETS[recipe.model](epsilon, 0.0 if recipe.pure else 1e-6, recipe=recipe.name)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("recipe", PRIVATE, ids=lambda r: r.name)
def test_a_recipe_keeps_its_target_and_wastes_little_of_it(recipe, epsilon):
    privatizer = build(target(recipe, epsilon), POOLED, 100)
    guarantee = privatizer.guarantee
    assert 0.97 * epsilon < guarantee.epsilon <= epsilon
    assert guarantee.delta == (0.0 if recipe.pure else 1e-6)
    assert guarantee.delta_at(epsilon) <= guarantee.delta
    assert guarantee.model == {"central": "joint", "local": "local"}[recipe.model]
    assert privatizer.recipe == recipe.name


@pytest.mark.parametrize("recipe", PRIVATE, ids=lambda r: r.name)
def test_the_guarantee_is_that_of_the_law_at_the_sensitivity(recipe):
    """The epsilon is recomputed from the encoder, the law and the number of releases that a user moves."""
    privatizer = build(target(recipe), POOLED, 100)
    (channel,) = privatizer.channels
    times = getattr(channel.accumulator, "levels", 1)
    own = channel.encoder.sensitivity()
    if recipe.pure:
        assert privatizer.guarantee.epsilon == pytest.approx(times * own.l1 / channel.law.scale)
    else:
        assert privatizer.guarantee.rho == pytest.approx(times * own.l2**2 / channel.law.sigma**2 / 2)


@pytest.mark.parametrize("episodes", [1, 2, 3, 7, 8, 9, 16, 100])
def test_the_tree_pays_for_every_node_that_a_run_opens(episodes):
    """The policy that would be deployed after the last user is planned from her release too, so it counts."""
    privatizer = build(discreet.Central(1.0, recipe="central/three-tables-laplace-tree"), POOLED, episodes)
    opened = [(t - (t & -t), t) for t in range(1, episodes + 1)]
    most = max(sum(low < user <= high for low, high in opened) for user in range(1, episodes + 1))
    (channel,) = privatizer.channels
    spent = most * channel.encoder.sensitivity().l1 / channel.law.scale
    assert spent <= privatizer.guarantee.epsilon * (1 + 1e-9) <= 1.0 + 1e-9


@pytest.mark.parametrize("recipe", [r for r in PRIVATE if not r.pure], ids=lambda r: r.name)
def test_a_concentrated_target_is_kept(recipe):
    privatizer = build(TARGETS[recipe.model](rho=0.2, recipe=recipe.name), POOLED, 100)
    assert 0.97 * 0.2 < privatizer.guarantee.rho <= 0.2 * (1 + 1e-12)


@pytest.mark.parametrize("shape", [POOLED, PER_STEP], ids=["pooled", "per-step"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("model", ["central", "local"])
def test_auto_takes_the_valid_recipe_that_is_expected_to_cost_least(shape, delta, model):
    chosen = build(TARGETS[model](1.0, delta), shape, 10_000)
    least = np.inf
    for recipe in recipes(model, "tabular"):
        if not recipe.automatic or (delta == 0 and not recipe.pure):
            continue
        with suppress(Unsupported):  # made for other worlds
            made = build(TARGETS[model](1.0, delta, recipe=recipe.name), shape, 10_000)
            least = min(least, expected_regret(made, 10_000))
    assert expected_regret(chosen, 10_000) == pytest.approx(least)
    assert 0.0 < least < 1.0
    assert chosen.guarantee.epsilon <= 1.0


def test_auto_depends_on_the_target():
    """A delta buys less noise where many cells move; what needs a homogeneous world is not taken in another."""
    long = discreet.Shape(6, 2, 20, homogeneous=True)
    pure, approximate = (build(discreet.Central(1.0, delta), long, 100) for delta in (0.0, 1e-5))
    assert find(pure.recipe, "central").pure
    assert not find(approximate.recipe, "central").pure
    assert noise_of(approximate) < noise_of(pure)
    assert "first-visit" not in build(discreet.Central(1.0, 1e-5), replace(long, homogeneous=False), 100).recipe
    assert build(discreet.NoPrivacy(), long, 100).recipe == "none"


def test_noise_is_measured_on_what_learners_use():
    """By hand: three tables release, per row, one visit count, S transition counts and one reward count."""
    privatizer = build(discreet.Central(1.0, recipe="central/three-tables-laplace"), POOLED, 100)
    assert noise_of(privatizer) == pytest.approx(5 * privatizer.channels[0].law.variance)
    joint = build(discreet.Central(1.0, recipe="central/joint-histogram-laplace"), POOLED, 100)
    assert noise_of(joint) == pytest.approx((8 + 3 * 2 + 4) * joint.channels[0].law.variance)


@pytest.mark.parametrize("recipe", [r for r in PRIVATE if "first-visit" in r.name], ids=lambda r: r.name)
def test_first_visits_are_refused_unless_the_world_is_homogeneous(recipe):
    with pytest.raises(Unsupported, match="time-homogeneous"):
        build(target(recipe), PER_STEP, 100)


@pytest.mark.parametrize("recipe", PRIVATE, ids=lambda r: r.name)
def test_the_derivation_shows_every_rule(recipe):
    text = build(target(recipe), POOLED, 100).guarantee.explain()
    rules = ["mechanism:", "sensitivity:", "law:", recipe.encoder, "replace one user"]
    if recipe.model == "local":
        rules += ["local randomiser:", "also holds in the joint model"]
    else:
        rules += ["billboard lemma:"] + (["parallel composition:"] if recipe.accumulator == "blocks" else [])
    for rule in rules:
        assert rule in text
    assert ("parallel composition" in text) == (recipe.accumulator == "blocks")


def test_pure_targets_refuse_gaussian_noise():
    with pytest.raises(Unsupported, match="delta"):
        build(discreet.Central(1.0, recipe="central/first-visit-gaussian"), POOLED, 100)


def test_recipes_are_found_by_name_and_model():
    assert find("central/three-tables-laplace", "central").encoder == "three-tables"
    with pytest.raises(InvalidInput, match="did you mean"):
        find("central/three-table-laplace", "central")
    with pytest.raises(InvalidInput, match="central model, not for local"):
        find("central/three-tables-laplace", "local")
    names = [recipe.name for recipe in recipes()]
    assert len(set(names)) == len(names)
    assert {recipe.model for recipe in recipes("local")} == {"local"}
    assert all(recipe.summary for recipe in recipes())


def test_unknown_options_are_refused():
    with pytest.raises(InvalidInput, match="no option 'bloks'"):
        build(discreet.Central(1.0, recipe="central/joint-histogram-laplace", options={"bloks": 3}), POOLED, 100)
    with pytest.raises(InvalidInput, match="its options: none"):
        build(discreet.Central(1.0, recipe="central/three-tables-laplace-tree", options={"blocks": 3}), POOLED, 100)
    with pytest.raises(Unsupported, match=r"no option 'growth'.*recipe='local/joint-histogram-laplace' serves this"):
        build(discreet.Central(1.0, options={"growth": 0.5}), POOLED, 100)


@pytest.mark.parametrize(
    ("privacy", "options"),
    [
        (discreet.Central, {"blocks": 0}),
        (discreet.Central, {"blocks": -2}),
        (discreet.Central, {"blocks": 2.5}),
        (discreet.Central, {"first": 0}),
        (discreet.Local, {"growth": 0}),
        (discreet.Local, {"growth": float("nan")}),
    ],
)
def test_options_outside_their_domain_are_refused(privacy, options):
    with pytest.raises(InvalidInput):
        build(privacy(1.0, options=options), POOLED, 100)


def test_options_change_the_schedule_and_never_the_guarantee():
    def central(episodes=100, **options):
        return build(discreet.Central(1.0, recipe="central/first-visit-laplace", options=options), POOLED, episodes)

    plain, few = central(), central(blocks=5, masked=False)
    assert plain.schedule == Equal(20)
    assert plain.masked
    assert few.schedule == Equal(5)
    assert not few.masked
    assert central(blocks=5, first=2).schedule == GrowThenEqual(5, 2)
    assert central(episodes=7).schedule == Equal(7)
    local = discreet.Local(1.0, recipe="local/first-visit-laplace", options={"growth": 0.5})
    assert build(local, POOLED, 100).schedule == Growing(1, 0.5)
    assert few.channels == plain.channels
    assert (few.guarantee.epsilon, few.guarantee.profile) == (plain.guarantee.epsilon, plain.guarantee.profile)


def test_a_learner_that_needs_more_is_refused_by_name():
    for recipe in ("auto", "central/three-tables-laplace"):
        with pytest.raises(Unsupported, match="losses"):
            build(discreet.Central(1.0, recipe=recipe), POOLED, 100, needs={"visits", "losses"})
    with pytest.raises(Unsupported, match="choose one, such as layered"):
        build(discreet.Shuffle(1.0, 1e-5), POOLED, 100, needs={"losses"})
    with pytest.raises(Unsupported, match="shuffle"):
        build(discreet.Shuffle(1.0, 1e-5), POOLED, 100, needs={"matrix"})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: discreet.Central(),
        lambda: discreet.Central(1.0, rho=1.0),
        lambda: discreet.Central(0.0),
        lambda: discreet.Central(-1.0),
        lambda: discreet.Central(float("inf")),
        lambda: discreet.Central(float("nan")),
        lambda: discreet.Central(True),
        lambda: discreet.Central(1.0, 1.0),
        lambda: discreet.Central(1.0, -1e-9),
        lambda: discreet.Central(rho=0.0),
        lambda: discreet.Shuffle(1.0),
        lambda: discreet.NoPrivacy(1.0),
        lambda: discreet.NoPrivacy(rho=1.0),
    ],
)
def test_targets_that_promise_nonsense_are_refused(wrong):
    with pytest.raises(InvalidInput):
        wrong()


def test_twice_the_privacy_is_twice_the_noise():
    recipe = "central/joint-histogram-laplace"
    scales = [build(discreet.Central(e, recipe=recipe), POOLED, 100).channels[0].law for e in (1.0, 0.5)]
    assert isinstance(scales[0], DiscreteLaplace)
    assert scales[1].scale == pytest.approx(2 * scales[0].scale)

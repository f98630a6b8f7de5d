"""Every recipe with every learner in every kind of world that it should serve runs, and promises the right thing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import discreet
from discreet.learners.registry import LEARNERS, make_learner
from discreet.recipes.additive import ENCODERS
from discreet.recipes.registry import build, recipes
from discreet.simulation import episode_loop

EPISODES, EPSILON, DELTA = 24, 1.0, 1e-6
TARGETS = {
    "none": lambda recipe: discreet.NoPrivacy(recipe=recipe.name),
    "central": lambda recipe: discreet.Central(EPSILON, 0.0 if recipe.pure else DELTA, recipe=recipe.name),
    "local": lambda recipe: discreet.Local(
        EPSILON, 0.0 if recipe.pure else DELTA, recipe=recipe.name, options=_rarely(recipe)
    ),
    "shuffle": lambda recipe: discreet.Shuffle(
        EPSILON, DELTA, recipe=recipe.name, options={"blocks": 2} if "blocks" in recipe.options else _rarely(recipe)
    ),
}


def _rarely(recipe):
    """Options that let a recipe release rarely, where it would release after every user: nothing to compile."""
    return {"growth": 0.5} if recipe.options.get("growth", 0) is None else {}


ONLINE = [name for name in LEARNERS if "matrix" not in LEARNERS[name].make.needs]
LAYERED = [name for name in ONLINE if make_learner(name).needs & {"losses", "observed_losses"}]
PROMISES = {"none": "none", "central": "joint", "local": "local", "shuffle": "shuffle"}


def _wide_rewards():
    rng = np.random.default_rng(0)
    transitions, rewards = rng.dirichlet(np.ones(2), size=(2, 2)), rng.uniform(-3, 5, size=(2, 2))
    return discreet.worlds.from_arrays(
        transitions, rewards, horizon=2, start=[0.5, 0.5], reward_range=(-3, 5), reward_law="deterministic"
    )


WORLDS = {
    "river": discreet.worlds.river_swim(states=3, horizon=3),
    "per-step": discreet.worlds.river_swim(states=2, horizon=2).with_time(homogeneous=False),
    "random": discreet.worlds.random_mdp(),
    "bandit": discreet.worlds.bandit(arms=3),
    "wide-rewards": _wide_rewards(),
    "heavy-tails": discreet.worlds.river_swim(states=2, horizon=2, rewards="stable"),
}


def may_refuse(recipe, learner, world):
    """The combinations that nobody has proved correct, or that lack what they need. Anything else must run."""
    shape = world.shape
    if learner in LAYERED or recipe.encoder.startswith("layered"):
        return True  # made for layered worlds, which have a conformance test of their own
    if recipe.heavy_tails != (shape.moments is not None):
        return True  # rewards have a range, or they have not
    if not shape.homogeneous and "first-visit" in recipe.encoder:
        return True  # first visits are draws of one law only if it is the same at every step
    if (
        recipe.encoder in ENCODERS
        and recipe.model == "shuffle"
        and not ENCODERS[recipe.encoder](shape).sensitivity().unit
    ):
        return True  # binomial noise hides moves by one
    if learner == "policy-elimination" and shape.horizon > 1:
        # It asks for one step at a time, of a shuffler that answers once per batch.
        return shape.homogeneous or recipe.model != "shuffle" or recipe.accumulator == "total"
    return False


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
@pytest.mark.parametrize("learner", ONLINE)
@pytest.mark.parametrize("recipe", recipes(), ids=lambda r: r.name)
def test_a_combination_runs_and_keeps_its_promise(recipe, learner, world):
    privacy = TARGETS[recipe.model](recipe)
    try:
        result = discreet.simulate(world, make_learner(learner), privacy, episodes=EPISODES, runs=2, seed=5)
    except discreet.Unsupported:
        if may_refuse(recipe, learner, world):
            return
        raise
    assert result.recipe == recipe.name
    assert result.guarantee.model == PROMISES[recipe.model]
    if recipe.source != "discreet":
        assert result.guarantee.claimed.epsilon == EPSILON  # what is true of printed noise has tests of its own
    elif recipe.model != "none":
        assert 0.97 * EPSILON < result.guarantee.epsilon <= EPSILON
        assert result.guarantee.delta == privacy.delta
        assert result.guarantee.delta_at(EPSILON) <= privacy.delta
    assert result.guarantee.explain() == build(privacy, world.shape, EPISODES).guarantee.explain()
    assert np.isfinite(result.regret).all()
    assert (np.diff(result.regret, axis=1) >= 0).all()
    assert (result.final_gap >= 0).all()


AUTOMATIC = [discreet.Central(1.0), discreet.Central(1.0, DELTA), discreet.Local(1.0), discreet.Shuffle(1.0, DELTA)]


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
@pytest.mark.parametrize("privacy", AUTOMATIC, ids=lambda p: f"{p.model}-{p.delta:g}")
def test_auto_serves_every_world(privacy, world):
    if privacy.model == "shuffle" and world.shape.moments is not None:
        with pytest.raises(discreet.Unsupported, match="heavy tails"):
            build(privacy, world.shape, EPISODES)
        return
    result = discreet.simulate(world, make_learner("ucbvi"), privacy, episodes=EPISODES)
    assert result.guarantee.epsilon <= 1.0


@pytest.mark.parametrize("learner", ONLINE)
def test_every_learner_is_served_by_some_recipe(learner):
    world = WORLDS["per-step"]
    assert learner in LAYERED or not all(may_refuse(recipe, learner, world) for recipe in recipes())


def test_few_combinations_have_a_compiled_loop():
    """Each is compiled once per machine and kind of reward: a dozen at most for first long runs to wait for."""
    world = WORLDS["river"]
    compiled = [
        (recipe.name, learner)
        for recipe, learner in product(recipes(), ONLINE)
        if not may_refuse(recipe, learner, world)
        and episode_loop.compiles(make_learner(learner), build(TARGETS[recipe.model](recipe), world.shape, 10_000))
    ]
    assert ("none", "ucbvi") in compiled
    assert len(compiled) <= 12


def test_short_runs_compile_no_loop(monkeypatch):
    def refuse(*_arguments):
        raise AssertionError("the episode loop was compiled for a short run")

    monkeypatch.setattr(episode_loop, "_episode_loop", refuse)
    discreet.simulate(WORLDS["river"], make_learner("ucbvi"), episodes=999)
    with pytest.raises(AssertionError, match="short run"):
        discreet.simulate(WORLDS["river"], make_learner("ucbvi"), episodes=1_000)

"""Every recipe with every learner in every kind of world that it should serve runs, and promises the right thing."""

from __future__ import annotations

from itertools import product

import numba
import numpy as np
import pytest

import discreet
from discreet.learners.registry import LEARNERS, make_learner
from discreet.privatizers.recipes import build, recipes
from discreet.simulation import episode_loop

EPISODES, EPSILON, DELTA = 24, 1.0, 1e-6
TARGETS = {
    "none": lambda recipe: discreet.NoPrivacy(recipe=recipe.name),
    "central": lambda recipe: discreet.Central(EPSILON, 0.0 if recipe.pure else DELTA, recipe=recipe.name),
    "local": lambda recipe: discreet.Local(EPSILON, 0.0 if recipe.pure else DELTA, recipe=recipe.name),
    "shuffle": lambda recipe: discreet.Shuffle(EPSILON, DELTA, recipe=recipe.name),
}
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
}


def serves(recipe, world):
    """Whether the recipe is meant for the world; everything that it is not meant for must be refused."""
    return world.shape.homogeneous or "first-visit" not in recipe.name


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("recipe", recipes(), ids=lambda r: r.name)
def test_a_combination_runs_and_keeps_its_promise(recipe, learner, world):
    learner = make_learner(learner)
    privacy = TARGETS[recipe.model](recipe)
    if not serves(recipe, world):
        with pytest.raises(discreet.Unsupported, match="time-homogeneous"):
            discreet.simulate(world, learner, privacy, episodes=EPISODES)
        return
    privatizer = build(privacy, world.shape, EPISODES, learner.needs)
    result = discreet.simulate(world, learner, privacy, episodes=EPISODES, runs=2, seed=5)
    assert result.recipe == recipe.name
    assert result.guarantee.model == PROMISES[recipe.model]
    if recipe.model != "none":
        assert 0.97 * EPSILON < result.guarantee.epsilon <= EPSILON
        assert result.guarantee.delta == privacy.delta
        assert result.guarantee.delta_at(EPSILON) <= privacy.delta
    assert result.guarantee == privatizer.guarantee
    assert np.isfinite(result.regret).all()
    assert (np.diff(result.regret, axis=1) >= 0).all()
    assert (result.final_gap >= 0).all()


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
@pytest.mark.parametrize("privacy", [discreet.Central(1.0), discreet.Central(1.0, DELTA), discreet.Local(1.0)])
def test_auto_serves_every_learner_in_every_world(privacy, world):
    for name in LEARNERS:
        result = discreet.simulate(world, make_learner(name), privacy, episodes=EPISODES)
        assert result.guarantee.epsilon <= 1.0


def test_few_episode_loops_are_compiled(monkeypatch):
    """One per combination of world, encoder, noise, accumulator and learner that replans after every user."""
    compiled, original = set(), episode_loop._episode_loop

    def counted(*arguments):
        compiled.add(tuple(numba.typeof(argument) for argument in arguments))
        return original(*arguments)

    monkeypatch.setattr(episode_loop, "_episode_loop", counted)
    for recipe, learner, world in product(recipes(), LEARNERS, WORLDS.values()):
        if serves(recipe, world):
            discreet.simulate(world, make_learner(learner), TARGETS[recipe.model](recipe), episodes=3)
    assert 3 <= len(compiled) <= 12

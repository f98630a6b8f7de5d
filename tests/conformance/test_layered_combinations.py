"""Every recipe for losses with every learner of losses runs in a layered world, or is refused for a known reason."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

import discreet
from discreet.learners.registry import LEARNERS, make_learner
from discreet.recipes.registry import LAYERED, recipes

WORLD = discreet.worlds.layered((1, 2, 2, 1), 2, "random")
EPISODES, EPSILON, DELTA = 24, 1.0, 1e-6
KINDS = {"central": discreet.Central, "shuffle": discreet.Shuffle, "local": discreet.Local}
PROMISES = {"none": "none", "central": "joint", "shuffle": "shuffle", "local": "local"}
RECIPES = {recipe.name: recipe for recipe in recipes(problem=LAYERED)}
KNOWN = {name: make_learner(name) for name in LEARNERS if make_learner(name).needs & {"losses", "observed_losses"}}
ADVERSARIAL = {**KNOWN, "perturbed-leader, full": make_learner("perturbed-leader", feedback="full")}
LOSSES = {"layered-tables": "losses", "layered-observed": "observed_losses"}  # what an encoder tells of losses


def target(recipe):
    if recipe.model == "none":
        return discreet.NoPrivacy(recipe=recipe.name)
    return KINDS[recipe.model](EPSILON, 0.0 if recipe.pure else DELTA, recipe=recipe.name)


def refusal(recipe, learner):
    """What the refusal of a combination says; None if it must run."""
    (needed,) = ADVERSARIAL[learner].needs & {"losses", "observed_losses"}
    if needed != LOSSES[RECIPES[recipe].encoder]:
        return f"recipe '{recipe}' does not release {needed}, which the learner needs"
    if learner == "uob-reps" and RECIPES[recipe].model != "none":
        return "UOB-REPS is proved for losses of at least 0, which noise breaks: use UOB-LBPS"
    return None


ALL = [(recipe, learner, refusal(recipe, learner)) for recipe, learner in product(RECIPES, ADVERSARIAL)]
RUN = [(recipe, learner) for recipe, learner, reason in ALL if reason is None]
REFUSED = [case for case in ALL if case[2] is not None]


@pytest.mark.parametrize(("recipe", "learner"), RUN)
def test_a_combination_runs_and_keeps_its_promise(recipe, learner):
    recipe = RECIPES[recipe]
    privacy = target(recipe)
    result = discreet.simulate(WORLD, ADVERSARIAL[learner], privacy, episodes=EPISODES, runs=2, seed=5)
    assert result.recipe == recipe.name
    assert result.guarantee.model == PROMISES[recipe.model]
    if recipe.source != "discreet":
        assert result.guarantee.epsilon > result.guarantee.claimed.epsilon == EPSILON
    elif recipe.model != "none":
        assert 0.97 * EPSILON < result.guarantee.epsilon <= EPSILON
        assert result.guarantee.delta == privacy.delta
    assert result.regret.shape[0] == 2
    assert np.isfinite(result.regret).all()
    assert np.isnan(result.final_gap).all()
    assert result.as_dict()["final_gap"] == {"mean": None, "per_run": None}


@pytest.mark.parametrize(("recipe", "learner", "reason"), REFUSED, ids=[f"{case[0]}-{case[1]}" for case in REFUSED])
def test_a_combination_is_refused_with_the_reason(recipe, learner, reason):
    with pytest.raises(discreet.Unsupported, match=f"^{re.escape(reason)}$"):
        discreet.simulate(WORLD, ADVERSARIAL[learner], target(RECIPES[recipe]), episodes=EPISODES)


def test_no_combination_is_lost():
    """``refusal`` cannot grow unseen: every recipe runs with a learner, every learner without and all but one with
    noise."""
    assert len(RUN) >= 16
    assert {recipe for recipe, _ in RUN} == set(RECIPES)
    assert {learner for recipe, learner in RUN if RECIPES[recipe].model == "none"} == set(ADVERSARIAL)


@pytest.mark.parametrize("learner", ["uc-o-reps", "uob-lbps", "perturbed-leader", "perturbed-leader, full"])
@pytest.mark.parametrize(
    "privacy",
    [discreet.Central(1.0), discreet.Central(1.0, DELTA), discreet.Shuffle(1.0, DELTA), discreet.Local(1.0)],
    ids=repr,
)
def test_auto_serves_the_papers_learners(privacy, learner):
    result = discreet.simulate(WORLD, ADVERSARIAL[learner], privacy, episodes=EPISODES)
    assert result.guarantee.epsilon <= 1.0
    assert "published" not in result.recipe


@pytest.mark.parametrize("privacy", [None, discreet.Central(1.0)])
def test_learners_that_count_rewards_play_layered_worlds_too(privacy):
    result = discreet.simulate(WORLD, discreet.learners.UCBVI(), privacy, episodes=EPISODES)
    assert np.isfinite(result.regret).all()


def test_calibration_foretells_the_noise():
    for recipe in RECIPES.values():
        if recipe.model != "none":
            result = discreet.calibrate(target(recipe), WORLD.shape, episodes=EPISODES)
            assert all(np.isfinite([error.sd_end, error.width_end]).all() for error in result.errors)

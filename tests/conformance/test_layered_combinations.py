"""Every recipe with every learner in a layered world runs or refuses by name, and promises the right thing."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.learners.registry import LEARNERS, make_learner
from discreet.recipes.registry import build, recipes

WORLD = discreet.worlds.layered((1, 2, 2, 1), 2, "random")
EPISODES, EPSILON, DELTA = 24, 1.0, 1e-6
KINDS = {"central": discreet.Central, "shuffle": discreet.Shuffle, "local": discreet.Local}
PROMISES = {"none": "none", "central": "joint", "shuffle": "shuffle", "local": "local"}
LAYERED = [recipe for recipe in recipes() if recipe.encoder.startswith("layered")]
ADVERSARIAL = [name for name in LEARNERS if make_learner(name).needs & {"losses", "observed_losses"}]


def target(recipe):
    if recipe.model == "none":
        return discreet.NoPrivacy(recipe=recipe.name)
    return KINDS[recipe.model](EPSILON, 0.0 if recipe.pure else DELTA, recipe=recipe.name)


@pytest.mark.parametrize("learner", ADVERSARIAL)
@pytest.mark.parametrize("recipe", LAYERED, ids=lambda r: r.name)
def test_a_combination_runs_and_keeps_its_promise(recipe, learner):
    learner, privacy = make_learner(learner), target(recipe)
    served = learner.needs <= build(privacy, WORLD.shape, EPISODES).statistics
    if not served or (learner.name == "uob-reps" and recipe.model != "none"):
        with pytest.raises(discreet.Unsupported):
            discreet.simulate(WORLD, learner, privacy, episodes=EPISODES)
        return
    result = discreet.simulate(WORLD, learner, privacy, episodes=EPISODES, runs=2, seed=5)
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


@pytest.mark.parametrize("learner", ["uc-o-reps", "uob-lbps"])
@pytest.mark.parametrize(
    "privacy",
    [discreet.Central(1.0), discreet.Central(1.0, DELTA), discreet.Shuffle(1.0, DELTA), discreet.Local(1.0)],
    ids=repr,
)
def test_auto_serves_the_papers_learners(privacy, learner):
    result = discreet.simulate(WORLD, make_learner(learner), privacy, episodes=EPISODES)
    assert result.guarantee.epsilon <= 1.0
    assert "published" not in result.recipe


@pytest.mark.parametrize("privacy", [None, discreet.Central(1.0)])
def test_learners_that_count_rewards_play_layered_worlds_too(privacy):
    result = discreet.simulate(WORLD, discreet.learners.UCBVI(), privacy, episodes=EPISODES)
    assert np.isfinite(result.regret).all()


def test_calibration_foretells_the_noise():
    for recipe in LAYERED:
        if recipe.model != "none":
            result = discreet.calibrate(target(recipe), WORLD.shape, episodes=EPISODES)
            assert all(np.isfinite([error.sd_end, error.width_end]).all() for error in result.errors)

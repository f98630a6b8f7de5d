"""Means with their own spread: what APVI makes of outcomes, against the world that they were drawn from."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.policies import Policy
from discreet.base.shape import Shape
from discreet.base.streams import stream
from discreet.learners.base import Problem
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.recipes.outcomes import best_law, recipe_for
from discreet.recipes.registry import build
from discreet.simulation.data_sets import learn
from discreet.worlds.planning.outcome_means import outcomes_of

SHAPE = Shape(1, 4, 1, False, (0.0, 1500.0))


class Patients:
    """A trial: four arms, the third one .2 deviations above the others."""

    def __init__(self, seed, users=2000, effect=26.0):
        self.rng = np.random.default_rng(seed)
        self.arms = self.rng.integers(0, 4, users)
        self.outcomes = self.rng.normal(260 + effect * (self.arms == 2), 130)

    def tally(self, encoders, context, users):
        lengths = np.ones(users, np.int64)
        one = Trajectories(np.zeros((users, 1), np.int64), self.arms[:, None], self.outcomes[:, None], lengths)
        return [encode(encoder, one, stream(int(self.rng.integers(9)), 0, 0)).sum(axis=0) for encoder in encoders]


def learned(recipe, seed, epsilon=2.0, **world):
    made = build(discreet.Central(epsilon, recipe=recipe), SHAPE, 2000, data_set=True)
    patients = Patients(seed, **world)
    session = made.open(patients, SimulatedNoise(np.random.default_rng(1000 + seed)), 2000)
    learner = discreet.learners.APVI()
    state, release = learn(learner, session, Problem(SHAPE, 2000), np.zeros(1, np.uint64))
    return learner.policy(state), release, patients


def test_the_best_arm_is_found_where_bits_find_none():
    """Twenty seeded trials at epsilon 2, range twice that of the data: bits find 1 to 5 of them."""
    found = {
        recipe: sum(
            isinstance(policy, Policy) and policy.actions[0, 0] == 2
            for policy in (learned(recipe, seed)[0] for seed in range(20))
        )
        for recipe in ("offline/outcomes-laplace", "offline/laplace")
    }
    assert found["offline/outcomes-laplace"] >= 13
    assert found["offline/laplace"] <= 5


def test_without_an_effect_users_go_on_as_they_did():
    policies = [learned("offline/outcomes-laplace", seed, effect=0.0)[0] for seed in range(20)]
    assert sum(isinstance(policy, Policy) for policy in policies) <= 4


def test_a_spread_is_that_of_the_row_and_not_below_it():
    """The released spread, twenty seeded trials: right on average, and seldom too small by a quarter."""
    shown = []
    for seed in range(20):
        _, release, patients = learned("offline/outcomes-laplace", seed, epsilon=8.0)
        true = np.array([patients.outcomes[patients.arms == a].std() for a in range(4)])
        shown.append(np.sqrt(outcomes_of(release.statistics, (1, 1, 4)).spread().ravel()) * 750 / true)
    assert np.mean(shown) == pytest.approx(1.0, abs=0.1)
    assert np.mean(np.array(shown) < 0.87) < 0.05


def test_the_recipe_is_chosen_by_public_sizes():
    assert recipe_for(discreet.Central(1.0), SHAPE, 1) == "offline/outcomes-laplace"
    assert recipe_for(discreet.Central(rho=0.1), SHAPE, 1) == "offline/outcomes-gaussian"
    assert recipe_for(discreet.Central(1.0), Shape(1, 4, 1), 1) == "auto"  # yes and no: a bit says everything
    assert recipe_for(discreet.Central(1.0), Shape(2, 4, 2, False, (0.0, 9.0)), 1) == "auto"
    assert best_law(discreet.Central(1.0, 1e-6), SHAPE) == "laplace"
    assert best_law(discreet.Central(1.0, 1e-6), SHAPE, 1) == best_law(discreet.Central(1.0, 1e-6), SHAPE, 2)

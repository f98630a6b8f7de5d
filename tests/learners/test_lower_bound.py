"""Lower bounds of policies: the formula by hand, and that they hold for policies chosen by the same counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.base.policies import Policy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import USERS, generator, stream
from discreet.learners import apvi
from discreet.learners.apvi import APVI
from discreet.learners.base import Problem
from discreet.learners.lower_bound import lower_bound
from discreet.mechanisms.release import Estimate, Release
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.privacy.guarantee import nothing
from discreet.recipes.targets import Central, NoPrivacy
from discreet.simulation.data_sets import BehaviourUsers, learn, privatizer_for


def test_by_hand():
    """Two steps, one action, two successors worth 1 and 0; noise of at most 3 in a count and 3 sqrt(2) in two."""
    shape = Shape(2, 1, 2)
    counts = np.zeros((2, 2, 1, 2))
    counts[0, :, 0] = [[6000.0, 4000.0], [10000.0, 0.0]]
    visits = np.full((2, 2, 1), 10_000.0)
    noise = Estimate(visits, np.ones((2, 2, 1)))
    given = Release(
        {"visits": noise, "transitions": Estimate(counts, np.ones((2, 2, 1)))}, 20_000, nothing(),
        lambda cells, _p: np.full((2, 2, 1), 3.0 * math.sqrt(cells)),
        public={"rewards": np.array([[[0.0], [0.0]], [[1.0], [0.0]]])},
    )  # fmt: skip
    found = lower_bound(shape, given, np.ones((2, 2, 1)), ends=False, failure_probability=0.1)
    m = 10_000 - 3 * math.sqrt(2)
    gamma = 0.5 * math.sqrt(2 * (math.log(2) + math.log(4 / (0.09 / 4))) / m) + 2 * 3 / 10_000
    assert found.values[0, 0] == pytest.approx(0.6 - gamma)
    assert found.values[1].tolist() == [1.0, 0.0]
    each = 0.01 / 4
    share = (10_000 - 3 * math.sqrt(3)) / 20_000 - math.sqrt(math.log(1 / each) / 40_000)
    assert found.average == pytest.approx(share * (found.values[0].sum()))


def world(kind: str, seed: int):
    """Four states, three actions and four steps; the same laws at every step, counted together or apart."""
    return discreet.worlds.random_mdp(states=4, actions=3, horizon=4, instance=seed).with_time(
        homogeneous=kind == "pooled"
    )


def missed(place, users, target, seed):
    """By how much the bound of the learned policy lies below its value; negative if the bound is false."""
    shape, learner = place.shape, APVI()
    people = BehaviourUsers(place, uniform_policy(shape), stream(seed, 0, USERS), generator(seed, 0, USERS))
    privatizer = privatizer_for(learner, target, shape, users)
    noise = SimulatedNoise(np.random.default_rng([9, seed]))
    state, release = learn(
        learner, privatizer.open(people, noise, users), Problem(shape, users), np.zeros(1, np.uint64)
    )
    policy = learner.policy(state)
    table = policy.stochastic(shape.actions).probabilities if isinstance(policy, Policy) else policy.probabilities
    found = lower_bound(shape, release, table, ends=False, failure_probability=0.1)
    if found.average is not None:
        assert found.average <= place.start @ found.values[0] + 1e-9
    return place.value(policy) - float(place.start @ found.values[0])


@pytest.mark.parametrize("target", [NoPrivacy(), Central(rho=0.5)], ids=["clear", "private"])
@pytest.mark.parametrize("kind", ["per step", "pooled"])
def test_bounds_hold_for_policies_that_were_chosen_by_the_same_counts(kind, target):
    """They fail with probability 0.1 at most; being cautious they fail in none of these 12 runs."""
    room = [missed(world(kind, seed), (1000, 100_000)[seed % 2], target, seed) for seed in range(12)]
    assert min(room) >= 0
    assert min(room) < 1.0  # of at most 4: with many users the bound says something


def test_a_bound_that_ignores_noise_is_false(monkeypatch):
    """The wrong-law twin: without the widths of the noise, and with ten thousand times the visits, bounds fail."""

    def too_sure(learner, shape, release):
        model = real(learner, shape, release)
        zero = np.zeros(model.counts.shape)
        return model._replace(counts=1e4 * model.counts, sum_width=zero, cell_error=zero, reward_width=zero)

    real = apvi.estimate_model
    monkeypatch.setattr("discreet.learners.lower_bound.estimate_model", too_sure)
    assert min(missed(world("per step", seed), 300, Central(rho=0.5), seed) for seed in range(12)) < -0.05


def test_a_declared_range_of_returns_cuts_bounds():
    shape = Shape(1, 1, 3)
    given = Release(
        {"visits": Estimate(np.zeros((3, 1, 1)), np.ones((3, 1, 1))),
         "transitions": Estimate(np.zeros((3, 1, 1, 1)), np.ones((3, 1, 1)))}, 10, nothing(),
        lambda cells, _p: np.full((3, 1, 1), 9.0),
        public={"rewards": np.zeros((3, 1, 1)), "returns": np.array([[1.0, 0.5, 0.25, 0.0], [2.0, 2.0, 2.0, 0.0]])},
    )  # fmt: skip
    found = lower_bound(shape, given, np.ones((3, 1, 1)), ends=False, failure_probability=0.1)
    assert found.values[:, 0].tolist() == [1.0, 0.5, 0.25, 0.0]

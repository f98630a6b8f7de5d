"""Everybody judges one step: coverage, power, and never better than itself; and a twin without the noise."""

from __future__ import annotations

from dataclasses import replace

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
from discreet.recipes.registry import build
from discreet.simulation.data_sets import learn
from discreet.tables.evaluation.arms import judged_by_everybody, may_judge
from discreet.worlds.planning.shrinkage import behaviour_shares


class People:
    """One step: states at even shares, actions by shares, outcomes around means (S, A)."""

    def __init__(self, rng, shape, means, shares, spread, users):
        self.state = rng.integers(0, shape.states, users)
        self.action = rng.choice(shape.actions, users, p=shares)
        self.outcome = means[self.state, self.action] + spread * rng.standard_normal(users)
        if spread == 0:
            self.outcome = (rng.random(users) < means[self.state, self.action]).astype(float)

    def tally(self, encoders, context, users):
        one = [each[:, None] for each in (self.state, self.action, self.outcome)]
        people = Trajectories(*one, np.ones(users, np.int64))
        return [encode(encoder, people, stream(1, 0, 0)).sum(axis=0) for encoder in encoders]


def trial(
    seed, means, recipe="offline/outcomes-laplace", *, epsilon=2.0, users=2000, top=800.0, spread=130.0, shares=None
):
    means = np.asarray(means, float)
    shape = Shape(*means.shape, 1, False, (0.0, top))
    delta = 0.0 if "laplace" in recipe else 1e-6
    made = build(discreet.Central(epsilon, delta, recipe=recipe), shape, users, data_set=True)
    rng = np.random.default_rng(seed)
    shares = np.full(shape.actions, 1 / shape.actions) if shares is None else shares
    session = made.open(People(rng, shape, means, shares, spread, users), SimulatedNoise(rng), users)
    learner = discreet.learners.APVI(penalty_scale=0.0)
    state, release = learn(learner, session, Problem(shape, users), np.zeros(1, np.uint64))
    return shape, release, table_of(learner.policy(state), shape)


def table_of(policy, shape):
    return (policy.stochastic(shape.actions) if isinstance(policy, Policy) else policy).probabilities[0]


def judged(shape, release, policy, behaviour=None, laplace=True, users=2000):
    return judged_by_everybody(shape, release, policy, behaviour, laplace=laplace, users=users)


ONE = [[260.0, 260.0, 286.0, 260.0]]
SEVERAL = [[200.0, 260.0, 200.0], [300.0, 300.0, 300.0], [250.0, 200.0, 330.0]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("means", "recipe", "options"),
    [
        (ONE, "offline/outcomes-laplace", {}),
        (ONE, "offline/outcomes-gaussian", {}),
        (SEVERAL, "offline/outcomes-laplace", {"users": 3000, "shares": [0.5, 0.3, 0.2]}),
        ([[0.4, 0.4, 0.5]], "offline/laplace", {"top": 1.0, "spread": 0.0}),
    ],
)
def test_chosen_policies_are_covered_and_their_difference_too(means, recipe, options):
    """60 seeded trials: 95% intervals of what was chosen by looking at the table miss at most 8 (chance 1e-3 each)."""
    means, missed = np.asarray(means), np.zeros(3)
    shares = np.asarray(options.get("shares", np.full(means.shape[1], 1 / means.shape[1])))
    for seed in range(60):
        shape, release, policy = trial(seed, means, recipe, **options)
        found = judged(shape, release, policy, laplace="laplace" in recipe, users=options.get("users", 2000))
        value, usual = (policy * means).sum(axis=1).mean(), (shares * means).sum(axis=1).mean()
        same = found.difference.width == 0
        missed += [
            not (same or found.difference.holds(value - usual)), not (same or found.value.holds(value)),
            not found.behaviour.holds(usual),
        ]  # fmt: skip
    assert (missed <= 8).all()


@pytest.mark.slow
def test_a_better_arm_is_found_and_no_effect_is_not():
    words = [judged(*trial(seed, ONE)).verdict.word for seed in range(40)]
    assert words.count("better") >= 24  # .8 of them: fewer than 24 has chance 2e-3
    assert "worse" not in words
    words = [judged(*trial(seed, [[260.0] * 4])).verdict.word for seed in range(80)]
    assert words.count("better") + words.count("worse") <= 7  # at most .05 each on either side


def test_a_policy_that_is_the_behaviour_is_never_better():
    """Declared or released shares, whatever the noise: the difference is 0 +- 0."""
    for seed in range(10):
        shape, release, _ = trial(seed, SEVERAL, epsilon=0.3 + seed)
        visits = release["visits"]
        shares = behaviour_shares(visits.values, np.broadcast_to(visits.variance, visits.values.shape))[0]
        even = np.full(shares.shape, 1 / 3)
        for policy, declared in ((shares, None), (even, even), (shares, shares)):
            found = judged(shape, release, policy, declared, users=2000)
            assert found.verdict.word not in ("better", "worse")
            if found.deviation < 0.1 * found.judged:
                assert (found.difference.low, found.difference.high) == (0.0, 0.0)


def test_a_mixture_with_what_users_did_is_surer_than_the_whole():
    shape, release, _ = trial(3, ONE)
    even, arm = np.full((1, 4), 0.25), np.eye(4)[[2]]
    whole, half = (judged(shape, release, policy, even).difference for policy in (arm, (arm + even) / 2))
    assert half.width == pytest.approx(whole.width / 2, rel=1e-6)
    assert half.estimate == pytest.approx(whole.estimate / 2, rel=1e-6)


def test_what_is_not_counted_adds_the_whole_range():
    """An arm that hardly anybody had says nothing, and the interval of a policy that takes it says so."""
    shape, release, _ = trial(0, ONE, shares=[0.5, 0.0, 0.5, 0.0])
    found = judged(shape, release, np.eye(4)[[1]])
    assert found.difference.width == pytest.approx(1600.0)
    assert found.verdict.word == "cannot be told"
    few = judged(*trial(0, ONE, epsilon=0.02))
    assert few.verdict.word == "cannot be told"


@pytest.mark.slow
def test_without_the_noise_in_it_the_interval_would_miss():
    """The twin: a release at epsilon .3 that says its noise has variance 0 misses what is true far more often."""
    wrong = right = 0
    for seed in range(60):
        shape, release, _ = trial(seed, ONE, epsilon=0.3)
        arm, true = np.eye(4)[[2]], 0.75 * 26.0
        quiet = {n: e._replace(variance=0 * e.variance) for n, e in release.statistics.items()}
        right += not judged(shape, release, arm).difference.holds(true)
        wrong += not judged(shape, replace(release, statistics=quiet), arm).difference.holds(true)
    assert right <= 6
    assert wrong > 6


def test_the_critical_value_is_that_of_all_arms_and_not_of_one():
    shape, release, policy = trial(1, ONE)
    assert 2.3 < judged(shape, release, policy).critical < 2.8
    assert may_judge(Shape(16, 4, 1))
    assert not may_judge(Shape(17, 4, 1))
    assert not may_judge(Shape(1, 4, 2))

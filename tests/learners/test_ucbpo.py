"""UCBPO: the update by hand, optimism, and that it learns, privately too."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.policies import Policy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, stream
from discreet.learners.base import Problem
from discreet.learners.ucbpo import UCBPO, exponential_weights, uniform_start
from discreet.learners.ucbvi import UCBVI
from discreet.mechanisms.release import Estimate, Release
from discreet.privacy.guarantee import nothing

BANDIT = Problem(Shape(1, 2, 1, homogeneous=True, start=0), 100)


def release(visits, transitions, rewards, users, noise=0.0):
    def estimate(values):
        return Estimate(np.asarray(values, float), np.full(np.shape(visits), noise))

    statistics = {"visits": estimate(visits), "transitions": estimate(transitions), "rewards": estimate(rewards)}
    return Release(statistics, users, nothing(), lambda cells, tail: np.zeros(np.shape(visits)))


def moved(state, q, users, eta_scale, largest=1.0):
    told = release([[[1.0, 1.0]]], [[[[0.0], [0.0]]]], [[[0.0, 0.0]]], users)
    return exponential_weights(state, np.array([[q]]), told, eta_scale, largest)


START = uniform_start(BANDIT, stream(0, 0, COINS))


def test_the_update_is_exponential_weights_with_a_plus_sign():
    state = moved(START, [1.0, 0.0], users=10, eta_scale=2.0)
    eta = 2.0 * np.sqrt(2 * np.log(2) / 100)
    odds = state.policy.probabilities[0, 0, 0] / state.policy.probabilities[0, 0, 1]
    assert odds == pytest.approx(np.exp(10 * eta))
    again = moved(state, [0.0, 1.0], users=20, eta_scale=2.0)
    np.testing.assert_allclose(again.policy.probabilities, 0.5)


def test_what_is_negligible_is_not_played_and_can_come_back():
    far = moved(START, [1.0, 0.0], users=60, eta_scale=10.0)  # 60 eta = 71 in the logarithm
    assert far.policy.probabilities[0, 0].tolist() == [1.0, 0.0]
    assert far.log_weights[0, 0].tolist() == [0.0, -8.0]
    eta = 10.0 * np.sqrt(2 * np.log(2) / 100)
    back = moved(far, [0.0, 8.0 / eta], users=61, eta_scale=10.0)
    np.testing.assert_allclose(back.policy.probabilities, 0.5)
    for behind, played in ((np.log(0.051), True), (np.log(0.049), False)):
        state = moved(START, [-behind / eta, 0.0], users=1, eta_scale=10.0)
        assert (state.policy.probabilities[0, 0, 1] > 0) == played


def test_many_updates_do_not_overflow():
    state = START
    for users in range(10, 20_000, 1000):
        state = moved(state, [1e3, 0.0], users, 100.0)
    np.testing.assert_allclose(state.policy.probabilities[0, 0], [1.0, 0.0])


def test_the_value_of_a_state_has_the_logarithm_of_all_users():
    """One state and two steps: both actions paid 30 of 60, so Q of the first step has their bound from afar in it."""

    def bound(clock):
        e = np.log(1 + clock / 60) / 60
        e = 0.5 * (np.sqrt(e / 2) + e)
        return 0.5 + (e**-4 + 0.5**-4) ** -0.25

    problem = Problem(Shape(1, 2, 2, homogeneous=True, start=0), 1000)
    told = release([[[60.0, 60.0]]], [[[[60.0], [60.0]]]], [[[30.0, 30.0]]], 999)
    learner = UCBPO()
    q = learner.optimistic_q(learner.init(problem, stream(0, 0, COINS)), told)
    np.testing.assert_allclose(q[1], bound(121 / 2), rtol=1e-9)
    np.testing.assert_allclose(q[0], bound(121 / 2) + bound(1000), rtol=1e-9)


def test_what_is_recommended_is_the_best_of_what_was_seen_and_no_mixture():
    learner = UCBPO()
    told = release([[[1000.0, 0.0]]], [[[[0.0], [0.0]]]], [[[500.0, 0.0]]], 50)
    state = learner.update(learner.init(BANDIT, stream(0, 0, COINS)), told)
    assert state.policy.probabilities[0, 0, 1] > 0.5  # nobody tried it
    assert learner.policy(state) is state.policy
    assert learner.recommend(state) == Policy(np.zeros((1, 1), np.int64))
    first = learner.init(BANDIT, stream(0, 0, COINS))
    assert isinstance(learner.recommend(first), Policy)  # before any release too: by the coins


def test_what_is_uncertain_is_preferred_and_what_pays_is_preferred():
    learner = UCBPO()
    start = learner.init(BANDIT, stream(0, 0, COINS))
    assert start.policy == uniform_policy(BANDIT.shape)
    rare = learner.update(start, release([[[1000.0, 4.0]]], [[[[0.0], [0.0]]]], [[[500.0, 2.0]]], 50))
    assert rare.policy.probabilities[0, 0, 1] > 0.5
    paid = learner.update(start, release([[[1000.0, 1000.0]]], [[[[0.0], [0.0]]]], [[[500.0, 100.0]]], 50))
    assert paid.policy.probabilities[0, 0, 0] > 0.5


def test_values_of_a_chain_are_those_of_the_policy():
    """Two states in turn, exact counts: Q of the last step is the reward, of the first reward plus value."""
    problem = Problem(Shape(2, 1, 2, homogeneous=True, start=0), 10)
    many = 1e12
    told = release([[[many], [many]]], [[[[0.0, many]], [[many, 0.0]]]], [[[0.25 * many], [0.5 * many]]], 5)
    state = UCBPO().update(UCBPO().init(problem, stream(0, 0, COINS)), told)
    np.testing.assert_allclose(state.policy.probabilities, 1.0)
    assert state.users == 5


def test_the_values_of_the_greedy_planners_own_policy_are_its_values():
    """UCBVI is checked against the formulas; evaluating its plan with the same bonus must give what it planned."""
    rng = np.random.default_rng(4)
    problem, rows = Problem(Shape(4, 3, 5, homogeneous=True), 500), (1, 4, 3)
    moves = rng.gamma(1.0, 8.0, size=(*rows, 4))
    visits = moves.sum(axis=-1) + rng.normal(0, 2, size=rows)
    told = release(visits, moves, rng.random(rows) * visits, 40, noise=4.0)
    plan = UCBVI().update(UCBVI().init(problem, stream(0, 0, COINS)), told)
    start = UCBPO().init(problem, stream(0, 0, COINS))
    q = UCBPO().optimistic_q(start._replace(policy=plan.policy.stochastic(3)), told)
    np.testing.assert_allclose(np.minimum(q.max(axis=2), 5.0 - np.arange(5)[:, None]), plan.values[:5], atol=1e-9)
    other = UCBPO(noise_scale=0.5).optimistic_q(start._replace(policy=plan.policy.stochastic(3)), told)
    assert np.abs(other - q).max() > 1e-3  # the knobs arrive
    assert (UCBPO().optimistic_q(start, told)[0] < q[0]).any()  # uniform play is worth less


@pytest.mark.parametrize("privacy", [None, discreet.Central(1.0, 1e-5)], ids=["none", "central"])
def test_it_learns_river_swim(privacy):
    world = discreet.worlds.river_swim(states=4, horizon=6)
    episodes = 3000 if privacy is None else 20_000
    result = discreet.simulate(world, UCBPO(), privacy, episodes=episodes, runs=2, seed=9)
    assert result.regret[:, -1].mean() < 0.35 * episodes * world.gap(uniform_policy(world.shape))


def test_knobs_are_checked():
    with pytest.raises(InvalidInput, match="eta_scale"):
        UCBPO(eta_scale=0)
    for knob in ("reward_scale", "spread_scale", "range_scale", "noise_scale", "threshold"):
        with pytest.raises(InvalidInput, match=knob):
            UCBPO(**{knob: -1})

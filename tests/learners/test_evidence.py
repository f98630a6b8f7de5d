"""What a release shows: rows that were counted, rows that noise has swallowed, a policy that falls back on users."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
import discreet.offline
from discreet.base.policies import Policy, StochasticPolicy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, stream
from discreet.learners.apvi import APVI
from discreet.learners.base import Problem
from discreet.learners.evidence import evidence_of, first_states, scores_at
from discreet.mechanisms.release import Estimate, Release
from discreet.privacy.guarantee import nothing


def release(visits, rewards, following, *, variance, public=None):
    """One table per step of visits (H, S, A), sums of rewards and successors (H, S, A, S), all with one noise."""
    visits, rewards, following = (np.asarray(table, float) for table in (visits, rewards, following))
    noise = np.full(visits.shape, variance)
    statistics = {
        "visits": Estimate(visits, 2 * noise), "rewards": Estimate(rewards, noise),
        "transitions": Estimate(following, noise),
    }  # fmt: skip
    return Release(statistics, 1000, nothing(), lambda cells, _p: np.zeros(visits.shape), public=public or {})


SHAPE = Shape(2, 2, 2)


def tables(scale: float):
    """State 0: action 0 is good and leads to state 0; action 1 pays nothing. State 1 pays little whatever is done."""
    visits = scale * np.array([[[3.0, 1.0], [2.0, 2.0]], [[3.0, 1.0], [2.0, 2.0]]])
    rewards = visits * np.array([[0.9, 0.1], [0.2, 0.2]])
    following = visits[..., None] * np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])
    following[1] = 0.0
    return visits, rewards, following


def test_rows_that_were_counted_say_what_they_showed():
    found = evidence_of(SHAPE, release(*tables(1e7), variance=1.0), ends=False)
    np.testing.assert_allclose(found.action_rewards.values[0], [[0.9, 0.1], [0.2, 0.2]], atol=1e-3)
    np.testing.assert_allclose(found.actions.probabilities[0, 0], [[0.9, 0.1], [0.1, 0.9]], atol=1e-3)
    np.testing.assert_allclose(found.state_rewards.values[0], [0.7, 0.2], atol=1e-3)
    np.testing.assert_allclose(found.behaviour[0], [[0.75, 0.25], [0.5, 0.5]])
    assert found.action_rewards.variance.max() < 1e-6


def test_rows_that_noise_has_swallowed_say_what_their_state_says():
    visits, rewards, following = tables(1e4)
    visits[0, 0, 1], rewards[0, 0, 1], following[0, 0, 1] = 3.0, 3.0, 0.0  # three noisy visits, all rewarded
    found = evidence_of(SHAPE, release(visits, rewards, following, variance=400.0), ends=False)
    scores = scores_at(SHAPE, found, 0, np.array([1.0, 0.0]), ends=False)
    assert found.action_rewards.values[0, 0, 1] == pytest.approx(found.state_rewards.values[0, 0])
    assert scores.actions[0, 1] == pytest.approx(scores.behaviour[0])
    assert scores.action_variance[0, 1] > 10 * scores.behaviour_variance[0]


def planned(given, **knobs):
    learner = APVI(**knobs)
    state = learner.update(learner.init(Problem(SHAPE, 1000), stream(0, 0, COINS)), given)
    return learner.policy(state), state


def test_where_nothing_is_surer_the_policy_does_what_users_did():
    given = release(*tables(1e4), variance=1.0)
    policy, state = planned(given)
    assert isinstance(policy, StochasticPolicy)  # in state 1 actions are alike
    assert policy.probabilities[0, 0].tolist() == [1.0, 0.0]
    assert state.kept[:, 0].tolist() == [False, False]
    scarce, state = planned(release(*tables(3.0), variance=400.0))
    assert state.kept.all()
    assert isinstance(scarce, Policy)  # nothing stood out: the most frequent action


def test_a_declared_behaviour_takes_the_place_of_the_released_one():
    usual = np.broadcast_to([[0.1, 0.9], [0.3, 0.7]], (2, 2, 2))
    policy, _ = planned(release(*tables(3.0), variance=400.0, public={"behaviour": usual}))
    np.testing.assert_allclose(policy.probabilities, usual)


def test_without_fallback_there_is_always_an_action():
    policy, state = planned(release(*tables(3.0), variance=400.0), fallback=False)
    assert isinstance(policy, Policy)
    assert not state.kept.any()


def test_values_are_kept_within_declared_returns():
    given = release(*tables(1e5), variance=1.0, public={"returns": np.array([[0.0, 0.0, 0.0], [1.25, 0.5, 0.0]])})
    _, state = planned(given)
    assert state.values.max(axis=1).tolist() == [1.25, 0.5, 0.0]


def test_first_states_are_declared_estimated_or_unknown():
    given = release(*tables(10.0), variance=1.0)
    assert first_states(Shape(2, 2, 2, start=1), given).tolist() == [0.0, 1.0]
    assert first_states(SHAPE, given).tolist() == [0.5, 0.5]
    assert first_states(Shape(2, 2, 2, homogeneous=True), given) is None


def nobody_tuned_on(seed: int):
    """Eight states, three actions, six steps, one law per step: Dirichlet(0.3), rewards u^2."""
    rng = np.random.default_rng([4, seed])
    rows, rewards = rng.dirichlet(np.full(8, 0.3), size=(6, 8, 3)), rng.random((6, 8, 3)) ** 2
    return discreet.worlds.from_arrays(rows, rewards)


def test_the_default_learns_from_few_users_and_does_not_fall_below_them():
    """4,000 users at rho 1: the tight penalty leaves a gap of about 1; 1,000 users of a good policy at rho 0.1."""
    gaps = {"noise": [], "tight": []}
    for seed in range(4):
        world = nobody_tuned_on(seed)
        for penalty, found in gaps.items():
            result = discreet.offline.simulate(
                world, APVI(penalty=penalty), discreet.Central(rho=1.0), users=4000, runs=1, seed=seed,
                behaviour="mostly-first",
            )  # fmt: skip
            found.append(float(result.final_gap[0]))
    assert np.mean(gaps["noise"]) < 0.2
    assert np.mean(gaps["tight"]) > 0.5
    worse = []
    for seed in range(4):
        world = nobody_tuned_on(seed)
        best = world.optimal()[1].stochastic(3).probabilities
        result = discreet.offline.simulate(
            world, "apvi", discreet.Central(rho=0.3), users=1000, runs=2, seed=seed,
            behaviour=StochasticPolicy(0.8 * best + 0.2 / 3),
        )  # fmt: skip
        worse.extend(result.behaviour_value - result.value)
    assert np.mean(worse) < 0.0


def test_pooled_steps_do_not_mix_the_pay_of_one_action_with_the_successors_of_another():
    """Users who act otherwise at the last step, whose successors nobody knows: much data must find the best policy."""
    world = discreet.worlds.machine_repair(4, 10)
    best = world.optimal()[1].stochastic(world.shape.actions).probabilities
    usual = StochasticPolicy(0.8 * best + 0.2 / world.shape.actions)
    result = discreet.offline.simulate(world, "apvi", users=20_000, runs=2, seed=5, behaviour=usual)
    assert (result.final_gap < 0.005 * (result.optimal_value - result.behaviour_value) + 0.01).all()

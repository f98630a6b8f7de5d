"""Rewards of arms: what is public leaves as it is, one number with noise; policies that leave a choice are refused."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import discreet
from discreet.audit.trials import FixedUsers, exact_profile, known_transcript
from discreet.base.errors import Unsupported
from discreet.base.policies import MIXED, Mixture, Policy, StochasticPolicy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.bandit import arm_of
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.release import Request
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import DiscreteLaplace
from discreet.recipes.registry import build

SHAPE = Shape(1, 3, 1, homogeneous=True, start=0)
TARGETS = {
    "central": discreet.Central(1.0, recipe="central/arm-rewards"),
    "shuffle": discreet.Shuffle(1.0, 1e-5, recipe="shuffle/arm-rewards"),
}


def playing(arm):
    return Policy(np.array([[arm]]))


@cache
def channel_of(trust):
    (channel,) = build(TARGETS[trust], SHAPE, 1_000).channels
    return channel


def started(trust, seed=0):
    channel = channel_of(trust)
    return channel.start(SHAPE, SimulatedNoise(np.random.default_rng(seed)), True)


def people(actions, rewards):
    count = len(actions)
    return [
        Trajectories.from_arrays(np.zeros((1, 1), int), np.array([[a]]), np.array([[float(r)]]), SHAPE)
        for a, r in zip(actions, rewards, strict=True)
    ][:count]


@pytest.mark.parametrize("trust", TARGETS)
def test_visits_are_those_who_were_told_and_carry_no_noise(trust):
    run = started(trust)
    run.add(np.array([0.0, 30.0, 0.0]), 40, Context(playing(1)))
    one = run.estimates()["rewards"].variance.copy()
    run.add(np.array([0.0, 15.0, 0.0]), 40, Context(playing(1)))
    found = run.estimates()
    assert found["visits"].values.reshape(-1).tolist() == [0, 80, 0]
    assert not found["visits"].variance.any()
    assert not found["transitions"].values.any()
    assert not found["transitions"].variance.any()
    assert found["transitions"].values.shape == (1, 1, 3, 1)
    assert found["rewards"].variance == pytest.approx(2 * one)
    assert found["rewards"].values.reshape(-1)[[0, 2]].tolist() == [0, 0]
    assert (found["rewards"].variance.reshape(-1)[[0, 2]] == 0).all()


def test_the_noise_is_half_of_that_of_a_joint_histogram():
    (own,) = build(TARGETS["central"], SHAPE, 1_000).channels
    (joint,) = build(discreet.Central(1.0, recipe="central/joint-histogram-laplace"), SHAPE, 1_000).channels
    assert own.rewards.law == DiscreteLaplace(1.0)
    assert joint.law == DiscreteLaplace(2.0)
    assert own.noise_per_row() == own.rewards.law.variance
    (mechanism,) = own.mechanisms()
    assert (mechanism.cells, mechanism.sensitivity.l1) == (1, 1)


@pytest.mark.parametrize("trust", TARGETS)
def test_rewards_are_unbiased_and_as_noisy_as_stated(trust):
    """4,000 blocks; false alarms 6e-7 for the mean. A twin that is one too high fails."""
    values = []
    for i in range(4_000):
        run = started(trust, seed=i)
        run.add(np.array([0.0, 0.0, 18.0]), 60, Context(playing(2)))
        found = run.estimates()["rewards"]
        values.append(found.values[0, 0, 2])
    variance = found.variance[0, 0, 2]
    error = np.sqrt(variance / len(values))
    assert abs(np.mean(values) - 18) < 5 * error
    assert abs(np.mean(values) - 18 - 1) > 5 * error
    assert np.var(values) == pytest.approx(variance, rel=0.15)


def test_users_who_do_not_do_as_told_count_as_told_with_reward_zero():
    """Sessions on data sets that differ in one user, whatever she did: all but the rewards of one arm agree."""
    privatizer = build(discreet.Central(1e6, recipe="central/arm-rewards"), SHAPE, 4)  # as good as no noise
    crowd = people([1, 1, 1], [1, 0, 1])
    seen = set()
    for action, reward in [(1, 0), (1, 1), (0, 1), (2, 1), (2, 0)]:
        users = FixedUsers([*people([action], [reward]), *crowd], stream(0, 0, USERS))
        session = privatizer.open(users, SimulatedNoise(np.random.default_rng(0)), 4)
        release = session.answer(Request(playing(1), users=4))
        assert release["visits"].values.reshape(-1).tolist() == [0, 4, 0]
        rewards = release["rewards"].values.reshape(-1)
        assert rewards[[0, 2]].tolist() == [0, 0]
        seen.add(float(rewards[1]))
    assert seen == {2.0, 3.0}


@pytest.mark.parametrize(
    "policy",
    [
        uniform_policy(SHAPE),
        Mixture((playing(0), playing(2)), np.array([0.5, 0.5])),
        StochasticPolicy(np.array([[[0.999, 0.001, 0.0]]])),
    ],
    ids=["uniform", "mixture", "nearly"],
)
def test_policies_that_leave_a_choice_are_refused_before_anybody_acts(policy):
    class Nobody:
        def tally(self, encoders, context, users):
            raise AssertionError("users were asked")

        messages = tally

    session = build(TARGETS["central"], SHAPE, 100).open(Nobody(), SimulatedNoise(np.random.default_rng(0)), 100)
    with pytest.raises(Unsupported, match="says one action for everybody, and this one may play"):
        session.answer(Request(policy))
    with pytest.raises(Unsupported, match="one action for everybody"):
        started("central").add(np.zeros(3), 10, Context(policy))


def test_a_policy_that_can_play_one_arm_only_is_served_whatever_its_class():
    assert arm_of(SHAPE, StochasticPolicy(np.array([[[0.0, 1.0, 0.0]]]))) == 1
    assert arm_of(SHAPE, Mixture((playing(2), playing(2)), np.array([0.5, 0.5]))) == 2


@pytest.mark.parametrize("trust", TARGETS)
def test_learners_that_mix_actions_are_refused_by_name(trust):
    build(TARGETS[trust], SHAPE, 100, {"visits"})
    with pytest.raises(Unsupported, match="this learner mixes actions: take another recipe"):
        build(TARGETS[trust], SHAPE, 100, {"visits", MIXED})


def test_real_noise_serves_a_real_session():
    privatizer = build(TARGETS["central"], SHAPE, 60)
    session = privatizer.open(FixedUsers(people([0] * 60, [1] * 60), stream(0, 0, USERS)), SecureNoise(), 60)
    release = session.answer(Request(playing(0), users=60))
    assert not release.guarantee.simulated
    assert release.guarantee.epsilon <= 1.0
    assert release["visits"].values[0, 0, 0] == 60
    assert release["rewards"].values[0, 0, 0] == round(release["rewards"].values[0, 0, 0])
    assert abs(release["rewards"].values[0, 0, 0] - 60) < 60  # fails once in e^60 runs


def test_real_noise_is_refused_where_nobody_holds_sums():
    with pytest.raises(Unsupported, match="shuffle model"):
        build(TARGETS["shuffle"], SHAPE, 60).take_in(SecureNoise(), 60)


def test_widths_are_those_of_the_noise_and_radii_of_public_counts_are_zero():
    run = started("central")
    run.add(np.zeros(3), 40, Context(playing(0)))
    width = run.width_now()(1, 0.05)
    assert width[0, 0, 0] == DiscreteLaplace(1.0).sum_quantile(1, 0.05)
    assert width[0, 0, 1] == 0
    radius = run.radius_now()
    assert not radius("visits", 0.05).any()
    assert not radius("followed", 0.05).any()
    assert radius("rewards", 0.05)[0, 0, 0] >= width[0, 0, 0]


@pytest.mark.parametrize("trust", TARGETS)
def test_the_audit_knows_the_transcript_and_its_exact_privacy(trust):
    privatizer = build(TARGETS[trust], SHAPE, 200)
    assert known_transcript(privatizer) is not None
    exact = exact_profile(privatizer)
    delta = TARGETS[trust].delta
    assert exact.epsilon(delta) <= privatizer.guarantee.epsilon * (1 + 1e-9)
    assert exact.epsilon(delta) > 0.9  # the promise is not met by wasting it

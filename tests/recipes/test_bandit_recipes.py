"""Recipes for bandits: calibrated to one reward, blocks that follow the arm, and "auto" takes them where they serve."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Policy, StochasticPolicy
from discreet.base.shape import Shape
from discreet.learners.registry import make_learner
from discreet.mechanisms.release import Request
from discreet.mechanisms.schedule import Growing, PerPolicy, sizes
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.privacy.guarantee import from_mechanism
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.auto import choose
from discreet.recipes.predicted_regret import expected_regret, noise_of
from discreet.recipes.registry import build, find, recipes

T = 20_000


def arms(number):
    return Shape(1, number, 1, homogeneous=True, start=0)


def central(epsilon=1.0, delta=0.0, **options):
    return discreet.Central(epsilon, delta, recipe="central/arm-rewards", options=options)


def shuffle(epsilon=1.0, **options):
    return discreet.Shuffle(epsilon, 1e-5, recipe="shuffle/arm-rewards", options=options)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("target", [central, shuffle])
def test_the_promise_is_kept_and_used_up(target, epsilon):
    asked = target(epsilon)
    guarantee = build(asked, arms(5), 500).guarantee
    assert 0.98 * epsilon < guarantee.epsilon <= epsilon * (1 + 1e-9)
    assert guarantee.delta == asked.delta
    assert guarantee.delta_at(epsilon) <= asked.delta
    assert guarantee.model == {"central": "joint", "shuffle": "shuffle"}[asked.model]
    assert "every user is in exactly one" in guarantee.explain()


def test_the_noise_hides_one_reward_and_half_of_it_does_not():
    (channel,) = build(central(), arms(5), 500).channels
    assert channel.rewards.law == DiscreteLaplace(1.0)
    half = from_mechanism(DiscreteLaplace(0.5), Sensitivity.unit_shifts(1, 0), delta=0.0, name="half")
    assert half.epsilon == pytest.approx(2.0)


def test_with_a_delta_the_quieter_law_is_taken():
    """One number that moves by one: Laplace noise is quieter at a small delta, Gaussian noise at a large one."""
    (small,), (large,) = (build(central(0.5, delta), arms(5), 500).channels for delta in (1e-6, 0.1))
    assert isinstance(small.rewards.law, DiscreteLaplace)
    assert isinstance(large.rewards.law, DiscreteGaussian)
    assert large.rewards.law.variance < small.rewards.law.variance
    (rho,) = build(discreet.Central(rho=0.1, recipe="central/arm-rewards"), arms(5), 500).channels
    assert isinstance(rho.rewards.law, DiscreteGaussian)


def test_a_shuffled_block_is_never_noisier_than_the_local_model():
    """Alone she answers with the whole epsilon; in a crowd never less truthfully. Sizes are rounded down."""
    (channel,) = build(shuffle(4.0), arms(5), 500).channels
    alone = channel.rewards.response(1)
    assert alone.epsilon == pytest.approx(4.0, rel=1e-6)
    for users in (2, 17, 31, 300):
        response = channel.rewards.response(users)
        assert response.epsilon >= alone.epsilon
        counted = channel.rewards.counted(users)
        assert 8 / 9 * users <= counted.users <= users
        assert counted.profile(channel.encoder.sensitivity()).delta(4.0) <= 1e-5
    assert channel.rewards.counted(34) == channel.rewards.counted(35) != channel.rewards.counted(36)


def test_blocks_follow_the_arm():
    privatizer = build(central(first=40, growth=0.5), arms(3), 1_000)  # later blocks have at least 60

    class Nobody:
        def tally(self, encoders, context, users):
            return [np.zeros(encoder.size) for encoder in encoders]

        def messages(self, encoder, context, users):
            raise NotImplementedError

    session = privatizer.open(Nobody(), SimulatedNoise(np.random.default_rng(0)), 1_000)
    served = []
    for arm in (0, 1, 0, 0, 0, 2, 1, 0):
        before = session.served
        session.answer(Request(Policy(np.array([[arm]]))))
        served.append(session.served - before)
    assert served == [40, 40, 60, 60, 80, 40, 60, 120]
    session.answer(Request(Policy(np.array([[1]])), users=7))  # a learner may still dictate a size
    assert session.served == sum(served) + 7
    while session.left:
        session.answer(Request(Policy(np.array([[2]]))))
    assert session.served == 1_000


def test_a_schedule_by_policy_foresees_policies_in_turn():
    schedule = PerPolicy(first=10, growth=0.5, policies=2)
    blocks = sizes(schedule, 200)
    assert blocks[:6] == [10, 10, 10, 10, 10, 13]
    assert sum(blocks) == 200
    assert [schedule.next_block_of(followed, 1_000) for followed in (0, 20, 21, 100)] == [10, 10, 11, 50]
    assert schedule.next_block_of(100, 7) == 7
    assert "a policy's first block has 10 users, later ones 50%" in schedule.describe()
    longer = PerPolicy(first=10, growth=0.5, again=15)
    assert [longer.next_block_of(followed, 1_000) for followed in (0, 10, 29, 31)] == [10, 15, 15, 16]
    assert longer.describe().endswith("later ones 50% of those it has had, at least 15")
    for wrong in ((0, 0.5, 1), (10, 0.0, 1), (10, 0.5, 0), (10, 0.5, 1, None, 0)):
        with pytest.raises(InvalidInput):
            PerPolicy(*wrong)


def test_a_first_block_stands_out_of_its_noise_unless_there_are_many_arms():
    # 12 deviations of sqrt(1.84), and eight users against chance; an arm that is looked at again has 1.5 times that
    assert build(central(1.0), arms(4), T).schedule == PerPolicy(24, 0.5, 4, again=36)
    assert build(central(1.0), arms(5), T).schedule == PerPolicy(23, 0.5, 5, again=35)  # 8 (1 + 2/5) of them
    assert build(central(0.1), arms(5), T).schedule == PerPolicy(166, 0.5, 5, again=249)
    assert build(central(1.0), arms(50), T).schedule.first == 13  # 8 (1 + 2/50), and 1.6
    assert build(central(0.1), arms(50), T).schedule.first == 28  # 7% of all users for fifty arms
    assert build(central(4.0), arms(2), T).schedule.first == 8  # hardly any noise: as many as tell something
    assert build(central(4.0), arms(50), T).schedule.first == 3
    assert build(central(1.0), arms(50), 3).schedule.first == 1
    assert build(shuffle(1.0), arms(12), T).schedule == PerPolicy(50, 0.5, 12, again=75)  # 3% of all users
    assert build(shuffle(1.0), arms(50), T).schedule == PerPolicy(3, 0.5, 50, again=4)  # .36 / 50 of all users


def test_users_who_answer_themselves_come_in_blocks_that_follow_the_arm():
    """Eight rewards' worth of answers, 8 / tanh(epsilon / 2)^2, or less with many arms; 1/20 more each time."""
    blocks = {e: build(discreet.Local(e), arms(2), T).schedule for e in (0.1, 1.0, 4.0)}
    assert [schedule.first for schedule in blocks.values()] == [400, 37, 9]  # 4% of all users at epsilon 0.1
    assert blocks[1.0].growth == 0.05
    assert build(discreet.Local(4.0), arms(50), T).schedule.first == 1
    assert build(discreet.Local(1.0), arms(2), 3).schedule.first == 1
    assert build(discreet.Local(1e-9), arms(2), T).schedule.first == 400
    given = build(discreet.Local(1.0, options={"growth": 0.3}), arms(2), T).schedule
    assert given == Growing(1, 0.3)


def test_policies_that_leave_a_choice_come_in_blocks_by_the_clock():
    privatizer = build(discreet.Local(1.0), arms(2), 1_000)
    intake = privatizer.take_in(SimulatedNoise(np.random.default_rng(0)), 1_000)
    told, drawn = Policy(np.array([[1]])), StochasticPolicy(np.array([[[0.5, 0.5]]]))
    intake.served = 200
    assert intake.next_block(told) == privatizer.schedule.first
    assert intake.next_block(drawn) == 4  # 2% of those who were served


def test_answers_about_an_arm_leave_no_doubt_how_many_there_were():
    found = discreet.simulate(
        discreet.worlds.bernoulli_arms("0.9,0.2"), "ucbvi", discreet.Local(1.0), episodes=300, keep_release=True
    )
    (release,) = found.releases
    assert release["visits"].values.sum() == pytest.approx(300)
    assert not release["visits"].variance.any()
    assert (release["rewards"].variance > 0).all()
    mixed = discreet.simulate(
        discreet.worlds.bernoulli_arms("0.9,0.2"), "ucbpo", discreet.Local(1.0), episodes=300, keep_release=True
    )
    assert (mixed.releases[0]["visits"].variance > 0).all()  # which arm she drew is hers


@pytest.mark.parametrize("wrong", [{"first": 0}, {"growth": 0.0}, {"growth": float("nan")}, {"blocks": 3}])
def test_options_outside_their_domain_are_refused(wrong):
    with pytest.raises(InvalidInput):
        build(central(**wrong), arms(3), 100)


@pytest.mark.parametrize("shape", [Shape(2, 3, 1), Shape(1, 3, 2)])
@pytest.mark.parametrize("target", [central, shuffle])
def test_other_worlds_are_refused_and_auto_does_not_try(target, shape):
    with pytest.raises(Unsupported, match="for bandits, which have one state and one step"):
        build(target(), shape, 100)
    assert "arm-rewards" not in build(discreet.Central(1.0), shape, 100).recipe


def test_rho_is_refused_through_a_shuffler():
    with pytest.raises(Unsupported, match="instead of rho"):
        build(discreet.Shuffle(rho=0.1, delta=1e-5, recipe="shuffle/arm-rewards"), arms(3), 100)


@pytest.mark.parametrize("number", [2, 20])
@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_auto_takes_them_for_bandits_and_more_trust_is_not_worse(number, epsilon):
    chosen = [
        build(target, arms(number), T, discreet.learners.UCBVI().needs)
        for target in (discreet.Central(epsilon), discreet.Shuffle(epsilon, 1e-5), discreet.Local(epsilon))
    ]
    assert [privatizer.recipe for privatizer in chosen] == [
        "central/arm-rewards", "shuffle/arm-rewards", "local/sampled-step",
    ]  # fmt: skip
    expected = [expected_regret(privatizer, T) for privatizer in chosen]
    assert expected == sorted(expected)


@pytest.mark.parametrize("learner", ["psrl", "ucbpo", "policy-elimination"])
def test_auto_gives_learners_that_mix_actions_neither_these_nor_focused_blocks(learner):
    needs = make_learner(learner).needs
    alone = {recipe.name for recipe in recipes() if not recipe.mixes}
    assert "central/focused-first-visit-laplace" in alone
    assert {name for name in alone if "arm-rewards" in name} == {"central/arm-rewards", "shuffle/arm-rewards"}
    assert build(discreet.Central(1.0), arms(10), 500, needs).recipe not in alone
    focused, shape = find("central/focused-first-visit-laplace", "central"), Shape(4, 2, 4, homogeneous=True)
    assert choose([focused], (), discreet.Central(1.0), shape, 500, frozenset({"visits"}), noise_of)
    with pytest.raises(Unsupported, match="not for learners that mix actions"):
        choose([focused], (), discreet.Central(1.0), shape, 500, needs, noise_of)


def test_a_learner_that_mixes_actions_may_name_focused_blocks():
    named = discreet.Central(1.0, recipe="central/focused-first-visit-laplace")
    assert build(named, arms(10), 500, discreet.learners.UCBPO().needs).recipe == named.recipe


def test_a_bandit_is_learned_with_little_noise():
    """Four runs; uniform play costs .5 a user. Wrong noise or blocks cost much more."""
    world = discreet.worlds.bernoulli_arms("0.9,0.2,0.1")
    found = discreet.simulate(world, "ucbvi", discreet.Central(1.0), episodes=4_000, runs=4, seed=1)
    assert found.recipe == "central/arm-rewards"
    assert found.total_regret.max() / 4_000 < 0.05
    assert found.switches.max() < 40

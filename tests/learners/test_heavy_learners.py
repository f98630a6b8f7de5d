"""Heavy-tailed learners: the printed formulas by hand, and that they learn without privacy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.errors import InvalidInput
from discreet.learners.base import Problem
from discreet.learners.heavy_tailed import Bonuses, HeavyUCBPO, HeavyUCBVI, moments_or_range, reward_bound
from discreet.policies import uniform_policy
from discreet.privacy.guarantee import nothing
from discreet.release import Estimate, Release
from discreet.shape import Moments, Shape
from discreet.streams import COINS, stream

SHAPE = Shape(2, 1, 3, True, (-2.0, 2.0), 0, Moments(3.0, 0.5))
PROBLEM = Problem(SHAPE, 50)
L = math.log(12 * 2 * 1 * 3 * 50 / 0.1)


def release(width=0.0, noise=0.0):
    visits = np.array([[[40.0], [9.0]]])
    statistics = {
        "visits": Estimate(visits, np.full(visits.shape, noise)),
        "transitions": Estimate(np.array([[[[30.0, 10.0]], [[-3.0, 12.0]]]]), np.full(visits.shape, noise)),
        "rewards": Estimate(np.array([[[25.0], [4.5]]]), np.full(visits.shape, noise)),
    }
    return Release(statistics, 50, nothing(), lambda cells, tail: np.full(visits.shape, width * cells))


def test_without_noise_the_model_is_the_empirical_one_with_the_published_bonus():
    model = Bonuses(1.0, 1.0, 0.1, uniform=False).model(PROBLEM, release())
    np.testing.assert_allclose(model.rewards, [(4 * 25 - 2 * 40) / 40, 0.0])
    np.testing.assert_allclose(model.transitions, [[0.75, 0.25], [0.0, 12 / 9]])  # cut at zero, not normalised
    np.testing.assert_allclose(model.reward_bonus, 4 * 3 ** (1 / 1.5) * (L / np.array([40, 9])) ** (1 / 3))
    np.testing.assert_allclose(model.transition_bonus, np.sqrt(2 * L / np.array([40, 9])))


def test_noise_enters_as_errors_of_counts_and_of_rewards():
    quiet, noisy = (
        Bonuses(1.0, 0.5, 0.1, uniform=False).model(PROBLEM, release(width=w, noise=n)) for w, n in ((0, 0), (2.0, 5.0))
    )
    D = 40 + 0.5 * 2.0 * 3  # visits sum three cells
    assert noisy.transitions[0, 0] == pytest.approx(30 / D)
    variance = 4.0**2 * 5.0
    reward_error = 0.5 * (math.sqrt(2 * variance * L) + math.sqrt(variance / 2) * L)
    statistical = 4 * 3 ** (1 / 1.5) * (L / D) ** (1 / 3)
    assert noisy.reward_bonus[0] == pytest.approx((2 * 2.0 * 3.0 + reward_error) / D + statistical)
    assert noisy.transition_bonus[0] == pytest.approx(math.sqrt(2 * L / D) + (2 * 3.0 + 0.5 * 2.0 * 2) / D)
    assert quiet.transition_bonus[0] < noisy.transition_bonus[0]


def test_all_functions_at_once_cost_more_than_one():
    one, every = (Bonuses(1.0, 1.0, 0.1, uniform=u).model(PROBLEM, release()) for u in (False, True))
    assert (every.transition_bonus > one.transition_bonus).all()
    np.testing.assert_allclose(every.reward_bonus, one.reward_bonus)


def test_theory_clips_everything_so_that_ties_decide():
    """At scale 1 every action of every state is at the ceiling: the public coins choose, not the order of actions."""
    problem = Problem(Shape(3, 2, 5, True, (-1.0, 1.0), 0, Moments(3.0, 1.0)), 1000)
    policies = {HeavyUCBVI(bonus_scale=1.0).init(problem, stream(seed, 0, COINS)).policy for seed in range(5)}
    assert len(policies) == 5
    values = HeavyUCBVI(bonus_scale=1.0).init(problem, stream(0, 0, COINS)).values
    np.testing.assert_allclose(values[:, 0], np.arange(5, -1, -1))


def test_rewards_with_a_range_have_a_second_moment():
    bounded = Shape(2, 2, 2, rewards=(-3.0, 1.0))
    assert reward_bound(bounded) == 3.0
    assert moments_or_range(bounded) == Moments(9.0, 1.0)
    assert moments_or_range(SHAPE) == SHAPE.moments


@pytest.mark.parametrize("learner", [HeavyUCBVI(), HeavyUCBPO()], ids=["vi", "po"])
def test_they_learn_from_stable_rewards(learner):
    world = discreet.worlds.river_swim(4, 6, rewards="stable", alpha=1.8)
    result = discreet.simulate(world, learner, discreet.NoPrivacy(), episodes=8000, runs=2, seed=4)
    assert result.regret[:, -1].mean() < 0.4 * 8000 * world.gap(uniform_policy(world.shape))


def test_knobs_are_checked():
    for make in (HeavyUCBVI, HeavyUCBPO):
        with pytest.raises(InvalidInput, match="bonus_scale"):
            make(bonus_scale=0)
        with pytest.raises(InvalidInput, match="error_scale"):
            make(error_scale=-1)

"""Heavy-tailed learners: the printed formulas by hand, and that they learn without privacy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.errors import InvalidInput
from discreet.heavy_tails.learners import Bonuses, HeavyUCBPO, HeavyUCBVI, moments_or_range, reward_bound
from discreet.learners.base import Problem
from discreet.policies import uniform_policy
from discreet.privacy.guarantee import nothing
from discreet.release import Estimate, Release
from discreet.shape import Moments, Shape
from discreet.streams import COINS, stream

SHAPE = Shape(2, 1, 3, True, (-2.0, 2.0), 0, Moments(3.0, 0.5))
PROBLEM = Problem(SHAPE, 50)
L = math.log(12 * 2 * 1 * 3 * 50 / 0.1)


def release(width=0.0, noise=0.0, public=None):
    visits = np.array([[[40.0], [9.0]]])
    statistics = {
        "visits": Estimate(visits, np.full(visits.shape, noise)),
        "transitions": Estimate(np.array([[[[30.0, 10.0]], [[-3.0, 12.0]]]]), np.full(visits.shape, noise)),
        "rewards": Estimate(np.array([[[25.0], [4.5]]]), np.full(visits.shape, noise)),
    }
    widths = np.full(visits.shape, width)
    return Release(statistics, 50, nothing(), lambda cells, tail: widths * cells, public=public or {})


def bonuses(error_scale=1.0, threshold=None, uniform=False):
    return Bonuses(1.0, error_scale, threshold, 0.1, uniform)


def test_without_noise_the_model_is_the_empirical_one_with_the_published_bonus():
    """Steps are pooled, so moves are divided by those visits that a move followed: 40 of 40, and 9 of 9."""
    model = bonuses().model(PROBLEM, release())
    np.testing.assert_allclose(model.rewards, [(4 * 25 - 2 * 40) / 40, 0.0])
    np.testing.assert_allclose(model.transitions, [[0.75, 0.25], [0.0, 12 / 9]])  # cut at zero, not normalised
    np.testing.assert_allclose(model.reward_bonus, 4 * 3 ** (1 / 1.5) * (L / np.array([40, 9])) ** (1 / 3))
    np.testing.assert_allclose(model.transition_bonus, np.sqrt(2 * L / np.array([40, 9])))


def test_pooled_moves_are_divided_by_what_they_follow():
    """Last steps are visits too, but nothing follows them; with laws per step there are no others in their group."""
    seen = release()
    visits, moves, rewards = (seen[name] for name in ("visits", "transitions", "rewards"))
    more = replace(
        seen,
        statistics={"visits": visits._replace(values=visits.values + 20), "transitions": moves, "rewards": rewards},
    )
    model = bonuses().model(PROBLEM, more)
    np.testing.assert_allclose(model.transitions[0], [0.75, 0.25])
    single = Problem(replace(SHAPE, horizon=1), 50)
    np.testing.assert_allclose(bonuses().model(single, more).transitions[0], [0.5, 10 / 60])


def test_moves_within_the_noise_are_dropped_and_the_rest_is_normalised():
    model = bonuses(threshold=1.5).model(PROBLEM, release(noise=16.0))  # a deviation of 4: six moves are noise
    np.testing.assert_allclose(model.transitions, [[24 / 28, 4 / 28], [0.0, 1.0]])
    nothing_left = bonuses(threshold=8.0).model(PROBLEM, release(noise=16.0))
    assert nothing_left.transitions.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert nothing_left.transition_bonus.tolist() == [1.0, 1.0]  # anything may follow


def test_the_bonus_knows_the_threshold_in_force():
    """u = 3, v = 1/2: Bernstein for clipped rewards, and the bias as stated, per visit."""
    B, bias = np.array([[[4.0], [9.0]]]), np.array([[[0.3], [0.2]]])
    model = bonuses().model(PROBLEM, release(public={"thresholds": B, "clipping_bias": bias}))
    D, B = np.array([40.0, 9.0]), np.array([4.0, 9.0])
    expected = np.sqrt(2 * 3.0 * B**0.5 * L / D) + B * L / (3 * D) + np.array([0.3, 0.2])
    np.testing.assert_allclose(model.reward_bonus, expected)


def test_noise_enters_as_errors_of_counts_and_of_rewards():
    """Visits and single moves have the same variance, so a count of visits is one cell."""
    noisy = bonuses(error_scale=0.5).model(PROBLEM, release(width=2.0, noise=5.0))
    D, F = 40 + 0.5 * 2.0, 40 + 0.5 * 2.0 * 2
    assert noisy.transitions[0, 0] == pytest.approx(30 / F)
    variance = 4.0**2 * 5.0
    reward_error = 0.5 * (math.sqrt(2 * variance * L) + math.sqrt(variance / 2) * L)
    statistical = 4 * 3 ** (1 / 1.5) * (L / D) ** (1 / 3)
    assert noisy.reward_bonus[0] == pytest.approx((2 * 2.0 * 1.0 + reward_error) / D + statistical)
    assert noisy.transition_bonus[0] == pytest.approx(math.sqrt(2 * L / F) + (2 * 2.0 + 2.0) / F)
    assert bonuses(error_scale=0.5).model(PROBLEM, release()).transition_bonus[0] < noisy.transition_bonus[0]


def test_visits_that_sum_noisy_cells_have_a_wider_error():
    seen = release(width=1.0, noise=2.0)
    three = seen["visits"]._replace(variance=3 * seen["visits"].variance)
    wider = replace(seen, statistics={**seen.statistics, "visits": three})
    one, many = (bonuses().model(PROBLEM, each) for each in (seen, wider))
    assert one.rewards[0] == pytest.approx(20 / 41)
    assert many.rewards[0] == pytest.approx(20 / 43)


def test_what_is_paid_and_what_follows_are_clipped_one_by_one():
    """A reward that noise made hugely negative costs tau at most, and cannot hide a value behind it."""
    seen = release()
    bad = seen["rewards"]._replace(values=np.array([[[-1e6], [4.5]]]))
    learner = HeavyUCBVI(bonus_scale=1e-9, error_scale=0.0)
    state = learner.init(PROBLEM, stream(0, 0, COINS))
    after = learner.update(state, replace(seen, statistics={**seen.statistics, "rewards": bad}))
    ahead = 0.75 * after.values[1, 0] + 0.25 * after.values[1, 1]
    assert after.values[0, 0] == pytest.approx(-2.0 + ahead)
    good = replace(seen, statistics={**seen.statistics, "rewards": bad._replace(values=-bad.values)})
    values = learner.update(state, good).values
    assert values[0, 0] == pytest.approx(2.0 + 0.75 * values[1, 0] + 0.25 * values[1, 1])


def test_all_functions_at_once_cost_more_than_one():
    one, every = (bonuses(uniform=u).model(PROBLEM, release()) for u in (False, True))
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


@pytest.mark.slow
@pytest.mark.parametrize(("rewards", "alpha"), [("stable", 1.8), ("pareto", 1.7)])
def test_value_iteration_does_not_lock_in(rewards, alpha):
    """No run pays for half of what uniform play costs; with a tenth of the bonus some never find the good arm."""
    world = discreet.worlds.river_swim(4, 6, rewards=rewards, alpha=alpha)
    uniform = 3000 * world.gap(uniform_policy(world.shape))
    for scale, locks_in in ((HeavyUCBVI().bonus_scale, False), (0.01, True)):
        result = discreet.simulate(world, HeavyUCBVI(scale), discreet.NoPrivacy(), episodes=3000, runs=10, seed=97)
        assert (result.regret[:, -1].max() > 0.5 * uniform) == locks_in


def test_knobs_are_checked():
    for make in (HeavyUCBVI, HeavyUCBPO):
        with pytest.raises(InvalidInput, match="threshold"):
            make(threshold=-1)
        with pytest.raises(InvalidInput, match="bonus_scale"):
            make(bonus_scale=0)
        with pytest.raises(InvalidInput, match="error_scale"):
            make(error_scale=-1)

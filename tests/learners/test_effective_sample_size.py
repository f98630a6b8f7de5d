"""Answers count as several visits for those who explore by heuristics, and as they are for those with bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.policies import uniform_policy
from discreet.base.streams import COINS, NOISE, USERS, generator, stream
from discreet.learners import OBI, PSRL, UCBPO, UCBVI
from discreet.learners.base import Problem, as_statistics
from discreet.learners.effective_sample_size import BELIEVED, believed
from discreet.learners.saved_learners import load_state, save_state
from discreet.learners.ucbvi import recommended
from discreet.mechanisms.release import Estimate, Request
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.recipes.registry import build
from discreet.simulation.users import TabularUsers

WORLD = discreet.worlds.random_mdp(states=4, actions=3, horizon=5, instance=1)
PROBLEM = Problem(WORLD.shape, 400)


def released(recipe="local/asked-first-visit"):
    """One release about 400 users who try everything."""
    privatizer = build(discreet.Local(4.0, recipe=recipe), WORLD.shape, 400)
    users = TabularUsers(WORLD, stream(2, 0, USERS), generator(2, 0, COINS))
    session = privatizer.open(users, SimulatedNoise(generator(2, 0, NOISE)), 400)
    return session.answer(Request(uniform_policy(WORLD.shape), users=400))


ANSWERS = released()
VISITS = replace(ANSWERS, answers=False)  # the same numbers, said to be visits


def test_answers_count_as_several_visits_and_their_noise_with_them():
    assert ANSWERS.answers
    assert BELIEVED > 1
    seen = believed(ANSWERS)
    assert not seen.answers
    assert seen.statistics.keys() == ANSWERS.statistics.keys()
    for name, (values, variance) in ANSWERS.statistics.items():
        np.testing.assert_array_equal(seen[name].values, BELIEVED * values)
        np.testing.assert_array_equal(seen[name].variance, BELIEVED**2 * variance)
    assert (seen.users, seen.guarantee, seen.mixing) == (ANSWERS.users, ANSWERS.guarantee, ANSWERS.mixing)
    plain, scaled = as_statistics(ANSWERS), as_statistics(seen)
    for part, again in zip(plain, scaled, strict=True):
        np.testing.assert_allclose(again, BELIEVED * part)  # deviations, too: signal to noise stays what it was


def test_nothing_is_believed_twice_and_the_release_stays_as_it_is():
    before = {name: estimate.values.copy() for name, estimate in ANSWERS.statistics.items()}
    once = believed(ANSWERS)
    assert believed(once) is once
    for name, values in before.items():
        np.testing.assert_array_equal(ANSWERS[name].values, values)


@pytest.mark.parametrize("recipe", ["local/sampled-step", "local/three-tables-laplace"])
def test_other_releases_are_left_alone(recipe):
    release = released(recipe)
    assert not release.answers
    assert believed(release) is release


def planned(learner, release):
    """What a learner wants next, and what it recommends, after one release."""
    state = learner.update(learner.init(PROBLEM, stream(1, 0, COINS)), release)
    plan = state.log_weights if hasattr(state, "log_weights") else state.values
    return plan, learner.recommend(state)


@pytest.mark.parametrize("learner", [UCBVI(), PSRL(), UCBPO()], ids=lambda learner: learner.name)
def test_those_who_explore_by_heuristics_believe_answers(learner):
    by_answers, by_visits, by_hand = (planned(learner, one) for one in (ANSWERS, VISITS, believed(ANSWERS)))
    np.testing.assert_array_equal(by_answers[0], by_hand[0])
    assert not np.allclose(by_answers[0], by_visits[0])


def test_optimism_is_smaller_for_it():
    """A bonus of four visits is about half as wide as that of one."""
    optimistic = [planned(UCBVI(), release)[0][0].mean() for release in (ANSWERS, VISITS)]
    certain = planned(UCBVI(reward_scale=0.0, spread_scale=0.0, range_scale=0.0, noise_scale=0.0), VISITS)[0][0].mean()
    assert certain < optimistic[0] < optimistic[1]


def test_those_with_bounds_of_their_own_count_answers_as_they_are():
    by_answers, by_visits, by_hand = (planned(OBI(), one) for one in (ANSWERS, VISITS, believed(ANSWERS)))
    np.testing.assert_array_equal(by_answers[0], by_visits[0])
    assert by_answers[1] == by_visits[1]
    assert not np.allclose(by_answers[0], by_hand[0])


@pytest.mark.parametrize("learner", [UCBVI(), PSRL(), UCBPO(), OBI()], ids=lambda learner: learner.name)
def test_a_learner_that_is_saved_goes_on_with_the_same_belief(learner):
    state = learner.update(learner.init(PROBLEM, stream(1, 0, COINS)), ANSWERS)
    again = load_state(learner, PROBLEM, ANSWERS, save_state(learner, state))
    assert again.policy == state.policy
    for name, estimate in state.release.statistics.items():
        np.testing.assert_array_equal(again.release[name].values, estimate.values)
    later = [learner.update(one, ANSWERS).policy for one in (state, again)]
    assert later[0] == later[1]
    assert learner.recommend(state) == learner.recommend(again)


def test_what_is_recommended_believes_answers_too():
    """A decoded count of 0.4: as visits the row is unseen, as answers, which count four times, it is known."""
    release, shape = released(), WORLD.shape
    quiet = {name: replace_values(estimate, 0.0, 0.2) for name, estimate in release.statistics.items()}
    for name in ("visits", "rewards"):
        quiet[name].values[0, :, 1] = 0.4
    one = replace(release, statistics=quiet)
    problem, coins = Problem(shape, 100), stream(3, 0, COINS)
    chosen = recommended(problem, coins, one).actions
    np.testing.assert_array_equal(chosen, recommended(problem, coins, believed(one)).actions)
    assert (chosen[-1] == 1).all()
    assert (recommended(problem, coins, replace(one, answers=False)).actions[-1] != 1).any()


def replace_values(estimate, value, deviation):
    return Estimate(np.full_like(estimate.values, value), np.full_like(estimate.variance, deviation**2))

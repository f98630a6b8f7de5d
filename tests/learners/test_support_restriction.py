"""A plan that is recommended does not count on arriving in states that nobody was seen in."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.streams import COINS, stream
from discreet.learners import OBI, PSRL, UCBPO, UCBVI, HeavyUCBPO, HeavyUCBVI, base, support_restriction
from discreet.learners.base import Problem, as_statistics
from discreet.learners.support_restriction import in_seen_states
from discreet.mechanisms.release import Estimate, Release, Statistics
from discreet.problems.heavy_tails import learners as heavy_tails
from discreet.recipes.registry import build
from discreet.simulation import episode_loop

S, A, H = 6, 2, 8
SHAPE = discreet.Shape(S, A, H, homogeneous=True, start=0)


def noisy_statistics(seed: int) -> Statistics:
    """Visits of about three deviations of their noise, so that some states stand out and some do not."""
    rng = np.random.default_rng(seed)
    noise = rng.uniform(1, 9, size=S * A)
    return Statistics(
        rng.normal(3 / math.sqrt(2), 1, size=S * A) * noise, rng.normal(5, 5, size=(S, S * A)), rng.random(S * A),
        noise, noise, noise,
    )  # fmt: skip


def by_hand(statistics: Statistics, deviations: float) -> np.ndarray:
    arrivals = np.array(statistics.transitions)
    for state in range(S):
        rows = range(state * A, (state + 1) * A)
        visits = sum(statistics.visits[row] for row in rows)
        if visits < deviations * math.sqrt(sum(statistics.visit_noise[row] ** 2 for row in rows)):
            arrivals[state] = 0.0
    return arrivals


def test_arrivals_count_where_visits_stand_out_by_three_deviations():
    apart = 0
    for seed in range(20):
        before = noisy_statistics(seed)
        kept = np.array(before.transitions)
        found = in_seen_states(SHAPE, before)
        np.testing.assert_array_equal(found.transitions, by_hand(before, 3.0))
        np.testing.assert_array_equal(before.transitions, kept)  # a run may go on with what it had
        assert all(a is b for a, b in zip(found._replace(transitions=0), before._replace(transitions=0), strict=True))
        apart += not np.array_equal(found.transitions, by_hand(before, 2.5))  # the twin
    assert apart


@pytest.mark.parametrize("what", ["no noise", "laws per step", "one step"])
def test_nothing_is_left_out(what):
    statistics, shape = noisy_statistics(0), SHAPE
    if what == "no noise":
        clear = np.zeros(S * A)
        statistics = statistics._replace(visit_noise=clear, transition_noise=clear, reward_noise=clear)
    elif what == "laws per step":
        shape = replace(SHAPE, homogeneous=False)
    else:
        shape = replace(SHAPE, horizon=1)
    assert in_seen_states(shape, statistics) is statistics


def invented() -> Release:
    """Everybody goes from 0 to 1 and earns .8 there by staying; noise lets 1 lead to 2 and to 3, where nobody is.

    Staying in 0 is worth .5 a step and is known well.
    """
    visits = np.array([[1e5, 1e5], [4000.0, 0.0], [10.0, -90.0], [-60.0, 80.0]])
    rewards = np.array([[0.0, 0.5], [0.8, 0.0], [0.1, 0.1], [0.0, 0.1]]) * np.maximum(visits, 0)
    transitions = np.zeros((4, A, 4))
    transitions[0, 0, 1] = transitions[0, 1, 0] = 1e5
    transitions[1, 0] = [0.0, 4000.0, 700.0, 650.0]
    variance = np.full((1, 4, A), 300.0**2)
    variance[0, 0] = 1.0
    shape = discreet.Shape(4, A, H, homogeneous=True, start=0)
    return Release(
        {
            "visits": Estimate(visits[None], variance),
            "transitions": Estimate(transitions[None], variance),
            "rewards": Estimate(rewards[None], variance),
        },
        20_000, build(discreet.NoPrivacy(), shape, 20_000).guarantee, lambda n, p: np.zeros((1, 4, A)),
    )  # fmt: skip


def first_action(learner) -> int:
    release = invented()
    problem = Problem(discreet.Shape(4, A, H, homogeneous=True, start=0), 20_000)
    state = learner.update(learner.init(problem, stream(0, 0, COINS)), release)
    return int(learner.recommend(state).actions[0, 0])


LEARNERS = [UCBVI(), UCBPO(), PSRL(), OBI(), HeavyUCBVI(), HeavyUCBPO()]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_invented_successors_do_not_frighten(learner, monkeypatch):
    assert first_action(learner) == 0
    for module in (base, heavy_tails):
        monkeypatch.setattr(module, "in_seen_states", lambda _shape, statistics: statistics)
    assert first_action(learner) == 1  # the twin: the way that everybody goes looks worse than staying at home


def test_a_new_plan_after_every_user_is_recommended_in_the_same_way(monkeypatch):
    asked = []

    def spy(shape, statistics):
        asked.append(statistics.visit_noise.any())
        return support_restriction.in_seen_states(shape, statistics)

    monkeypatch.setattr(episode_loop, "in_seen_states", spy)
    world = discreet.worlds.river_swim(states=4, horizon=6)
    privatizer = build(discreet.Central(1.0, recipe="central/three-tables-laplace-tree"), world.shape, 50)
    episode_loop.run_episodes(world, UCBVI(), privatizer, 50, 1, 0, lambda _users: None)
    assert asked == [True]


def test_what_is_recommended_by_a_release_is_that_of_its_statistics():
    release = invented()
    found = in_seen_states(discreet.Shape(4, A, H, homogeneous=True), as_statistics(release)).transitions
    assert found[2:].sum() == 0
    np.testing.assert_array_equal(found[:2], as_statistics(release).transitions[:2])

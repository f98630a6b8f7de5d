"""The hard instance of local privacy: its values by hand, its lower bound, and no learner below it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.policies import Policy, uniform_policy
from discreet.learners import OBI
from discreet.worlds.catalogue import hard_local, hard_local_bound, hard_local_gap


@pytest.mark.parametrize(
    ("states", "actions", "levels", "leaves"), [(5, 2, 2, 2), (9, 2, 3, 4), (6, 3, 2, 3), (3, 2, 1, 1)]
)
def test_values_by_hand(states, actions, levels, leaves):
    horizon, epsilon, episodes = levels + 4, 0.3, 10**6
    world = hard_local(states, actions, horizon, epsilon, episodes, instance=3)
    gap = math.sqrt(leaves * actions / episodes) / (16 * math.sqrt(2) * math.expm1(epsilon))
    assert hard_local_gap(states, actions, epsilon, episodes) == pytest.approx(gap)
    assert world.optimal_value == pytest.approx((horizon - levels) * (0.5 + gap))
    # A policy misses the lucky pair or plays it: there is nothing in between.
    values = {round(world.value(Policy(np.full((horizon, states), a, np.int64))), 12) for a in range(actions)}
    assert values <= {round((horizon - levels) * 0.5, 12), round((horizon - levels) * (0.5 + gap), 12)}


@pytest.mark.parametrize("states", [4, 6, 7, 8])
def test_incomplete_trees_have_leaves_at_one_depth(states):
    world = hard_local(states, 2, 8, 1.0, 10**6, instance=0)
    gap = hard_local_gap(states, 2, 1.0, 10**6)
    fair = world.optimal_value / (0.5 + gap) * 0.5
    for seed in range(20):
        actions = np.random.default_rng(seed).integers(0, 2, size=(8, states))
        value = world.value(Policy(actions))
        assert value == pytest.approx(fair) or value == pytest.approx(world.optimal_value)


def test_the_lucky_pair_depends_on_the_instance():
    worlds = [hard_local(instance=seed) for seed in range(20)]
    assert len({world.transitions.tobytes() for world in worlds}) == 4


def test_the_bound_grows_with_the_root_of_users_and_the_price_of_privacy():
    bound = hard_local_bound(5, 2, 6, 0.1, np.array([10_000, 40_000]))
    assert bound[1] == pytest.approx(2 * bound[0])
    assert bound[0] == pytest.approx(4 * math.sqrt(10_000 * 4) / (64 * math.sqrt(2) * math.expm1(0.1)))
    assert hard_local_bound(5, 2, 6, 5.0, 10_000) == pytest.approx(4 * 200 / (64 * math.sqrt(2) * 0.5))
    assert hard_local_bound(5, 2, 6, 0.1, 1) == 0


@pytest.mark.slow
def test_a_learner_stays_above_the_bound():
    """Mean regret over lucky pairs: the bound is for the worst of them, and this learner is far above it."""
    episodes = 20_000
    family = hard_local(episodes=episodes)
    result = discreet.simulate(family, OBI(), discreet.Local(1.0), episodes=episodes, runs=8, seed=1)
    bound = hard_local_bound(5, 2, 6, 1.0, episodes)
    assert result.total_regret.mean() > bound
    assert result.total_regret.max() <= episodes * 4 * hard_local_gap(5, 2, 1.0, episodes) * (1 + 1e-9)
    assert family.instance(0).gap(uniform_policy(family.shape)) > 0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"horizon": 2}, "at least 3"),
        ({"states": 2}, "at least 3"),
        ({"actions": 1}, "at least 2"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 0.001, "episodes": 100}, "raise episodes"),
    ],
)
def test_refusals(options, match):
    with pytest.raises(InvalidInput, match=match):
        hard_local(**options)

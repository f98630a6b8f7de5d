"""Worlds in which transitions matter: who ignores them loses there, and arms that change do so when they say."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.policies import Policy, uniform_policy
from discreet.problems.adversarial.layers import Layers
from discreet.worlds.registry import make_world


def share_of_greedy(world):
    """The regret of the cheapest action of every state, as a share of uniform play's."""
    losses = np.array(world.losses(1)[0])
    best, _ = world.best_fixed(losses)
    actions = np.zeros((world.shape.horizon, world.shape.states), np.int64)
    first = world.layers.arrays.first
    for h in range(world.layers.horizon):
        actions[h, : world.layers.sizes[h]] = losses[first[h] : first[h + 1]].argmin(axis=1)

    def regret(policy):
        return float((world.occupancy(policy) * losses).sum()) - best

    uniform = regret(uniform_policy(world.shape))
    assert uniform > 0.1  # otherwise there is nothing to learn
    return regret(Policy(actions)) / uniform


def test_greedy_play_learns_nothing_where_transitions_matter():
    matter = [*(discreet.worlds.kinds(wide, instance=seed) for wide in (False, True) for seed in range(3))]
    assert np.mean([share_of_greedy(world) for world in matter]) > 0.8
    assert share_of_greedy(discreet.worlds.river_layers()) > 0.8
    bandits = [discreet.worlds.layered(adversary="fixed", instance=seed) for seed in range(5)]
    assert np.mean([share_of_greedy(world) for world in bandits]) < 0.2


def test_arms_change_once_and_when_they_say():
    world = discreet.worlds.changing_arms(arms=4, gap=0.5, after=0.3)
    losses = world.losses(10)
    assert (losses[:3, 0] == [0.0, 0.5, 0.5, 0.5]).all()
    assert (losses[3:, 0] == [0.5, 0.0, 0.5, 0.5]).all()
    with pytest.raises(InvalidInput, match="gap"):
        discreet.worlds.changing_arms(gap=1.5)


def test_names_of_the_command_line_make_them():
    assert make_world("kinds", wide="true", instance="1").shape.sizes == (1, 8, 8, 8, 1)
    assert make_world("long-layers").shape.sizes == (1, *[3] * 19, 1)
    assert make_world("wide-layers").shape.actions == 5
    assert make_world("river-layers", states="4", horizon="5").layers == Layers((1, 4, 4, 4, 4, 1), 2)
    narrow = make_world("kinds", instance=3)
    assert (narrow.transitions == discreet.worlds.kinds(instance=3).transitions).all()

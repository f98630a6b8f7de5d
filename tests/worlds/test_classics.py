"""Arms, chain, deep sea and random layers: optimal values by plain recursions over what the docstrings say."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.base.policies import Policy, uniform_policy
from discreet.simulation.simulate import simulate
from discreet.worlds import TabularWorld, WorldFamily, bernoulli_arms, chain, deep_sea, make_world, random_layers


def test_arms_are_the_given_ones():
    world = bernoulli_arms()
    assert world.optimal_value == 0.75
    assert world.gap(uniform_policy(world.shape)) == pytest.approx(0.25, abs=1e-15)
    for means in ("0.9, 0.8,0.8", (0.9, 0.8, 0.8)):
        np.testing.assert_array_equal(bernoulli_arms(means).means, [[[0.9, 0.8, 0.8]]])
    assert make_world("bernoulli-arms", means="0.1,0.2").shape.actions == 2


@pytest.mark.parametrize(
    ("states", "horizon", "slip", "small"), [(6, 20, 0.2, 0.2), (5, 7, 0.0, 0.3), (2, 3, 0.4, 0.9)]
)
def test_chain_by_recursion(states, horizon, slip, small):
    @cache
    def best(s: int, left: int) -> float:
        if left == 0:
            return 0.0
        on = (s == states - 1) + best(min(s + 1, states - 1), left - 1)
        back = small + best(0, left - 1)
        return max((1 - slip) * on + slip * back, slip * on + (1 - slip) * back)

    assert chain(states, horizon, slip, small).optimal_value == pytest.approx(best(0, horizon), rel=1e-12)


def test_a_chain_without_slips_pays_what_one_counts():
    world = chain(states=5, horizon=7, slip=0.0, small=0.2)
    assert world.value(Policy(np.zeros((7, 5), dtype=np.int64))) == pytest.approx(3.0)  # four steps to the end
    assert world.value(Policy(np.ones((7, 5), dtype=np.int64))) == pytest.approx(1.4)


@pytest.mark.parametrize("mapping", [None, 3])
@pytest.mark.parametrize("size", [2, 5, 6, 8])
def test_deep_sea_pays_one_sequence_only(size, mapping):
    world = deep_sea(size, mapping)
    assert (world.shape.states, world.shape.actions, world.shape.horizon) == (size * size + 1, 2, size)
    assert world.optimal_value == 1.0
    assert world.value(uniform_policy(world.shape)) == pytest.approx(2.0**-size, rel=1e-12)
    _, best = world.optimal()
    actions = np.array(best.actions)
    for row in range(size):  # any other action on the way down costs everything
        wrong = actions.copy()
        wrong[row, row * size + row] = 1 - wrong[row, row * size + row]
        assert world.value(Policy(wrong)) == 0.0


def test_deep_sea_goes_down_and_sideways():
    world, size = deep_sea(5), 5
    for s in range(size * size):
        row, column = divmod(s, size)
        for action, to in ((0, max(column - 1, 0)), (1, min(column + 1, size - 1))):
            expected = (row + 1) * size + to if row < size - 1 else size * size
            assert world.transitions[0, s, action, expected] == 1.0
    assert (world.transitions[0, size * size, :, size * size] == 1.0).all()


def test_deep_sea_mappings_differ_by_seed_and_default_is_right():
    always_right = Policy(np.ones((5, 26), dtype=np.int64))
    assert deep_sea(5).value(always_right) == 1.0
    tables = [deep_sea(5, seed).transitions for seed in range(3)]
    assert (tables[0] != tables[1]).any()
    assert (tables[0] == deep_sea(5, 0).transitions).all()
    assert deep_sea(5, 1).value(always_right) == 0.0


def test_random_layers_by_recursion():
    width, layers, actions, slip = 5, 4, 2, 0.1
    family = random_layers(width, layers, actions, slip)
    assert isinstance(family, WorldFamily)
    for seed in range(4):
        world = family.instance(seed)
        assert world.shape == family.shape
        means = world.means[0, -width:, 0]
        assert sorted(means) == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])
        assert (world.means[0, :-width] == 0).all()
        value = means.copy()  # of the last layer
        for layer in range(layers - 1, -1, -1):
            states = [0] if layer == 0 else range(1 + (layer - 1) * width, 1 + layer * width)
            following = np.arange(1 + layer * width, 1 + (layer + 1) * width)
            rows = world.transitions[0, states][:, :, following]
            aims = rows.argmax(axis=2)
            assert all(len(set(row)) == actions for row in aims)  # every action has an aim of its own
            assert np.isclose(rows.sum(axis=2), 1).all()
            value = ((1 - slip) * value[aims] + slip * value.mean()).max(axis=1)
        assert world.optimal_value == pytest.approx(value[0], rel=1e-12)


def test_random_layers_are_reproducible_and_differ():
    a, b, c = random_layers(instance=7), random_layers().instance(7), random_layers(instance=8)
    assert isinstance(a, TabularWorld)
    assert (a.transitions == b.transitions).all()
    assert (a.means == b.means).all()
    assert (a.transitions != c.transitions).any()


@pytest.mark.parametrize("name", ["bernoulli-arms", "chain", "deep-sea", "random-layers"])
def test_they_can_be_simulated_by_name(name):
    assert simulate(make_world(name), "ucbvi", episodes=50, seed=1).regret[0, -1] > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bernoulli_arms("0.5;0.4"), "means must be numbers with commas"),
        (lambda: bernoulli_arms([[0.5], [0.4]]), r"means must be a list of numbers, got shape \(2, 1\)"),
        (lambda: bernoulli_arms([]), "means must be a list of numbers"),
        (lambda: bernoulli_arms((1.5, 0.5)), "must lie in"),
        (lambda: chain(states=1), "at least 2, got 1"),
        (lambda: chain(slip=1.5), "slip must lie between 0 and 1, got 1.5"),
        (lambda: chain(small=-0.1), "small"),
        (lambda: deep_sea(size=1), "at least 2"),
        (lambda: deep_sea(mapping=-1), "mapping"),
        (lambda: random_layers(actions=6), "must not outnumber the states of a layer, 5, got 6"),
        (lambda: random_layers(layers=0), "layers"),
    ],
)
def test_bad_inputs_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()

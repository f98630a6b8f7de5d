"""Layered worlds: exact values against enumeration, adversaries that are fixed beforehand, unrolled tabular worlds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.policies import Mixture, Policy, StochasticPolicy, uniform_policy
from discreet.base.shape import layered_shape
from discreet.problems.adversarial.layers import Layers
from discreet.problems.adversarial.world import (
    Drifting,
    FixedLosses,
    LayeredWorld,
    RandomLosses,
    Recorded,
    Switching,
    layered,
    unroll,
    with_adversary,
)

LAYERS = Layers((1, 2, 2, 1), 2)


def small(adversary: str = "fixed") -> LayeredWorld:
    return layered((1, 2, 2, 1), 2, adversary, instance=3)


def every_policy(shape):
    for choice in product(range(shape.actions), repeat=shape.horizon * shape.states):
        yield Policy(np.array(choice).reshape(shape.horizon, shape.states))


def test_the_shape_is_an_ordinary_one_with_a_group_per_step_and_says_which_entries_exist():
    shape = layered_shape((1, 2, 3, 1), 2)
    assert (shape.states, shape.horizon, shape.groups, shape.start) == (3, 3, 3, 0)
    assert shape.pairs == shape.pair_mask.sum() == 12
    assert shape.unknown == shape.triple_mask.sum() == 4 + 12
    layers = Layers(shape.sizes, shape.actions)
    assert (shape.pairs, shape.unknown) == (layers.pairs, layers.unknown)


def test_states_and_horizon_cap_the_layers():
    shape = layered_shape((1, 4, 3, 1), 3)
    cut = replace(shape, horizon=2, states=2, actions=2)
    assert (cut.sizes, cut.states, cut.horizon, cut.actions) == ((1, 2, 1), 2, 2, 2)
    assert replace(shape, horizon=1).sizes == (1, 1)


@pytest.mark.parametrize("sizes", [(1,), (2, 1), (1, 2), (1, 0, 1)])
def test_layers_must_begin_and_end_in_one_state(sizes):
    with pytest.raises(InvalidInput):
        layered_shape(sizes, 2)


def test_a_layered_problem_is_not_homogeneous():
    with pytest.raises(InvalidInput, match="law per step"):
        replace(layered_shape((1, 2, 1), 2), homogeneous=True)
    with pytest.raises(InvalidInput, match="homogeneous"):
        small().with_time(homogeneous=True)
    assert layered().with_time(homogeneous=False).shape == layered().shape


def test_the_best_fixed_policy_is_the_best_of_all():
    world = small()
    losses = world.losses(5).sum(axis=0)
    values = [float((world.occupancy(policy) * losses).sum()) for policy in every_policy(world.shape)]
    best, policy = world.best_fixed(losses)
    assert best == pytest.approx(min(values), abs=1e-12)
    assert float((world.occupancy(policy) * losses).sum()) == pytest.approx(best, abs=1e-12)


def test_occupancies_sum_to_one_in_every_layer_and_mixtures_average_them():
    world = small()
    first, second = Policy(np.zeros((3, 2), np.int64)), Policy(np.ones((3, 2), np.int64))
    mixed = world.occupancy(Mixture((first, second), np.array([0.25, 0.75])))
    np.testing.assert_allclose(mixed, 0.25 * world.occupancy(first) + 0.75 * world.occupancy(second))
    for q in (mixed, world.occupancy(uniform_policy(world.shape))):
        np.testing.assert_allclose([q[:1].sum(), q[1:3].sum(), q[3:].sum()], 1.0)


def test_policies_for_other_sizes_are_refused():
    with pytest.raises(InvalidInput, match="largest layer"):
        small().occupancy(StochasticPolicy(np.full((3, 3, 2), 0.5)))


def test_effective_support_of_certain_and_of_even_rows():
    certain = np.tile([1.0, 0.0], 2)  # the two actions of the only state before two successors
    known = LayeredWorld(
        "known", Layers((1, 2, 1), 2), np.concatenate([certain, np.ones(4)]), FixedLosses(np.zeros((3, 2)))
    )
    assert known.effective_support().total == 0
    even = LayeredWorld("even", Layers((1, 2, 1), 2), np.concatenate([np.full(4, 0.5), np.ones(4)]), known.adversary)
    support = even.effective_support()
    np.testing.assert_allclose(support.pairs[0], 1.0)  # (2 * 1/2)^2
    assert support.total == pytest.approx(np.sqrt(2))


def test_effective_support_obeys_the_papers_bounds():
    world = layered(instance=1)
    support = world.effective_support()
    following = np.repeat(world.layers.sizes[1:], world.layers.sizes[:-1])
    assert (support.pairs <= following[:, None] - 1 + 1e-12).all()
    assert support.total <= world.layers.states * np.sqrt(world.layers.actions)


def test_adversaries_keep_to_their_pattern():
    b, c = np.random.default_rng(0).random((2, 5, 2))
    assert (FixedLosses(b).tables(LAYERS, 7) == b).all()
    switching = Switching(b, c).tables(LAYERS, 8)
    np.testing.assert_array_equal(switching, np.stack([b, b, c, c, b, b, c, c]))
    drifting = Drifting(b, c).tables(LAYERS, 1000)
    assert drifting.min() >= 0
    assert drifting.max() <= 1
    # 3.3 periods: what is left of the wave is small beside the spread of the means.
    assert np.corrcoef(drifting.mean(axis=0).ravel(), b.ravel())[0, 1] > 0.95
    random = RandomLosses(b, seed=4).tables(LAYERS, 4000)
    assert set(np.unique(random)) == {0.0, 1.0}
    # 10 means of 4000 draws, 5 standard errors: false alarm below 1e-5.
    assert (np.abs(random.mean(axis=0) - b) < 5 * 0.5 / np.sqrt(4000)).all()
    np.testing.assert_array_equal(random, RandomLosses(b, seed=4).tables(LAYERS, 4000))
    np.testing.assert_array_equal(Recorded(switching).tables(LAYERS, 3), switching[:3])


def test_adversaries_refuse_what_is_not_a_loss_and_what_they_do_not_have():
    with pytest.raises(InvalidInput, match=r"\[0, 1\]"):
        FixedLosses(np.full((5, 2), 1.5)).tables(LAYERS, 1)
    with pytest.raises(InvalidInput, match="last 2 episodes"):
        Recorded(np.zeros((2, 5, 2))).tables(LAYERS, 3)
    with pytest.raises(InvalidInput, match="switching"):
        layered(adversary="swiching")
    with pytest.raises(InvalidInput, match="commas"):
        layered("1;4;1")


def test_a_family_gives_one_world_per_seed():
    family = layered("1,2,1")
    assert family.shape.sizes == (1, 2, 1)
    first, again, other = family.instance(1), family.instance(1), family.instance(2)
    np.testing.assert_array_equal(first.transitions, again.transitions)
    assert not np.array_equal(first.transitions, other.transitions)
    assert (first.transitions[:6] >= 0.15 / 2).all()


def test_transitions_must_be_probabilities():
    with pytest.raises(InvalidInput, match="state 0, action 1"):
        LayeredWorld("bad", Layers((1, 2, 1), 2), [0.5, 0.5, 0.9, 0.9, 1, 1, 1, 1], FixedLosses(np.zeros((3, 2))))


@pytest.mark.parametrize("start", ["certain", "random"])
@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_an_unrolled_world_is_worth_the_same(start, horizon):
    rng = np.random.default_rng(horizon)
    P, r = rng.dirichlet(np.ones(3), size=(horizon, 3, 2)), rng.uniform(-1, 3, size=(horizon, 3, 2))
    world = discreet.worlds.from_arrays(
        P, r, start=2 if start == "certain" else [0.2, 0.5, 0.3], reward_range=(-1, 3), reward_law="deterministic"
    )
    unrolled = unroll(world)
    assert unrolled.layers.horizon == horizon + (start == "random")
    best, _ = unrolled.best_fixed(unrolled.losses(1)[0])
    # Each of the H steps loses (3 - reward) / 4.
    assert best == pytest.approx((3 * horizon - world.optimal_value) / 4, abs=1e-12)
    switched = with_adversary(unrolled, Switching(*np.zeros((2, unrolled.layers.states, 2))))
    assert switched.best_fixed(switched.losses(4).sum(axis=0))[0] == 0

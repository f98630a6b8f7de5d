"""Tabular worlds: exact values, mixtures, time, the public shape, and every bad input."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Mixture, Policy, uniform_policy
from discreet.worlds import TabularWorld, from_arrays, river_swim
from discreet.worlds.rewards import Bernoulli, Deterministic, Finite, OnTransition, cumulative

P = np.array([[[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.3, 0.7]]]])
R = np.array([[[0.0, 0.2], [1.0, 0.4]]])
START = np.array([0.25, 0.75])


def tiny(**changes):
    fields = {
        "name": "tiny",
        "transitions": P,
        "rewards": Bernoulli(R),
        "start": START,
        "horizon": 3,
    }
    return TabularWorld(**(fields | changes))


def all_policies(world):
    for choice in product(range(2), repeat=world.horizon * 2):
        yield Policy(np.array(choice).reshape(world.horizon, 2))


@pytest.mark.parametrize("homogeneous", [True, False])
def test_the_optimum_is_the_best_of_all_policies(homogeneous):
    world = tiny().with_time(homogeneous)
    values, policy = world.optimal()
    worth = [world.value(candidate) for candidate in all_policies(world)]
    assert world.optimal_value == pytest.approx(max(worth), rel=1e-14)
    assert world.value(policy) == pytest.approx(max(worth), rel=1e-14)
    assert START @ values[0] == world.optimal_value
    assert world.gap(policy) == 0
    assert min(world.gap(candidate) for candidate in all_policies(world)) == 0
    assert max(world.gap(candidate) for candidate in all_policies(world)) == pytest.approx(max(worth) - min(worth))
    assert values.shape == (4, 2)


def test_the_uniform_policy_is_the_mean_of_all_deterministic_ones():
    world = tiny()
    candidates = tuple(all_policies(world))
    mixture = Mixture(candidates, np.full(len(candidates), 1 / len(candidates)))
    worth = np.mean([world.value(candidate) for candidate in candidates])
    assert world.value(mixture) == pytest.approx(worth, rel=1e-12)
    assert world.value(uniform_policy(world.shape)) == pytest.approx(worth, rel=1e-12)


def test_mixtures_are_worth_their_weighted_mean():
    world = tiny()
    a, b = Policy([[0, 0]] * 3), Policy([[1, 1]] * 3)
    expected = 0.2 * world.value(a) + 0.8 * world.value(b)
    assert world.value(Mixture((a, b), [0.2, 0.8])) == pytest.approx(expected, rel=1e-14)
    assert world.gap(Mixture((a, b), [0.2, 0.8])) == pytest.approx(world.optimal_value - expected, rel=1e-14)


def test_two_steps_by_hand():
    # Start 0 and go with action 1 to state 1 for 0.2; there action 0 pays 1.
    world = tiny(start=np.array([1.0, 0.0]), horizon=2)
    assert world.value(Policy([[1, 0], [1, 0]])) == pytest.approx(1.2, rel=1e-15)


def test_equal_means_give_equal_values_whatever_the_law():
    rewards = OnTransition(np.broadcast_to(R[..., None], (1, 2, 2, 2)))
    chances = cumulative(np.stack([1 - R, R], axis=-1))
    policy = uniform_policy(tiny().shape)
    for law in (Deterministic(R), rewards, Finite(np.array([0.0, 1.0]), chances)):
        assert tiny(rewards=law).value(policy) == pytest.approx(tiny().value(policy), rel=1e-14)


def test_the_shape_publishes_the_start_only_if_it_is_certain():
    assert tiny().shape.start is None
    shape = tiny(start=np.array([0.0, 1.0]), reward_range=(-1, 2)).shape
    assert (shape.start, shape.states, shape.actions, shape.horizon) == (1, 2, 2, 3)
    assert shape.rewards == (-1, 2)
    assert shape.homogeneous
    assert not tiny().with_time(False).shape.homogeneous


@pytest.mark.parametrize(
    "law",
    [
        Bernoulli(R),
        OnTransition(np.arange(8.0).reshape(1, 2, 2, 2) / 8),
        Finite(np.array([0.0, 1.0]), cumulative(np.stack([1 - R, R], axis=-1))),
    ],
    ids=["bernoulli", "on transition", "finite"],
)
def test_time_there_and_back(law):
    world = tiny(rewards=law)
    per_step = world.with_time(False)
    assert per_step.transitions.shape == (3, 2, 2, 2)
    assert per_step.with_time(True).transitions.shape == (1, 2, 2, 2)
    assert per_step.with_time(True).optimal_value == pytest.approx(world.optimal_value, rel=1e-14)
    assert per_step.optimal_value == pytest.approx(world.optimal_value, rel=1e-14)
    assert world.with_time(True) is world


def test_going_back_survives_rows_that_do_not_sum_to_one_exactly():
    rng = np.random.default_rng(0)
    world = from_arrays(rng.dirichlet(np.ones(7), size=(7, 3)), rng.random((7, 3)), horizon=4)
    assert world.with_time(False).with_time(True).homogeneous


@pytest.mark.parametrize("part", ["transitions", "rewards"])
def test_laws_that_change_cannot_be_declared_homogeneous(part):
    tables = {"transitions": np.repeat(P, 3, axis=0), "rewards": np.repeat(R, 3, axis=0)}
    tables[part][2] = tables[part][2, ::-1]
    world = tiny(transitions=tables["transitions"], rewards=Deterministic(tables["rewards"]))
    with pytest.raises(InvalidInput, match="tiny cannot be declared homogeneous"):
        world.with_time(True)


def test_per_step_laws_are_used_at_their_step():
    means = np.zeros((3, 2, 2))
    means[1] = 1.0
    world = tiny(transitions=np.repeat(P, 3, axis=0), rewards=Deterministic(means))
    values, _ = world.optimal()
    assert values[:, 0].tolist() == [1.0, 1.0, 0.0, 0.0]


def test_worlds_cannot_be_changed_through_their_arrays():
    means = np.array(R)
    world = tiny(rewards=Bernoulli(means))
    means[:] = 0
    assert world.means.max() == 1
    for table in (world.transitions, world.start, world.means, world.optimal()[0]):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"horizon": 2.5}, "horizon must be a whole number"),
        ({"transitions": P[0]}, r"shape \(G, S, A, S\)"),
        ({"transitions": np.repeat(P, 2, axis=0)}, "G equal to 1 or the horizon, 3"),
        ({"transitions": P[..., :1]}, r"shape \(G, S, A, S\)"),
        ({"transitions": 0.9 * P}, r"row \(0, 0, 0\) sums to 0.9"),
        ({"transitions": P - [0.1, -0.1]}, "negative"),
        ({"transitions": P * np.nan}, "NaN"),
        ({"transitions": np.empty((1, 0, 2, 0))}, "empty"),
        ({"start": np.array([0.5, 0.6])}, "start must sum to one"),
        ({"start": np.array([1.0])}, r"start must have shape \(2,\)"),
        ({"rewards": Bernoulli(R * np.nan)}, "reward means must hold finite numbers"),
        ({"rewards": Bernoulli(np.repeat(R, 3, axis=0))}, r"reward means must have shape \(1, 2, 2\)"),
        ({"rewards": Deterministic(R + 0.5)}, "from 0.5 to 1.5, outside the declared range"),
        ({"rewards": Deterministic(R - 0.5)}, "from -0.5 to 0.5, outside the declared range"),
        ({"reward_range": (0.0, 0.5)}, "outside the declared range"),
        ({"reward_range": (1.0, 0.0)}, "low < high"),
        ({"reward_range": 1.0}, "pair"),
    ],
)
def test_bad_worlds_are_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        tiny(**changes)


def test_things_that_are_no_reward_law_are_refused():
    with pytest.raises(Unsupported, match="not a reward law"):
        tiny(rewards=R)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Policy([[0, 0]] * 2), "horizon 2 and 2 states"),
        (Policy([[0, 0, 0]] * 3), "horizon 3 and 3 states"),
        (Policy([[0, 2]] * 3), r"actions 0\.\.1"),
        (Policy([[0, 0]] * 3).stochastic(3), r"actions 0\.\.1"),
        (Mixture((Policy([[0, 0]] * 3), Policy([[0, 2]] * 3)), [0.5, 0.5]), r"actions 0\.\.1"),
    ],
)
def test_policies_for_other_worlds_are_refused(policy, message):
    with pytest.raises(InvalidInput, match=message):
        tiny().value(policy)


def test_a_single_step_is_both_homogeneous_and_not():
    world = river_swim(states=3, horizon=1)
    assert world.with_time(False) is world

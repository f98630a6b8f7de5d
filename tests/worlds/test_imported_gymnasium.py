"""Gymnasium worlds, against a finite-horizon solver that reads the environment's own table."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from discreet.base.errors import InvalidInput, MissingExtra, Unsupported
from discreet.base.policies import uniform_policy
from discreet.worlds import cliff_walking, from_gymnasium, frozen_lake, taxi
from discreet.worlds.rewards import Deterministic, FiniteOnTransition, OnTransition, value_range

gymnasium = pytest.importorskip("gymnasium")


def solve(environment, horizon, best=max):
    """The expected return of the best (or, averaging, the uniform) policy: nothing follows a terminated step."""
    table = environment.unwrapped.P
    value = [0.0] * len(table)
    for _ in range(horizon):
        value = [
            best([sum(p * (r + (0.0 if end else value[t])) for p, t, r, end in table[s][a]) for a in table[s]])
            for s in range(len(table))
        ]
    return float(np.dot(environment.unwrapped.initial_state_distrib, value))


CASES = {
    "frozen lake": ("FrozenLake-v1", {}, 25),
    "dry lake": ("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False}, 16),
    "taxi": ("Taxi-v4", {}, 14),
    "rainy taxi": ("Taxi-v4", {"is_rainy": True}, 14),
    "cliff": ("CliffWalking-v1", {}, 15),
    "slippery cliff": ("CliffWalking-v1", {"is_slippery": True}, 15),
}


@pytest.mark.parametrize("name", CASES)
def test_values_agree_with_the_environments_own_table(name):
    identity, options, horizon = CASES[name]
    environment = gymnasium.make(identity, **options)
    world = from_gymnasium(identity, horizon, **options)
    assert world.optimal_value == pytest.approx(solve(environment, horizon), rel=1e-12, abs=1e-12)
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    assert world.value(uniform_policy(world.shape)) == pytest.approx(solve(environment, horizon, mean), rel=1e-12)
    assert from_gymnasium(environment, horizon).optimal_value == world.optimal_value


def test_laws_ranges_and_extra_states():
    lake, cab, cliff, wet = frozen_lake(), taxi(), cliff_walking(), cliff_walking(slippery=True)
    assert [type(world.rewards) for world in (lake, cab, cliff, wet)] == [
        OnTransition,
        Deterministic,
        Deterministic,
        FiniteOnTransition,
    ]
    assert [world.shape.states for world in (lake, cab, cliff, wet)] == [16, 501, 49, 49]
    assert [world.reward_range for world in (lake, cab, cliff, wet)] == [(0, 1), (-10, 20), (-100, 0), (-100, 0)]
    assert [world.shape.start for world in (lake, cab, cliff, wet)] == [0, None, 36, 36]
    assert cliff.optimal_value == -13


def fake(table, start=(1.0, 0.0), **attributes):
    bare = SimpleNamespace(P=table, initial_state_distrib=None if start is None else np.array(start), **attributes)
    bare.unwrapped = bare
    return bare


def test_ends_that_share_a_state_keep_their_rewards_apart():
    # From state 0: end with reward 5, end with reward -1, or stay for 0.
    table = {
        0: {0: [(0.5, 1, 5.0, True), (0.25, 1, -1.0, True), (0.25, 0, 0.0, False)]},
        1: {0: [(1.0, 0, 3.0, False)]},
    }
    world = from_gymnasium(fake(table), 3)
    assert world.shape.states == 3
    once = 0.5 * 5 - 0.25
    assert world.optimal_value == pytest.approx(once * (1 + 0.25 + 0.25**2), rel=1e-14)
    assert value_range(world.rewards, world.transitions) == (-1, 5)


def test_an_end_that_already_absorbs_needs_no_extra_state():
    table = {0: {0: [(1.0, 1, 2.0, True)]}, 1: {0: [(1.0, 1, 0, True)]}}
    world = from_gymnasium(fake(table), 4)
    assert world.shape.states == 2
    assert world.optimal_value == 2


def test_rewards_that_are_all_equal_still_have_a_range():
    for reward, expected in ((2.0, (0, 2)), (-2.0, (-2, 0)), (0.0, (0, 1))):
        table = {s: {0: [(1.0, 1 - s, reward, False)]} for s in range(2)}
        assert from_gymnasium(fake(table), 2).reward_range == expected


def test_a_missing_start_must_be_given():
    table = {s: {0: [(1.0, s, s, False)]} for s in range(2)}
    with pytest.raises(InvalidInput, match="pass start="):
        from_gymnasium(fake(table, start=None), 2)
    assert from_gymnasium(fake(table, start=None), 2, start=[0.0, 1.0]).optimal_value == 2
    with pytest.raises(InvalidInput, match=r"one probability per state \(2\)"):
        from_gymnasium(fake(table, start=None), 2, start=[1.0])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: from_gymnasium("Blackjack-v1", 3), Unsupported, "no transition table"),
        (lambda: from_gymnasium("NoSuchLake-v1", 3), InvalidInput, "cannot make 'NoSuchLake-v1'"),
        (lambda: from_gymnasium("FrozenLake-v1", 3, slipery=True), InvalidInput, "cannot make 'FrozenLake-v1'"),
        (lambda: from_gymnasium("FrozenLake-v1", 0), InvalidInput, "horizon"),
        (lambda: from_gymnasium("Taxi-v4", 3, fickle_passenger=True), Unsupported, "departs from its own table"),
        (lambda: from_gymnasium(fake({}), 3, map_name="4x4"), InvalidInput, "already made"),
        (
            lambda: from_gymnasium(fake({1: {0: []}, 0: {1: []}}), 3),
            Unsupported,
            "number its states and actions from 0",
        ),
        (lambda: frozen_lake(size="5x5"), InvalidInput, "choose one of 4x4, 8x8"),
    ],
)
def test_what_is_not_a_tabular_world_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_without_gymnasium_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[gym\]'"):
        frozen_lake()
    with pytest.raises(MissingExtra, match=r"pip install '\.\[gym\]'"):
        from_gymnasium("FrozenLake-v1", 3)

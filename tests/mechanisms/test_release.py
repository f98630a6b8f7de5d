"""Releases and requests: plain public data, and nothing raw reachable from what a learner holds."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Policy
from discreet.base.streams import COINS, NOISE, USERS, generator, stream
from discreet.learners.base import Problem, as_statistics
from discreet.mechanisms.release import Estimate, Layer, Linear, Release, Request
from discreet.mechanisms.session import Intake, Session
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.recipes.registry import build
from discreet.simulation.users import TabularUsers
from discreet.worlds.tabular import TabularWorld

RAW = (Session, Intake, TabularUsers, Trajectories, TabularWorld)
PRIVACIES = {
    "central": discreet.Central(1.0),
    "gaussian": discreet.Central(1.0, 1e-5, recipe="central/first-visit-gaussian"),
    "tree": discreet.Central(1.0, recipe="central/three-tables-laplace-tree"),
    "tables": discreet.Central(1.0, recipe="central/three-tables-laplace"),
    "local": discreet.Local(1.0),
}


def session_of(privacy, episodes=40):
    world = discreet.worlds.river_swim(states=3, horizon=3)
    users = TabularUsers(world, stream(0, 0, USERS), generator(0, 0, COINS))
    privatizer = build(privacy, world.shape, episodes)
    return privatizer.open(users, SimulatedNoise(generator(0, 0, NOISE)), episodes), world.shape


def reachable(root):
    """Every object that can be reached from one: fields, items, array bases and what functions have closed over."""
    seen, waiting = {}, [root]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | types.ModuleType | str | bytes | int | float):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, dict | types.MappingProxyType):
            waiting += [*thing.keys(), *thing.values()]
        elif isinstance(thing, tuple | list | set | frozenset):
            waiting += thing
        elif isinstance(thing, np.ndarray):
            waiting.append(thing.base)
        elif isinstance(thing, types.FunctionType):
            waiting += [cell.cell_contents for cell in thing.__closure__ or ()]
            waiting += [*(thing.__defaults__ or ()), *vars(thing).values()]
        elif isinstance(thing, types.MethodType):
            waiting += [thing.__self__, thing.__func__]
        else:
            waiting += vars(thing).values() if hasattr(thing, "__dict__") else []
            waiting += [getattr(thing, f.name) for f in fields(thing)] if is_dataclass(thing) else []
    return list(seen.values())


@pytest.mark.parametrize("privacy", PRIVACIES.values(), ids=PRIVACIES.keys())
def test_nothing_raw_can_be_reached_from_a_release_or_from_a_learners_state(privacy):
    session, shape = session_of(privacy)
    learner = discreet.learners.UCBVI()
    state = learner.init(Problem(shape, 40), stream(0, 0, COINS))
    release = session.answer(learner.ask(state))
    state = learner.update(state, release)
    inside = {id(thing) for thing in reachable(session._intake._runs) if isinstance(thing, np.ndarray)}
    assert len(inside) >= 2
    for root in (release, state, learner.ask(state), learner):
        found = reachable(root)
        assert not [thing for thing in found if isinstance(thing, RAW)]
        assert not [thing for thing in found if id(thing) in inside]


def test_the_walk_finds_what_is_hidden_in_closures_and_views():
    """The twin: a release that does hold on to its session, in the ways that Python makes easy."""
    session, _ = session_of(PRIVACIES["central"])
    release = session.answer(Request(Policy(np.zeros((3, 3), np.int64))))
    values = next(thing for thing in reachable(session._intake._runs) if isinstance(thing, np.ndarray))
    for hidden in (lambda: session, session.answer, {"x": (values.ravel()[:2],)}, [lambda s=session: s]):
        found = reachable([release, hidden])
        assert any(isinstance(thing, RAW) or thing is values for thing in found)


@pytest.mark.parametrize("privacy", PRIVACIES.values(), ids=PRIVACIES.keys())
def test_a_release_does_not_change_when_the_next_one_is_made(privacy):
    session, _ = session_of(privacy)
    policy = Policy(np.ones((3, 3), np.int64))
    first = session.answer(Request(policy))
    before = {name: (e.values.copy(), e.variance.copy()) for name, e in first.statistics.items()}
    width = first.width(2, 0.1)
    session.answer(Request(policy))
    for name, (values, variance) in before.items():
        np.testing.assert_array_equal(first[name].values, values)
        np.testing.assert_array_equal(first[name].variance, variance)
    np.testing.assert_array_equal(first.width(2, 0.1), width)


def some_release():
    ones = np.ones((1, 2, 2))
    statistics = {
        "visits": Estimate(2.0 + np.arange(4.0).reshape(1, 2, 2), ones),
        "transitions": Estimate(np.arange(8.0).reshape(1, 2, 2, 2), 3 * ones),
        "rewards": Estimate(np.arange(4.0).reshape(1, 2, 2), 4 * ones),
    }
    return Release(
        statistics, 7, build(discreet.NoPrivacy(), discreet.Shape(2, 2, 2), 5).guarantee, lambda n, p: n * p * ones
    )


def test_a_release_names_what_it_has():
    release = some_release()
    assert release["visits"].values[0, 0, 0] == 2.0
    with pytest.raises(Unsupported, match=r"no losses; it has rewards, transitions, visits"):
        release["losses"]
    assert release.width(3, 0.5)[0, 0, 0] == release.width(3, 0.5, "visits")[0, 0, 0] == 1.5
    with pytest.raises(Unsupported, match="no losses"):
        release.width(3, 0.5, "losses")
    assert release.public == {}


def test_statistics_for_planners_are_the_release_in_order():
    release = some_release()
    statistics = as_statistics(release)
    for name in ("visits", "rewards"):
        np.testing.assert_array_equal(getattr(statistics, name), release[name].values.reshape(4))
    np.testing.assert_array_equal(statistics.transitions, release["transitions"].values.reshape(4, 2).T)
    assert [noise.tolist() for noise in statistics[3:]] == [[1.0] * 4, [np.sqrt(3.0)] * 4, [2.0] * 4]


def test_a_request_is_plain_public_data():
    policy = Policy(np.zeros((2, 2), np.int64))
    assert Request(policy).users is None
    assert Request(policy, users=5, what=Layer(1)).what == Layer(1)
    assert Request(policy, what=Linear(0, np.ones(2), np.ones((2, 2)), 1.0)).what.bound == 1.0
    for users in (0, -3, True, 2.5, np.nan):  # a NaN is not more than the users that are left
        with pytest.raises(InvalidInput, match="users must be a whole number of at least 1"):
            Request(policy, users=users)


@pytest.mark.parametrize("step", [True, slice(None), [0, 1], -1, 0.5, np.ones(2, bool), None], ids=str)
def test_a_step_is_a_number(step):
    """Whatever else can index an array could ask for all steps with the noise of one."""
    with pytest.raises(InvalidInput, match="step must be a whole number"):
        Layer(step)
    with pytest.raises(InvalidInput, match="step must be a whole number"):
        Linear(step, np.ones(2), np.ones((2, 2)))
    assert Layer(np.int64(1)) == Layer(1)


def test_what_a_question_holds_cannot_be_changed_afterwards():
    targets = np.ones(2)
    asked = Linear(0, targets, np.ones((2, 2)), 2.0)
    targets[0] = np.nan
    assert asked.targets.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        asked.weights[0] = np.nan
    for bound in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InvalidInput, match="bound"):
            Linear(0, np.ones(2), np.ones((2, 2)), bound)


def test_trajectories_do_not_show_their_contents():
    shape = discreet.Shape(100, 2, 2)
    records = Trajectories.from_arrays([[77, 78]], [[1, 0]], [[0.123, 0.456]], shape)
    for text in (repr(records), str(records), f"{records}"):
        assert text == "<Trajectories of 1 users, contents not shown>"
    for states, actions, rewards in (([[77, 178]], [[0, 0]], [[0, 0]]), ([[0, 0]], [[0, 9]], [[0, 0]])):
        with pytest.raises(InvalidInput, match="outside the declared domain") as error:
            Trajectories.from_arrays(states, actions, rewards, shape)
        assert "178" not in str(error.value)
        assert "9," not in str(error.value)
    with pytest.raises(InvalidInput, match="NaN"):
        Trajectories.from_arrays([[0, 0]], [[0, 0]], [[0, np.nan]], shape)
    with pytest.raises(InvalidInput, match="shape"):
        Trajectories.from_arrays([[0, 0, 0]], [[0, 0, 0]], [[0, 0, 0]], shape)
    assert Trajectories.from_arrays([[0, 0]], [[0, 0]], [[-5, 5]], shape).rewards.tolist() == [[0.0, 1.0]]

"""What a learner is: ``init``, ``ask``, ``update``, ``policy``, all pure functions of a state.

A learner sees releases and nothing else. It never imports worlds, trajectories, encoders or privatizers, and none of
its knobs touches privacy: whatever it computes from a release is post-processing.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from discreet.compiled import dispatch
from discreet.policies import AnyPolicy, Policy
from discreet.release import Release, Request, Statistics, as_statistics, no_statistics
from discreet.shape import Shape
from discreet.streams import Stream
from discreet.types import Floats, Integers


class Problem(NamedTuple):
    """What a learner is told before it starts: all of it public."""

    shape: Shape
    episodes: int


class Learner(Protocol):
    """The interface of a learner; frozen data with its knobs as fields."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def needs(self) -> frozenset[str]:
        """The statistics that it uses."""

    def init(self, problem: Problem, coins: Stream) -> Any:
        """The state before any release. ``coins`` is public randomness (ties, mixtures)."""

    def ask(self, state: Any) -> Request:
        """The policy to deploy next, and what should be released about it."""

    def update(self, state: Any, release: Release) -> Any:
        """The state after a release."""

    def policy(self, state: Any) -> AnyPolicy:
        """The policy that would be deployed next."""


class CompiledLearner(Learner, Protocol):
    """A learner that can also replan inside a compiled loop, after every episode."""

    def arrays(self, problem: Problem) -> Any:
        """Constants and scratch space: a NamedTuple that :func:`plan_into` knows. Not shared between threads."""


@runtime_checkable
class OfflineLearner(Learner, Protocol):
    """A learner from data that were collected beforehand: its drivers must know how often and what it will ask."""

    def questions(self, problem: Problem) -> int:
        """How many questions it asks before it has a policy."""

    def recipe_options(self, problem: Problem) -> dict[str, Any]:
        """What a recipe must know about its questions before the first one; all of it is public."""


class AsksOnce:
    """An offline learner with one question, about everybody."""

    def questions(self, problem: Problem) -> int:
        """One."""
        return 1

    def recipe_options(self, problem: Problem) -> dict[str, Any]:
        """Nothing: it asks for whole tables."""
        return {}


@dispatch
def plan_into(learner: Any, statistics: Statistics, coins: Stream, values: Floats, actions: Integers) -> None:
    """Plan from released statistics: the policy into ``actions`` (H, S), its values as planned into ``values``."""


class PlannedState(NamedTuple):
    """Everything that a learner remembers who plans anew from every release: its next policy and its public coins."""

    problem: Problem
    coins: Stream
    policy: Policy
    values: Floats  # (H + 1, S) as planned


def planned(arrays: Any, problem: Problem, coins: Stream, release: Release | None) -> PlannedState:
    """Plan from a release, or from nothing before the first; ``arrays`` is the compiled form of the learner."""
    shape, coins = problem.shape, coins.copy()
    values = np.zeros((shape.horizon + 1, shape.states))
    actions = np.zeros((shape.horizon, shape.states), np.int64)
    rows = shape.groups * shape.states * shape.actions
    statistics = no_statistics(rows, shape.states) if release is None else as_statistics(release)
    plan_into(arrays, statistics, coins, values, actions)
    return PlannedState(problem, coins, Policy(actions), values)

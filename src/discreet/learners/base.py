"""What a learner is: ``init``, ``ask``, ``update``, ``policy``, ``recommend``, all pure functions of a state.

A learner sees releases and nothing else. It never imports worlds, trajectories, encoders or privatizers, and none of
its knobs touches privacy: whatever it computes from a release is post-processing.

``Learner`` is all that a loop needs. The classes below it write once what many learners have in common:

* ``HoldsPolicy``: the next policy is a field of the state;
* ``Replans``: the state is a plan, made anew from every release by ``plan``;
* ``PlansBackwards``: the plan is a backward induction in compiled code, by two kernels, ``prepare`` and ``fill_q``.
  Such a learner also runs inside the compiled loop over episodes.
* ``WeighsBlocks``: such a learner that weighs blocks by what they tell, where every block has noise of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from discreet.base.compiled import dispatch
from discreet.base.policies import AnyPolicy, Policy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers, Mask
from discreet.learners.block_history import Books, weigh
from discreet.learners.effective_sample_size import believed
from discreet.learners.partial_pooling import borrowed
from discreet.learners.support_restriction import in_seen_states
from discreet.learners.visit_posterior import steps_had, with_likely_visits
from discreet.mechanisms.release import Release, Request, Statistics
from discreet.worlds.planning.backward_induction import act_greedily


class Problem(NamedTuple):
    """What a learner is told before it starts: all of it public."""

    shape: Shape
    episodes: int
    opening: int = 0  # users of the first block, where the recipe has a long one for acting at random


class Learner(Protocol):
    """The interface of a learner; frozen data with its knobs as fields."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def needs(self) -> frozenset[str]:
        """The statistics that it uses; and five words on how.

        ``discreet.base.policies.MIXED``: it deploys several actions at once. ``discreet.mechanisms.release.ESTIMATES``:
        it plans with point estimates; recipes may divide their budget and their users differently for it.
        ``discreet.mechanisms.release.LAYERS``: it asks for one step at a time; "auto" takes a recipe that answers this,
        if any. ``discreet.mechanisms.release.WEIGHS``: blocks are weighed by what they tell, and undecided actions
        played side by side. ``discreet.mechanisms.release.OPENING``: a long first block acts at random.
        """

    def init(self, problem: Problem, coins: Stream) -> Any:
        """The state before any release. ``coins`` is public randomness (ties, mixtures)."""

    def ask(self, state: Any) -> Request:
        """The policy to deploy next, and what should be released about it."""

    def update(self, state: Any, release: Release) -> Any:
        """The state after a release."""

    def policy(self, state: Any) -> AnyPolicy:
        """The policy that would be deployed next. It may explore."""

    def recommend(self, state: Any) -> AnyPolicy:
        """The policy that a person should deploy in the end: the best one as far as is known, without exploring."""


@runtime_checkable
class CompiledLearner(Learner, Protocol):
    """A learner that can also replan inside the compiled loop, after every episode: one action for everybody."""

    def arrays(self, problem: Problem) -> Any:
        """Constants and scratch space: a NamedTuple that :func:`plan_into` knows. Not shared between threads."""

    def recommending(self, problem: Problem) -> Any:
        """The same for the plan that is recommended in the end."""


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
        """One question, whatever the problem."""
        return 1

    def recipe_options(self, problem: Problem) -> dict[str, Any]:
        """Nothing: it asks for whole tables."""
        return {}


@runtime_checkable
class Informed(Protocol):
    """A reference that knows the world it plays in: a simulation tells it, and nobody else can."""

    def in_world(self, world: Any) -> Learner:
        """The learner for this world."""


@runtime_checkable
class Remarks(Protocol):
    """A learner that has something to say about a run that is over."""

    def remark(self, state: Any) -> str:
        """One sentence without a full stop, from public numbers and releases alone; empty if all is as expected."""


class HoldsPolicy:
    """A learner whose state has the policy to deploy next as its field ``policy``."""

    def ask(self, state: Any) -> Request:
        """Deploy that policy, and release all that the recipe has."""
        return Request(state.policy)

    def policy(self, state: Any) -> AnyPolicy:
        """The field ``policy`` of the state."""
        policy: AnyPolicy = state.policy
        return policy

    def recommend(self, state: Any) -> AnyPolicy:
        """The same policy: right for a learner that does not explore, or cannot tell."""
        return self.policy(state)


class PlannedState(NamedTuple):
    """All that a learner remembers who plans anew from every release: its plan, what it came from, public coins."""

    problem: Problem
    coins: Stream
    policy: AnyPolicy
    values: Floats  # (H + 1, S) as planned
    release: Release | None = None  # the last one
    kept: Mask | None = None  # (H, S): where the policy does what users did; None if it never does by itself
    books: Books | None = None  # what blocks have told, each weighed, where noise adds up


class Replans(HoldsPolicy, ABC):
    """A learner that plans anew from every release and remembers nothing else."""

    @abstractmethod
    def plan(self, problem: Problem, coins: Stream, release: Release | None) -> PlannedState:
        """Plan from a release, or from nothing before the first one. ``coins`` must be copied before they are used."""

    def init(self, problem: Problem, coins: Stream) -> PlannedState:
        """The plan of somebody who knows nothing."""
        return self.plan(problem, coins, None)

    def update(self, state: PlannedState, release: Release) -> PlannedState:
        """The plan from this release, which contains all earlier ones."""
        return self.plan(state.problem, state.coins, release)


class PlansBackwards(Replans):
    """A learner that plans by backward induction in compiled code.

    It has ``arrays`` and, for the class of these arrays, the kernels ``prepare`` and ``fill_q``; and ``recommending``,
    the arrays of a plan without exploration, where it explores.
    """

    @abstractmethod
    def arrays(self, problem: Problem) -> Any:
        """Constants and scratch space of one run: a NamedTuple with ``table`` (S, A), where Q of a step is written."""

    def arrays_after(self, problem: Problem, release: Release) -> Any:
        """The arrays for a plan from this release; the same, unless the learner reads more than its statistics."""
        return self.arrays(problem)

    def recommending(self, problem: Problem) -> Any:
        """The arrays of the plan that is recommended in the end; the same, for a learner that does not explore."""
        return self.arrays(problem)

    def plan(self, problem: Problem, coins: Stream, release: Release | None) -> PlannedState:
        """The plan of the kernels, with ties broken by a copy of the coins."""
        coins = coins.copy()
        arrays = self.arrays(problem) if release is None else self.arrays_after(problem, release)
        policy, values = plan_backwards(arrays, problem, coins, release)
        return PlannedState(problem, coins, policy, values, release)

    def recommend(self, state: PlannedState) -> Policy:
        """The plan of ``recommending``, from the last release."""
        return plan_to_recommend(self.recommending(state.problem), state.problem, state.coins, state.release)


class WeighsBlocks(PlansBackwards):
    """A learner that weighs blocks where every block adds noise, and begins at random where the first one is long."""

    def init(self, problem: Problem, coins: Stream) -> PlannedState:
        """The plan of somebody who knows nothing; all actions alike for a long first block."""
        state = super().init(problem, coins)
        return state._replace(policy=uniform_policy(problem.shape)) if problem.opening else state

    def update(self, state: PlannedState, release: Release) -> PlannedState:
        """The plan from all blocks so far, each weighed by how much it can tell, and with what other steps tell.

        A state that has seen releases and kept no books of them, such as one of an earlier version, is not weighed:
        nobody could tell any more what its first blocks told.
        """
        release = believed(release)
        if state.release is not None and state.books is None:
            return self.replan(state, release)
        shape = state.problem.shape
        known, books = weigh(state.books, release, state.policy, shape)
        known = known if books is None else all_told(shape, known, books)
        return self.replan(state, known)._replace(books=books)

    def replan(self, state: PlannedState, release: Release) -> PlannedState:
        """The plan from a release whose blocks have been weighed."""
        return self.plan(state.problem, state.coins, release)


def all_told(shape: Shape, known: Release, books: Books) -> Release:
    """What weighed blocks have told about each row, with its likely visits, and with what other steps tell."""
    expected = steps_had(shape, books.raw) * books.expected
    return borrowed(shape, with_likely_visits(shape, known, expected))


def plan_backwards(arrays: Any, problem: Problem, coins: Stream, release: Release | None) -> tuple[Policy, Floats]:
    """The plan of a learner's arrays from a release, or from nothing before the first one, and its values."""
    return _planned(arrays, problem, coins, _known(problem.shape, release))


def plan_to_recommend(arrays: Any, problem: Problem, coins: Stream, release: Release | None) -> Policy:
    """The policy that is recommended: planned without states that nobody was seen in, with a copy of the coins."""
    known = in_seen_states(problem.shape, _known(problem.shape, release))
    return _planned(arrays, problem, coins.copy(), known)[0]


def _known(shape: Shape, release: Release | None) -> Statistics:
    if release is None:
        return no_statistics(shape.groups * shape.states * shape.actions, shape.states)
    return as_statistics(release)


def _planned(arrays: Any, problem: Problem, coins: Stream, statistics: Statistics) -> tuple[Policy, Floats]:
    shape = problem.shape
    values = np.zeros((shape.horizon + 1, shape.states))
    actions = np.zeros((shape.horizon, shape.states), np.int64)
    plan_into(arrays, statistics, coins, values, actions)
    return Policy(actions), values


@dispatch
def prepare(learner: Any, statistics: Statistics, coins: Stream, H: int) -> None:
    """Estimate the model of every row from released statistics, into the learner's scratch space."""


@dispatch
def fill_q(learner: Any, statistics: Statistics, following: Floats, h: int, left: float) -> tuple[float, float]:
    """Write Q of step ``h``, with ``left`` steps to go, into ``learner.table``; returns the range of values there.

    ``following`` (S,) are the values of the next step. Actions are chosen by Q as it is; the value of the best one is
    clipped to the range.
    """
    raise NotImplementedError


@dispatch
def plan_into(learner: Any, statistics: Statistics, coins: Stream, values: Floats, actions: Integers) -> None:
    """Plan from released statistics: the policy into ``actions`` (H, S), its values as planned into ``values``."""


@plan_into.implement(object)
def _plan_backwards(learner: Any, statistics: Statistics, coins: Stream, values: Floats, actions: Integers) -> None:
    """Backward induction with the kernels of the learner's class."""
    H = actions.shape[0]
    prepare(learner, statistics, coins, H)
    values[H, :] = 0.0
    for h in range(H - 1, -1, -1):
        lowest, highest = fill_q(learner, statistics, values[h + 1], h, float(H - h))
        act_greedily(learner.table, lowest, highest, coins, values[h], actions[h])


def as_statistics(release: Release) -> Statistics:
    """The three count statistics of a release, for compiled planners."""
    visits, transitions, rewards = (release[name] for name in ("visits", "transitions", "rewards"))
    states = transitions.values.shape[-1]
    return Statistics(
        visits.values.reshape(-1),
        np.ascontiguousarray(transitions.values.reshape(-1, states).T),
        rewards.values.reshape(-1),
        *(np.sqrt(estimate.variance).reshape(-1) for estimate in (visits, transitions, rewards)),
    )


def no_statistics(rows: int, states: int) -> Statistics:
    """What is known before the first release: nothing."""
    empty = np.zeros(rows)
    return Statistics(empty, np.zeros((states, rows)), empty, empty, empty, empty)

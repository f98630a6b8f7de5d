"""Learning from one data set: what training on a real table and simulating data sets of known worlds share.

All users have acted already, under a behaviour policy. The learner asks its questions, one after the other, of a
session that holds the data; there is no regret, only the value of what was learned.

``BehaviourUsers`` are counted without being played, by a cascade of multinomial draws: those in a state are split over
its actions, those of an action over its successors, those of a successor over the levels of the reward. The counts have
exactly the law of the counts of users who act one by one, at a cost that does not depend on how many there are. First
visits depend on whole paths: they are played.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Protocol

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported, unknown_name
from discreet.base.packages import load
from discreet.base.policies import Mixture, Policy, StochasticPolicy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, NOISE, USERS, Stream, generator, stream
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_array
from discreet.learners.base import Problem
from discreet.mechanisms.counts.encoder import Context, Encoder
from discreet.mechanisms.counts.joint_histogram import JointCounts, as_counted
from discreet.mechanisms.release import Release, Request
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sparse import SparseTable
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.recipes.registry import Target, build
from discreet.recipes.targets import Privacy
from discreet.simulation.progress import progress_bar
from discreet.simulation.result import OfflineResult
from discreet.simulation.simulate import Behaviour, world_of_run
from discreet.simulation.users import TabularUsers
from discreet.worlds.rewards import Bernoulli, Deterministic, Finite, OnTransition
from discreet.worlds.tabular import TabularWorld

BEHAVIOURS = ("uniform", "mostly-first", "clinicians")


def privatizer_for(
    learner: Any, target: Target, shape: Shape, users: int, *, known: bool = False, **declared: Any
) -> Privatizer:
    """The privatizer of one data set that serves this learner.

    ``known``: mean rewards were declared public and are not released. ``declared`` are options that the owner's
    declarations fix, such as ``per_user``: an option must not contradict what the query enforces.
    """
    linear = "matrix" in learner.needs
    if known and linear:
        raise Unsupported(f"learner {learner.name} regresses rewards too: leave known_rewards out")
    if isinstance(target, Privacy):
        own = learner.recipe_options(Problem(shape, users))
        if not linear:
            declared["rewards"] = "known" if known else "private"
        target = replace(target, options={**own, **target.options, **declared})
    return build(target, shape, users, learner.needs - ({"rewards"} if known else set()), data_set=True)


class Answers(Protocol):
    """What answers a learner: a session that holds the data, or answers that are stored."""

    def answer(self, request: Request) -> Release:
        """The answer to one question."""


def learn(
    learner: Any, session: Answers, problem: Problem, coins: Stream, known: Floats | None = None, *, plan: bool = True,
    declared: Mapping[str, Floats] | None = None,
) -> tuple[Any, Release]:  # fmt: skip
    """Let a learner ask all its questions; what it knows in the end, and the last answer.

    Without ``plan`` it only asks: the last answer is not learned from. ``declared`` are further public tables for the
    learner: the behaviour (H, S, A), and the least and the largest returns (2, H + 1) as shares.
    """
    state = learner.init(problem, coins)
    questions = learner.questions(problem)
    for number in range(questions):
        release = session.answer(learner.ask(state))
        if number == questions - 1 and not plan:
            break
        public = {**(declared or {}), **({} if known is None else {"rewards": known})}
        release = replace(release, public={**release.public, **public})
        state = learner.update(state, release)
    return state, release


def known_table(shape: Shape, known_rewards: ArrayLike | None) -> Floats | None:
    """Declared mean rewards as shares of the declared range, (groups, S, A); None where rewards are private."""
    if known_rewards is None:
        return None
    table = check_array("known_rewards", known_rewards)
    cells = (shape.states, shape.actions)
    if table.shape not in (cells, (shape.horizon, *cells), (1, *cells)):
        raise InvalidInput(f"known_rewards must have shape {cells} or {(shape.horizon, *cells)}, got {table.shape}")
    low, high = shape.rewards
    if table.min() < low or table.max() > high:
        raise InvalidInput(f"known_rewards must lie in the declared range {shape.rewards}")
    steps = table.reshape(-1, *cells)
    if shape.homogeneous and len(steps) > 1:
        raise InvalidInput("known_rewards differ from step to step, but laws were declared homogeneous")
    return np.ascontiguousarray(np.broadcast_to((steps - low) / (high - low), (shape.groups, *cells)))


def simulate_data_sets(
    world: Any,
    learner: Any,
    target: Target,
    *,
    users: int,
    behaviour: Behaviour,
    runs: int,
    seed: int,
    known_rewards: bool | ArrayLike,
    progress: bool,
) -> OfflineResult:
    """Draw a data set in every run, learn a policy from one private release of it, and evaluate that exactly."""
    known = known_rewards is not False
    if "matrix" in learner.needs and learner.features is None:
        learner = replace(learner, features=load("discreet.problems.linear.world:features_of")(world))
    if any(knob.name == "ends" for knob in fields(learner)):
        learner = replace(learner, ends=False)  # in a world every episode has all its steps
    privatizer = privatizer_for(learner, target, world.shape, users, known=known)
    began, values = time.perf_counter(), np.empty((runs, 3))
    policies = []
    with progress_bar(f"{learner.name}, {privatizer.guarantee.model}", runs, progress) as tick:
        for run in range(runs):
            instance = world_of_run(world, seed, run)
            if not isinstance(instance, TabularWorld):
                raise Unsupported(f"no offline learner knows a {type(instance).__name__}: take a tabular world")
            acted = behaviour_policy(behaviour, instance.shape)
            people = BehaviourUsers(instance, acted, stream(seed, run, USERS), generator(seed, run, USERS))
            session = privatizer.open(people, SimulatedNoise(generator(seed, run, NOISE)), users)
            means = instance.means if known_rewards is True else known_rewards
            table = known_table(instance.shape, means) if known else None
            state, release = learn(learner, session, Problem(instance.shape, users), stream(seed, run, COINS), table)
            policies.append(learner.policy(state))
            values[run] = instance.value(policies[-1]), instance.optimal_value, instance.value(acted)
            tick(1)
    return OfflineResult(
        world=world.name,
        learner=learner.name,
        privacy=target.model if isinstance(target, Privacy) else privatizer.guarantee.model,
        recipe=privatizer.recipe,
        users=users,
        behaviour=behaviour if isinstance(behaviour, str) else "a policy",
        seed=seed,
        value=values[:, 0],
        optimal_value=values[:, 1],
        behaviour_value=values[:, 2],
        policies=tuple(policies),
        guarantee=release.guarantee,
        seconds=time.perf_counter() - began,
    )


def behaviour_policy(behaviour: Behaviour, shape: Shape) -> StochasticPolicy:
    """The policy under which the data were collected."""
    match behaviour:
        case StochasticPolicy():
            return behaviour
        case Policy():
            return behaviour.stochastic(shape.actions)
        case Mixture():
            raise InvalidInput("users of a mixture follow one component each: give a stochastic policy")
        case _ if not isinstance(behaviour, str):
            raise unknown_name("behaviour policy", behaviour, BEHAVIOURS)
        case "uniform":
            return uniform_policy(shape)
        case "clinicians":
            policy: StochasticPolicy = load("discreet.worlds.imported:clinicians")(shape.horizon)
            return policy
        case "mostly-first":
            share = np.full(shape.actions, 0.4 / max(1, shape.actions - 1))
            share[0] = 0.6 if shape.actions > 1 else 1.0
            return StochasticPolicy(np.broadcast_to(share, (shape.horizon, shape.states, shape.actions)))
        case _:
            raise unknown_name("behaviour policy", str(behaviour), BEHAVIOURS)


class BehaviourUsers:
    """Users who acted under one behaviour policy, whatever the policy of a request says: the data are there already."""

    def __init__(
        self, world: TabularWorld, behaviour: StochasticPolicy, stream: Stream, rng: np.random.Generator
    ) -> None:
        world.check_policy(behaviour)
        self._world, self._behaviour, self._rng = world, behaviour, rng
        self._played = TabularUsers(world, stream, rng)
        self._counted: dict[tuple[Encoder, ...], list[Floats]] = {}

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        """The encodings of everybody: drawn when they are first asked for, and the same ever after."""
        key = tuple(encoders)
        if key not in self._counted:
            self._counted[key] = self._count(encoders, users)
        return self._counted[key]

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        """Refused: a data set is counted as a whole."""
        raise Unsupported("a data set is counted by the one who holds it: nobody sends messages")

    def _count(self, encoders: Sequence[Encoder], users: int) -> list[Floats]:
        counted = [as_counted(encoder) for encoder in encoders]
        if any(encoder.first_visit for encoder in counted):  # depends on whole paths
            tables = [encoder.table if isinstance(encoder, SparseTable) else encoder for encoder in encoders]
            played = self._played.tally(tables, Context(self._behaviour), users)
            return [_occurring(cells) if isinstance(e, SparseTable) else cells for e, cells in zip(encoders, played)]
        (how,) = {(encoder.reward_levels, encoder.parts) for encoder in counted}
        levels, parts = how
        sizes = [users // parts + (part < users % parts) for part in range(parts)]
        joint = [self.joint_counts(size, levels) for size in sizes]
        return [
            np.concatenate([encoder.from_joint(counts, part) for part, counts in enumerate(joint)])
            for encoder in counted
        ]

    def joint_counts(self, users: int, levels: int) -> JointCounts:
        """The joint histogram of users who act independently: a multinomial at every branching."""
        world, shape, rng = self._world, self._world.shape, self._rng
        S, A, H = shape.states, shape.actions, shape.horizon
        at = rng.multinomial(users, world.start)
        rows, successors, steps, counts = [], [], [], []
        for h in range(H):
            model = h if len(world.transitions) > 1 else 0
            taken = _split(rng, at, self._behaviour.probabilities[h]).reshape(-1)
            row = np.flatnonzero(taken)
            following = _split(rng, taken[row], world.transitions[model].reshape(S * A, S)[row])
            which, successor = np.nonzero(following)
            count = following[which, successor]
            at = np.bincount(successor, weights=count, minlength=S).astype(np.int64)
            rows.append(row[which])
            successors.append(successor)
            steps.append(np.full(len(which), h))
            counts.append(count)
        row, successor, step, count = (np.concatenate(part) for part in (rows, successors, steps, counts))
        level = self._reward_levels(step, row, successor, count, levels)
        end = np.where(step == H - 1, S, successor)
        group = 0 if shape.homogeneous else step
        cell = (group * S * A + row) * (S + 1) + end
        keys = (cell[:, None] * levels + np.arange(levels)).reshape(-1)
        keys, where = np.unique(keys, return_inverse=True)
        total = np.bincount(where, weights=level.reshape(-1)).astype(np.int64)
        return JointCounts(keys[total > 0], total[total > 0], levels)

    def _reward_levels(
        self, step: Integers, row: Integers, successor: Integers,
        count: Integers, levels: int,
    ) -> Integers:  # fmt: skip
        """How many of each count have a reward that rounds to each level."""
        world, rng = self._world, self._rng
        group = step if len(world.transitions) > 1 else np.zeros_like(step)
        s, a = np.divmod(row, world.shape.actions)
        low, span, top = world.shape.rewards[0], world.shape.reward_span, levels - 1
        out = np.zeros((len(count), levels), np.int64)
        match world.rewards:
            case Bernoulli(means):
                ones = rng.binomial(count, means[group, s, a])
                for value, many in ((1.0, ones), (0.0, count - ones)):
                    out += _rounded(rng, np.full(len(count), (value - low) / span * top), many, levels)
            case Deterministic(means):
                out += _rounded(rng, (means[group, s, a] - low) / span * top, count, levels)
            case OnTransition(values):
                out += _rounded(rng, (values[group, s, a, successor] - low) / span * top, count, levels)
            case Finite() if levels == 2:
                # A bit of a random reward is a bit of its mean: exact, as the reward does not depend on the successor.
                out += _rounded(rng, (world.means[group, s, a] - low) / span, count, levels)
            case other:
                raise Unsupported(f"no offline simulation knows {type(other).__name__} rewards in {levels} levels")
        return out


def _rounded(rng: np.random.Generator, position: Floats, count: Integers, levels: int) -> Integers:
    """Stochastic rounding of ``count`` rewards that lie at ``position`` between the levels 0, 1, ..."""
    below = np.clip(np.floor(position), 0, levels - 2).astype(np.int64)
    up = rng.binomial(count, np.clip(position - below, 0.0, 1.0))
    out = np.zeros((len(count), levels), np.int64)
    rows = np.arange(len(count))
    out[rows, below] = count - up
    out[rows, below + 1] = up
    return out


def _split(rng: np.random.Generator, counts: Integers, probabilities: Floats) -> Integers:
    return rng.multinomial(counts, probabilities)


def _occurring(cells: Floats) -> Floats:
    """The cells that occur and their counts, as a sparse table tallies them."""
    where = np.flatnonzero(cells)
    return np.stack([where.astype(np.float64), cells[where]], axis=1)

"""Learning from one data set: what training on a real table and simulating data sets of known worlds share.

All users have acted already, under a behaviour policy. The learner asks its questions, one after the other, of a
session that holds the data; there is no regret, only the value of what was learned.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.accumulators.base import SimulatedNoise
from discreet.channels.session import Privatizer, Session
from discreet.errors import InvalidInput, Unsupported, unknown_name
from discreet.learners.base import Problem
from discreet.packages import load
from discreet.policies import Mixture, Policy, StochasticPolicy, uniform_policy
from discreet.recipes.registry import Target, build
from discreet.recipes.trust import Privacy
from discreet.release import Release
from discreet.shape import Shape
from discreet.simulation.behaviour import BehaviourUsers
from discreet.simulation.progress import progress_bar
from discreet.simulation.result import OfflineResult
from discreet.streams import COINS, NOISE, USERS, Stream, generator, stream
from discreet.types import Floats
from discreet.validation import check_array
from discreet.worlds.tabular import TabularWorld

Behaviour = str | Policy | StochasticPolicy
BEHAVIOURS = ("uniform", "mostly-first", "clinicians")


def privatizer_for(
    learner: Any, target: Target, shape: Shape, users: int, *, known: bool = False, **declared: Any
) -> Privatizer:
    """The privatizer of one data set that serves this learner.

    ``known``: mean rewards were declared public and are not released. ``declared`` are options that the owner's
    declarations fix, such as ``per_user``; they go before those of the target.
    """
    linear = "matrix" in learner.needs
    if known and linear:
        raise Unsupported(f"learner {learner.name} regresses rewards too: leave known_rewards out")
    if isinstance(target, Privacy):
        own = learner.recipe_options(Problem(shape, users)) if linear else {"rewards": "known" if known else "private"}
        target = replace(target, options={**own, **target.options, **declared})
    return build(target, shape, users, learner.needs - ({"rewards"} if known else set()), data_set=True)


def learn(
    learner: Any, session: Session, problem: Problem, coins: Stream, known: Floats | None = None
) -> tuple[Any, Release]:
    """Let a learner ask all its questions; what it knows in the end, and the last answer."""
    state = learner.init(problem, coins)
    for _ in range(learner.questions(problem)):
        release = session.answer(learner.ask(state))
        if known is not None:
            release = replace(release, public={**release.public, "rewards": known})
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
    world_of_run: Any,
) -> OfflineResult:
    """Draw a data set in every run, learn a policy from one private release of it, and evaluate that exactly."""
    known = known_rewards is not False
    if "matrix" in learner.needs and learner.features is None:
        learner = replace(learner, features=load("discreet.linear.world:features_of")(world))
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
            state, _ = learn(learner, session, Problem(instance.shape, users), stream(seed, run, COINS), table)
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
        guarantee=privatizer.guarantee,
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

"""``offline.simulate``: draw data sets from a known world, learn from each, and compute what was learned exactly."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.accumulators.base import SimulatedNoise
from discreet.errors import InvalidInput, Unsupported, unknown_name
from discreet.learners.base import Problem
from discreet.linear.world import features_of
from discreet.offline.driver import is_linear, known_table, learn, linear_privatizer, offline_learner
from discreet.offline.result import OfflineResult
from discreet.policies import Mixture, Policy, StochasticPolicy, uniform_policy
from discreet.recipes.offline import build
from discreet.recipes.trust import NoPrivacy, Privacy
from discreet.shape import Shape
from discreet.simulation.behaviour import BehaviourUsers
from discreet.simulation.progress import progress_bar
from discreet.simulation.run import AnyWorld
from discreet.streams import COINS, NOISE, USERS, WORLD, generator, seed_sequence, stream
from discreet.validation import check_count
from discreet.worlds.family import WorldFamily
from discreet.worlds.icu_sepsis import clinicians
from discreet.worlds.tabular import TabularWorld

Behaviour = str | Policy | StochasticPolicy


def simulate(
    world: AnyWorld,
    learner: str | Any = "apvi",
    privacy: Privacy | None = None,
    *,
    users: int = 10_000,
    behaviour: Behaviour = "uniform",
    runs: int = 10,
    seed: int = 0,
    known_rewards: bool | ArrayLike = False,
    options: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> OfflineResult:
    """Draw ``users`` trajectories of the behaviour policy, learn a policy from one private release, and evaluate it.

    ``behaviour`` is "uniform", "mostly-first" (the first action with probability 0.6, the others alike), "clinicians"
    (of the world icu-sepsis) or a policy.
    ``known_rewards`` declares the mean rewards public. ``options`` are knobs of a learner that is given by its name.
    """
    if not isinstance(world, TabularWorld | WorldFamily):
        raise Unsupported(f"no offline learner knows a {type(world).__name__}: take a tabular world")
    users, runs = check_count("users", users), check_count("runs", runs)
    seed = check_count("seed", seed, at_least=0)
    privacy = NoPrivacy() if privacy is None else privacy
    chosen = offline_learner(learner, **(options or {}))
    known = known_rewards is not False
    target = replace(privacy, options={"rewards": "known" if known else "private", **privacy.options})
    privatizer: Any
    if is_linear(chosen):
        if known:
            raise Unsupported(f"learner {chosen.name} regresses rewards too: leave known_rewards=False")
        chosen, privatizer = linear_privatizer(chosen, privacy, world.shape, users, features_of(world))
    else:
        privatizer = build(target, world.shape, users, chosen.needs - ({"rewards"} if known else set()))
    began, values = time.perf_counter(), np.empty((runs, 3))
    policies = []
    with progress_bar(f"{chosen.name}, {privatizer.guarantee.model}", runs, progress) as tick:
        for run in range(runs):
            instance = _instance(world, seed, run)
            acted = behaviour_policy(behaviour, instance.shape)
            people = BehaviourUsers(instance, acted, stream(seed, run, USERS), generator(seed, run, USERS))
            people.sizes = (users - users // 2, users // 2) if chosen.split else (users,)
            session = privatizer.open(people, SimulatedNoise(generator(seed, run, NOISE)), users)
            means = _known(instance, known_rewards) if known else None
            problem = Problem(instance.shape, users)
            state, _ = learn(chosen, session, problem, stream(seed, run, COINS), means)
            policies.append(chosen.policy(state))
            values[run] = instance.value(policies[-1]), instance.optimal_value, instance.value(acted)
            tick(1)
    return OfflineResult(
        world.name, chosen.name, privacy.model, privatizer.recipe, users,
        behaviour if isinstance(behaviour, str) else "a policy", seed,
        values[:, 0], values[:, 1], values[:, 2], tuple(policies), privatizer.guarantee, time.perf_counter() - began,
    )  # fmt: skip


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
            return clinicians(shape.horizon)
        case "mostly-first":
            share = np.full(shape.actions, 0.4 / max(1, shape.actions - 1))
            share[0] = 0.6 if shape.actions > 1 else 1.0
            return StochasticPolicy(np.broadcast_to(share, (shape.horizon, shape.states, shape.actions)))
        case _:
            raise unknown_name("behaviour policy", str(behaviour), BEHAVIOURS)


BEHAVIOURS = ("uniform", "mostly-first", "clinicians")


def _instance(world: TabularWorld | WorldFamily[TabularWorld], seed: int, run: int) -> TabularWorld:
    """The world of one run: the same for all, or a fresh draw of a family."""
    if isinstance(world, TabularWorld):
        return world
    instance = world.instance(int(seed_sequence(seed, run, WORLD).generate_state(1, np.uint32)[0]))
    if not isinstance(instance, TabularWorld):
        raise Unsupported(f"no offline learner knows a {type(instance).__name__}: take a tabular world")
    return instance


def _known(world: TabularWorld, known_rewards: bool | ArrayLike) -> Any:
    return known_table(world.shape, world.means if known_rewards is True else np.asarray(known_rewards))

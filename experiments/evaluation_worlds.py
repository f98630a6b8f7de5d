"""Worlds in which intervals of off-policy evaluation are tried: their laws, exact values, and users who act in them.

``dirichlet`` random transitions, drawn anew in every repetition (5 states, 3 actions, 5 steps); ``hospital`` the
made-up hospital of examples/ (12 states, 4 actions, 14 steps, early ends, outcomes -1 or +1 at the end); ``river``
RiverSwim with 6 states and 20 steps; ``...-pooled`` the last two with counts of all steps pooled; ``icu-sepsis`` the
tables of the ``icu-sepsis`` package (713 conditions, 25 treatments, 20 decisions, 1 for survival), where the package is
installed; ``wards`` a smaller made-up world like it (120 states, 9 actions). A table of all successors of the last two
would be too large, so they are judged by importance sampling alone, for policies (1 - b) behaviour + b best (or
learned), b = 1/4.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers
from discreet.tables.read.user_subsets import Paths
from discreet.worlds import river_swim
from discreet.worlds.imported import SURVIVAL, clinicians, icu_sepsis

MIXED = 0.25  # b


class World(NamedTuple):
    """Outcomes of a row: successors 0 .. S - 1, then ends, each with a reward; G is 1 where all steps are alike."""

    shape: Shape
    chances: Floats  # (G, S, A, S + E)
    rewards: Floats  # the same shape: the reward that comes with each outcome
    start: Floats
    behaviour: Floats  # (H, S, A)
    given: Floats  # (H, S, A)
    returns: tuple[float, float] | None
    ends: bool


def dirichlet(seed: list[int]) -> World:
    """A random world."""
    rng = np.random.default_rng([*seed, 1])
    S, A, H = 5, 3, 5
    chances = rng.dirichlet(np.ones(S), (H, S, A))
    means = rng.random((H, S, A))
    start = rng.dirichlet(np.ones(S))
    behaviour = np.full((H, S, A), 1 / A)
    world = World(Shape(S, A, H), *two_point(chances, means), start, behaviour, behaviour, None, False)
    return world._replace(given=greedy(world, rng))


@cache
def river() -> World:
    """RiverSwim; the given policy swims to the right."""
    made = river_swim(states=6, horizon=20)
    S, A, H = made.shape.states, made.shape.actions, made.shape.horizon
    behaviour, right = np.full((H, S, A), 0.5), np.zeros((H, S, A))
    right[..., 1] = 1.0
    chances, rewards = two_point(np.array(made.transitions), np.array(made.means))
    return World(Shape(S, A, H), chances, rewards, np.asarray(made.start), behaviour, right, None, False)


@cache
def hospital() -> World:
    """The made-up hospital; the given policy is the best."""
    where = Path(__file__).parents[1] / "examples" / "hospital" / "patients.py"
    spec = importlib.util.spec_from_file_location("patients", where)
    assert spec is not None
    assert spec.loader is not None
    patients = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(patients)
    S, A, H = patients.S, patients.A, patients.DAYS
    following, ends = patients.dynamics()
    chances = np.concatenate([following, ends], axis=2)[None]
    rewards = np.zeros((1, 1, 1, S + 2))
    rewards[..., S], rewards[..., S + 1] = 1.0, -1.0
    start = np.zeros(S)
    start[3:9] = 1 / 6
    behaviour = np.broadcast_to(patients.clinicians(), (H, S, A))
    shape = Shape(S, A, H, rewards=(-1.0, 1.0))
    rewards = np.broadcast_to(rewards, chances.shape)
    return World(shape, chances, rewards, start, behaviour, patients.best(), (-1.0, 1.0), True)


@cache
def wards() -> World:
    """A made-up world with too many rows for a table."""
    rng = np.random.default_rng([7, 3])  # one world for all repetitions
    S, A, H = 120, 9, 12
    chances = np.zeros((1, S, A, S + 2))
    for s in range(S):
        for a in range(A):
            chances[0, s, a, rng.choice(S, 6, replace=False)] = rng.dirichlet(np.full(6, 0.4)) * 0.8
            share = rng.beta(2, 2) if a else 0.5
            chances[0, s, a, S:] = 0.2 * share, 0.2 * (1 - share)
    behaviour = np.broadcast_to(rng.dirichlet(np.full(A, 1.0), (1, S)), (H, S, A))
    return _near_the_behaviour(Shape(S, A, H), chances, rng.dirichlet(np.ones(S)), behaviour)


@cache
def sepsis() -> World:
    """ICU-Sepsis: patients die or survive, which ends their episode; the behaviour is the clinicians'."""
    made, S, A, H = icu_sepsis(), SURVIVAL - 1, 25, 20
    P = np.asarray(made.transitions)[0, :S]
    chances = np.concatenate([P[..., :S], P[..., [SURVIVAL]], P[..., [SURVIVAL - 1]]], axis=2)[None]
    behaviour = clinicians().probabilities[:, :S]
    shape = Shape(S, A, H, homogeneous=True)
    return _near_the_behaviour(shape, chances, np.asarray(made.start)[:S], behaviour)


def _near_the_behaviour(shape: Shape, chances: Floats, start: Floats, behaviour: Floats) -> World:
    """A world with 1 at the first kind of end; the given policy is the behaviour with a share of the best one."""
    rewards = np.zeros((1, 1, 1, chances.shape[3]))
    rewards[..., shape.states] = 1.0
    rewards = np.broadcast_to(rewards, chances.shape)
    world = World(shape, chances, rewards, start, behaviour, behaviour, (0.0, 1.0), True)
    return world._replace(given=mixed(world, greedy(world, None)))


def mixed(world: World, policy: Floats) -> Floats:
    """The behaviour with a share of a policy: near enough to it for importance sampling."""
    return (1 - MIXED) * world.behaviour + MIXED * policy


def pooled(world: World) -> World:
    """The same world with counts of all steps pooled: its laws are the same at every step."""
    return world._replace(shape=replace(world.shape, homogeneous=True))


WORLDS: dict[str, Callable[[list[int]], World]] = {
    "dirichlet": dirichlet,
    "river": lambda seed: river(),
    "hospital": lambda seed: hospital(),
    "wards": lambda seed: wards(),
    "river-pooled": lambda seed: pooled(river()),
    "hospital-pooled": lambda seed: pooled(hospital()),
    "icu-sepsis": lambda seed: sepsis(),
}
WITHOUT_TABLE = ("wards", "icu-sepsis")


def two_point(chances: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Rewards of 0 or 1 beside successors: their means, drawn as 0 or 1 when users act."""
    return chances, np.broadcast_to(means[..., None], chances.shape)


def greedy(world: World, rng: np.random.Generator | None) -> Floats:
    """The best of what somebody does; with a generator a policy that takes another action in every fifth state."""
    best = values(world, None)[0].argmax(axis=2)
    if rng is not None:
        other = rng.integers(world.shape.actions, size=best.shape)
        best = np.where(rng.random(best.shape) < 0.2, other, best)
    return np.eye(world.shape.actions)[best]


def values(world: World, policy: Floats | None) -> tuple[Floats, float]:
    """Q of a policy (None: the best of what somebody does), and its value."""
    H, S, A = world.behaviour.shape
    now = np.einsum("gsat,gsat->gsa", world.chances, world.rewards)
    q, v = np.zeros((H, S, A)), np.zeros(S)
    for h in range(H - 1, -1, -1):
        g = h if len(world.chances) > 1 else 0
        q[h] = now[g] + world.chances[g, ..., :S] @ v
        if policy is None:
            q[h][world.behaviour[h] == 0] = -np.inf  # nobody does it
        v = q[h].max(axis=1) if policy is None else (policy[h] * q[h]).sum(axis=1)
    return q, float(world.start @ v)


class Crowd:
    """Users who follow the behaviour of a world, as many as are asked for."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.starts, self.acts = Draws(world.start[None]), Draws(world.behaviour.reshape(-1, world.shape.actions))
        self.outcomes = Draws(world.chances.reshape(-1, world.chances.shape[3]))

    def act(self, users: int, rng: np.random.Generator) -> Paths:
        """Trajectories of users."""
        world, shape = self.world, self.world.shape
        S, A, H, (low, span) = shape.states, shape.actions, shape.horizon, (shape.rewards[0], shape.reward_span)
        who, state = np.arange(users), self.starts(np.zeros(users, np.int64), rng)
        parts = []
        for h in range(H):
            g = h if len(world.chances) > 1 else 0
            action = self.acts(h * S + state, rng)
            outcome = self.outcomes((g * S + state) * A + action, rng)
            reward = (world.rewards[g, state, action, outcome] - low) / span
            if not world.ends:  # two_point
                reward = (rng.random(len(who)) < reward).astype(float)
            end = np.where((outcome >= S) | (h == H - 1), S, outcome)
            parts.append((who, np.full(len(who), h), state, action, end, reward))
            going = outcome < S
            who, state = who[going], outcome[going]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[0], kind="stable")  # user behind user
        return Paths(users, *(column[order] for column in columns))


class Draws:
    """Draws from the rows of a table of distributions, entries that never occur left out."""

    def __init__(self, rows: Floats) -> None:
        kept = np.nonzero(rows > 0)
        self.ends = np.cumsum(np.bincount(kept[0], minlength=len(rows)))
        below = np.cumsum(rows, axis=1)[kept] / rows.sum(axis=1)[kept[0]]
        below[self.ends - 1] = 1.0
        self.edges, self.entries = kept[0] + below, kept[1]

    def __call__(self, which: Integers, rng: np.random.Generator) -> Integers:
        at = np.searchsorted(self.edges, which + rng.random(len(which)), side="right")
        drawn: Integers = self.entries[np.minimum(at, self.ends[which] - 1)]
        return drawn


def split(paths: Paths, first: int) -> tuple[Paths, Paths]:
    """The first users and the others: they are independent, so no permutation is needed."""
    early = paths.user < first
    one, two = (Paths(0, *(column[which] for column in paths[1:])) for which in (early, ~early))
    return one._replace(users=first), two._replace(users=paths.users - first, user=two.user - first)

"""Users who live in the released model: what contributions look like there, without anybody's data.

Successors are drawn from repaired rows. Of rewards a release knows the mean only; they are drawn from the two ends of
the declared range, which have that mean and the largest spread, so what is chosen here is on the safe side. Draws come
from a fixed seed: they are a public function of the release.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.base.compiled import inlined, kernel
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers
from discreet.tables.evaluation.released_model import Model
from discreet.tables.read.user_subsets import Paths


class _Grid(NamedTuple):
    """Trajectories, one line for each user (users, H), and how many rows each has."""

    state: Integers
    action: Integers
    successor: Integers
    reward: Floats
    rows: Integers


def imagined_users(model: Model, behaviour: Floats, shape: Shape, users: int, seed: int) -> Paths:
    """Trajectories of users who follow the behaviour in the released model."""
    rng = np.random.default_rng(seed)
    S, H = shape.states, shape.horizon
    grid = _Grid(_whole(users, H), _whole(users, H), _whole(users, H), np.empty((users, H)), np.zeros(users, np.int64))
    who, state = np.arange(users), _whole(users)
    _place(rng.random(users), np.cumsum(model.start), state)
    means = (model.rewards - shape.rewards[0]) / shape.reward_span
    edges = np.cumsum(model.repaired, axis=3)
    for h in range(H):
        if len(who) == 0:
            break
        g = model.at(h)
        draws = [rng.random(len(who)) for _ in range(3)]
        going = _step(h, who, state, np.cumsum(behaviour[h], axis=1), edges[g], means[g], *draws, grid)
        who, state = who[:going], state[:going]
    total = int(grid.rows.sum())
    paths = Paths(users, _whole(total), _whole(total), _whole(total), _whole(total), _whole(total), np.empty(total))
    _in_a_row(grid, S, *paths[1:])
    return paths


def _whole(*size: int) -> Integers:
    """An empty array of whole numbers."""
    return np.empty(size, np.int64)


@inlined
def _drawn(point: float, edges: Floats) -> int:
    """How many edges of a row lie below a point, which is a share of the last."""
    point *= edges[-1]
    found = 0
    while found < len(edges) - 1 and point > edges[found]:
        found += 1
    return found


@kernel
def _place(points: Floats, edges: Floats, out: Integers) -> None:
    for i in range(len(points)):
        out[i] = _drawn(points[i], edges)


@kernel
def _step(
    h: int, who: Integers, state: Integers, acts: Floats, edges: Floats, means: Floats, first: Floats, second: Floats,
    third: Floats, grid: _Grid,
) -> int:  # fmt: skip
    """Step h of everybody who is still there; those who go on move to the front, and it says how many they are."""
    going, S = 0, len(acts)
    for i in range(len(who)):
        user, s = who[i], state[i]
        a = _drawn(first[i], acts[s])
        t = _drawn(second[i], edges[s, a])
        grid.state[user, h], grid.action[user, h], grid.successor[user, h] = s, a, t
        grid.reward[user, h] = 1.0 if third[i] < means[s, a] else 0.0
        grid.rows[user] = h + 1
        if t < S:
            who[going], state[going] = user, t
            going += 1
    return going


@kernel
def _in_a_row(
    grid: _Grid, S: int, user: Integers, step: Integers, state: Integers, action: Integers, successor: Integers,
    reward: Floats,
) -> None:  # fmt: skip
    """The rows of all users, user behind user; after the last step everybody is gone."""
    at = 0
    for i in range(len(grid.rows)):
        for h in range(grid.rows[i]):
            user[at], step[at] = i, h
            state[at], action[at], reward[at] = grid.state[i, h], grid.action[i, h], grid.reward[i, h]
            successor[at] = S if h == grid.state.shape[1] - 1 else grid.successor[i, h]
            at += 1

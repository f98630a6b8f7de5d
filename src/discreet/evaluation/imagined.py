"""Users who live in the released model: what contributions look like there, without anybody's data.

Successors are drawn from repaired rows. Of rewards a release knows the mean only; they are drawn from the two ends of
the declared range, which have that mean and the largest spread, so what is chosen here is on the safe side. Draws come
from a fixed seed: they are a public function of the release.
"""

from __future__ import annotations

import numpy as np

from discreet.data.parts import Paths
from discreet.evaluation.model import Model
from discreet.shape import Shape
from discreet.types import Floats, Integers


def imagined_users(model: Model, behaviour: Floats, shape: Shape, users: int, seed: int) -> Paths:
    """Trajectories of users who follow the behaviour in the released model."""
    rng = np.random.default_rng(seed)
    S, A, H = shape.states, shape.actions, shape.horizon
    who, state = np.arange(users), _drawn(rng, model.start[None], np.zeros(users, np.int64))
    parts: list[tuple[Integers, ...]] = []
    rewards = []
    for h in range(H):
        if len(who) == 0:
            break
        g = model.at(h)
        action = _drawn(rng, behaviour[h], state)
        successor = _drawn(rng, model.repaired[g].reshape(S * A, S + 1), state * A + action)
        mean = (model.rewards[g, state, action] - shape.rewards[0]) / shape.reward_span
        parts.append((who, np.full(len(who), h), state, action, np.where(h == H - 1, S, successor)))
        rewards.append((rng.random(len(who)) < mean).astype(np.float64))
        going = successor < S
        who, state = who[going], successor[going]
    user, step, at, taken, after = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(user, kind="stable")  # user behind user
    return Paths(users, user[order], step[order], at[order], taken[order], after[order], np.concatenate(rewards)[order])


def _drawn(rng: np.random.Generator, rows: Floats, which: Integers) -> Integers:
    """One draw from the row of each."""
    edges = np.cumsum(rows, axis=1)
    point = rng.random(len(which)) * edges[which, -1]
    drawn: Integers = np.minimum((point[:, None] > edges[which]).sum(axis=1), rows.shape[1] - 1)
    return drawn

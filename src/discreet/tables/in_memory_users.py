"""Trajectories in memory as privatizers see users: for rehearsals in known worlds, with the counts of real tables."""

from __future__ import annotations

import numpy as np

from discreet.base.shape import Shape
from discreet.mechanisms.counts.joint_histogram import JointCounts
from discreet.tables.read.table import CountedUsers
from discreet.tables.read.user_subsets import Paths


class PathUsers(CountedUsers):
    """Users whose trajectories are in memory; rewards are rounded to levels by a seeded generator: simulation only."""

    def __init__(self, paths: Paths, shape: Shape, ends: bool, rng: np.random.Generator) -> None:
        super().__init__(lambda levels, first_visit: joint_counts(paths, shape, ends, levels, first_visit, rng))


def joint_counts(
    paths: Paths, shape: Shape, ends: bool, levels: int, first_visit: bool, rng: np.random.Generator
) -> JointCounts:
    """The joint histogram that a table of these trajectories has, by the rules of :mod:`discreet.tables.read.query`."""
    S, A, H = shape.states, shape.actions, shape.horizon
    pair = paths.state * A + paths.action
    kept = np.ones(len(pair), np.bool_)
    if shape.homogeneous and ends and H > 1:
        kept = paths.step < H - 1
    if first_visit:
        key = (paths.user * (S * A) + pair)[kept] * H + paths.step[kept]
        order = np.argsort(key, kind="stable")
        visit = key[order] // H
        first = np.concatenate([[True], visit[1:] != visit[:-1]]) if len(visit) else np.zeros(0, np.bool_)
        where = np.flatnonzero(kept)[order[first]]
        kept = np.zeros(len(pair), np.bool_)
        kept[where] = True
    position = paths.reward[kept] * (levels - 1)
    level = np.minimum(np.floor(position + rng.random(len(position))), levels - 1).astype(np.int64)
    group = 0 if shape.homogeneous else paths.step[kept]
    cell = (group * (S * A) + pair[kept]) * (S + 1) + paths.successor[kept]
    keys, counts = np.unique(cell * levels + level, return_counts=True)
    return JointCounts(keys, counts, levels)

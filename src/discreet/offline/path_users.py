"""Trajectories in memory as privatizers see users: for rehearsals in known worlds, with the counts of real tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet.data.parts import Paths
from discreet.encoders.base import Context, Encoder
from discreet.encoders.joint import JointCounts, as_counted
from discreet.errors import Unsupported
from discreet.shape import Shape
from discreet.types import Floats


class PathUsers:
    """Users whose trajectories are in memory; rewards are rounded to levels by a seeded generator: simulation only."""

    def __init__(self, paths: Paths, shape: Shape, ends: bool, rng: np.random.Generator) -> None:
        self._paths, self._shape, self._ends, self._rng = paths, shape, ends, rng
        self._joint: dict[tuple[int, bool], JointCounts] = {}

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        """The encodings of everybody, counted once however often they are asked for."""
        return [self._counted(encoder) for encoder in encoders]

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        """Refused: a data set is counted as a whole."""
        raise Unsupported("a data set is counted by the one who holds it: nobody sends messages")

    def _counted(self, encoder: Encoder) -> Floats:
        counted = as_counted(encoder)
        how = counted.reward_levels, counted.first_visit
        if how not in self._joint:
            self._joint[how] = joint_counts(self._paths, self._shape, self._ends, how[0], how[1], self._rng)
        return counted.from_joint(self._joint[how])


def joint_counts(
    paths: Paths, shape: Shape, ends: bool, levels: int, first_visit: bool, rng: np.random.Generator
) -> JointCounts:
    """The joint histogram that a table of these trajectories has, by the rules of :mod:`discreet.data.query`."""
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

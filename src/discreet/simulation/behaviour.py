"""Users of a behaviour policy, counted without being played: a cascade of multinomial draws.

All users start at once; those in a state are split over its actions, those of an action over its successors, those of a
successor over the levels of the reward. The counts have exactly the law of the counts of users who act one by one, at a
cost that does not depend on how many there are. First visits depend on whole paths: they are played.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet.channels.sparse import SparseTable
from discreet.encoders.base import Context, Encoder
from discreet.encoders.joint import JointCounts, as_counted
from discreet.errors import Unsupported
from discreet.policies import StochasticPolicy
from discreet.simulation.users import TabularUsers
from discreet.streams import Stream
from discreet.types import Floats, Integers
from discreet.worlds.rewards import Bernoulli, Deterministic, Finite, OnTransition
from discreet.worlds.tabular import TabularWorld


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

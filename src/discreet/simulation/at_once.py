"""Many users under one policy at a cost that does not depend on how many.

Users are exchangeable, so only counts matter. Let n_h(s) users be in state s at step h. Their actions, successors and
reward bits are multinomial given n_h(s), and the successors' counts are n_{h+1}: a cascade of H draws gives the table

    N(h, s, a, successor or end, reward bit)

with exactly the law that it has when every user is simulated. Encoders that count every visit are sums of that table.
First visits depend on the path of each user, so they are not, and neither are several picked steps.

If one step is picked per user, the users picked at different steps are different people: the cells of step h are one
multinomial draw from the exact occupancy of step h, independent of all others.

A reward enters as one bit of probability (E r - low) / span given (s, a, successor): stochastic rounding of a reward
that is random itself is a coin with its mean. Tables of unrounded rewards are served where rewards are known numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.encoders.base import by_successor
from discreet.encoders.joint import JointHistogram
from discreet.encoders.sampled_step import SampledStep
from discreet.encoders.tables import ThreeTables
from discreet.policies import Policy, StochasticPolicy
from discreet.types import Floats, Integers
from discreet.worlds.rewards import Bernoulli, Deterministic, Finite, FiniteOnTransition, OnTransition
from discreet.worlds.tabular import TabularWorld


class AtOnce:
    """The tallies of one world, where they can be drawn at once."""

    def __init__(self, world: TabularWorld, generator: np.random.Generator) -> None:
        self._world, self._generator = world, generator
        means = _means_given_successor(world)
        low, high = world.reward_range
        self._bits = None if means is None else np.clip((means - low) / (high - low), 0.0, 1.0)
        self._last: tuple[Any, Floats] | None = None

    def serves(self, encoder: Any) -> bool:
        """Whether the tally of this encoder can be drawn without simulating every user."""
        if self._bits is None:
            return False
        match encoder:
            case SampledStep(steps=1) | JointHistogram():
                return True
            case ThreeTables(rounded=rounded):
                return rounded or isinstance(self._world.rewards, Bernoulli)
            case _:
                return False

    def tally(self, encoder: Any, policy: Policy | StochasticPolicy, users: int) -> Floats:
        """The sum of the encodings of ``users`` users who follow ``policy``."""
        if isinstance(encoder, SampledStep):
            return self._picked(encoder, policy, users)
        counts = self._counts(policy, users)
        if not encoder.shape.homogeneous or encoder.shape.horizon == 1:
            grouped = counts
        else:
            grouped = counts.sum(axis=0, keepdims=True)
        if isinstance(encoder, JointHistogram):
            return np.asarray(grouped.reshape(-1), np.float64)
        S = encoder.shape.states
        transitions = by_successor(grouped[:, :, :, :S].sum(axis=4))
        tables = grouped.sum(axis=(3, 4)), transitions, grouped[:, :, :, :, 1].sum(axis=3)
        return np.concatenate([table.reshape(-1) for table in tables]).astype(np.float64)

    def _picked(self, encoder: SampledStep, policy: Policy | StochasticPolicy, users: int) -> Floats:
        H = self._world.horizon
        asked = self._generator.multinomial(users, np.full(H, 1.0 / H))
        occupancy = self._occupancy(policy)
        items = self._generator.multinomial(asked, occupancy)
        return np.concatenate([items.reshape(-1), asked]).astype(np.float64)

    def _occupancy(self, policy: Policy | StochasticPolicy) -> Floats:
        """The law of an item at each step: (H, cells of a step)."""
        if self._last is not None and self._last[0] == policy:
            return self._last[1]
        world = self._world
        S, H = world.start.size, world.horizon
        table = np.zeros((H, S, world.transitions.shape[2], S + 1, 2))
        here = np.array(world.start)
        for h in range(H):
            g = h if len(world.transitions) > 1 else 0
            paths = here[:, None, None] * _plays(policy, h, table.shape[2])[:, :, None] * world.transitions[g]
            ones = paths * self._bit_table(g)
            if h + 1 < H:
                table[h, :, :, :S, 1], table[h, :, :, :S, 0] = ones, paths - ones
            else:
                table[h, :, :, S, 1], table[h, :, :, S, 0] = ones.sum(axis=2), (paths - ones).sum(axis=2)
            here = paths.sum(axis=(0, 1))
        flat = np.maximum(table.reshape(H, -1), 0.0)
        flat /= flat.sum(axis=1, keepdims=True)
        self._last = policy, flat
        return flat

    def _counts(self, policy: Policy | StochasticPolicy, users: int) -> Integers:
        world, draw = self._world, self._generator
        S, A, H = world.start.size, world.transitions.shape[2], world.horizon
        table = np.zeros((H, S, A, S + 1, 2), np.int64)
        here = draw.multinomial(users, _exactly_one(world.start))
        for h in range(H):
            g = h if len(world.transitions) > 1 else 0
            acting = draw.multinomial(here, _exactly_one(_plays(policy, h, A)))
            paths = draw.multinomial(acting, _exactly_one(world.transitions[g]))
            ones = draw.binomial(paths, np.broadcast_to(self._bit_table(g), paths.shape))
            if h + 1 < H:
                table[h, :, :, :S, 1], table[h, :, :, :S, 0] = ones, paths - ones
            else:
                table[h, :, :, S, 1], table[h, :, :, S, 0] = ones.sum(axis=2), (paths - ones).sum(axis=2)
            here = paths.sum(axis=(0, 1))
        return table

    def _bit_table(self, g: int) -> Floats:
        assert self._bits is not None
        return np.asarray(self._bits[g if len(self._bits) > 1 else 0])


def _plays(policy: Policy | StochasticPolicy, h: int, actions: int) -> Floats:
    """The probability of every action in every state at step h."""
    if isinstance(policy, StochasticPolicy):
        return np.asarray(policy.probabilities[h])
    return np.asarray(policy.actions[h][:, None] == np.arange(actions), np.float64)


def _exactly_one(probabilities: Floats) -> Floats:
    """Probabilities whose sum does not exceed one by rounding, which the generator refuses."""
    return np.asarray(probabilities / np.maximum(probabilities.sum(axis=-1, keepdims=True), 1.0))


def _means_given_successor(world: TabularWorld) -> Floats | None:
    """Expected rewards given the successor, (G, S, A, S) or (G, S, A, 1); None for laws that are not known here."""
    match world.rewards:
        case Deterministic(means) | Bernoulli(means):
            return np.asarray(means)[..., None]
        case OnTransition(values):
            return np.asarray(values)
        case Finite(values, cumulative):
            return np.asarray(np.diff(cumulative, axis=-1, prepend=0.0) @ values)[..., None]
        case FiniteOnTransition(values, cumulative):
            return np.asarray(np.diff(cumulative, axis=-1, prepend=0.0) @ values)
        case _:
            return None

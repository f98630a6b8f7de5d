"""Simulated users: they act under a policy in a world, and only encodings of what they did come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from discreet.compiled import kernel
from discreet.encoders.base import Context, Encoder, encode_all
from discreet.policies import AnyPolicy, Mixture, Policy, StochasticPolicy
from discreet.simulation.at_once import Cascade
from discreet.streams import Stream, next_word
from discreet.trajectories import Trajectories
from discreet.types import Floats, Integers
from discreet.worlds.rewards import cumulative
from discreet.worlds.tabular import TabularWorld, WorldArrays, rollout, rollout_stochastic

_AT_ONCE = 4096  # users simulated at a time: enough to amortise a call, few enough to stay in cache
_MANY = 512  # from here on one draw for all of them is cheaper than simulating each


class SimulatedUsers:
    """Everybody who will ever act in one simulated run.

    ``deterministic_switches`` counts how often consecutive users followed different deterministic policies; a mixture's
    component is drawn for each user with public coins, and so are the actions of a stochastic policy.
    """

    def __init__(self, world: TabularWorld, stream: Stream, coins: np.random.Generator) -> None:
        self.deterministic_switches = 0
        self._world, self._horizon = world.arrays(), world.horizon
        self._stream, self._coins = stream, coins
        self._encoders: dict[Encoder, Any] = {}
        self._last: AnyPolicy | None = None
        self._cascade = Cascade(world, np.random.default_rng(int(next_word(stream))))

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        sums = [np.zeros((1, encoder.size)) for encoder in encoders]
        # Several encoders see the same users, which draws of their own could not give.
        at_once = len(encoders) == 1 and self._cascade.serves(encoders[0])
        for component, count in self._assign(context.policy, users):
            if at_once and count >= _MANY:
                sums[0][0] += self._cascade.tally(encoders[0], component, count)
                continue
            for played in self._batches(component, count):
                for encoder, total in zip(encoders, sums, strict=True):
                    self._encode(encoder, played, total)
        return [total[0] for total in sums]

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        parts = []
        for played in self._play(context.policy, users):
            for i in range(len(played)):
                one = np.zeros((1, encoder.size))
                self._encode(encoder, _rows(played, slice(i, i + 1)), one)
                parts.append(one)
        return np.concatenate(parts)

    def _encode(self, encoder: Encoder, played: Trajectories, out: Floats) -> None:
        arrays = self._encoders.setdefault(encoder, encoder.arrays())
        encode_all(arrays, played.states, played.actions, played.rewards, played.lengths, self._stream, out)

    def _play(self, policy: AnyPolicy, users: int) -> Iterator[Trajectories]:
        for component, count in self._assign(policy, users):
            yield from self._batches(component, count)

    def _batches(self, policy: Policy | StochasticPolicy, users: int) -> Iterator[Trajectories]:
        for first in range(0, users, _AT_ONCE):
            yield self._episodes(policy, min(_AT_ONCE, users - first))

    def _assign(self, policy: AnyPolicy, users: int) -> list[tuple[Policy | StochasticPolicy, int]]:
        """Who plays what. Users are exchangeable, so those with the same component are simulated together."""
        if not isinstance(policy, Mixture):
            self._count(policy, users if isinstance(policy, StochasticPolicy) else 1, policy)
            return [(policy, users)]
        drawn = self._coins.choice(len(policy.components), size=users, p=policy.weights)
        self._count(
            policy.components[drawn[0]], 1 + int(np.count_nonzero(np.diff(drawn))), policy.components[drawn[-1]]
        )
        counts = np.bincount(drawn, minlength=len(policy.components))
        return [(component, int(n)) for component, n in zip(policy.components, counts, strict=True) if n]

    def _count(self, first: AnyPolicy, pieces: int, last: AnyPolicy) -> None:
        """Add the switches of a block that deploys ``pieces`` deterministic policies one after the other."""
        changed = self._last is not None and (self._last != first or isinstance(first, StochasticPolicy))
        self.deterministic_switches += pieces - 1 + changed
        self._last = last

    def _episodes(self, policy: Policy | StochasticPolicy, users: int) -> Trajectories:
        H = self._horizon
        played = Trajectories(
            np.empty((users, H), np.int64), np.empty((users, H), np.int64), np.empty((users, H)), np.full(users, H)
        )
        if isinstance(policy, Policy):
            _play_deterministic(
                self._world, np.array(policy.actions), self._stream, played.states, played.actions, played.rewards
            )
        else:
            actions = cumulative(policy.probabilities)
            _play_stochastic(self._world, actions, self._stream, played.states, played.actions, played.rewards)
        return played


def _rows(played: Trajectories, rows: slice) -> Trajectories:
    return Trajectories(played.states[rows], played.actions[rows], played.rewards[rows], played.lengths[rows])


@kernel
def _play_deterministic(
    world: WorldArrays,
    policy: Integers,
    stream: Stream,
    states: Integers,
    actions: Integers,
    rewards: Floats,
) -> None:
    for i in range(states.shape[0]):
        rollout(world, policy, stream, states[i], actions[i], rewards[i])


@kernel
def _play_stochastic(
    world: WorldArrays,
    cumulative_policy: Floats,
    stream: Stream,
    states: Integers,
    actions: Integers,
    rewards: Floats,
) -> None:
    for i in range(states.shape[0]):
        rollout_stochastic(world, cumulative_policy, stream, states[i], actions[i], rewards[i])

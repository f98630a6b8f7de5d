"""Simulated users: they act under a policy in a world, and only encodings of what they did come out.

``SimulatedUsers`` act when they are asked; ``BehaviourUsers`` have acted already, under one behaviour policy, and leave
a data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from discreet.compiled import kernel
from discreet.encoders.base import Context, Encoder, encode_all
from discreet.policies import AnyPolicy, Mixture, Policy, StochasticPolicy
from discreet.simulation.at_once import AtOnce
from discreet.simulation.judge import GapJudge, Judge
from discreet.streams import Stream, next_word
from discreet.trajectories import Trajectories
from discreet.types import Floats, Integers
from discreet.worlds.rewards import cumulative
from discreet.worlds.tabular import TabularWorld, WorldArrays, rollout, rollout_stochastic

_AT_ONCE = 4096  # users simulated at a time: enough to amortise a call, few enough to stay in cache
_MANY = 512  # from here on one draw for all of them is cheaper than simulating each


class SimulatedUsers:
    """Everybody who will ever act in one simulated run; what they do in their world is up to the kind of world.

    ``deterministic_switches`` counts how often consecutive users followed different deterministic policies; a mixture's
    component is drawn for each user with public coins, and so are the actions of a stochastic policy.
    """

    def __init__(self, draws: Stream, coins: np.random.Generator) -> None:
        self.deterministic_switches = 0
        self._stream, self._coins = draws, coins
        self._encoders: dict[Encoder, Any] = {}
        self._last: AnyPolicy | None = None

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        """For each encoder the sum of the encodings of the same next ``users`` users."""
        sums = [np.zeros((1, encoder.size)) for encoder in encoders]
        for component, count in self._assign(context.policy, users):
            self._add(encoders, component, count, sums)
        return [total[0] for total in sums]

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        """The encodings of the next ``users`` users, one row each."""
        cells, i = np.zeros((users, encoder.size)), 0
        for component, count in self._assign(context.policy, users):
            for first in range(0, count, _AT_ONCE):
                played = self._episodes(component, min(_AT_ONCE, count - first))
                for one in range(len(played)):
                    self._encode(encoder, played.only(one), cells[i : i + 1])
                    i += 1
        return cells

    def _add(
        self, encoders: Sequence[Encoder], policy: Policy | StochasticPolicy, users: int, sums: list[Floats]
    ) -> None:
        """Let users follow one policy, and add their encodings to the sums."""
        for first in range(0, users, _AT_ONCE):
            played = self._episodes(policy, min(_AT_ONCE, users - first))
            for encoder, total in zip(encoders, sums, strict=True):
                self._encode(encoder, played, total)

    def _episodes(self, policy: Policy | StochasticPolicy, users: int) -> Trajectories:
        raise NotImplementedError

    def _encode(self, encoder: Encoder, played: Trajectories, out: Floats) -> None:
        arrays = self._encoders.setdefault(encoder, encoder.arrays())
        encode_all(arrays, played.states, played.actions, played.rewards, played.lengths, self._stream, out)

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


class TabularUsers(SimulatedUsers):
    """Users of a tabular world."""

    def __init__(self, world: TabularWorld, draws: Stream, coins: np.random.Generator) -> None:
        super().__init__(draws, coins)
        self._world, self._horizon = world.arrays(), world.horizon
        self._at_once = AtOnce(world, np.random.default_rng(int(next_word(draws))))

    def _add(
        self, encoders: Sequence[Encoder], policy: Policy | StochasticPolicy, users: int, sums: list[Floats]
    ) -> None:
        """Many users are counted at once, unless several encoders see them: draws of their own would not agree."""
        if users >= _MANY and len(encoders) == 1 and self._at_once.serves(encoders[0]):
            sums[0][0] += self._at_once.tally(encoders[0], policy, users)
        else:
            super()._add(encoders, policy, users, sums)

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


class People(NamedTuple):
    """The users of one run, and who judges what they are made to do."""

    users: SimulatedUsers
    judge: Judge


def tabular_people(world: TabularWorld, episodes: int, draws: Stream, coins: np.random.Generator) -> People:
    """The users of one run in a tabular world, and their judge. ``coins`` draw the components of mixtures."""
    return People(TabularUsers(world, draws, coins), GapJudge(world, episodes))


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

"""Users of layered worlds, each with the loss table of her episode, and their judge: the best policy in hindsight.

An adversary fixes all loss tables before the first user acts. At every checkpoint k the run has lost
sum_{i<=k} <q(pi_i), l_i>, and the comparator is the fixed policy that is best for exactly these k tables; both are
exact. There is no final gap: what the next table will be is the adversary's secret.
"""

from __future__ import annotations

import numpy as np

from discreet.base.policies import AnyPolicy, Mixture, Policy, StochasticPolicy
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.mechanisms.counts.encoder import Encoder
from discreet.mechanisms.trajectories import Trajectories
from discreet.problems.adversarial.encoders import LossTable
from discreet.problems.adversarial.world import LayeredWorld, play
from discreet.simulation.block_loop import People, RunRecord
from discreet.simulation.users import SimulatedUsers


class LayeredUsers(SimulatedUsers):
    """Everybody who will act in one run, in order; ``losses`` has a table for each of them."""

    def __init__(self, world: LayeredWorld, losses: Floats, draws: Stream, coins: np.random.Generator) -> None:
        super().__init__(draws, coins)
        self._world, self._losses, self._next = world, losses, 0
        self._transitions, self._arrays = np.array(world.transitions), world.layers.arrays
        self._tables = losses[:0]

    def _drawn(self, policy: Mixture, users: int) -> list[tuple[Policy | StochasticPolicy, int]]:
        """Tables differ from user to user, so a mixture's component is drawn for each of them in turn."""
        drawn = [policy.draw(self._coins) for _ in range(users)]
        for component in drawn:
            self._count(component, 1, component)
        return [(component, 1) for component in drawn]

    def _episodes(self, policy: Policy | StochasticPolicy, users: int) -> Trajectories:
        self._tables = np.ascontiguousarray(self._losses[self._next : self._next + users])
        self._next += users
        H = self._world.layers.horizon
        played = Trajectories(
            np.empty((users, H), np.int64), np.empty((users, H), np.int64), np.empty((users, H)), np.full(users, H)
        )
        cumulative = np.cumsum(self._world.action_probabilities(policy), axis=1)
        play(
            self._arrays, self._transitions, cumulative, self._tables, self._stream,
            played.states, played.actions, played.rewards,
        )  # fmt: skip
        return played

    def _encode(self, encoder: Encoder, played: Trajectories, out: Floats) -> None:
        """A loss table is what the user has, wherever she went."""
        if isinstance(encoder, LossTable):
            out[0] += encoder.tally(self._tables, self._stream)
        else:
            super()._encode(encoder, played, out)


class HindsightJudge:
    """Counts what was lost against every user's own table, and compares with the best fixed policy at the end."""

    def __init__(self, world: LayeredWorld, losses: Floats) -> None:
        self._world, self._losses = world, losses
        self._suffered = np.zeros(len(losses))
        self._occupancy = np.zeros(losses.shape[1:])

    def deploy(self, policy: AnyPolicy) -> None:
        """Note the policy that the next users follow."""
        self._occupancy = self._world.occupancy(policy)

    def count(self, begin: int, end: int) -> None:
        """Add the losses of users number ``begin`` to ``end`` - 1 under that policy."""
        self._suffered[begin:end] = np.tensordot(self._losses[begin:end], self._occupancy, axes=2)

    def verdict(self, record: RunRecord, recommended: AnyPolicy, deployed: AnyPolicy) -> None:
        """Write the regret of the run into its record."""
        best = _best_in_hindsight(self._world, self._losses, record.episodes)
        record.regret[:] = np.cumsum(self._suffered)[record.episodes - 1] - best


def layered_people(world: LayeredWorld, episodes: int, draws: Stream, coins: np.random.Generator) -> People:
    """The users of one run and their judge."""
    losses = world.losses(episodes)
    return People(LayeredUsers(world, losses, draws, coins), HindsightJudge(world, losses))


def _best_in_hindsight(world: LayeredWorld, losses: Floats, ends: Integers) -> Floats:
    """The smallest loss of a fixed policy over the first k tables, for every checkpoint k."""
    total, begin, best = np.zeros(losses.shape[1:]), 0, np.empty(len(ends))
    for i, end in enumerate(ends):
        total += losses[begin:end].sum(axis=0)
        begin = end
        best[i] = world.best_fixed(total)[0]
    return best

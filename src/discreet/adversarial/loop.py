"""Runs against adversarial losses: the session answers as ever, and regret is against the best policy in hindsight.

An adversary fixes all loss tables before the first user acts. At every checkpoint k the run has lost
sum_{i<=k} <q(pi_i), l_i>, and the comparator is the fixed policy that is best for exactly these k tables; both are
exact. There is no final gap: what the next table will be is the adversary's secret.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from discreet.accumulators.base import SimulatedNoise
from discreet.adversarial.encoders import LossTable
from discreet.adversarial.world import LayeredWorld, play
from discreet.encoders.base import Context, Encoder, encode_all
from discreet.learners.base import Learner, Problem
from discreet.policies import AnyPolicy, Mixture, Policy
from discreet.recipes.session import Privatizer
from discreet.simulation.record import RunRecord, checkpoints
from discreet.streams import COINS, NOISE, USERS, Stream, generator, stream
from discreet.trajectories import Trajectories
from discreet.types import Floats, Integers


class LayeredUsers:
    """Everybody who will act in one run, in order, each with the loss table of her episode."""

    def __init__(self, world: LayeredWorld, losses: Floats, draws: Stream, coins: np.random.Generator) -> None:
        self.deterministic_switches = 0
        self._world, self._losses, self._stream, self._coins = world, losses, draws, coins
        self._transitions, self._arrays = np.array(world.transitions), world.layers.arrays
        self._next = 0
        self._last: AnyPolicy | None = None
        self._encoders: dict[Encoder, Any] = {}

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        parts = self._encoded(encoders, context.policy, users)
        return [np.sum([part[i] for part in parts], axis=0) for i in range(len(encoders))]

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        rows = [self._encoded([encoder], context.policy, 1)[0][0] for _ in range(users)]
        return np.stack(rows)

    def _encoded(self, encoders: Sequence[Encoder], policy: AnyPolicy, users: int) -> list[list[Floats]]:
        """The sums of the encodings, part by part: users who follow the same component one after the other."""
        parts = []
        for component, count in self._assigned(policy, users):
            tables = np.ascontiguousarray(self._losses[self._next : self._next + count])
            self._next += count
            played = self._episodes(component, tables)
            parts.append([self._encode(encoder, played, tables) for encoder in encoders])
        return parts

    def _encode(self, encoder: Encoder, played: Trajectories, tables: Floats) -> Floats:
        if isinstance(encoder, LossTable):
            return encoder.tally(tables, self._stream)
        if encoder not in self._encoders:
            self._encoders[encoder] = encoder.arrays()
        cells: Floats = np.zeros((1, encoder.size))
        p = played
        encode_all(self._encoders[encoder], p.states, p.actions, p.rewards, p.lengths, self._stream, cells)
        return np.asarray(cells[0])

    def _assigned(self, policy: AnyPolicy, users: int) -> list[tuple[AnyPolicy, int]]:
        """Tables differ from user to user, so a mixture's component is drawn for each of them in turn."""
        if isinstance(policy, Mixture):
            drawn = [policy.draw(self._coins) for _ in range(users)]
            self.deterministic_switches += sum(self._changed(component) for component in drawn)
            return [(component, 1) for component in drawn]
        changed = self._changed(policy)
        self.deterministic_switches += changed if isinstance(policy, Policy) else users - 1 + changed
        return [(policy, users)]

    def _changed(self, policy: AnyPolicy) -> bool:
        """Whether this user follows another deterministic policy than the last; a stochastic one is drawn afresh."""
        before, self._last = self._last, policy
        return before is not None and (not isinstance(policy, Policy) or before != policy)

    def _episodes(self, policy: AnyPolicy, tables: Floats) -> Trajectories:
        n, H = len(tables), self._world.layers.horizon
        played = Trajectories(
            np.empty((n, H), np.int64), np.empty((n, H), np.int64), np.empty((n, H)), np.full(n, H, np.int64)
        )
        cumulative = np.cumsum(self._world.action_probabilities(policy), axis=1)
        play(
            self._arrays, self._transitions, cumulative, tables, self._stream,
            played.states, played.actions, played.rewards,
        )  # fmt: skip
        return played


def run_adversarial(
    world: LayeredWorld,
    learner: Learner,
    privatizer: Privatizer,
    episodes: int,
    seed: int,
    run: int,
    tick: Callable[[int], None],
    keep_release: bool = False,
) -> RunRecord:
    """One run: ask, let users act, release, update, until everybody has been served."""
    losses = world.losses(episodes)
    users = LayeredUsers(world, losses, stream(seed, run, USERS), generator(seed, run, COINS))
    session = privatizer.open(users, SimulatedNoise(generator(seed, run, NOISE)), episodes)
    state = learner.init(Problem(world.shape, episodes), stream(seed, run, COINS))
    record = RunRecord(checkpoints(episodes), np.zeros(len(checkpoints(episodes))))
    suffered, before = np.zeros(episodes), None
    occupancy = np.zeros(losses.shape[1:])
    while session.left:
        request = learner.ask(state)
        if request.policy != before:
            record.switches += before is not None
            occupancy, before = world.occupancy(request.policy), request.policy
        served = session.served
        release = session.answer(request)
        suffered[served : session.served] = np.tensordot(losses[served : session.served], occupancy, axes=2)
        state = learner.update(state, release)
        if keep_release:
            record.release = release
        tick(session.served - served)
    record.deterministic_switches = users.deterministic_switches
    record.regret[:] = np.cumsum(suffered)[record.episodes - 1] - _best_in_hindsight(world, losses, record.episodes)
    return record


def _best_in_hindsight(world: LayeredWorld, losses: Floats, ends: Integers) -> Floats:
    """The smallest loss of a fixed policy over the first k tables, for every checkpoint k."""
    total, begin, best = np.zeros(losses.shape[1:]), 0, np.empty(len(ends))
    for i, end in enumerate(ends):
        total += losses[begin:end].sum(axis=0)
        begin = end
        best[i] = world.best_fixed(total)[0]
    return best

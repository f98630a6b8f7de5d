"""The block loop: serves every recipe that releases rarely, and every learner.

A block is a few compiled calls (users acting under one policy, noise, planning); its cost hardly depends on how many
users are in it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from discreet.accumulators.base import SimulatedNoise
from discreet.learners.base import Learner, Problem
from discreet.recipes.session import Privatizer
from discreet.simulation.record import RunRecord, checkpoints
from discreet.simulation.users import SimulatedUsers
from discreet.streams import COINS, NOISE, USERS, generator, stream
from discreet.worlds.tabular import TabularWorld


def run_blocks(
    world: TabularWorld,
    learner: Learner,
    privatizer: Privatizer,
    episodes: int,
    seed: int,
    run: int,
    tick: Callable[[int], None],
    keep_release: bool = False,
) -> RunRecord:
    """One run: ask, let a block of users act, release, update, until everybody has been served."""
    users = SimulatedUsers(world, stream(seed, run, USERS), generator(seed, run, COINS))
    session = privatizer.open(users, SimulatedNoise(generator(seed, run, NOISE)), episodes)
    state = learner.init(Problem(world.shape, episodes), stream(seed, run, COINS))
    record = RunRecord(checkpoints(episodes), np.zeros(len(checkpoints(episodes))))
    total, before, gap = 0.0, None, 0.0
    while session.left:
        request = learner.ask(state)
        if request.policy != before:
            record.switches += before is not None
            gap, before = world.gap(request.policy), request.policy
        served = session.served
        release = session.answer(request)
        block = session.served - served
        inside = (record.episodes > served) & (record.episodes <= session.served)
        record.regret[inside] = total + gap * (record.episodes[inside] - served)
        total += gap * block
        state = learner.update(state, release)
        if keep_release:
            record.release = release
        tick(block)
    record.deterministic_switches = users.deterministic_switches
    record.final_gap = world.gap(learner.policy(state))
    return record

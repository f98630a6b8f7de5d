"""The block loop: serves every recipe, every learner and every kind of world.

A block is a few compiled calls (users acting under one policy, noise, planning); its cost hardly depends on how many
users are in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from discreet.accumulators.base import SimulatedNoise
from discreet.channels.session import Privatizer
from discreet.learners.base import Learner, Problem
from discreet.packages import load
from discreet.simulation.judge import RunRecord, empty_record
from discreet.simulation.users import People
from discreet.streams import COINS, NOISE, USERS, generator, stream


def run_blocks(
    world: Any,
    learner: Learner,
    privatizer: Privatizer,
    episodes: int,
    seed: int,
    run: int,
    tick: Callable[[int], None],
    keep_release: bool = False,
) -> RunRecord:
    """One run: ask, let a block of users act, release, update, until everybody has been served."""
    draws, noise, coins = stream(seed, run, USERS), generator(seed, run, NOISE), stream(seed, run, COINS)
    record, deployed = empty_record(episodes), None
    people: People = load(world.people)(world, episodes, draws, generator(seed, run, COINS))
    session = privatizer.open(people.users, SimulatedNoise(noise), episodes)
    state = learner.init(Problem(world.shape, episodes), coins)
    while session.left:
        request = learner.ask(state)
        if request.policy != deployed:
            record.switches += deployed is not None
            people.judge.deploy(request.policy)
            deployed = request.policy
        served = session.served
        release = session.answer(request)
        people.judge.count(served, session.served)
        tick(session.served - served)
        state = learner.update(state, release)
        if keep_release:
            record.release = release
    record.deterministic_switches = people.users.deterministic_switches
    people.judge.verdict(record, learner.policy(state))
    return record

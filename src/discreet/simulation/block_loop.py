"""The block loop: serves every recipe, every learner and every kind of world, and judges them.

A block is a few compiled calls (users acting under one policy, noise, planning); its cost hardly depends on how many
users are in it. A *judge* follows the run and computes exact regret at checkpoints; learners never see any of it. Who
acts in a world, and who judges, the world says (``People``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.packages import load
from discreet.base.policies import AnyPolicy, check_policy
from discreet.base.streams import COINS, NOISE, USERS, Stream, generator, stream
from discreet.base.types import Floats, Integers
from discreet.learners.base import Learner, Problem, Remarks
from discreet.mechanisms.release import Release, Request
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.simulation.users import SimulatedUsers, TabularUsers
from discreet.worlds.tabular import TabularWorld


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
    state = learner.init(Problem(world.shape, episodes, privatizer.opening), coins)
    while session.left:
        request = asked(learner, state)
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
    if isinstance(learner, Remarks):
        record.remark = learner.remark(state)
    recommended, last = learner.recommend(state), learner.policy(state)
    for name, policy in (("recommend", recommended), ("policy", last)):
        check_policy(f"what {type(learner).__name__}.{name} returns", policy)
    people.judge.verdict(record, recommended, last)
    return record


def asked(learner: Learner, state: Any) -> Request:
    """What a learner asks for, which may be somebody's own."""
    request = learner.ask(state)
    if not isinstance(request, Request):
        raise InvalidInput(
            f"what {type(learner).__name__}.ask returns must be a Request, got a {type(request).__name__}"
        )
    return request


@dataclass
class RunRecord:
    """What one run leaves behind; ``regret[i]`` is the cumulative regret after ``episodes[i]`` episodes."""

    episodes: Integers
    regret: Floats
    switches: int = 0
    deterministic_switches: int = 0
    final_gap: float | None = None  # of the policy that is recommended in the end
    deployed_gap: float | None = None  # of the policy that would be deployed next, which may explore
    release: Release | None = None
    remark: str = ""  # what the learner says about the run


def empty_record(episodes: int) -> RunRecord:
    """A record before its run: all checkpoints, no regret."""
    marks = checkpoints(episodes)
    return RunRecord(marks, np.zeros(len(marks)))


def checkpoints(episodes: int, points: int = 60) -> Integers:
    """Whole numbers spread evenly in the logarithm from 1 to ``episodes``, the end included."""
    spread = np.logspace(0, np.log10(episodes), points)
    return np.unique(np.append(np.round(spread), episodes).astype(np.int64))


class Judge(Protocol):
    """Follows a run and writes its regret into the record at the end."""

    def deploy(self, policy: AnyPolicy) -> None:
        """Note the policy that the next users follow."""

    def count(self, begin: int, end: int) -> None:
        """Note that users number ``begin`` to ``end`` - 1 have acted under that policy."""

    def verdict(self, record: RunRecord, recommended: AnyPolicy, deployed: AnyPolicy) -> None:
        """Write the regret of the run into its record; ``deployed`` is the policy that would be deployed next."""


class GapJudge:
    """For worlds that stay as they are: regret is the gap of each deployed policy times its users."""

    def __init__(self, world: TabularWorld, episodes: int) -> None:
        self._world, self._marks = world, checkpoints(episodes)
        self._regret, self._total, self._gap = np.zeros(len(self._marks)), 0.0, 0.0

    def deploy(self, policy: AnyPolicy) -> None:
        """Compute the exact gap of the new policy."""
        self._gap = self._world.gap(policy)

    def count(self, begin: int, end: int) -> None:
        """Regret grows evenly while the policy stays, so checkpoints inside of a block are exact too."""
        inside = (self._marks > begin) & (self._marks <= end)
        self._regret[inside] = self._total + self._gap * (self._marks[inside] - begin)
        self._total += self._gap * (end - begin)

    def verdict(self, record: RunRecord, recommended: AnyPolicy, deployed: AnyPolicy) -> None:
        """Write the regret curve and the gaps of the policy that is recommended and of the one deployed next."""
        record.regret[:] = self._regret
        record.final_gap, record.deployed_gap = self._world.gap(recommended), self._world.gap(deployed)


class People(NamedTuple):
    """The users of one run, and who judges what they are made to do."""

    users: SimulatedUsers
    judge: Judge


def tabular_people(world: TabularWorld, episodes: int, draws: Stream, coins: np.random.Generator) -> People:
    """The users of one run in a tabular world, and their judge. ``coins`` draw the components of mixtures."""
    return People(TabularUsers(world, draws, coins), GapJudge(world, episodes))

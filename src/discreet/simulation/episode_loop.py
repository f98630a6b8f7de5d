"""The episode loop: a release and a new plan after every user, compiled whole.

One loop serves every combination: the kernels of world, encoder, noise, accumulator and learner are chosen by the
classes of the arguments, so numba compiles one fused loop per combination and keeps it on disk. The learner's kernel
gets statistics that the encoder and the noise have produced, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from discreet.base.compiled import inlined, kernel
from discreet.base.errors import Unsupported
from discreet.base.streams import COINS, NOISE, USERS, Stream, stream
from discreet.base.types import Floats, Integers
from discreet.learners.base import CompiledLearner, Learner, Problem, plan_into
from discreet.learners.support_restriction import in_seen_states
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.continual import ContinualChannel
from discreet.mechanisms.counts.encoder import by_successor, encode_into, marginals_into
from discreet.mechanisms.release import Statistics
from discreet.mechanisms.schedule import EveryEpisode
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import advance, draws_at
from discreet.simulation.block_loop import RunRecord, empty_record
from discreet.worlds.planning.sparse_transitions import evaluate_by_few, true_successors
from discreet.worlds.tabular import TabularWorld, WorldArrays, rollout

_AT_ONCE = 65_536  # episodes between two looks at the progress bar and at Ctrl-C


class Truth(NamedTuple):
    """The exact tables of the world and its optimal value: regret is computed from them, and no learner sees them."""

    transitions: Floats
    successors: Integers
    means: Floats
    start: Floats
    optimal_value: float


class Streams(NamedTuple):
    """The random streams of one run: what users do, noise, and public coins of the learner."""

    users: Stream
    noise: Stream
    coins: Stream


class Tables(NamedTuple):
    """All arrays that the loop writes: released cells, statistics, the plan, and the running totals of the run."""

    cells: Floats
    statistics: Statistics
    noise_units: Floats  # (3, rows): sd of one draw in a count of visits, of a transition, of rewards
    values: Floats
    actions: Integers
    deployed: Integers
    books: Floats  # cumulative regret, gap of the deployed policy, switches


def compiles(learner: Learner, privatizer: Privatizer) -> bool:
    """Whether the fast loop serves this pair: a release after every user, one channel, nothing masked."""
    return (
        isinstance(privatizer.schedule, EveryEpisode)
        and not privatizer.masked
        and len(privatizer.channels) == 1
        and isinstance(privatizer.channels[0], Channel | ContinualChannel)
        and hasattr(privatizer.channels[0].accumulator, "arrays")
        and isinstance(learner, CompiledLearner)
    )


def run_episodes(
    world: TabularWorld,
    learner: Learner,
    privatizer: Privatizer,
    episodes: int,
    seed: int,
    run: int,
    tick: Callable[[int], None],
) -> RunRecord:
    """One run with a new plan after every user."""
    if not isinstance(learner, CompiledLearner):
        raise Unsupported(f"learner {learner.name} has no compiled loop")
    privatizer.check_users(episodes)  # the compiled loop has no session that would
    record, channel = empty_record(episodes), _only_channel(privatizer)
    streams = Streams(stream(seed, run, USERS), stream(seed, run, NOISE), stream(seed, run, COINS))
    tables = _tables(world, privatizer)
    encoder, law = channel.encoder.arrays(), channel.law.kernel()
    accumulator = channel.accumulator.arrays(channel.encoder.size)  # type: ignore[union-attr]
    planner = learner.arrays(Problem(world.shape, episodes))
    truth = _truth(world)
    parts = (world.arrays(), truth, encoder, law, accumulator, planner, streams, tables)
    done = 0
    while done < episodes:
        until = min(done + _AT_ONCE, episodes)
        _episode_loop(*parts, done, until, record.episodes, record.regret)
        tick(until - done)
        done = until
    record.switches = record.deterministic_switches = int(tables.books[2])
    record.deployed_gap = _gap_of_plan(world, planner, parts, tables.statistics)
    known = in_seen_states(world.shape, tables.statistics)
    record.final_gap = _gap_of_plan(world, learner.recommending(Problem(world.shape, episodes)), parts, known)
    return record


def _truth(world: TabularWorld) -> Truth:
    transitions = np.array(world.transitions)
    successors = true_successors(transitions)
    return Truth(transitions, successors, np.array(world.means), np.array(world.start), world.optimal_value)


def _only_channel(privatizer: Privatizer) -> Channel | ContinualChannel:
    (channel,) = privatizer.channels
    if not isinstance(channel, Channel | ContinualChannel):
        raise Unsupported(f"the compiled loop does not know {type(channel).__name__}")
    return channel


def _gap_of_plan(world: TabularWorld, planner: Any, parts: tuple[Any, ...], statistics: Statistics) -> float:
    """The gap of what the planner makes of these statistics."""
    *_, streams, tables = parts
    plan_into(planner, statistics, streams.coins, tables.values, tables.actions)
    truth: Truth = parts[1]
    evaluate_by_few(truth.transitions, truth.successors, truth.means, tables.actions, tables.values)
    return max(0.0, world.optimal_value - float(world.start @ tables.values[0]))


def _tables(world: TabularWorld, privatizer: Privatizer) -> Tables:
    shape, channel = world.shape, _only_channel(privatizer)
    cells = np.zeros(channel.encoder.size)
    marginals = channel.encoder.marginals(cells)
    names = ("visits", "transitions", "rewards")
    visits, transitions, rewards = (marginals[name].values for name in names)
    rows = visits.size
    statistics = Statistics(
        visits.reshape(-1),  # for the three tables these are views of the cells, and stay so
        by_successor(transitions),
        rewards.reshape(-1),
        np.zeros(rows),
        np.zeros(rows),
        np.zeros(rows),
    )
    cells_of = (np.broadcast_to(marginals[name].cells, visits.shape).reshape(-1) for name in names)
    units = np.sqrt(channel.law.variance * np.stack(list(cells_of)))
    actions = np.zeros((shape.horizon, shape.states), np.int64)
    values = np.zeros((shape.horizon + 1, shape.states))
    return Tables(cells, statistics, units, values, actions, np.full_like(actions, -1), np.zeros(3))


@kernel
def _episode_loop(
    world: WorldArrays,
    truth: Truth,
    encoder: Any,
    law: Any,
    accumulator: Any,
    learner: Any,
    streams: Streams,
    tables: Tables,
    done: int,
    until: int,
    marks: Integers,
    regret: Floats,
) -> None:
    statistics, cells, values, actions = tables.statistics, tables.cells, tables.values, tables.actions
    deployed, books, units = tables.deployed, tables.books, tables.noise_units
    H = actions.shape[0]
    states, acts, rewards = np.empty(H, np.int64), np.empty(H, np.int64), np.empty(H)
    mark = np.searchsorted(marks, done + 1)
    total, gap, switches = books[0], books[1], books[2]
    for k in range(done, until):
        plan_into(learner, statistics, streams.coins, values, actions)
        if _deploy(actions, deployed):
            switches += 1.0 if k > 0 else 0.0
            evaluate_by_few(truth.transitions, truth.successors, truth.means, deployed, values)
            gap = _gap(truth.start, values, truth.optimal_value)
        total += gap
        if k + 1 == marks[mark]:
            regret[mark] = total
            mark += 1
        rollout(world, actions, streams.users, states, acts, rewards)
        encode_into(encoder, states, acts, rewards, H, streams.users, cells)
        advance(accumulator, k + 1, law, cells, streams.noise)
        marginals_into(encoder, cells, statistics)
        _set_noise(statistics, units, draws_at(accumulator, k + 1))
    books[0], books[1], books[2] = total, gap, switches


@inlined
def _deploy(actions: Integers, deployed: Integers) -> bool:
    """Make the plan the deployed policy; says whether that changed anything."""
    H, S = actions.shape
    changed = False
    for h in range(H):
        for s in range(S):
            changed |= actions[h, s] != deployed[h, s]  # no branch: noise makes it unpredictable
            deployed[h, s] = actions[h, s]
    return changed


@inlined
def _gap(start: Floats, values: Floats, optimal_value: float) -> float:
    """How much a policy with these values loses per episode."""
    value = 0.0
    for s in range(start.shape[0]):
        value += start[s] * values[0, s]
    return max(0.0, optimal_value - value)


@inlined
def _set_noise(statistics: Statistics, units: Floats, draws: float) -> None:
    """Nothing is masked here, so all rows carry the same number of draws."""
    visit_noise, transition_noise = statistics.visit_noise, statistics.transition_noise
    reward_noise = statistics.reward_noise
    root = math.sqrt(draws)
    for row in range(visit_noise.shape[0]):
        visit_noise[row] = units[0, row] * root
        transition_noise[row] = units[1, row] * root
        reward_noise[row] = units[2, row] * root

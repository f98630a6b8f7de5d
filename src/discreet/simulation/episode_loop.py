"""The episode loop: a release and a new plan after every user, compiled whole.

One loop serves every combination: the kernels of world, encoder, noise, accumulator and learner are chosen by the
classes of the arguments, so numba compiles one fused loop per combination and keeps it on disk. The learner's kernel
gets statistics that the encoder and the noise have produced, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.accumulators.compiled import advance, draws_at
from discreet.accumulators.schedule import EveryEpisode
from discreet.compiled import kernel
from discreet.encoders.base import encode_into, marginals_into
from discreet.learners.base import Learner, Problem, plan_into
from discreet.planning.backward import evaluate
from discreet.privatizers.channel import Privatizer
from discreet.release import Statistics
from discreet.simulation.record import RunRecord, checkpoints
from discreet.streams import COINS, NOISE, USERS, Stream, stream
from discreet.worlds.tabular import TabularWorld, WorldArrays, rollout

_AT_ONCE = 65_536  # episodes between two looks at the progress bar and at Ctrl-C


class Truth(NamedTuple):
    """The world as the judge knows it: exact regret is computed here and shown to nobody else."""

    transitions: NDArray[np.float64]
    means: NDArray[np.float64]
    start: NDArray[np.float64]
    optimal_value: float


class Streams(NamedTuple):
    users: Stream
    noise: Stream
    coins: Stream


class Tables(NamedTuple):
    """Everything the loop writes: released cells, statistics, plan, and its books."""

    cells: NDArray[np.float64]
    statistics: Statistics
    variance_units: NDArray[np.float64]  # (3, G): variance per draw of a visit, a transition and a reward count
    values: NDArray[np.float64]
    actions: NDArray[np.int64]
    deployed: NDArray[np.int64]
    books: NDArray[np.float64]  # cumulative regret, gap of the deployed policy, switches


def compiles(learner: Learner, privatizer: Privatizer) -> bool:
    """Whether the fast loop serves this pair: a release after every user, one channel, nothing masked."""
    return (
        isinstance(privatizer.schedule, EveryEpisode)
        and not privatizer.masked
        and len(privatizer.channels) == 1
        and hasattr(privatizer.channels[0].accumulator, "arrays")
        and hasattr(learner, "arrays")
    )


def run_episodes(
    world: TabularWorld,
    learner: Any,
    privatizer: Privatizer,
    episodes: int,
    seed: int,
    run: int,
    tick: Callable[[int], None],
) -> RunRecord:
    """One run with a new plan after every user."""
    problem = Problem(world.shape, episodes)
    channel = privatizer.channels[0]
    tables = _tables(world, privatizer)
    marks = checkpoints(episodes)
    record = RunRecord(marks, np.zeros(len(marks)))
    parts = (
        world.arrays(),
        Truth(np.array(world.transitions), np.array(world.means), np.array(world.start), world.optimal_value),
        channel.encoder.arrays(),
        channel.law.kernel(),
        channel.accumulator.arrays(channel.encoder.size),  # type: ignore[attr-defined]
        learner.arrays(problem),
        Streams(stream(seed, run, USERS), stream(seed, run, NOISE), stream(seed, run, COINS)),
        tables,
    )
    done = 0
    while done < episodes:
        until = min(done + _AT_ONCE, episodes)
        _episode_loop(*parts, done, until, marks, record.regret)
        tick(until - done)
        done = until
    record.switches = record.deterministic_switches = int(tables.books[2])
    record.final_gap = _final_gap(world, parts)
    return record


def _final_gap(world: TabularWorld, parts: tuple[Any, ...]) -> float:
    *_, learner, streams, tables = parts
    plan_into(learner, tables.statistics, streams.coins, tables.values, tables.actions)
    evaluate(parts[1].transitions, parts[1].means, tables.actions, tables.values)
    return max(0.0, world.optimal_value - float(world.start @ tables.values[0]))


def _tables(world: TabularWorld, privatizer: Privatizer) -> Tables:
    shape, channel = world.shape, privatizer.channels[0]
    cells = np.zeros(channel.encoder.size)
    marginals = channel.encoder.marginals(cells)
    rows = (shape.groups, shape.states, shape.actions)
    names = ("visits", "transitions", "rewards")
    statistics = Statistics(
        *(marginals[name].values for name in names), np.zeros(rows), np.zeros(rows), np.zeros(rows)
    )
    units = np.stack([channel.law.variance * marginals[name].cells[:, 0, 0] for name in names]).astype(np.float64)
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
    marks: NDArray[np.int64],
    regret: NDArray[np.float64],
) -> None:
    H = tables.actions.shape[0]
    states, acts, rewards = np.empty(H, np.int64), np.empty(H, np.int64), np.empty(H)
    mark = np.searchsorted(marks, done + 1)
    for k in range(done, until):
        plan_into(learner, tables.statistics, streams.coins, tables.values, tables.actions)
        if _deploy(tables):
            tables.books[1] = _gap(truth, tables)
        tables.books[0] += tables.books[1]
        if k + 1 == marks[mark]:
            regret[mark] = tables.books[0]
            mark += 1
        rollout(world, tables.actions, streams.users, states, acts, rewards)
        encode_into(encoder, states, acts, rewards, H, streams.users, tables.cells)
        advance(accumulator, k + 1, law, tables.cells, streams.noise)
        marginals_into(encoder, tables.cells, tables.statistics)
        _set_variances(tables, draws_at(accumulator, k + 1))


@kernel
def _deploy(tables: Tables) -> bool:
    """Make the plan the deployed policy; says whether that changed anything, and counts it."""
    H, S = tables.actions.shape
    changed = False
    for h in range(H):
        for s in range(S):
            if tables.actions[h, s] != tables.deployed[h, s]:
                changed = True
    if changed:
        if tables.deployed[0, 0] >= 0:
            tables.books[2] += 1.0
        for h in range(H):
            for s in range(S):
                tables.deployed[h, s] = tables.actions[h, s]
    return changed


@kernel
def _gap(truth: Truth, tables: Tables) -> float:
    """How much the deployed policy loses per episode; the planner's values are overwritten, it starts afresh anyway."""
    evaluate(truth.transitions, truth.means, tables.deployed, tables.values)
    value = 0.0
    for s in range(truth.start.shape[0]):
        value += truth.start[s] * tables.values[0, s]
    return max(0.0, truth.optimal_value - value)


@kernel
def _set_variances(tables: Tables, draws: int) -> None:
    G, S, A = tables.statistics.visits.shape
    for g in range(G):
        visit = tables.variance_units[0, g] * draws
        transition = tables.variance_units[1, g] * draws
        reward = tables.variance_units[2, g] * draws
        for s in range(S):
            for a in range(A):
                tables.statistics.visit_variance[g, s, a] = visit
                tables.statistics.transition_variance[g, s, a] = transition
                tables.statistics.reward_variance[g, s, a] = reward

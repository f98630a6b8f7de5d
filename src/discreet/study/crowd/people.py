"""Simulated people as real HTTP clients: rehearsals of a whole study, and load for a service.

Every person is a :class:`discreet.client.Device` of its own: takes the policy of the round over HTTP, acts in a world
that is known, randomises the report with the operating system's entropy, and sends it. What is simulated is the world
and that nobody waits: reports leave at once. People share connections and the policy of a round, which is checked once
for each connection and not once for each person.

**Regret** is computed as ``simulate`` does: for every person the exact gap of the policy under which she acted, from
the world, which the service never sees.

**Order.** A round takes a number of reports. If the service says how many ("wanted"), no more people begin in a round
than it wants, so that people come one round after the other as in ``simulate``; without it whoever comes begins, and
some reports are late (local studies count them under the policy that they name, central ones refuse them).
"""

from __future__ import annotations

import random
import threading
import time
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import AnyPolicy, Policy, StochasticPolicy
from discreet.base.types import Floats, Integers
from discreet.client.device import Device
from discreet.client.errors import ClientError, Rejected, Unreachable
from discreet.client.heads import Head
from discreet.client.policy import Policy as ClientPolicy
from discreet.client.reports import Round
from discreet.client.store import MemoryStore
from discreet.client.transport import Asks, Service
from discreet.simulation.block_loop import checkpoints
from discreet.worlds.rewards import Bernoulli, Deterministic, Finite, FiniteOnTransition, OnTransition
from discreet.worlds.tabular import TabularWorld

_PAUSE = 0.005  # seconds until a full round is looked at again
_TRIES = 60  # of a request that the service asks to repeat later
_PATIENCE = 120.0  # seconds without a new round while nobody may begin

Connect = Callable[[], Asks]


@dataclass(frozen=True)
class CrowdResult:
    """What a crowd found: ``regret[i]`` is the cumulative exact regret of the first ``people[i]`` who acted."""

    people: Integers
    regret: Floats
    rounds: int
    accepted: int
    refused: dict[str, int]
    last_gap: float  # of the last policy that somebody acted under
    seconds: float

    @property
    def total_regret(self) -> float:
        """The regret of everybody."""
        return float(self.regret[-1]) if len(self.regret) else 0.0

    def facts(self) -> list[tuple[str, str]]:
        """What happened, as a person reads it."""
        acted = int(self.people[-1]) if len(self.people) else 0
        pace = f"{acted / self.seconds:,.0f} people a second" if self.seconds > 0 else ""
        refused = ", ".join(f"{number:,} {code}" for code, number in sorted(self.refused.items()))
        return [
            ("people", f"{acted:,} acted, {self.accepted:,} reports were accepted"),
            *([("refused", refused)] if refused else []),
            ("rounds", f"{self.rounds:,}"),
            ("regret", f"{self.total_regret:,.1f}"),
            ("last gap", f"{self.last_gap:.4g} (of the last policy that somebody acted under)"),
            ("seconds", f"{self.seconds:.1f} ({pace})"),
        ]


def crowd(
    connect: Connect,
    study_hash: str,
    world: TabularWorld,
    users: int,
    *,
    seed: int = 0,
    connections: int = 16,
    tokens: Sequence[str] = (),
    shuffler: Connect | None = None,
    tick: Callable[[int], None] = lambda _people: None,
) -> CrowdResult:
    """Let so many people take part in a served study, over several connections at once, and judge what they met.

    ``shuffler`` connects to the second party of a shuffled study.
    """
    if tokens and len(tokens) < users:
        raise InvalidInput(f"{len(tokens):,} invitations are too few for {users:,} people: make more of them")
    service = Looking(connect(), study_hash)
    study = service.study()
    check_world((study.states, study.actions, study.horizon, study.rewards), study.start, world)
    began = time.perf_counter()
    state = _Crowd(world, users, list(tokens), tick)
    services = [
        Looking(connect(), study_hash, None if shuffler is None else shuffler()) for _ in range(min(connections, users))
    ]
    workers = [
        threading.Thread(target=_work, args=(state, service, seed, number), daemon=True)
        for number, service in enumerate(services)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        while worker.is_alive():
            worker.join(0.2)  # so that Ctrl-C is heard
    if state.problem is not None:
        raise state.problem
    return state.result(time.perf_counter() - began)


class Looking(Service):
    """A service whose policy is looked at first, and taken by whoever then begins."""

    def __init__(self, connection: Asks, agreed: str, shuffler: Asks | None = None) -> None:
        super().__init__(connection, agreed, shuffler=shuffler)
        self._seen: tuple[Round, Head] | None = None
        self.wanted: int | None = None

    def look(self) -> Round:
        """Fetch the policy of the round."""
        self._seen = super().round()
        return self._seen[0]

    def round(self) -> tuple[Round, Head]:
        """What was looked at last."""
        return self._seen if self._seen is not None else super().round()

    def understand(self, answer: dict[str, Any]) -> tuple[Round, Head]:
        """The round, its head, and how many reports it takes, where the service says so."""
        wanted = answer.get("wanted")
        self.wanted = wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else None
        return super().understand(answer)


def check_world(declared: tuple[Any, ...], start: int | None, world: TabularWorld) -> None:
    """Refuse a world that is not of the shape that the study declares."""
    shape = world.shape
    own = (shape.states, shape.actions, shape.horizon, tuple(map(float, shape.rewards)))
    names = ("states", "actions", "steps", "a range of rewards")
    for name, wanted, found in zip(names, declared, own, strict=True):
        if wanted != found:
            raise InvalidInput(f"the study has {name} {wanted}, and world {world.name} {found}: choose another world")
    if start is not None and shape.start != start:
        raise InvalidInput(f"the study begins in state {start}, and world {world.name} does not always do so")


class _Crowd:
    """What all workers share: who is next, how many began in each round, and what they met."""

    def __init__(self, world: TabularWorld, users: int, tokens: list[str], tick: Callable[[int], None]) -> None:
        self.world, self._left, self._tokens, self._tick = world, users, tokens, tick
        self._lock, self.queue = threading.Lock(), threading.Lock()
        self._gaps: dict[int, float] = {}
        self._begun: dict[int, int] = {}
        self._newest, self._moved = -1, time.monotonic()
        self._met: list[int] = []
        self._accepted, self._refused = 0, dict[str, int]()
        self.problem: Exception | None = None

    def enter(self, round_: Round, wanted: int | None) -> _Person | None:
        """The next person, if this round takes another one and somebody is left."""
        with self._lock:
            if round_.number > self._newest:
                self._newest, self._moved = round_.number, time.monotonic()
                self._gaps[round_.number] = self.world.gap(_as_policy(round_.policy))
            begun = self._begun.get(round_.number, 0)
            if self._left <= 0 or round_.number < self._newest or (wanted is not None and begun >= wanted):
                return None
            self._begun[round_.number] = begun + 1
            self._left -= 1
            return _Person(round_.number, self._tokens.pop() if self._tokens else None)

    def leave(self, person: _Person, refused: str | None) -> None:
        """Somebody has acted, and her report was accepted or refused."""
        with self._lock:
            self._met.append(person.round)
            self._accepted += refused is None
            if refused is not None:
                self._refused[refused] = self._refused.get(refused, 0) + 1
                self._begun[person.round] -= 1  # the round still wants somebody
        self._tick(1)

    @property
    def over(self) -> bool:
        """Whether nobody is left, or something went wrong."""
        return self._left <= 0 or self.problem is not None

    def end(self) -> None:
        """The study has ended: nobody else begins."""
        with self._lock:
            self._left = 0

    def fail(self, problem: Exception) -> None:
        """Something went wrong: everybody stops."""
        with self._lock:
            self.problem = self.problem or problem

    def check_patience(self) -> None:
        """Refuse to wait for ever for a round that does not come."""
        if time.monotonic() - self._moved > _PATIENCE:
            raise Unreachable(f"the service has opened no round for {_PATIENCE:.0f} seconds: look at its log")

    def result(self, seconds: float) -> CrowdResult:
        """Regret in the order in which people finished."""
        gaps = np.array([self._gaps[number] for number in self._met])
        marks = checkpoints(len(gaps)) if len(gaps) else np.zeros(0, np.int64)
        curve = np.cumsum(gaps)[marks - 1] if len(gaps) else np.zeros(0)
        last = self._gaps[max(self._met)] if self._met else float("nan")
        return CrowdResult(marks, curve, len(set(self._met)), self._accepted, dict(self._refused), last, seconds)


class _Person(NamedTuple):
    """Somebody who takes part in one round."""

    round: int
    token: str | None


def _work(state: _Crowd, service: Looking, seed: int, number: int) -> None:
    """One connection: person after person, until nobody is left or the study has ended."""
    walk = Walk(state.world, random.Random(f"crowd {seed} {number}"))
    try:
        while (person := _next(state, service)) is not None:
            state.leave(person, live(service, walk, person.token))
    except ClientError as problem:
        state.fail(Unsupported(str(problem)))
    except Exception as problem:
        state.fail(problem)


def _next(state: _Crowd, service: Looking) -> _Person | None:
    """The next person of this connection. While a round is full, one connection looks for the next and others wait."""
    person = _looked(state, service)
    if person is not None or state.over:
        return person
    with state.queue:
        while (person := _looked(state, service)) is None and not state.over:
            state.check_patience()
            time.sleep(_PAUSE)
    return person


def _looked(state: _Crowd, service: Looking) -> _Person | None:
    try:
        round_ = _patiently(service.look)
    except Rejected as refused:
        if refused.code != "ended":
            raise
        state.end()
        return None
    return state.enter(round_, service.wanted)


def live(service: Service, walk: Walk, token: str | None = None) -> str | None:
    """One person takes part; gives None if her report was accepted, else the service's word for why not."""
    study = service.study()
    device = Device(service, MemoryStore(), study_hash=study.hash, token=token, at_once=True)
    device.begin()
    walk.begin()
    for step in range(study.horizon):
        state = walk.state
        action = device.act(step, state)
        device.record(step, state, action, walk.step(step, action))
    device.finish()
    try:
        _patiently(device.send)
    except Rejected as refused:
        return refused.code
    return None


def _patiently(request: Callable[[], Any]) -> Any:
    """A request, again and again while the service asks to come back later."""
    for attempt in range(_TRIES):
        try:
            return request()
        except Unreachable:
            if attempt == _TRIES - 1:
                raise
            time.sleep(min(0.05 * 1.3**attempt, 1.0))
    raise AssertionError("unreachable")


class Walk:
    """A person in a world, step by step, in plain Python: one draw of a table is cheaper than a compiled call."""

    def __init__(self, world: TabularWorld, source: random.Random) -> None:
        self._random, self._groups = source.random, len(world.transitions)
        self._start = _sums(world.start)
        self._transitions = [[[_sums(row) for row in pair] for pair in group] for group in world.transitions]
        self._reward = _reward_of(world.rewards, source)
        self.state = 0

    def begin(self) -> None:
        """Draw the state in which an episode begins."""
        self.state = bisect(self._start, self._random())

    def step(self, step: int, action: int) -> float:
        """Take an action: draws the successor, moves there, and gives the reward."""
        group, here = step if self._groups > 1 else 0, self.state
        self.state = bisect(self._transitions[group][here][action], self._random())
        return self._reward(group, here, action, self.state)


def _sums(probabilities: Floats) -> list[float]:
    """Cumulative probabilities without the last: where a uniform number falls is the number of what is drawn."""
    return [float(total) for total in np.cumsum(probabilities)[:-1]]


def _reward_of(law: Any, source: random.Random) -> Callable[[int, int, int, int], float]:
    """A draw from a law of rewards, given group, state, action and successor."""
    tables = [np.asarray(table).tolist() for table in law]
    match law:
        case Deterministic():
            return lambda g, s, a, t: float(tables[0][g][s][a])
        case Bernoulli():
            return lambda g, s, a, t: float(source.random() < tables[0][g][s][a])
        case OnTransition():
            return lambda g, s, a, t: float(tables[0][g][s][a][t])
        case Finite():
            values, sums = tables
            return lambda g, s, a, t: float(values[bisect(sums[g][s][a][:-1], source.random())])
        case FiniteOnTransition():
            values, sums = tables
            return lambda g, s, a, t: float(values[bisect(sums[g][s][a][t][:-1], source.random())])
    raise Unsupported(f"a crowd does not know how to draw rewards of kind {type(law).__name__}: choose another world")


def _as_policy(policy: ClientPolicy) -> AnyPolicy:
    if policy.actions is not None:
        return Policy(np.array(policy.actions, np.int64))
    return StochasticPolicy(np.array(policy.probabilities, np.float64))

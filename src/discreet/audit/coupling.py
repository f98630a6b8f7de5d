"""The coupling check: does a real session hide one user as well as its guarantee says? Exact, without statistics.

A session answers adaptive requests about a population, and its noise is written down. One user is replaced, the same
requests are put to the neighbouring population, and the noise is moved, draw by draw, until every noisy cell of every
release is what it was. How far the noise had to move is the exact privacy loss of that pair, by the laws'
log-probabilities (:mod:`discreet.audit.noise_coupling`), and it must not exceed the stated profile. In the end the two
releases are compared in full: estimates, variances, public tables.

A session that adds no noise, adds a block twice, lets the replaced user decide which law is drawn or which rows are
asked about, or shows her more often than was paid for, is found at once. What the check cannot see is a law whose
*samples* are wrong: :mod:`discreet.audit.samplers` tests those.

**Linear questions**: a session that answers them, on two data sets that differ in one user. Answers are sums on a grid
plus noise, so there is one way to move the noise: by the difference of the sums. The moves of all questions together
must be as cheap as the guarantee says. Questions are adaptive: targets and weights change with every digit of the
answers before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch

import numpy as np

from discreet.audit.neighbours import Neighbours
from discreet.audit.noise_coupling import Key, Move, Moves, Offence, Tape, TapedMatrix, profile_of_moves
from discreet.base.errors import Unsupported
from discreet.base.policies import AnyPolicy, Policy, StochasticPolicy
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers
from discreet.mechanisms.additive import AdditiveRun
from discreet.mechanisms.bandit import ArmRewardsRun
from discreet.mechanisms.continual import ContinualRun
from discreet.mechanisms.focused import FocusedRun
from discreet.mechanisms.mechanism import ChannelRun
from discreet.mechanisms.moments.linear_statistics import LEVELS, LinearChannel
from discreet.mechanisms.release import Linear, Release, Request
from discreet.mechanisms.session import Privatizer, Session
from discreet.mechanisms.shuffled import ShuffledRun
from discreet.privacy.profiles import Profile
from discreet.problems.adversarial.mechanisms import SampledLayerRun
from discreet.problems.heavy_tails.mechanisms import ClippedRewardsRun

_SMALL = 1e-6  # releases are sums of whole numbers and of noise below some hundred thousands
_PROBE = 1e-4


@singledispatch
def noisy_cells(run: ChannelRun) -> Floats:
    """The noisy vector that a channel's run holds: all that its releases are computed from."""
    raise Unsupported(f"the coupling check does not know the noisy cells of a {type(run).__name__}")


@noisy_cells.register(AdditiveRun)
@noisy_cells.register(SampledLayerRun)
def _(run: AdditiveRun | SampledLayerRun) -> Floats:
    return run._run.values.copy()


@noisy_cells.register(ContinualRun)
@noisy_cells.register(FocusedRun)
@noisy_cells.register(ShuffledRun)
@noisy_cells.register(ClippedRewardsRun)
def _(run: ContinualRun | FocusedRun | ShuffledRun | ClippedRewardsRun) -> Floats:
    return run._values.copy()


@noisy_cells.register
def _(run: ArmRewardsRun) -> Floats:
    return noisy_cells(run._rewards)


@dataclass(frozen=True)
class Transcript:
    """What a session published: after every release the noisy cells of all channels; and the last release itself."""

    cells: list[list[Floats]]
    policies: list[AnyPolicy]
    users: list[int]
    releases: list[Release]


@dataclass(frozen=True)
class Play:
    """A privatizer, two populations, and how many users are asked, a block at a time."""

    privatizer: Privatizer
    both: Neighbours
    total: int
    block: int | None = None  # None leaves it to the schedule
    most: int = 64  # releases, at most

    @property
    def seed(self) -> int:
        """What its noise and its policies are drawn from."""
        return self.both.seed + 17 * self.both.replaced

    @cached_property
    def written(self) -> tuple[Tape, Transcript, list[list[Floats]]]:
        """The first run: its noise, what it published, and what was tallied on the way."""
        tape = Tape(self.seed)
        transcript, tallies = self._run(tape, second=False, policies=None, last=None)
        return tape, transcript, tallies

    def again(self, second: bool, moves: Moves, last: int) -> tuple[Transcript, list[list[Floats]]]:
        """The same questions to one of the two populations, up to release ``last``, with noise that has moved."""
        tape, transcript, _ = self.written
        return self._run(Tape(self.seed, tape, moves), second, transcript.policies, last)

    def _run(
        self, tape: Tape, second: bool, policies: Sequence[AnyPolicy] | None, last: int | None
    ) -> tuple[Transcript, list[list[Floats]]]:
        people = self.both.side(second)
        session = self.privatizer.open(people, tape, self.total)
        out = Transcript([], [], [], [])
        release: Release | None = None
        end = self.most if last is None else last + 1
        while session.left and len(out.cells) < end:
            number, before = len(out.cells), session.served
            tape.turn(number)
            policy = self._policy(release, number) if policies is None else policies[number]
            users = None if self.block is None else min(self.block, session.left)
            release = session.answer(Request(policy, users=users))
            out.policies.append(policy)
            out.users.append(session.served - before)
            out.cells.append([noisy_cells(run) for run in runs_of(session)])
            out.releases.append(release)
        return out, people.tallies

    def _policy(self, release: Release | None, number: int) -> AnyPolicy:
        """A policy that depends on everything released so far; or all actions, where no mask should hide anybody."""
        shape = self.privatizer.shape
        if self.both.everything and all(channel.mixes for channel in self.privatizer.channels):
            return StochasticPolicy(np.full((shape.horizon, shape.states, shape.actions), 1 / shape.actions))
        return adaptive_policy(release, shape, number)


def adaptive_policy(release: Release | None, shape: Shape, number: int) -> Policy:
    """A deterministic policy that changes with every digit of what was released."""
    statistics = {} if release is None else release.statistics
    seen = b"".join(np.round(statistics[name].values, 5).tobytes() for name in sorted(statistics))
    words = np.frombuffer(hashlib.sha256(seen + bytes([number % 256])).digest(), np.uint32)
    return Policy(np.random.default_rng(words.tolist()).integers(0, shape.actions, (shape.horizon, shape.states)))


def runs_of(session: Session) -> Sequence[ChannelRun]:
    """The runs of a session's channels, which hold what releases are computed from."""
    return session._intake._runs


def moves_of(play: Play) -> list[Move]:
    """The moves of noise that give the second population the transcript of the first; an offence if there are none."""
    tape, first, tallies = play.written
    moves: dict[Key, Floats] = {}
    last = len(first.cells) - 1
    for step in range(_first_seen(first.users, play.both.replaced), last + 1):
        second, other = play.again(True, moves, step)
        gaps = _gaps(first, second, step)
        if not _differ(gaps):
            continue
        counted = [a - b for a, b in zip(tallies[step], other[step], strict=True)]
        # What remains to be hidden; or, where a release reacts to itself, what was counted in this one.
        for wanted in (gaps, counted):
            tried = {**moves, **_moved(play, step, [gap.copy() for gap in wanted])}
            second, _ = play.again(True, tried, step)
            if not _differ(_gaps(first, second, step)):
                moves = tried
                break
        else:
            raise Offence(f"release {step + 1} tells the two populations apart, and no noise can hide it")
    second, _ = play.again(True, moves, last)
    for step in range(last + 1):
        if _differ(_gaps(first, second, step)) or not _same(first.releases[step], second.releases[step]):
            raise Offence(f"release {step + 1} shows more than its noisy cells do")
    return [Move(tape.record[key].law, tuple(move.tolist())) for key, move in sorted(moves.items())]


def _first_seen(users: Sequence[int], replaced: int) -> int:
    """The first release that the replaced user is in."""
    return int(np.searchsorted(np.cumsum(users), replaced, side="right"))


def _gaps(first: Transcript, second: Transcript, step: int) -> list[Floats]:
    return [a - b for a, b in zip(first.cells[step], second.cells[step], strict=True)]


def _differ(gaps: Sequence[Floats]) -> bool:
    return any(bool(np.any(np.abs(gap) > _SMALL)) for gap in gaps)


def _moved(play: Play, step: int, gaps: list[Floats]) -> dict[Key, Floats]:
    """Moves of the draws of one release that close these gaps."""
    tape, first, _ = play.written
    moves = {}
    local = play.privatizer.guarantee.model == "local"
    copies = [np.zeros(len(gap)) for gap in gaps]
    moving = [np.abs(gap) > _SMALL for gap in gaps]
    for key in sorted(key for key in tape.record if key[0] == step):
        for channel, where, factors in _reach(play, step, key):
            copies[channel][where] += tape.record[key].copies
            move = gaps[channel][where] / factors
            gaps[channel][where] = 0.0
            if np.any(np.abs(move) > _SMALL):
                near = np.abs(move - np.rint(move)) < 1e-5 + 1e-7 * np.abs(move)
                moves[key] = np.where(near, np.rint(move), move)
    if local and any(np.any(n[m] < first.users[step]) for n, m in zip(copies, moving, strict=True)):
        raise Offence("there is less noise in a sum than one draw for each user, and each sends a message of her own")
    return moves


def _reach(play: Play, step: int, key: Key) -> Iterator[tuple[int, Integers, Floats]]:
    """Where the numbers of a draw go: the channel, its cells, and by which factors."""
    tape, first, _ = play.written
    size = len(tape.record[key].values)
    moved, _ = play.again(False, {key: np.full(size, _PROBE)}, step)
    for channel, (new, old) in enumerate(zip(moved.cells[step], first.cells[step], strict=True)):
        where = np.flatnonzero(np.abs(new - old) > _PROBE * 1e-3)
        if len(where) == size:
            yield channel, where, (new - old)[where] / _PROBE
        elif len(where):
            raise Offence(f"one draw of {size} numbers reaches {len(where)} cells: noise is shared between them")


def _same(first: Release, second: Release) -> bool:
    """Whether two releases show the same: every estimate, every variance, every public table."""
    if first.users != second.users or set(first.statistics) != set(second.statistics):
        return False
    if set(first.public) != set(second.public):
        return False
    pairs = [(first.public[name], second.public[name]) for name in first.public]
    for name, estimate in first.statistics.items():
        pairs += zip(estimate, second.statistics[name], strict=True)
    return all(np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-6, atol=1e-5) for a, b in pairs)


def coupled(play: Play) -> Profile:
    """The privacy that a session gave to the replaced user in this transcript."""
    return profile_of_moves(moves_of(play))


_LINEAR_PROBE = 1.0


@dataclass(frozen=True)
class Interview:
    """All questions of a budget, put to one of two data sets."""

    privatizer: Privatizer
    channel: LinearChannel
    both: Neighbours
    total: int

    def run(
        self, second: bool, before: Tape | None = None, first: list[Floats] | None = None, moves: Moves | None = None
    ) -> tuple[Tape, list[Floats]]:
        """The answers, one vector for each question: its matrix, then its vectors, in units of the bound.

        ``first`` are the answers of the first run, which later runs ask the same questions after.
        """
        tape = Tape(self.both.seed, before, moves)
        people = self.both.side(second)
        laws = tuple(
            None if pair is None else (TapedMatrix(pair[0].dimension, pair[0].off_diagonal, tape), pair[1])
            for pair in self.channel.laws
        )
        taped = replace(self.privatizer, channels=(replace(self.channel, laws=laws),))
        session = taped.open(people, tape, self.total)
        answers: list[Floats] = []
        release: Release | None = None
        for number, vectors in enumerate(self.channel.vectors):
            people.again()
            tape.turn(number)
            what = self._question(answers if first is None else first, number, vectors)
            release = session.answer(Request(_anything(self.privatizer), users=self.total, what=what))
            found = release["matrix"].values, release["vectors"].values / what.bound
            answers.append(np.concatenate([part.ravel() for part in found]))
        return tape, answers

    def _question(self, answers: list[Floats], number: int, vectors: int) -> Linear:
        shape = self.privatizer.shape
        seen = b"".join(np.round(answer, 6).tobytes() for answer in answers[:number])
        rng = np.random.default_rng(np.frombuffer(hashlib.sha256(seen).digest(), np.uint32).tolist())
        signs = rng.choice([-1.0, 1.0], (vectors, LEVELS, shape.states + 1))
        signs[:, LEVELS // 2 :] = -signs[:, : LEVELS - LEVELS // 2]  # low and high rewards pull apart
        weights = np.ones((shape.states, shape.actions))
        if number % 2:
            weights = rng.uniform(0.5, 1.0, weights.shape)
        return Linear(number % shape.horizon, 2.0 * signs, weights, bound=2.0)


def _anything(privatizer: Privatizer) -> Policy:
    return Policy(np.zeros((privatizer.shape.horizon, privatizer.shape.states), np.int64))


def questioned(interview: Interview) -> Profile:
    """The privacy that the answers to all questions gave to the replaced user."""
    written, first = interview.run(second=False)
    moves: dict[Key, Floats] = {}
    _, second = interview.run(True, written, first, moves)
    for key in sorted(written.record):
        number, size = key[0], written.record[key].values.size
        shape = written.record[key].values.shape
        _, probed = interview.run(False, written, first, {key: np.full(shape, _LINEAR_PROBE)})
        reach = probed[number] - first[number]
        where = np.flatnonzero(np.abs(reach) > _SMALL)
        if len(where) != size:
            raise Offence(f"a draw of {size} numbers reaches {len(where)} entries of an answer")
        move = (first[number] - second[number])[where] / reach[where] * _LINEAR_PROBE
        if np.any(np.abs(move) > _SMALL):
            moves[key] = np.rint(move).reshape(shape)
    _, again = interview.run(True, written, first, moves)
    if any(np.abs(a - b).max() > _SMALL for a, b in zip(first, again, strict=True)):
        raise Offence("an answer tells the two data sets apart, and no noise can hide it")
    found = [Move(written.record[key].law, tuple(move.ravel().tolist())) for key, move in sorted(moves.items())]
    return profile_of_moves(found)

"""The coupling check for linear questions: a session that answers them, on two data sets that differ in one user.

Answers are sums on a grid plus noise, so there is one way to move the noise: by the difference of the sums. The moves
of all questions together must be as cheap as the guarantee says. Questions are adaptive: targets and weights change
with every digit of the answers before.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from discreet.audit.neighbouring_populations import Neighbours
from discreet.audit.noise_coupling import Key, Move, Moves, Offence, Tape, TapedMatrix, profile_of_moves
from discreet.base.policies import Policy
from discreet.base.types import Floats
from discreet.mechanisms.moments.linear_statistics import LEVELS, LinearChannel
from discreet.mechanisms.release import Linear, Release, Request
from discreet.mechanisms.session import Privatizer
from discreet.privacy.profiles import Profile

_PROBE = 1.0
_SMALL = 1e-6


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
        _, probed = interview.run(False, written, first, {key: np.full(shape, _PROBE)})
        reach = probed[number] - first[number]
        where = np.flatnonzero(np.abs(reach) > _SMALL)
        if len(where) != size:
            raise Offence(f"a draw of {size} numbers reaches {len(where)} entries of an answer")
        move = (first[number] - second[number])[where] / reach[where] * _PROBE
        if np.any(np.abs(move) > _SMALL):
            moves[key] = np.rint(move).reshape(shape)
    _, again = interview.run(True, written, first, moves)
    if any(np.abs(a - b).max() > _SMALL for a, b in zip(first, again, strict=True)):
        raise Offence("an answer tells the two data sets apart, and no noise can hide it")
    found = [Move(written.record[key].law, tuple(move.ravel().tolist())) for key, move in sorted(moves.items())]
    return profile_of_moves(found)

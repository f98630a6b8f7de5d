"""A release as bytes that a ledger can keep, and a session that answers from them instead of from data.

A learner asks one question or several, each after the answers before it. ``collect`` lets it ask all of them; ``pack``
makes bytes of the noisy statistics, the variances of their noise, the questions themselves, which are public, and how
it was all drawn. Neither counts nor noise are in it. ``StoredAnswers`` gives the same answers again: whatever is known
of them without data (the bounds on their noise, the guarantee) comes from the recipe, applied to nobody.

The same answers make a learner ask the same questions. They are compared all the same, because another version of a
learner may ask for something else, and an answer to another question would be taken for its own.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from zipfile import BadZipFile

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.scientific import sparse
from discreet.base.streams import Stream
from discreet.base.types import Floats, NDArray
from discreet.learners.base import Problem
from discreet.mechanisms.counts.encoder import Context, Encoder
from discreet.mechanisms.counts.joint_histogram import JointCounts, as_counted
from discreet.mechanisms.release import Estimate, Linear, Release, Request
from discreet.mechanisms.session import Privatizer, Session
from discreet.mechanisms.sums.accumulator import SecureNoise
from discreet.mechanisms.trajectories import Users
from discreet.noise.distribution import Law
from discreet.simulation.data_sets import learn

_FORMAT = {"format": "discreet-release", "version": 1}
_SAME = 1e-9  # two machines add in different orders, so public questions agree up to rounding
_UNREADABLE = "the stored release cannot be read by this version of discreet: finish with the version that drew it"


class _Recorded:
    """A session that remembers what it was asked and what it answered."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.answers: list[tuple[Request, Release]] = []

    def answer(self, request: Request) -> Release:
        """The answer of the session."""
        release = self._session.answer(request)
        self.answers.append((request, release))
        return release


Asked = Sequence[tuple[Request, Release]]


def collect(learner: Any, session: Session, problem: Problem, coins: Stream, known: Floats | None) -> Asked:
    """Let a learner ask all its questions of a session that holds the data; the questions with their answers."""
    recorded = _Recorded(session)
    learn(learner, recorded, problem, coins, known, plan=False)
    return recorded.answers


def count_ahead(people: Users, privatizer: Privatizer, request: Request, users: int) -> None:
    """Let the users of a table be counted for this request; they remember the counts."""
    context = Context(request.policy, request.what)
    people.tally(privatizer.take_in(SecureNoise(), users).encoders(context), context, users)


def pack(answers: Asked, made: Mapping[str, Any]) -> bytes:
    """Questions and answers as bytes, without Python objects in them.

    ``made`` is plain data on how they were drawn, such as the sampler and the versions, for receipts to come.
    """
    arrays: dict[str, NDArray[Any]] = {}
    facts = []
    for number, (request, release) in enumerate(answers):
        names = sorted(release.statistics)
        asked: dict[str, Any] = {"statistics": names, "users": release.users, "step": None, "bound": None}
        if isinstance(request.what, Linear):
            asked |= {"step": request.what.step, "bound": request.what.bound}
            arrays[f"{number}.targets"], arrays[f"{number}.weights"] = request.what.targets, request.what.weights
        elif request.what is not None:
            raise Unsupported(f"releases of {type(request.what).__name__} questions are not stored")
        for name in names:
            _pack_estimate(arrays, f"{number}.{name}", release.statistics[name])
        facts.append(asked)
    header = json.dumps({**_FORMAT, "questions": facts, "made": made}, sort_keys=True)
    arrays["facts"] = np.frombuffer(header.encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _pack_estimate(arrays: dict[str, NDArray[Any]], name: str, estimate: Estimate) -> None:
    arrays[f"{name}.variance"] = np.asarray(estimate.variance)
    values: Any = estimate.values
    if isinstance(values, np.ndarray):
        arrays[f"{name}.values"] = values
        return
    table = sparse.csr_array(values)
    arrays |= {f"{name}.data": table.data, f"{name}.columns": table.indices, f"{name}.rows": table.indptr}
    arrays[f"{name}.shape"] = np.array(table.shape, np.int64)


class StoredAnswers:
    """Gives the answers of a stored release, in order, to a learner that asks the same questions."""

    def __init__(self, privatizer: Privatizer, users: int, content: bytes) -> None:
        self._arrays, facts = _unpack(content)
        self._asked: list[dict[str, Any]] = facts["questions"]
        self.made: dict[str, Any] = facts["made"]
        self._given = 0
        # Applied to nobody, a recipe shows what is known of its answers without data; its values are not used.
        self._shown = Session(privatizer, _Nobody(), _NoNoise(), users)

    def answer(self, request: Request) -> Release:
        """The next stored answer; refused if the question is not the one that it answers."""
        number = self._given
        if number == len(self._asked):
            raise InvalidInput(_UNREADABLE)
        shown, asked = self._shown.answer(request), self._asked[number]
        if not self._same_question(number, asked, request, shown):
            raise InvalidInput(_UNREADABLE)
        self._given += 1
        found = {name: self._estimate(f"{number}.{name}") for name in asked["statistics"]}
        return replace(shown, statistics=found)

    def _same_question(self, number: int, asked: Mapping[str, Any], request: Request, shown: Release) -> bool:
        if asked["statistics"] != sorted(shown.statistics) or asked["users"] != shown.users:
            return False
        what = request.what
        if not isinstance(what, Linear):
            return asked["step"] is None
        return asked["step"] == what.step and all(
            np.shape(then) == np.shape(now) and np.allclose(then, now, rtol=_SAME, atol=_SAME)
            for then, now in (
                (self._arrays[f"{number}.targets"], what.targets),
                (self._arrays[f"{number}.weights"], what.weights),
                (asked["bound"], what.bound),
            )
        )

    def _estimate(self, name: str) -> Estimate:
        stored = self._arrays
        variance = stored[f"{name}.variance"]
        if f"{name}.values" in stored:
            return Estimate(stored[f"{name}.values"], variance)
        table: Any = sparse.csr_array(
            (stored[f"{name}.data"], stored[f"{name}.columns"], stored[f"{name}.rows"]),
            shape=tuple(stored[f"{name}.shape"].tolist()),
        )
        return Estimate(table, variance)


def _unpack(content: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        facts = json.loads(arrays["facts"].tobytes())
        if {name: facts[name] for name in _FORMAT} != _FORMAT or {"questions", "made"} - set(facts):
            raise ValueError
    except (EOFError, KeyError, OSError, TypeError, ValueError, BadZipFile, zlib.error):
        raise InvalidInput(_UNREADABLE) from None
    return arrays, facts


class _Nobody:
    """A table without rows."""

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        """Counts of nothing."""
        empty = np.zeros(0, np.int64)
        counted = [as_counted(encoder) for encoder in encoders]
        return [encoder.from_joint(JointCounts(empty, empty, encoder.reward_levels)) for encoder in counted]

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        """Refused: there is nobody."""
        raise Unsupported("a stored release is of a whole data set: nobody sends messages")


class _NoNoise:
    """Zeros, for counts of nobody. It stands where real noise stood, so that the guarantee is that of the release."""

    simulated = False

    def draw(self, law: Law, copies: int, size: int) -> Floats:
        """Zeros."""
        return np.zeros(size)

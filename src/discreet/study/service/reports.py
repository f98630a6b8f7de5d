"""Reports: checked against what is public, packed, admitted or not, and unpacked when their round closes.

A report is refused if no device sends it: other steps than the study has, items, actions or questions that the round's
policy cannot lead to, a text that is too short. What is refused depends on the message and on public things alone.

Randomised reports are kept as the JSON text that arrived, written in one way. A record becomes a row of whole numbers
of fixed length *before* it is sealed, so that its size says nothing about it.

``Admission`` decides inside the transaction: the same id again is answered as before, another report with that id is a
conflict, a token counts at most r times and once in a round, and nobody is let in after the last one.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from discreet.base.errors import of_kind
from discreet.base.policies import AnyPolicy, Policy, StochasticPolicy
from discreet.base.types import Integers, Mask
from discreet.ledger.chain import canonical
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.first_visit_question import SUCCESSOR
from discreet.mechanisms.mechanism import asked_rows
from discreet.mechanisms.messages.asked_first_visit import AskedChannel
from discreet.mechanisms.messages.sampled_item import ReportChannel
from discreet.mechanisms.messages.survey import Report
from discreet.mechanisms.trajectories import Trajectories
from discreet.study.service import rounds
from discreet.study.service.chain_heads import Mark, check_nothing_lost
from discreet.study.service.declaration import Study
from discreet.study.service.rounds import FORGOTTEN, ReportRow
from discreet.study.service.study_database import Link
from discreet.study.service.study_mechanism import Mechanism
from discreet.study.service.wire_messages import Accepted, Bits, Items, Record, Refused
from discreet.study.service.wire_messages import Answer as Answered

ENDED = "the study has ended: thank you, nothing more is needed"
_OVER = (-1, -1, -1)
_WORD = np.dtype("<i4")


Answer = Accepted | Refused
Entry = TypeVar("Entry", int, str)


class RoundRules(NamedTuple):
    """What a report of one round may be."""

    sizes: tuple[int, ...]  # local: how many items each step has, or how many answers either question
    playable: Mask | None  # central: (H, S, A); asked about first visits: the rows that somebody can be asked about


class ReportFormat:
    """How reports of one study are checked, packed and unpacked."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism, self._shape = mechanism, mechanism.study.shape
        self._early_end = mechanism.study.early_end

    def rules(self, policy: AnyPolicy) -> RoundRules:
        """The rules of a round with this policy."""
        if self._mechanism.study.shuffled:
            return RoundRules((), None)  # the coordinator takes no report, only batches
        if self._mechanism.study.sealed:
            return RoundRules((), _playable(policy, self._shape.actions))
        channel, masked = self._mechanism.channel, self._mechanism.privatizer.masked
        if isinstance(channel, AskedChannel):
            sizes = tuple(law.items for law in channel.laws)
            return RoundRules(sizes, asked_rows(self._shape, Context(policy), masked).reshape(-1))
        return RoundRules(tuple(law.items for law in channel.asks(policy, masked).laws), None)

    def pack(self, report: Items | Bits | Answered | Record, rules: RoundRules) -> bytes:
        """The bytes that are kept of a report; refused if no device sends it in such a round."""
        if self._mechanism.study.sealed:
            if not isinstance(report, Record):
                raise Refused("malformed", "this study takes whole records, of kind record")
            return self._pack_record(report, rules)
        if isinstance(report, Record):
            raise Refused("malformed", "this study takes randomised reports only: a record must not leave the device")
        channel = self._mechanism.channel
        if isinstance(channel, AskedChannel):
            if not isinstance(report, Answered):
                raise Refused("malformed", "reports of this study are of kind answer")
            return _pack_answer(report, channel, rules)
        if isinstance(report, Answered):
            raise Refused("malformed", "this study asks about steps, and not about first visits")
        return self._pack_randomised(report, channel, rules)

    def messages(self, contents: Sequence[bytes]) -> list[list[Report]]:
        """Randomised reports as channels take them."""
        return [_message(json.loads(content)) for content in contents]

    def records(self, contents: Sequence[bytes]) -> Trajectories:
        """Opened records as encoders take them; a reward bit is the lowest or the highest reward."""
        H, (low, _high) = self._shape.horizon, self._shape.rewards
        rows = np.frombuffer(b"".join(contents), _WORD).reshape(-1, H, 3).astype(np.int64)
        states, actions, bits = (np.ascontiguousarray(rows[:, :, axis]) for axis in range(3))
        lengths = (states >= 0).sum(axis=1).astype(np.int64)
        rewards = low + self._shape.reward_span * np.maximum(bits, 0).astype(np.float64)
        return Trajectories(np.maximum(states, 0), np.maximum(actions, 0), rewards, lengths)

    def _pack_randomised(self, report: Items | Bits, channel: ReportChannel, rules: RoundRules) -> bytes:
        steps, horizon = report.steps, self._shape.horizon
        if len(steps) != channel.encoder.steps or any(not 0 <= h < horizon for h in steps):
            raise Refused("malformed", f"a report is about {channel.encoder.steps} of the steps 0..{horizon - 1}")
        if any(later <= earlier for earlier, later in pairwise(steps)):
            raise Refused("malformed", "a report names each of its steps once, in order")
        if (channel.response == "unary") != isinstance(report, Bits):
            kind = "bits" if channel.response == "unary" else "items"
            raise Refused("malformed", f"reports of this study are of kind {kind}")
        if isinstance(report, Bits):
            for h, bits in zip(steps, _as_many(report.bits, steps), strict=True):
                if len(bits) != rules.sizes[h] or bits.strip("01"):
                    raise Refused(
                        "malformed", f"a report has {rules.sizes[h]} zeros and ones at step {h} in this round"
                    )
            return canonical({"steps": steps, "bits": report.bits}).encode()
        for h, item in zip(steps, _as_many(report.items, steps), strict=True):
            if not 0 <= item < rules.sizes[h]:
                raise Refused("malformed", f"an item of step {h} lies in 0..{rules.sizes[h] - 1} in this round")
        return canonical({"steps": steps, "items": report.items}).encode()

    def _pack_record(self, report: Record, rules: RoundRules) -> bytes:
        shape, playable = self._shape, rules.playable
        assert playable is not None
        if len(report.steps) != shape.horizon:
            raise Refused("malformed", f"a record has {shape.horizon} steps; after an early end they are [-1, -1, -1]")
        ended = False
        for h, (state, action, bit) in enumerate(report.steps):
            if (state, action, bit) == _OVER:
                ended = True
                continue
            if ended or not (0 <= state < shape.states and 0 <= action < shape.actions and bit in (0, 1)):
                raise Refused("malformed", f"step {h} of the record lies outside of what the study declares")
            if not playable[h, state, action]:
                raise Refused("malformed", f"step {h} of the record has an action that the policy does not take there")
            if h == 0 and shape.start not in (None, state):
                raise Refused("malformed", f"a record of this study starts in state {shape.start}")
        if ended and not self._early_end and report.steps[0] != _OVER:
            raise Refused("malformed", "records of this study are whole or empty: they do not end early")
        return np.array(report.steps, _WORD).tobytes()


class Incoming(NamedTuple):
    """A report that was checked and is ready to be stored; ``content`` is None if its round has closed to new ones."""

    id: str
    round: int
    fingerprint: str | None
    token: str | None
    content: bytes | None


def is_same(report: Incoming, known: Sequence[Any]) -> bool:
    """Whether a report is the one of this round and fingerprint that has its id; once counted nobody can tell."""
    return known[0] == report.round and (report.fingerprint is None or known[1] in (report.fingerprint, FORGOTTEN))


class Admission:
    """Decides about a batch of reports, inside its transaction."""

    def __init__(self, link: Link, study: Study, mark: Mark | None = None) -> None:
        self._link, self._study, self._mark = link, study, mark
        at = rounds.standing(link)
        assert at is not None
        self._at, self._new = at, list[ReportRow]()
        self._room = 0 if at.ended else study.total - at.served - at.waiting

    def answers(self, incoming: Sequence[Incoming]) -> list[Answer]:
        """An answer for each report; those that are taken are entered."""
        marked = [] if self._mark is None else [self._mark.id]
        self._known = rounds.known_reports(self._link, [*(each.id for each in incoming), *marked])
        if self._mark is not None and self._mark.id not in self._known:
            check_nothing_lost(self._link, [self._mark], "the database")
        late = sorted({each.round for each in incoming} - {self._at.number})
        self._given_up = rounds.given_up(self._link, late) if late and not self._study.sealed else set()
        tokens = sorted({each.token for each in incoming if each.token is not None})
        self._used, self._seen = rounds.tokens_used(self._link, tokens), rounds.rounds_of_tokens(self._link, tokens)
        answers = [self._answer(each) for each in incoming]
        rounds.add_reports(self._link, self._new, self._at.lot)
        rounds.use_tokens(self._link, (row.token for row in self._new if row.token is not None))
        return answers

    @property
    def round(self) -> int:
        """The round that is open."""
        return self._at.number

    @property
    def new(self) -> str | None:
        """The last report that was just taken, if there was one."""
        return self._new[-1].id if self._new else None

    @property
    def full(self) -> bool:
        """Whether the open round has what it wants, with the reports that were just taken."""
        return self._at._replace(reports=self._at.reports + len(self._new)).full

    def _answer(self, report: Incoming) -> Answer:
        known = self._known.get(report.id)
        if self._study.invited and (
            report.token not in self._used or (known is not None and known[2] not in (None, report.token))
        ):
            return Refused("token", "this token is not one of the study's")
        if known is not None:
            return (
                Accepted(report.round)
                if is_same(report, known)
                else Refused("conflict", "another report has this id already")
            )
        if self._at.ended is not None or self._room <= 0:
            return Refused("ended", ENDED)
        if report.content is None or report.fingerprint is None or report.round in self._given_up:
            return Refused("closed", "this round has closed: it takes no more reports")
        if self._study.sealed and (report.round != self._at.number or self._at.closing):
            return Refused("closed", "this round has closed: it takes no more reports")
        if report.token is not None and not self._spend(report.token, report.round):
            return Refused("token", "this token has been used up, or used in this round already")
        self._room -= 1
        row = ReportRow(report.id, report.round, report.fingerprint, report.token, report.content)
        self._known[report.id] = (row.round, row.fingerprint, row.token)
        self._new.append(row)
        return Accepted(report.round)

    def _spend(self, token: str, number: int) -> bool:
        if self._used[token] >= self._study.most_reports or (token, number) in self._seen:
            return False
        self._used[token] += 1
        self._seen.add((token, number))
        return True


class Invited:
    """All invitations in memory, eight bytes of each digest: a stranger is refused before it is anybody's turn.

    Tokens are only ever added, by another process perhaps, so the database is asked before one is refused: once for
    all who wait meanwhile. Whether a token may be used is decided in the transaction.
    """

    def __init__(self) -> None:
        self._known, self._begun, self._lock = np.zeros(0, np.uint64), 0, threading.Lock()

    def holds(self, digest: str) -> bool:
        """Whether this one is known to be one of the study's."""
        wanted, known = np.uint64(int(digest[:16], 16)), self._known
        place = int(np.searchsorted(known, wanted))
        return place < len(known) and bool(known[place] == wanted)

    def check(self, digest: str, reader: AbstractContextManager[Link]) -> None:
        """Refuse one that is not, after a look that began since."""
        if self.holds(digest):
            return
        seen = self._begun
        with self._lock:
            if self._begun <= seen:  # else somebody has looked since
                self._begun += 1
                try:
                    self._renew(reader)
                except BaseException:
                    self._begun -= 1
                    raise
        if not self.holds(digest):
            raise Refused("token", "this token is not one of the study's")

    def _renew(self, reader: AbstractContextManager[Link]) -> None:
        with reader as link:
            if rounds.number_of_tokens(link) != len(self._known):
                first = [int(digest[:16], 16) for digest in rounds.all_tokens(link)]
                self._known = np.sort(np.array(first, np.uint64))


def token_digest(token: str) -> str:
    """What is stored of a token; tokens are random and long, so nobody finds them by trying."""
    return hashlib.sha256(b"discreet token 1\n" + token.encode("utf-8", "replace")).hexdigest()


def plain_fingerprint(content: bytes) -> str:
    """Tells two randomised reports apart as long as the content itself lies beside it."""
    return hashlib.sha256(content).hexdigest()


def _pack_answer(report: Answered, channel: AskedChannel, rules: RoundRules) -> bytes:
    playable = rules.playable
    assert playable is not None
    row, about = divmod(report.question, 2)
    if not 0 <= row < len(playable):
        raise Refused("malformed", f"a question of this study is a number in 0..{2 * len(playable) - 1}")
    if not playable[row]:
        raise Refused("malformed", "nobody is asked in this round about a state and action that its policy cannot play")
    size, unary = rules.sizes[about], about == SUCCESSOR and channel.response == "unary"
    if isinstance(report.answer, int) == unary or isinstance(report.bits, str) != unary:
        raise Refused("malformed", f"this question is answered by {'bits' if unary else 'answer'}, and by nothing else")
    if isinstance(report.bits, str):
        if len(report.bits) != size or report.bits.strip("01"):
            raise Refused("malformed", f"this question is answered by {size} zeros and ones")
        return canonical({"question": report.question, "bits": report.bits}).encode()
    if not isinstance(report.answer, int) or not 0 <= report.answer < size:
        raise Refused("malformed", f"an answer to this question lies in 0..{size - 1}")
    return canonical({"question": report.question, "answer": report.answer}).encode()


def _message(kept: dict[str, Any]) -> list[Report]:
    if "question" in kept:
        sent = _zeros_and_ones(kept["bits"]) if "bits" in kept else np.array([int(kept["answer"])], np.int64)
        return [Report(int(kept["question"]), sent)]
    if "bits" in kept:
        pairs = zip(kept["steps"], kept["bits"], strict=True)
        return [Report(int(h), _zeros_and_ones(bits)) for h, bits in pairs]
    return [Report(int(h), np.array([int(i)], np.int64)) for h, i in zip(kept["steps"], kept["items"], strict=True)]


def _zeros_and_ones(text: str) -> Integers:
    return np.frombuffer(str(text).encode(), np.uint8).astype(np.int64) - 48


def _as_many(values: list[Entry], steps: list[int]) -> list[Entry]:
    if len(values) != len(steps):
        raise Refused("malformed", "a report has one entry for each of its steps")
    return values


def _playable(policy: AnyPolicy, actions: int) -> Mask:
    if isinstance(policy, Policy):
        return np.asarray(policy.actions[:, :, None] == np.arange(actions))
    return np.asarray(of_kind(StochasticPolicy, policy).probabilities > 0)

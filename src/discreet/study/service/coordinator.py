"""The coordinator: opens a study, hands out the policy of its open round, takes in reports, closes rounds.

It is an object without threads, web server or global state: files, clock and noise are handed in, and ``point`` is
called between any two steps of importance, so that tests can stop it there. Several coordinators may work on one
database.

**What is handed out** is the latest round of the database, once its head lies outside the database
(:mod:`discreet.study.service.chain_heads`): :meth:`Coordinator.finish` does whatever a closing, here or elsewhere, has
left to do.

**What is accepted** stays. A report is acknowledged after the COMMIT of its row and a mark outside the database, which
shows later if the database has lost it. If the database does not say whether it has committed, it is read again; what
is there is acknowledged, and the rest is not.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from discreet.base.errors import InvalidInput
from discreet.base.files import shortened
from discreet.base.saved_arrays import from_bytes
from discreet.ledger.budget import make_budget
from discreet.ledger.spending import declare_rounds, now, open_data_set
from discreet.mechanisms.mechanism import MessageTerms
from discreet.mechanisms.sums.accumulator import NoiseSource, SecureNoise
from discreet.noise.distribution import secure_library
from discreet.study.service import batches, closing, rounds
from discreet.study.service.chain_heads import ExternalHead, Marks, Signer, check_not_behind, check_nothing_lost
from discreet.study.service.closing import PLAN, WHO, Desk, Live
from discreet.study.service.declaration import Study
from discreet.study.service.reports import (
    ENDED,
    Admission,
    Answer,
    Incoming,
    Invited,
    ReportFormat,
    RoundRules,
    is_same,
    plain_fingerprint,
    token_digest,
)
from discreet.study.service.rounds import RoundRow, StateRow, StudyRow
from discreet.study.service.sealing import KeyFolder, RoundKey, bound_to, seal, sealing_key
from discreet.study.service.study_database import Database, Held, Link, Point, Unsure, no_fault, storing_errors
from discreet.study.service.study_files import Places
from discreet.study.service.study_mechanism import policy_from, prepare
from discreet.study.service.wire_messages import Accepted, BatchAccepted, Refused, ReportMessage, decode

MOST_HEADS = 100  # of one answer
_END, _PAUSE = 600.0, 0.05  # seconds that ending a study waits for others, and between two attempts
_BETWEEN = 0.002  # seconds between two pieces that are erased, for others to have their turn
_MOST_RULES = 512  # rounds whose rules are kept at hand


class Published(NamedTuple):
    """What is handed out: the latest round whose head lies outside the database."""

    row: RoundRow
    ended: str | None
    policy: dict[str, Any]
    key: RoundKey | None  # central: of the open round


class NotAtHand(Exception):
    """What a report is checked by has to be looked up in the database."""


class Coordinator:
    """One study at work. Methods may be called from several threads."""

    def __init__(
        self, study: Study, database: Database, places: Places, *, noise: NoiseSource | None = None,
        clock: Callable[[], str] = now, point: Point = no_fault,
    ) -> None:  # fmt: skip
        study.check_said("epsilon")
        self.declared, self.database, self._places, self.point = study, database, places, point
        self._external, self._keys = ExternalHead(places.head), KeyFolder(places.keys)
        self._marks = Marks(places.marks, study.hash)
        self._clock, self._noise = clock, SecureNoise() if noise is None else noise
        self._signer = Signer(places.signing, study.signing_key)
        database.prepare()
        self._link = Held(database)
        self._closer = Held(database)
        self._reader = Held(database)
        self._finishing = threading.Lock()
        self._live: Live | None = None
        self.full = False  # whether the last reports have filled the open round: a hint to close it now
        self._rules: dict[int, RoundRules] = {}
        self._invited = Invited()
        found = self._found()
        self.mechanism = prepare(study, None if found is None else found.recipe)
        self.format = ReportFormat(self.mechanism)
        self._desk = Desk(
            self.mechanism, self.format, self._signer, self._keys, self._noise, clock, lambda name: self.point(name),
            lambda link: check_nothing_lost(link, self._marks.read(), database.named),
            sealing_key(places.sealing, study.sealing_key) if study.shuffled else None,
        )  # fmt: skip
        if found is None:
            self._open()
        self._published: Published | None = None
        self.finish()

    # What participants may know

    def study(self) -> dict[str, Any]:
        """The declaration, its hash, what it promises, and what a device sends."""
        return {
            "study": dict(self.declared.declaration),
            "hash": self.declared.hash,
            "promise": self.mechanism.promise(),
            "report": self.mechanism.report_kind(),
        }

    def policy(self) -> dict[str, Any]:
        """The policy of the open round with its signed head; refused when the study has ended."""
        published = self.published
        if published.ended is not None:
            raise Refused("ended", ENDED)
        return published.policy

    def head(self) -> dict[str, Any]:
        """The latest signed head."""
        return self.published.row.signed

    def heads(self, first: int = 1) -> list[dict[str, Any]]:
        """Signed heads in order, from one round on; at most a hundred."""
        return [dict(json.loads(head)) for head in self.head_texts(first)]

    def head_texts(self, first: int = 1) -> list[str]:
        """The same as they were signed; nothing else of the rounds is read."""
        with self._reader as link:
            return rounds.heads_from(link, first, self.published.row.number, MOST_HEADS)

    @property
    def published(self) -> Published:
        """What is handed out now."""
        assert self._published is not None
        return self._published

    # Reports in

    def accept(self, body: bytes | Mapping[str, Any], token: str | None = None) -> Accepted:
        """Take in one report; :class:`~discreet.study.service.wire_messages.Refused` if it is not taken."""
        incoming = self.check(body if isinstance(body, bytes) else json.dumps(dict(body)).encode(), token)
        (answer,) = self.accept_all([incoming])
        if isinstance(answer, Refused):
            raise answer
        return answer

    def check(self, body: bytes, token: str | None = None, *, looks: bool = True) -> Incoming:
        """Decode and check one report and make it ready to be stored.

        Touches the database for late and for unknown rounds only; without ``looks`` it raises :class:`NotAtHand` there.
        """
        if self.declared.shuffled:
            raise Refused("malformed", "this study takes no report from a device: send it, sealed, to the shuffler")
        message = decode(body)
        if message.study != self.declared.hash:
            raise Refused("unknown", "this is another study than the one that the report names")
        if self.declared.invited and token is None:
            raise Refused("token", "this study is for invited participants: send the token")
        token = None if token is None or not self.declared.invited else token_digest(token)
        if token is not None and not self._invited.holds(token):
            if not looks:
                raise NotAtHand
            self._invited.check(token, self._reader)
        if message.round > self.published.row.number:
            if not looks:
                raise NotAtHand
            self.refresh()
        published = self.published
        if message.round > published.row.number:
            raise Refused("unknown", "the study has no such round")
        if self.declared.sealed:
            return self._sealed(message, token, published)
        rules = self._rules_of(message.round, looks)
        if rules is None:
            return Incoming(message.id, message.round, None, token, None)
        content = self.format.pack(message.report, rules)
        return Incoming(message.id, message.round, plain_fingerprint(content), token, content)

    def _sealed(self, message: ReportMessage, token: str | None, published: Published) -> Incoming:
        rules = self._rules_of(message.round) if message.round == published.row.number else None
        if rules is None or published.key is None:
            return Incoming(message.id, message.round, None, token, None)
        content, key = self.format.pack(message.report, rules), published.key
        info = bound_to(self.declared.hash, message.round, "record")
        return Incoming(message.id, message.round, key.fingerprint(content), token, seal(content, key.public, info))

    def accept_all(self, incoming: Sequence[Incoming]) -> list[Answer]:
        """Store checked reports in one transaction; an answer for each, given after its COMMIT and a mark outside."""
        return self.accept_waiting(lambda: incoming)

    def accept_waiting(self, take: Callable[[], Sequence[Incoming]]) -> list[Answer]:
        """The same for what waits when it is this coordinator's turn to write: then ``take`` is called, once."""
        incoming: Sequence[Incoming] | None = None
        try:
            with self._link as link:  # until the mark is written: marks come in the order of commits
                with link.writing():
                    self.point("accept: locked")
                    incoming = take()
                    admission = Admission(link, self.declared, self._marks.last)
                    answers = admission.answers(incoming)
                    self.point("accept: written")
                self.point("accept: committed")
                self.full = admission.full
                self._mark(admission.round, admission.new, incoming, answers)
                return answers
        except Unsure:
            return self._read_again(incoming or take())
        except storing_errors():
            busy = Refused("busy", "the coordinator cannot store reports now: send the same again later")
            return [busy] * len(take() if incoming is None else incoming)

    def _read_again(self, incoming: Sequence[Incoming]) -> list[Answer]:
        """After a COMMIT of which nobody knows: what is there was accepted, what is not was not."""
        unsure = Refused("busy", "the coordinator is not sure about this report: send the same again")
        with suppress(*storing_errors(), Unsure), self._link as link:
            with link.writing():
                known = rounds.known_reports(link, [each.id for each in incoming])
                row = rounds.last_round(link)
            answers: list[Answer] = [
                Accepted(each.round)
                if each.id in known and each.fingerprint is not None and is_same(each, known[each.id])
                else unsure
                for each in incoming
            ]
            assert row is not None
            self._mark(row.number, None, incoming, answers)
            return answers
        return [unsure] * len(incoming)

    def accept_batch(self, body: bytes) -> BatchAccepted:
        """Take in the batch of the open round, from the shuffler; durable when this returns, and counted once."""
        if not self.declared.shuffled:
            raise Refused("malformed", "this study has no shuffler: devices send their reports themselves")
        message, row = batches.check_batch(body, self.declared)
        self.refresh()
        published = self.published
        terms, policy = self._terms(published), published.row.signed["policy"]
        try:
            with self._link as link:
                with link.writing():
                    self.point("batch: locked")
                    latest = rounds.last_round(link)
                    if latest is not None and latest.number != published.row.number:
                        raise Refused("busy", "the round has just changed: send the same again")
                    new = batches.admit(link, message, row, terms, policy)
                    self.point("batch: written")
                self.point("batch: committed")
                self._marks.write(row.round, row.id if new else None, [row.id])
                self.point("batch: marked")
        except Unsure:
            raise Refused("busy", "the coordinator is not sure about this batch: send the same again") from None
        except storing_errors():
            raise Refused("busy", "the coordinator cannot store the batch now: send the same again later") from None
        self.full = True
        return BatchAccepted(row.id)

    def largest_batch(self) -> int:
        """The most bytes that a batch of any round so far has: older ones may come again."""
        with self._reader as link:
            users = rounds.most_wanted(link)
        return batches.largest_batch(users, self.mechanism.most_messages(users))

    def _terms(self, published: Published) -> MessageTerms:
        if published.ended is not None:
            return MessageTerms(0, 0, ())
        return self.mechanism.terms(policy_from(json.loads(published.row.policy)), published.row.wanted)

    def _mark(self, number: int, new: str | None, incoming: Sequence[Incoming], answers: Sequence[Answer]) -> None:
        """Write outside the database what is about to be acknowledged while round ``number`` is open."""
        if number > self.published.row.number:
            self.refresh()  # another coordinator has closed a round: its head comes before marks of the next one
        accepted = [each.id for each, answer in zip(incoming, answers, strict=True) if isinstance(answer, Accepted)]
        self._marks.write(number, new, accepted)
        self.point("accept: marked")

    def _rules_of(self, number: int, looks: bool = True) -> RoundRules | None:
        """What a report of this round may be; None if the round was abandoned or lost, so that it takes none."""
        found = self._rules.get(number)
        if found is None:
            if not looks:
                raise NotAtHand
            with self._reader as link:
                row = rounds.round_at(link, number)
            if row is None:
                raise Refused("unknown", "the study has no such round")
            if row.how in rounds.GIVEN_UP:
                return None
            found = self.format.rules(policy_from(json.loads(row.policy)))
            while len(self._rules) >= _MOST_RULES:
                self._rules.pop(next(iter(self._rules)), None)
            self._rules[number] = found
        return found

    # Rounds

    def waiting(self) -> tuple[int, int]:
        """How many reports wait to be counted, and how many the open round wants; (0, 0) after the end."""
        with self._reader as link:
            at = rounds.standing(link)
        return (0, 0) if at is None or at.how is not None else (at.waiting, at.wanted)

    @contextmanager
    def reading(self) -> Iterator[Link]:
        """A connection for looking only."""
        with self._reader as link:
            yield link

    def close_if_full(self) -> bool:
        """Close the open round if enough reports have arrived, and publish what follows. Whether it did."""
        self.refresh()
        with self._reader as link:
            at, erasing = rounds.standing(link), rounds.left_to_erase(link)
        if erasing:
            self._erase()
        return at is not None and at.how is None and (at.full or at.closing) and self._close(None)

    def end(self, why: str = "ended by the operator") -> None:
        """Count what has arrived and end the study. What was charged for it stays charged."""
        until = time.monotonic() + _END
        while self.published.row.how != "final":
            if not self._close(why):  # another coordinator closes a round, or a table is still being read
                if time.monotonic() > until:
                    raise InvalidInput("the study could not be ended, because another process counts: try again later")
                time.sleep(_PAUSE)

    def _close(self, ending: str | None) -> bool:
        before = self.published.row.number
        live, self._live = self._live, None  # whatever fails, the next closing starts from the database
        try:
            with self._closer as link, self.database.alone(link) as free:
                if free:
                    closed = closing.close(link, self._desk, live, ending=ending)
                    self._live = None if closed is None else closed.live
        except Unsure:
            pass  # the database is read again below, and nothing is repeated
        self.refresh()
        self._erase()
        return self.published.row.number > before

    def _erase(self) -> None:
        """Erase what counted reports said; what cannot be erased now is erased before the next round closes."""
        with suppress(Unsure, *storing_errors()), self._closer as link:
            some = False
            while closing.erase(link, self._desk):
                some = True
                time.sleep(_BETWEEN)
            if some and self.declared.model == "local":  # others are sealed
                link.forget()

    def refresh(self) -> None:
        """Publish what this or another coordinator has committed since; refused if the database has lost something."""
        mark = self._marks.last  # before the database, which holds it since
        with self._reader as link:
            row = rounds.last_round(link)
            check_nothing_lost(link, [] if mark is None else [mark], self.database.named)
        if row is None or row.number != self.published.row.number:
            self.finish()

    def write_nothing(self) -> None:
        """Write to the database as a report would, and change nothing: it fails where no report could be stored."""
        with self._link as link, link.writing():
            link.run("UPDATE study SET ended = ended")

    def finish(self) -> None:
        """Do what is left to do after a commit: external head, publish, destroy the keys of closed rounds."""
        with self._finishing:
            while not self._finish():
                pass

    def _finish(self) -> bool:
        """Whether the latest round was published; not if another coordinator went on to the next one meanwhile."""
        # Read before the database: whatever it names was committed before it was written there.
        held, marks = self._external.read(), self._marks.read()
        self.point("finish: begun")
        with self._reader as link, link.reading():
            study, row = rounds.study_row(link), rounds.last_round(link)
            if study is None or row is None:
                raise InvalidInput(f"{self.database.named} has lost the study: restore it")
            check_not_behind(link, self._external.file, held, self.declared.hash, row, self.database.named)
            check_nothing_lost(link, marks, self.database.named)
            state = rounds.state_row(link, row.number)
        self.point("finish: checked")
        self._external.write(row.signed)
        self.point("finish: headed")
        try:
            self._publish(study, row, state)
        except InvalidInput:  # its key is gone: lost, or destroyed by who has closed the round since
            if not self._overtaken(row):
                raise
            return False
        self.point("finish: published")
        self._keys.destroy_before(row.number)
        self.point("finish: destroyed")
        return True

    def _overtaken(self, row: RoundRow) -> bool:
        with self._reader as link:
            latest = rounds.last_round(link)
        return latest is not None and latest.number > row.number

    def _publish(self, study: StudyRow, row: RoundRow, state: StateRow | None) -> None:
        policy = json.loads(row.policy)
        message = {"study": self.declared.hash, "round": row.number, "policy": policy, "head": row.signed}
        message["wanted"] = row.wanted
        key = None
        if not self.declared.sealed and study.ended is None:
            message["laws"] = self.mechanism.laws(policy_from(policy), row.wanted)
            if self.mechanism.asks:
                message["questions"] = self._questions(row.number, policy, state)
        elif study.ended is None:
            key = self._keys.get(row.number)
            if key.public != row.public_key:
                raise InvalidInput(f"the key file of round {row.number} is not the key that the database names")
        self._rules[row.number] = self.format.rules(policy_from(policy))
        self._published = Published(row, study.ended, message, key)

    def _questions(self, number: int, policy: dict[str, Any], state: StateRow | None) -> list[int]:
        """The weights of questions of a round: a function of the state that was entered with it."""
        if state is None:
            raise InvalidInput(f"the state of round {number} is missing from the database: restore a whole copy of it")
        return self.mechanism.questions(from_bytes(state.public), policy_from(policy))

    # Opening

    def _found(self) -> StudyRow | None:
        held, marks = self._external.read(), self._marks.read()  # before the database: somebody may be opening it
        with self._link as link:
            found = rounds.study_row(link)
        if found is not None and found.hash != self.declared.hash:
            raise InvalidInput(
                f"{self.database.named} belongs to another study, or this one was changed after it had opened: a study "
                "that changes is another study and needs a database of its own"
            )
        if found is None and held is not None and (held["round"] > 0 or held["study"] != self.declared.hash):
            raise InvalidInput(
                f"{self._external.file} says that a study here has reached round {held['round']}, and "
                f"{self.database.named} holds none: bring the database back, or give the new study another file"
            )
        if found is None and marks:
            raise InvalidInput(
                f"{shortened(self._places.marks)} says that reports of this study were acknowledged, and "
                f"{self.database.named} holds none: bring the database back, or remove that folder to begin anew"
            )
        return found

    def _open(self) -> None:
        """Enter study, budget, charge, first round and first state, in one transaction."""
        study, mechanism = self.declared, self.mechanism
        self._external.begin(study.hash)
        self.point("open: begun")
        intake, state = mechanism.first(self._noise)
        budget = make_budget(
            epsilon=study.declaration["privacy"]["epsilon"], delta=study.declaration["privacy"]["delta"]
        )
        with self._link as link, link.writing():
            row = StudyRow(study.hash, study.text, mechanism.privatizer.recipe, self._clock(), None)
            if not rounds.add_study(link, row):
                return  # another process was faster
            open_data_set(link.raw, study.name, budget, declaration=study.hash)
            declare_rounds(
                link.raw, study.name, PLAN, mechanism.part, study.most_reports,
                delta=study.declaration["privacy"]["delta"], what=f"the whole study {study.name}", who=WHO,
            )  # fmt: skip
            self.point("open: charged")
            first = closing.next_round(self._desk, Live(0, intake, state), 1, "", "", None)
            closing.enter_next(link, self._desk, first)
        self.point("open: committed")

    def warm_up(self) -> None:
        """Load what the first closing needs, and plan once in vain: what is compiled then is compiled already."""
        if self.declared.sealed:
            secure_library()
        with self._reader as link, link.reading():
            study, row = rounds.study_row(link), rounds.last_round(link)
            state = None if row is None else rounds.state_row(link, row.number)
        if study is None or row is None or study.ended is not None:
            return
        live, learner = closing.live_at(self._desk, row.number, state), self.mechanism.learner
        learner.ask(live.state)
        learner.recommend(live.state)

    def stop(self) -> None:
        """Give connections back."""
        self._link.close()
        self._closer.close()
        self._reader.close()
        self._marks.close()

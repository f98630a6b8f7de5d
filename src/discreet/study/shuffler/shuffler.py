"""The shuffler: takes sealed reports in, freezes a batch when it is whole, charges, permutes once, and hands it on.

It is an object without threads or web server, as the coordinator is: files, clock and the way to the coordinator are
handed in, and ``point`` is called between any two steps of importance, so that tests can stop it there.

**Freezing a batch** is one transaction, when as many users have reported as the certified batch has, and never before:
charge the ledger; permute all messages of all users with the system's entropy; sign; store these bytes under a new id
and forget which report held which message, down to the hash of each report and to what SQLite keeps of rows that were
overwritten. After COMMIT the membership of the batch and its order never change. Then
the number of the round is written outside the database and synced, and only after that the bytes leave, the same ones
again and again until the coordinator has acknowledged them.

**Formal guarantees.** *Exactly once.* A report is in one batch, because its messages move into it in the transaction
that freezes it; a round has one batch (a unique column); the coordinator counts a batch id once. *Spend before
release*: the charge commits with the batch, and nothing leaves before. *Permuted once*: the order is drawn inside the
transaction, so a crash before COMMIT forgets it unseen, and after it the stored bytes are sent. A database that is
older than what has left (a restored backup) could freeze other members under the same round, so it is refused.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discreet.base.errors import InvalidInput
from discreet.base.files import shortened
from discreet.client.errors import ClientError
from discreet.client.heads import SplitView
from discreet.client.transport import Asks
from discreet.client.words import read
from discreet.ledger.budget import make_budget
from discreet.ledger.chain import canonical, digest
from discreet.ledger.keys import private_key, public_digits
from discreet.ledger.spending import declare_rounds, now, open_data_set, spend
from discreet.study.service import rounds
from discreet.study.service.batches import hashed_body, pass_text, pieces, signed_text, written
from discreet.study.service.chain_heads import ExternalHead
from discreet.study.service.coordinator import NotAtHand
from discreet.study.service.declaration import Study
from discreet.study.service.reports import ENDED, Answer, Invited, token_digest
from discreet.study.service.rounds import StudyRow
from discreet.study.service.study_database import Database, Held, Link, Point, Unsure, no_fault, storing_errors
from discreet.study.service.study_files import ShufflerPlaces
from discreet.study.service.study_mechanism import prepare
from discreet.study.service.wire_messages import Accepted, Refused, decode_sealed
from discreet.study.shuffler import shuffler_database
from discreet.study.shuffler.round_view import Coordinator, Ended, look
from discreet.study.shuffler.sealed_reports import Admission, Incoming, checked
from discreet.study.shuffler.shuffler_database import Batch, RoundView

PLAN, WHO = "rounds", "participant"
_OVER = ("closed", "ended")  # refusals after which a batch is of no use to anybody
_LATER = "send the same again later"

Shuffle = Callable[[list[bytes]], None]


def shuffle_securely(messages: list[bytes]) -> None:
    """Permute in place, all orders equally likely, by the operating system's entropy."""
    secrets.SystemRandom().shuffle(messages)


class Shuffler:
    """The second party of one study. Methods may be called from several threads."""

    def __init__(
        self, study: Study, database: Database, places: ShufflerPlaces, coordinator: Asks, *,
        clock: Callable[[], str] = now, point: Point = no_fault, shuffle: Shuffle = shuffle_securely,
    ) -> None:  # fmt: skip
        if not study.shuffled:
            raise InvalidInput('this study has no shuffler: its model is not "shuffle"')
        study.check_said("epsilon")
        self.declared, self.database, self.point = study, database, point
        self._connection, self._clock, self._shuffle = coordinator, clock, shuffle
        self._coordinator = Coordinator(coordinator, study.hash)
        self._key = _signing_key(places.signing, study.shuffler_key)
        self._external = ExternalHead(places.signing.with_suffix(".head"))
        database.prepare()
        self._link, self._reader = Held(database), Held(database)
        self._looking, self._sending = threading.Lock(), threading.Lock()
        self.full = False  # whether the last reports have filled a batch: a hint to freeze it now
        self._invited = Invited()
        found = self._found()
        self.mechanism = prepare(study, None if found is None else found.recipe)
        if found is None:
            self._open()
        self._check_not_behind()

    # Reports in

    def check(self, body: bytes, token: str | None = None, asks: bool = True) -> Incoming:
        """Decode and check one report and make it ready to be stored.

        Of an unknown round the coordinator is asked; without ``asks`` :class:`NotAtHand` is raised instead.
        """
        message = decode_sealed(body)
        if message.study != self.declared.hash:
            raise Refused("unknown", "this is another study than the one that the report names")
        if self.declared.invited and token is None:
            raise Refused("token", "this study is for invited participants: send the token")
        token = None if token is None or not self.declared.invited else token_digest(token)
        if token is not None:
            self._invited.check(token, self._reader)
        if not asks and self._known(message.round) is None:
            raise NotAtHand
        return checked(message, body, token, self._view_of(message.round))

    def accept_all(self, incoming: Sequence[Incoming]) -> list[Answer]:
        """Store checked reports in one transaction; an answer for each, given after its COMMIT."""
        try:
            with self._link as link:
                with link.writing():
                    self.point("accept: locked")
                    admission = Admission(link, self.declared)
                    answers = admission.answers(incoming)
                    self.point("accept: written")
                self.point("accept: committed")
                self.full = self.full or admission.full
                return answers
        except Unsure:
            return [Refused("busy", f"the shuffler is not sure about this report: {_LATER}")] * len(incoming)
        except storing_errors():
            return [Refused("busy", f"the shuffler cannot store reports now: {_LATER}")] * len(incoming)

    def accept(self, body: bytes, token: str | None = None) -> Accepted:
        """Take in one report; :class:`~discreet.study.service.wire_messages.Refused` if it is not taken."""
        (answer,) = self.accept_all([self.check(body, token)])
        if isinstance(answer, Refused):
            raise answer
        return answer

    # Rounds

    def _view_of(self, number: int) -> RoundView:
        view = self._known(number)
        if view is None:
            with self._looking:  # others who wait here find what the first one has found
                view = self._known(number) or self._looked(number)
        if view is None:
            raise Refused("unknown", "the study has no such round")
        return view

    def _looked(self, number: int) -> RoundView | None:
        self._refresh()
        return self._known(number)

    def _known(self, number: int) -> RoundView | None:
        with self._reader as link:
            found, view = rounds.study_row(link), shuffler_database.round_at(link, number)
        if view is None and found is not None and found.ended is not None:
            raise Refused("ended", ENDED)
        return view

    def refresh(self) -> None:
        """Ask the coordinator which round is open, and note it."""
        with self._looking:
            self._refresh()

    def _refresh(self) -> None:
        with self._reader as link:
            found, last = rounds.study_row(link), shuffler_database.last_round(link)
        if found is None or found.ended is not None:
            return
        try:
            seen = look(self._coordinator, self.mechanism, last)
        except SplitView as split:
            with self._link as link, link.writing():
                shuffler_database.keep_evidence(link, *(canonical(head) for head in split.evidence))
            raise InvalidInput(
                "the coordinator has signed two heads for one round: both are kept as evidence"
            ) from None
        self.point("view: seen")
        if isinstance(seen, Ended):
            self._end(seen.why)
        elif last is None or seen.number > last.number:
            self._note(seen)

    def _note(self, view: RoundView) -> None:
        with self._link as link, link.writing():
            last = shuffler_database.last_round(link)
            if last is None or view.number > last.number:
                # The coordinator has gone on without a batch of these: what was sent for them counts nowhere.
                shuffler_database.drop_open_rounds(link, "the coordinator has gone on without it")
                shuffler_database.add_round(link, view)
                self.point("view: written")

    def _end(self, why: str) -> None:
        with self._link as link, link.writing():
            shuffler_database.drop_open_rounds(link, "the study has ended")
            rounds.end_study(link, why)
            self.point("end: written")

    # Batches out

    def freeze_if_full(self) -> bool:
        """Freeze the batch of the open round if all of its users have reported. Whether it did."""
        self.full = False
        try:
            with self._link as link:
                with link.writing():
                    self.point("freeze: locked")
                    view = shuffler_database.last_round(link)
                    if view is None or not view.is_open or shuffler_database.waiting(link, view.number) < view.users:
                        return False
                    shuffler_database.freeze(link, self._batch(view, shuffler_database.contents(link, view.number)))
                    self.point("freeze: stored")
                    spend(
                        link.raw, self.declared.name, self.mechanism.part,
                        what=f"round {view.number}, a batch of {view.users} users",
                        request=digest({"study": self.declared.hash, "round": view.number}),
                        declaration=self.declared.hash, who=WHO, plan=PLAN,
                    )  # fmt: skip
                    self.point("freeze: charged")
                self.point("freeze: committed")
                link.forget()
        except Unsure:
            return False  # the database is read again before anything is sent, and nothing is repeated
        return True

    def _batch(self, view: RoundView, contents: list[bytes]) -> Batch:
        """The batch of a round: the messages of all its users, permuted, signed, as the bytes that are sent."""
        messages = [message for content in contents for message in pieces(content)]
        if len(contents) != view.users or len(messages) != view.users * view.messages:
            raise InvalidInput(
                f"the batch of round {view.number} has {len(contents)} reports with {len(messages)} messages, and "
                f"{view.users} of {view.messages} are declared: it is not sent; bring the shuffler's database back"
            )
        self._shuffle(messages)
        self.point("freeze: permuted")
        batch: dict[str, Any] = {
            "study": self.declared.hash,
            "round": view.number,
            "policy": view.policy,
            "batch": secrets.token_hex(16),
            "users": view.users,
            "messages": [written(message) for message in messages],
            "key": self.declared.shuffler_key,
        }
        batch["signature"] = self._key.sign(signed_text(batch)).hex()
        return Batch(batch["batch"], view.number, view.users, canonical(batch).encode())

    def send(self) -> int:
        """Send every batch that has not been acknowledged, the same bytes as before; gives how many are left."""
        with self._sending:
            with self._reader as link:
                waiting = shuffler_database.unacknowledged(link)
            return sum(not self._sent(batch) for batch in waiting)

    def _sent(self, batch: Batch) -> bool:
        self._external.write({"study": self.declared.hash, "round": batch.round})
        self.point("send: begun")
        how = self._delivered(batch)
        self.point("send: answered")
        if how is None:
            return False
        with self._link as link, link.writing():
            shuffler_database.settle(link, batch.id, how)
        self.point("send: noted")
        return True

    def pass_of(self, body: bytes) -> str:
        """What announces a batch, so that the coordinator reads it."""
        announced = hashed_body(body)
        return f"{announced}.{written(self._key.sign(pass_text(self.declared.hash, announced)))}"

    def _delivered(self, batch: Batch) -> str | None:
        """How the coordinator has settled a batch; None if it has to be sent again."""
        try:
            answer = self._connection.ask("POST", "/v1/batches", batch.body, self.pass_of(batch.body))
            found = read(answer.body)
        except ClientError:
            return None
        if answer.status == 200 and found.get("status") == "accepted" and found.get("batch") == batch.id:
            return "acknowledged"
        return f"refused: {found['error']}" if found.get("error") in _OVER else None

    # Opening

    def _found(self) -> StudyRow | None:
        with self._link as link:
            found = rounds.study_row(link)
        if found is not None and found.hash != self.declared.hash:
            raise InvalidInput(
                f"{self.database.named} belongs to another study, or this one was changed after it had opened: a study "
                "that changes is another study and needs a database of its own"
            )
        return found

    def _open(self) -> None:
        """Enter study, budget and charge, in one transaction; before that, say outside that nothing has left."""
        study, asked = self.declared, self.declared.declaration["privacy"]
        self._external.begin(study.hash)
        self.point("open: begun")
        with self._link as link, link.writing():
            row = StudyRow(study.hash, study.text, self.mechanism.privatizer.recipe, self._clock(), None)
            if not rounds.add_study(link, row):
                return  # another process was faster
            open_data_set(
                link.raw, study.name, make_budget(epsilon=asked["epsilon"], delta=asked["delta"]),
                declaration=study.hash,
            )  # fmt: skip
            declare_rounds(
                link.raw, study.name, PLAN, self.mechanism.part, study.most_reports, delta=asked["delta"],
                what=f"the whole study {study.name}", who=WHO,
            )  # fmt: skip
            self.point("open: charged")
        self.point("open: committed")

    def _check_not_behind(self) -> None:
        """Refuse a database that is older than the batches that have left."""
        held = self._external.read()
        with self._reader as link:
            last = shuffler_database.last_batch(link)
        if held is None:
            raise InvalidInput(
                f"{shortened(self._external.file)} is missing, which says which batches have left: bring it back, for "
                "without it nobody sees whether the database is the latest one"
            )
        if held["study"] != self.declared.hash or held["round"] > last:
            raise InvalidInput(
                f"{shortened(self._external.file)} says that the batch of round {held['round']} has left, and "
                f"{self.database.named} knows of {last} at most: it was restored from a backup, and other "
                "people's messages could be mixed under the same round; bring the latest database back"
            )

    @contextmanager
    def reading(self) -> Iterator[Link]:
        """A connection for looking only."""
        with self._reader as link:
            yield link

    def most_messages(self) -> int:
        """How many messages a device of this study sends at most, whatever the policy of its round is."""
        return self.mechanism.most_messages(self.declared.total)

    def stop(self) -> None:
        """Give connections back."""
        self._link.close()
        self._reader.close()


def _signing_key(file: Path, public: str) -> Any:
    key = private_key(file)
    if public_digits(key.public_key()) != public:
        raise InvalidInput(f"{file.name} is not the key that the study names as its shuffler's: bring the right one")
    return key

"""Sealed reports: checked against the view of their round, stored, and answered alike when they come again.

A report is taken if it names the study, an open round, the hashes of policy, head and terms that the shuffler has for
that round, and has as many messages, all of one size, as every device of the round sends. So a batch is never mixed:
whoever was shown another policy, another head or another law is refused, and only sees that she was. Who comes first
counts; a round takes exactly the number of users that its batch has. Once a batch is frozen, a report that comes again
is known by its id alone: what it held is forgotten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from discreet.study.service import rounds
from discreet.study.service.batches import packed
from discreet.study.service.declaration import Study
from discreet.study.service.reports import ENDED, Answer
from discreet.study.service.study_database import Link
from discreet.study.service.wire_messages import Accepted, Refused, SealedMessage
from discreet.study.shuffler import shuffler_database
from discreet.study.shuffler.shuffler_database import RoundView, SealedRow


class Incoming(NamedTuple):
    """A report that was checked and is ready to be stored."""

    id: str
    round: int
    fingerprint: str
    token: str | None
    content: bytes


def checked(message: SealedMessage, body: bytes, token: str | None, view: RoundView) -> Incoming:
    """A report that may be in the batch of this round; refused without quoting any of it."""
    if (message.policy, message.head) != (view.policy, view.head):
        raise Refused(
            "conflict", "this report was made for another policy than the one of its round: it is not mixed in"
        )
    if message.terms != view.terms:
        raise Refused(
            "conflict", "this report was not randomised as the batch of its round must be: it is not mixed in"
        )
    if len(message.messages) != view.messages or len(set(message.messages)) != view.messages:
        raise Refused("malformed", f"a report of this round has {view.messages} messages, each sealed by itself")
    content = packed(message.messages)
    return Incoming(message.id, message.round, hashlib.sha256(body).hexdigest(), token, content)


class Admission:
    """Decides about reports, inside their transaction."""

    def __init__(self, link: Link, study: Study) -> None:
        self._link, self._study = link, study
        found = rounds.study_row(link)
        self._ended = found is None or found.ended is not None
        self._room: dict[int, int] = {}
        self._new: list[SealedRow] = []
        self.full = False  # whether a round has all of its users now

    def answers(self, incoming: Sequence[Incoming]) -> list[Answer]:
        """An answer for each report; those that are taken are entered."""
        self._known = shuffler_database.known_reports(self._link, [each.id for each in incoming])
        tokens = sorted({each.token for each in incoming if each.token is not None})
        self._used: Mapping[str, int] = rounds.tokens_used(self._link, tokens)
        self._seen = shuffler_database.rounds_of_tokens(self._link, tokens)
        found = [self._answer(each) for each in incoming]
        shuffler_database.add_reports(self._link, self._new)
        rounds.use_tokens(self._link, (row.token for row in self._new if row.token is not None))
        return found

    def _answer(self, report: Incoming) -> Answer:
        known = self._known.get(report.id)
        if self._study.invited and (report.token not in self._used or (known is not None and known[2] != report.token)):
            return Refused("token", "this token is not one of the study's")
        if known is not None:
            same = known[0] == report.round and known[1] in (report.fingerprint, shuffler_database.FORGOTTEN)
            return Accepted(report.round) if same else Refused("conflict", "another report has this id already")
        if self._ended:
            return Refused("ended", ENDED)
        if self._left(report.round) <= 0:
            return Refused("closed", "this round has its batch: it takes no more reports")
        if report.token is not None and not self._may(report.token, report.round):
            return Refused("token", "this token has been used up, or used in this round already")
        self._room[report.round] -= 1
        self.full = self.full or self._room[report.round] == 0
        self._known[report.id] = (report.round, report.fingerprint, report.token)
        self._new.append(SealedRow(*report))
        return Accepted(report.round)

    def _left(self, number: int) -> int:
        if number not in self._room:
            view = shuffler_database.round_at(self._link, number)
            takes = view is not None and view.is_open
            self._room[number] = view.users - shuffler_database.waiting(self._link, number) if view and takes else 0
        return self._room[number]

    def _may(self, token: str, number: int) -> bool:
        new = sum(row.token == token for row in self._new)
        if self._used[token] + new >= self._study.most_reports or (token, number) in self._seen:
            return False
        self._seen.add((token, number))
        return True

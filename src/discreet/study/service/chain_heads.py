"""What participants know lies outside the database as well: the chain of heads, and what was acknowledged last.

A head names study, round, the hash of the round's policy, the hash of the head before it and the hash of what was
released when the round before it closed. It is signed with the Ed25519 key that the study declares. Two different
signed heads for one round are proof that somebody was shown another policy than the rest.

The *external head* is the last line of a file beside the study, which keeps all heads. It is written and synced before
a policy is handed out, and before that once with round 0, when the study is opened. A database that does not hold the
head that this file names is older than what participants have seen (a restored backup, a lagging standby), and the
coordinator refuses to go on with it.

*Marks* do the same within a round. After each COMMIT of reports, and before any of them is answered, the coordinator
writes and syncs the id of one of them into a file of its own (:class:`Marks`). Commits of a study come one after the
other, so a database that holds the newest of them holds all that were acknowledged before; one that does not hold it
has lost some, and is refused in the same way. A mark names the round that was open, and counts no more once ``discreet
study restored`` has abandoned that round.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from discreet.base.errors import InvalidInput
from discreet.base.files import shortened
from discreet.base.system import bring_content_to_disk, bring_to_disk, lock, lock_at_once
from discreet.ledger import heads as ledger_heads
from discreet.ledger import keys
from discreet.ledger.chain import canonical, digest
from discreet.study.service.rounds import GIVEN_UP, RoundRow, known_batches, known_reports, round_at
from discreet.study.service.sealing import sync_folder
from discreet.study.service.study_database import Link

_FIELDS = frozenset({"study", "round", "policy", "previous", "released", "key", "signature"})
_LARGEST = 1 << 16
_MARK = re.compile(rb"([0-9a-f]{16}) ([0-9]{10}) ([0-9a-f]{32}) {3}\n")
_SLOT = 64  # bytes of a mark: it never lies across two sectors of a disk, so it is written whole or not
_PAGE = 4096

Head = dict[str, Any]


class Behind(InvalidInput):
    """A database that is older than what participants know."""


def hashed(content: Any) -> str:
    """The hash of plain data or bytes as heads write it."""
    return f"sha256:{digest(content)}"


class Signer:
    """Signs heads with the key of a study."""

    def __init__(self, key_file: Path, public_key: str) -> None:
        self._key = keys.private_key(key_file)
        self.public = keys.public_digits(self._key.public_key())
        if self.public != public_key:
            raise InvalidInput(
                f"{shortened(key_file)} is not the key that the study names as its signing key: bring the right one"
            )

    def sign(self, study: str, number: int, policy: Any, previous: str, released: str) -> Head:
        """The head of a round."""
        head = {
            "study": study,
            "round": number,
            "policy": hashed(policy),
            "previous": previous,
            "released": released,
            "key": self.public,
        }
        return {**head, "signature": self._key.sign(canonical(head).encode()).hex()}


def check_head(head: Mapping[str, Any], public_key: str) -> None:
    """Refuse a head that the study's key has not signed."""
    if head.keys() != _FIELDS:
        raise InvalidInput("this is no head of a study: it lacks a field, or has one too many")
    ledger_heads.check_head(head, public_key)


class ExternalHead:
    """The heads outside the database: a file with one head a line, to which lines are only ever added."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> Head | None:
        """The last head; None if there is none. ``round`` is 0 before anything was handed out."""
        try:
            with open(self.file, "rb") as opened:
                opened.seek(max(0, os.fstat(opened.fileno()).st_size - _LARGEST))
                lines = _whole_lines(opened.read())
                return self._head(lines) if lines else None  # another process may just have made the file
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidInput(f"{shortened(self.file)} cannot be read: {error.strerror}") from None

    def all(self) -> list[Head]:
        """Every head that the file has, without the line that says that nothing was handed out."""
        try:
            lines = _whole_lines(self.file.read_bytes())
        except OSError as error:
            raise InvalidInput(f"{shortened(self.file)} cannot be read: {error.strerror}") from None
        heads = [self._head([line]) for line in lines]
        return [head for head in heads if head["round"] > 0]

    def write(self, head: Mapping[str, Any]) -> None:
        """Go forward to this head; it is on the disk when this returns. What is there already is not written again."""
        try:
            handle = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                lock(handle)  # other processes of the same study
                self._append(handle, head)
            finally:
                os.close(handle)
        except OSError as error:
            raise InvalidInput(f"cannot write {shortened(self.file)}: {error.strerror}") from None

    def begin(self, study: str) -> None:
        """Say that the study is being opened and nothing was handed out."""
        if self.read() is None:
            self.write({"study": study, "round": 0})
            sync_folder(self.file.parent)

    def _append(self, handle: int, head: Mapping[str, Any]) -> None:
        size = os.fstat(handle).st_size
        tail = os.pread(handle, _LARGEST, max(0, size - _LARGEST))
        lines = _whole_lines(tail)
        if lines and self._head(lines)["round"] >= head["round"]:
            return
        whole = size - (len(tail) - tail.rfind(b"\n") - 1)  # a line that a crash cut short goes
        os.ftruncate(handle, whole)
        os.pwrite(handle, canonical(dict(head)).encode() + b"\n", whole)
        bring_to_disk(handle)

    def _head(self, lines: list[bytes]) -> Head:
        try:
            head = json.loads(lines[-1])
        except (IndexError, ValueError, RecursionError):
            head = None
        if not isinstance(head, dict) or type(head.get("round")) is not int or not isinstance(head.get("study"), str):
            raise InvalidInput(f"{shortened(self.file)} is no head of a study: bring back the file that was there")
        return head


def check_not_behind(link: Link, file: Path, held: Head | None, study: str, row: RoundRow, database: str) -> None:
    """Refuse a database that is older than what participants have seen; ``row`` is its latest round."""
    if held is None:
        raise InvalidInput(
            f"{shortened(file)} is missing, which says how far this study has been seen by participants: bring it "
            "back, or go on with  discreet study restored"
        )
    if held["study"] != study:
        raise InvalidInput(f"{shortened(file)} belongs to another study: bring back the one of this study")
    known = round_at(link, held["round"]) if held["round"] > 0 else row
    if known is None or (held["round"] > 0 and canonical(held) != known.head):
        raise Behind(
            f"{database} is behind what participants have seen (round {held['round']}, the database stands at "
            f"{row.number}): it was restored from a backup, or is a standby that lags; go on with  discreet study "
            "restored"
        )


class Mark(NamedTuple):
    """A report that was acknowledged, and the round that was open when it was."""

    round: int
    id: str


class Marks:
    """The marks of one study on this machine: a folder with a file for each coordinator that works at the same time.

    A file has slots. Marks of new reports go to the first and the second slot in turn, and each covers everything that
    was acknowledged before it. Repeated reports, which another coordinator may have stored, get further slots until the
    next new one. A coordinator takes the first file that no other one has locked, whoever left it, and writes over
    nothing in it before its own first mark of a new report.
    """

    def __init__(self, folder: Path, study: str) -> None:
        self._folder, self._study = folder, study.removeprefix("sha256:")[:16].encode()
        self._handle: int | None = None
        self._turn = self._repeats = 0
        self._covered = set[str]()
        self.last: Mark | None = None  # of a new report, by this coordinator

    def read(self) -> list[Mark]:
        """All marks of this study; a slot that was never written, or is another study's, says nothing."""
        found: list[Mark] = []
        try:
            for file in self._folder.iterdir() if self._folder.is_dir() else ():
                found += self._marks(file.read_bytes())
        except OSError as error:
            raise InvalidInput(f"{shortened(self._folder)} cannot be read: {error.strerror}") from None
        return found

    def write(self, number: int, new: str | None, repeated: Collection[str]) -> None:
        """Mark what is about to be acknowledged while this round is open; it is on the disk when this returns.

        ``new`` is the last report that was just stored, if there was one: it covers the repeated ones, too.
        """
        wanted = sorted(set(repeated) - self._covered) if new is None else [new]
        if not wanted:
            return
        try:
            handle, in_turn = self._opened(), new is not None and self.last is not None
            for place, name in enumerate(wanted):
                self._put(handle, self._turn if in_turn else 2 + self._repeats + place, number, name)
            bring_content_to_disk(handle)
            if in_turn and self._repeats * _SLOT > _PAGE:
                os.ftruncate(handle, _PAGE)  # the new one covers them
        except OSError as error:
            raise InvalidInput(f"cannot write to {shortened(self._folder)}: {error.strerror}") from None
        self._turn, self._repeats = (1 - self._turn, 0) if in_turn else (self._turn, self._repeats + len(wanted))
        self._covered = self._covered.union(wanted) if new is None else {new}
        self.last = self.last if new is None else Mark(number, new)

    def close(self) -> None:
        """Leave the file to others. What it says stays true."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _marks(self, content: bytes) -> list[Mark]:
        return [
            Mark(int(number), name.decode()) for study, number, name in _MARK.findall(content) if study == self._study
        ]

    def _put(self, handle: int, slot: int, number: int, name: str) -> None:
        line = b"%s %010d %s" % (self._study, number, name.encode())
        os.pwrite(handle, line.ljust(_SLOT - 1) + b"\n", slot * _SLOT)

    def _opened(self) -> int:
        """The file of this coordinator, locked; it gets its whole page at once, so that marks need no further room."""
        if self._handle is not None:
            return self._handle
        self._folder.mkdir(mode=0o700, exist_ok=True)
        number = 0
        while True:
            number += 1
            handle = os.open(self._folder / f"{number}", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                lock_at_once(handle)
                self._taken_over(handle)
            except BlockingIOError:
                os.close(handle)
                continue
            except BaseException:
                os.close(handle)
                raise
            self._handle = handle
            return handle

    def _taken_over(self, handle: int) -> None:
        size = os.fstat(handle).st_size
        if size < _PAGE:
            os.pwrite(handle, bytes(_PAGE - size), size)
            bring_to_disk(handle)
            sync_folder(self._folder)
            sync_folder(self._folder.parent)
        content = os.pread(handle, max(size, _PAGE), 0)
        used = len(content.rstrip(b"\0"))
        self._repeats = max(0, -(-used // _SLOT) - 2)  # after what a former coordinator has left


def check_nothing_lost(link: Link, marks: Iterable[Mark], database: str) -> None:
    """Refuse a database that lacks a report which was acknowledged, unless its round was abandoned since."""
    asked = set(marks)
    ids = sorted({mark.id for mark in asked})
    known = known_reports(link, ids).keys() | known_batches(link, ids)
    for number in sorted({mark.round for mark in asked if mark.id not in known}):
        row = round_at(link, number)
        if row is None or row.how not in GIVEN_UP:
            raise Behind(
                f"{database} is behind what participants have seen: it lacks a report that was acknowledged in round "
                f"{number}; it was restored from a backup, or is a standby that lags; go on with  discreet study "
                "restored"
            )


def _whole_lines(content: bytes) -> list[bytes]:
    """The lines that have an end; the last one may have been cut short by a crash."""
    return content.split(b"\n")[:-1]

"""The chain of heads: each round has one, signed, and the last one also lies outside the database.

A head names study, round, the hash of the round's policy, the hash of the head before it and the hash of what was
released when the round before it closed. It is signed with the Ed25519 key that the study declares. Two different
signed heads for one round are proof that somebody was shown another policy than the rest.

The *external head* is the last line of a file beside the study, which keeps all heads. It is written and synced before
a policy is handed out, and before that once with round 0, when the study is opened. A database that does not hold the
head that this file names is older than what participants have seen (a restored backup, a lagging standby), and the
coordinator refuses to go on with it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.errors import InvalidInput
from discreet.files import shortened
from discreet.ledger import heads as ledger_heads
from discreet.ledger.chain import canonical, digest
from discreet.service.database import Link
from discreet.service.rounds import RoundRow, round_at
from discreet.service.sealing import sync_folder

_FIELDS = frozenset({"study", "round", "policy", "previous", "released", "key", "signature"})
_LARGEST = 1 << 16

Head = dict[str, Any]


def hashed(content: Any) -> str:
    """The hash of plain data or bytes as heads write it."""
    return f"sha256:{digest(content)}"


class Signer:
    """Signs heads with the key of a study."""

    def __init__(self, key_file: Path, public_key: str) -> None:
        self._key = ledger_heads.private_key(key_file)
        self.public = ledger_heads.public_digits(self._key.public_key())
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
            handle = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)  # other processes of the same study
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
        os.fsync(handle)

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
        raise InvalidInput(
            f"{database} is behind what participants have seen (round {held['round']}, the database stands at "
            f"{row.number}): it was restored from a backup, or is a standby that lags; go on with  discreet study "
            "restored"
        )


def _whole_lines(content: bytes) -> list[bytes]:
    """The lines that have an end; the last one may have been cut short by a crash."""
    return content.split(b"\n")[:-1]

"""The chain of heads: each round has one, signed, and the last one also lies outside the database.

A head names study, round, the hash of the round's policy, the hash of the head before it and the hash of what was
released when the round before it closed. It is signed with the Ed25519 key that the study declares. Two different
signed heads for one round are proof that somebody was shown another policy than the rest.

The *external head* is a file beside the study. It is written and synced before a policy is handed out, and before
that once with round 0, when the study is opened. A database that does not hold the head that this file names is older
than what participants have seen (a restored backup, a lagging standby), and the coordinator refuses to go on with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.errors import InvalidInput
from discreet.files import shortened, write_atomically
from discreet.ledger import heads as ledger_heads
from discreet.ledger.chain import canonical, digest

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
    """The head outside the database: a file that only ever moves forward."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> Head | None:
        """What the file says; None if there is none. ``round`` is 0 before anything was handed out."""
        try:
            with open(self.file, "rb") as opened:
                head = json.loads(opened.read(_LARGEST))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidInput(f"{shortened(self.file)} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            head = None
        if not isinstance(head, dict) or type(head.get("round")) is not int or not isinstance(head.get("study"), str):
            raise InvalidInput(f"{shortened(self.file)} is no head of a study: bring back the file that was there")
        return head

    def write(self, head: Head) -> None:
        """Move forward to this head; the file is synced when this returns."""
        held = self.read()
        if held is None or held["round"] < head["round"]:
            write_atomically(self.file, canonical(head) + "\n")

    def begin(self, study: str) -> None:
        """Say that the study is being opened and nothing was handed out."""
        if self.read() is None:
            write_atomically(self.file, canonical({"study": study, "round": 0}) + "\n")

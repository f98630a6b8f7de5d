"""Signed heads: what a ledger was at some moment, kept elsewhere.

A chain of hashes shows that entries were changed, not that the last ones were cut off or that all of them were written
anew. So write down the head now and then, sign it, and keep it where whoever can change the ledger cannot: with the
privacy officer, in a repository, on paper. ``verify`` then wants every entry that the head names to be there still.

A head is JSON: for each data set the number and the hash of its last entry, the time, and an Ed25519 signature of the
canonical text of all that (:mod:`discreet.ledger.keys`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from discreet.base.errors import InvalidInput
from discreet.base.files import as_path, shortened
from discreet.ledger import database
from discreet.ledger.chain import canonical
from discreet.ledger.database import Connection
from discreet.ledger.keys import private_key, public_digits
from discreet.ledger.spending import now

FORMAT = "discreet-ledger-head"
_LARGEST = 1 << 26  # bytes of a head


def heads_of(connection: Connection) -> dict[str, dict[str, Any]]:
    """The number and the hash of the last entry of every data set."""
    ends = {name: database.last_entry(connection, name) for name in database.data_sets(connection)}
    return {name: {"number": entry.number, "hash": entry.hash} for name, entry in ends.items()}


def sign_head(connection: Connection, key_file: str | os.PathLike[str]) -> dict[str, Any]:
    """The head of a ledger as it is now, signed.

    Args:
        connection: That :func:`opened` gave.
        key_file: The key that ``make_key`` wrote.

    Examples:
        >>> import pathlib, sqlite3, tempfile
        >>> from discreet import ledger
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     public = ledger.make_key(pathlib.Path(folder) / "key.pem")
        ...     head = ledger.sign_head(books, pathlib.Path(folder) / "key.pem")
        >>> ledger.check_head(head, public)
    """
    key = private_key(as_path(key_file))
    head = {
        "format": FORMAT,
        "version": 1,
        "time": now(),
        "heads": heads_of(connection),
        "key": public_digits(key.public_key()),
    }
    return {**head, "signature": key.sign(canonical(head).encode()).hex()}


def read_head(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A head from its file; whether it is signed is checked by :func:`check_head`.

    Args:
        path: The file that ``discreet ledger head`` wrote.

    Examples:
        >>> from discreet import ledger
        >>> ledger.read_head("nobody.json")
        Traceback (most recent call last):
        discreet.base.errors.InvalidInput: ...
    """
    file = as_path(path)
    try:
        if file.stat().st_size > _LARGEST:
            raise InvalidInput(f"{shortened(file)} is too large for a head")
        head = json.loads(file.read_bytes())
    except OSError as error:
        raise InvalidInput(f"head {shortened(file)} cannot be read: {error.strerror or 'the system refused'}") from None
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT or not _is_well_formed(head):
        raise InvalidInput(f"{shortened(file)} is no head of a ledger: give the file that  discreet ledger head  wrote")
    return head


def check_head(head: Mapping[str, Any], public_key: str | None = None) -> None:
    """Refuse a head whose signature is not that of its key, or whose key is not the one that is trusted.

    Args:
        head: That ``sign_head`` made.
        public_key: The key that is trusted; without it any valid signature will do.

    Examples:
        >>> import pathlib, sqlite3, tempfile
        >>> from discreet import ledger
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     public = ledger.make_key(pathlib.Path(folder) / "key.pem")
        ...     head = ledger.sign_head(books, pathlib.Path(folder) / "key.pem")
        >>> ledger.check_head({**head, "heads": {"icu": [9, "f" * 64]}}, public)
        Traceback (most recent call last):
        discreet.base.errors.InvalidInput: ...
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ed25519

    if public_key is not None and public_key.strip().lower() != head["key"]:
        raise InvalidInput(f"the head was signed by the key {head['key'][:16]}..., not by {public_key.strip()[:16]}...")
    unsigned = {name: value for name, value in head.items() if name != "signature"}
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(head["key"]))
        key.verify(bytes.fromhex(head["signature"]), canonical(unsigned).encode())
    except (InvalidSignature, ValueError):
        raise InvalidInput("the signature of the head is wrong: the head was changed after it was signed") from None


def _is_well_formed(head: Mapping[str, Any]) -> bool:
    heads = head.get("heads")
    return (
        isinstance(heads, dict)
        and all(isinstance(head.get(name), str) for name in ("time", "key", "signature"))
        and all(
            isinstance(end, dict) and type(end.get("number")) is int and isinstance(end.get("hash"), str)
            for end in heads.values()
        )
    )

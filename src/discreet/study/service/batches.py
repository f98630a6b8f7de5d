"""A shuffled batch: how it is signed, what the coordinator takes, and how its messages are opened and counted.

A batch holds the messages of a known number of users, in an order that says nothing, each sealed to the coordinator by
the device that made it. The shuffler signs study, round, policy, id, number of users and all messages. The coordinator
takes one batch a round, of exactly the number of users that the round wants and of as many messages as these send; the
same bytes under the same id again are answered as before and counted once.

**What cannot be read** is left out, by a rule that everybody can check: a message counts if it is the first with its
bytes in the batch, opens with the study's key for this round, has four bytes, and says a number that some device says
under this policy. Whoever sends anything else is one of the ``colluding`` that the noise allows for; nobody is asked
again and no batch is refused for it, because both would say something about one message.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.types import Integers
from discreet.ledger.chain import canonical
from discreet.mechanisms.mechanism import MessageTerms
from discreet.study.service import rounds
from discreet.study.service.declaration import Study
from discreet.study.service.reports import ENDED
from discreet.study.service.rounds import BatchRow
from discreet.study.service.sealing import RoundKey, bound_to
from discreet.study.service.study_database import Link
from discreet.study.service.wire_messages import BatchMessage, Refused, decode_batch

PLAIN = 4  # bytes of a message: a whole number, lowest byte first
SEALED = 32 + PLAIN + 16  # with the sender's one-time key and the tag
_WRITTEN = re.compile(r"[A-Za-z0-9_-]{69}[AEIMQUYcgkosw048]")  # 52 bytes have 70 signs, the last of four bits
_PASS = re.compile(r"[A-Za-z0-9_-]{43}[.][A-Za-z0-9_-]{86}")  # a hash and a signature
_MARGIN = 4096


def packed(messages: Sequence[str]) -> bytes:
    """Messages as they are stored, one after the other; refused if one has not the size of all."""
    if not all(_WRITTEN.fullmatch(message) for message in messages):
        raise Refused("malformed", f"a sealed message is {SEALED} bytes in base64url without padding")
    return b"".join(_unwritten(message) for message in messages)


def pieces(content: bytes) -> list[bytes]:
    """The messages that :func:`packed` put together."""
    return [content[at : at + SEALED] for at in range(0, len(content), SEALED)]


def written(message: bytes) -> str:
    """A sealed message as it travels."""
    return base64.urlsafe_b64encode(message).decode().rstrip("=")


def _unwritten(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def signed_text(batch: dict[str, Any]) -> bytes:
    """What the shuffler signs: everything but the signature."""
    return canonical({name: value for name, value in batch.items() if name != "signature"}).encode()


def pass_text(study: str, body: str) -> bytes:
    """What the shuffler signs before a batch: the hash of all that follows."""
    return canonical({"study": study, "body": body}).encode()


def check_pass(given: str | None, study: Study) -> str:
    """The hash of a batch that the shuffler announces, signed: nothing is read of one that it does not announce."""
    body, _, signature = (given or "").partition(".")
    if not _PASS.fullmatch(given or "") or not _is_signed(
        pass_text(study.hash, body), study.shuffler_key, _unwritten(signature).hex()
    ):
        raise Refused(
            "operator", "a batch is announced by the shuffler that the study names: send its pass as the token"
        )
    return body


def check_announced(body: bytes, announced: str) -> None:
    """Refuse another batch than the one that was announced."""
    if hashed_body(body) != announced:
        raise Refused("operator", "this is another batch than the one that its pass announces")


def hashed_body(body: bytes) -> str:
    """The hash of the bytes of a batch as a pass names it."""
    return written(hashlib.sha256(body).digest())


def largest_batch(users: int, messages: int) -> int:
    """The most bytes that a batch of so many users has, with so many messages of each."""
    return _MARGIN + 80 * users * messages


def check_batch(body: bytes, study: Study) -> tuple[BatchMessage, BatchRow]:
    """A batch of this study that its shuffler has signed, and the row that is stored of it."""
    message = decode_batch(body)
    if message.study != study.hash:
        raise Refused("unknown", "this is another study than the one that the batch names")
    text = signed_text(msgspec.structs.asdict(message))
    if message.key != study.shuffler_key or not _is_signed(text, message.key, message.signature):
        raise Refused("operator", "batches are signed by the shuffler that the study names")
    content = packed(message.messages)
    row = BatchRow(message.batch, message.round, message.users, hashlib.sha256(text).hexdigest(), content)
    return message, row


def admit(link: Link, message: BatchMessage, row: BatchRow, terms: MessageTerms, policy: str) -> bool:
    """Enter a batch, inside the transaction: the only one of the open round, whole, under the round's policy.

    False if the same batch was entered before.
    """
    known = rounds.known_batch(link, row.id)
    if known is not None:
        if known != (row.round, row.fingerprint):
            raise Refused("conflict", "another batch has this id already")
        return False
    found, latest = rounds.study_row(link), rounds.last_round(link)
    assert found is not None
    assert latest is not None
    if found.ended is not None:
        raise Refused("ended", ENDED)
    if row.round > latest.number:
        raise Refused("unknown", "the study has no such round")
    if row.round < latest.number or rounds.waiting(link):
        raise Refused("closed", "this round has its batch: it takes no other")
    if message.policy != policy:
        raise Refused("conflict", "the batch names another policy than that of its round")
    if row.users != latest.wanted or len(message.messages) != row.users * terms.messages:
        raise Refused(
            "malformed", f"the batch of this round has {latest.wanted} users with {terms.messages} messages of each"
        )
    rounds.add_batch(link, row)
    return True


def counted(content: bytes, key: RoundKey, study: str, number: int, terms: MessageTerms) -> Integers:
    """How many readable messages of a batch say each number; what is readable stands above."""
    info, counts = bound_to(study, number, "message"), np.zeros(terms.values, np.int64)
    for said in _readable(dict.fromkeys(pieces(content)), key, info):
        if said < terms.values:
            counts[said] += 1
    return counts


def _readable(messages: dict[bytes, None], key: RoundKey, info: bytes) -> Iterator[int]:
    for message in messages:
        try:
            plain = key.open(message, info)
        except InvalidInput:
            continue
        if len(plain) == PLAIN:
            yield int.from_bytes(plain, "little")


def _is_signed(text: bytes, key: str, signature: str) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), text)
    except (InvalidSignature, ValueError):
        return False
    return True

"""What travels between devices, shuffler and coordinator, as strict types: no unknown fields, no conversions.

Everything is JSON. ``schema`` gives the JSON schema of all messages, for clients in other languages. Reasons of a
refusal name the place in the message where something is wrong, and never what stood there.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, TypeVar

import msgspec

from discreet.base.errors import DiscreetError

STATUS = {
    "malformed": 400,
    "token": 403,
    "operator": 403,
    "unknown": 404,
    "conflict": 409,
    "ended": 410,
    "closed": 410,
    "large": 413,
    "rate": 429,
    "busy": 503,
}


class Refused(DiscreetError):
    """A request that is refused. ``code`` is one of :data:`STATUS`; the reason quotes nothing that was sent."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason, self.status = code, reason, STATUS[code]


_ID = re.compile(r"[0-9a-f]{32}")
_PLACE = re.compile(r"`(\$[\w.\[\]]*)`$")
_LARGEST_ROUND = 1 << 53


class Items(msgspec.Struct, tag_field="kind", tag="items", forbid_unknown_fields=True, frozen=True):
    """A randomised report: one item for each of the steps that the device picked beforehand."""

    steps: list[int]
    items: list[int]


class Bits(msgspec.Struct, tag_field="kind", tag="bits", forbid_unknown_fields=True, frozen=True):
    """A randomised report: one text of zeros and ones for each of the steps that the device picked beforehand."""

    steps: list[int]
    bits: list[str]


class Answer(msgspec.Struct, tag_field="kind", tag="answer", forbid_unknown_fields=True, frozen=True):
    """A randomised answer to the question that the device drew beforehand: one of them, or a bit for each as text."""

    question: int
    answer: int | msgspec.UnsetType = msgspec.UNSET
    bits: str | msgspec.UnsetType = msgspec.UNSET


class Record(msgspec.Struct, tag_field="kind", tag="record", forbid_unknown_fields=True, frozen=True):
    """A whole record: state, action and reward bit of every step; [-1, -1, -1] after its end, or throughout."""

    steps: list[tuple[int, int, int]]


class ReportMessage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a device sends: the study that it agreed to, the round whose policy it followed, a random id, its report."""

    study: str
    round: int
    id: str
    report: Items | Bits | Answer | Record


class SealedMessage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a device of a shuffled study sends to the shuffler: its messages, sealed one by one to the coordinator.

    ``policy`` and ``head`` are hashes of what it was shown, ``terms`` that of the laws it randomised by.
    """

    study: str
    round: int
    policy: str
    head: str
    terms: str
    id: str
    messages: list[str]


class BatchMessage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A shuffled batch, from the shuffler to the coordinator; the signature is over all other fields."""

    study: str
    round: int
    policy: str
    batch: str
    users: int
    messages: list[str]
    key: str
    signature: str


class Accepted(msgspec.Struct, frozen=True):
    """The answer to a report that was taken, durably; the same again for the same report."""

    round: int
    status: str = "accepted"


class BatchAccepted(msgspec.Struct, frozen=True):
    """The answer to a batch that was taken, durably, and is counted once; the same again for the same batch."""

    batch: str
    status: str = "accepted"


class Refusal(msgspec.Struct, frozen=True):
    """The answer to everything that is refused: a code for programs, a sentence for people."""

    error: str
    reason: str


class Law(msgspec.Struct, frozen=True):
    """How an item or an answer is sent: how many there are, and the weight of a false one in units of 2^-62."""

    items: int
    lie: str


class SignedHead(msgspec.Struct, frozen=True):
    """The signed head of a round; the signature is over the canonical JSON of the other fields."""

    study: str
    round: int
    policy: str
    previous: str
    released: str
    key: str
    signature: str


class Deterministic(msgspec.Struct, tag_field="kind", tag="deterministic", frozen=True):
    """A policy that says one action for every step and state."""

    actions: list[list[int]]


class Stochastic(msgspec.Struct, tag_field="kind", tag="stochastic", frozen=True):
    """A policy that gives every action a probability, for every step and state."""

    probabilities: list[list[list[float]]]


class PolicyMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The policy of the open round and how many reports it wants; ``laws`` in the local and shuffle models.

    ``questions`` where devices are asked about first visits: the weight of each row (state, action), in this order.
    """

    study: str
    round: int
    policy: Deterministic | Stochastic
    head: SignedHead
    wanted: int
    laws: list[Law] | None = None
    questions: list[int] | None = None


class Alone(msgspec.Struct, frozen=True):
    """What is left to a participant if shuffler and coordinator put together what they see; null: nothing is."""

    epsilon: float | None
    words: str


class Promise(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is promised to a participant, in numbers and in words; ``alone`` in the shuffle model only.

    ``exceeded`` is P(loss > epsilon) at most, where delta is not 0.
    """

    epsilon: float
    delta: float
    unit: str
    words: str
    exceeded: float = 0.0
    alone: Alone | None = None


class StudyMessage(msgspec.Struct, frozen=True):
    """The declaration of the study, its hash, what it promises and what kind of report it takes."""

    study: dict[str, Any]
    hash: str
    promise: Promise
    report: dict[str, Any]


MESSAGES = (
    ReportMessage, Accepted, Refusal, StudyMessage, PolicyMessage, SealedMessage, BatchMessage, BatchAccepted,
)  # fmt: skip
_decoder = msgspec.json.Decoder(ReportMessage)
_sealed_decoder = msgspec.json.Decoder(SealedMessage)
_batch_decoder = msgspec.json.Decoder(BatchMessage)
_Message = TypeVar("_Message", ReportMessage, SealedMessage, BatchMessage)


def decode(body: bytes) -> ReportMessage:
    """A report message from the bytes that arrived; refused without quoting any of them."""
    message = _decoded(body, _decoder, "a report")
    if not _ID.fullmatch(message.id):
        raise Refused("malformed", "the id of a report is 32 lowercase hexadecimal digits")
    return message


def decode_sealed(body: bytes) -> SealedMessage:
    """What a device sends to the shuffler."""
    message = _decoded(body, _sealed_decoder, "a sealed report")
    if not _ID.fullmatch(message.id):
        raise Refused("malformed", "the id of a report is 32 lowercase hexadecimal digits")
    return message


def decode_batch(body: bytes) -> BatchMessage:
    """What the shuffler sends to the coordinator."""
    message = _decoded(body, _batch_decoder, "a batch")
    if not _ID.fullmatch(message.batch):
        raise Refused("malformed", "the id of a batch is 32 lowercase hexadecimal digits")
    return message


def _decoded(body: bytes, decoder: msgspec.json.Decoder[_Message], what: str) -> _Message:
    try:
        message = decoder.decode(body)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        where = f" at {place[1]}" if place else ""
        raise Refused("malformed", f"the message is not {what}{where}: see the schema of messages") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, OverflowError):
        raise Refused("malformed", "the message is not JSON") from None
    if not 0 <= message.round < _LARGEST_ROUND:
        raise Refused("unknown", "the study has no such round")
    return message


def schema() -> dict[str, Any]:
    """The JSON schema of all messages; from Python 3.13 on docstrings come without their indentation, so always so."""
    _references, components = msgspec.json.schema_components(MESSAGES, ref_template="#/$defs/{name}")
    for each in components.values():
        if "description" in each:
            each["description"] = inspect.cleandoc(each["description"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Messages of a discreet study",
        "$defs": {name: components[name] for name in sorted(components)},
    }

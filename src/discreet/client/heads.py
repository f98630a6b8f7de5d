"""Signed heads of the chain of policies: that everybody is shown the same one, and proof if not.

Every round has one head: study, round, hashes of policy and release, hash of the head before it, signed (Ed25519) with
the key that the declaration names. A device checks the signature, that the head belongs to what it was sent, and that
the chain leads from the last head that it has seen to this one. A service that shows different policies to different
people must sign two heads for one round; a device that sees both keeps them as evidence, which convinces anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from discreet.client.errors import Refused
from discreet.client.words import canonical, digest, field, whole

_ROUNDS = 1 << 53
Head = dict[str, Any]


class SplitView(Refused):
    """Two different heads of one round, both signed: ``evidence`` holds them."""

    def __init__(self, one: Head, other: Head) -> None:
        super().__init__(
            f"the service has signed two different heads for round {one['round']}: it shows different things to "
            "different people; both are kept in the store as evidence, and nothing is sent"
        )
        self.evidence = one, other


def check_head(head: Head, study: str, key: str, signatures: bool) -> None:
    """Refuse a head of another study or with a wrong signature."""
    if field(head, "study", str) != study or field(head, "key", str) != key:
        raise Refused("the head of the policy is that of another study, or is signed with a key that it does not name")
    whole(head, "round", 0, _ROUNDS)
    for name in ("policy", "previous", "released", "signature"):
        field(head, name, str)
    if signatures:
        signed = canonical({name: value for name, value in head.items() if name != "signature"})
        _verify(key, head["signature"], signed)


def check_policy(head: Head, policy: Any, number: int) -> None:
    """Refuse a policy that is not the one of its head."""
    if head["round"] != number or head["policy"] != digest(policy):
        raise Refused("the policy is not the one that its signed head names: nothing is done with it")


def check_chain(last: Head, head: Head, fetch: Callable[[int], list[Head]], check: Callable[[Head], None]) -> None:
    """Follow the chain from the last head that was seen to this one; ``fetch(k)`` gives the heads from round k on."""
    if head["round"] == last["round"]:
        same_or_evidence(last, head)
        return
    if head["round"] < last["round"]:
        raise Refused(
            f"the service is at round {head['round']}, and this device has seen round {last['round']}: it lost "
            "rounds or shows an old one; nothing is sent"
        )
    if head["previous"] == digest(last):
        return
    before = last
    for link in _links(last["round"], head, fetch):
        check_fields(link)
        if link["round"] == last["round"]:
            if digest(link) != digest(last):
                check(link)
                raise SplitView(last, link)
            continue
        if link["previous"] != digest(before):
            raise Refused(f"the chain of heads is broken before round {link['round']}: nothing is sent")
        before = link
    if digest(before) != digest(head):
        raise Refused("the chain of heads does not lead to the policy of this round: nothing is sent")


def same_or_evidence(last: Head, head: Head) -> None:
    """Refuse two different heads of one round."""
    if digest(last) != digest(head):
        raise SplitView(last, head)


def check_fields(link: Head) -> None:
    """Refuse a link of the chain without a round or a predecessor."""
    whole(link, "round", 0, _ROUNDS)
    field(link, "previous", str)


def _links(start: int, head: Head, fetch: Callable[[int], list[Head]]) -> list[Head]:
    """The heads from round ``start`` to that of ``head``, fetched piece by piece."""
    found: list[Head] = []
    while not found or found[-1]["round"] < head["round"]:
        piece = fetch(found[-1]["round"] + 1 if found else start)
        if not piece:
            break
        for link in piece:
            check_fields(link)
            if found and link["round"] <= found[-1]["round"]:
                raise Refused("the service lists heads out of order: nothing is sent")
            if link["round"] <= head["round"]:
                found.append(link)
        if piece[-1]["round"] > head["round"]:
            break
    return found


def _verify(key: str, signature: str, signed: bytes) -> None:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise Refused(
            "signatures of policies cannot be checked without the package 'cryptography': install it with  pip install "
            "cryptography  or give Device(..., signatures=False), which trusts the connection instead"
        ) from None
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), signed)
    except (InvalidSignature, ValueError):
        raise Refused("the signature of the policy's head is wrong: nothing is done with it") from None

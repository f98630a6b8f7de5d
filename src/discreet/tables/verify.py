"""``discreet.verify``: is a promise what its certificate proves? Asked of :mod:`discreet.checker`, which trusts nobody.

The checker computes the promise anew and compares with it whatever a receipt says beside its certificate. Two things
need more than the standard library, and are looked at here: the policy, whose hash must be the one that the receipt
names, and the signature. A key that stands in a receipt says who could have signed it, not whom to believe: only a key
that the caller names, and has from its owner, proves anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from discreet import checker
from discreet.base.errors import InvalidInput
from discreet.base.files import as_path, shortened
from discreet.base.policies import AnyPolicy, load_policy
from discreet.checker import Verdict
from discreet.ledger.keys import named_key, signer
from discreet.privacy.guarantee import Guarantee
from discreet.tables.receipt import policy_hash


def verify(
    promise: Guarantee | Mapping[str, Any] | str | os.PathLike[str],
    *,
    policy: AnyPolicy | str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
) -> Verdict:
    """Compute a promise anew from its certificate: "holds", "does not hold", "cannot tell" or "protects nobody".

    Args:
        promise: A guarantee, a certificate, a receipt, or a JSON file that holds one of the latter two.
        policy: The policy that a receipt belongs to, or its file.
        key: The fingerprint of the key that must have signed the receipt, or a file of that key.

    Examples:
        >>> import discreet
        >>> from discreet.recipes.registry import build
        >>> made = build(discreet.Central(epsilon=1.0, delta=1e-5), discreet.Shape(3, 2, 4), 1000)
        >>> found = discreet.verify(made.guarantee)
        >>> found.answer, found.noise
        ('holds', 'not drawn yet')
    """
    named = None if key is None else named_key(key)
    try:
        document = _document(promise)
        verdict = checker.judge(document)
    except checker.Unreadable as found:
        raise InvalidInput(f"this cannot be read as a certificate: {found}") from None
    words, reasons = _signature(document, named)
    if policy is not None:
        reasons += _other_policy(document, policy)
        left = tuple(item for item in verdict.not_checked if not item.startswith("the policy"))
        verdict = replace(verdict, checked=(*verdict.checked, "the policy, against its hash"), not_checked=left)
    verdict = replace(verdict, signature=words)
    if not reasons:
        return verdict
    before = [] if verdict.holds else [verdict.reason]
    return replace(verdict, answer=checker.FAILS, reason="; ".join([*before, *reasons]))


def _signature(document: Any, named: str | None) -> tuple[str, list[str]]:
    """What is said of the signature, and why it is refused, if it is."""
    if not (isinstance(document, Mapping) and "signature" in document):
        return "none", [] if named is None else ["it is not signed, and a key was named that must have signed it"]
    key = signer(document)
    if key is None:
        return "broken", ["its signature is wrong: it was changed after it was signed"]
    if named is None:
        return f"by key {key}, which you did not name", []
    if key != named:
        return f"by key {key}, which is not the one that you named", ["it was signed by another key than the one named"]
    return f"by key {key}, the one that you named", []


def _document(promise: Guarantee | Mapping[str, Any] | str | os.PathLike[str]) -> Any:
    if isinstance(promise, Guarantee):
        return promise.certificate()
    if isinstance(promise, Mapping):
        return dict(promise)
    if not isinstance(promise, str | os.PathLike):
        raise InvalidInput(f"verify takes a guarantee, a certificate or a file, got {type(promise).__name__}")
    file = as_path(promise)
    if file.suffix.lower() in (".html", ".htm"):
        raise InvalidInput(
            f"{shortened(file.name)} is a page to be read: verify the receipt in JSON, which train writes as "
            "--receipt receipt.json"
        )
    try:
        return checker.read(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {shortened(file.name)}: give a receipt or a certificate") from None
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(f"{shortened(file.name)} cannot be opened as text: give a receipt in JSON") from None


def _other_policy(document: Any, policy: AnyPolicy | str | os.PathLike[str]) -> list[str]:
    """Refused if the policy is not the one that the receipt names."""
    told = document.get("policy") if isinstance(document, Mapping) else None
    if not isinstance(told, Mapping):
        raise InvalidInput("a certificate names no policy: give the receipt to check a policy against")
    opened = load_policy(policy) if isinstance(policy, str | os.PathLike) else policy
    return [] if told.get("sha256") == policy_hash(opened) else ["the policy is not the one that the receipt names"]

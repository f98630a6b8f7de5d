"""``discreet.verify``: is a promise what its certificate proves? Asked of :mod:`discreet.checker`, which trusts nobody.

A receipt repeats what its certificate says, in words for people and for other programs. So a receipt is verified only
if both agree: the trust model, epsilon, delta and rho, and the laws of the noise. With the policy at hand, its hash
must be the one that the receipt names.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from discreet import checker
from discreet.base.errors import InvalidInput
from discreet.base.files import as_path, shortened
from discreet.base.policies import AnyPolicy, load_policy
from discreet.checker import Verdict
from discreet.privacy.certificate import kebab
from discreet.privacy.guarantee import Guarantee
from discreet.tables.receipt import policy_hash

_CLOSE = 1 + Fraction(1, 10**11)


def verify(
    promise: Guarantee | Mapping[str, Any] | str | os.PathLike[str],
    *,
    policy: AnyPolicy | str | os.PathLike[str] | None = None,
) -> Verdict:
    """Compute a promise anew from its certificate: "holds", "does not hold" or "cannot tell", and why.

    Args:
        promise: A guarantee, a certificate, a receipt, or a JSON file that holds one of the latter two.
        policy: The policy that a receipt belongs to, or its file.

    Examples:
        >>> import discreet
        >>> from discreet.recipes.registry import build
        >>> made = build(discreet.Central(epsilon=1.0, delta=1e-5), discreet.Shape(3, 2, 4), 1000)
        >>> discreet.verify(made.guarantee).answer
        'holds'
    """
    try:
        document = _document(promise)
        verdict = checker.check(checker.certificate_of(document))
    except checker.Unreadable as found:
        raise InvalidInput(f"this cannot be read as a certificate: {found}") from None
    is_receipt = isinstance(document, Mapping) and "certificate" in document
    reasons = _contradictions(document) if is_receipt else []
    if policy is not None:
        reasons += _other_policy(document, policy)
    return replace(verdict, answer=checker.FAILS, reason="; ".join(reasons)) if reasons else verdict


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


def _contradictions(receipt: Mapping[str, Any]) -> list[str]:
    """Where a receipt and its certificate say different things."""
    certificate, told = receipt["certificate"], receipt.get("guarantee")
    if not isinstance(told, Mapping):
        return ["the receipt says nothing of its guarantee"]
    found = [] if told.get("model") == certificate.get("model") else ["the receipt names another trust model"]
    stated = certificate["stated"]
    found += [
        f"the receipt says another {name} than its certificate"
        for name in ("epsilon", "delta", "rho")
        if not _same(told.get(name), stated.get(name))
    ]
    laws, listed = _laws(certificate.get("steps")), receipt.get("mechanisms")
    parts = listed if isinstance(listed, list) else []
    if {_law(part.get("law")) for part in parts if isinstance(part, Mapping)} != laws:
        found.append("the receipt lists other noise than its certificate")
    return found


def _same(told: Any, stated: Any) -> bool:
    """What a receipt tells is what the certificate states, which was raised by a share of 1e-12."""
    if told is None or stated is None:
        return told is None and stated is None
    if isinstance(told, bool) or not isinstance(told, int | float) or not math.isfinite(told):
        return False
    return Fraction(told) <= Fraction(stated) <= Fraction(told) * _CLOSE


def _laws(node: Any) -> set[Any]:
    """The laws of all noise that the steps of a certificate name; a walk without recursion, however deep they are."""
    found, left = set[Any](), [node]
    while left:
        step = left.pop()
        if isinstance(step, Mapping):
            found |= {_law(step["law"])} if "law" in step else set()
            left += step["of"] if isinstance(step.get("of"), list) else []
    return found


def _law(law: Any) -> Any:
    """A law by kind and exact parameters, from a certificate or from a receipt."""
    if not isinstance(law, Mapping):
        return None
    kind = str(law["kind"]) if "kind" in law else kebab(str(law.get("name")))
    return kind, frozenset((name, _number(value)) for name, value in law.items() if name not in ("kind", "name"))


def _number(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value):
        return Fraction(value)
    try:
        return checker.exact_number(value, "a parameter")
    except checker.Unreadable:
        return str(value)


def _other_policy(document: Any, policy: AnyPolicy | str | os.PathLike[str]) -> list[str]:
    """Refused if the policy is not the one that the receipt names."""
    told = document.get("policy") if isinstance(document, Mapping) else None
    if not isinstance(told, Mapping):
        raise InvalidInput("a certificate names no policy: give the receipt to check a policy against")
    opened = load_policy(policy) if isinstance(policy, str | os.PathLike) else policy
    return [] if told.get("sha256") == policy_hash(opened) else ["the policy is not the one that the receipt names"]

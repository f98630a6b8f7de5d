"""Certificates: what a guarantee rests on, as plain data from which others can compute it anew.

A certificate holds the laws, scales, shifts and the way they were put together, and what is stated about the whole. It
is made from the facts beside the lines of a derivation, which only the rules of :mod:`discreet.privacy.guarantee`
write. Who checks it (:mod:`discreet.checker`, or a program of one's own) needs nothing else of this library.

It holds no sentences: what a line of the derivation says in words is for people (``explain()``), and words cannot be
computed anew.

**Numbers are exact.** A floating point number is written with all its decimal digits, a fraction as "n/d", so that a
checker reads the very numbers that were used. Stated epsilons and rhos are raised by a share of 2^-40: they were
computed in floating point, and what is stated must not be below what is true because of a rounded last digit.
"""

from __future__ import annotations

import math
import re
from dataclasses import Field, fields
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar, Protocol

from discreet.base.errors import InvalidInput, of_kind
from discreet.base.packages import installed
from discreet.privacy.derivation import Fact, Facts, Reason
from discreet.privacy.sensitivity import Sensitivity

FORMAT, VERSION = "discreet-certificate", 2
_ORIGINS = {True: "simulated", False: "from the operating system's entropy", None: "not drawn yet"}
_RAISED = 1 + Fraction(1, 2**40)
_UPWARDS = Context(prec=30, rounding=ROUND_CEILING)
_PACKAGES = ("numpy", "scipy", "opendp")


class Described(Protocol):
    """A frozen dataclass whose fields are numbers, texts or tuples of them: a law, or a kind of message."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


def exact(value: float) -> str:
    """All decimal digits of a finite number that is not negative.

    >>> exact(0.5), exact(1e-5)[:12]
    ('0.5', '0.0000100000')
    """
    if not (math.isfinite(value) and value >= 0):
        raise InvalidInput(f"a certificate holds finite numbers that are not negative, got {value!r}")
    return f"{Decimal(value):f}"


def raised(value: float | None) -> str | None:
    """A stated epsilon or rho, raised by a share of 2^-40; None where there is none."""
    if value is None or not math.isfinite(value):
        return None
    whole = Fraction(value) * _RAISED
    return f"{_UPWARDS.divide(Decimal(whole.numerator), Decimal(whole.denominator)):f}"


def facts_of(thing: Described) -> Facts:
    """The fields of a law or of a kind of message, by name; its kind is the name of its class, in-kebab-case."""
    return Facts(
        kebab(type(thing).__name__), tuple((field.name, _fact(getattr(thing, field.name))) for field in fields(thing))
    )


def kebab(name: str) -> str:
    """A name in capitals and small letters as words with dashes.

    >>> kebab("DiscreteLaplace"), kebab("DiscreteKNorm")
    ('discrete-laplace', 'discrete-k-norm')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def moves_of(sensitivity: Sensitivity) -> Facts:
    """A sensitivity: norms, and the worst shift as groups of magnitude, cells up and cells down."""
    return Facts(
        "moves",
        (
            ("l1", exact(sensitivity.l1)),
            ("l2", exact(sensitivity.l2)),
            ("linf", exact(sensitivity.linf)),
            ("worst", sensitivity.shifts),
            ("unit", sensitivity.unit),
        ),
    )


def steps_of(reason: Reason) -> dict[str, Any]:
    """The facts of a line and of those that it rests on, as nested plain data."""
    (found,) = _nodes(reason)
    return found


def certificate(
    *, model: str, epsilon: float, delta: float, rho: float | None, derivation: Reason, neighbours: str, unit: str,
    simulated: bool | None, public: tuple[str, ...],
) -> dict[str, Any]:  # fmt: skip
    """A guarantee as a certificate; the entries are those of a guarantee."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model,
        "neighbours": neighbours,
        "unit": unit,
        "stated": {"epsilon": raised(epsilon), "delta": exact(delta), "rho": raised(rho)},
        "conditions": ["the number of users is public", *public],
        "noise": _ORIGINS[simulated],
        "steps": steps_of(derivation),
        "versions": installed(_PACKAGES),
    }


def _nodes(reason: Reason) -> list[dict[str, Any]]:
    below = [node for premise in reason.premises for node in _nodes(premise)]
    if reason.facts is None:
        return below
    node = {name: entry for name, entry in of_kind(dict, _plain(reason.facts)).items() if name != "why"}
    return [{**node, "parts": len(below), "of": below} if below else node]


def _plain(fact: Fact) -> Any:
    if isinstance(fact, Facts):
        return {"kind": fact.kind, **{name: _plain(entry) for name, entry in fact.entries}}
    return [_plain(entry) for entry in fact] if isinstance(fact, tuple) else fact


def _fact(value: Any) -> Fact:
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, tuple):
        return tuple(_fact(entry) for entry in value)
    if value is None or isinstance(value, str | bool | int):
        return value
    return exact(float(value))

"""The JSON of the service: canonical texts, their hashes, and fields that are read strictly.

Canonical JSON has its keys sorted, no spaces, only ASCII and neither NaN nor infinity; the hash of something is
``"sha256:"`` and the hexadecimal SHA-256 of its canonical text. Whatever comes from the network is read by functions
that refuse anything but what they expect.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from discreet.client.errors import Refused

_WRITER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
LARGEST = 1 << 26  # bytes of an answer that are read


def canonical(content: Any) -> bytes:
    """Plain data as the one text that is hashed and signed."""
    return _WRITER.encode(content).encode()


def digest(content: Any) -> str:
    """The hash of plain data."""
    return f"sha256:{hashlib.sha256(canonical(content)).hexdigest()}"


def read(text: bytes) -> dict[str, Any]:
    """A JSON object, without names that occur twice, NaN or infinity."""
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_constant, parse_float=_float)
    except (ValueError, RecursionError):
        raise Refused("the answer of the service cannot be read: it is not a JSON object; check the address") from None
    answer: dict[str, Any] = known(found, dict, "the answer of the service")
    return answer


def known(value: Any, kind: type[Any], what: str) -> Any:
    """A value of this type; true and false are no numbers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Refused(f"{what} is not what this client reads: a {_NAMES[kind]} is expected")
    return value


def field(content: dict[str, Any], name: str, kind: type[Any]) -> Any:
    """A field of an object, of this type."""
    if name not in content:
        raise Refused(f"the field {name!r} is missing in what the service sent: its version may not be ours")
    return known(content[name], kind, f"the field {name!r}")


def whole(content: dict[str, Any], name: str, least: int, most: int) -> int:
    """A field that is a whole number between two others."""
    value: int = field(content, name, int)
    if not least <= value <= most:
        raise Refused(f"the field {name!r} must lie between {least:,} and {most:,}, got {value:,}")
    return value


def number(content: dict[str, Any], name: str) -> float:
    """A field that is a finite number."""
    return finite(content.get(name), f"the field {name!r}")


def finite(value: Any, what: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e300:
        raise Refused(f"{what} must be a number")
    return float(value)


_NAMES = {dict: "JSON object", list: "list", str: "text", int: "whole number", bool: "true or false"}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _constant(text: str) -> Any:
    raise ValueError(text)


def _float(text: str) -> float:
    value = float(text)
    if abs(value) == math.inf:
        raise ValueError(text)
    return value

"""State that outlives a process: named arrays as bytes, and what of them may be seen.

``Saved`` is what a run keeps between two releases, in two parts. *Public* is what releases say already, or what follows
from them and from public policies: whoever holds it learns nothing new. *Secret* is what with a release would give away
more: raw counts, and noise, because a release minus its noise is a raw count.

``to_bytes`` writes named arrays in one way only, so equal arrays give equal bytes:

    a line that names the format, the SHA-256 of all that follows, the length of the header in eight bytes (lowest
    first), the header, and the entries of the arrays in the order of the header, row by row, lowest byte first.

The header is JSON: a list of [name, type, shape], sorted by name. Nothing in it is code. ``from_bytes`` reads what
``to_bytes`` wrote and refuses everything else: a checksum that does not fit, bytes that are missing or left over, an
unknown type, a header in another order.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.types import NDArray

Arrays = Mapping[str, NDArray[Any]]

_FORMAT = b"discreet-arrays 1\n"
_TYPES = {"float64": "<f8", "int64": "<i8", "uint64": "<u8", "uint8": "|u1", "bool": "|b1"}
_DAMAGED = "the saved state is damaged or was not saved by this version: restore it from a whole copy"


class Saved(NamedTuple):
    """What must be kept between two releases. ``secret`` must be encrypted wherever it is written."""

    public: dict[str, NDArray[Any]]
    secret: dict[str, NDArray[Any]]


@runtime_checkable
class Savable(Protocol):
    """A run that can be saved after a release, and go on from there in another process."""

    def save(self) -> Saved:
        """Copies of everything that it remembers."""

    def load(self, saved: Saved) -> None:
        """Remember this instead; it has the form that :meth:`save` of a fresh run has (:func:`check_form`)."""


def nothing_secret(**public: NDArray[Any] | int | bool) -> Saved:
    """The state of a run that remembers only what its releases say."""
    return Saved(copies(**public), {})


def copies(**arrays: NDArray[Any] | int | bool) -> dict[str, NDArray[Any]]:
    """Arrays of one's own; a number becomes an array without axes."""
    return {name: np.array(array, order="C") for name, array in arrays.items()}


def under(prefix: str, saved: Saved) -> Saved:
    """The same with longer names, so that the states of several runs can lie side by side."""
    public, secret = ({f"{prefix}.{name}": array for name, array in part.items()} for part in saved)
    return Saved(public, secret)


def taken_from(prefix: str, saved: Saved) -> Saved:
    """What :func:`under` put there, with its own names."""
    start = f"{prefix}."
    public, secret = (
        {name.removeprefix(start): array for name, array in part.items() if name.startswith(start)} for part in saved
    )
    return Saved(public, secret)


def check_form(form: Saved, given: Saved) -> None:
    """Refuse a state whose arrays are not those of ``form`` by name, type and shape, or hold no finite numbers."""
    for wanted, found in zip(form, given, strict=True):
        same = wanted.keys() == found.keys() and all(
            array.dtype == found[name].dtype and array.shape == found[name].shape for name, array in wanted.items()
        )
        if not same:
            raise InvalidInput(
                "the saved state belongs to another recipe, shape or version: resume it with what it was saved with"
            )
        if not all(np.isfinite(array).all() for array in found.values() if array.dtype.kind == "f"):
            raise InvalidInput(_DAMAGED)


def to_bytes(arrays: Arrays) -> bytes:
    """Named arrays as bytes; equal arrays give equal bytes.

    >>> content = to_bytes({"values": np.array([1.0, 2.0])})
    >>> from_bytes(content)["values"].tolist()
    [1.0, 2.0]
    """
    for name, array in arrays.items():
        if array.dtype.name not in _TYPES:
            raise InvalidInput(f"arrays of {array.dtype} are not saved, and {name!r} is one: convert it first")
    listed = [(name, arrays[name].dtype.name, list(arrays[name].shape)) for name in sorted(arrays)]
    header = _header(listed)
    entries = (np.asarray(arrays[name], _TYPES[kind]).tobytes() for name, kind, _shape in listed)
    content = len(header).to_bytes(8, "little") + header + b"".join(entries)
    return _FORMAT + hashlib.sha256(content).digest() + content


def from_bytes(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays that :func:`to_bytes` wrote; anything else is refused in one sentence."""
    start = len(_FORMAT) + 32
    rest = content[start:]
    whole = content[:start] == _FORMAT + hashlib.sha256(rest).digest() and len(rest) >= 8
    length = int.from_bytes(rest[:8], "little") if whole else 0
    if not whole or length > len(rest) - 8:
        raise InvalidInput(_DAMAGED)
    try:
        listed = [_entry(one) for one in json.loads(rest[8 : 8 + length])]
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(_DAMAGED) from None
    names = [name for name, _kind, _shape in listed]
    sizes = [math.prod(shape) * np.dtype(_TYPES[kind]).itemsize for _name, kind, shape in listed]
    if names != sorted(set(names)) or _header(listed) != rest[8 : 8 + length] or 8 + length + sum(sizes) != len(rest):
        raise InvalidInput(_DAMAGED)
    found, at = {}, 8 + length
    for (name, kind, shape), size in zip(listed, sizes, strict=True):
        found[name] = np.frombuffer(rest[at : at + size], _TYPES[kind]).astype(kind).reshape(shape)
        at += size
    return found


def _header(listed: list[tuple[str, str, list[int]]]) -> bytes:
    return json.dumps(listed, separators=(",", ":")).encode()


def _entry(one: Any) -> tuple[str, str, list[int]]:
    name, kind, shape = one
    sound = isinstance(name, str) and kind in _TYPES and isinstance(shape, list)
    if not sound or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
        raise ValueError(name)
    return name, kind, shape

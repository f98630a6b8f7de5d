"""Policies as files: .json to read, .npz for large ones. Files are data, and a damaged one is one sentence.

A file holds the name of the format, its version, the kind of policy, its tables and, where states or actions were
declared as words, their labels. Version 1 has no labels, version 2 has, and version 3 says how the columns of a table
become steps, states and actions, too; all are read.

Reading trusts nothing. The members of an .npz archive must be the expected ones, of the expected types, and their
headers are read before their content is inflated: a file whose tables would take more than ``LARGEST`` bytes is refused
without unpacking it. No pickle is read and no path in an archive is followed.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.files import as_path, shortened
from discreet.base.types import NDArray

FORMAT = "discreet-policy"
LARGEST = 1 << 28  # bytes of all tables of a policy: 256 MiB, 33 million actions
_LABELS = ("state_labels", "action_labels")
_TEXT, _NUMBER, _TABLE = "U", "iu", "iuf"
_MEMBERS = {
    "format": _TEXT, "version": _NUMBER, "kind": _TEXT, "actions": _NUMBER, "probabilities": _TABLE, "weights": _TABLE,
    "state_labels": _TEXT, "action_labels": _TEXT, "columns": _TEXT,
}  # fmt: skip
_DAMAGE = (
    ValueError, TypeError, KeyError, EOFError, OverflowError, RuntimeError, MemoryError, SyntaxError,
    zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip


def policy_bytes(
    suffix: str, kind: str, tables: Mapping[str, NDArray[Any]], labels: Mapping[str, tuple[str, ...] | None],
    columns: Mapping[str, Any] | None = None,
) -> bytes:  # fmt: skip
    """The content of a policy file whose name ends in ``suffix``."""
    if sum(table.nbytes for table in tables.values()) > LARGEST:
        raise InvalidInput(f"a policy of more than {LARGEST >> 20} MiB is not written: merge states or steps")
    known: dict[str, Any] = {name: list(words) for name, words in labels.items() if words is not None}
    version = 3 if columns is not None else 2 if known else 1
    header: dict[str, Any] = {"format": FORMAT, "version": version, "kind": kind}
    if columns is not None:
        known["columns"] = columns if suffix == ".json" else json.dumps(columns)
    if suffix == ".json":
        # Python writes the shortest text that reads back to the same float, so this is exact.
        content = header | known | {name: table.tolist() for name, table in tables.items()}
        return (json.dumps(content) + "\n").encode()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **header, **known, **tables)
    return buffer.getvalue()


def checked_name(path: str | os.PathLike[str]) -> Path:
    """The path of a policy file, whose name says its form."""
    file = as_path(path)
    if file.suffix not in (".json", ".npz"):
        raise InvalidInput(f"policy files end in .json or .npz, got {shortened(file.name)}")
    return file


def read_policy(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a policy file says, as plain data: format and version are checked, tables are not."""
    file = checked_name(path)
    try:
        if (size := file.stat().st_size) > 4 * LARGEST:
            raise InvalidInput(f"policy file {shortened(file)} is too large to be one: {size >> 20} MiB")
        data = file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"policy file {shortened(file)} cannot be read: {error.strerror}") from None
    try:
        content = json.loads(data) if file.suffix == ".json" else _read_archive(data)
        if file.suffix == ".npz" and "columns" in content:
            content["columns"] = json.loads(content["columns"])
    except InvalidInput as error:
        raise InvalidInput(f"policy file {shortened(file)} {error}") from None
    except _DAMAGE:
        raise InvalidInput(
            f"policy file {shortened(file)} is damaged: it is not {file.suffix[1:]}; save it again"
        ) from None
    return _checked(file, content)


def _checked(file: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or not _is(content.get("format"), FORMAT):
        raise InvalidInput(f"policy file {shortened(file)} does not hold a policy saved by discreet")
    version = content.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version not in (1, 2, 3):
        raise InvalidInput(
            f"policy file {shortened(file)} has version {_brief(version)}, this release reads versions 1 to 3; "
            "update discreet or save the policy again"
        )
    if content.get("kind") is not None and not isinstance(content["kind"], str):
        raise InvalidInput(f"policy file {shortened(file)} is damaged: its kind is not a word; save it again")
    for name in _LABELS:
        given = content.get(name)
        if given is not None and not (isinstance(given, list) and all(isinstance(label, str) for label in given)):
            raise InvalidInput(f"policy file {shortened(file)} is damaged: its labels are not words; save it again")
    if not isinstance(content.get("columns"), dict | None):
        raise InvalidInput(f"policy file {shortened(file)} is damaged: its columns are no table; save it again")
    return content


def _is(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def _brief(value: Any) -> str:
    text = repr(value) if isinstance(value, int | float | str | bool | None) else f"of type {type(value).__name__}"
    return text if len(text) <= 40 else text[:40] + "..."


def _read_archive(data: bytes) -> dict[str, Any]:
    """The arrays of an .npz archive; nothing is inflated before its size and type are known and allowed."""
    found: dict[str, Any] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if not members.keys() <= _MEMBERS.keys() or len(members) < len(archive.infolist()):
            raise InvalidInput("does not hold a policy saved by discreet")
        if sum(info.file_size for info in members.values()) > LARGEST + 10_000 * len(members):
            raise InvalidInput(f"unpacks to more than {LARGEST >> 20} MiB, which no policy does")
        for name, info in members.items():
            if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("encrypted, or packed in another way")
            with archive.open(info) as stream:
                found[name] = _plain(_read_array(stream, info.file_size, _MEMBERS[name]))
    return found


def _read_array(stream: IO[bytes], size: int, kinds: str) -> NDArray[Any]:
    """One array of an archive, if its header agrees with its size and type."""
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, by_column, dtype = read(stream)
    entries = math.prod(shape)  # in Python's whole numbers, which do not wrap
    if dtype.kind not in kinds or by_column or not dtype.itemsize > 0 or entries * dtype.itemsize > size:
        raise ValueError("an array of another type or size")
    content = stream.read()  # whole, so that the checksum is looked at
    if len(content) != entries * dtype.itemsize:
        raise ValueError("an array of another size")
    return np.frombuffer(content, dtype).reshape(shape)


def _plain(array: NDArray[Any]) -> Any:
    """Text and single numbers as Python has them; tables stay arrays."""
    return array.tolist() if array.dtype.kind == _TEXT or array.ndim == 0 else array

"""Files of policies and results with flipped bytes, cut ends, wrong fields, and members that no policy has."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import discreet

from .calls import DRAWS, MIXED, POLICY, TINY
from .odd_values import odd

FIELDS = ("format", "version", "kind", "actions", "probabilities", "weights", "state_labels", "action_labels")


def originals(folder: Path) -> list[tuple[str, bytes]]:
    """The files of policies of every kind, in both forms."""
    found = []
    for suffix in (".json", ".npz"):
        for policy in (POLICY, DRAWS, MIXED):
            policy.save(folder / f"original{suffix}")
            found.append((suffix, (folder / f"original{suffix}").read_bytes()))
    return found


def flipped(rng: np.random.Generator, data: bytes) -> bytes:
    """A few bytes changed, or the end cut off, or a piece repeated."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        out[int(rng.integers(len(out)))] = int(rng.integers(256))
    if rng.random() < 0.1:
        del out[int(rng.integers(len(out))) :]
    if rng.random() < 0.1:
        where = int(rng.integers(len(out) + 1))
        out[where:where] = out[: int(rng.integers(20))]
    return bytes(out)


def strange_json(rng: np.random.Generator) -> bytes:
    """A JSON object with odd fields."""
    content: dict[str, Any] = {"format": "discreet-policy", "version": 1, "kind": "deterministic", "actions": [[0, 1]]}
    for name in rng.permutation(FIELDS)[: int(rng.integers(1, 3))].tolist():
        content[name] = odd(rng)
    if rng.random() < 0.05:
        return b"[" * int(10 ** rng.uniform(2, 5))
    try:
        return json.dumps(content, default=str).encode()
    except (ValueError, TypeError):
        return b'{"format": "discreet-policy", "version": 1e999}'


def strange_archive(rng: np.random.Generator) -> bytes:
    """An archive of arrays with odd members, types, shapes and headers."""
    content: dict[str, Any] = {"format": "discreet-policy", "version": 1, "kind": "deterministic", "actions": [[0, 1]]}
    for name in rng.permutation([*FIELDS, "other"])[: int(rng.integers(1, 3))].tolist():
        content[name] = odd(rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in content.items():
            try:
                member = io.BytesIO()
                np.lib.format.write_array(member, np.asanyarray(value), allow_pickle=True)
                data = member.getvalue()
            except Exception:
                data = b"no array"
            if rng.random() < 0.1:  # a header that claims more than there is
                data = data.replace(b"(1, 2)", b"(99999999, 99999999)")
            archive.writestr(name + ".npy", data)
    return buffer.getvalue()


def result_file(folder: Path) -> bytes:
    """The file of a result of a simulation."""
    discreet.simulate(TINY, "ucbvi", None, episodes=4).save(folder)
    return (folder / "result.json").read_bytes()


def damaged(folder: Path) -> Callable[[np.random.Generator], Any]:
    """Load a damaged file."""
    files, result = originals(folder), result_file(folder)

    def load(rng: np.random.Generator) -> Any:
        which = rng.random()
        if which < 0.1:
            (folder / "result.json").write_bytes(flipped(rng, result))
            return discreet.load_result(folder if which < 0.05 else folder / "result.json")
        if which < 0.7:
            suffix, data = files[int(rng.integers(len(files)))]
            data = flipped(rng, data)
        else:
            suffix, data = (".json", strange_json(rng)) if which < 0.85 else (".npz", strange_archive(rng))
        path = folder / f"damaged{suffix}"
        path.write_bytes(data)
        return discreet.load_policy(path)

    return load

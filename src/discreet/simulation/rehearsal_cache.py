"""Rehearsals on disk: a result is found again by all that it depends on, and by nothing else.

The key is a hash of the code of this package, of the world of every run, of the learner with its knobs, of the target
with its options, and of the numbers of a run. What has no content that can be read off (classes of your own, whose code
may change) is not kept. Files lie in ``discreet/rehearsals`` below ``$XDG_CACHE_HOME`` or ``~/.cache``, beside compiled
kernels, and can be removed at any time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import discreet
from discreet.base.compiled import cache_folder
from discreet.base.files import write_atomically


class _NoContent(Exception):
    """Something whose content cannot be read off."""


def remembered(parts: Mapping[str, Any], compute: Callable[[], list[float]]) -> list[float]:
    """What ``compute`` gives, from disk if it was computed from the same parts before."""
    try:
        digest = hashlib.sha256(_source().encode())
        _add(digest, dict(parts))
    except _NoContent:
        return compute()
    file = cache_folder().parent / "rehearsals" / f"{digest.hexdigest()}.json"
    with suppress(OSError, ValueError):
        return [float(value) for value in json.loads(file.read_text())["regret"]]
    found = compute()
    with suppress(OSError):  # a folder that cannot be written to only costs time
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps({"regret": found}))
    return found


@cache
def _source() -> str:
    """A hash of the code of the package: results of another version are not mixed with those of this one."""
    digest = hashlib.sha256()
    root = Path(discreet.__file__).parent
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()


def _add(digest: Any, thing: Any) -> None:
    """Add the content of a thing, with its type, so that 1 and "1" differ."""
    if thing is None or isinstance(thing, bool | int | float | str):
        digest.update(f"{type(thing).__name__} {thing!r};".encode())
    elif isinstance(thing, np.ndarray):
        digest.update(f"{thing.dtype} {thing.shape};".encode() + np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, Mapping):
        _add(digest, [(name, thing[name]) for name in sorted(thing)])
    elif type(thing).__module__.partition(".")[0] not in ("discreet", "builtins"):
        raise _NoContent
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        values = [(f.name, getattr(thing, f.name)) for f in dataclasses.fields(thing)]
        _add(digest, [type(thing).__qualname__, *values])
    elif isinstance(thing, tuple | list):
        digest.update(f"{type(thing).__qualname__} {len(thing)};".encode())
        for part in thing:
            _add(digest, part)
    else:
        raise _NoContent

"""How discreet compiles: one decorator, one kind of dispatch, one cache that cannot go stale.

``@kernel`` compiles a function with the settings that the hot loops need (no Python error model, which stops
vectorisation; no GIL; cached on disk). numba keys its cache by the file of the compiled function alone, so an edit in a
function that it calls would go unnoticed; the cache therefore lives in a folder named by a fingerprint of every file
that holds a kernel.

``@dispatch`` declares a kernel by its first argument: a NamedTuple whose class decides which implementation runs. Loops
written against it are compiled once per combination of classes, and those compilations are cached on disk, which is not
so for functions passed as arguments.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.types import BaseTuple
from numba.extending import overload


@cache
def _cache_folder() -> str:
    package = Path(__file__).parent
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if any(mark in text for mark in (b"discreet.compiled", b".implement(", b"intrinsic")):
            digest.update(str(path.relative_to(package)).encode() + text)
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return str(Path(base) / "discreet" / digest.hexdigest()[:16])


# numba's default error model checks every division, which stops vectorisation.
_SETTINGS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
# Tuples of arrays are passed by value, a hundred words at a time: small kernels called in hot loops must be inlined.
_INLINED: dict[str, Any] = {**_SETTINGS, "forceinline": True, "_nrt": False}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function without the GIL and keep the machine code on disk."""
    return _compile(function, _SETTINGS)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that is always inlined where other kernels call it: for short functions in hot loops."""
    return _compile(function, _INLINED)


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """An inlined kernel whose products and sums may be fused into one rounding: for polynomials."""
    return _compile(function, {**_INLINED, "fastmath": {"contract"}})


def _compile(function: Callable[..., Any], settings: dict[str, Any]) -> Callable[..., Any]:
    compiled: Any = numba.njit(**settings)(function)  # `cache=True` would give it numba's own cache
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, _cache_folder()
    try:
        compiled._cache = _DiskCache(function)
    finally:
        config.CACHE_DIR = before
    return compiled  # type: ignore[no-any-return]


class _CacheFiles(IndexDataCacheFile):
    """numba numbers its data files, and two processes that compile at once take the same number: name them apart."""

    def _data_name(self, number: int) -> str:  # numba proposes 1, 2, 3, ...
        del number
        return str(super()._data_name(uuid.uuid4().int))


class _DiskCache(FunctionCache):
    """Machine code on disk, of our own classes only.

    A caller's classes may not exist in the next process, which could then not even read the list of what is there.
    Loops over them are compiled once per process.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CacheFiles(self._cache_path, self._impl.filename_base, stamp)

    def save_overload(self, signature: Any, data: Any) -> None:
        if all(_ours(kind) for kind in data.signature.args):
            super().save_overload(signature, data)


def _ours(kind: Any) -> bool:
    """Whether a compiled type, and what it holds, will be there in every process."""
    cls = getattr(kind, "instance_class", None)
    if cls is not None and cls.__module__.partition(".")[0] != "discreet":
        return False
    parts: tuple[Any, ...] = tuple(kind) if isinstance(kind, BaseTuple) else ()  # type: ignore[arg-type]
    return all(_ours(part) for part in parts)


def dispatch(declaration: Callable[..., Any]) -> Any:
    """Declare a kernel whose implementation is chosen by the class of its first argument.

    The result can be called from compiled code and from Python. ``result.implement(cls)`` registers a kernel for
    first arguments of the NamedTuple class ``cls``; one for ``object`` serves all classes without their own.
    """
    implementations: dict[type, Callable[..., Any]] = {}

    @wraps(declaration)
    def call(first: Any, *rest: Any) -> Any:
        general = type(first) not in implementations and object in implementations
        return implementations[object if general else type(first)](first, *rest)

    def choose(first: Any, *_rest: Any) -> Callable[..., Any] | None:
        chosen = implementations.get(getattr(first, "instance_class", type(None)), implementations.get(object))
        return None if chosen is None else chosen.py_func  # type: ignore[attr-defined]

    def implement(cls: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            implementations[cls] = inlined(function)
            return implementations[cls]

        return register

    register_overload: Any = overload
    register_overload(call, strict=False, jit_options=_INLINED)(choose)
    call.implement = implement  # type: ignore[attr-defined]
    return call

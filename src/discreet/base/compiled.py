"""How discreet compiles: when a kernel is first called, one kind of dispatch, one cache that cannot go stale.

``@kernel`` marks a function for compilation with the settings that the hot loops need (no Python error model, which
stops vectorisation; no GIL). numba is imported when the first kernel is called, so that whoever only lists or
calibrates does not wait for it.

``@dispatch`` declares a kernel by its first argument: a NamedTuple whose class decides which implementation runs. Loops
written against it are compiled once per combination of classes, and those compilations are cached on disk, which is not
so for functions passed as arguments.

**The cache.** numba would key machine code by the file of the compiled function alone, so that an edit in a function
that it calls went unnoticed. Here the key is a fingerprint of the function, of every kernel that it calls, of the
constants that they read, and of the implementations for the classes of its arguments: what becomes part of its machine
code. An edit therefore recompiles what contains it and nothing else, and copies of the package share what they have in
common.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache, update_wrapper, wraps
from pathlib import Path
from threading import RLock
from types import CodeType, ModuleType
from typing import Any

import numpy as np

# numba's default error model checks every division, which stops vectorisation.
_SETTINGS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
# Tuples of arrays are passed by value, a hundred words at a time: small kernels called in hot loops must be inlined.
_INLINED: dict[str, Any] = {**_SETTINGS, "forceinline": True, "_nrt": False}

_LOCK = RLock()
_WAITING: list[Callable[[], None]] = []  # what has to be told to numba before anything is compiled


def kernel(function: Callable[..., Any]) -> Kernel:
    """Compile a function without the GIL when it is first called, and keep the machine code on disk."""
    return Kernel(function, _SETTINGS)


def inlined(function: Callable[..., Any]) -> Kernel:
    """A kernel that is always inlined where other kernels call it: for short functions in hot loops."""
    return Kernel(function, _INLINED)


def fused(function: Callable[..., Any]) -> Kernel:
    """An inlined kernel whose products and sums may be fused into one rounding: for polynomials."""
    return Kernel(function, {**_INLINED, "fastmath": {"contract"}})


def before_compiling(action: Callable[[], None]) -> Callable[[], None]:
    """Do this once numba is there and before it compiles anything: for what has to be registered with it."""
    _WAITING.append(action)
    return action


class CompileClock:
    """Whether something is being compiled, and for how long in all: work that waits for it should not count it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock, self._under_way, self._since, self._spent = clock, RLock(), 0, 0.0, 0.0

    def begin(self) -> None:
        """A compilation begins, perhaps inside of another one."""
        with self._lock:
            if self._under_way == 0:
                self._since = self._clock()
            self._under_way += 1

    def end(self) -> None:
        """A compilation ends."""
        with self._lock:
            self._under_way -= 1
            if self._under_way == 0:
                self._spent += self._clock() - self._since

    def read(self) -> tuple[bool, float]:
        """Whether something is being compiled now, and the seconds so far."""
        with self._lock:
            running = self._under_way > 0
            return running, self._spent + (self._clock() - self._since if running else 0.0)


COMPILE_CLOCK = CompileClock()


@before_compiling
def _watch_compiling() -> None:
    from numba.core.event import Listener, register

    class Watch(Listener):
        def on_start(self, event: Any) -> None:
            del event
            COMPILE_CLOCK.begin()

        def on_end(self, event: Any) -> None:
            del event
            COMPILE_CLOCK.end()

    watching: Any = register
    watching("numba:compile", Watch())


class Kernel:
    """A function and, from its first call on, its machine code. Kernels that call it take it for numba's own object."""

    def __init__(self, function: Callable[..., Any], settings: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func, self._settings = function, settings
        self._compiled: Any = None

    @property
    def compiled(self) -> Any:
        """numba's dispatcher, made when it is first asked for."""
        if self._compiled is None:
            with _LOCK:
                while _WAITING:
                    _WAITING.pop(0)()
                if self._compiled is None:
                    self._compiled = _compile(self)
        return self._compiled

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)

    @property
    def _numba_type_(self) -> Any:
        return self.compiled._numba_type_

    @property
    def signatures(self) -> Any:
        """The argument types that it has been compiled for."""
        return self.compiled.signatures

    def __repr__(self) -> str:
        return f"<kernel {self.py_func.__module__}.{self.py_func.__qualname__}>"


def _compile(kernel: Kernel) -> Any:
    import numba

    compiled: Any = numba.njit(**kernel._settings)(kernel.py_func)  # `cache=True` would give it numba's own cache
    if _can_be_kept(cache_folder()):
        compiled._cache = _cache_classes()(kernel)
    return compiled


def dispatch(declaration: Callable[..., Any]) -> Any:
    """Declare a kernel whose implementation is chosen by the class of its first argument.

    The result can be called from compiled code and from Python. ``result.implement(cls)`` registers a kernel for
    first arguments of the NamedTuple class ``cls``; one for ``object`` serves all classes without their own.
    """
    implementations: dict[type, Kernel] = {}

    @wraps(declaration)
    def call(first: Any, *rest: Any) -> Any:
        general = type(first) not in implementations and object in implementations
        return implementations[object if general else type(first)](first, *rest)

    def choose(first: Any, *_rest: Any) -> Callable[..., Any] | None:
        chosen = implementations.get(getattr(first, "instance_class", type(None)), implementations.get(object))
        return None if chosen is None else chosen.py_func

    def implement(cls: type) -> Callable[[Callable[..., Any]], Kernel]:
        def register(function: Callable[..., Any]) -> Kernel:
            implementations[cls] = inlined(function)
            return implementations[cls]

        return register

    @before_compiling
    def overload_it() -> None:
        from numba.extending import overload

        register_overload: Any = overload
        register_overload(call, strict=False, jit_options=_INLINED)(choose)

    call.implement = implement  # type: ignore[attr-defined]
    call.implementations = implementations  # type: ignore[attr-defined]
    return call


def fingerprint(kernel: Kernel, classes: Iterable[type] = ()) -> str:
    """A hash of all that becomes machine code when the kernel is compiled for arguments of these classes."""
    digest = hashlib.sha256()
    met: set[int] = set()
    known, waiting = set(classes), [kernel]
    choices: list[Any] = []  # dispatched calls: which implementations they take depends on all classes that are met
    while waiting:
        while waiting:
            one = waiting.pop()
            if id(one) in met:
                continue
            met.add(id(one))
            digest.update(f"{one.py_func.__module__}.{one.py_func.__qualname__} {sorted(one._settings)}".encode())
            digest.update(_text_of(one.py_func.__code__, one.py_func.__doc__).encode())
            for name, value in _globals_of(one.py_func):
                if isinstance(value, Kernel):
                    waiting.append(value)
                elif hasattr(value, "implementations"):
                    choices.append(value)
                elif isinstance(value, type):
                    known.add(value)
                else:
                    digest.update(f"{name} {_constant(value)}".encode())
        for choice in choices:
            for cls in sorted(known | {object}, key=lambda c: (c.__module__, c.__qualname__)):
                chosen = choice.implementations.get(cls)
                if chosen is not None and id(chosen) not in met:
                    waiting.append(chosen)
    for cls in sorted(known, key=lambda c: (c.__module__, c.__qualname__)):
        digest.update(f"{cls.__module__}.{cls.__qualname__} {getattr(cls, '_fields', ())}".encode())
    return digest.hexdigest()


def _text_of(code: CodeType, doc: str | None) -> str:
    constants = [
        _text_of(value, None) if isinstance(value, CodeType) else repr(value)
        for value in code.co_consts
        if not (isinstance(value, str) and value == doc)
    ]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames} {code.co_freevars}"


def _globals_of(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """What the names in a function stand for: globals, names of modules of ours, and what its closure holds."""
    inner, names = [function.__code__], []
    while inner:
        code = inner.pop()
        names += [name for name in code.co_names if name not in names]
        inner += [value for value in code.co_consts if isinstance(value, CodeType)]
    for name in sorted(names):
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            if value.__name__.partition(".")[0] == "discreet":
                yield from ((f"{name}.{part}", getattr(value, part)) for part in sorted(names) if hasattr(value, part))
        elif value is not None:
            yield name, value
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _constant(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    return repr(value) if isinstance(value, bool | int | float | complex | str | tuple | np.generic) else ""


def cache_folder() -> Path:
    """Where machine code is kept; remove it whenever you like."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "discreet" / f"kernels-py{sys.version_info[0]}{sys.version_info[1]}"


@cache
def _can_be_kept(folder: Path) -> bool:
    """Whether machine code can be kept there; if not, every process compiles for itself, and says so once."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError as refused:
        warnings.warn(
            f"compiled code cannot be kept in {folder} ({refused.strerror or refused}), so every start compiles anew: "
            "set NUMBA_CACHE_DIR to a folder that can be written",
            RuntimeWarning,
            stacklevel=2,
        )
        return False


@cache
def _cache_classes() -> Any:
    """The class of caches, made when numba is there."""
    import numba
    from numba.core.caching import FunctionCache, IndexDataCacheFile
    from numba.core.types import BaseTuple

    class Files(IndexDataCacheFile):
        """numba numbers its data files, and two processes that compile at once take one number: name them apart."""

        def _data_name(self, number: int) -> str:  # numba proposes 1, 2, 3, ...
            del number
            return str(super()._data_name(uuid.uuid4().int))

    class DiskCache(FunctionCache):
        """Machine code on disk, of our own classes only.

        A caller's classes may not exist in the next process. Loops over them are compiled once per process.
        """

        def __init__(self, kernel: Kernel) -> None:
            folder = cache_folder()
            config: Any = numba.config
            before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
            try:
                super().__init__(kernel.py_func)
            finally:
                config.CACHE_DIR = before
            self._kernel = kernel
            self._cache_path = str(folder)
            name = f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}".replace("<", "_").replace(">", "_")
            self._cache_file = Files(self._cache_path, name, "keys are fingerprints")

        def save_overload(self, signature: Any, data: Any) -> None:
            if all(cls.__module__.partition(".")[0] == "discreet" for cls in classes_of(data.signature.args)):
                Path(self._cache_path).mkdir(parents=True, exist_ok=True)
                super().save_overload(signature, data)

        def _index_key(self, signature: Any, codegen: Any) -> str:
            """In words, so that a list can be read that names classes which are not there any more."""
            kinds = [*classes_of(signature)]
            parts = (str(signature), numba.__version__, codegen.magic_tuple(), fingerprint(self._kernel, kinds))
            return hashlib.sha256(repr(parts).encode()).hexdigest()

    def classes_of(kinds: Iterable[Any]) -> Iterator[type]:
        """The classes of named tuples among compiled types, also inside of tuples."""
        for kind in kinds:
            cls = getattr(kind, "instance_class", None)
            if cls is not None:
                yield cls
            if isinstance(kind, BaseTuple):
                yield from classes_of(tuple(kind))  # type: ignore[arg-type]

    return DiskCache

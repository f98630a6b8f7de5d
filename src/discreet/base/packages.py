"""Names of a package that are loaded when they are first used, so that importing it costs nothing.

A package that is a verb as well (``discreet.audit(...)``, ``discreet.recipes()``) can be called by its name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package: each name comes from its home, the module that defines it."""

    def find(name: str) -> Any:
        if name not in homes:
            from discreet.base.errors import nearest

            near = [] if name.startswith("_") else nearest(name, homes, cutoff=0.7)
            hint = f": did you mean {' or '.join(near)}?" if near else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        home = homes[name]
        module = importlib.import_module(home)
        return module if home == f"{package}.{name}" else getattr(module, name)

    return find, lambda: sorted(homes)


def installed(names: Iterable[str]) -> dict[str, str]:
    """The versions of discreet, of Python and of those of these packages that are installed."""
    import platform  # this and the next cost half of what `import discreet` may

    found = {"discreet": importlib.import_module("discreet").__version__, "python": platform.python_version()}
    return found | {name: number for name in names if (number := _version(name)) is not None}


@lru_cache(maxsize=256)
def _version(name: str) -> str | None:
    """The version of a package; it does not change while the program runs, and finding it out takes milliseconds."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def load(home: str) -> Any:
    """What stands at ``"package.module:name"``."""
    module, _, name = home.partition(":")
    return getattr(importlib.import_module(module), name)


def make_callable(package: str, home: str) -> None:
    """Let the package be called like the function at ``"package.module:name"``, which is loaded at its first call."""

    class Verb(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return load(home)(*arguments, **options)

    sys.modules[package].__class__ = Verb

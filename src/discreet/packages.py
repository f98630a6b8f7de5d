"""Names of a package that are loaded when they are first used, so that importing it costs nothing.

A package that is a verb as well (``discreet.audit(...)``, ``discreet.recipes()``) can be called by its name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package: each name comes from its home, the module that defines it."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        module = importlib.import_module(home)
        return module if home == f"{package}.{name}" else getattr(module, name)

    return find, lambda: sorted(homes)


def installed(names: Iterable[str]) -> dict[str, str]:
    """The versions of discreet, of Python and of those of these packages that are installed."""
    import platform  # this and the next cost half of what `import discreet` may
    from importlib.metadata import PackageNotFoundError, version

    found = {"discreet": importlib.import_module("discreet").__version__, "python": platform.python_version()}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


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

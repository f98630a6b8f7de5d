"""Every error that discreet raises on purpose.

A message names the thing, its value, the bound it broke and what to do next. It never quotes a raw datum.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DiscreetError(Exception):
    """Root of all errors that discreet raises on purpose; the command line turns them into exit code 2."""


class InvalidInput(DiscreetError, ValueError):
    """A public input is outside its domain."""


class Unsupported(DiscreetError):
    """A combination that nobody has proved correct, or that lacks something it needs: refused, never guessed."""


class MissingExtra(DiscreetError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs the package {package!r}: install it with  pip install 'discreet[{extra}]'")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InvalidInput:
    """The error for a name that does not exist, with the nearest ones that do."""
    names = sorted(known)
    name = name if len(name) <= 60 else f"{name[:57]}..."
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(names)}"
    return InvalidInput(f"unknown {kind} {name!r}: {hint}")

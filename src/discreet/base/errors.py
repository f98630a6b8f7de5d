"""Every error that discreet raises on purpose.

A message names the thing, its value, the bound it broke and what to do next. It never quotes a raw datum.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

_LONGEST, _MANY = 60, 200  # characters of a name that is shown, and names that are listed
# Kinds of names with a command that lists them; a sentence does so only while they are few.
_CATALOGUES, _FEW = {"recipe": "discreet recipes"}, 20


class DiscreetError(Exception):
    """Root of all errors that discreet raises on purpose; the command line turns them into its exit code, mostly 2.

    Examples:
        >>> import discreet
        >>> try:
        ...     discreet.Central(epsilon=-1.0)
        ... except discreet.DiscreetError as error:
        ...     print(type(error).__name__)
        InvalidInput
    """

    exit_code = 2


class InvalidInput(DiscreetError, ValueError):
    """A public input is outside its domain.

    Examples:
        >>> import discreet
        >>> discreet.Shape(states=0, actions=2, horizon=3)
        Traceback (most recent call last):
        discreet.base.errors.InvalidInput: ...
    """


class Unsupported(DiscreetError):
    """A combination that nobody has proved correct, or that lacks something it needs: refused, never guessed.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> discreet.simulate(world, "uob-lbps", episodes=10)
        Traceback (most recent call last):
        discreet.base.errors.Unsupported: ...
    """


class OverBudget(InvalidInput):
    """A release would cost more than is left of the budget of its data set; nothing was spent.

    Examples:
        >>> import discreet
        >>> issubclass(discreet.OverBudget, discreet.DiscreetError)
        True
    """


class EmptyTable(DiscreetError):
    """A table that was released may hold nobody: its budget is spent, and no policy is handed out.

    The command line exits with code 3.

    Examples:
        >>> import discreet
        >>> discreet.EmptyTable.exit_code
        3
    """

    exit_code = 3


class MissingExtra(DiscreetError, ImportError):
    """An optional dependency is not installed.

    Args:
        package: What is missing.
        extra: The extra of discreet that brings it.

    Examples:
        >>> import discreet
        >>> print(discreet.MissingExtra("matplotlib", "plots"))
        this needs the package 'matplotlib': install it with  pip install '.[plots]'  in your clone of discreet
    """

    def __init__(self, package: str, extra: str) -> None:
        command = f"pip install '.[{extra}]'  in your clone of discreet"
        super().__init__(f"this needs the package {package!r}: install it with  {command}")


def of_kind(kind: type[T], thing: object) -> T:
    """The thing, if it is of the class that what follows relies on: a check that stays under ``python -O``."""
    if not isinstance(thing, kind):
        raise Unsupported(f"{type(thing).__name__} stands where only {kind.__name__} is understood")
    return thing


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InvalidInput:
    """The error for a name that does not exist, with the nearest ones that do."""
    names = sorted(known)
    text = name if isinstance(name, str) else f"a {type(name).__name__}"
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    near = nearest(text, names) if len(names) <= _MANY else []
    if kind in _CATALOGUES and len(names) > _FEW:
        listed = f"the {len(names):,} that {_CATALOGUES[kind]} lists"
    else:
        listed = ", ".join(names) if len(names) <= _MANY else f"the {len(names):,} that were declared"
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose one of {listed}"
    return InvalidInput(f"unknown {kind} {text!r}: {hint}")


def nearest(text: str, names: Iterable[str], cutoff: float = 0.5) -> list[str]:
    """The names that somebody may have meant, at most three; capitals, hyphens, _ and spaces are no difference.

    >>> nearest("UCBVI", ["ucbvi", "ucbpo"]), nearest("RiverSwim", ["river-swim"]), nearest("zzz", ["ucbvi"])
    (['ucbvi'], ['river-swim'], [])
    """
    folded = {_folded(name): name for name in names}
    same = [name for fold, name in folded.items() if fold.replace("-", "") == _folded(text).replace("-", "")]
    if same:
        return same
    return [folded[near] for near in difflib.get_close_matches(_folded(text), folded, n=3, cutoff=cutoff)]


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")


def check_name(kind: str, name: object, known: Iterable[str]) -> str:
    """A name that exists; anything else, arrays and the like included, is refused."""
    names = tuple(known)
    if not isinstance(name, str) or name not in names:
        raise unknown_name(kind, name, names)
    return name

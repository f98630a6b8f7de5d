"""Named things with options: how learners and worlds are listed, found, made and registered.

An option is a keyword of what makes the thing, a class or a function; its default and its type are read off the
signature, so there is nothing to keep in step. What belongs to a slice of the package is named as text
(``"package.module:name"``) and loaded when it is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args, get_type_hints

from discreet.base.errors import InvalidInput, unknown_name
from discreet.base.packages import load

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_WORDS = {bool: "true or false", int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class Named:
    """How to make a thing, what it is in one line, where it comes from, its kind, and how far it is proved."""

    home: str | Callable[..., Any]
    summary: str
    source: str = ""
    kind: str = ""
    standing: str = ""  # which part is theorem and which is heuristic, with the defaults

    @property
    def make(self) -> Callable[..., Any]:
        """The class or function that makes it."""
        return load(self.home) if isinstance(self.home, str) else self.home

    @property
    def options(self) -> dict[str, Any]:
        """Option names and their defaults."""
        return {name: parameter.default for name, parameter in inspect.signature(self.make).parameters.items()}


class Registry(Mapping[str, Named]):
    """Named things of one kind, such as learners. ``register`` adds one of your own.

    Examples:
        >>> import discreet
        >>> "river-swim" in discreet.worlds.WORLDS
        True
        >>> discreet.worlds.WORLDS["river-swim"].options["states"]
        6
    """

    def __init__(self, kind: str, entries: Mapping[str, Named]) -> None:
        self._kind, self._entries = kind, dict(entries)

    def __getitem__(self, name: str) -> Named:
        if name not in self._entries:
            raise KeyError(name)
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def register(
        self, name: str, make: Callable[..., Any], summary: str = "", source: str = "yours", kind: str = ""
    ) -> None:
        """Give a name to a class or function of your own; every command and function that takes names then knows it.

        The keywords of ``make`` become its options. A name that is taken is refused.

        Args:
            name: A name that is not taken.
            make: The class or function.
            summary: One line for lists; by default the first of its docstring.
            source: Where it comes from.
            kind: The group in lists.

        Examples:
            >>> import discreet
            >>> discreet.worlds.register("short-river", lambda states=3: discreet.worlds.river_swim(states, horizon=3))
            >>> discreet.worlds.make_world("short-river").shape.horizon
            3
            >>> discreet.worlds.WORLDS.forget("short-river")
        """
        if not callable(make):
            raise InvalidInput(f"{self._kind} {name!r} must be made by a class or a function, got {make!r}")
        if name in self._entries:
            raise InvalidInput(f"there is a {self._kind} {name!r} already: choose another name")
        text = summary or (inspect.getdoc(make) or "").partition("\n")[0]
        self._entries[name] = Named(make, text, source, kind)

    def forget(self, name: str) -> None:
        """Take a name away again."""
        self.find(name)
        del self._entries[name]

    def homes(self) -> dict[str, str]:
        """The class or function of every entry that is named as text, and its module: for ``packages.lazily``."""
        texts = [entry.home for entry in self._entries.values() if isinstance(entry.home, str)]
        return {name: module for module, _, name in (text.partition(":") for text in texts)}

    def find(self, name: str) -> Named:
        """The entry of that name, or an error with the nearest names."""
        if name not in self._entries:
            raise unknown_name(self._kind, name, self._entries)
        return self._entries[name]

    def create(self, name: str, /, **options: Any) -> Any:
        """Make a thing by name; option values may be text, as a command line gives them."""
        entry = self.find(name)
        return entry.make(**parse_options(f"{self._kind} {name}", entry.make, options))


def parse_options(owner: str, make: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords for ``make``: names checked, text read as the annotated type."""
    known = inspect.signature(make).parameters
    initialiser: Any = getattr(make, "__init__") if isinstance(make, type) else make  # noqa: B009
    types = get_type_hints(initialiser)
    arguments = {}
    for name, value in given.items():
        option = name.replace("-", "_")
        if option not in known:
            raise unknown_name(f"option of {owner}:", name, known)
        arguments[option] = parse_value(option, value, types.get(option)) if isinstance(value, str) else value
    return arguments


def parse_value(option: str, text: str, annotation: Any) -> Any:
    """Text as a value of the annotated type: bool, int, float, or any of them or None. Other types stay text."""
    kinds = get_args(annotation) or (annotation,)
    if NoneType in kinds and text.lower() == "none":
        return None
    kind = next((kind for kind in kinds if kind is not NoneType), None)
    if kind not in _WORDS:
        return text
    try:
        return _TRUTH[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise InvalidInput(f"option {option} must be {_WORDS[kind]}, got {text!r}") from None

"""A declaration as a file, ``table.toml``: what ``check``, ``plan``, ``train`` and ``evaluate`` are told, said once.

Its fields are the arguments of :func:`discreet.data.read` and the options of the command line, under the same names;
states and actions are lists of columns, each with its domain. Where the table lies is no part of it. The same things
declared in a file, by keywords or by options are the same declaration, with the same hash.

    format = "discreet-table"
    version = 1
    user = "patient"
    step = "week"
    steps = ["8", "16", "24"]
    reward = "cd4"
    rewards = [0, 1200]

    [[state]]
    column = "age"
    edges = [0, 40, 60, inf]
    missing = "level"

    [[action]]
    column = "arm"
    levels = ["1", "2", "3", "4"]
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from discreet.base.errors import InvalidInput, nearest
from discreet.base.files import as_path, shortened
from discreet.base.shape import Shape
from discreet.tables.read.columns import Bins, Dates, Elapsed, domains, listed, or_missing, total_size

_FORMAT, _VERSION = "discreet-table", 1
_LARGEST = 1 << 26  # bytes
_TEXT, _WHOLE, _NUMBER, _FLAG, _WORDS, _RANGE, _COLUMNS = (
    "text", "a whole number", "a number", "true or false", "a list of texts", "two numbers such as [0, 1]",
    "columns, each under [[{}]]",
)  # fmt: skip
FIELDS = {
    "user": _TEXT, "step": _TEXT, "reward": _TEXT, "episode": _TEXT, "next_state": _WORDS, "horizon": _WHOLE,
    "rewards": _RANGE, "missing_reward": _NUMBER, "missing": _TEXT, "per_user": _WHOLE, "cap": _WHOLE,
    "homogeneous": _FLAG, "early_end": _FLAG, "first_step": _WHOLE, "days": _WHOLE, "origin": "a date or a number",
    "every": _NUMBER, "steps": _WORDS, "state": _COLUMNS, "action": _COLUMNS,
}  # fmt: skip
_DOMAINS = {"number": _WHOLE, "levels": _WORDS, "edges": "a list of numbers"}


def load_declaration(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a file, checked; :func:`keywords` makes arguments of ``read`` of them."""
    file = as_path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
        found = tomllib.loads(content.decode()) if len(content) <= _LARGEST else {}
    except OSError as error:
        raise InvalidInput(f"the declaration {shortened(file)} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):  # bytes that are no text are one, too
        raise InvalidInput(f"the declaration {shortened(file)} is no TOML: see the form in docs/offline.md") from None
    where = shortened(file)
    if found.pop("format", None) != _FORMAT or found.pop("version", None) != _VERSION:
        raise InvalidInput(
            f'{where} is no declaration of a table: it begins with format = "{_FORMAT}" and version = {_VERSION}'
        )
    _check(where, found, FIELDS)
    for name in ("state", "action"):
        for number, column in enumerate(found.get(name, ()), 1):
            _check_column(f"{where}, [[{name}]] {number}", column, name)
    return found


def check_said_once(path: str | os.PathLike[str], twice: Sequence[str]) -> None:
    """Refuse what is declared in a file and beside it."""
    if twice:
        raise InvalidInput(f"{twice[0]}= was given, and {shortened(as_path(path))} declares it: leave one out")


def keywords(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``read``."""
    found = {
        name: value for name, value in fields.items() if name not in ("state", "action", "days", "every", "origin")
    }
    for name in ("state", "action"):
        if name in fields:
            columns, parts = [each["column"] for each in fields[name]], [_domain(each) for each in fields[name]]
            found[name], found[f"{name}s"] = (columns[0], parts[0]) if len(columns) == 1 else (tuple(columns), parts)
    levels = [each["column"] for each in fields.get("state", ()) if "missing" in each]
    if levels:
        found["missing_level"] = levels
    if "next_state" in found:
        found["next_state"] = found["next_state"][0] if len(found["next_state"]) == 1 else tuple(found["next_state"])
    if "rewards" in found:
        found["rewards"] = tuple(found["rewards"])
    return found | _times(fields)


def shape_of(fields: Mapping[str, Any], where: str) -> Shape:
    """How many states, actions and steps a declaration has."""
    said, sizes = keywords(fields), {}
    for name in ("cap", "per_user"):
        if said.get(name, 1) != 1:
            raise InvalidInput(f"{where} declares {name} = {said[name]}, and plan is for one trajectory of every user")
    for name in ("state", "action"):
        if name not in said:
            raise InvalidInput(f"{where} declares no {name}: write [[{name}]] with its column and domain")
        levels = said.get("missing_level", ()) if name == "state" else ()
        parts = domains(f"{name}s", said[name], said[f"{name}s"])
        sizes[name] = total_size(or_missing(parts, listed(said[name]), levels))
    labels = said.get("steps")
    horizon = said.get("horizon", len(labels) if isinstance(labels, list) else None)
    if horizon is None:
        raise InvalidInput(f"{where} declares no horizon: write the largest number of steps, such as horizon = 3")
    rewards = said.get("rewards", (0.0, 1.0))
    return Shape(sizes["state"], sizes["action"], horizon, said.get("homogeneous", False), rewards)


def _times(fields: Mapping[str, Any]) -> dict[str, Any]:
    origin = fields.get("origin")
    if "every" in fields:
        if "steps" in fields or "days" in fields:
            raise InvalidInput("every, days and steps say in several ways what steps are: declare one of them")
        return {"steps": Elapsed(fields["every"], 0.0 if origin is None else origin)}
    if "days" in fields:
        return {"dates": Dates(fields["days"], origin)}
    if origin is not None:
        raise InvalidInput("origin is for steps that are dates, or elapse: declare days or every, too")
    return {}


def _domain(column: Mapping[str, Any]) -> Any:
    return Bins(column["edges"]) if "edges" in column else column.get("number", column.get("levels"))


def _check(where: str, found: Mapping[str, Any], known: Mapping[str, str]) -> None:
    for name, value in found.items():
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known)}"
            raise InvalidInput(f"{where} has no field {name[:40]!r}: {hint}")
        if not _fits(value, known[name]):
            raise InvalidInput(f"{where}: {name} must be {known[name].format(name)}")


def _check_column(where: str, column: Mapping[str, Any], role: str) -> None:
    more = {"missing": _TEXT} if role == "state" else {}
    _check(where, column, {"column": _TEXT, **_DOMAINS, **more})
    if "column" not in column:
        raise InvalidInput(f"{where}: column is missing: name it")
    given = [name for name in _DOMAINS if name in column]
    if len(given) != 1:
        raise InvalidInput(f"{where}: give one of number, levels, edges; got {' and '.join(given) or 'none'}")
    if column.get("missing", "level") != "level":
        raise InvalidInput(f'{where}: missing must be "level", or left out')


def _fits(value: Any, kind: str) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    lists = isinstance(value, list) and len(value) > 0
    match kind:
        case "text":
            return isinstance(value, str)
        case "a whole number":
            return number and isinstance(value, int)
        case "a number":
            return number
        case "true or false":
            return isinstance(value, bool)
        case "a list of texts":
            return lists and all(isinstance(each, str) for each in value)
        case "two numbers such as [0, 1]":
            return lists and len(value) == 2 and all(_fits(each, _NUMBER) for each in value)
        case "a list of numbers":
            return lists and all(_fits(each, _NUMBER) for each in value)
        case "a date or a number":
            return number or isinstance(value, str)
    return lists and all(isinstance(each, dict) for each in value)

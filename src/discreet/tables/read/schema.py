"""Whether the columns of a table can hold what is declared about them: decided from names and types alone.

This is all that can stop a release, and it happens when the table is declared, before anything is counted or spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.base.errors import InvalidInput
from discreet.tables.read.columns import Bins, Declaration, Part, listed
from discreet.tables.read.engines import IbisSource, quietly
from discreet.tables.read.in_process import LocalSource, ParquetFiles

_NUMBERS = frozenset({"whole", "number", "text"})
_IDS = frozenset({"whole", "number", "text", "date", "id"})


def check_schema(source: IbisSource | LocalSource, declaration: Declaration, only: Sequence[str] | None = None) -> None:
    """Refuse a table that lacks a declared column, or has one of a type that cannot be what is declared.

    ``only`` these columns are looked at, where they are not all.
    """
    names = declaration.columns.names if only is None else tuple(only)
    typed = set(names) - set(source.files[0].folders) if isinstance(source, ParquetFiles) else set()
    if isinstance(source, IbisSource):
        types: dict[str, Any] = dict(source.columns())
        kinds, has = {name: _ibis_kind(types[name]) for name in types}, "; it has " + ", ".join(types)
    else:
        from discreet.tables.read.arrow_values import kind_of

        types = dict(quietly(source.name, lambda: source.types(names)))
        listing = quietly(source.name, source.listing)
        kinds = {name: kind_of(kind) for name, kind in types.items()}
        # The first line of a CSV file may be somebody's record: it is not shown.
        has = f"; it has {listing}" if listing else ": its first line must name it, letter by letter"
    for name in names:
        if name not in types:
            raise InvalidInput(f"{source.name} has no column {name!r}{has}")
    for name, role, fitting, must_be in _needs(declaration):
        if name not in names:
            continue
        # Text that happens to be numbers is for CSV and for frames without types; a Parquet file says what it holds.
        if kinds[name] not in fitting or (must_be == "numeric" and kinds[name] == "text" and name in typed):
            raise InvalidInput(f"column {name!r} holds the {role} and must be {must_be}, its type is {types[name]}")


def _needs(declaration: Declaration) -> list[tuple[str, str, frozenset[str], str]]:
    """For every declared column its role, the kinds that it may have, and how to say that."""
    columns = declaration.columns
    needs = [
        (name, "identifier", _IDS, "a number, text or a date")
        for name in (*listed(columns.user), *listed(columns.episode))
    ]
    if columns.step is None:
        pass
    elif declaration.dates is None:
        needs.append((columns.step, "step", _NUMBERS, "numeric"))
    else:
        needs.append((columns.step, "date of the step", frozenset({"date", "text"}), "a date, or text"))
    for role, names, parts in (
        ("state", columns.state, declaration.state_parts),
        ("action", columns.action, declaration.action_parts),
        ("next_state", columns.next_state, declaration.state_parts),
    ):
        needs += [_member_needs(name, role, part) for name, part in zip(listed(names), parts, strict=False)]
    if columns.reward is not None:
        needs.append((columns.reward, "reward", _NUMBERS, "numeric"))
    return needs


def _member_needs(name: str, role: str, part: Part) -> tuple[str, str, frozenset[str], str]:
    if isinstance(part, int | Bins):
        return name, role, _NUMBERS, "numeric"
    return name, f"{role} as declared labels", _NUMBERS, "text or numeric"


def _ibis_kind(kind: Any) -> str:
    if kind.is_integer():
        return "whole"
    if kind.is_floating() or kind.is_decimal():
        return "number"
    if kind.is_string():
        return "text"
    if kind.is_date() or kind.is_timestamp():
        return "date"
    return "id" if kind.is_uuid() or kind.is_binary() or kind.is_time() else "other"

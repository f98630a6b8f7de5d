"""Carry over what a ledger of version 1 (discreet 0.2.0) says was spent: its chain, its sums and its budgets stay.

An entry of the kind "upgrade", at no cost, ends the old part of every chain and closes the releases that it stored:
they are checked as before and never used again, because what they say may be false (verdicts where rows are missing),
so the same request afterwards is a new charge. Heads that were signed before keep their entries.
"""

from __future__ import annotations

from typing import NamedTuple

from discreet.base.errors import InvalidInput
from discreet.ledger import database
from discreet.ledger.budget import budget_from
from discreet.ledger.chain import FORMAT, OLD, UPGRADE, Followed, chained
from discreet.ledger.database import Connection
from discreet.ledger.spending import now
from discreet.ledger.verifying import release_problems


class Upgraded(NamedTuple):
    """A data set that was carried over.

    Args:
        data_set: Its name.
        spent: What it has spent, in words.
        closed: How many stored releases were closed.

    Examples:
        >>> from discreet import ledger
        >>> ledger.Upgraded("icu-2026", "epsilon 1", closed=2).closed
        2
    """

    data_set: str
    spent: str
    closed: int


def upgrade(connection: Connection) -> list[Upgraded]:
    """Carry all data sets of version 1 over; those that are of this version stay as they are.

    Args:
        connection: That :func:`opened` gave, inside of a transaction.

    Examples:
        >>> import sqlite3
        >>> from discreet import ledger
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> ledger.upgrade(books)
        []
    """
    return [found for name in database.data_sets(connection) if (found := _carried(connection, name)) is not None]


def closed_before(connection: Connection, data_set: str) -> int:
    """How many releases an upgrade of the data set has closed."""
    entry = database.entry_of_part(connection, data_set, UPGRADE)
    return 0 if entry is None else int(entry.content["closed"])


def _is_upgraded(connection: Connection, data_set: str) -> bool:
    return database.entry_of_part(connection, data_set, UPGRADE) is not None


def _carried(connection: Connection, name: str) -> Upgraded | None:
    database.lock(connection, name)
    opening = database.entry_at(connection, name, 0)
    if opening is None or opening.content.get("format") != OLD or _is_upgraded(connection, name):
        return None
    followed = Followed(name)
    for entry in database.entries_of(connection, name):
        followed.take(entry)
    if problems := [*followed.finished(), *release_problems(connection, followed)]:
        raise InvalidInput(f"nothing was carried over, because this ledger is not sound: {problems[0]}")
    last, budget = database.last_entry(connection, name), budget_from(opening.content["budget"])
    spent = followed.spent
    content = {
        "dataset": name, "number": last.number + 1, "time": now(), "kind": "upgrade", "format": FORMAT,
        "what": "carried over from version 1", "cost": ["0", "0"], "spent": [str(spent.loss), str(spent.delta)],
        "about": None if last.number == 0 else last.content["about"], "request": None, "part": UPGRADE,
        "release": None, "guarantee": None, "declaration": opening.content["declaration"],
        "closed": len(followed.releases),
    }  # fmt: skip
    database.add_entries(connection, [chained(last.hash, content)])
    return Upgraded(name, budget.words(spent), len(followed.releases))

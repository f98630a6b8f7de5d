"""Check a whole ledger: every chain, every running total against its budget, every stored release, a signed head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.base.errors import InvalidInput
from discreet.ledger import database
from discreet.ledger.chain import Followed, digest, old_words
from discreet.ledger.database import Connection

_MOST = 20  # problems of one data set that are listed


@dataclass(frozen=True)
class Report:
    """What was found: how many entries were read, the ends of the chains, and what is wrong. Empty means sound.

    Args:
        entries: How many were read.
        heads: The ends of the chains.
        problems: What is wrong; empty means sound.

    Examples:
        >>> import sqlite3
        >>> from discreet import ledger
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> ledger.verify(books).problems
        ()
    """

    entries: int
    heads: Mapping[str, tuple[int, str]]
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(connection: Connection, head: Mapping[str, Any] | None = None) -> Report:
    """Read the whole ledger and list what is wrong with it.

    Without a ``head`` (:mod:`discreet.ledger.heads`, its signature checked by the caller) nobody can see that the last
    entries are missing, or that all of them were written anew.

    Args:
        connection: That :func:`opened` gave.
        head: A signed head that was kept elsewhere.

    Examples:
        >>> import sqlite3
        >>> from discreet import ledger
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> _ = ledger.open_data_set(books, "icu", ledger.make_budget(epsilon=1.5))
        >>> ledger.verify(books).problems
        ()
    """
    declared, problems = database.data_sets(connection), list[str]()
    heads: dict[str, tuple[int, str]] = {}
    entries = 0
    expected: Mapping[str, Any] = {} if head is None else head["heads"]
    for name in sorted({*declared, *database.chains(connection), *expected}):
        if name not in declared:
            problems.append(f"data set {name!r} is not declared, or not any more")
        followed = Followed(name)
        end, seen = expected.get(name), False
        for entry in database.entries_of(connection, name):
            followed.take(entry)
            entries += 1
            seen = seen or (end is not None and (entry.number, entry.hash) == (end["number"], end["hash"]))
        if followed.old and not followed.problems:
            raise InvalidInput(old_words(name))
        found = [*followed.finished(), *release_problems(connection, followed)]
        if end is not None and not seen:
            found.append(
                f"data set {name!r}: entry {end['number']} of the signed head is not there: entries were removed or "
                "written anew after it was signed"
            )
        problems += found[:_MOST] + ([f"data set {name!r}: {len(found) - _MOST:,} more"] if len(found) > _MOST else [])
        heads[name] = followed.number, followed.hash
    return Report(entries, heads, tuple(problems))


def release_problems(connection: Connection, followed: Followed) -> list[str]:
    """Stored releases that are missing, changed, or belong to no entry."""
    name, problems = followed.data_set, []
    for number, promised in followed.releases.items():
        content = database.release_at(connection, name, number)
        if content is None or digest(content) != promised:
            what = "missing" if content is None else "changed"
            problems.append(f"data set {name!r}, entry {number}: its stored release is {what}")
    for number in database.releases_of(connection, name):
        if number not in followed.releases:
            problems.append(f"data set {name!r}: a stored release belongs to entry {number}, which has none")
    return problems

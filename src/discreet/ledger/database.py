"""Where a ledger lies: three tables in one SQLite file or in a PostgreSQL database, with one text of SQL for both.

==================  ========================================================================================
table               what a row is
==================  ========================================================================================
ledger_data_sets    the name of a data set; spenders of one data set take turns by locking its row
ledger_entries      an entry of its chain (:mod:`discreet.ledger.chain`); rows are only ever added
ledger_releases     the noisy release that an entry paid for, as bytes; the entry holds their hash
==================  ========================================================================================

**Formal guarantees.** *What is committed stays.* SQLite runs with ``synchronous=EXTRA``, which is ``FULL`` and also
syncs the folder when its journal goes: with a plain journal, ``FULL`` alone can lose the last transaction in a power
cut. PostgreSQL runs with ``synchronous_commit=on``. *Spenders take turns.* SQLite: ``BEGIN IMMEDIATE`` lets one writer
in and the others wait. PostgreSQL: ``SELECT ... FOR UPDATE`` of the data set's row; and whatever the isolation level,
the primary key (data set, number) lets one of two entries with the same number in.

Sentences about an address leave out everything but its scheme: it may hold a password.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from discreet.base.errors import InvalidInput, MissingExtra, unknown_name
from discreet.base.files import as_path, check_writable, folder_beside, name_new, note_written, shortened
from discreet.ledger.chain import Entry

_WAIT = 60  # seconds that a spender waits for others
_PAGE = 10_000  # entries that are held at a time
_ADDRESSES = ("postgresql://", "postgres://")
_MAGIC = b"SQLite format 3\0"

TABLES = (
    "CREATE TABLE IF NOT EXISTS ledger_data_sets (name TEXT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS ledger_entries (data_set TEXT NOT NULL, number BIGINT NOT NULL, request TEXT, "
    "part TEXT, body TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (data_set, number), "
    "UNIQUE (data_set, request), UNIQUE (data_set, part))",
    "CREATE TABLE IF NOT EXISTS ledger_releases (data_set TEXT NOT NULL, number BIGINT NOT NULL, "
    "content BYTEA NOT NULL, PRIMARY KEY (data_set, number))",
)
_ENTRY = "SELECT data_set, number, request, part, body, hash FROM ledger_entries WHERE data_set = ?"


class Connection(Protocol):
    """What is used of a connection of sqlite3 or psycopg 3."""

    def execute(self, query: Any, parameters: Any = ..., /) -> Any:
        """Run one statement and give a cursor over its rows."""

    def cursor(self) -> Any:
        """A cursor, for many rows at once."""


def create(connection: Connection) -> None:
    """Make the tables of a ledger where they are not there yet.

    Args:
        connection: To SQLite or PostgreSQL.

    Examples:
        >>> import sqlite3
        >>> from discreet import ledger
        >>> ledger.create(sqlite3.connect(":memory:"))
    """
    for statement in TABLES:
        connection.execute(statement)


def lock(connection: Connection, data_set: str) -> None:
    """Let one spender of a data set in at a time, until the caller's transaction ends; refused if it is not declared.

    The caller must be inside a transaction, or the lock would be gone at once.
    """
    if not _inside(connection):
        raise InvalidInput(
            "a ledger is charged inside a transaction, so that the charge and what it pays for stand or fall together: "
            "begin one first"
        )
    suffix = "" if _is_sqlite(connection) else " FOR UPDATE"
    query = _said(connection, f"SELECT name FROM ledger_data_sets WHERE name = ?{suffix}")
    if connection.execute(query, (data_set,)).fetchone() is None:
        raise _unknown(connection, data_set)


def add_data_set(connection: Connection, data_set: str) -> None:
    """The row of a new data set, which later spenders lock."""
    connection.execute(_said(connection, "INSERT INTO ledger_data_sets (name) VALUES (?)"), (data_set,))


def data_sets(connection: Connection) -> list[str]:
    """The names of all data sets, sorted."""
    return sorted(str(name) for (name,) in connection.execute("SELECT name FROM ledger_data_sets").fetchall())


def chains(connection: Connection) -> list[str]:
    """The data sets that have entries or releases, which should be the same."""
    query = "SELECT DISTINCT data_set FROM ledger_entries UNION SELECT DISTINCT data_set FROM ledger_releases"
    return sorted(str(name) for (name,) in connection.execute(query).fetchall())


def add_entries(connection: Connection, entries: Sequence[Entry]) -> None:
    """Append entries."""
    query = "INSERT INTO ledger_entries (data_set, number, request, part, body, hash) VALUES (?, ?, ?, ?, ?, ?)"
    connection.cursor().executemany(_said(connection, query), entries)


def add_release(connection: Connection, data_set: str, number: int, content: bytes) -> None:
    """Store what an entry paid for."""
    query = "INSERT INTO ledger_releases (data_set, number, content) VALUES (?, ?, ?)"
    connection.execute(_said(connection, query), (data_set, number, content))


def last_entry(connection: Connection, data_set: str) -> Entry:
    """The end of a chain; refused if there is none."""
    found = _one(connection, f"{_ENTRY} ORDER BY number DESC LIMIT 1", data_set)
    if found is None:
        raise _unknown(connection, data_set)
    return found


def entry_at(connection: Connection, data_set: str, number: int) -> Entry | None:
    """One entry of a chain."""
    return _one(connection, f"{_ENTRY} AND number = ?", data_set, number)


def entry_for(connection: Connection, data_set: str, request: str) -> Entry | None:
    """The entry that paid for a request."""
    return _one(connection, f"{_ENTRY} AND request = ?", data_set, request)


def entry_of_part(connection: Connection, data_set: str, part: str) -> Entry | None:
    """The entry of a plan, or of one of its parts."""
    return _one(connection, f"{_ENTRY} AND part = ?", data_set, part)


def entries_of(connection: Connection, data_set: str, first: int = 0) -> Iterator[Entry]:
    """A chain from its beginning, some thousands of entries at a time."""
    query = _said(connection, f"{_ENTRY} AND number >= ? ORDER BY number LIMIT {_PAGE}")
    while rows := connection.execute(query, (data_set, first)).fetchall():
        yield from (Entry(*row) for row in rows)
        if not isinstance(rows[-1][1], int):  # a damaged row, which SQLite puts last
            return
        first = rows[-1][1] + 1


def release_at(connection: Connection, data_set: str, number: int) -> bytes | None:
    """The release that an entry paid for, as bytes."""
    query = _said(connection, "SELECT content FROM ledger_releases WHERE data_set = ? AND number = ?")
    row = connection.execute(query, (data_set, number)).fetchone()
    if row is None:
        return None
    return row[0].encode() if isinstance(row[0], str) else bytes(row[0])


def releases_of(connection: Connection, data_set: str) -> list[int]:
    """The numbers of the entries that have a stored release."""
    query = _said(connection, "SELECT number FROM ledger_releases WHERE data_set = ? ORDER BY number")
    return [number for (number,) in connection.execute(query, (data_set,)).fetchall()]


class Unsure(InvalidInput):
    """The database did not say whether it has committed: look again before anything is repeated."""


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """All or nothing, of a connection that :func:`opened` gave. :class:`Unsure` if nobody knows which.

    Args:
        connection: That :func:`opened` gave.

    Examples:
        >>> import pathlib, tempfile
        >>> from discreet import ledger
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with ledger.opened(pathlib.Path(folder) / "budget.db", new=True) as books, ledger.transaction(books):
        ...         entry = ledger.open_data_set(books, "icu", ledger.make_budget(epsilon=1.5))
    """
    connection.execute("BEGIN IMMEDIATE" if _is_sqlite(connection) else "BEGIN")
    try:
        yield
    except BaseException:
        with suppress(Exception):
            connection.execute("ROLLBACK")
        raise
    try:
        done = connection.execute("COMMIT")
    except Exception:
        with suppress(Exception):
            connection.execute("ROLLBACK")
        raise Unsure("the ledger did not confirm the transaction: look whether it holds the entry") from None
    if not _is_sqlite(connection) and done.statusmessage != "COMMIT":
        raise InvalidInput("the ledger has rolled the transaction back: nothing was spent")
    note_written("an entry of the ledger")


@contextmanager
def opened(ledger: str | os.PathLike[str], *, new: bool = False) -> Iterator[Connection]:
    """A connection to a ledger by the name of its file or its address; ``new`` makes it where there is none.

    Errors of the database become one sentence.

    Args:
        ledger: A file, or an address such as ``postgresql://user@host/database``.
        new: Make it where there is none.

    Examples:
        >>> import pathlib, tempfile
        >>> from discreet import ledger
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with ledger.opened(pathlib.Path(folder) / "budget.db", new=True) as books:
        ...         ledger.verify(books).entries
        0
    """
    named = "the ledger at the PostgreSQL address" if _is_address(ledger) else f"ledger {shortened(ledger)}"
    with _opened(ledger, new, named) as connection:
        yield connection


@contextmanager
def founded(ledger: str | os.PathLike[str]) -> Iterator[Connection]:
    """As ``opened`` with ``new``, but a new file gets its name when the block has ended well; else nothing is left."""
    if _is_address(ledger) or as_path(ledger).exists():
        with opened(ledger, new=True) as connection:
            yield connection
        return
    file = check_writable(ledger)
    with folder_beside(file) as room:
        try:
            with _opened(room / file.name, True, f"ledger {shortened(file)}") as connection:
                yield connection
        except Unsure:
            raise InvalidInput(
                f"cannot write {shortened(file)}: the disk did not take it, and nothing is left"
            ) from None
        name_new(room / file.name, file)


def _is_address(ledger: str | os.PathLike[str]) -> bool:
    return isinstance(ledger, str) and ledger.startswith(_ADDRESSES)


@contextmanager
def _opened(ledger: str | os.PathLike[str], new: bool, named: str) -> Iterator[Connection]:
    try:
        connection = _postgres(str(ledger)) if _is_address(ledger) else _sqlite(ledger, new)
        try:
            if new:
                with transaction(connection):
                    create(connection)
            yield connection
        finally:
            connection.close()
    except Exception as error:
        if not isinstance(error, database_errors()):
            raise
        raise InvalidInput(f"{named} cannot be used: {reason(error)}") from None


def _sqlite(ledger: str | os.PathLike[str], new: bool) -> Any:
    file = as_path(ledger)
    if new and not file.exists():
        check_writable(file)
    elif not file.exists():
        raise InvalidInput(
            f"there is no ledger {shortened(file)}: make it with  discreet ledger open {file.name} --dataset NAME "
            "--epsilon E --delta D"
        )
    elif not _looks_right(file):
        raise InvalidInput(f"{shortened(file)} is no ledger: give the file that discreet ledger open has made")
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?mode={'rwc' if new else 'rw'}", uri=True, isolation_level=None, timeout=_WAIT
    )
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA fullfsync = ON")  # macOS: into the drive, too
    return connection


def _looks_right(file: Path) -> bool:
    """Whether a file is a SQLite database, or empty as one that is being made."""
    try:
        with open(file, "rb") as opened_file:
            return opened_file.read(len(_MAGIC)) in (_MAGIC, b"")
    except OSError as error:
        raise InvalidInput(
            f"ledger {shortened(file)} cannot be read: {error.strerror or 'the system refused'}"
        ) from None


def _postgres(address: str) -> Any:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("psycopg", "ledger") from None
    connection = psycopg.connect(address, autocommit=True, connect_timeout=_WAIT)
    connection.execute("SET synchronous_commit TO on")
    return connection


def database_errors() -> tuple[type[Exception], ...]:
    """What databases raise; SQLite also fails to decode its own message about a damaged file."""
    try:
        import psycopg
    except ImportError:
        return sqlite3.Error, UnicodeDecodeError
    return sqlite3.Error, UnicodeDecodeError, psycopg.Error


def reason(error: Exception) -> str:
    """What a database says, without what it quotes."""
    text = "malformed" if isinstance(error, UnicodeDecodeError) else str(error).lower()
    for sign, words in (
        ("locked", f"another command has held it for {_WAIT} seconds; run this one again"),
        ("no such table", "it has no tables of a ledger; make them with  discreet ledger open"),
        ("does not exist", "it has no tables of a ledger, or no such database; make them with  discreet ledger open"),
        ("readonly", "it may not be written"),
        ("full", "the disk is full"),
        ("connect", "the server cannot be reached"),
        ("not a database", "it is no SQLite file, or damaged"),
        ("malformed", "it is damaged; restore it from a copy and check that with its signed head"),
        ("duplicate key", "another command wrote the same entry at the same time; run this one again"),
        ("unique constraint", "another command wrote the same entry at the same time; run this one again"),
    ):
        if sign in text:
            return words
    return f"the database refused ({type(error).__name__})"


def _is_sqlite(connection: Connection) -> bool:
    return isinstance(connection, sqlite3.Connection)


def _inside(connection: Any) -> bool:
    """Whether the connection has a transaction open, or opens one by itself."""
    if isinstance(connection, sqlite3.Connection):
        return connection.in_transaction
    return not connection.autocommit or connection.info.transaction_status.name == "INTRANS"


def _said(connection: Connection, query: str) -> str:
    """The one text of SQL with the sign that the driver has for a parameter."""
    return query if _is_sqlite(connection) else query.replace("?", "%s")


def _one(connection: Connection, query: str, *parameters: str | int) -> Entry | None:
    row = connection.execute(_said(connection, query), parameters).fetchone()
    entry = None if row is None else Entry(*row)
    if entry is not None and not entry.well_formed:
        raise InvalidInput(f"a row of data set {entry.data_set!r} is damaged: check it with  discreet ledger verify")
    return entry


def _unknown(connection: Connection, data_set: str) -> InvalidInput:
    known = data_sets(connection)
    if not known:
        return InvalidInput("this ledger has no data set yet: declare one with  discreet ledger open")
    return unknown_name("data set of this ledger", data_set, known)

"""Where a study is kept: one SQLite file, or a PostgreSQL database, with one text of SQL for both.

==========  ==================================================================================================
table       what a row is
==========  ==================================================================================================
study       the one study of this database: hash, declaration, the recipe that was taken, how it ended; whoever
            writes anything else locks this row first
rounds      a round: its policy, its signed head, its public key, how many reports it wants, and how it closed
reports     a report: id, round, digest of the token, its *lot*: the round whose closing counts it, and its place
contents_0  what is erased of a report once it was counted: fingerprint and content by place, of lots with even numbers
contents_1  the same, of lots with odd numbers: one fills while the other one is counted and erased
intake      one row: the lot that fills, how many reports it has, how many are frozen in the lot before, the last place
states      what intake and learner remember after the last closing: public, sealed secret, learner
tokens      the digest of an invitation token and how often it was used
batches     shuffled studies: a batch: id, round, users, fingerprint, the closing that counted it, sealed messages
==========  ==================================================================================================

The ledger's own tables (:mod:`discreet.ledger.database`) lie beside them, so that a charge and what it pays for are one
transaction. SQLite runs in WAL mode with ``synchronous=FULL``, PostgreSQL with ``synchronous_commit=on``: what is
committed survives a power cut. Tables change by migrations, which are applied in order when a database is opened; a
database that a later release has changed is refused.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from discreet.base.errors import DiscreetError, InvalidInput, MissingExtra
from discreet.base.files import as_path, check_writable, shortened
from discreet.base.system import lock_at_once, unlock
from discreet.ledger import database as ledger_database
from discreet.ledger.database import Unsure as Unsure

_WAIT = 60  # seconds that a writer waits for others
_CONNECT = 5  # seconds until PostgreSQL has to answer
_STATEMENT, _LOCK = 60_000, 30_000  # milliseconds that it may take for a statement, and until a lock is free
_PLACE = "place BIGINT PRIMARY KEY"  # SQLite keeps rows in the order of a key of the type INTEGER
_CLOSING = 64205110 << 32  # what the lock of whoever closes a round begins with
_BRIEFLY = 200  # milliseconds that emptying the write-ahead log waits
_PAUSE = 0.0005  # between two looks
_ADDRESSES = ("postgresql://", "postgres://")

# One without statements stands for a version that was never released.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE study (one INTEGER PRIMARY KEY CHECK (one = 1), hash TEXT NOT NULL, declaration TEXT NOT NULL, "
        "recipe TEXT NOT NULL, opened TEXT NOT NULL, ended TEXT)",
        "CREATE TABLE rounds (number BIGINT PRIMARY KEY, policy TEXT NOT NULL, head TEXT NOT NULL, public_key BYTEA, "
        "wanted BIGINT NOT NULL, served BIGINT NOT NULL, opened TEXT NOT NULL, closed TEXT, how TEXT)",
        "CREATE TABLE reports (id TEXT PRIMARY KEY, round BIGINT NOT NULL, fingerprint TEXT NOT NULL, token TEXT, "
        "counted BIGINT, content BYTEA)",
        "CREATE INDEX reports_waiting ON reports (round) WHERE counted IS NULL",
        "CREATE UNIQUE INDEX reports_once ON reports (token, round) WHERE token IS NOT NULL",
        "CREATE TABLE states (round BIGINT PRIMARY KEY, public BYTEA NOT NULL, sealed BYTEA, learner BYTEA NOT NULL)",
        "CREATE TABLE tokens (digest TEXT PRIMARY KEY, used BIGINT NOT NULL)",
    ),
    (
        "CREATE TABLE batches (id TEXT PRIMARY KEY, round BIGINT NOT NULL, users BIGINT NOT NULL, "
        "fingerprint TEXT NOT NULL, counted BIGINT, content BYTEA)",
    ),
    (),
    (
        *(f"CREATE TABLE contents_{parity} ({_PLACE}, round BIGINT NOT NULL, fingerprint TEXT NOT NULL, "
          "content BYTEA NOT NULL)" for parity in (0, 1)),
        "CREATE TABLE intake (one INTEGER PRIMARY KEY CHECK (one = 1), lot BIGINT NOT NULL, reports BIGINT NOT NULL, "
        "frozen BIGINT NOT NULL, placed BIGINT NOT NULL)",
        "INSERT INTO intake SELECT 1, coalesce(max(number), 1), (SELECT count(*) FROM reports WHERE counted IS NULL)"
        " + (SELECT coalesce(sum(users), 0) FROM batches WHERE counted IS NULL), 0, "
        "(SELECT count(*) FROM reports WHERE counted IS NULL) FROM rounds",
        # A table of its own, because PostgreSQL leaves what a column held in the file when the column goes.
        "CREATE TABLE taken (id TEXT PRIMARY KEY, round BIGINT NOT NULL, token TEXT, lot BIGINT NOT NULL, "
        "place BIGINT)",
        "INSERT INTO taken SELECT id, round, token, counted, NULL FROM reports WHERE counted IS NOT NULL",
        "INSERT INTO taken SELECT id, round, token, (SELECT lot FROM intake), row_number() OVER (ORDER BY id) "
        "FROM reports WHERE counted IS NULL",
        *(f"INSERT INTO contents_{parity} SELECT t.place, r.round, r.fingerprint, r.content FROM reports r JOIN "
          f"taken t ON t.id = r.id WHERE r.counted IS NULL AND ((SELECT lot FROM intake) & 1) = {parity} "
          "ORDER BY t.place" for parity in (0, 1)),
        "DROP TABLE reports",
        "ALTER TABLE taken RENAME TO reports",
        "CREATE UNIQUE INDEX reports_once ON reports (token, round) WHERE token IS NOT NULL",
    ),
)  # fmt: skip


class Turn:
    """Where writers queue: threads of one process, and with SQLite processes, too, by the lock of a file.

    SQLite itself lets a process that waits look again after ever longer pauses, up to a tenth of a second, in which
    nobody writes. Where the file cannot be locked, that is what is left.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._lock, self._file = threading.Lock(), file
        self._opened: IO[bytes] | None = None

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._file is None:
            return
        try:
            with suppress(OSError):
                self._wait(self._file)
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *_error: object) -> None:
        if self._opened is not None:
            with suppress(OSError):
                unlock(self._opened.fileno())
        self._lock.release()

    def _wait(self, file: Path) -> None:
        if self._opened is None:
            self._opened = open(file, "ab", opener=_for_the_owner)  # noqa: SIM115
        until = time.monotonic() + _WAIT
        while time.monotonic() < until:
            try:
                lock_at_once(self._opened.fileno())
            except BlockingIOError:
                time.sleep(_PAUSE)
            else:
                return


class Link:
    """One connection, with SQL as both databases take it. Not for several threads at once."""

    def __init__(self, raw: Any, turn: AbstractContextManager[None] | None = None) -> None:
        self.raw, self._turn = raw, turn or Turn()
        self.sqlite = isinstance(raw, sqlite3.Connection)

    def said(self, query: str) -> str:
        """The query with the sign that the driver has for a parameter."""
        return query if self.sqlite else query.replace("?", "%s")

    def run(self, query: str, *values: Any) -> Any:
        """Run one statement; gives the cursor."""
        return self.raw.execute(self.said(query), values)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return list(self.run(query, *values).fetchall())

    def row(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of a query."""
        found: tuple[Any, ...] | None = self.run(query, *values).fetchone()
        return found

    def many(self, query: str, values: Iterable[Sequence[Any]]) -> None:
        """Run one statement for many rows."""
        self.raw.cursor().executemany(self.said(query), list(values))

    def among(self, query: str, values: Collection[str | int]) -> list[tuple[Any, ...]]:
        """All rows of a query in which ``{}`` stands for being one of these values."""
        if not values:
            return []
        if self.sqlite:
            return self.rows(query.format("IN (SELECT value FROM json_each(?))"), json.dumps(list(values)))
        return self.rows(query.format("= ANY(?)"), list(values))

    def enter(self, table: str, columns: Sequence[str], values: Sequence[Sequence[Any]]) -> None:
        """Enter many rows: PostgreSQL takes them in one stream."""
        if not values:
            return
        names = ", ".join(columns)
        if self.sqlite:
            self.many(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})", values)
            return
        with self.raw.cursor() as cursor, cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            for row in values:
                copy.write_row(row)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that is alone: whoever else writes waits. :class:`Unsure` if nobody knows whether it holds."""
        with self._turn, ledger_database.transaction(self.raw):
            if not self.sqlite:
                self.run("SELECT one FROM study FOR UPDATE")
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction that sees the database as it is at one moment."""
        self.raw.execute("BEGIN" if self.sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            with suppress(Exception):
                self.raw.execute("ROLLBACK")

    def forget(self) -> None:
        """Empty the write-ahead log of SQLite, which holds rows as they were before they were overwritten.

        If somebody reads an older state just now, the next call does it.
        """
        if not self.sqlite:
            return
        (usual,) = self.rows("PRAGMA busy_timeout")[0]
        self.run(f"PRAGMA busy_timeout = {min(usual, _BRIEFLY)}")
        with suppress(sqlite3.OperationalError):
            self.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        self.run(f"PRAGMA busy_timeout = {usual}")

    def close(self) -> None:
        """Give the connection back."""
        with suppress(Exception):
            self.raw.close()


class Database:
    """A database by its address; makes connections and brings the tables up to date."""

    def __init__(
        self, address: str | os.PathLike[str], migrations: Sequence[Sequence[str]] = MIGRATIONS, name: str = "study"
    ) -> None:
        self.address, self._migrations, self._name = address, migrations, name
        self.postgres = isinstance(address, str) and address.startswith(_ADDRESSES)
        self._turn = Turn(None if self.postgres else Path(f"{os.fspath(address)}-turn"))

    @property
    def named(self) -> str:
        """How messages call it; an address may hold a password and is not shown."""
        return "the PostgreSQL database" if self.postgres else f"database {shortened(self.address)}"

    def connect(self) -> Link:
        """A new connection; errors become one sentence."""
        with self.plainly():
            return Link(_postgres(str(self.address)) if self.postgres else self._sqlite(), self._turn)

    def check_exists(self) -> None:
        """Refuse a file that is not there, where the study must have been opened already."""
        if not self.postgres and not as_path(self.address).exists():
            raise InvalidInput(f"{self.named} is not there: bring it back, or open the study with  discreet serve")

    def prepare(self) -> None:
        """Make the tables, or bring them up to date."""
        link = self.connect()
        try:
            with self.plainly(), ledger_database.transaction(link.raw):
                if not link.sqlite:
                    link.run("SELECT pg_advisory_xact_lock(64205110)")  # several workers start at once
                schema = f"{self._name}_schema"
                link.run(f"CREATE TABLE IF NOT EXISTS {schema} (version BIGINT NOT NULL)")
                row = link.row(f"SELECT version FROM {schema}")
                version = 0 if row is None else int(row[0])
                if version > len(self._migrations):
                    raise InvalidInput(f"{self.named} was changed by a later release: serve it with that one")
                if version and not self._migrations[version - 1]:
                    raise InvalidInput(f"{self.named} is of a version that was never released: serve it with that one")
                for statements in self._migrations[version:]:
                    for statement in statements:
                        link.run(statement.replace(_PLACE, "place INTEGER PRIMARY KEY") if link.sqlite else statement)
                ledger_database.create(link.raw)
                link.run(f"DELETE FROM {schema}")
                link.run(f"INSERT INTO {schema} (version) VALUES (?)", len(self._migrations))
        finally:
            link.close()

    @contextmanager
    def alone(self, link: Link) -> Iterator[bool]:
        """Whether nobody else closes a round of this study just now; whoever dies lets others go on.

        Nothing false happens without it: two could count the same reports, and one of the two releases is discarded.
        """
        key = f"{_CLOSING} + 'study'::regclass::oid::bigint"
        handle = _for_the_owner(f"{os.fspath(self.address)}-closing") if link.sqlite else -1
        try:
            if link.sqlite:
                try:
                    lock_at_once(handle)
                    free = True
                except OSError as error:
                    free = not isinstance(error, BlockingIOError)  # where files cannot be locked everybody may
            else:
                ((free,),) = link.rows(f"SELECT pg_try_advisory_lock({key})")
            yield free
        finally:
            if link.sqlite:
                os.close(handle)
            else:
                with suppress(Exception):
                    link.run(f"SELECT pg_advisory_unlock({key})")

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """Errors of the database become one sentence, without what they quote."""
        try:
            yield
        except database_errors() as error:
            raise InvalidInput(f"{self.named} cannot be used: {ledger_database.reason(error)}") from None

    def _sqlite(self) -> Any:
        file = as_path(self.address)
        if not file.exists():
            os.close(_for_the_owner(check_writable(file)))  # what SQLite puts beside it gets the same mode
        raw = sqlite3.connect(file, isolation_level=None, timeout=_WAIT, check_same_thread=False)
        _write_ahead(raw)
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("PRAGMA fullfsync = ON")  # macOS: into the drive, too
        raw.execute("PRAGMA temp_store = MEMORY")  # nothing of a report goes to a file that nobody erases
        raw.execute("PRAGMA secure_delete = ON")  # what is overwritten or removed leaves no bytes in the file
        return raw


class Held:
    """One connection that threads take turns with; dropped when it fails, made anew when it is wanted."""

    def __init__(self, database: Database) -> None:
        self._database, self._lock = database, threading.RLock()
        self._link: Link | None = None
        self._depth = 0

    def __enter__(self) -> Link:
        self._lock.acquire()
        try:
            if self._link is None:
                self._link = self._database.connect()
            self._depth += 1
            return self._link
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._depth -= 1
        keeps = error is None or (isinstance(error, DiscreetError) and not isinstance(error, Unsure))
        if not keeps and self._depth == 0:
            self.close()
        self._lock.release()

    def close(self) -> None:
        """Drop the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None


def _for_the_owner(file: str | Path, flags: int = os.O_RDWR) -> int:
    """Open a file that nobody else may read or lock, whatever the umask is."""
    return os.open(file, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _write_ahead(raw: sqlite3.Connection) -> None:
    """Turn on the write-ahead log. SQLite does not wait by itself while another process does the same."""
    until = time.monotonic() + _WAIT
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)


def _postgres(address: str) -> Any:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("psycopg", "serve") from None
    raw = psycopg.connect(address, autocommit=True, connect_timeout=_CONNECT)
    # Rows are looked up by their keys. A plan that was made while the table was small would read all of it later on.
    plans = "SET enable_seqscan TO off; SET plan_cache_mode TO force_custom_plan; SET jit TO off"
    limits = f"SET statement_timeout TO {_STATEMENT}; SET lock_timeout TO {_LOCK}"
    raw.execute(f"SET synchronous_commit TO on; {limits}; {plans}")
    return raw


def database_errors() -> tuple[type[Exception], ...]:
    """What databases raise."""
    return ledger_database.database_errors()


def storing_errors() -> tuple[type[Exception], ...]:
    """What may go wrong when something is stored, when the database says for sure that it was not."""
    return (InvalidInput, *database_errors())


Point = Callable[[str], None]


def no_fault(name: str) -> None:
    """The usual point: nothing happens there."""

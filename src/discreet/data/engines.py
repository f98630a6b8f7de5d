"""Where a table lies and who counts it: DuckDB for files and databases, any ibis backend for a warehouse.

Errors of engines quote the cells that upset them. They never leave this module: an error here names the source and what
to look at, and carries no trace of the one that caused it.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from discreet.data.query import load_ibis
from discreet.errors import DiscreetError, InvalidInput, MissingExtra
from discreet.types import NDArray

_NAME = "trajectories"
_PARQUET, _TEXT, _DATABASE = (".parquet", ".pq"), (".csv", ".tsv", ".csv.gz"), (".duckdb", ".ddb", ".db")
_MEMORY = "1GB"  # what the engine may hold; beyond it works on disk, in a private folder that is removed

Result = TypeVar("Result")
Query = Callable[[Any], Any]


class Source(Protocol):
    """A table that can be queried and never shows a row."""

    @property
    def name(self) -> str:
        """The name of the source in error messages."""

    def columns(self) -> Mapping[str, str]:
        """Names and types of the columns."""

    def run(self, query: Query) -> dict[str, NDArray[Any]]:
        """The columns of the result of a query, given as a function from an ibis table to an ibis expression."""


@dataclass(frozen=True)
class DuckDBSource:
    """Files or a database table, counted by DuckDB in this process."""

    name: str
    relation: str
    database: str | None = None

    def columns(self) -> Mapping[str, str]:
        """Names and DuckDB types of the columns, from a DESCRIBE of the source."""
        with self._connection() as connection:
            return dict(self._described(connection))

    def run(self, query: Query) -> dict[str, NDArray[Any]]:
        """Translate the query to SQL, run it in a fresh in-process connection, and return plain columns."""
        ibis = load_ibis()
        from ibis.backends.sql.datatypes import DuckDBType

        with self._connection() as connection:
            schema = {name: DuckDBType.from_string(kind) for name, kind in self._described(connection)}
            expression = query(ibis.table(schema, name=_NAME))
            text = str(ibis.to_sql(expression, dialect="duckdb"))
            return quietly(self.name, lambda: _plain(connection.execute(text).fetchnumpy()))

    def _described(self, connection: Any) -> list[tuple[str, str]]:
        rows = quietly(self.name, lambda: connection.execute(f"DESCRIBE {_NAME}").fetchall())
        return [(row[0], row[1]) for row in rows]

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        duckdb = load_duckdb()
        folder = tempfile.mkdtemp(prefix="discreet-")  # readable by its owner alone
        connection = quietly(self.name, duckdb.connect)
        try:
            connection.execute(f"SET temp_directory = {quoted(folder)}")
            connection.execute(f"SET memory_limit = '{_MEMORY}'")
            connection.execute("SET preserve_insertion_order = false")
            if self.database is not None:
                quietly(self.name, lambda: connection.execute(f"ATTACH {quoted(self.database or '')} AS d (READ_ONLY)"))
            quietly(self.name, lambda: connection.execute(f"CREATE TEMP VIEW {_NAME} AS FROM {self.relation}"))
            yield connection
        finally:
            connection.close()
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class IbisSource:
    """A table of any ibis backend: Spark, a warehouse, a database server. The counting happens there."""

    name: str
    table: Any

    def columns(self) -> Mapping[str, str]:
        """Names and ibis types of the columns, from the schema of the table."""
        return {name: str(kind) for name, kind in quietly(self.name, self.table.schema).items()}

    def run(self, query: Query) -> dict[str, NDArray[Any]]:
        """Let the backend run the query and fetch its result; Spark workers are kept from logging rows."""
        expression = query(self.table)
        with _silent_workers(self.table):
            frame = quietly(self.name, expression.to_pandas)
        return {name: frame[name].to_numpy() for name in frame.columns}


@contextmanager
def _silent_workers(table: Any) -> Iterator[None]:
    """Keep Spark workers from logging the rows that they fail on while a query runs."""
    context = None
    try:
        session = getattr(table.get_backend(), "_session", None)
        context = getattr(session, "sparkContext", None)
    except Exception:
        context = None  # not Spark, or a cluster whose console is elsewhere
    if context is not None:
        context.setLogLevel("OFF")
    try:
        yield
    finally:
        if context is not None:
            context.setLogLevel("WARN")


def open_source(source: Any, table: str | None = None) -> Source:
    """Find out what a source is: a file, a folder, a database, the address of a warehouse, an ibis table."""
    if not isinstance(source, str | Path):
        if hasattr(source, "schema") and hasattr(source, "group_by"):
            return IbisSource("the table", source)
        raise InvalidInput(f"a source is a path, an address or an ibis table, got {type(source).__name__}")
    if isinstance(source, str) and "://" in source:
        if table is None:
            raise InvalidInput("a warehouse has many tables: give table=")
        address, ibis = source, load_ibis()
        kind = address.split("://", 1)[0]
        return IbisSource(f"table {table!r} of {kind}", quietly(kind, lambda: ibis.connect(address).table(table)))
    path = Path(source)
    if not path.exists():
        raise InvalidInput(f"there is no file or folder {str(path)!r}")
    if path.suffix in _DATABASE:
        return _database(path, table)
    if table is not None:
        raise InvalidInput(f"table= is for databases, and {path.name!r} is none")
    return DuckDBSource(repr(str(path)), _files(path))


def check_columns(source: Source, names: tuple[str, ...]) -> None:
    """Refuse a table that lacks a declared column."""
    present = source.columns()
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"a column is named by text, got a {type(name).__name__}")
        if name not in present:
            raise InvalidInput(f"{source.name} has no column {name!r}; it has {', '.join(present)}")


def quietly(name: str, work: Callable[[], Result]) -> Result:
    """Call an engine; if it fails, raise an error without its message, which may quote the data."""
    try:
        with _nothing_said():
            return work()
    except DiscreetError:
        raise
    except Exception:
        pass
    # Raised outside of the handler, so that the engine's own error is not even its context.
    raise InvalidInput(
        f"{name} cannot be read: it is damaged, truncated, not what its name says, or its columns have other types"
    )


@contextmanager
def _nothing_said() -> Iterator[None]:
    """No warnings and no log records: Spark's bridge puts the cell that it failed on into both."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def load_duckdb() -> Any:
    """The duckdb package."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("duckdb", "data") from None
    return duckdb


def quoted(text: str) -> str:
    """Text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _files(path: Path) -> str:
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if _kind(file) is not None)
        if not files:
            raise InvalidInput(f"folder {str(path)!r} holds no .parquet or .csv files")
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1 or None in kinds:
        raise InvalidInput(f"{str(path)!r} must hold .parquet files or .csv files, and one kind only")
    paths = "[" + ", ".join(quoted(str(file)) for file in files) + "]"
    if kinds == {"parquet"}:
        return f"read_parquet({paths})"
    # Types are not guessed from the content: everything is text until the query turns it into numbers, or not.
    return f"read_csv({paths}, header = true, all_varchar = true, ignore_errors = true, null_padding = true)"


def _kind(file: Path) -> str | None:
    name = file.name.lower()
    if name.startswith((".", "_")):
        return None
    return "parquet" if name.endswith(_PARQUET) else "csv" if name.endswith(_TEXT) else None


def _database(path: Path, table: str | None) -> DuckDBSource:
    if table is None:
        raise InvalidInput(f"database {path.name!r} needs table=, the name of the table of trajectories")
    name = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
    return DuckDBSource(f"table {table!r} of {path.name!r}", f"d.{name}", str(path))


def _plain(columns: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    return {name: np.ma.filled(column, 0) for name, column in columns.items()}

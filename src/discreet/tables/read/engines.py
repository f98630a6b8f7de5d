"""Where a table lies and who counts it: this process for files, frames and databases, any ibis backend for a warehouse.

Errors of engines quote the cells that upset them. They never leave this module: an error here names the source and what
to look at, and carries no trace of the one that caused it.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.base.errors import DiscreetError, InvalidInput, MissingExtra
from discreet.base.types import NDArray

if TYPE_CHECKING:
    from discreet.tables.read.csv_dialect import Csv
    from discreet.tables.read.in_process import DataFile, LocalSource

_PARQUET, _TEXT, _DATABASE = (".parquet", ".pq"), (".csv", ".tsv", ".csv.gz", ".tsv.gz"), (".duckdb", ".ddb", ".db")

Result = TypeVar("Result")
Query = Callable[[Any], Any]


@dataclass(frozen=True)
class IbisSource:
    """A table of any ibis backend: Spark, a warehouse, a database server. The counting happens there."""

    name: str
    table: Any

    def columns(self) -> Mapping[str, Any]:
        """Names and ibis types of the columns, from the schema of the table."""
        return dict(quietly(self.name, self.table.schema).items())

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


def open_source(
    source: Any, names: tuple[str, ...], *, table: str | None, csv: Csv, partitions: tuple[str, ...]
) -> IbisSource | LocalSource:
    """Find out what a source is: a file, a folder, a database, the address of a warehouse, a table in memory."""
    load_arrow()
    if isinstance(source, str | Path):
        return _named(source, table, csv, partitions)
    ibis = sys.modules.get("ibis")  # who holds a table of it has imported it
    if ibis is not None and isinstance(source, ibis.expr.types.Table):
        return IbisSource("the table", source)
    from discreet.tables.read.dataframes import frame_of

    frame = quietly("the table", lambda: frame_of(source, names))
    if frame is None:
        raise InvalidInput(
            f"a source is a path, an address, or a table of pandas, polars, Arrow or ibis, got {type(source).__name__}"
        )
    return frame


def _named(source: str | Path, table: str | None, csv: Csv, partitions: tuple[str, ...]) -> IbisSource | LocalSource:
    from discreet.tables.read.in_process import CsvFiles, DatabaseTable, ParquetFiles

    if isinstance(source, str) and "://" in source:
        if table is None:
            raise InvalidInput("a warehouse has many tables: give table=")
        address, ibis = source, load_ibis()
        kind = address.split("://", 1)[0]
        return IbisSource(f"table {table!r} of {kind}", quietly(kind, lambda: ibis.connect(address).table(table)))
    path = Path(source)
    if not _exists(path):
        raise InvalidInput(f"there is no file or folder {str(path)!r}")
    if path.suffix in _DATABASE:
        if table is None:
            raise InvalidInput(f"database {path.name!r} needs table=, the name of the table of trajectories")
        return DatabaseTable(f"table {table!r} of {path.name!r}", path, table)
    if table is not None:
        raise InvalidInput(f"table= is for databases, and {path.name!r} is none")
    kind, files = _files(path, partitions)
    for each in files:
        if not os.access(each.path, os.R_OK):
            raise InvalidInput(f"{str(each.path)!r} cannot be read: no permission to read it")
    return ParquetFiles(repr(str(path)), files) if kind == "parquet" else CsvFiles(repr(str(path)), files, csv)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that no file can have
        return False


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


def load_ibis() -> Any:
    """The ibis package, which writes the query for every warehouse."""
    try:
        import ibis
    except ImportError:
        raise MissingExtra("ibis-framework", "data") from None
    return ibis


def load_arrow() -> Any:
    """The pyarrow package, in whose columns rows travel."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtra("pyarrow", "data") from None
    return pyarrow


def arrow_reader(relation: Any, rows: int) -> Any:
    """The result of DuckDB as a stream of Arrow, so many rows at a time."""
    try:
        return relation.to_arrow_reader(rows)
    except AttributeError:  # its name before DuckDB 1.4
        return relation.fetch_arrow_reader(rows)


def in_memory() -> Any:
    """A connection of DuckDB that never writes to disk, nor to the terminal."""
    connection = load_duckdb().connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET temp_directory = ''")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@contextmanager
def opened_database(path: Path, table: str) -> Iterator[tuple[Any, str]]:
    """A DuckDB file, opened for reading, and the full name of a table in it."""
    name = f"table {table!r} of {path.name!r}"
    connection = in_memory()
    try:
        quietly(name, lambda: connection.execute(f"ATTACH '{_escaped(str(path))}' AS d (READ_ONLY)"))
        query = (
            "SELECT schema_name, name FROM (SELECT database_name, schema_name, table_name AS name FROM duckdb_tables() "
            "UNION ALL SELECT database_name, schema_name, view_name FROM duckdb_views()) WHERE database_name = 'd'"
        )
        tables = quietly(name, lambda: connection.execute(query).fetchall())
        matching = [(schema, each) for schema, each in tables if table in (each, f"{schema}.{each}")]
        if len(matching) != 1:
            raise InvalidInput(
                f"database {path.name!r} has {'several tables' if matching else 'no table'} {table!r}"
                + (": give table='schema.name'" if matching else "")
            )
        yield connection, "d." + ".".join('"' + part.replace('"', '""') + '"' for part in matching[0])
    finally:
        connection.close()


def _escaped(text: str) -> str:
    return text.replace("'", "''")


def _files(path: Path, partitions: tuple[str, ...]) -> tuple[str, tuple[DataFile, ...]]:
    from discreet.tables.read.in_process import DataFile, folder_columns

    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if _kind(file) is not None and file.is_file())
        if not files:
            raise InvalidInput(f"folder {str(path)!r} holds no .parquet or .csv files")
    kinds = {_kind(file) for file in files}
    kind = kinds.pop()
    if kinds or kind is None:
        raise InvalidInput(f"{str(path)!r} must hold .parquet files or .csv files, and one kind only")
    below = path if path.is_dir() else path.parent
    return kind, tuple(DataFile(file, folder_columns(file, below, partitions)) for file in files)


def _kind(file: Path) -> str | None:
    name = file.name.lower()
    if name.startswith((".", "_")):
        return None
    return "parquet" if name.endswith(_PARQUET) else "csv" if name.endswith(_TEXT) else None

"""Tables that are counted in this process: files of Parquet and CSV, frames, tables of a DuckDB database.

Each hands out batches of declared columns and nothing else. Files are opened by their names as they are, so no
character in a name is a pattern, and names of folders are columns only where that is declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.tables.read.arrow_values import plain_type
from discreet.tables.read.csv_dialect import Csv
from discreet.tables.read.csv_records import CsvFile, Fields
from discreet.tables.read.engines import arrow_reader, opened_database

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 2**17
_LEAST_BYTES = 16  # of a row of CSV, roughly: five columns and what separates them
_NOTHING = "__HIVE_DEFAULT_PARTITION__"

Types = Mapping[str, "pa.DataType"]


class LocalSource(Protocol):
    """A table whose rows this process can go through, several times."""

    @property
    def name(self) -> str:
        """The name of the source in error messages."""

    @property
    def encoding(self) -> str:
        """How labels are written as bytes in columns of text."""

    def types(self, names: tuple[str, ...]) -> Types:
        """The types of those of these columns that the table has, from its schema alone."""

    def listing(self) -> str:
        """The columns for an error message, empty where their names could be content."""

    def batches(self, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """All rows, these columns only."""

    def most_rows(self) -> int:
        """About how many rows there are at most, from the size of the source: it decides the number of passes."""


@dataclass(frozen=True)
class DataFile:
    """One file of a table, and the columns that the names of its folders stand for."""

    path: Path
    folders: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files with the same columns."""

    name: str
    files: tuple[DataFile, ...]
    encoding: str = "utf-8"

    def types(self, names: tuple[str, ...]) -> Types:
        """The types of the columns, which must be the same in all files."""
        return _same_types([(file, self._schema(file, names)) for file in self.files], names)

    def listing(self) -> str:
        """The columns of the first file."""
        return ", ".join([*_parquet(self.files[0].path).schema_arrow.names, *self.files[0].folders])

    def batches(self, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """All rows, file by file."""
        for file in self.files:
            own = [name for name in names if name not in file.folders]
            for batch in _parquet(file.path).iter_batches(batch_size=_BATCH, columns=own):
                yield _with_folders({name: batch.column(name) for name in own}, file, names, batch.num_rows)

    def most_rows(self) -> int:
        """The rows that the files say they have."""
        return sum(int(_parquet(file.path).metadata.num_rows) for file in self.files)

    def _schema(self, file: DataFile, names: tuple[str, ...]) -> Types:
        schema = _parquet(file.path).schema_arrow
        for name in names:
            if len(schema.get_all_field_indices(name)) > 1:
                raise InvalidInput(f"{self.name} has more than one column {name!r}")
        return {name: schema.field(name).type for name in names if name in schema.names}


@dataclass(frozen=True)
class CsvFiles:
    """CSV files of one form; their columns may stand in any order."""

    name: str
    files: tuple[DataFile, ...]
    csv: Csv

    @property
    def encoding(self) -> str:
        """The declared encoding."""
        return self.csv.encoding

    def types(self, names: tuple[str, ...]) -> Types:
        """Every column is text until its domain says what it means."""
        import pyarrow as pa

        found: list[tuple[DataFile, Types]] = []
        for file in self.files:
            header = CsvFile(file.path, self.csv).names()
            for name in names:
                if header.count(name) > 1:
                    raise InvalidInput(f"{str(file.path)!r} has more than one column {name!r}")
            found.append((file, {name: pa.binary() for name in names if name in header}))
        return _same_types(found, names)

    def listing(self) -> str:
        """Nothing: the first line of a file without a header is somebody's record."""
        return ""

    def batches(self, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """All records that can be read, file by file."""
        for file in self.files:
            own = tuple(name for name in names if name not in file.folders)
            for fields in CsvFile(file.path, self.csv).fields(own):
                if fields.rows > 0:
                    yield _with_folders(_text(own, fields), file, names, fields.rows)

    def most_rows(self) -> int:
        """By the size of the files; compressed ones are taken to be ten times as large."""
        sizes = (file.path.stat().st_size * (10 if file.path.suffix == ".gz" else 1) for file in self.files)
        return sum(sizes) // _LEAST_BYTES

    def unreadable(self) -> tuple[int, int]:
        """For the owner alone: records that are dropped, and records of several lines."""
        every = [fields for file in self.files for fields in CsvFile(file.path, self.csv).fields(())]
        return sum(fields.dropped for fields in every), sum(fields.several_lines for fields in every)


@dataclass(frozen=True, repr=False)
class Frame:
    """A table in memory."""

    table: pa.Table
    name: str = "the table"
    encoding: str = "utf-8"

    def types(self, names: tuple[str, ...]) -> Types:
        """The types of the columns."""
        schema = self.table.schema
        for name in names:
            if len(schema.get_all_field_indices(name)) > 1:
                raise InvalidInput(f"{self.name} has more than one column {name!r}")
        return {name: schema.field(name).type for name in names if name in schema.names}

    def listing(self) -> str:
        """The columns that were asked for and are there: names of others may be somebody's record."""
        return "only " + (", ".join(self.table.column_names) or "none") + " of those that were declared"

    def batches(self, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The rows, in pieces."""
        yield from self.table.select(list(names)).to_batches(max_chunksize=_BATCH)

    def most_rows(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        return "<Frame, contents not shown>"


@dataclass(frozen=True)
class DatabaseTable:
    """A table of a DuckDB file, which is opened for reading only."""

    name: str
    path: Path
    table: str

    encoding: str = "utf-8"

    def types(self, names: tuple[str, ...]) -> Types:
        """The types of the columns."""
        with self._opened() as (connection, relation):
            schema = arrow_reader(connection.sql(f"FROM {relation} LIMIT 0"), 1).schema
            return {name: schema.field(name).type for name in names if name in schema.names}

    def listing(self) -> str:
        """The columns."""
        with self._opened() as (connection, relation):
            return ", ".join(connection.sql(f"FROM {relation} LIMIT 0").columns)

    def batches(self, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """All rows, as the database streams them."""
        with self._opened() as (connection, relation):
            query = f"SELECT {', '.join(_identifier(name) for name in names)} FROM {relation}"
            yield from arrow_reader(connection.sql(query), _BATCH)

    def most_rows(self) -> int:
        """How many rows the database says there are."""
        with self._opened() as (connection, relation):
            (row,) = connection.execute(f"SELECT count(*) FROM {relation}").fetchall()
            return int(row[0])

    def _opened(self) -> Any:
        return opened_database(self.path, self.table)


def _parquet(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    return ParquetFile(pa.OSFile(str(path)))


def _text(names: tuple[str, ...], fields: Fields) -> dict[str, Any]:
    """Fields as columns of bytes; an empty one is missing."""
    import pyarrow as pa

    columns = {}
    for name, content, offsets in zip(names, fields.bytes, fields.offsets, strict=True):
        there = np.packbits(np.diff(offsets) > 0, bitorder="little")
        buffers = [pa.py_buffer(there), pa.py_buffer(offsets), pa.py_buffer(content)]
        columns[name] = pa.Array.from_buffers(pa.binary(), fields.rows, buffers)
    return columns


def _with_folders(own: dict[str, Any], file: DataFile, names: tuple[str, ...], rows: int) -> Any:
    import pyarrow as pa

    given = {name: pa.repeat(pa.scalar(_coded(value), pa.binary()), rows) for name, value in file.folders.items()}
    every = own | given
    return pa.RecordBatch.from_arrays([every[name] for name in names], names=list(names))


def _coded(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _same_types(found: list[tuple[DataFile, Types]], names: tuple[str, ...]) -> Types:
    """The types of the first file, if the others have the same: kinds for values, and exactly for what is an id."""
    import pyarrow as pa

    first: dict[str, pa.DataType] = {}
    for number, (file, types) in enumerate(found):
        for name in file.folders:
            if name in types:
                raise InvalidInput(
                    f"{str(file.path)!r} has a column {name!r} of its own: do not declare it as a folder"
                )
        here = dict(types) | {name: pa.binary() for name in file.folders if name in names}
        first = here if number == 0 else first
        for name in names:
            if (name in here) != (name in first):
                raise InvalidInput(
                    f"column {name!r} is not in all files: {str(file.path)!r} differs from the first one"
                )
            if name in here and plain_type(here[name]) != plain_type(first[name]):
                raise InvalidInput(
                    f"column {name!r} has another type in {str(file.path)!r} ({here[name]}) than in the first file "
                    f"({first[name]}): write them alike"
                )
    return first


def folder_columns(path: Path, below: Path, declared: tuple[str, ...]) -> Mapping[str, str | None]:
    """The declared columns that stand in names of folders such as ``site=3``."""
    pairs = dict(part.split("=", 1) for part in path.relative_to(below).parts[:-1] if "=" in part)
    for name in declared:
        if name not in pairs:
            raise InvalidInput(f"{str(path)!r} is not in a folder {name}=...: leave it out of partitions=")
    return {name: None if pairs[name] == _NOTHING else unquote(pairs[name]) or None for name in declared}


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

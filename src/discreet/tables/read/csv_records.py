"""Records of CSV files: a compiled state machine that cuts bytes by the rules of
:mod:`discreet.tables.read.csv_dialect`.

It reads blocks, keeps the bytes of declared columns and lets go of the rest, so memory does not follow the file.
Nothing that stands in a cell stops it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput
from discreet.base.types import Integers, NDArray
from discreet.tables.read.csv_dialect import Csv

_BLOCK = 2**22
_LONGEST = 2**26  # bytes of a record; a longer one is dropped
_ROWS = 2**16  # records at a time
_MOST_COLUMNS = 2**14
_FEED, _RETURN = 10, 13
_SHORT = 32  # bytes of a field
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Bytes = NDArray[np.uint8]


class Form(NamedTuple):
    """What the state machine needs to know; -1 stands for no quote and no escape."""

    delimiter: int
    quote: int
    escape: int
    line_breaks: bool


class Found(NamedTuple):
    """Where the declared fields of some records are: (records, columns)."""

    starts: Integers
    ends: Integers
    escaped: NDArray[np.bool_]  # whether a field holds escapes that have to be taken out
    tally: Integers  # records found, dropped, of several lines; fields of the last one


@kernel
def _split(data: Bytes, start: int, size: int, last: bool, form: Form, slots: Integers, fields: int, out: Found) -> int:
    """Cut whole records; the place of the first that is not whole. Negative ``fields`` takes any number of them."""
    delimiter, quote, escape, line_breaks = form
    rows, dropped, several = 0, 0, 0
    position = start
    while position < size and rows < len(out.starts):
        i, field, bad, whole, lines = position, 0, False, False, 0
        while True:
            first, end, escaped = i, i, False
            if i < size and quote >= 0 and data[i] == quote:
                i += 1
                first, closed = i, False
                while i < size:
                    c = data[i]
                    if c == quote and escape == quote and i + 1 < size and data[i + 1] == quote:
                        escaped = True
                        i += 2
                    elif c == quote:
                        closed = i + 1 < size or last
                        break
                    elif c == _FEED:
                        if not line_breaks:
                            break
                        lines += 1
                        i += 1
                    elif c == escape and (line_breaks or (i + 1 < size and data[i + 1] != _FEED)):
                        escaped = True
                        lines += 1 if i + 1 < size and data[i + 1] == _FEED else 0
                        i += 2
                    else:
                        i += 1
                end = i
                if closed:
                    i += 1
                    if i + 1 < size and data[i] == _RETURN and data[i + 1] == _FEED:
                        i += 1
                    if i == size - 1 and data[i] == _RETURN and not last:
                        i = size
                    while i < size and data[i] != delimiter and data[i] != _FEED:
                        bad = True
                        i += 1
                else:
                    bad = True
                    if i >= size or data[i] != _FEED:
                        i = size
            else:
                taken = i  # what an escape took as it is goes to here
                if quote >= 0:  # nothing is special in a field without quotes: most bytes are passed here
                    while i < size and data[i] != delimiter and data[i] != _FEED:
                        i += 1
                while i < size and data[i] != delimiter and data[i] != _FEED:
                    bare = quote < 0 and data[i] == escape and i + 1 < size
                    if bare and (data[i + 1] != _FEED or line_breaks):
                        escaped = True
                        lines += 1 if data[i + 1] == _FEED else 0
                        i += 1
                        taken = i + 1
                    i += 1
                end = i
                if i < size and data[i] == _FEED and end > taken and data[end - 1] == _RETURN:
                    end -= 1
            if field < len(slots) and slots[field] >= 0:
                out.starts[rows, slots[field]] = first
                out.ends[rows, slots[field]] = end
                out.escaped[rows, slots[field]] = escaped
            field += 1
            if i >= size:
                whole = last
                i = size
                break
            if data[i] == _FEED:
                i += 1
                whole = True
                break
            i += 1  # a delimiter
        if not whole:
            break
        blank = field == 1 and i - position <= 2 and (i - position == 1 or data[position] == _RETURN)
        bad |= i - position > _LONGEST
        position = i
        out.tally[3] = field
        if not bad and (field == fields or fields < 0):
            rows += 1
            several += 1 if lines > 0 else 0
        elif not blank:
            dropped += 1
    out.tally[0], out.tally[1], out.tally[2] = rows, dropped, several
    return position


@kernel
def _skip(data: Bytes, size: int, form: Form, state: int) -> tuple[int, int]:
    """Look for the end of a record that is too long to be kept: where it is, or -1, and the state to go on with.

    States: 0 at the start of a field, 1 in a field without quotes, 2 in quotes, 3 after a quote in quotes, 4 after an
    escape in quotes, 5 after an escape without quotes.
    """
    delimiter, quote, escape, line_breaks = form
    for i in range(size):
        c = data[i]
        if c == _FEED and (not line_breaks or state == 0 or state == 1 or state == 3):
            return i + 1, 0
        if state == 0 or state == 1:
            if c == delimiter:
                state = 0
            elif state == 0 and quote >= 0 and c == quote:
                state = 2
            elif quote < 0 and c == escape:
                state = 5
            else:
                state = 1
        elif state == 2:
            if c == quote:
                state = 3
            elif c == escape:
                state = 4
        elif state == 3:
            state = 2 if c == quote and escape == quote else 0 if c == delimiter else 1
        elif state == 4:
            state = 2
        else:
            state = 1
    return -1, state


@kernel
def _gather(
    data: Bytes, form: Form, column: int, rows: int, found: Found, offsets: NDArray[np.int32], out: Bytes
) -> int:
    """Copy the fields of one column behind one another, without their escapes; how many bytes that were."""
    at = 0
    for row in range(rows):
        offsets[row] = at
        i, end = found.starts[row, column], found.ends[row, column]
        if not found.escaped[row, column]:
            if end - i > _SHORT:
                out[at : at + end - i] = data[i:end]
                at += end - i
            else:  # byte by byte: copying slices costs more than their bytes
                while i < end:
                    out[at] = data[i]
                    at += 1
                    i += 1
            continue
        while i < end:
            if data[i] == form.escape and i + 1 < end:
                i += 1
            out[at] = data[i]
            at += 1
            i += 1
    offsets[rows] = at
    return at


class Fields(NamedTuple):
    """Some records of declared columns: for each column its bytes, and where the records begin in them."""

    bytes: list[Bytes]
    offsets: list[NDArray[np.int32]]
    rows: int
    dropped: int
    several_lines: int


@dataclass(frozen=True)
class CsvFile:
    """One CSV file and its form."""

    path: Path
    csv: Csv

    def names(self) -> tuple[str, ...]:
        """The names of the columns: declared, or from the first record alone."""
        if self.csv.names is not None:
            return self.csv.names
        with self._open() as file:
            text = file.read(_BLOCK)
        data = np.frombuffer(text.removeprefix(_BYTE_ORDER_MARK), np.uint8)
        form, found = self._form(), _room(1, _MOST_COLUMNS)
        _split(data, 0, len(data), len(text) < _BLOCK, form, np.arange(_MOST_COLUMNS), -1, found)
        rows, dropped, _, fields = found.tally.tolist()
        if len(data) == 0:
            raise InvalidInput(f"{str(self.path)!r} is empty: give a table whose first line names its columns")
        if rows == 0 or dropped > 0 or fields > _MOST_COLUMNS:
            raise InvalidInput(f"the first line of {str(self.path)!r} does not name columns: give Csv(names=...)")
        cells = [_column(data, form, field, 1, found)[0].tobytes() for field in range(fields)]
        try:
            return tuple(cell.decode(self.csv.encoding) for cell in cells)
        except UnicodeDecodeError:
            pass
        raise InvalidInput(f"the first line of {str(self.path)!r} is not {self.csv.encoding} text")

    def fields(self, columns: tuple[str, ...]) -> Iterator[Fields]:
        """The records of the file, declared columns only."""
        names, form, found = self.names(), self._form(), _room(_ROWS, len(columns))
        slots = np.array([columns.index(name) if name in columns else -1 for name in names], np.int64)
        with self._open() as file:
            kept = file.read(_BLOCK).removeprefix(_BYTE_ORDER_MARK)
            if self.csv.names is None:
                data = np.frombuffer(kept, np.uint8)
                kept = kept[_split(data, 0, len(data), True, form, slots, -1, _room(1, len(columns))) :]
            last = False
            while not last:
                more = file.read(max(_BLOCK, len(kept)))
                last = not more
                kept += more
                data, at, end = np.frombuffer(kept, np.uint8), 0, -1
                while at > end:
                    end, at = at, _split(data, at, len(data), last, form, slots, len(names), found)
                    if at > end:
                        yield _fields(data, form, found)
                kept = kept[at:]
                if len(kept) > _LONGEST:
                    kept = _after_too_long(file, kept, form)
                    yield Fields([], [], 0, 1, 0)

    def _form(self) -> Form:
        return Form(*self.csv.form(self.path.name.lower().removesuffix(".gz").endswith(".tsv")))

    def _open(self) -> IO[bytes]:
        if self.path.name.lower().endswith(".gz"):
            return cast(IO[bytes], gzip.GzipFile(self.path, "rb"))
        return self.path.open("rb")


def _after_too_long(file: IO[bytes], kept: bytes, form: Form) -> bytes:
    """What has been read behind a record that is too long, when its end is found; it is not kept meanwhile."""
    end, state = _skip(np.frombuffer(kept, np.uint8), len(kept), form, 0)
    while end < 0 and kept:
        kept = file.read(_BLOCK)
        end, state = _skip(np.frombuffer(kept, np.uint8), len(kept), form, state)
    return kept[end:] if kept else b""


def _room(rows: int, columns: int) -> Found:
    starts, ends = np.zeros((rows, columns), np.int64), np.zeros((rows, columns), np.int64)
    return Found(starts, ends, np.zeros((rows, columns), np.bool_), np.zeros(4, np.int64))


def _fields(data: Bytes, form: Form, found: Found) -> Fields:
    rows, dropped, several, _ = found.tally.tolist()
    columns = [_column(data, form, column, rows, found) for column in range(found.starts.shape[1])]
    return Fields([content for content, _ in columns], [offsets for _, offsets in columns], rows, dropped, several)


def _column(data: Bytes, form: Form, column: int, rows: int, found: Found) -> tuple[Bytes, NDArray[np.int32]]:
    most = int((found.ends[:rows, column] - found.starts[:rows, column]).sum())
    content, offsets = np.empty(most, np.uint8), np.empty(rows + 1, np.int32)
    return content[: _gather(data, form, column, rows, found, offsets, content)], offsets

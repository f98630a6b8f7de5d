"""Tables that are in memory already: pandas, polars, and whatever speaks the Arrow stream protocol.

A column of Python objects in pandas has no type, and looking for one in its content would let one user's cell decide
for all. Such a column is text by a rule for every cell: text and bytes as they are, numbers and dates as they are
written, anything else is missing. In polars such a column is refused: its Arrow stream holds addresses in memory, by
which every row of one user would be somebody else.

A lazy table of polars is computed when it is declared, its declared columns only.
"""

from __future__ import annotations

import datetime
import math
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.tables.read.in_process import Frame

if TYPE_CHECKING:
    import pyarrow as pa


_WHOLE = 2**53
_LONGEST_NUMBER = 1024  # bits: Python refuses to write very long numbers


@runtime_checkable
class ArrowStream(Protocol):
    """What hands out its columns as a stream of Arrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream as a capsule."""


def frame_of(source: object, names: tuple[str, ...]) -> Frame | None:
    """The declared columns of a table in memory, or None if it is none."""
    import pyarrow as pa

    pandas = sys.modules.get("pandas")  # who holds a frame has imported it
    if pandas is not None and isinstance(source, pandas.DataFrame):
        return Frame(_pandas_columns(source, names))
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(source, polars.DataFrame | polars.LazyFrame):
        return Frame(_polars_columns(polars, source, names))
    if isinstance(source, ArrowStream):
        return Frame(pa.table(source))
    return None


def _pandas_columns(frame: Any, names: tuple[str, ...]) -> pa.Table:
    import pyarrow as pa

    columns = {}
    for name in names:
        many = list(frame.columns).count(name)
        if many > 1:
            raise InvalidInput(f"the table has more than one column {name!r}")
        if many == 1:
            series = frame[name]
            columns[name] = _objects(series) if _untyped(series.dtype) else pa.array(series, from_pandas=True)
    return pa.table(columns)


def _polars_columns(polars: Any, source: Any, names: tuple[str, ...]) -> pa.Table:
    import pyarrow as pa

    lazy = source.lazy()
    try:
        types = lazy.collect_schema()
        for name in names:
            if types.get(name) == polars.Object:
                raise InvalidInput(
                    f"column {name!r} holds Python objects, which have no type: cast it to text or numbers"
                )
        kept = [name for name in names if name in types]
        return pa.table(lazy.select(polars.selectors.by_name(*kept)).collect() if kept else polars.DataFrame())
    except polars.exceptions.PanicException:  # not an Exception, and its words may quote a cell
        pass
    raise InvalidInput("the table cannot be read: polars failed while it was computed")


def _untyped(dtype: Any) -> bool:
    """Whether cells are Python objects, of which Arrow would judge all by one."""
    pandas = sys.modules["pandas"]
    if isinstance(dtype, pandas.StringDtype):
        return bool(dtype.storage == "python")
    return bool(dtype == "object") or isinstance(dtype, pandas.CategoricalDtype)


def _objects(series: Any) -> pa.Array:
    import pyarrow as pa

    return pa.array([cell_text(value) for value in series.tolist()], pa.large_binary())


def cell_text(value: object) -> bytes | None:
    """One cell as text."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int):
        return str(value).encode() if value.bit_length() <= _LONGEST_NUMBER else None
    if isinstance(value, np.integer | Decimal):
        return str(value).encode()
    if isinstance(value, float | np.floating):
        number = float(value)
        whole = number.is_integer() and abs(number) <= _WHOLE  # a missing cell makes whole numbers floats
        return None if math.isnan(number) else repr(int(number) if whole else number).encode()
    if isinstance(value, datetime.date):  # and times, which are dates too
        written = str(value.isoformat())
        return None if written == "NaT" else written.encode()
    return None

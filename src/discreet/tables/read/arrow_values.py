"""Columns of Arrow as numbers of their declared domains. Each cell is judged by itself, and nothing in it is an error.

Text is bytes: numbers in it follow one grammar (:mod:`discreet.tables.read.numerals`), labels are compared byte by
byte, so bytes that are no text are simply no label and no number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.tables.read.columns import (
    DAYS,
    Bins,
    Declaration,
    Elapsed,
    OrMissing,
    Part,
    days_since_epoch,
    numbers_of_labels,
    size_of,
)
from discreet.tables.read.numerals import read_dates, read_numbers

if TYPE_CHECKING:
    import pyarrow as pa

_UNITS = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that a column is worked with: dictionaries as their values, text as bytes."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if types.is_string(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_large_string(kind) or types.is_large_binary(kind) or types.is_string_view(kind):
        return pa.large_binary()
    return pa.large_binary() if types.is_binary_view(kind) else kind


def plain(array: pa.Array) -> pa.Array:
    """A column with its plain type."""
    import pyarrow as pa
    from pyarrow import types

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if types.is_dictionary(array.type):
        return plain(array.dictionary).take(array.indices)  # decoding does not know all kinds of text
    kind = plain_type(array.type)
    return array if array.type == kind else array.cast(kind)


def identifiers(array: pa.Array) -> pa.Array:
    """A column of users or episodes; NaN is missing, and there is one zero."""
    import pyarrow as pa
    from pyarrow import types

    array = plain(array)
    if not types.is_floating(array.type):
        return array
    values = _filled(array.cast(pa.float64())) + 0.0
    return pa.array(values, mask=missing(array)).cast(array.type)


def missing(array: pa.Array) -> Mask:
    """Which cells of a plain column hold nothing: NaN is nothing, too."""
    from pyarrow import types

    absent = ~_present(array)
    return absent | np.isnan(_filled(array)) if types.is_floating(array.type) else absent


def kind_of(kind: pa.DataType) -> str:
    """What a column can serve for: whole, number, text, date, id (nothing but that), or other."""
    from pyarrow import types

    kind = plain_type(kind)
    if types.is_integer(kind):
        return "whole"
    if types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "text"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    return "id" if types.is_time(kind) else "other"


def whole(array: pa.Array, low: int, size: int) -> tuple[Integers, Mask]:
    """Whole numbers in low .. low + size - 1, counted from zero; and which rows have one."""
    values, found = numbers(array)
    inside = found & (values >= low) & (values < low + size)
    if values.dtype.kind == "f":
        inside &= np.floor(values) == values
    if not inside.all():
        values = np.where(inside, values, low)
    return values.astype(np.int64, copy=False) - low, inside


def members(arrays: Sequence[pa.Array], parts: Sequence[Part], encoding: str) -> tuple[Integers, Mask]:
    """The position of a row's values in the declared domains, the last column fastest; and which rows have one."""
    position: Integers = np.zeros(len(arrays[0]), np.int64)
    found: Mask = np.ones(len(arrays[0]), np.bool_)
    for array, part in zip(arrays, parts, strict=True):
        index, inside = _member(array, part, encoding)
        position, found = position * size_of(part) + index, found & inside
    return position, found


def steps(array: pa.Array, declaration: Declaration, encoding: str) -> tuple[Integers, Mask]:
    """Steps from zero on; days since the year one where a user's own first date is the origin."""
    dates, horizon, rule = declaration.dates, declaration.shape.horizon, declaration.steps
    if isinstance(rule, tuple):
        return _member(array, rule, encoding)
    if isinstance(rule, Elapsed):
        values, found = floats(array)
        place = np.floor((np.where(found, values, 0.0) - rule.origin) / rule.every)
        found &= (place >= 0) & (place < horizon)
        return np.where(found, place, 0).astype(np.int64), found
    if dates is None:
        return whole(array, declaration.first_step, horizon)
    day, found = days(array)
    if dates.first_day is None:
        return day, found
    step = (day - dates.first_day) // dates.days
    found &= (step >= 0) & (step < horizon)
    return np.where(found, step, 0), found


def numbers(array: pa.Array) -> tuple[NDArray[Any], Mask]:
    """The numbers of a column, floating or whole, and which rows have one."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind = array.type
    if types.is_integer(kind):
        found = _present(array)
        values = _filled(array)
        if values.dtype == np.uint64:
            found = found & (values < 2**63)
            values = np.where(found, values, np.uint64(0))
        return values.astype(np.int64), found
    if types.is_floating(kind) or types.is_decimal(kind):
        values = _filled(array.cast(pa.float64()))
        return values, _present(array) & ~np.isnan(values)
    values, found, hard = read_numbers(*spans(array))
    found &= _present(array)
    where = np.flatnonzero(hard & found)
    if len(where):
        long = pc.ascii_trim(array.take(pa.array(where)).cast(pa.large_string()), " +")
        values[where] = long.cast(pa.float64()).to_numpy()
    return values, found


def floats(array: pa.Array) -> tuple[Floats, Mask]:
    """The numbers of a column as floating-point ones, and which rows have one."""
    values, found = numbers(array)
    return values.astype(np.float64), found


def days(array: pa.Array) -> tuple[Integers, Mask]:
    """Days since the first of January of the year one, and which rows have one. Times count by their day, in UTC."""
    import pyarrow as pa
    from pyarrow import types

    kind, found = array.type, _present(array)
    if types.is_date32(kind):
        day = _filled(array.view(pa.int32())).astype(np.int64)
    elif types.is_date64(kind):
        day = _filled(array.view(pa.int64())) // _UNITS["ms"]
    elif types.is_timestamp(kind):
        day = _filled(array.view(pa.int64())) // _UNITS[kind.unit]
    else:
        day, read = read_dates(*spans(array))
        return np.where(read & found, day, 0), read & found
    day = day - days_since_epoch(0)
    found = found & (day >= 0) & (day < DAYS)
    return np.where(found, day, 0), found


def _member(array: pa.Array, part: Part, encoding: str) -> tuple[Integers, Mask]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(part, OrMissing):
        index, found = _member(array, part.part, encoding)
        gone = missing(array)
        return np.where(gone, size_of(part) - 1, index), found | gone
    if isinstance(part, int):
        return whole(array, 0, part)
    if isinstance(part, Bins):
        values, found = floats(array)
        index = np.searchsorted(np.array(part.edges[1:-1]), values, side="right").astype(np.int64)
        return index, found & (values >= part.edges[0]) & (values <= part.edges[-1])
    if kind_of(array.type) in ("whole", "number"):
        values, found = numbers(array)
        known = numbers_of_labels(part, values.dtype.kind == "i")
        if not known:
            return np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
        order = sorted(known)
        place = np.searchsorted(np.array(order, values.dtype), values).clip(max=len(order) - 1)
        index = np.array([known[number] for number in order], np.int64)[place]
        return index, found & (np.array(order, values.dtype)[place] == values)
    coded = [label.encode(encoding, "backslashreplace") for label in part]
    index = pc.index_in(array, value_set=pa.array(coded, array.type))
    return _filled(index).astype(np.int64), _present(index)


def _present(array: pa.Array) -> Mask:
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    mask: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _filled(array: pa.Array) -> NDArray[Any]:
    values: NDArray[Any] = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
    return values


def spans(array: pa.Array) -> tuple[NDArray[np.uint8], Integers, Integers]:
    """The bytes of a column of text, and where each cell begins and ends in them."""
    from pyarrow import types

    width = np.int64 if types.is_large_binary(array.type) else np.int32
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    places = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return content, places[:-1], places[1:]

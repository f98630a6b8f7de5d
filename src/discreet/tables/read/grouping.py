"""From batches of rows to the rows of one user after another, in memory and nowhere else.

Rows are checked and packed into one number each; DuckDB groups the numbers by user, which compares identifiers exactly,
and streams the groups to the compiled rules. It may not write to disk: there is no temporary folder, so nothing is left
if the process dies. Large tables are counted in several passes, each over the users whose identifier falls into one
part. The number of passes comes from the size of the source and does not change the result: users do not meet.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.types import Integers, Mask, NDArray
from discreet.tables.read.arrow_values import floats, identifiers, members, missing, plain, plain_type, spans, steps
from discreet.tables.read.columns import Columns, Declaration, Packing, listed
from discreet.tables.read.engines import arrow_reader, in_memory, quietly
from discreet.tables.read.in_process import LocalSource
from discreet.tables.read.per_user import Counted, Rules, follow_users
from discreet.tables.read.reward_rounding import CellSums

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_IN_MEMORY = 2**25  # about a gigabyte in groups
_USERS_AT_A_TIME = 2**15
_DENSE = 2**22  # cells that are counted in a table; more are counted by sorting
_PENDING = 2**22

_USERS = "SELECT count(DISTINCT user) FROM rows"
_BY_USER = "SELECT list(row) AS rows FROM rows GROUP BY user"
_BY_EPISODE = """
    SELECT list(rows ORDER BY episode) AS episodes
    FROM (SELECT user, episode, list(row) AS rows FROM rows GROUP BY user, episode) GROUP BY user
"""


def count_users(source: LocalSource, columns: Columns) -> int:
    """How many different users there are, whatever their rows hold; without a column of users, how many rows."""
    user = columns.user
    if user is None:
        return sum(batch.num_rows for batch in source.batches(columns.names[:1]))
    parts, key = passes(source), secrets.randbits(64)
    total = 0
    for part in range(parts):
        batches = (
            of_part([without_repeats(identifiers(batch.column(0)))], parts, part, key)
            for batch in source.batches((user,))
        )
        with _grouped(source, {"user": user}, batches) as connection:
            total += int(quietly(source.name, partial(_first_value, connection, _USERS)))
    return total


def without_repeats(ids: pa.Array) -> pa.Array:
    """Identifiers without missing ones and without those that equal the one before, where many do.

    Most files are written user by user, so that there is far less to compare for whoever counts users.
    """
    import pyarrow as pa
    from pyarrow import types

    ids = ids.drop_null()
    if types.is_integer(ids.type):
        values = ids.to_numpy()
        new = np.ones(len(values), np.bool_)
        new[1:] = values[1:] != values[:-1]
    elif types.is_binary(ids.type) or types.is_large_binary(ids.type):
        content, starts, ends = spans(ids)
        new = np.ones(len(ids), np.bool_)
        _mark_new(content, starts, ends, new)
    else:
        return ids
    return ids.filter(pa.array(new)) if 2 * int(new.sum()) < len(new) else ids


@kernel
def _mark_new(data: NDArray[np.uint8], starts: Integers, ends: Integers, new: Mask) -> None:
    """Mark the cells whose bytes differ from those of the cell before."""
    for row in range(1, len(starts)):
        i, before = starts[row], starts[row - 1]
        same = ends[row] - i == ends[row - 1] - before
        while same and i < ends[row]:
            same = data[i] == data[before]
            i += 1
            before += 1
        new[row] = not same


def cell_sums(source: LocalSource, declaration: Declaration, packing: Packing, rules: Rules) -> CellSums:
    """Count the cells of everybody."""
    shape = declaration.shape
    size = shape.groups * shape.states * shape.actions * (shape.states + 1) * (packing.levels - 1)
    tally = tally_of(size)
    for counted in contributions(source, declaration, packing, rules):
        tally.add(counted.keys, counted.above)
    return tally.sums()


def contributions(
    source: LocalSource, declaration: Declaration, packing: Packing, rules: Rules
) -> Iterator[Counted]:  # fmt: skip
    """What every user adds, some users at a time, in no particular order."""
    columns = declaration.columns
    if columns.user is None:  # every row is a user
        batches = iter(quietly(source.name, lambda: source.batches(columns.names)))
        while (batch := quietly(source.name, lambda: next(batches, None))) is not None:
            yield follow_rows(_packed(batch, source.encoding, declaration, packing)[0].to_numpy(), rules)
        return
    ids = {"user": columns.user} | ({} if columns.episode is None else {"episode": columns.episode})
    parts, key = passes(source), secrets.randbits(64)
    for part in range(parts):
        batches = (
            of_part(_packed(batch, source.encoding, declaration, packing), parts, part, key)
            for batch in source.batches(columns.names)
        )
        with _grouped(source, ids, batches, packed=True) as connection:
            query = _BY_USER if columns.episode is None else _BY_EPISODE
            query = query.replace("SELECT", "SELECT user,", 1) if rules.lots else query
            stream = quietly(source.name, partial(streamed, connection, query))
            while (batch := quietly(source.name, partial(next, stream, None))) is not None:
                grouped = list_offsets(batch.column(int(rules.lots)), columns.episode is not None)
                yield follow_users(*grouped, rules, lots_of(batch.column(0)) if rules.lots else None)


def follow_rows(values: Integers, rules: Rules) -> Counted:
    """The rules, where every row is a user of its own."""
    each = np.arange(len(values) + 1)
    return follow_users(values, each, each, rules)


def lots_of(users: pa.Array) -> NDArray[np.uint64]:
    """A number for each user, from her identifier alone: it decides which of her rows are drawn."""
    return _hashed(users, 0)


def _first_value(connection: Any, query: str) -> Any:
    return connection.execute(query).fetchall()[0][0]


def streamed(connection: Any, query: str) -> Any:
    """The result of a query, some users at a time."""
    return arrow_reader(connection.sql(query), _USERS_AT_A_TIME)


def checked(
    batch: pa.RecordBatch, encoding: str, declaration: Declaration
) -> tuple[dict[str, tuple[Integers, Mask]], list[pa.Array]]:
    """Steps, states, actions and next states of some rows with which of them are in their domain; and identifiers."""
    columns, shape = declaration.columns, declaration.shape
    array = {name: plain(batch.column(name)) for name in dict.fromkeys(columns.names)}
    pick = lambda names: [array[name] for name in listed(names)]  # noqa: E731
    only = np.zeros(batch.num_rows, np.int64), np.ones(batch.num_rows, np.bool_)  # every row is at the only step
    found = {
        "step": only if columns.step is None else steps(array[columns.step], declaration, encoding),
        "state": members(pick(columns.state), declaration.state_parts, encoding),
        "action": members(pick(columns.action), declaration.action_parts, encoding),
    }
    if columns.next_state is not None:
        arrays = pick(columns.next_state)
        position, inside = members(arrays, declaration.state_parts, encoding)
        absent = np.logical_and.reduce([missing(each) for each in arrays])
        found["next_state"] = np.where(inside, position, shape.states), inside | absent
    return found, [identifiers(each) for each in (*pick(columns.user), *pick(columns.episode))]


def reward_positions(
    batch: pa.RecordBatch, declaration: Declaration, packing: Packing
) -> tuple[Integers | int, Mask | bool]:
    """Rewards on the grid between levels: clipped to the declared range, missing ones as declared; and which count."""
    name, (low, high) = declaration.columns.reward, declaration.shape.rewards
    if name is None:
        return 0, True
    reward, found = floats(plain(batch.column(name)))
    share = (np.where(found, np.clip(reward, low, high), declaration.missing_reward or 0.0) - low) / (high - low)
    counts = found if declaration.missing_reward is None else True
    return np.floor(share * (packing.positions - 1) + 0.5).astype(np.int64), counts


def _packed(batch: pa.RecordBatch, encoding: str, declaration: Declaration, packing: Packing) -> list[pa.Array]:
    """Identifiers and packed rows, valid ones only."""
    import pyarrow as pa

    ids, row = packed_rows(batch, encoding, declaration, packing)
    valid = row >= 0
    arrays = [*ids, pa.array(row)]
    return arrays if valid.all() else [array.filter(pa.array(valid)) for array in arrays]


def packed_rows(
    batch: pa.RecordBatch, encoding: str, declaration: Declaration, packing: Packing
) -> tuple[list[pa.Array], Integers]:
    """Identifiers and packed rows; -1 where a row is not valid, or behind all valid ones where that drops a record."""
    found, ids = checked(batch, encoding, declaration)
    row = (found["step"][0] * packing.states + found["state"][0]) * packing.actions + found["action"][0]
    position, known = reward_positions(batch, declaration, packing)
    row = row * packing.positions + position
    if "next_state" in found:
        row = row * packing.following + found["next_state"][0]
    valid = np.logical_and.reduce([inside for _, inside in found.values()]) & known
    step, placed = found["step"]
    marked = np.full_like(row, -1)
    if declaration.missing == "drop" and declaration.cap is None and declaration.columns.user is not None:
        marked = np.where(placed, packing.items * declaration.most_steps + step, -1)
    row = np.where(valid, row, marked)
    for each in ids:
        if each.null_count:
            row[~np.asarray(each.is_valid())] = -1
    return ids, row


def passes(source: LocalSource) -> int:
    """How many passes a source is counted in, from its size alone."""
    return max(1, math.ceil(quietly(source.name, source.most_rows) / _ROWS_IN_MEMORY))


def of_part(arrays: list[pa.Array], parts: int, part: int, key: int) -> list[pa.Array]:
    """The rows of users who belong to one part; ``key`` keeps them from choosing it."""
    import pyarrow as pa

    if parts == 1:
        return arrays
    mask = pa.array(_hashed(arrays[0], key) % np.uint64(parts) == part)
    return [array.filter(mask) for array in arrays]


def _hashed(ids: pa.Array, key: int) -> NDArray[np.uint64]:
    import pyarrow as pa
    from pyarrow import types

    if types.is_integer(ids.type):
        values = (ids.fill_null(0) if ids.null_count else ids).to_numpy(zero_copy_only=False).astype(np.int64)
        content = values.view(np.uint8)
        starts = np.arange(len(values), dtype=np.int64) * 8
        ends = starts + 8
    else:
        text = ids if types.is_binary(ids.type) or types.is_large_binary(ids.type) else plain(ids.cast(pa.string()))
        content, starts, ends = spans(text)
    hashes = np.zeros(len(ids), np.uint64)
    _hash(content, starts, ends, np.uint64(key), hashes)
    return hashes


@kernel
def _hash(data: NDArray[np.uint8], starts: Integers, ends: Integers, key: np.uint64, out: NDArray[np.uint64]) -> None:
    for row in range(len(starts)):
        word = key
        for i in range(starts[row], ends[row]):
            word = (word ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
            word ^= word >> np.uint64(29)
        out[row] = word ^ (word >> np.uint64(32))


@contextmanager
def _grouped(
    source: LocalSource, ids: dict[str, str], batches: Iterator[list[pa.Array]], packed: bool = False
) -> Iterator[Any]:
    """A connection in which ``rows`` are these columns. It can read nothing else, and write nothing."""
    import pyarrow as pa

    types = source.types(tuple(dict.fromkeys(ids.values())))
    fields = [(name, plain_type(types[column])) for name, column in ids.items()]
    schema = pa.schema([*fields, ("row", pa.int64())] if packed else fields)
    stream = pa.RecordBatchReader.from_batches(
        schema, (pa.RecordBatch.from_arrays(arrays, schema=schema) for arrays in batches)
    )
    connection = in_memory()
    try:
        connection.register("rows", stream)
        yield connection
    finally:
        connection.close()


def list_offsets(array: pa.Array, episodes: bool) -> tuple[Integers, Integers, Integers]:
    """Rows of a column of lists (of lists), where episodes begin in them, and where users begin in those."""
    users = array.offsets.to_numpy().astype(np.int64)
    inner = array.values
    if not episodes:
        return np.array(inner.to_numpy(), np.int64), users, np.arange(len(array) + 1)
    return np.array(inner.values.to_numpy(), np.int64), inner.offsets.to_numpy().astype(np.int64), users


def tally_of(size: int) -> Dense | Sparse:
    """An empty tally of so many cells: a table of all of them, or of those that occur."""
    return Dense(size) if size <= _DENSE else Sparse()


class Dense:
    """Sums in a table of all cells."""

    def __init__(self, size: int) -> None:
        self._counts, self._above = np.zeros(size, np.int64), np.zeros(size, np.int64)

    def add(self, keys: Integers, above: Integers) -> None:
        """Add what some users contribute."""
        _add(keys, above, self._counts, self._above)

    def sums(self) -> CellSums:
        """The cells that occur."""
        keys = np.flatnonzero(self._counts)
        return CellSums(keys, self._counts[keys], self._above[keys])


class Sparse:
    """Sums of the cells that occur, by sorting now and then."""

    def __init__(self) -> None:
        empty = np.zeros(0, np.int64)
        self._parts, self._pending = [CellSums(empty, empty, empty)], 0

    def add(self, keys: Integers, above: Integers) -> None:
        """Add what some users contribute."""
        self._parts.append(CellSums(keys, np.ones(len(keys), np.int64), above))
        self._pending += len(keys)
        if self._pending > _PENDING:
            self._parts, self._pending = [self.sums()], 0

    def sums(self) -> CellSums:
        """The cells that occur, each once."""
        keys, counts, above = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        keys, where = np.unique(keys, return_inverse=True)
        out = CellSums(keys, np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64))
        np.add.at(out.counts, where, counts)
        np.add.at(out.above, where, above)
        return out


@kernel
def _add(keys: Integers, above: Integers, counts: Integers, sums: Integers) -> None:
    for i in range(len(keys)):
        counts[keys[i]] += 1
        sums[keys[i]] += above[i]

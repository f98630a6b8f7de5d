"""Users by their position in the source, so that some of them can be counted and others held out.

The position of a user is her rank by first appearance: users are numbered 0, 1, 2, ... in the order in which the first
row of each stands in the source, whatever that row holds besides the identifier. Identifiers are compared, never
ordered. A user who is replaced *in place* (somebody else's rows, under another identifier, with the first of them where
hers was) leaves every other user's position as it was. What holds if a replacement also moves first rows is a question
of who chooses parts, and is answered in :mod:`discreet.tables.evaluation.split`.

Files and frames have an order of rows. A database or a warehouse promises none, so that two runs could number its users
differently; such sources are refused here.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.mechanisms.counts.joint_histogram import JointCounts
from discreet.tables.read.arrow_values import identifiers, plain_type
from discreet.tables.read.columns import Declaration, Packing
from discreet.tables.read.engines import IbisSource, in_memory, quietly
from discreet.tables.read.grouping import (
    count_users,
    list_offsets,
    lots_of,
    of_part,
    packed_rows,
    passes,
    streamed,
    tally_of,
)
from discreet.tables.read.in_process import DatabaseTable, LocalSource
from discreet.tables.read.per_user import Counted, Rules, follow_users, rules_of
from discreet.tables.read.reward_rounding import coin_seed, rounded
from discreet.tables.read.table import CountedUsers, Table

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_ROWS = "SELECT min(number) AS first FROM rows GROUP BY user"
_WHO = "SELECT user, min(number) AS first FROM rows GROUP BY user"
_BY_USER = "SELECT coalesce(list(row) FILTER (row >= 0), []) AS rows, min(number) AS first FROM rows GROUP BY user"
_BY_EPISODE = """
    SELECT coalesce(list(rows ORDER BY episode) FILTER (rows IS NOT NULL), []) AS episodes, min(first) AS first
    FROM (SELECT user, episode, list(row) FILTER (row >= 0) AS rows, min(number) AS first
          FROM rows GROUP BY user, episode) GROUP BY user
"""


class Paths(NamedTuple):
    """The repaired rows of some users, user behind user: raw data, for sums that carry noise and nothing else.

    ``user`` numbers the users from zero; those without a valid row have none here. ``successor`` is S for an end.
    ``reward`` is a share of the declared range.
    """

    users: int
    user: Integers
    step: Integers
    state: Integers
    action: Integers
    successor: Integers
    reward: Floats

    def __repr__(self) -> str:
        return f"<Paths of {self.users} users, contents not shown>"


@dataclass(frozen=True, repr=False)
class Ordered:
    """A table whose users have positions. ``first_rows`` are the numbers of their first rows, in order."""

    table: Table
    first_rows: Integers = field(repr=False)

    @property
    def users(self) -> int:
        """How many users there are; this number is public."""
        return len(self.first_rows)

    def joint_counts(self, chosen: Mask, *, levels: int, first_visit: bool, seed: int | None = None) -> JointCounts:
        """The joint histogram of the users at the chosen positions: raw data, for privatizers only."""
        declaration = self.table.declaration
        packing, shape = declaration.packing(levels), declaration.shape
        tally = tally_of(shape.groups * shape.states * shape.actions * (shape.states + 1) * (levels - 1))
        for counted in self._followed(chosen, packing, rules_of(declaration, packing, first_visit)):
            tally.add(counted.keys, counted.above)
        return rounded(tally.sums(), levels, packing.grid, coin_seed() if seed is None else seed)

    def paths(self, chosen: Mask) -> Paths:
        """The repaired rows of the users at the chosen positions, with their steps even where counts are pooled."""
        declaration = self.table.declaration
        if declaration.per_user > 1:
            raise one_is_judged(declaration)
        packing, shape = declaration.packing(2), declaration.shape
        rules = rules_of(declaration, packing, False)
        rules = rules._replace(homogeneous=False, counted_steps=shape.horizon)
        parts, users = [], 0
        for counted in self._followed(chosen, packing, rules):
            many = np.diff(counted.ends, prepend=0)
            parts.append((np.repeat(np.arange(len(many)) + users, many), counted.keys, counted.above))
            users += len(many)
        empty = np.zeros(0, np.int64)
        who, keys, above = (np.concatenate(each) for each in zip(*parts)) if parts else (empty, empty, empty)
        row, successor = np.divmod(keys, shape.states + 1)
        rest, action = np.divmod(row, shape.actions)
        step, state = np.divmod(rest, shape.states)
        return Paths(users, who, step, state, action, successor, above / packing.grid)

    def identifiers(self) -> Iterator[bytes]:
        """The identifiers of all users in order, as bytes to be digested: raw data, for a secret key only."""
        source, user = _local(self.table), self.table.declaration.columns.user
        if user is None:  # rows are known by what they hold
            declaration, columns = self.table.declaration, self.table.declaration.columns
            for batch in source.batches(columns.names):
                yield (
                    packed_rows(batch, source.encoding, declaration, declaration.packing(2))[1].astype("<i8").tobytes()
                )
            return
        found = []
        for batches in _passes(source, (user,), lambda batch: ([identifiers(batch.column(0))], None)):
            found += [(batch.column(0), batch.column(1)) for batch in _queried(source, (user,), batches, _WHO)]
        first = np.concatenate([each.to_numpy() for _, each in found])
        for position in np.array_split(np.argsort(first), max(1, len(first) >> 16)):
            yield from _written([each for each, _ in found], position)

    def _followed(self, chosen: Mask, packing: Packing, rules: Rules) -> Iterator[Counted]:
        """What the users at the chosen positions add, also those without a valid row, in no particular order."""
        if chosen.shape != self.first_rows.shape:
            raise InvalidInput(f"a part of {self.users} users is chosen by as many flags, got {chosen.shape}")
        for rows, episodes, users, first, lots in self._grouped(packing, rules.lots):
            position = np.searchsorted(self.first_rows, first)
            wanted = np.flatnonzero(chosen[position])
            if len(wanted):
                drawn = None if lots is None else lots[wanted]
                yield follow_users(*_only(rows, episodes, users, wanted), rules, drawn)

    def _grouped(
        self, packing: Packing, lots: bool
    ) -> Iterator[tuple[Integers, Integers, Integers, Integers, NDArray[np.uint64] | None]]:
        """Packed rows, where episodes begin in them and users in those, each user's first row, and her lot."""
        declaration, source = self.table.declaration, _local(self.table)
        columns = declaration.columns
        if columns.user is None:
            yield from self._each_row(packing)
            return
        ids = (columns.user,) if columns.episode is None else (columns.user, columns.episode)
        query = _BY_USER if columns.episode is None else _BY_EPISODE
        query = query.replace(" FROM rows GROUP", ", user FROM rows GROUP") if lots else query
        for batches in _passes(
            source, columns.names, lambda batch: packed_rows(batch, source.encoding, declaration, packing)
        ):
            for batch in _queried(source, ids, batches, query, packed=True):
                first = batch.column(1).to_numpy().astype(np.int64)
                drawn = lots_of(batch.column(2)) if lots else None
                yield *list_offsets(batch.column(0), columns.episode is not None), first, drawn

    def _each_row(self, packing: Packing) -> Iterator[tuple[Integers, Integers, Integers, Integers, None]]:
        """The same where every row is a user, who has no row if it is not valid."""
        declaration, source = self.table.declaration, _local(self.table)
        number = 0
        for batch in source.batches(declaration.columns.names):
            _, row = packed_rows(batch, source.encoding, declaration, packing)
            begins = _offsets((row >= 0).astype(np.int64))
            yield row[row >= 0], np.arange(begins[-1] + 1), begins, np.arange(number, number + len(row)), None
            number += len(row)

    def __repr__(self) -> str:
        return f"<Ordered {self.table!r}>"


class PartUsers(CountedUsers):
    """The users at some positions of a table."""

    def __init__(self, ordered: Ordered, chosen: Mask) -> None:
        super().__init__(
            lambda levels, first_visit: ordered.joint_counts(chosen, levels=levels, first_visit=first_visit)
        )


def ordered(table: Table) -> Ordered:
    """Number the users of a table by first appearance, or refuse a source whose rows have no order."""
    source, user = _local(table), table.declaration.columns.user
    found = (
        [np.arange(count_users(source, table.declaration.columns))]
        if user is None
        else [
            batch.column(0).to_numpy().astype(np.int64)
            for batches in _passes(source, (user,), lambda batch: ([identifiers(batch.column(0))], None))
            for batch in _queried(source, (user,), batches, _FIRST_ROWS)
        ]
    )
    first = np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)
    if len(first) == 0:
        raise InvalidInput(f"{source.name} has no users: there is nothing to learn from")
    return Ordered(table, first)


def one_is_judged(declaration: Declaration) -> Unsupported:
    """Why several trajectories of one user judge nothing."""
    name = "per_user" if declaration.cap is None else "cap"
    return Unsupported(
        f"a policy is judged by one trajectory of every user, and {name}={declaration.per_user} was declared: declare "
        f"{name}=1, or leave holdout out"
    )


def _local(table: Table) -> LocalSource:
    source = table.source
    if isinstance(source, IbisSource | DatabaseTable):
        raise Unsupported(
            f"{source.name} promises no order of rows, so its users have no positions to be split by: export it to a "
            "Parquet file and read that, or leave holdout out"
        )
    return source


def _passes(source: LocalSource, names: tuple[str, ...], read: Any) -> Iterator[Iterator[list[pa.Array]]]:
    """For each pass the rows of its users: identifiers, the number of the row, and its packed content (-1: invalid)."""
    import pyarrow as pa

    many, key = passes(source), secrets.randbits(64)

    def rows(which: int) -> Iterator[list[pa.Array]]:
        number = 0
        for batch in source.batches(names):
            ids, content = read(batch)
            numbers = pa.array(np.arange(number, number + batch.num_rows))
            number += batch.num_rows
            arrays = [*ids, numbers, *([] if content is None else [pa.array(content)])]
            if ids[0].null_count:  # nobody's row
                known = ids[0].is_valid()
                arrays = [array.filter(known) for array in arrays]
            yield of_part(arrays, many, which, key)

    for which in range(many):
        yield rows(which)


def _queried(
    source: LocalSource, ids: tuple[str, ...], batches: Iterator[list[pa.Array]], query: str, *, packed: bool = False
) -> Iterator[pa.RecordBatch]:
    """The groups that DuckDB makes of the rows; it can read nothing else, and write nothing."""
    import pyarrow as pa

    types = source.types(tuple(dict.fromkeys(ids)))
    fields = [(name, plain_type(types[column])) for name, column in zip(("user", "episode"), ids)]
    schema = pa.schema([*fields, ("number", pa.int64()), *([("row", pa.int64())] if packed else [])])
    stream = pa.RecordBatchReader.from_batches(
        schema, (pa.RecordBatch.from_arrays(arrays, schema=schema) for arrays in batches)
    )
    connection = in_memory()
    try:
        connection.register("rows", stream)
        answer = quietly(source.name, partial(streamed, connection, query))
        while (batch := quietly(source.name, partial(next, answer, None))) is not None:
            yield batch
    finally:
        connection.close()


def _written(ids: list[pa.Array], position: Integers) -> Iterator[bytes]:
    """Some identifiers as bytes, each with its length."""
    import pyarrow as pa
    from pyarrow import types

    picked = pa.chunked_array(ids).take(pa.array(position)).combine_chunks()
    text = picked.cast(pa.large_binary() if _bytes(picked.type, types) else pa.large_string())
    for each in text.to_pylist():
        coded = each if isinstance(each, bytes) else each.encode()
        yield len(coded).to_bytes(8, "little") + coded


def _bytes(kind: pa.DataType, types: Any) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _only(rows: Integers, episodes: Integers, users: Integers, wanted: Integers) -> tuple[Integers, Integers, Integers]:
    """The rows of some users, where their episodes begin in these, and users in episodes."""
    own, per_user = _ranges(users[wanted], users[wanted + 1])
    inside, per_episode = _ranges(episodes[own], episodes[own + 1])
    return rows[inside], _offsets(per_episode), _offsets(per_user)


def _ranges(begins: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """All numbers of several ranges, range behind range, and how many each has."""
    many = ends - begins
    return np.arange(int(many.sum())) + np.repeat(begins - _offsets(many)[:-1], many), many


def _offsets(many: Integers) -> Integers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(many)])

"""``discreet apply``: raw rows of a table become actions, by a policy that was saved with the rules of its columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.base.errors import InvalidInput
from discreet.cli import tables

if TYPE_CHECKING:
    from discreet.tables.apply import Reader

_TOO_MANY = 10


def apply(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy that discreet saved (.json, .npz).")],
    data: tables.Source,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="A column to copy, such as the one of users; those that the policy reads without."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The rows with their actions (.csv); printed without it.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="For a policy that draws: the same coins again.")] = None,
    table: tables.TableName = None,
    csv: tables.CsvForm = None,
    partition: tables.Partition = None,
) -> None:
    """Read a table as the policy's own was read, and write the action for each of its rows, in their order.

    A row whose step or state the policy does not know has no action, and it is said how many there are. Exit code 0:
    at most a tenth of the rows; 1: more than that; 2: it cannot be read. What it writes is as private as the table is.
    """
    import numpy as np

    from discreet.base.files import check_distinct, check_writable, shortened, write_atomically
    from discreet.base.notebook import counted
    from discreet.base.policies import load_policy
    from discreet.tables.apply import Reader, outside

    if out is not None:
        if check_writable(out).suffix != ".csv":
            raise InvalidInput(f"rows with actions are written to a .csv file, got {shortened(out.name)}")
        check_distinct({"--out": out}, [("POLICY", policy), *([] if "://" in data else [("DATA", data)])])
    reader = Reader(load_policy(policy), np.random.default_rng(seed))
    text, rows, no_step, no_state, without = _applied(reader, data, keep or [], table, csv, partition)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(out, text.encode())
    for words in outside(reader.rules, no_step, no_state):
        typer.echo(words, err=out is None)
    where = "" if out is None else f", in {out}"
    typer.echo(f"{counted(rows, 'row')}, {rows - without:,} with an action{where}", err=out is None)
    if without * _TOO_MANY > rows:
        raise typer.Exit(1)


def _applied(
    reader: Reader, data: str, keep: list[str], table: str | None, csv: list[str] | None, partition: list[str] | None
) -> tuple[str, int, int, int, int]:
    """The rows with their actions as CSV; how many, without a step, without a state, without an action."""
    import csv as writing
    import io

    from discreet.tables.apply import needed
    from discreet.tables.read.columns import listed
    from discreet.tables.read.csv_dialect import csv_form
    from discreet.tables.read.engines import IbisSource, open_source, quietly
    from discreet.tables.read.in_process import CsvFiles
    from discreet.tables.read.schema import check_schema

    kept, action = tuple(dict.fromkeys(keep)) or needed(reader.rules), listed(reader.rules.columns.action)
    if set(kept) & set(action):
        raise InvalidInput(f"--keep {min(set(kept) & set(action))} is the column that the action is written to")
    names = tuple(dict.fromkeys((*needed(reader.rules), *kept)))
    source = open_source(data, names, table=table, csv=csv_form(csv or []), partitions=tuple(partition or ()))
    if isinstance(source, IbisSource):
        raise InvalidInput(f"apply reads rows here, and {source.name} is elsewhere: export it to a Parquet file")
    check_schema(source, reader.rules, names)
    if isinstance(source, CsvFiles) and quietly(source.name, source.unreadable)[0]:
        raise InvalidInput(f"{source.name} has records that cannot be read: declare the form of the file (--csv)")
    text = io.StringIO()
    writer = writing.writer(text, lineterminator="\n")
    writer.writerow([*kept, *action])
    rows = no_step = no_state = without = 0
    batches = iter(quietly(source.name, lambda: source.batches(names)))
    while (batch := quietly(source.name, lambda: next(batches, None))) is not None:
        found = reader.chosen(batch, source.encoding)
        cells = [_cells(batch.column(name), source.encoding) for name in kept]
        writer.writerows(zip(*cells, *reader.names(found.actions), strict=True))
        rows, without = rows + batch.num_rows, without + int((found.actions < 0).sum())
        no_step, no_state = no_step + int(found.no_step.sum()), no_state + int(found.no_state.sum())
    return text.getvalue(), rows, no_step, no_state, without


def _cells(column: Any, encoding: str) -> list[Any]:
    """Cells as they are written; nothing where they are missing."""
    return [cell.decode(encoding, "replace") if isinstance(cell, bytes) else cell for cell in column.to_pylist()]

"""``discreet compare``: results that were kept with ``simulate --save``, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli import options as o
from discreet.cli.output import check_outputs, print_table, write_json


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that simulate --save wrote.")],
    label: Annotated[
        list[str] | None, typer.Option(help="A name for each of them, in the same order; may be repeated.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of all intervals of differences together.")] = 0.95,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw them in one picture (.png, .svg, .pdf).", rich_help_panel="Output"),
    ] = None,
    json: o.JsonFile = None,
) -> None:
    """Compare saved results: regrets, and differences from the first that are paired run by run."""
    check_outputs(json_file=json, plot=plot, inputs=[("DIR", path) for path in runs])
    from discreet.simulation.comparison import comparison_of
    from discreet.simulation.result import load_result

    found = comparison_of([load_result(folder) for folder in runs], label, confidence)
    write_json(json, found.as_dict())
    if plot is not None:
        found.plot(plot)
    columns, rows = found.table()
    print_table(columns, rows, right=columns[1:4])
    typer.echo(found.note())

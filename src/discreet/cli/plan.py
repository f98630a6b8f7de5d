"""``discreet plan``: what to expect of a data set for several epsilons, before anything is spent or even read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.base.errors import InvalidInput
from discreet.cli import tables
from discreet.cli.output import check_outputs, print_table, write_json

_SHAPE, _OUTPUT = "Shape", "Output"


def plan(
    *,
    states: Annotated[int | None, typer.Option(help="How many states.", rich_help_panel=_SHAPE)] = None,
    actions: Annotated[int | None, typer.Option(help="How many actions.", rich_help_panel=_SHAPE)] = None,
    horizon: Annotated[int | None, typer.Option(help="The largest number of steps.", rich_help_panel=_SHAPE)] = None,
    declaration: tables.DeclarationFile = None,
    users: Annotated[str, typer.Option(metavar="N[,N...]", help="How many users, or several numbers to compare.")],
    epsilons: Annotated[
        str, typer.Option("--epsilons", "--epsilon", metavar="E[,E...]", help="What to compare.")
    ] = "0.5,1,2,4",
    delta: Annotated[float, typer.Option(help="The delta beside epsilon.")] = 0.0,
    homogeneous: Annotated[
        bool, typer.Option("--homogeneous", help="Steps are alike: counts are pooled.", rich_help_panel=_SHAPE)
    ] = False,
    rewards: Annotated[
        tuple[float, float], typer.Option(metavar="LOW HIGH", help="The range of rewards.", rich_help_panel=_SHAPE)
    ] = (0.0, 1.0),
    holdout: Annotated[float, typer.Option(metavar="SHARE", help="The share of users who judge.")] = 0.35,
    runs: Annotated[int, typer.Option(help="Worlds of each kind that are rehearsed.")] = 2,
    seed: Annotated[int, typer.Option(help="Of the rehearsal.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it (.png, .svg, .pdf).", rich_help_panel=_OUTPUT)
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write everything as JSON (- for stdout).", rich_help_panel=_OUTPUT
        ),
    ] = None,
) -> None:
    """Show noise against counts, and the gap and intervals to be expected, for several epsilons; no data are read."""
    check_outputs(json_file=json, plot=plot)
    from discreet.base.shape import Shape
    from discreet.tables.plan import plan as compute
    from discreet.tables.read.declaration_file import shape_of

    if declaration is not None:
        shape = shape_of(tables.said_by(declaration), declaration.name)
    else:
        for name, given in (("--states", states), ("--actions", actions), ("--horizon", horizon)):
            if given is None:
                raise InvalidInput(f"{name} is missing: say how many, or give --declaration")
        shape = Shape(states or 0, actions or 0, horizon or 0, homogeneous=homogeneous, rewards=rewards)
    found = compute(
        shape, users=[_whole(text) for text in users.split(",")], epsilons=_numbers(epsilons), delta=delta,
        holdout=holdout, runs=runs, seed=seed, progress=True,
    )  # fmt: skip
    write_json(json, found.as_dict())
    if plot is not None:
        found.plot(plot)
    columns = ("users", "epsilon", "noise in a row", "users in a row", "rows shown", "missed", "width", "told")
    print_table(
        columns,
        [
            [
                f"{row.users:,}", "none" if row.epsilon is None else f"{row.epsilon:g}", f"{row.noise:.3g}",
                f"{row.per_row:,.3g}", f"{row.shown:.0%}", f"{row.gap:.0%}", f"{row.width:.0%}", f"{row.told:.0%}",
            ]
            for row in found.rows
        ],
        right=columns,
    )  # fmt: skip
    typer.echo(
        f"{found.cells:,} noisy counts; a row is a state with an action"
        + ("" if homogeneous else " at one step")
        + f". Averages over {found.runs} random worlds of this shape, whose users act at random: missed is the share "
        "of what can be gained over random play, width the 95% interval of the value as a share of the range, told how "
        "often better or worse could be said. Yours is another world: compare rows with each other."
    )


def _numbers(text: str) -> list[float]:
    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        raise InvalidInput(f"--epsilons takes numbers separated by commas, got {text[:40]!r}") from None


def _whole(text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdigit() and len(text) < 19):
        raise InvalidInput(f"--users takes whole numbers separated by commas, got {text[:40]!r}")
    return int(text)

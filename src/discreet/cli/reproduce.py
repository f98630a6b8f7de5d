"""``discreet reproduce``: the papers' figures, with a verdict on everything that they say about them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.output import check_outputs, print_table
from discreet.errors import InvalidInput, unknown_name

if TYPE_CHECKING:
    from discreet.reproduce.run import Reproduction


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A name from --list, the start of one, or all.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the figures and stop.")] = False,
    scale: Annotated[str, typer.Option(help="quick (minutes), or paper (the paper's own size).")] = "quick",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where pages, pictures and results go.")] = Path(
        "reproduction"
    ),
    executor: Annotated[
        str, typer.Option(metavar="WHERE", help="threads, threads:N, or dask:ADDRESS of a cluster.")
    ] = "threads",
    seed: Annotated[int, typer.Option(help="The seed of all randomness.")] = 0,
) -> None:
    """Draw a paper's figure three times over: as published, certified, and with the auto recipe.

    What is finished is kept: after an interruption the same command goes on where it was.
    """
    from discreet.reproduce.figure import SCALES, Figure
    from discreet.reproduce.registry import FIGURES
    from discreet.reproduce.statements import STATEMENTS, Statements, check_statements

    everything: dict[str, Figure | Statements] = {**FIGURES, **STATEMENTS}
    if list_:
        print_table(["figure", "what it shows"], [[figure.name, figure.title] for figure in everything.values()])
        return
    if name is None:
        raise InvalidInput("give the name of a figure, or all; --list shows them")
    if scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    chosen = [each for key, each in everything.items() if name in ("all", key) or key.startswith(f"{name}/")]
    if not chosen:
        raise unknown_name("figure", name, everything)
    check_outputs(folder=out)
    from discreet.files import write_atomically
    from discreet.reproduce.overview import write_overview
    from discreet.reproduce.run import reproduce as run
    from discreet.reproduce.sweep import open_executor

    with open_executor(executor) as pool:
        for each in chosen:
            if isinstance(each, Statements):
                verdicts, page = check_statements(each, scale=scale, out=out, seed=seed)
                typer.echo(f"{each.title}\n{page}")
                rows = [[v.name, v.statement, "holds" if v.holds else "fails"] for v in verdicts]
                print_table(["", "statement", "measured"], rows)
            else:
                _print(run(each, scale=scale, out=out, seed=seed, executor=pool, progress=True))
    write_atomically(out / "index.md", write_overview(out, scale))


def _print(done: Reproduction) -> None:
    typer.echo(f"{done.figure.title}\n{done.page}")
    if done.verdicts:
        versions = done.figure.versions
        rows = [[claim, *(found[version].word for version in versions)] for claim, found in done.verdicts.items()]
        print_table(["claim", *versions], rows)

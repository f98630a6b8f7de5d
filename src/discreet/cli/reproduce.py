"""``discreet reproduce``: the papers' figures, with a verdict on everything that they say about them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.base.errors import InvalidInput, unknown_name
from discreet.cli.output import check_outputs, print_table

if TYPE_CHECKING:
    from experiments.papers import Reproduction


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

    Every finished run is kept: after an interruption the same command goes on where it was, in any number of pieces.
    """
    from experiments.papers.figure import SCALES

    from experiments.papers import FIGURES

    if list_ and name is not None:
        raise InvalidInput(f"--list lists all figures: leave it out, or leave out {name[:60]!r}")
    if list_:
        _list(out)
        return
    if name is None:
        raise InvalidInput("give the name of a figure, or all; --list shows them")
    if scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    chosen = [each for key, each in FIGURES.items() if name in ("all", key) or key.startswith(f"{name}/")]
    if not chosen:
        raise unknown_name("figure", name, FIGURES)
    check_outputs(folder=out)
    from experiments.papers.overview import write_claims, write_overview
    from experiments.papers.run import open_executor
    from experiments.papers.run import reproduce as run

    from discreet.base.files import write_atomically

    with open_executor(executor) as pool:
        for each in chosen:
            _print(run(each, scale=scale, out=out, seed=seed, executor=pool, progress=True))
    write_atomically(out / "index.md", write_overview(FIGURES.values(), out))
    write_atomically(out / "claims.md", write_claims(FIGURES.values(), out))


def _list(out: Path) -> None:
    """Every figure with its sizes, episodes and runs, how many statements it has, and their verdicts, if it was run."""
    from experiments.papers.overview import count_verdicts, saved_figures

    from experiments.papers import FIGURES

    done = {each.figure.name: f"{each.scale}: {count_verdicts(each)}" for each in saved_figures(FIGURES.values(), out)}
    width = max(len(name) for name in FIGURES) + 2
    typer.echo(f"Sizes are episodes × runs; verdicts, over all drawings, are those in {str(out)!r}.\n")
    for figure in FIGURES.values():
        sizes = [f"{name} {size.episodes:,} × {size.runs}" for name, size in figure.scales.items()]
        statements = f"{len(figure.claims)} statement{'s' if len(figure.claims) > 1 else ''}"
        typer.echo(f"{figure.name:{width}}{figure.title}")
        typer.echo(f"{'':{width}}{', '.join(sizes)}; {statements}; {done.get(figure.name, 'not run')}")


def _print(done: Reproduction) -> None:
    figure = done.figure
    typer.echo(f"{figure.title}\n{done.page}")
    words = {claim: [verdict.sentence() for verdict in found.values()] for claim, found in done.verdicts.items()}
    if not figure.jobs:
        rows = [[claim.name, claim.says, *words[claim.name]] for claim in figure.claims]
        print_table(["", "statement", *figure.versions], rows)
    elif words:
        print_table(["claim", *figure.versions], [[claim, *found] for claim, found in words.items()])

"""What ``discreet reproduce`` does: figures are run, and their verdicts are printed, or what there is is listed."""

from __future__ import annotations

from pathlib import Path

import typer

from discreet.base.errors import InvalidInput, unknown_name
from discreet.base.files import write_atomically
from discreet.cli.output import check_outputs, print_table
from discreet.simulation.experiments import open_executor
from experiments.papers import FIGURES, Reproduction
from experiments.papers.figure import SCALES
from experiments.papers.overview import count_verdicts, saved_figures, write_claims, write_overview
from experiments.papers.run import reproduce as run


def reproduce(name: str | None, listed: bool, scale: str, out: Path, executor: str, seed: int) -> None:
    """Run all figures of that name, or list them."""
    if listed and name is not None:
        raise InvalidInput(f"--list lists all figures: leave it out, or leave out {name[:60]!r}")
    if listed:
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
    with open_executor(executor) as pool:
        for each in chosen:
            _print(run(each, scale=scale, out=out, seed=seed, executor=pool, progress=True))
    write_atomically(out / "index.md", write_overview(FIGURES.values(), out))
    write_atomically(out / "claims.md", write_claims(FIGURES.values(), out))


def _list(out: Path) -> None:
    """Every figure with its sizes, episodes and runs, how many statements it has, and their verdicts, if it was run."""
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

"""``discreet matrix``: every learner under every trust model, in the same worlds, at the same epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.output import check_outputs, print_table


def matrix(
    epsilon: Annotated[float, typer.Option(help="At most this much privacy loss.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Except with this probability; above 0 for the shuffle model.")] = 1e-5,
    episodes: Annotated[int, typer.Option(help="How many users act, one episode each.")] = 10_000,
    runs: Annotated[int, typer.Option(help="How many independent runs of each cell.")] = 3,
    seed: Annotated[int, typer.Option(help="The seed of all randomness.")] = 0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the page, the picture and results go.")] = Path(
        "matrix"
    ),
    executor: Annotated[
        str, typer.Option(metavar="WHERE", help="threads, threads:N, or dask:ADDRESS of a cluster.")
    ] = "threads",
) -> None:
    """Run every learner under every trust model and draw the table; cells that cannot work say why."""
    check_outputs(folder=out)
    from discreet.files import write_atomically
    from discreet.reproduce.matrix import MODELS, cell_text, draw_matrix, run_matrix, write_matrix
    from discreet.reproduce.sweep import open_executor

    out.mkdir(parents=True, exist_ok=True)
    with open_executor(executor) as pool:
        done = run_matrix(
            out, pool, epsilon=epsilon, delta=delta, episodes=episodes, runs=runs, seed=seed, progress=True
        )
    write_atomically(out / "matrix.png", draw_matrix(done))
    write_atomically(out / "matrix.md", write_matrix(done))
    for place in done.places:
        typer.echo(place.label)
        rows = [
            [learner, *(cell_text(done.cell(learner, model, place)) for model in MODELS)] for learner in done.learners
        ]
        print_table(["learner", *MODELS], [row for row in rows if set(row[1:]) != {"–"}], right=MODELS)
    typer.echo(f"The page is {(out / 'matrix.md').absolute()}")

"""The studies: ``discreet reproduce``, the papers' figures with a verdict on everything that they say about them, and
``discreet matrix``, every learner under every trust model, in the same worlds, at the same epsilon.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.base.errors import InvalidInput, unknown_name
from discreet.cli.output import check_outputs, print_table

if TYPE_CHECKING:
    from discreet.reproduce import Reproduction

_Executor = Annotated[str, typer.Option(metavar="WHERE", help="threads, threads:N, or dask:ADDRESS of a cluster.")]
_Seed = Annotated[int, typer.Option(help="The seed of all randomness.")]


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A name from --list, the start of one, or all.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the figures and stop.")] = False,
    scale: Annotated[str, typer.Option(help="quick (minutes), or paper (the paper's own size).")] = "quick",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where pages, pictures and results go.")] = Path(
        "reproduction"
    ),
    executor: _Executor = "threads",
    seed: _Seed = 0,
) -> None:
    """Draw a paper's figure three times over: as published, certified, and with the auto recipe.

    Every finished run is kept: after an interruption the same command goes on where it was, in any number of pieces.
    """
    from discreet.reproduce import FIGURES
    from discreet.reproduce.figure import SCALES

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
    from discreet.base.files import write_atomically
    from discreet.reproduce.overview import write_claims, write_overview
    from discreet.reproduce.run import open_executor
    from discreet.reproduce.run import reproduce as run

    with open_executor(executor) as pool:
        for each in chosen:
            _print(run(each, scale=scale, out=out, seed=seed, executor=pool, progress=True))
    write_atomically(out / "index.md", write_overview(FIGURES.values(), out))
    write_atomically(out / "claims.md", write_claims(FIGURES.values(), out))


def _list(out: Path) -> None:
    """Every figure with its sizes, episodes and runs, how many statements it has, and their verdicts, if it was run."""
    from discreet.reproduce import FIGURES
    from discreet.reproduce.overview import count_verdicts, saved_figures

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


def matrix(
    epsilon: Annotated[float, typer.Option(help="At most this much privacy loss.")] = 1.0,
    delta: Annotated[float, typer.Option(help="The delta beside epsilon; above 0 for the shuffle model.")] = 1e-5,
    episodes: Annotated[int, typer.Option(help="How many users act, one episode each.")] = 10_000,
    runs: Annotated[int, typer.Option(help="How many independent runs of each cell.")] = 3,
    seed: _Seed = 0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the page, the picture and results go.")] = Path(
        "matrix"
    ),
    executor: _Executor = "threads",
) -> None:
    """Run every learner under every trust model and draw the table; cells that cannot work say why."""
    check_outputs(folder=out)
    _check_matrix(epsilon, delta, episodes, runs, seed)
    from discreet.base.files import folder_for, write_atomically
    from discreet.reproduce.matrix import MODELS, draw_matrix, run_matrix, write_matrix
    from discreet.reproduce.run import open_executor

    with folder_for(out), open_executor(executor) as pool:
        done = run_matrix(
            out, pool, epsilon=epsilon, delta=delta, episodes=episodes, runs=runs, seed=seed, progress=True
        )
    write_atomically(out / "matrix.png", draw_matrix(done))
    write_atomically(out / "matrix.md", write_matrix(done))
    for place in done.places:
        typer.echo(place.label)
        rows = [[learner, *(done.text(learner, model, place) for model in MODELS)] for learner in done.learners]
        print_table(["learner", *MODELS], [row for row in rows if set(row[1:]) != {"–"}], right=MODELS)
    typer.echo(f"The page is {(out / 'matrix.md').absolute()}")


def _check_matrix(epsilon: float, delta: float, episodes: int, runs: int, seed: int) -> None:
    """Refuse, before any cell is run, what only some cells would refuse later."""
    from discreet.base.validation import check_count
    from discreet.recipes.targets import Shuffle

    Shuffle(epsilon, delta)  # the model that asks most of a target
    check_count("episodes", episodes)
    check_count("runs", runs)
    check_count("seed", seed, at_least=0)

"""``discreet reproduce``: the papers' figures, with a verdict on everything that they say about them.

What draws them is not part of the package: it stands in ``experiments/`` of the repository, whose set-up installs an
entry point for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.base.errors import InvalidInput


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
    """Draw a paper's figure three times over: as published, certified, and with the auto recipe (only in a clone).

    Every finished run is kept: after an interruption the same command goes on where it was, in any number of pieces.
    """
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    for found in entry_points(group="discreet.experiments", name="papers"):
        if find_spec(found.module) is not None:  # a clone that was deleted leaves its entry behind
            found.load()(name, list_, scale, out, executor, seed)
            return
    raise InvalidInput(
        "figures of papers are drawn by the repository, not by the package: run make setup in a clone of it, and "
        ".venv/bin/discreet reproduce there"
    )

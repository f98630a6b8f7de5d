"""``discreet demo``: the price of privacy on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.base.errors import InvalidInput
from discreet.cli.output import check_outputs, print_table


def demo(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("discreet-demo.html"),
    runs: Annotated[int, typer.Option(help="How many independent runs of each.")] = 5,
    seed: Annotated[int, typer.Option(help="The seed of all randomness.")] = 7,
    episodes: Annotated[int, typer.Option(help="How many users act, one episode each.")] = 20_000,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the picture as well (.png, .svg, .pdf).")
    ] = None,
    theme: Annotated[str, typer.Option(help="The paper of that picture: light or dark.")] = "light",
) -> None:
    """Compare trust models on one world, in under a minute, and write one page about it."""
    check_outputs(page=out, plot=plot)
    if out.suffix not in (".html", ".htm"):
        raise InvalidInput(f"the page is HTML: --out must end in .html, got {out.name[:60]!r}")
    from discreet.base.pictures import checked_theme

    checked_theme(theme)
    from discreet.base.files import write_atomically
    from discreet.cli.demo_page import draw, render, run_demo

    comparison = run_demo(runs=runs, seed=seed, episodes=episodes, progress=True)
    page = render(comparison)
    if plot is not None:
        write_atomically(plot, draw(comparison, plot.suffix[1:], theme))
    write_atomically(out, page)
    print_table(
        ["trust model", "regret", "final gap", "guarantee"],
        [[row.label, row.regret, row.final_gap, row.guarantee] for row in comparison.rows()],
        right=["regret", "final gap"],
    )
    typer.echo(f"{comparison.subtitle}\nThe page is {out.absolute()}")

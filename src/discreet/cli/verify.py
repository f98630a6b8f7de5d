"""``discreet verify``: compute the promise of a receipt anew, from its certificate alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli import options as o
from discreet.cli.output import check_outputs, write_json


def verify(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="A receipt or a certificate (.json).")],
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The policy that the receipt should belong to (.json, .npz).")
    ] = None,
    json: o.JsonFile = None,
) -> None:
    """Check a privacy receipt: recompute epsilon from its noise and sensitivities, with exact arithmetic.

    Exit code 0: the promise holds. Exit code 1: it does not, or nobody can tell. Exit code 2: unreadable.
    """
    check_outputs(json_file=json, inputs=[("RECEIPT", receipt)])
    from discreet.tables.verify import verify as check

    verdict = check(receipt, policy=policy)
    write_json(json, verdict.as_dict())
    typer.echo(verdict.explain())
    if not verdict.holds:
        raise typer.Exit(1)

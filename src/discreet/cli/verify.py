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
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The fingerprint of the key that must have signed the receipt, or its file."),
    ] = None,
    json: o.JsonFile = None,
) -> None:
    """Check a privacy receipt: recompute epsilon from its noise and sensitivities, with exact arithmetic.

    Exit code 0: the promise holds. 1: it does not, nobody can tell, or --key did not sign it. 2: unreadable. 3: it is
    that of a simulation, which protects nobody.
    """
    check_outputs(json_file=json, inputs=[("RECEIPT", receipt)])
    from discreet.tables.verify import verify as check

    verdict = check(receipt, policy=policy, key=key)
    write_json(json, verdict.as_dict())
    typer.echo(verdict.explain())
    if verdict.code:
        raise typer.Exit(verdict.code)

"""``discreet shuffler``: the second party of a shuffled study, a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.base.errors import InvalidInput, Unsupported
from discreet.cli.origins import Origins, check_origins, open_to
from discreet.cli.study import StudyFile, check_address, read_declared
from discreet.cli.workers import Proxies, check_free, check_proxies, check_server, run_workers, told, warn_of_plain_http

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from discreet.study.shuffler.shuffler import Shuffler


def shuffler(
    study: StudyFile,
    db: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="FILE|URL", help="Its own database; by default STUDY.shuffler.db beside the declaration."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; put a proxy with TLS in front of others.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port to listen on.", min=0, max=65535)] = 8001,
    coordinator: Annotated[
        str, typer.Option(metavar="URL", help="Where the coordinator of the study answers.")
    ] = "http://127.0.0.1:8000",
    rate: Annotated[
        float, typer.Option(help="Reports per second that one address may send; 0: no limit here.", min=0.0)
    ] = 0.0,
    allow_origin: Origins = None,
    proxy: Proxies = None,
) -> None:
    """Shuffle the sealed messages of a study, as its second party, and hand permuted batches to the coordinator.

    It sees who sends and cannot read it; the coordinator reads it and cannot see who sent it. Whoever runs this must be
    somebody else than the coordinator: together they see everything.
    """
    check_server()
    proxies = check_proxies(proxy)
    from discreet.study.service.study_files import operator_token, shuffler_places_of

    origins = check_origins(allow_origin)
    read_declared(study).check_said()
    operator_token(shuffler_places_of(study).operator)
    check_free(host, port)
    opened = open_shuffler(study, db, coordinator)  # refused here, in one sentence
    typer.echo(f"{opened.declared.name}  {opened.declared.hash}")
    typer.echo(opened.mechanism.statement)
    typer.echo(opened.mechanism.collusion())
    typer.echo(f"http://{host}:{port}, batches go to {coordinator}", err=True)
    warn_of_plain_http(host, port)
    opened.stop()
    settings = {"study": str(study), "db": db, "coordinator": coordinator, "rate": rate, "origins": origins}
    run_workers("shuffler", settings, host, port, proxies=proxies)


def open_shuffler(study_file: Path, db: str | None, coordinator: str) -> Shuffler:
    """The shuffler of a study on its own database."""
    declared = read_declared(study_file)
    from discreet.client.errors import ClientError
    from discreet.client.transport import Connection
    from discreet.study.service.study_database import Database
    from discreet.study.service.study_files import shuffler_places_of
    from discreet.study.shuffler.shuffler import Shuffler
    from discreet.study.shuffler.shuffler_database import MIGRATIONS

    places = shuffler_places_of(study_file)
    try:
        connection = Connection(coordinator)
    except ClientError as refused:
        raise InvalidInput(str(refused)) from None
    if not connection.private:
        raise Unsupported(
            "the address of the coordinator begins with http: batches would travel in clear; take the https address"
        )
    database = Database(check_address(db) or places.database, MIGRATIONS, "shuffler")
    return Shuffler(declared, database, places, connection)


def worker() -> ASGIApp:
    """The application; its settings come from the command that started it."""
    from dataclasses import replace

    from discreet.study.service.study_files import operator_token, shuffler_places_of
    from discreet.study.shuffler.shuffler_app import ShufflerService, usual_limits

    settings, log = told("shuffler")
    file = Path(settings["study"])
    found = open_shuffler(file, settings["db"], settings["coordinator"])
    limits = replace(usual_limits(found), rate=settings["rate"])
    service = ShufflerService(found, operator_token(shuffler_places_of(file).operator), limits=limits, log=log)
    return open_to(service.app, settings["origins"])

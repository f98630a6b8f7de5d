"""``discreet serve``: a study for real users over HTTP."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.study import Db, StudyFile, open_coordinator, read_declared
from discreet.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_SETTINGS = "DISCREET_SERVE"  # how settings reach the worker processes


def serve(
    study: StudyFile,
    db: Db = None,
    host: Annotated[str, typer.Option(help="The address to listen on; put a proxy with TLS in front of others.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port to listen on.", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Processes that share the database.", min=1, max=64)] = 1,
    rate: Annotated[
        float, typer.Option(help="Reports per second that one address may send; 0: no limit here.", min=0.0)
    ] = 0.0,
) -> None:
    """Serve a study: policies out, reports in, rounds that close, a ledger that is kept. Stops gracefully."""
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("uvicorn", "serve") from None
    settings = {"study": str(study), "db": db, "rate": rate}
    from discreet.service.places import operator_token, places_of

    read_declared(study)
    operator_token(places_of(study).operator)
    _check_free(host, port)
    coordinator = open_coordinator(study, db)  # refused here, in one sentence, and not in every worker
    typer.echo(f"{coordinator.declared.name}  {coordinator.declared.hash}")
    typer.echo(coordinator.mechanism.statement)
    typer.echo(f"round {coordinator.published.row.number}, http://{host}:{port}", err=True)
    coordinator.stop()
    os.environ[_SETTINGS] = json.dumps(settings)
    with _counted_together(workers):
        uvicorn.run(
            "discreet.cli.serve:worker", factory=True, host=host, port=port, workers=workers, access_log=False,
            log_config=None, server_header=False, date_header=False, timeout_graceful_shutdown=30,
        )  # fmt: skip


def _check_free(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, before anything is opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        why = (error.strerror or "the system refused").lower()
        raise InvalidInput(f"cannot listen on {host} port {port}: {why}; choose another --port or --host") from None


@contextmanager
def _counted_together(workers: int) -> Iterator[None]:
    """Let several workers add up their metrics, in a temporary folder that they are told of before they start."""
    if workers == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="discreet-metrics-") as folder:
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)
        yield


def worker() -> ASGIApp:
    """The application of one worker process; its settings come from the command that started it."""
    import logging
    from dataclasses import replace

    from discreet.service.app import Service, usual_limits
    from discreet.service.places import operator_token, places_of
    from discreet.service.watching import Log, ServerLog

    try:
        settings = json.loads(os.environ[_SETTINGS])
    except (KeyError, ValueError):
        raise InvalidInput("a worker is started by  discreet serve") from None
    log = Log()
    logging.getLogger().addHandler(ServerLog(log))  # of everybody: messages of others may quote requests
    file = Path(settings["study"])
    coordinator = open_coordinator(file, settings["db"])
    limits = replace(usual_limits(coordinator), rate=settings["rate"])
    return Service(coordinator, operator_token(places_of(file).operator), limits=limits, log=log).app

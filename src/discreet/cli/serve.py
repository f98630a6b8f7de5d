"""``discreet serve``: a study for real users over HTTP."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.base.errors import InvalidInput, Unsupported
from discreet.cli import options as o
from discreet.cli.origins import Origins, check_origins, open_to
from discreet.cli.study import Db, StudyFile, open_coordinator, read_declared
from discreet.cli.workers import Proxies, check_free, check_proxies, check_server, run_workers, told, warn_of_plain_http

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from discreet.study.service.declaration import Study
    from discreet.worlds.tabular import TabularWorld

_REHEARSAL = "Rehearsal"
_SWITCH = 0.0005  # seconds until a thread that counts lets one go on that answers; each statement of SQL waits for it


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
    allow_origin: Origins = None,
    proxy: Proxies = None,
    world: Annotated[
        str | None,
        typer.Option(
            help="The world of a rehearsal with discreet crowd: the dashboard then shows the exact regret of released "
            "policies in it. Leave it out with real people.",
            rich_help_panel=_REHEARSAL,
            autocompletion=o.complete_world,
        ),
    ] = None,
    states: o.States = None,
    actions: o.Actions = None,
    horizon: o.Horizon = None,
    world_option: o.WorldOptions = None,
    instance: o.Instance = None,
) -> None:
    """Serve a study: policies out, reports in, rounds that close, a ledger that is kept. Stops gracefully.

    The address itself is a page for participants; /dashboard is for the person who runs the study and asks for the
    operator's token, which stands in STUDY.operator.
    """
    check_server()
    proxies = check_proxies(proxy)
    sizes = {"states": states, "actions": actions, "horizon": horizon, "instance": instance}
    rehearsal = None if world is None else {"world": world, "sizes": sizes, "options": world_option}
    settings = {
        "study": str(study),
        "db": db,
        "rate": rate,
        "rehearsal": rehearsal,
        "origins": check_origins(allow_origin),
    }
    from discreet.simulation.progress import still_at
    from discreet.study.service.declaration import read_study
    from discreet.study.service.study_files import operator_token, places_of

    read_declared(study).check_said()
    operator_token(places_of(study).operator)
    if rehearsal is not None:
        _rehearsed(rehearsal, read_study(study))  # before anything is opened
    check_free(host, port)
    with still_at("opening the study (the first time, code is compiled)"):
        coordinator = open_coordinator(study, db)  # refused here, in one sentence, and not in every worker
    typer.echo(f"{coordinator.declared.name}  {coordinator.declared.hash}")
    typer.echo(coordinator.mechanism.statement)
    typer.echo(f"round {coordinator.published.row.number}, http://{host}:{port}", err=True)
    typer.echo(f"dashboard  http://{host}:{port}/dashboard  with the token in {places_of(study).operator}", err=True)
    warn_of_plain_http(host, port)
    coordinator.stop()
    with _counted_together(workers):
        run_workers("serve", settings, host, port, workers, proxies=proxies)


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
    from dataclasses import replace

    from discreet.study.service.app import Service, usual_limits
    from discreet.study.service.study_files import operator_token, places_of

    settings, log = told("serve")
    sys.setswitchinterval(_SWITCH)
    file = Path(settings["study"])
    coordinator = open_coordinator(file, settings["db"])
    limits = replace(usual_limits(coordinator), rate=settings["rate"])
    world = _rehearsed(settings["rehearsal"], coordinator.declared)
    token = operator_token(places_of(file).operator)
    return open_to(Service(coordinator, token, limits=limits, log=log, world=world).app, settings["origins"])


def _rehearsed(asked: dict[str, Any] | None, study: Study) -> TabularWorld | None:
    """The world of a rehearsal; refused if it is not of the shape that the study declares."""
    if asked is None:
        return None
    from discreet.worlds.tabular import TabularWorld

    world = o.choose_world(asked["world"], asked["sizes"], asked["options"], None)
    if not isinstance(world, TabularWorld):
        raise Unsupported("a rehearsal has one tabular world: choose an --instance of a random one")
    own, declared = world.shape, study.shape
    for name, found, wanted in (
        ("states", own.states, declared.states),
        ("actions", own.actions, declared.actions),
        ("steps", own.horizon, declared.horizon),
        ("a range of rewards", own.rewards, declared.rewards),
    ):
        if found != wanted:
            raise InvalidInput(f"the study has {name} {wanted}, and world {world.name} {found}: choose another world")
    return world

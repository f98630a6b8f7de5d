"""What ``discreet serve`` and ``discreet shuffler`` share: workers that are told their settings, and log alike.

The command opens its party once, so that what is wrong is refused in one sentence, and stops it. Workers are processes
that open it again: their settings reach them through the environment.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from discreet.base.errors import InvalidInput, MissingExtra
from discreet.base.system import check_serves

if TYPE_CHECKING:
    from discreet.study.service.monitoring import Log

Proxies: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--proxy", metavar="ADDRESS",
        help="A proxy in front, or a network of them, whose X-Forwarded-For says where a request comes from; may be "
        "repeated. Without it the header is ignored.",
    ),
]  # fmt: skip
_LEAVE = 4.5  # seconds from a signal to stop until the process ends
_SECONDS = 0.5  # between two looks whether the supervisor is there


def check_server() -> None:
    """Refuse to go on where the web server is not installed, or the system cannot hold a study."""
    check_serves()
    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtra("uvicorn", "serve") from None


def check_free(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, before anything is opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        why = (error.strerror or "the system refused").lower()
        raise InvalidInput(f"cannot listen on {host} port {port}: {why}; choose another --port or --host") from None


def warn_of_plain_http(host: str, port: int) -> None:
    """Say that others can reach this address, and read what goes over it; a loopback address is this machine's own."""
    import ipaddress

    try:
        own = ipaddress.ip_address(host).is_loopback
    except ValueError:
        own = host == "localhost"
    if not own:
        typer.echo(
            f"http://{host}:{port} is plain HTTP, which whoever is on the way reads and changes: let only a proxy with "
            "TLS reach it",
            err=True,
        )


def check_proxies(given: list[str] | None) -> list[str]:
    """The addresses of proxies, whose word about where a request comes from is taken; nobody else's is."""
    import ipaddress

    for each in given or ():
        try:
            ipaddress.ip_network(each, strict=False)
        except ValueError:
            raise InvalidInput(
                f"--proxy is the address of a proxy, such as 127.0.0.1 or 10.0.0.0/8, got {each!r}"
            ) from None
    return list(given or ())


def run_workers(
    command: str, settings: dict[str, Any], host: str, port: int, number: int = 1, proxies: Sequence[str] = ()
) -> None:
    """Serve ``discreet.cli.COMMAND:worker`` until somebody stops it; nothing of a request is logged by the server."""
    import uvicorn

    from discreet.study.service.connections import BACKLOG, Bounded

    os.environ[_variable(command)] = json.dumps({**settings, "supervisor": os.getpid(), "proxies": list(proxies)})
    uvicorn.run(
        f"discreet.cli.{command}:worker", factory=True, host=host, port=port, workers=number, access_log=False,
        log_config=None, server_header=False, date_header=False, timeout_graceful_shutdown=30,
        proxy_headers=bool(proxies), forwarded_allow_ips=list(proxies), http=Bounded, backlog=BACKLOG,
    )  # fmt: skip


def told(command: str) -> tuple[dict[str, Any], Log]:
    """The settings of this worker, and its log, which what other packages log goes through as well."""
    import logging

    from discreet.study.service.connections import Bounded, usual_bounds
    from discreet.study.service.monitoring import Log, ServerLog

    try:
        settings = json.loads(os.environ[_variable(command)])
    except (KeyError, ValueError):
        raise InvalidInput(f"a worker is started by  discreet {command}") from None
    Bounded.bounds = usual_bounds(settings["proxies"])
    log = Log()
    _leave_soon(log)
    if settings["supervisor"] != os.getpid():
        threading.Thread(target=_die_with, args=(settings["supervisor"],), name="supervisor", daemon=True).start()
    logging.getLogger().addHandler(ServerLog(log))  # of everybody: messages of others may quote requests
    return settings, log


def _leave_soon(log: Log) -> None:
    """Once told to stop, be gone in a few seconds whatever hangs: what a crash at any moment means is seen to."""

    def leave() -> None:
        log.write("cut short", remedy="none: what was not finished is done at the next start")
        os._exit(0)

    def heard(number: int, frame: FrameType | None) -> None:
        timer = threading.Timer(_LEAVE, leave)
        timer.daemon = True
        timer.start()
        before[number](number, frame)

    before: dict[int, Any] = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        if callable(listener := signal.getsignal(number)):
            before[number] = listener
            signal.signal(number, heard)


def _die_with(supervisor: int) -> None:
    """Stop gracefully when the process that started this one is gone: nobody would watch, stop or replace it."""
    while os.getppid() == supervisor:
        time.sleep(_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def _variable(command: str) -> str:
    return f"DISCREET_{command.upper()}"

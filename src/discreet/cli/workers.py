"""What ``discreet serve`` and ``discreet shuffler`` share: workers that are told their settings, and log alike.

The command opens its party once, so that what is wrong is refused in one sentence, and stops it. Workers are processes
that open it again: their settings reach them through the environment.
"""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

from discreet.base.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from discreet.study.service.monitoring import Log


def check_server() -> None:
    """Refuse to go on where the web server is not installed."""
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


def run_workers(command: str, settings: dict[str, Any], host: str, port: int, number: int = 1) -> None:
    """Serve ``discreet.cli.COMMAND:worker`` until somebody stops it; nothing of a request is logged by the server."""
    import uvicorn

    os.environ[_variable(command)] = json.dumps(settings)
    uvicorn.run(
        f"discreet.cli.{command}:worker", factory=True, host=host, port=port, workers=number, access_log=False,
        log_config=None, server_header=False, date_header=False, timeout_graceful_shutdown=30,
    )  # fmt: skip


def told(command: str) -> tuple[dict[str, Any], Log]:
    """The settings of this worker, and its log, which what other packages log goes through as well."""
    import logging

    from discreet.study.service.monitoring import Log, ServerLog

    try:
        settings = json.loads(os.environ[_variable(command)])
    except (KeyError, ValueError):
        raise InvalidInput(f"a worker is started by  discreet {command}") from None
    log = Log()
    logging.getLogger().addHandler(ServerLog(log))  # of everybody: messages of others may quote requests
    return settings, log


def _variable(command: str) -> str:
    return f"DISCREET_{command.upper()}"

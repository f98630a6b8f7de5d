"""What tests share that start real servers and kill them: processes, their ports, and what has to be ready before."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx

# Everything that a server imports when it starts, so that forked processes have it and kills hit their work.
import uvicorn
import uvicorn.lifespan.on
import uvicorn.loops.auto
import uvicorn.protocols.http.auto
import uvicorn.protocols.websockets.auto  # noqa: F401

FINAL = ("closed", "ended")  # refusals that a report may meet if rounds close meanwhile


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def forked(run: Callable[[], None], log: Path) -> int:
    """The number of a process that runs this until it is killed; what it prints goes to a file."""
    child = os.fork()
    if child:
        return child
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        run()
    finally:
        os._exit(1)


def answers(port: int, child: int) -> bool:
    """Wait until a process listens; false if it is gone before."""
    while True:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return False
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        time.sleep(0.005)


def check_killed(child: int, log: Path) -> None:
    """Wait for a process that was killed, and see that it did not end by itself."""
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "a server ended by itself: " + log.read_text()[-2000:]


def shortest(work: Callable[[], None], times: int = 3) -> float:
    """The seconds that some work takes on a machine that does nothing else just then."""
    found = []
    for _ in range(times):
        began = time.monotonic()
        work()
        found.append(time.monotonic() - began)
    return min(found)


def clients() -> httpx.AsyncClient:
    """Clients of servers on this machine, without certificates, which take longer to load than a report to send."""
    return httpx.AsyncClient(timeout=10.0, verify=False)


def is_final(answer: httpx.Response) -> bool:
    """Whether the same bytes need not be sent again; fails on an answer that no honest report may get."""
    assert answer.status_code != 500, "an internal error"
    if answer.status_code in (429, 503):
        return False
    assert answer.status_code == 200 or (answer.status_code, answer.json()["error"]) in [(410, f) for f in FINAL]
    return True

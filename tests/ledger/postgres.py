"""A PostgreSQL server of one's own in a temporary folder, reached by a socket there; the system is left alone."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MISSING = "PostgreSQL is not installed: on Debian  apt-get install -y postgresql  as root (.ci/ensure-postgresql)"


def programs() -> Path | None:
    """The folder of initdb and postgres: Debian keeps them off the path."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None, key=lambda path: int(path.parent.name))


def _as_somebody() -> tuple[list[str], int | None]:
    """PostgreSQL refuses root: the words that run a command as nobody, and nobody's number."""
    if os.geteuid() != 0:
        return [], None
    nobody = pwd.getpwnam("nobody")
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"], nobody.pw_uid


@contextmanager
def server() -> Iterator[str]:
    """The address of a new database, as long as the block runs."""
    here, (somebody, number) = programs(), _as_somebody()
    assert here is not None, MISSING
    folder = Path(tempfile.mkdtemp(prefix="discreet-pg-", dir="/tmp"))  # the name of a socket must be short
    if number is not None:
        os.chown(folder, number, -1)
    data = folder / "data"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    owner = ["-U", "owner", "--auth=trust", "--no-sync"]
    try:
        subprocess.run([*somebody, here / "initdb", "-D", data, *owner], check=True, **quiet)
        settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "max_connections=80"]
        running = subprocess.Popen([*somebody, here / "postgres", "-D", data, *settings], **quiet)
        try:
            address = f"postgresql://owner@/postgres?host={folder}"
            _wait(running, address)
            yield address
        finally:
            running.send_signal(signal.SIGINT)  # fast shutdown
            running.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(running: subprocess.Popen[bytes], address: str) -> None:
    import psycopg

    for _ in range(600):
        assert running.poll() is None, "the PostgreSQL server stopped"
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the PostgreSQL server did not start within a minute")

"""A service of its own for a rehearsal: a copy of the study in a temporary folder, served by a process on a free port.

The copy has the key of the study where it lies beside the declaration; otherwise it gets a new one, and so another
hash. Where people are invited, the copy has invitations of its own. Nothing of the rehearsal touches the database, the
head or the round keys of the real study.
"""

from __future__ import annotations

import io
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import typer

from discreet.cli.study import tokens
from discreet.client.errors import ClientError
from discreet.client.transport import Connection
from discreet.errors import Unsupported
from discreet.service.places import make_operator_token, places_of
from discreet.service.study import read_study

_SECONDS = 120.0  # until a service must answer
_STOP = 15.0
_TELL = 4.0  # seconds after which it is said again that the service is starting
_START = "from discreet.cli import main; main()"


class Served(NamedTuple):
    """Where a study is served, its hash there, and invitations to it."""

    url: str
    study_hash: str
    tokens: tuple[str, ...] = ()


@contextmanager
def served(study_file: Path, people: int = 1) -> Iterator[Served]:
    """Serve a copy of a study to so many people until the block ends."""
    with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
        copy = _copied(study_file, Path(folder))
        study = read_study(copy)
        invited = _invited(copy, people) if study.invited else ()
        port, log = _free_port(), Path(folder) / "log"
        with log.open("wb") as out:
            command = [sys.executable, "-c", _START, "serve", str(copy), "--port", str(port)]
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, Connection(url, 2.0), log)
            yield Served(url, study.hash, invited)
        finally:
            process.terminate()
            try:
                process.wait(_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _copied(file: Path, folder: Path) -> Path:
    from discreet.ledger.heads import make_key

    study, copy = read_study(file), folder / file.name
    places, text = places_of(copy), file.read_text()
    key = places_of(file).signing
    if key.exists():
        shutil.copyfile(key, places.signing)
        places.signing.chmod(0o600)
    else:
        text = text.replace(study.signing_key, make_key(places.signing))
    make_operator_token(places.operator)
    copy.write_text(text)
    return copy


def _invited(copy: Path, people: int) -> tuple[str, ...]:
    file = copy.with_suffix(".tokens")
    with redirect_stdout(io.StringIO()):
        tokens(copy, people, file)
    return tuple(file.read_text().split())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], connection: Connection, log: Path) -> None:
    """Until the service answers. The first time this takes a while, and somebody may be watching."""
    begun = told = time.monotonic()
    while time.monotonic() < begun + _SECONDS:
        if time.monotonic() > told + _TELL:
            told = time.monotonic()
            typer.echo(f"the service is starting ({told - begun:.0f} s; the first time it compiles)", err=True)
        if process.poll() is not None:
            break
        try:
            if connection.ask("GET", "/healthz").status == 200:
                connection.close()
                return
        except ClientError:
            pass
        time.sleep(0.1)
    lines = log.read_text(errors="replace").strip().splitlines()
    said = lines[-1][:300] if lines else "it said nothing"
    raise Unsupported(f"the service of the rehearsal did not start: {said.removeprefix('discreet: ')}")

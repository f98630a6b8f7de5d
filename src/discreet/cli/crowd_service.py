"""A service of its own for a rehearsal: a copy of the study in a temporary folder, served by a process on a free port.

A shuffled study has two parties, so two processes are started, each with its own files in a folder of its own.

The copy has the key of the study where it lies beside the declaration; otherwise it gets a new one, and so another
hash; so does one that does not say its ``local_epsilon`` yet. Where people are invited, the copy has invitations of its
own. Nothing of the rehearsal touches the database, the head or the round keys of the real study.
"""

from __future__ import annotations

import io
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import typer

from discreet.base.errors import Unsupported
from discreet.cli.study import tokens
from discreet.client.errors import ClientError
from discreet.client.transport import Connection
from discreet.study.service.declaration import Study, read_study
from discreet.study.service.sealing import make_sealing_key
from discreet.study.service.study_files import make_operator_token, places_of, shuffler_places_of

_SECONDS = 120.0  # until a service must answer
_STOP = 15.0
_TELL = 4.0  # seconds after which it is said again that the service is starting
_START = "from discreet.cli import main; main()"


class Served(NamedTuple):
    """Where a study is served, its hash there, invitations to it, and where its shuffler is if it has one."""

    url: str
    study_hash: str
    tokens: tuple[str, ...] = ()
    shuffler: str | None = None


@contextmanager
def served(study_file: Path, people: int = 1) -> Iterator[Served]:
    """Serve a copy of a study to so many people until the block ends."""
    with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
        copy = _copied(study_file, Path(folder))
        study, second = read_study(copy), _second(copy)
        invited = _invited(second if study.shuffled else copy, people) if study.invited else ()
        with ExitStack() as processes:
            url, shuffler = processes.enter_context(_process("serve", copy)), None
            if study.shuffled:
                shuffler = processes.enter_context(_process("shuffler", second, "--coordinator", url))
            yield Served(url, study.hash, invited, shuffler)


def _second(copy: Path) -> Path:
    """Where the shuffler of a rehearsal has its files."""
    return copy.parent / "shuffler" / copy.name


@contextmanager
def _process(command: str, study_file: Path, *options: str) -> Iterator[str]:
    """A command that serves a study on a free port until the block ends; gives its address."""
    port, log = _free_port(), study_file.parent / "log"
    with log.open("wb") as out:
        words = [sys.executable, "-c", _START, command, str(study_file), "--port", str(port), *options]
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(process, Connection(url, 2.0), log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _copied(file: Path, folder: Path) -> Path:
    from discreet.ledger.keys import make_key

    study, copy = read_study(file), folder / file.name
    places, text = places_of(copy), _said(study, file.read_text())
    key = places_of(file).signing
    if key.exists():
        shutil.copyfile(key, places.signing)
        places.signing.chmod(0o600)
    else:
        text = text.replace(study.signing_key, make_key(places.signing))
    make_operator_token(places.operator)
    if study.shuffled:
        text = _with_two_parties(copy, text, study)
    copy.write_text(text)
    return copy


def _said(study: Study, text: str) -> str:
    """The declaration of a rehearsal, with something in the place of what is not said yet."""
    for name in study.unsaid:
        text = re.sub(rf"""^{name}\s*=\s*(["'])\s*\1""", "", text, flags=re.MULTILINE)
    more = "".join(f'{name} = "A rehearsal"\n' for name in study.unsaid if name != "epsilon")
    if "epsilon" in study.unsaid:
        rehearsed = f"[privacy]\nepsilon = {study.declaration['privacy']['epsilon']}"
        text = re.sub(r"^\[privacy\]", rehearsed, text, count=1, flags=re.MULTILINE)
    return more + text


def _with_two_parties(copy: Path, text: str, study: Study) -> str:
    """Keys for both parties of a rehearsal, always new ones: nobody has both of the real ones."""
    from discreet.ledger.keys import make_key

    second = _second(copy)
    second.parent.mkdir(mode=0o700)
    places = shuffler_places_of(second)
    make_operator_token(places.operator)
    text = text.replace(study.sealing_key.hex(), make_sealing_key(places_of(copy).sealing))
    text = text.replace(study.shuffler_key, make_key(places.signing))
    if study.local_epsilon == "":
        text = _with_local_epsilon(text, study)
    second.write_text(text)
    return text


def _with_local_epsilon(text: str, study: Study) -> str:
    """The least number that can stand there: a rehearsal needs one, and says so."""
    from discreet.study.service.study_mechanism import completed

    stated = f"local_epsilon = {completed(study).local_epsilon}"
    typer.echo(f"[shuffle] says nothing of both parties together: {stated} is taken for this rehearsal", err=True)
    text = re.sub(r"(?m)^local_epsilon\s*=.*\n", "", text)
    return re.sub(r"(?m)^(\[shuffle\].*)$", rf"\1\n{stated}", text, count=1)


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

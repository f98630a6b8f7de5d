"""Studies for tests of pages: served by a real process on a port of this machine, with a crowd of simulated people."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Self

from tests.study.service.small_studies import said
from tests.study.shuffler.two_parties import SMALL

from discreet.client import Device
from discreet.client.store import MemoryStore
from discreet.client.transport import Connection, Service
from discreet.study.service.declaration import read_study
from discreet.study.service.study_files import new_study, operator_token, places_of, shuffler_folder

ROOT = Path(__file__).parents[2]
START = [sys.executable, "-c", "from discreet.cli import main; main()"]
PATIENCE = 60.0
WALK = random.Random(1)
RIVER = {
    'title = "Which reminder helps?"': 'title = "Which way does the river flow?"',
    "What is asked.": "Swimmers choose a stroke at every bend of a river, six times. The "
    "study learns which stroke carries people to the sea.",
    "states = 4 ": 'states = ["spring", "rapids", "bend", "sea"] ',
    "actions = 2 ": 'actions = ["drift", "swim"] ',
}
WORLD = ["--world", "river-swim", "--states", "4", "--horizon", "6"]


def declared(folder: Path, number: int, changes: Mapping[str, str] = RIVER) -> Path:
    """A study file with these changes of the commented one."""
    file = folder / "river.toml"
    new_study(file)
    text = said(file)
    for old, new in {**changes, "number = 20000": f"number = {number}"}.items():
        assert old in text, old
        text = text.replace(old, new)
    file.write_text(text)
    return file


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """A command that answers on a port until it is stopped; it can be killed and started again, on the same port."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.port, self.log, self._arguments = free_port(), log, arguments
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = run(self.log, *self._arguments, "--port", str(self.port))
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/healthz", timeout=10):
                    return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(self.log.read_text()[-2000:])

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop it by a signal, and wait until it is gone."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None


def run(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """The command line in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    with log.open("ab") as out:
        return subprocess.Popen([*START, *arguments], stdout=out, stderr=subprocess.STDOUT, env=environment)


class LiveStudy(Process):
    """A study that is served to real devices, with the crowds that take part."""

    def __init__(self, file: Path, *options: str) -> None:
        super().__init__(file.with_suffix(".log"), "serve", str(file), *options)
        self.file = file
        self._crowds: list[subprocess.Popen[bytes]] = []

    @property
    def token(self) -> str:
        """The operator's token."""
        return operator_token(places_of(self.file).operator)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._crowds:
            process.kill()
            process.wait()
        self.stop()

    def crowd(self, people: int, *options: str, wait: bool = True) -> None:
        """Let so many simulated people take part; do not wait for them if somebody wants to watch."""
        arguments = ["crowd", str(self.file), *WORLD, "--url", self.url, "--users", str(people), *options]
        process = run(self.log, *arguments)
        if wait:
            assert process.wait(PATIENCE) == 0, self.log.read_text()[-2000:]
        else:
            self._crowds.append(process)

    @property
    def crowd_is_over(self) -> bool:
        """Whether all crowds that nobody waited for have ended, well or not."""
        return all(process.poll() is not None for process in self._crowds)

    def people(self, number: int) -> None:
        """Let so many people take part one after the other, who walk at random; quicker to begin than a crowd."""
        for _ in range(number):
            self.person().send()

    def person(self) -> Device:
        """The device of somebody who has acted, and has sent nothing yet."""
        device = Device(self.seen, MemoryStore(), study_hash=self.hash, at_once=True)
        device.begin()
        state = 0
        for step in range(self.seen.study().horizon):
            device.record(step, state, device.act(step, state), float(WALK.random() < 0.1))
            state = WALK.randrange(self.seen.study().states)
        device.finish()
        return device

    @cached_property
    def seen(self) -> Service:
        """The service as devices see it."""
        return Service(Connection(self.url), self.hash)

    @cached_property
    def hash(self) -> str:
        """What devices agree to."""
        return read_study(self.file).hash

    def get(self, path: str) -> bytes:
        """An answer of the service; with the operator's token where it is for the operator."""
        request = urllib.request.Request(self.url + path)
        if path.startswith(("/v1/operator", "/v1/status")):
            request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bytes(answer.read())

    def post(self, body: bytes) -> int:
        """Send something as a report; gives the status."""
        request = urllib.request.Request(f"{self.url}/v1/reports", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    def status(self) -> dict[str, object]:
        """Where the study stands."""
        return dict(json.loads(self.get("/v1/status")))


class ShuffledStudy(LiveStudy):
    """A small shuffled study, whose shuffler is another process with files of its own."""

    def __init__(self, folder: Path) -> None:
        file = folder / "small.toml"
        new_study(file, "shuffle")
        said(file, 1.0)
        super().__init__(file)
        second = shuffler_folder(file) / file.name
        self.shuffler = Process(folder / "shuffler.log", "shuffler", str(second), "--coordinator", self.url)
        text = file.read_text()
        for old, new in {**SMALL, 'address = ""': f'address = "{self.shuffler.url}"'}.items():
            assert old in text, old
            text = text.replace(old, new)
        file.write_text(text)
        second.write_text(text)

    def __enter__(self) -> Self:
        super().__enter__()
        self.shuffler.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shuffler.stop()
        super().__exit__(*error)

    @cached_property
    def seen(self) -> Service:
        """Both parties as devices see them."""
        return Service(Connection(self.url), self.hash, shuffler=Connection(self.shuffler.url))

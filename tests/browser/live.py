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
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from discreet.client import Device
from discreet.client.store import MemoryStore
from discreet.client.transport import Connection, Service
from discreet.service.places import new_study, operator_token, places_of
from discreet.service.study import read_study

ROOT = Path(__file__).parents[2]
START = [sys.executable, "-c", "from discreet.cli import main; main()"]
PATIENCE = 60.0
RIVER = {
    'title = "Which reminder helps?"': 'title = "Which way does the river flow?"',
    "What is asked and why, in a sentence or two.": "Swimmers choose a stroke at every bend of a river, six times. The "
    "study learns which stroke carries people to the sea.",
    "states = 4 ": 'states = ["spring", "rapids", "bend", "sea"] ',
    "actions = 2 ": 'actions = ["drift", "swim"] ',
}
WORLD = ["--world", "river-swim", "--states", "4", "--horizon", "6"]


def declared(folder: Path, number: int, changes: Mapping[str, str] = RIVER) -> Path:
    """A study file with these changes of the commented one."""
    file = folder / "river.toml"
    new_study(file)
    text = file.read_text()
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


class LiveStudy:
    """A study that can be served, killed and served again, on the same port."""

    def __init__(self, file: Path, *options: str) -> None:
        self.file, self._options, self.port = file, options, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = file.with_suffix(".log")
        self._server: subprocess.Popen[bytes] | None = None
        self._crowds: list[subprocess.Popen[bytes]] = []

    @property
    def token(self) -> str:
        """The operator's token."""
        return operator_token(places_of(self.file).operator)

    def __enter__(self) -> LiveStudy:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        for process in [*self._crowds, *([self._server] if self._server else [])]:
            process.kill()
            process.wait()

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
        with self.log.open("ab") as out:
            return subprocess.Popen([*START, *arguments], stdout=out, stderr=subprocess.STDOUT, env=environment)

    def start(self) -> None:
        """Serve, and wait until it answers."""
        self._server = self._run("serve", str(self.file), "--port", str(self.port), *self._options)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self._server.poll() is None:
            try:
                self.get("/healthz")
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(self.log.read_text()[-2000:])

    def stop(self, how: signal.Signals = signal.SIGKILL) -> float:
        """Stop the coordinator by a signal; gives how long it took."""
        assert self._server is not None
        began = time.monotonic()
        self._server.send_signal(how)
        self._server.wait(PATIENCE)
        self._server = None
        return time.monotonic() - began

    def crowd(self, people: int, *options: str, wait: bool = True) -> None:
        """Let so many simulated people take part; do not wait for them if somebody wants to watch."""
        arguments = ["crowd", str(self.file), *WORLD, "--url", self.url, "--users", str(people), *options]
        process = self._run(*arguments)
        if wait:
            assert process.wait(PATIENCE) == 0, self.log.read_text()[-2000:]
        else:
            self._crowds.append(process)

    def people(self, number: int) -> None:
        """Let so many people take part one after the other, who walk at random; quicker to begin than a crowd."""
        seen, agreed = Service(Connection(self.url), self.hash), self.hash
        walk = random.Random(number)
        for _ in range(number):
            device = Device(seen, MemoryStore(), study_hash=agreed, at_once=True)
            device.begin()
            state = 0
            for step in range(seen.study().horizon):
                device.record(step, state, device.act(step, state), float(walk.random() < 0.1))
                state = walk.randrange(seen.study().states)
            device.finish()
            device.send()

    @property
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

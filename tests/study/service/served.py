"""A study served in this process, and devices that reach it over HTTP (through the whole web application)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from tests.study.service.small_studies import said

from discreet.client import Device
from discreet.client.store import MemoryStore
from discreet.client.transport import Answer
from discreet.client.transport import Service as Seen
from discreet.study.service.app import Service
from discreet.study.service.coordinator import Coordinator
from discreet.study.service.declaration import read_study
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import new_study, places_of

PATIENCE = 60.0


def declare(folder: Path, **values: Any) -> Path:
    """A study file; ``values`` replace lines of the commented one."""
    file = folder / "served.toml"
    new_study(file)
    said(file)
    lines = []
    for line in file.read_text().splitlines():
        key = line.split(" = ")[0]
        lines.append(f"{key} = {values.pop(key)}" if key in values else line)
    assert not values
    file.write_text("\n".join(line for line in lines if not line.endswith("= None")) + "\n")
    return file


class Served:
    """A served study, as a device and as an auditor see it. ``sent`` are the bodies of reports that were accepted."""

    private = True

    def __init__(self, client: TestClient, coordinator: Coordinator) -> None:
        self.client, self.coordinator = client, coordinator
        self.seen = Seen(self, coordinator.declared.hash)
        self.sent: list[bytes] = []

    def ask(self, method: str, path: str, body: bytes | None = None, token: str | None = None) -> Answer:
        """One request over HTTP."""
        answer = self.client.request(method, path, content=body)
        if method == "POST" and answer.status_code == 200:
            assert body is not None
            self.sent.append(body)
        return Answer(answer.status_code, answer.content)

    def policy(self) -> dict[str, Any]:
        """What is handed out now."""
        return dict(self.client.get("/v1/policy").json())

    def heads(self) -> list[dict[str, Any]]:
        """The chain."""
        return list(self.client.get("/v1/heads?from=1").json()["heads"])

    def take_part(self, record: Callable[[Callable[[int, int], int]], list[tuple[int, int, float]]]) -> None:
        """One person, whose record may depend on what the policy takes at a step and state."""
        device = Device(self.seen, MemoryStore(), study_hash=self.coordinator.declared.hash, at_once=True)
        device.begin()
        for step, (state, action, reward) in enumerate(record(device.act)):
            device.record(step, state, action, reward)
        device.finish()
        device.send()

    def wait(self, number: int) -> None:
        """Until a later round than this one is handed out."""
        end = time.monotonic() + PATIENCE
        while self.coordinator.published.row.number <= number:
            assert time.monotonic() < end, "the round does not close"
            time.sleep(0.002)


@contextmanager
def serving(file: Path, **options: Any) -> Iterator[Served]:
    """Serve a study file over a fresh database."""
    places = places_of(file)
    for old in (places.database, places.head):
        old.unlink(missing_ok=True)
    shutil.rmtree(places.marks, ignore_errors=True)
    coordinator = Coordinator(read_study(file), Database(str(places.database)), places, **options)
    with TestClient(Service(coordinator, "operator").app) as client:
        yield Served(client, coordinator)

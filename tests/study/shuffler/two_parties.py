"""A small shuffled study with both parties in one process: what one sends reaches the other without a network."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
from tests.study.service.small_studies import said

from discreet.client.device import Device
from discreet.client.errors import Rejected, Unreachable
from discreet.client.store import MemoryStore
from discreet.client.transport import Answer, Service
from discreet.study.service.coordinator import Coordinator
from discreet.study.service.declaration import read_study
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import new_study, places_of, shuffler_folder, shuffler_places_of
from discreet.study.service.wire_messages import Refused
from discreet.study.shuffler.shuffler import Shuffler
from discreet.study.shuffler.shuffler_database import MIGRATIONS

SMALL = {
    "states = 4": "states = 2",
    "horizon = 6": "horizon = 2",
    "number = 20000": "number = 12",
    'recipe = "auto"': 'recipe = "shuffle/first-visit-tables-randomised-response"',
    'local_epsilon = ""': "local_epsilon = 60",
    "options = {}\n\n[shuffle]": "options = { blocks = 3 }\n\n[shuffle]",
}


def declared(folder: Path, *changes: dict[str, str]) -> Path:
    """A small shuffled study, with the shuffler's folder beside it."""
    file = folder / "small.toml"
    new_study(file, "shuffle")
    text = said(file, 1.0)
    for change in (SMALL, *changes):
        for old, new in change.items():
            assert old in text, old
            text = text.replace(old, new)
    file.write_text(text)
    shutil.copy(file, shuffler_folder(file))
    return file


class Wire:
    """What carries a request to a party that lives in this process; ``sent`` keeps the bodies."""

    private = True

    def __init__(self, party: Any) -> None:
        self.party, self.sent = party, list[tuple[str, bytes]]()
        self.down = False

    def ask(self, method: str, path: str, body: bytes | None = None, token: str | None = None) -> Answer:
        if self.down:
            raise Unreachable("nobody is there")
        if body is not None:
            self.sent.append((path, body))
        try:
            return Answer(200, msgspec.json.encode(self._answer(path, body, token)))
        except Refused as refusal:
            return Answer(refusal.status, msgspec.json.encode({"error": refusal.code, "reason": refusal.reason}))

    def _answer(self, path: str, body: bytes | None, token: str | None) -> Any:
        party = self.party
        match path.partition("?")[0]:
            case "/v1/study":
                return party.study()
            case "/v1/policy":
                return party.policy()
            case "/v1/heads":
                return {"heads": party.heads(int(path.partition("=")[2]))}
            case "/v1/reports":
                return party.accept(body, token)
            case "/v1/sealed":
                return party.accept(body, token)
            case "/v1/batches":
                return party.accept_batch(body)
        raise Refused("unknown", "there is nothing at this address")


class Parties:
    """A coordinator, a shuffler, and people with devices."""

    def __init__(self, file: Path, **handed_in: Any) -> None:
        self.file, self.handed_in = file, handed_in
        self.study = read_study(file)
        self.coordinator = self.start_coordinator()
        self.to_coordinator = Wire(self.coordinator)
        self.shuffler = self.start_shuffler()
        self.to_shuffler = Wire(self.shuffler)

    def start_coordinator(self) -> Coordinator:
        places = places_of(self.file)
        return Coordinator(self.study, Database(places.database), places)

    def start_shuffler(self) -> Shuffler:
        places = shuffler_places_of(shuffler_folder(self.file) / self.file.name)
        database = Database(places.database, MIGRATIONS, "shuffler")
        return Shuffler(self.study, database, places, self.to_coordinator, **self.handed_in)

    def service(self) -> Service:
        """Both parties as a device sees them."""
        return Service(self.to_coordinator, self.study.hash, shuffler=self.to_shuffler)

    def device(self, **handed_in: Any) -> Device:
        return Device(self.service(), MemoryStore(), study_hash=self.study.hash, at_once=True, **handed_in)

    def person(self, chance: random.Random, **handed_in: Any) -> str | None:
        """One person takes part; gives None if her report was accepted, else why not."""
        device = self.device(**handed_in)
        device.begin()
        state = self.study.shape.start or 0
        for step in range(self.study.shape.horizon):
            device.record(step, state, device.act(step, state), float(chance.random() < 0.5))
            state = chance.randrange(self.study.shape.states)
        device.finish()
        try:
            device.send()
        except Rejected as refused:
            return refused.code
        return None

    def work(self) -> None:
        """What the background tasks of both parties do."""
        self.shuffler.refresh()
        self.shuffler.freeze_if_full()
        self.shuffler.send()
        while self.coordinator.close_if_full():
            pass

    def stop(self) -> None:
        self.coordinator.stop()
        self.shuffler.stop()


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    """What a database holds."""
    import sqlite3

    link = sqlite3.connect(database)
    try:
        return link.execute(query).fetchall()
    finally:
        link.close()

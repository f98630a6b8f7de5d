"""Both parties of a shuffled study on databases that fail, in processes that die; messages that can be told apart.

The world has many states and one step, so every user's messages are about (state, reward bit), and she says one of them
that no other user says: a sound tally holds zeros and ones only. Messages are not sealed here but written in clear into
as many bytes, because sealing is tested elsewhere and takes a thousand times as long. The wire between the parties
loses requests and answers, and keeps all batches that were on it.
"""

from __future__ import annotations

import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.study.service.faulty import Crash, Faults, FaultyDatabase, mechanism_of, new_folder, signing_key, struck_by

from discreet.base.errors import InvalidInput
from discreet.base.saved_arrays import from_bytes
from discreet.client.errors import Unreachable
from discreet.client.transport import Answer
from discreet.study.service.batches import SEALED, written
from discreet.study.service.chain_heads import ExternalHead, hashed
from discreet.study.service.coordinator import Coordinator
from discreet.study.service.declaration import Study, declare
from discreet.study.service.sealing import RoundKey
from discreet.study.service.study_files import ShufflerPlaces, places_of, shuffler_places_of
from discreet.study.service.wire_messages import Refused
from discreet.study.shuffler import shuffler as shuffling
from discreet.study.shuffler.round_view import terms_of
from discreet.study.shuffler.shuffler import Shuffler
from discreet.study.shuffler.shuffler_database import MIGRATIONS

STATES = 13
CELLS = 2 * STATES
USERS, BLOCKS = 20, 5
_SEALING = bytes(range(32))


@cache
def study_of(**changes: Any) -> Study:
    """A shuffled study with unique cells, of 5 rounds with 4 users each."""
    public = signing_key()[1]
    return declare(
        {
            "format": 2,
            "name": "shuffled",
            "problem": {"states": STATES, "actions": 2, "horizon": 1, "homogeneous": True},
            "privacy": {
                "model": "shuffle", "epsilon": 3.0, "delta": 1e-3, "options": {"blocks": BLOCKS, "first": 4},
                "recipe": "shuffle/joint-histogram-randomised-response",
            },
            "users": {"number": USERS, **changes},
            "learner": {"name": "ucbvi"},
            "shuffle": {"local_epsilon": 60.0},
            "keys": {"signing": public, "shuffler": public, "sealing": RoundKey(_SEALING).public.hex()},
        }
    )  # fmt: skip


def in_clear(value: int) -> str:
    """A message of the right size that says a number, and is like no other."""
    return written(value.to_bytes(4, "little") + secrets.token_bytes(SEALED - 4))


@pytest.fixture(scope="module")
def in_the_clear(prepared_once) -> Iterator[None]:
    """Messages are opened by reading them, and the mechanism is prepared once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoundKey, "open", lambda self, sealed, info: sealed[:4])
        patch.setattr(shuffling, "prepare", lambda study, recipe=None: mechanism_of(study.text, recipe))
        yield


class ShufflerDatabase(FaultyDatabase):
    """The shuffler's own database, struck by faults."""

    def __init__(self, file: Path, faults: Faults) -> None:
        super().__init__(file, faults)
        self._migrations, self._name = MIGRATIONS, "shuffler"


class Party:
    """One of the two: an object that dies and is started again on the same files."""

    def __init__(self, start: Callable[[Faults], tuple[Any, FaultyDatabase]]) -> None:
        self._start, self.faults = start, Faults()
        self.desk, self.database = start(self.faults)

    def restart(self, *, struck: bool = True) -> None:
        """The process ends, whatever it was doing, and another one starts, perhaps at the third attempt."""
        kind, after = (self.faults.kind, self.faults.after) if struck else ("", 0)
        self.database.drop()
        for attempt in (kind, kind, ""):
            self.faults = Faults(attempt, after)
            try:
                self.desk, self.database = self._start(self.faults)
            except (Crash, sqlite3.Error, InvalidInput):
                if not self.faults.failures:
                    raise
                continue
            return

    def works(self, work: Callable[[Any], Any]) -> Any:
        """What it answers, or a refusal; None if it failed. If it dies, another one takes its place."""
        faults = self.faults
        before = faults.failures
        try:
            with struck_by(faults):
                return work(self.desk)
        except Refused as refusal:
            return refusal
        except Crash:
            self.restart()
        except (sqlite3.Error, InvalidInput):
            if faults.failures == before:
                raise
        return None


class LossyWire:
    """Between the parties: ``lose`` says what becomes of the next batch; every batch that was on it is kept."""

    private = True

    def __init__(self, site: Site) -> None:
        self._site, self.lose = site, ""
        self.batches: dict[str, bytes] = {}

    def ask(self, method: str, path: str, body: bytes | None = None, token: str | None = None) -> Answer:
        lose, self.lose = (self.lose, "") if body is not None else ("", self.lose)
        if body is not None:
            self._keep(body)
        if lose == "request":
            raise Unreachable("lost on the way")
        answer = self._site.coordinator.works(lambda desk: _answer(desk, path, body))
        if answer is None or lose == "response":
            raise Unreachable("lost on the way")
        if isinstance(answer, Refused):
            return Answer(answer.status, msgspec.json.encode({"error": answer.code, "reason": answer.reason}))
        return Answer(200, msgspec.json.encode(answer))

    def _keep(self, body: bytes) -> None:
        """What leaves is paid for, marked outside the database, and the same as whenever it left before."""
        batch = msgspec.json.decode(body)
        assert self.batches.setdefault(batch["batch"], body) == body, "a batch has changed since it left"
        rounds = [msgspec.json.decode(each)["round"] for each in self.batches.values()]
        assert len(rounds) == len(set(rounds)), "two batches of one round have left"
        with sqlite3.connect(self._site.shuffler_places.database) as looking:
            query = "SELECT count(*) FROM ledger_entries WHERE body LIKE ?"
            (paid,) = looking.execute(query, (f"%round {batch['round']}, a batch of%",)).fetchone()
        assert paid == 1, "a batch has left that was not charged"
        left = ExternalHead(self._site.external).read()
        assert left is not None
        assert left["round"] >= batch["round"]


def _answer(desk: Coordinator, path: str, body: bytes | None) -> Any:
    match path.partition("?")[0]:
        case "/v1/study":
            return desk.study()
        case "/v1/policy":
            return desk.policy()
        case "/v1/heads":
            return {"heads": desk.heads(int(path.partition("=")[2]))}
        case "/v1/batches":
            assert body is not None
            return desk.accept_batch(body)
    raise AssertionError(path)


class Site:
    """The files of both parties, and the parties."""

    def __init__(self, study: Study) -> None:
        self.study, self.folder = study, new_folder()
        self.places = places_of(self.folder / "study.toml")
        self.places.signing.write_bytes(signing_key()[0])
        self.places.sealing.write_bytes(_SEALING)
        self.shuffler_places: ShufflerPlaces = shuffler_places_of(self.folder / "second.toml")
        self.shuffler_places.signing.write_bytes(signing_key()[0])
        self.external = self.shuffler_places.signing.with_suffix(".head")
        self.coordinator = Party(self._start_coordinator)
        self.wire = LossyWire(self)
        self.shuffler = Party(self._start_shuffler)

    def _start_coordinator(self, faults: Faults) -> tuple[Coordinator, FaultyDatabase]:
        database = FaultyDatabase(self.places.database, faults)
        with struck_by(faults):
            point = _point(faults)
            return _or_drop(database, lambda: Coordinator(self.study, database, self.places, point=point)), database

    def _start_shuffler(self, faults: Faults) -> tuple[Shuffler, FaultyDatabase]:
        database = ShufflerDatabase(self.shuffler_places.database, faults)
        with struck_by(faults):
            point = _point(faults)
            return _or_drop(
                database, lambda: Shuffler(self.study, database, self.shuffler_places, self.wire, point=point)
            ), database

    def report(self, message: dict[str, Any], cell: int, **changes: Any) -> dict[str, Any]:
        """What a device sends that saw this policy and says a cell of its own."""
        values = [2 * counter + (counter == cell) for counter in range(CELLS)]
        head = message["head"]
        return {
            "study": self.study.hash,
            "round": message["round"],
            "policy": head["policy"],
            "head": hashed(head),
            "terms": terms_of(mechanism_of(self.study.text, None), message["laws"], message["wanted"]),
            "id": secrets.token_hex(16),
            "messages": [in_clear(value) for value in values],
        } | changes

    def tally(self, public: bytes, served: int) -> Any:
        """How many answers of one each cell had, from the public state of the coordinator."""
        (channel,) = mechanism_of(self.study.text, None).privatizer.channels
        law = channel.response(USERS // BLOCKS).response
        values = from_bytes(public)["channel0.values"].reshape(STATES, 2, STATES + 1, 2)[:, :, STATES].sum(axis=1)
        return values * (law.p - law.q) + served * law.q

    def remove(self) -> None:
        """Drop connections and files."""
        self.coordinator.database.drop()
        self.shuffler.database.drop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _point(faults: Faults) -> Callable[[str], None]:
    return lambda name: faults.strike("point", name)


def _or_drop(database: FaultyDatabase, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except BaseException:
        database.drop()
        raise


def zeros_and_ones(cells: set[int]) -> Any:
    """The tally of users who have said these cells."""
    expected = np.zeros(CELLS)
    expected[sorted(cells)] = 1
    return expected.reshape(STATES, 2)

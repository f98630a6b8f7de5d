"""A study whose database fails, whose process dies, and whose reports can be told apart in the tally.

**Unique cells.** The world has many states and one step. Every simulated report says a (state, reward bit) that no
other report says, so a sound tally holds zeros and ones only: a two is a replay, a missing one a loss. Noise here is a
fresh multiple of 2^-30, too small to hide a count and never the same twice: a release that is drawn again shows in the
hash of what was released.

**Faults** strike at a statement of SQL, before or after it is carried out, or at a point that the coordinator names.
A *crash* is an exception that nobody catches; from then on the dead object cannot run another statement, and its
connections are dropped as those of a killed process are. An *error* is one of the database, after which the same object
goes on: a full disk, or a COMMIT whose outcome nobody knows. Both also strike where a file is written beside the
database (a round's key, the external head, a mark of what is acknowledged); a *torn* write leaves half a line behind.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.base.saved_arrays import from_bytes
from discreet.ledger.keys import make_key
from discreet.mechanisms.messages.sampled_item import ReportChannel
from discreet.study.service import coordinator as coordinating
from discreet.study.service import sealing
from discreet.study.service.chain_heads import ExternalHead, Marks
from discreet.study.service.coordinator import Coordinator
from discreet.study.service.declaration import Study, declare
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import Places, places_of
from discreet.study.service.study_mechanism import Mechanism, prepare

STATES = 26
CELLS = 2 * STATES
MODELS: dict[str, dict[str, Any]] = {
    "local": {"model": "local", "epsilon": 3.0, "options": {"response": "kary", "steps": 1, "growth": 0.4}},
    "central": {
        "model": "central", "epsilon": 1.0, "recipe": "central/joint-histogram-laplace", "options": {"blocks": 9},
    },
    "matrix": {
        "model": "central", "epsilon": 1.0, "delta": 1e-5, "recipe": "central/joint-histogram-matrix",
        "options": {"blocks": 10},
    },
}  # fmt: skip
# Points of the coordinator at which it holds no lock, so that another one can work.
OPEN_POINTS = {
    "accept: committed", "accept: marked", "close: frozen", "close: read", "close: released", "close: committed",
    "erase: committed", "finish: begun", "finish: checked", "finish: headed",
    "finish: published",
}  # fmt: skip


class Crash(BaseException):
    """A process that dies: nobody catches it."""


@dataclass
class Faults:
    """What will happen next, and whether it has: ``strike`` is asked before and after every statement and at points."""

    kind: str = ""  # crash, error, before-commit, after-commit, torn, race; empty: nothing
    after: int = 0  # how many moments pass first
    dead: bool = False
    struck: int = 0
    failures: int = 0  # those that may show as an error: all but races
    race: Callable[[], None] = field(default=lambda: None)

    def arm(self, kind: str, after: int) -> None:
        # Points at which others can work are few.
        self.kind, self.after = kind, after % len(OPEN_POINTS) if kind == "race" else after

    def strike(self, moment: str, statement: str = "") -> None:
        if self.dead:
            raise Crash
        committing = statement == "COMMIT"
        if self.kind in ("before-commit", "after-commit"):
            if committing and moment == self.kind.removesuffix("-commit"):
                self._fired()
                raise sqlite3.OperationalError("disk I/O error")
            return
        if self.kind == "torn":
            return
        if self.kind == "race":
            if moment == "point" and statement in OPEN_POINTS and self._due():
                self._fired()
                self.race()
            return
        if self.kind == "crash" and self._due():
            self._fired()
            self.dead = True
            raise Crash
        if self.kind == "error" and moment == "before" and statement != "ROLLBACK" and self._due():
            self._fired()
            if statement in FILES:
                raise InvalidInput("cannot write: No space left on device")
            raise sqlite3.OperationalError("database or disk is full")

    def tear(self) -> bool:
        """Whether the write that comes is to be cut short by a crash."""
        if self.kind != "torn":
            return False
        self._fired()
        self.dead = True
        return True

    def _due(self) -> bool:
        self.after -= 1
        return self.after < 0

    def _fired(self) -> None:
        self.failures += self.kind != "race"
        self.kind, self.struck = "", self.struck + 1


FILES = ("head", "key", "mark")
CURRENT = [Faults()]  # of the coordinator that works now


@contextmanager
def struck_by(faults: Faults) -> Iterator[None]:
    """Files that are written here belong to a coordinator with these faults."""
    CURRENT.append(faults)
    try:
        yield
    finally:
        CURRENT.pop()


def _append(self: ExternalHead, handle: int, head: Any) -> None:
    faults = CURRENT[-1]
    faults.strike("before", "head")
    if faults.tear():
        os.pwrite(handle, b'{"key":"12', os.fstat(handle).st_size)
        raise Crash
    _APPEND(self, handle, head)
    faults.strike("after", "head")


def _put(self: Marks, handle: int, slot: int, number: int, name: str) -> None:
    faults = CURRENT[-1]
    faults.strike("before", "mark")
    if faults.tear():
        os.pwrite(handle, b"0123456789", slot * 64)
        raise Crash
    _PUT(self, handle, slot, number, name)
    faults.strike("after", "mark")


def _write_secret(file: Path, content: bytes) -> None:
    CURRENT[-1].strike("before", "key")
    _WRITE_SECRET(file, content)
    CURRENT[-1].strike("after", "key")


_APPEND, _PUT, _WRITE_SECRET = ExternalHead._append, Marks._put, sealing.write_secret


class FaultyCursor(sqlite3.Cursor):
    """A cursor that faults strike."""

    def executemany(self, query: str, values: Any, /) -> Any:
        self.connection.faults.strike("before", query)
        done = super().executemany(query, values)
        self.connection.faults.strike("after", query)
        return done


class FaultyConnection(sqlite3.Connection):
    """A connection that faults strike."""

    faults: Faults

    def execute(self, query: str, *values: Any) -> Any:
        self.faults.strike("before", query)
        done = super().execute(query, *values)
        self.faults.strike("after", query)
        return done

    def cursor(self, *_: Any) -> Any:
        return super().cursor(FaultyCursor)

    def close(self) -> None:
        """A cursor that a traceback still holds would keep the lock of a connection that is closed."""
        super().rollback()
        super().close()


class FaultyDatabase(Database):
    """A SQLite database all of whose connections are struck by the same faults."""

    def __init__(self, file: Path, faults: Faults) -> None:
        super().__init__(file)
        self.faults, self.made = faults, list[FaultyConnection]()

    def _sqlite(self) -> Any:
        raw = sqlite3.connect(
            self.address, isolation_level=None, timeout=0.05, check_same_thread=False, factory=FaultyConnection
        )
        raw.faults = self.faults
        self.made.append(raw)
        for setting in ("journal_mode = WAL", "synchronous = FULL"):
            raw.execute(f"PRAGMA {setting}")
        return raw

    @contextmanager
    def alone(self, link: Any) -> Iterator[bool]:
        """Everybody may close at once, as where files cannot be locked: that must cost work, and nothing else."""
        yield True

    def drop(self) -> None:
        """What a system does with the connections of a process that is gone."""
        for raw in self.made:
            with suppress(sqlite3.Error):
                raw.close()


class FreshNoise:
    """Noise that hides nothing and is never the same twice."""

    simulated = False
    _number = itertools.count(1)

    def draw(self, law: Any, copies: int, size: int) -> Any:
        return np.full(size, next(self._number) * 2.0**-30)


@cache
def signing_key() -> tuple[bytes, str]:
    """One key for all studies here: making it is slow."""
    with tempfile.TemporaryDirectory() as folder:
        public = make_key(Path(folder) / "key.pem")
        return (Path(folder) / "key.pem").read_bytes(), public


def study_of(model: str, users: int = 26, **changes: Any) -> Study:
    """A small study with unique cells."""
    return declare(
        {
            "format": 2,
            "name": "faults",
            "problem": {"states": STATES, "actions": 2, "horizon": 1, "homogeneous": True},
            "privacy": MODELS[model],
            "users": {"number": users, **changes},
            "learner": {"name": "ucbvi"},
            "keys": {"signing": signing_key()[1]},
        }
    )


@cache
def mechanism_of(text: str, recipe: str | None) -> Mechanism:
    return prepare(declare(json.loads(text)), recipe)


@pytest.fixture(scope="module")
def prepared_once():
    """Coordinators of one study share their mechanism, which is a function of the declaration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExternalHead, "_append", _append)
        patch.setattr(Marks, "_put", _put)
        patch.setattr(sealing, "write_secret", _write_secret)
        patch.setattr(coordinating, "prepare", lambda study, recipe=None: mechanism_of(study.text, recipe))
        yield


def new_folder() -> Path:
    """A folder in memory where there is one: syncing is then cheap."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="discreet-faults-", dir=memory if memory.is_dir() else None))


class Site:
    """The files of one study, and coordinators that come and go on them."""

    def __init__(self, study: Study) -> None:
        self.study, self.folder = study, new_folder()
        self.places: Places = places_of(self.folder / "study.toml")
        self.places.signing.write_bytes(signing_key()[0])
        self.clock = 1_800_000_000

    def start(self, faults: Faults) -> tuple[Coordinator, FaultyDatabase]:
        """A coordinator of a process of its own."""
        database = FaultyDatabase(self.places.database, faults)
        try:
            with struck_by(faults):
                made = Coordinator(
                    self.study, database, self.places, noise=FreshNoise(), clock=lambda: f"second {self.clock}",
                    point=lambda name: faults.strike("point", name),
                )  # fmt: skip
        except BaseException:
            database.drop()
            raise
        return made, database

    def look(self) -> sqlite3.Connection:
        """A connection that no fault strikes."""
        return sqlite3.connect(self.places.database, isolation_level=None)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def tally(study: Study, public: bytes, served: int) -> Any:
    """How often each unique cell was counted, from the public state: (states, bits)."""
    arrays = {name.removeprefix("channel0."): array for name, array in from_bytes(public).items()}
    mechanism = mechanism_of(study.text, None)
    (channel,) = mechanism.privatizer.channels
    if isinstance(channel, ReportChannel):
        weight, share = channel._law(CELLS).p - channel._law(CELLS).q, 1 / CELLS
        visits, ones = (arrays[name].sum(axis=(0, 2)) for name in ("visits", "rewards"))
        visits = weight * visits + served * (1 - weight) * 2 * share
        ones = weight * ones + served * (1 - weight) * share
    else:
        found = channel.encoder.marginals(arrays["values"])
        visits, ones = (found[name].values.sum(axis=(0, 2)) for name in ("visits", "rewards"))
    return np.stack([visits - ones, ones], axis=1)

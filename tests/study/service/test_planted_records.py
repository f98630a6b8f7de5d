"""A record that can be recognised is in no byte of database, write-ahead log, head or log, round after round.

The record is a path through states that nobody takes by chance. It is searched for as the service packs it, as it was
sent, and by the hashes that would give it away to whoever tries all records. The request also carries a marker in the
blanks between its words, which a log of raw requests would show. In studies with secret state (the matrix mechanism)
the mixed raw counts are searched for as well. Where sealing is switched off, all of it is found: the search works.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.study.service.small_studies import action_of, coordinator

from discreet.base.saved_arrays import from_bytes
from discreet.study.service import closing, rounds
from discreet.study.service import coordinator as coordinating
from discreet.study.service.app import Service
from discreet.study.service.declaration import read_study
from discreet.study.service.monitoring import Log
from discreet.study.service.sealing import RoundKey, bound_to
from discreet.study.service.study_files import new_study

STATES, HORIZON = 48, 6
PATH = [41, 7, 29, 3, 44, 17]
MARKER = b"\t \t\t  \t \t  \t\t \t   \t\t\t \t  \t \t\t\t\t  \t \t"
RECIPES = {
    "blocks": 'epsilon = 1.0\nrecipe = "central/joint-histogram-laplace"\noptions = { blocks = 60 }',
    "matrix": 'epsilon = 1.0\ndelta = 1e-5\nrecipe = "central/first-visit-matrix"\noptions = { blocks = 60 }',
}


def declare(folder: Path, recipe: str) -> Path:
    file = folder / "planted.toml"
    new_study(file)
    signing = read_study(file).signing_key
    file.write_text(
        f'format = 2\nname = "planted"\n[problem]\nstates = {STATES}\nactions = 2\nhorizon = {HORIZON}\n'
        f'homogeneous = true\n[privacy]\nmodel = "central"\n{RECIPES[recipe]}\n[users]\nnumber = 120\n'
        f'[keys]\nsigning = "{signing}"\n'
    )
    return file


class Planted:
    """A service in this process that takes planted records, and everything of it that somebody could steal."""

    def __init__(self, folder: Path, recipe: str) -> None:
        self.folder, self.log = folder, io.StringIO()
        self.at = coordinator(declare(folder, recipe))
        self.service = Service(self.at, "operators-token", log=Log(self.log), look=60.0)
        self.service._close_all = lambda: None  # rounds are closed here, so that reports are seen waiting

    def play(self, client: TestClient) -> list[bytes]:
        """One round with a planted record; gives what must not be found."""
        message = self.at.policy()
        self.number = message["round"]
        policy, rng = message["policy"], np.random.default_rng(self.number)
        steps = [[state, action_of(policy, h, state, rng), 1] for h, state in enumerate(PATH)]
        sought = [np.array(steps, "<i4").tobytes(), MARKER, json.dumps(steps).encode()]
        sought += [json.dumps(steps, separators=(",", ":")).encode()]
        for content in sought[:1] + sought[2:]:
            digest = hashlib.sha256(content)
            sought += [digest.digest(), digest.hexdigest().encode()]
        for number in range(message["wanted"]):
            walked = steps if number == 0 else [[0, action_of(policy, h, 0, rng), 0] for h in range(HORIZON)]
            body = {"study": self.at.declared.hash, "round": message["round"], "id": secrets.token_hex(16)}
            text = json.dumps(body | {"report": {"kind": "record", "steps": walked}}).encode()
            sent = text.replace(b'"study":', MARKER + b'"study":', 1)
            assert client.post("/v1/reports", content=sent).status_code == 200
        return sought

    def close(self) -> list[bytes]:
        """Close the round; gives the secret state that follows from it, piece by piece."""
        while self.at.published.row.number == self.number:  # the service's own thread may be faster
            self.at.close_if_full()
        with self.at.reading() as link:
            row = rounds.last_round(link)
            kept = rounds.state_row(link, row.number)
        if kept.sealed is None:
            return []
        key = self.at._keys.get(row.number)
        secret = from_bytes(key.open(kept.sealed, bound_to(self.at.declared.hash, row.number, "state")))
        past = next(array for name, array in secret.items() if name.endswith("past"))
        counted = np.flatnonzero(past.any(axis=0))
        assert counted.size > 0
        return [np.ascontiguousarray(past[:, cell]).tobytes() for cell in counted] + [past[0].tobytes()]

    def stolen(self) -> dict[str, bytes]:
        """All files but the keys, and the log."""
        files = [file for file in self.folder.rglob("*") if file.is_file()]
        apart = [file for file in files if file.parent.name.endswith(".keys") or file.suffix == ".pem"]
        contents = {file.name: file.read_bytes() for file in files if file not in apart}
        assert any(name.endswith("-wal") for name in contents)
        return contents | {"log": self.log.getvalue().encode()}


def search(folder: Path, recipe: str, number: int) -> set[str]:
    """Where the planted things are found in so many rounds."""
    planted, found = Planted(folder, recipe), set()
    with TestClient(planted.service.app) as client:
        for _ in range(number):
            sought = planted.play(client)
            for when in ("waiting", "closed"):
                sought += planted.close() if when == "closed" else []
                contents = planted.stolen()
                found |= {name for name, content in contents.items() for secret in {*sought} if secret in content}
        assert planted.at.published.row.number == number + 1
    return found


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_planted_record_is_nowhere(tmp_path, recipe):
    assert search(tmp_path, recipe, 2) == set()


@pytest.mark.long
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_planted_record_is_nowhere_after_each_of_50_rounds(tmp_path, recipe):
    assert search(tmp_path, recipe, 50) == set()


@pytest.mark.parametrize("recipe", RECIPES)
def test_without_sealing_it_is_found(tmp_path, recipe, monkeypatch):
    for module in (coordinating, closing):
        monkeypatch.setattr(module, "seal", lambda content, public, info: content)
    monkeypatch.setattr(RoundKey, "open", lambda self, sealed, info: sealed)
    assert {"planted.db-wal"} <= search(tmp_path, recipe, 1)


def test_a_log_of_requests_would_be_found(tmp_path, monkeypatch):
    original = coordinating.decode
    planted = []

    def talkative(body):
        planted[0].log.write(body.decode())
        return original(body)

    monkeypatch.setattr(coordinating, "decode", talkative)
    made = Planted.__init__

    def remembered(self, *arguments):
        made(self, *arguments)
        planted.append(self)

    monkeypatch.setattr(Planted, "__init__", remembered)
    assert "log" in search(tmp_path, "blocks", 1)


def test_a_plain_hash_of_a_record_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr(RoundKey, "fingerprint", lambda self, content: hashlib.sha256(content).hexdigest())
    assert "planted.db-wal" in search(tmp_path, "blocks", 1)

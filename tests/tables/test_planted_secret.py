"""A planted secret: a thousand hostile rows of one user, and nothing raw of them in anything that a release leaves.

The rows are in a DuckDB database, so their cells can hold anything. ``discreet train`` runs as a process of its own
with a temporary folder that is watched while it runs; everything that it prints, logs, writes or leaves is searched for
the secret, and its exit code and receipt are those of a table in which the user behaves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

SECRET = "Zq7-planted-Xw9"
USERS = 400
COLUMNS = ("--table", "visits", "--user", "u", "--step", "t", "--state", "s", "--action", "a", "--reward", "r")
SIZES = ("--states", "states.txt", "--actions", "actions.txt", "--horizon", "3", "--rewards", "-1", "1")
RUN = "import logging; logging.basicConfig(level=0, filename='all.log'); from discreet.cli import main; main()"


def hostile_rows():
    """A thousand rows of user 7, each with the secret in some cells, in every disguise."""
    words = [
        SECRET, f"'{SECRET}'", f'"{SECRET}"', f"{SECRET}'; DROP TABLE visits; --", f"\n{SECRET}\n", f"{SECRET}\0x",
        f"1e999{SECRET}", f"<script>{SECRET}</script>", f"%s {SECRET}", f"{{{SECRET}}}", "\\" + SECRET,
        f"low,{SECRET}", SECRET * 300, f"ε{SECRET}ε",
    ]  # fmt: skip
    for i in range(1000):
        word = words[i % len(words)]
        row = ["u7", str(i % 5), "low", "rest", "1"]
        for column in {1 + i % 4, 1 + (i // 4) % 4}:
            row[column] = word
        yield (*row, word)


def table(folder: Path, *, hostile: bool) -> None:
    folder.mkdir()
    rows = [
        (f"u{u}", str(t), ("low", "high")[(u + t) % 2], ("rest", "walk")[(u // 2) % 2], str(u // 2 % 2 * 2 - 1), "note")
        for u in range(USERS) for t in range(3) if not (hostile and u == 7)
    ]  # fmt: skip
    rows += hostile_rows() if hostile else []
    with duckdb.connect(str(folder / "hospital.duckdb")) as connection:
        connection.execute("CREATE TABLE visits (u TEXT, t TEXT, s TEXT, a TEXT, r TEXT, note TEXT)")
        columns = [list(column) for column in zip(*rows, strict=True)]
        connection.execute("INSERT INTO visits SELECT " + ", ".join(["unnest(?)"] * 6), columns)
    (folder / "states.txt").write_text("low\nhigh\n")
    (folder / "actions.txt").write_text("rest\nwalk\n")
    (folder / "scratch").mkdir()


class Watched(threading.Thread):
    """Reads every file of a folder again and again while a process works."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.over, self.seen = folder, threading.Event(), b""

    def run(self) -> None:
        while not self.over.wait(0.005):
            self.look()
        self.look()

    def look(self) -> None:
        for path in list(self.folder.rglob("*")):
            try:
                data = path.read_bytes() if path.is_file() else b""
            except OSError:
                continue
            self.seen += path.name.encode() + (b"SECRET IN FILE" if SECRET.encode() in data else b"")


def trained(folder: Path) -> tuple[subprocess.CompletedProcess[bytes], bytes]:
    """Run the command on the table of a folder; what it did, and everything that could be seen of it."""
    environment = {**os.environ, "TMPDIR": str(folder / "scratch"), "PYTHONWARNINGS": "always"}
    command = [sys.executable, "-c", RUN, "train", "hospital.duckdb", *COLUMNS, *SIZES]
    command += ["--epsilon", "2", "--delta", "1e-6", "--out", "policy.json", "--receipt", "receipt.json"]
    watch = Watched(folder / "scratch")
    watch.start()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True)
    watch.over.set()
    watch.join()
    left = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("hospital.duckdb")]
    return done, done.stdout + done.stderr + watch.seen + b"".join(
        path.name.encode() + path.read_bytes() for path in left
    )


@pytest.mark.slow
def test_nothing_raw_comes_out(tmp_path):
    runs = {}
    for hostile in (False, True):
        folder = tmp_path / str(hostile)
        table(folder, hostile=hostile)
        runs[hostile] = trained(folder)
        assert [path.name for path in (folder / "scratch").iterdir()] == []
    (clean, _), (spoiled, everything) = runs[False], runs[True]
    assert (clean.returncode, spoiled.returncode) == (0, 0), spoiled.stderr.decode()
    assert b"SECRET IN FILE" not in everything
    for part in (SECRET, SECRET[:8], SECRET[-8:]):
        assert part.encode() not in everything
    receipts = [json.loads((tmp_path / name / "receipt.json").read_text()) for name in ("False", "True")]
    for receipt in receipts:
        del receipt["policy"]["sha256"], receipt["values"], receipt["signature"]  # numbers that noise has moved
    assert receipts[0] == receipts[1]
    assert receipts[0]["declared"]["users"] == USERS


def test_the_watch_would_have_seen_it(tmp_path):
    """It can fail: a secret in a temporary file is found, also one that is gone when the process ends."""
    watch = Watched(tmp_path)
    (tmp_path / "spill").write_text(f"x{SECRET}y")
    watch.look()
    (tmp_path / "spill").unlink()
    assert b"SECRET IN FILE" in watch.seen
    assert sum(SECRET in str(row) for row in hostile_rows()) == 1000

"""Nothing raw outlives a run: no engine writes to disk, and a run that is killed leaves whole outputs or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import discreet.data as data
from discreet.base.errors import InvalidInput
from discreet.base.policies import load_policy
from discreet.tables.read import engines

MARK = "SECRETPATIENT-"
NAMES = {"user": "patient", "step": "day", "state": "state", "action": "drug", "reward": "outcome"}
DOMAIN = {"states": 4, "actions": 2, "horizon": 5}

# A process that has imported everything forks the runs that it kills, so that each is in the middle of its work.
KILLER = """
import os, random, signal, sys, time
from pathlib import Path
import discreet.data, discreet.offline, discreet.tables.train
import duckdb, opendp.prelude, pyarrow.parquet, pyarrow.compute

source, out, kills = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
names = dict(user="patient", step="day", state="state", action="drug", reward="outcome")

def run(number):
    child = os.fork()
    if child == 0:
        try:
            table = discreet.data.read(source, **names, states=4, actions=2, horizon=5)
            fit = discreet.offline.train(table, epsilon=1.0, delta=1e-6)
            fit.receipt(out / f"{number}-receipt.json")
            fit.policy.save(out / f"{number}-policy.json")
        finally:
            os._exit(0)
    return child

run_alone = run(0)
began = time.perf_counter()
os.waitpid(run_alone, 0)
whole = time.perf_counter() - began
assert (out / "0-policy.json").exists(), "the run itself must work"
coins, died = random.Random(os.urandom(8)), 0
for number in range(1, kills + 1):
    child = run(number)
    time.sleep(coins.uniform(0, whole))
    os.kill(child, signal.SIGKILL)
    struck = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    died, whole = died + struck, whole if struck else 0.8 * whole  # the machine has become faster than it was
print(died)
"""


def visits(path, users, text=MARK):
    rows = f"""
        SELECT '{text}' || md5(u::VARCHAR) || u AS patient, d AS day, (u + d) % 4 AS state, u % 2 AS drug,
               0.5 AS outcome
        FROM range({users}) users(u), range(5) days(d)
    """
    form = "FORMAT parquet" if path.suffix == ".parquet" else "FORMAT csv, HEADER"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({rows}) TO '{path}' ({form})")
    return path


def kill(tmp_path, name, kills):
    scratch, out = tmp_path / "scratch", tmp_path / "out"
    scratch.mkdir()
    out.mkdir()
    source = visits(tmp_path / name, 5000)
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(source), str(out), str(kills)],
        env=environment, cwd=scratch, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    left = [file for folder in (scratch, out) for file in folder.rglob("*") if file.is_file()]
    assert not any(MARK.encode() in file.read_bytes() for file in left)
    assert [file for file in left if scratch in file.parents] == []
    for file in out.iterdir():
        if file.name.startswith("."):
            continue  # an output that was being written: noised, and not under its name yet
        load_policy(file) if "policy" in file.name else json.loads(file.read_text())
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["visits.parquet", "visits.csv"])
def test_a_killed_run_leaves_nothing_raw(tmp_path, name):
    """Ten kills each, at random moments of a run."""
    assert kill(tmp_path, name, 10) > 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["visits.parquet", "visits.csv"])
def test_a_killed_run_leaves_nothing_raw_in_many_kills(tmp_path, name):
    assert kill(tmp_path, name, 100) > 20


def files_below(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


@pytest.mark.slow
def test_with_too_little_memory_a_run_stops_and_does_not_spill(tmp_path, monkeypatch):
    """A table that does not fit has to be counted in more passes; the engine has no folder to fall back on."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.chdir(scratch)
    table = data.read(visits(tmp_path / "visits.parquet", 100_000), **NAMES, **DOMAIN)
    plenty, connections = engines.in_memory, []

    def little():
        connections.append(plenty())
        connections[-1].execute("SET memory_limit = '24MB'")
        for setting, value in (("temp_directory", ""), ("enable_progress_bar", False)):
            assert connections[-1].execute(f"SELECT current_setting('{setting}')").fetchall() == [(value,)]
        return connections[-1]

    monkeypatch.setattr("discreet.tables.read.grouping.in_memory", little)
    with pytest.raises(InvalidInput, match="cannot be read"):
        table.joint_counts()
    assert files_below(scratch) == []
    monkeypatch.setattr("discreet.tables.read.grouping._ROWS_IN_MEMORY", 20_000)
    assert table.joint_counts().counts.sum() == 500_000
    assert len(connections) == 26
    assert files_below(scratch) == []

"""Real processes killed with SIGKILL at random moments, with clients that send again, on SQLite and on PostgreSQL.

``tests/study/service/killed_serving.py`` does it and says what must hold; it fails loudly if anything does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ledger import postgres

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def address():
    """The address of a PostgreSQL server of one's own."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'discreet[serve]'")
    if postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    with postgres.server() as found:
        yield found


def kill(model: str, folder: Path, database: str, kills: int, servers: int) -> None:
    """Kill so many coordinators of one study."""
    arguments = map(str, (model, folder, database, kills, servers))
    command = [sys.executable, "-m", "tests.study.service.killed_serving", *arguments]
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    killed, silent, made, accepted, again, rounds = map(int, done.stdout.split()[-8:-2])
    assert killed == kills
    assert silent < kills  # most of them had begun to work
    assert made >= accepted > kills
    assert again > 0  # some kills struck in the middle of a request
    assert rounds > kills // 10


@pytest.mark.service
@pytest.mark.parametrize(("model", "servers"), [("local", 1), ("matrix", 2)])
def test_100_killed_coordinators_count_every_report_once(tmp_path, model, servers):
    kill(model, tmp_path, "", 50, servers)


@pytest.mark.service
def test_100_killed_coordinators_count_every_report_once_in_postgresql(tmp_path, address):
    kill("central", tmp_path, address, 100, 2)

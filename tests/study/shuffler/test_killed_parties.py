"""Real processes of both parties killed with SIGKILL at random moments, on SQLite and on PostgreSQL.

``tests/study/shuffler/killed_parties.py`` does it and says what must hold; it fails loudly if anything does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ledger import postgres

ROOT = Path(__file__).parents[3]


def kill(folder: Path, database: str, kills: int) -> None:
    """Kill the parties of one study so many times."""
    command = [sys.executable, "-m", "tests.study.shuffler.killed_parties", str(folder), database, str(kills)]
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    killed, made, accepted, again, batches = map(int, done.stdout.split()[-5:])
    assert killed >= kills
    assert made >= accepted > kills
    assert again > 0  # some kills struck in the middle of a request
    assert batches > kills // 5


@pytest.mark.service
def test_50_killed_parties_count_every_batch_once(tmp_path):
    kill(tmp_path, "", 50)


@pytest.mark.service
def test_20_killed_parties_count_every_batch_once_with_the_shuffler_in_postgresql(tmp_path):
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'discreet[serve]'")
    if postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    with postgres.server() as address:
        kill(tmp_path, address, 20)

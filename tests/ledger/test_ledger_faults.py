"""Kills, races and tampering: nothing is lost, nothing is spent twice, no budget is exceeded, no change goes unseen.

The same trials run on SQLite and on a real PostgreSQL server (:mod:`tests.ledger.postgres`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ledger import postgres
from tests.ledger.conftest import pure
from tests.tables.read.test_killed_runs import visits

from discreet import ledger
from discreet.base.errors import OverBudget
from discreet.ledger.budget import as_number

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def address():
    """The address of a PostgreSQL server of one's own."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'discreet[ledger]'")
    if postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    with postgres.server() as found:
        yield found


def printed_by(module: str, *arguments: object) -> str:
    """What a module of this folder prints, run as a process of its own."""
    command = [sys.executable, "-m", f"tests.ledger.{module}", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kill(book: object, tmp_path: Path, kills: int) -> tuple[int, int, int]:
    """Runs that died, those of them that had been charged, and those that had not."""
    out = tmp_path / "out"
    out.mkdir()
    source = visits(tmp_path / "visits.parquet", 5000)
    died, charged, uncharged = map(int, printed_by("killed_training", book, source, out, kills).split())
    return died, charged, uncharged


@pytest.mark.slow
def test_killed_runs_are_charged_once(tmp_path):
    died, charged, uncharged = kill(tmp_path / "budget.db", tmp_path, 8)
    assert died == charged + uncharged > 0


@pytest.mark.long
def test_200_killed_runs_are_charged_once(tmp_path):
    died, charged, uncharged = kill(tmp_path / "budget.db", tmp_path, 200)
    assert died > 100
    assert charged > 3  # both kinds of moments were tried
    assert uncharged > 3


@pytest.mark.service
def test_200_killed_runs_are_charged_once_in_postgresql(tmp_path, address):
    died, charged, uncharged = kill(address, tmp_path, 200)
    assert died > 100
    assert charged > 3  # both kinds of moments were tried
    assert uncharged > 3


def race(book: object, name: str, spenders: int, charges: int) -> None:
    """Spenders in processes of their own, all at once: together they spend the budget, to the last charge."""
    with ledger.opened(book, new=True) as connection, ledger.transaction(connection):
        ledger.open_data_set(connection, name, ledger.make_budget(epsilon=1.0))
    done = [int(number) for number in printed_by("spenders", book, name, spenders, 1 / charges).split()]
    assert len(done) == spenders
    with ledger.opened(book) as connection:
        assert ledger.verify(connection).sound
        held = ledger.balance(connection, name)
    assert sum(done) == held.head.number == charges
    assert as_number(held.spent.loss) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.slow
def test_racing_spenders_never_exceed_the_budget(tmp_path):
    race(tmp_path / "budget.db", "race", 4, 20)


@pytest.mark.long
def test_50_racing_spenders_never_exceed_the_budget(tmp_path):
    race(tmp_path / "budget.db", "race", 50, 100)


@pytest.mark.service
def test_50_racing_spenders_never_exceed_the_budget_in_postgresql(address):
    race(address, "race", 50, 100)


@pytest.mark.service
def test_postgresql_does_what_sqlite_does(address):
    """The same charges give the same chain, up to their times; and refusals read alike."""
    psycopg = pytest.importorskip("psycopg")
    with ledger.opened(address, new=True) as connection:
        with ledger.transaction(connection):
            ledger.open_data_set(connection, "people", ledger.make_budget(epsilon=1.0, delta=1e-6))
        first = ledger.paid(address, "people", {"n": 1}, pure(0.5), lambda: b"\x00noisy", what="a count")
        again = ledger.paid(address, "people", {"n": 1}, pure(0.5), lambda: b"other", what="a count")
        assert (first.fresh, again.fresh, again.content) == (True, False, b"\x00noisy")
        with pytest.raises(OverBudget, match=r"epsilon 0\.5 and delta 1e-06 left"):
            ledger.paid(address, "people", {"n": 2}, pure(0.75), lambda: b"", what="a count")
        assert ledger.verify(connection).sound
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    # A caller with a connection of her own, in the way of psycopg.
    with psycopg.connect(address) as mine:
        ledger.spend(mine, "people", pure(0.25), what="a round")
        mine.rollback()
    with psycopg.connect(address) as mine, mine.transaction():
        ledger.spend(mine, "people", pure(0.25), what="a round")
    with psycopg.connect(address, autocommit=True) as mine:
        with pytest.raises(ValueError, match="begin one first"):
            ledger.spend(mine, "people", pure(0.25), what="a round")
        assert ledger.balance(mine, "people").head.number == 2
        mine.execute("UPDATE ledger_entries SET body = replace(body, 'a round', 'nothing') WHERE number = 2")
        assert not ledger.verify(mine).sound


@pytest.mark.service
@pytest.mark.parametrize("carried_out", [True, False])
def test_an_ambiguous_commit_in_postgresql_is_asked_again(address, monkeypatch, carried_out):
    """The connection breaks at COMMIT, after or before the server carried it out."""
    psycopg = pytest.importorskip("psycopg")
    name, commits, draws, execute = f"unsure {carried_out}", [], [], psycopg.Connection.execute
    with ledger.opened(address, new=True) as connection, ledger.transaction(connection):
        ledger.open_data_set(connection, name, ledger.make_budget(epsilon=1.0))

    def breaking(self, query, *arguments, **options):
        commits.extend([1] * (query == "COMMIT"))
        if query == "COMMIT" and len(commits) == 2:
            if carried_out:
                execute(self, query)
            self.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return execute(self, query, *arguments, **options)

    def draw():
        draws.append(1)
        return b"noisy"

    monkeypatch.setattr(psycopg.Connection, "execute", breaking)
    if carried_out:
        assert ledger.paid(address, name, {}, pure(0.5), draw, what="a count").content == b"noisy"
    else:
        with pytest.raises(ValueError, match="nothing was spent and nothing released"):
            ledger.paid(address, name, {}, pure(0.5), draw, what="a count")
    with ledger.opened(address) as connection:
        assert ledger.balance(connection, name).head.number == carried_out
    assert len(draws) == 1

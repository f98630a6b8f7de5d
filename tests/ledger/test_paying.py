"""Pay once, have it ever after: charge, draw and store are one transaction, and what is unsure is asked again."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager

import pytest
from tests.ledger.conftest import pure

from discreet import ledger
from discreet.base.errors import InvalidInput, OverBudget
from discreet.ledger import database, paying
from discreet.ledger.budget import as_number
from discreet.ledger.paying import paid

REQUEST = {"command": "count", "column": "age"}


def buy(file, draw, request=REQUEST, epsilon=0.5, **more):
    return paid(file, "people", request, pure(epsilon), draw, what="a count", **more)


def never():
    raise AssertionError("drawn twice")


def state(file):
    """What was spent, by how many entries, with which stored releases."""
    with ledger.opened(file) as connection:
        assert ledger.verify(connection).sound
        held = ledger.balance(connection, "people")
        stored = [database.release_at(connection, "people", n) for n in database.releases_of(connection, "people")]
        return as_number(held.spent.loss), held.head.number, stored


def test_the_same_request_is_drawn_once_and_another_is_paid_anew(budget_file):
    first = buy(budget_file, lambda: b"noisy")
    again = buy(budget_file, never, count=never)
    assert (first.content, first.fresh) == (b"noisy", True)
    assert (again.content, again.fresh, again.entry) == (b"noisy", False, first.entry)
    other = buy(budget_file, lambda: b"other", {**REQUEST, "column": "sex"}, 0.25)
    assert other.fresh
    assert state(budget_file) == (0.75, 2, [b"noisy", b"other"])
    assert first.facts()["spent_before"] == {"epsilon": 0.0, "delta": 0.0}
    facts = other.facts()
    assert (facts["spent_before"]["epsilon"], facts["cost"]["epsilon"], facts["left_after"]["epsilon"]) == (
        0.5,
        0.25,
        0.25,
    )
    assert (facts["entry"], facts["releases_before"], facts["reused"]) == (2, 1, False)
    assert again.facts()["reused"]


def test_a_stored_release_keeps_the_guarantee_that_it_was_drawn_with(budget_file):
    """A request that leaves the noise out would get the old release with the promise of another one."""
    buy(budget_file, lambda: b"noisy", epsilon=0.5)
    with pytest.raises(InvalidInput, match="another guarantee"):
        buy(budget_file, never, epsilon=0.1)
    assert buy(budget_file, never, epsilon=0.5).content == b"noisy"
    assert state(budget_file) == (0.5, 1, [b"noisy"])


def test_over_budget_is_refused_before_anybody_looks_at_the_data(budget_file):
    with pytest.raises(OverBudget):
        buy(budget_file, never, epsilon=2.0, count=never)
    assert state(budget_file) == (0.0, 0, [])


class PowerCut(BaseException):
    """The end of the process, at whatever line it is raised."""


@pytest.mark.parametrize("moment", ["count", "draw", "entry", "release", "before commit", "after commit"])
def test_a_run_that_dies_at_any_moment_is_finished_by_the_same_request(budget_file, monkeypatch, moment):
    def die(*_args, **_facts):
        raise PowerCut

    real, begun = database.transaction, []

    @contextmanager
    def last_breath(connection):
        begun.append(1)
        with real(connection):
            yield
            if moment == "before commit" and len(begun) == 2:
                raise PowerCut
        if moment == "after commit" and len(begun) == 2:
            raise PowerCut

    with monkeypatch.context() as broken:
        if moment in ("entry", "release"):
            broken.setattr(database, {"entry": "add_entries", "release": "add_release"}[moment], die)
        broken.setattr(paying, "transaction", last_breath)
        with pytest.raises(PowerCut):
            buy(budget_file, die if moment == "draw" else lambda: b"1", count=die if moment == "count" else None)
    survived = state(budget_file)
    assert survived == ((0.5, 1, [b"1"]) if moment == "after commit" else (0.0, 0, []))
    finished = buy(budget_file, lambda: b"2")
    assert finished.content == (b"1" if moment == "after commit" else b"2")
    assert state(budget_file) == (0.5, 1, [finished.content])


class Unreliable(sqlite3.Connection):
    """A connection whose second COMMIT fails, after or before it was carried out."""

    carried_out, commits = True, 0

    def execute(self, query, parameters=()):
        if query == "COMMIT":
            Unreliable.commits += 1
            if Unreliable.commits == 2:
                if self.carried_out:
                    super().execute(query)
                raise sqlite3.OperationalError("disk I/O error")
        return super().execute(query, parameters)


@pytest.mark.parametrize("carried_out", [True, False])
def test_an_ambiguous_commit_is_asked_again_and_never_repeated(budget_file, monkeypatch, carried_out):
    real = sqlite3.connect
    monkeypatch.setattr(Unreliable, "carried_out", carried_out)
    monkeypatch.setattr(Unreliable, "commits", 0)
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **facts: real(*args, factory=Unreliable, **facts))
    drawn = []

    def draw():
        drawn.append(1)
        return b"noisy"

    if carried_out:
        assert buy(budget_file, draw).content == b"noisy"
    else:
        with pytest.raises(InvalidInput, match="nothing was spent and nothing released"):
            buy(budget_file, draw)
    assert len(drawn) == 1
    monkeypatch.undo()
    assert state(budget_file) == ((0.5, 1, [b"noisy"]) if carried_out else (0.0, 0, []))


def test_of_racing_runs_with_one_request_one_draws_and_all_get_its_release(budget_file):
    results, barrier = [], threading.Barrier(6)

    def run(number):
        barrier.wait()
        results.append(buy(budget_file, lambda: b"drawn by %d" % number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({result.content for result in results}) == 1
    assert sum(result.fresh for result in results) == 1
    assert state(budget_file)[:2] == (0.5, 1)


def test_a_changed_stored_release_is_not_used(budget_file):
    buy(budget_file, lambda: b"noisy")
    with ledger.opened(budget_file) as connection:
        connection.execute("UPDATE ledger_releases SET content = ?", (b"forged",))
    with pytest.raises(InvalidInput, match="missing or changed"):
        buy(budget_file, never)


def test_ledgers_that_cannot_be_used_are_named_in_a_sentence(tmp_path, budget_file):
    (tmp_path / "notes.txt").write_text("no database at all")
    for name, message in (
        ("absent.db", "discreet ledger open absent.db"),
        ("notes.txt", "is no ledger"),
        ("no/such/folder.db", "there is no ledger"),
    ):
        with pytest.raises(InvalidInput, match=message):
            buy(tmp_path / name, never)
    empty = tmp_path / "other.db"
    sqlite3.connect(empty).execute("CREATE TABLE t (x)")
    with pytest.raises(InvalidInput, match="no tables of a ledger"):
        buy(empty, never)
    with pytest.raises(InvalidInput, match="plain data"):
        buy(budget_file, never, {"shape": object()})
    with ledger.opened(budget_file) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone()[0] >= 2

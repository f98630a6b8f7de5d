"""Rounds close while reports keep coming: freezing and publishing are short, and counting holds nobody up."""

from __future__ import annotations

import json
import secrets
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.study.service.small_studies import ASKED, CENTRAL, MATRIX, MODELS, SAMPLED, coordinator, declared, report
from tests.study.service.soundness import COUNTED, STORED, heads_are_a_chain, the_ledger_is_sound
from tests.study.service.test_restarts import Killed, dies_at, run_to_round, run_to_the_end

from discreet.base.errors import InvalidInput
from discreet.study.service import rounds
from discreet.study.service.study_database import MIGRATIONS, Database
from discreet.study.service.study_files import places_of
from discreet.study.service.wire_messages import Accepted, Refused


def filled(at, rng) -> None:
    """As many reports as the open round wants."""
    for _ in range(at.published.row.wanted):
        at.accept(report(at, rng))


def at_point(at, name: str, work) -> None:
    """Do this when the coordinator reaches that point, once."""
    at.point = lambda reached: (setattr(at, "point", lambda _name: None), work()) if reached == name else None


@contextmanager
def everybody(_link):
    """Leave to close for all at once."""
    yield True


COUNTING = ("close: frozen", "close: read", "close: released", "open: keyed")


@pytest.mark.parametrize("name", COUNTING)
def test_the_database_is_free_while_a_round_is_counted(tmp_path, rng, name):
    at = coordinator(declared(tmp_path, CENTRAL))
    run_to_round(at, rng, 2)
    filled(at, rng)
    reached = []

    def write() -> None:
        with closing(
            sqlite3.connect(places_of(tmp_path / "small.toml").database, timeout=0, isolation_level=None)
        ) as raw:
            raw.execute("BEGIN IMMEDIATE")
            raw.execute("ROLLBACK")
        reached.append(name)

    at_point(at, name, write)
    assert at.close_if_full()
    assert reached == [name]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", COUNTING)
def test_who_reports_while_a_round_is_counted_is_answered_and_counted_once(tmp_path, rng, model, name):
    file = declared(tmp_path, MODELS[model])
    at, other = coordinator(file), coordinator(file)
    run_to_round(at, rng, 2)
    other.refresh()
    filled(at, rng)
    body, old, answers = report(at, rng), report(at, rng), []
    at.accept(old)

    def come() -> None:
        try:
            answers.append(other.accept(body))
        except Refused as refusal:
            answers.append(refusal.code)
        assert other.accept(old) == Accepted(2)  # known, whatever happens to it just now
        with pytest.raises(Refused, match="another report has this id"):
            other.accept({**report(at, rng, 1), "id": old["id"]}) if not at.declared.sealed else other.accept(
                {**old, "report": report(at, rng)["report"], "round": 1}
            )

    at_point(at, name, come)
    assert at.close_if_full()
    assert answers == (["closed"] if at.declared.sealed else [Accepted(2)])
    assert at.waiting()[0] == (0 if at.declared.sealed else 1)
    run_to_the_end(at, rng)
    with at.reading() as link:
        assert link.rows(COUNTED) == [(at.declared.total,)]
        assert at.published.row.served == at.declared.total
        heads_are_a_chain(link, at.declared, places_of(file).head)
        the_ledger_is_sound(link, at.declared)
        lots = dict(link.rows("SELECT id, lot FROM reports"))
    assert lots[old["id"]] == 2
    assert lots.get(body["id"]) == (None if at.declared.sealed else 3)


@pytest.mark.parametrize("model", {**MODELS, "matrix": MATRIX})
@pytest.mark.parametrize("name", [*COUNTING, "close: publishing"])
def test_of_two_who_count_the_same_reports_one_is_forgotten(tmp_path, rng, model, name, monkeypatch):
    """As after a connection that was lost in the middle: its lock is gone, and the process counts on."""
    file = declared(tmp_path, {**MODELS, "matrix": MATRIX}[model])
    at, other = coordinator(file), coordinator(file)
    run_to_round(at, rng, 2)
    other.refresh()
    filled(at, rng)
    for each in (at, other):
        monkeypatch.setattr(each.database, "alone", everybody)
    point = "close: released" if name == "close: publishing" else name
    at_point(at, point, lambda: other.close_if_full())
    at.close_if_full()
    assert at.published.row.number == other.published.row.number == 3
    assert at.head() == other.head()
    run_to_the_end(at, rng)
    with at.reading() as link:
        heads_are_a_chain(link, at.declared, places_of(file).head)
        the_ledger_is_sound(link, at.declared)
        assert link.rows(COUNTED) == [(at.declared.total,)]


def test_one_counts_and_the_others_do_not(tmp_path, rng):
    file = declared(tmp_path)
    at, other = coordinator(file), coordinator(file)
    run_to_round(at, rng, 2)
    filled(at, rng)
    answers = []
    at_point(at, "close: read", lambda: answers.append(other.close_if_full()))
    assert at.close_if_full()
    assert answers == [False]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["close: frozen", "close: read", "close: released", "close: written"])
def test_an_end_that_was_interrupted_is_finished_and_nobody_is_let_in_meanwhile(tmp_path, rng, model, name):
    file = declared(tmp_path, MODELS[model])
    at = coordinator(file)
    run_to_round(at, rng, 2)
    at.accept(report(at, rng))
    body = report(at, rng)
    at.point = dies_at(name)
    with pytest.raises(Killed):
        at.end("enough")
    again = coordinator(file)
    assert again.published.row.number == 2
    with pytest.raises(Refused) as refusal:
        again.accept(body)
    assert refusal.value.code == "ended"
    again.close_if_full()
    assert (again.published.row.how, again.published.ended) == ("final", "enough")
    assert again.published.row.served == at.published.row.served + 1
    again.end("twice")
    assert again.published.ended == "enough"


def test_an_end_while_a_round_is_being_counted_counts_that_first(tmp_path, rng):
    file = declared(tmp_path)
    at = coordinator(file)
    run_to_round(at, rng, 2)
    filled(at, rng)
    at.point = dies_at("close: released")
    with pytest.raises(Killed):
        at.close_if_full()
    again = coordinator(file)
    late = report(again, rng)
    again.accept(late)
    again.end("enough")
    assert (again.published.row.number, again.published.ended) == (4, "enough")
    with again.reading() as link:
        assert link.rows("SELECT lot FROM reports WHERE id = ?", late["id"]) == [(3,)]
        assert link.rows(COUNTED) == [(again.published.row.served,)]


def test_contents_that_are_not_all_there_are_not_released(tmp_path, rng):
    file = declared(tmp_path)
    at = coordinator(file)
    run_to_round(at, rng, 2)
    filled(at, rng)
    link = at.database.connect()
    link.run("DELETE FROM contents_0 WHERE place IN (SELECT place FROM contents_0 LIMIT 1)")
    link.close()
    with pytest.raises(InvalidInput, match="restore a whole copy"):
        at.close_if_full()
    assert at.published.row.number == 2


def steps_of(at, rng, number: int) -> int:
    """Instructions of SQLite's machine that a commit of so many reports takes."""
    steps, bodies = [0], [at.check(json.dumps(report(at, rng)).encode()) for _ in range(number)]

    def tick() -> int:
        steps[0] += 1
        return 0

    with at._link as link:
        link.raw.set_progress_handler(tick, 10)
    assert all(isinstance(answer, Accepted) for answer in at.accept_all(bodies))
    with at._link as link:
        link.raw.set_progress_handler(None, 0)
    return steps[0]


def test_a_commit_does_not_become_slower_with_those_who_wait(tmp_path, rng):
    at = coordinator(declared(tmp_path, number=100_000))
    at.accept(report(at, rng))
    link = at.database.connect()
    link.run("UPDATE rounds SET wanted = 90000")
    few = steps_of(at, rng, 20)
    rows = [rounds.ReportRow(secrets.token_hex(16), 1, "f" * 64, None, b"{}") for _ in range(20_000)]
    with link.writing():
        rounds.add_reports(link, rows, 1)
    link.close()
    assert at.waiting()[0] == 20_021
    assert steps_of(at, rng, 20) < 1.5 * few
    log = Path(f"{places_of(tmp_path / 'small.toml').database}-wal")
    with at._link as link:
        link.forget()
    steps_of(at, rng, 100)
    assert log.stat().st_size < 140 * 4120  # a page of 4096 bytes for each random id, few for what they have sent


def test_who_was_counted_is_known_whatever_lies_in_the_tables_since(tmp_path, rng):
    """Contents of every other lot share a table: what is there now is never taken for what was counted."""
    at, sent = coordinator(declared(tmp_path, SAMPLED, number=40)), []
    while at.published.ended is None:
        for _ in range(at.published.row.wanted):
            sent.append(report(at, rng))
            at.accept(sent[-1])
            again = [at.check(json.dumps(body).encode()) for body in sent]
            assert at.accept_all(again) == [Accepted(body["round"]) for body in sent]
            said = sent[-1]["report"]
            with pytest.raises(Refused, match="another report has this id"):  # it waits: its content is compared
                at.accept({**sent[-1], "report": {**said, "items": [1 - said["items"][0] % 2]}})
        assert at.close_if_full()
    assert at.published.row.number > 4
    assert at.published.row.served == len(sent) == at.declared.total


def as_before(link, incoming) -> list[str]:
    """Make the tables those of 0.2.0, where these reports wait; gives the ids of those that were counted."""
    counted = link.rows("SELECT id, round, token, lot FROM reports")
    for table in ("reports", "intake", "contents_0", "contents_1"):
        link.run(f"DROP TABLE {table}")
    for statement in MIGRATIONS[0]:
        if " reports " in statement:
            link.run(statement)
    link.many("INSERT INTO reports VALUES (?, ?, '', ?, ?, NULL)", counted)
    rows = [(each.id, each.round, each.fingerprint, None, None, each.content) for each in incoming]
    link.many("INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?)", rows)
    link.run("UPDATE study_schema SET version = 2")
    return [row[0] for row in counted]


@pytest.mark.parametrize("model", ["local", "central"])
def test_a_database_with_reports_that_wait_is_brought_up_to_date(tmp_path, rng, model):
    """What had been taken under the tables of before is counted once, and ids from then on are still known."""
    file = declared(tmp_path, MODELS[model])
    at = coordinator(file)
    run_to_round(at, rng, 2)
    old = [report(at, rng) for _ in range(at.published.row.wanted)]
    incoming = [at.check(json.dumps(body).encode()) for body in old]
    first = at.heads()
    at.stop()
    link = Database(places_of(file).database).connect()
    counted = as_before(link, incoming)
    link.close()
    at = coordinator(file)
    assert (at.waiting()[0], at.heads()) == (len(old), first)
    for body in old:
        assert at.accept(body) == Accepted(2)
    assert at.close_if_full()
    run_to_the_end(at, rng)
    assert at.published.row.served == at.declared.total
    with at.reading() as link:
        assert {row[0] for row in link.rows(STORED)} >= {body["id"] for body in old} | set(counted)


def test_a_database_of_a_version_between_releases_is_refused(tmp_path):
    at = coordinator(file := declared(tmp_path))
    with at._link as link:
        link.run("UPDATE study_schema SET version = 3")
    with pytest.raises(InvalidInput, match="never released: serve it with that one"):
        coordinator(file)


FRESH = """
import sys
from tests.study.service.small_studies import coordinator, report, study_in
from pathlib import Path
import numpy as np
from contextlib import contextmanager
from discreet.study.service.study_database import Link
at, rng, found = coordinator(Path(sys.argv[1])), np.random.default_rng(1), []
at.warm_up()
for _ in range(at.published.row.wanted):
    at.accept(report(at, rng))
true = Link.writing
@contextmanager
def watched(self):
    before = set(sys.modules)
    with true(self):
        yield
    found.extend(set(sys.modules) - before)
Link.writing = watched
assert at.close_if_full()
print(sorted(found), "numba" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", [{}, ASKED, CENTRAL, MATRIX], ids=["items", "asked", "central", "matrix"])
def test_nothing_is_imported_while_others_wait(tmp_path, model):
    """The first closing of a fresh process, after its warm-up."""
    file = declared(tmp_path, model)
    done = subprocess.run([sys.executable, "-c", FRESH, str(file)], capture_output=True, text=True, check=False)
    assert done.stdout == "[] True\n", done.stderr[-2000:]


def test_the_lock_of_a_closing_is_one_of_the_study(tmp_path):
    database = Database(tmp_path / "a.db")
    one, two = database.connect(), database.connect()
    with database.alone(one) as first, database.alone(two) as second:
        assert (first, second) == (True, False)
    with database.alone(two) as free:
        assert free

"""The same on a real PostgreSQL: to the end, two coordinators at once, crashes, and a lost connection."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.ledger.postgres import MISSING, programs, server
from tests.study.service.small_studies import CENTRAL, SAMPLED, coordinator, declared, report, run_to_the_end
from tests.study.service.test_closing_apart import as_before
from tests.study.service.test_restarts import ACCEPTING, CLOSING, Killed, dies_at, run_to_round, total

from discreet.ledger import opened, verify
from discreet.study.service.chain_heads import Behind
from discreet.study.service.declaration import read_study
from discreet.study.service.purging import purge
from discreet.study.service.restoring import restore
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import places_of
from discreet.study.service.wire_messages import Accepted, Refused

pytestmark = [pytest.mark.service, pytest.mark.skipif(programs() is None, reason=MISSING)]


@pytest.fixture(scope="module")
def postgres():
    with server() as address:
        yield address


@pytest.fixture
def schema(postgres, tmp_path):
    """An empty schema of its own, as an address."""
    import psycopg

    name = f"study_{abs(hash(str(tmp_path))):x}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{postgres}&options=-csearch_path%3D{name}"


@pytest.mark.parametrize("model", ["local", "central"])
def test_a_study_runs_to_its_end(schema, tmp_path, rng, model):
    at = coordinator(declared(tmp_path, CENTRAL if model == "central" else {}), schema)
    body = report(at, rng)
    assert at.accept(body) == at.accept(body) == Accepted(1)
    at.close_if_full()
    run_to_the_end(at, rng)
    assert total(at) == at.declared.total
    with opened(schema) as books:
        assert verify(books).sound


@pytest.mark.parametrize("name", [*CLOSING, *ACCEPTING])
def test_crashes_lose_and_double_nothing(schema, tmp_path, rng, name):
    file = declared(tmp_path, CENTRAL)
    at = coordinator(file, schema)
    sent = [report(at, rng) for _ in range(at.published.row.wanted)]
    for body in sent[:-1]:
        at.accept(body)
    at.point = dies_at(name)

    def go_on():
        at.accept(sent[-1])
        at.close_if_full()

    with pytest.raises(Killed):
        go_on()
    again = coordinator(file, schema)
    if name in ACCEPTING:
        again.accept(sent[-1])
    again.close_if_full()
    assert again.published.row.number == 2
    assert total(again) == len(sent)


def test_coordinators_in_several_threads_take_every_report_once(schema, tmp_path):
    """Four coordinators on one database, more reports than the study takes, all sent twice."""
    file = declared(tmp_path, number=60)
    first = coordinator(file, schema)
    answers, problems = [], []

    def work(seed):
        rng, at = np.random.default_rng(seed), coordinator(file, schema)
        try:
            for _ in range(25):
                try:
                    body = json.dumps(report(at, rng)).encode()
                    incoming = at.check(body)
                except Refused:
                    break
                answers.extend(at.accept_all([incoming, incoming]))
                at.close_if_full()
        except Exception as error:
            problems.append(error)
        at.stop()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    while first.close_if_full():
        pass
    accepted = sum(isinstance(answer, Accepted) for answer in answers)
    assert accepted == 2 * 60
    assert total(first) == 60
    assert first.published.ended


def test_workers_that_start_at_once_open_the_study_once(schema, tmp_path):
    file, found = declared(tmp_path), []
    threads = [threading.Thread(target=lambda: found.append(coordinator(file, schema))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert {at.published.row.head for at in found} == {found[0].published.row.head}
    with opened(schema) as books:
        assert verify(books).entries == 2


def test_a_lost_connection_is_said_and_made_anew(schema, tmp_path, rng):
    import psycopg

    at = coordinator(declared(tmp_path), schema)
    body = report(at, rng)
    with psycopg.connect(schema, autocommit=True) as other:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"  # noqa: E501
        other.execute(query)
    with pytest.raises(Refused) as refusal:
        at.accept(body)
    assert refusal.value.code == "busy"
    assert at.accept(body) == Accepted(1)


@pytest.mark.parametrize("model", ["local", "central"])
def test_a_standby_that_lags_within_a_round_is_noticed_until_it_is_restored(schema, tmp_path, rng, model):
    """What was committed last is not there: by who works, by who closes, by who starts."""
    import psycopg

    file = declared(tmp_path, CENTRAL if model == "central" else {}, number=40)
    at = coordinator(file, schema)
    while at.published.row.number < 4:
        at.accept(report(at, rng))
        at.close_if_full()
    body = report(at, rng)
    at.accept(body)
    with psycopg.connect(schema, autocommit=True) as other:
        (place,) = other.execute("DELETE FROM reports WHERE id = %s RETURNING place", (body["id"],)).fetchone()
        assert other.execute("DELETE FROM contents_0 WHERE place = %s", (place,)).rowcount == 1
        other.execute("UPDATE intake SET reports = reports - 1")
    with pytest.raises(Refused) as refusal:
        at.accept(report(at, rng))
    assert refusal.value.code == "busy"
    for work in (at.refresh, at.close_if_full, at.end, lambda: coordinator(file, schema)):
        with pytest.raises(Behind, match="study restored"):
            work()
    assert restore(read_study(file), Database(schema), places_of(file)).open_round == 5
    at.refresh()
    assert at.accept(report(at, rng)) == Accepted(5)
    run_to_the_end(coordinator(file, schema), rng)


def test_an_address_is_never_quoted(tmp_path):
    database = Database("postgresql://owner:password@/nowhere?host=/nothing")
    from discreet.base.errors import InvalidInput

    with pytest.raises(InvalidInput) as refusal:
        database.prepare()
    assert "password" not in str(refusal.value)


def in_files(schema: str, contents: list[bytes]) -> set[bytes]:
    """Which of these lie in the files of the tables; the log of writes keeps them until it is recycled."""
    import psycopg

    with psycopg.connect(schema, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        ((folder,),) = connection.execute("SHOW data_directory").fetchall()
    files = [each.read_bytes() for each in (Path(folder) / "base").rglob("*") if each.is_file()]
    return {each for each in contents if any(each in file for file in files)}


@pytest.mark.parametrize("model", ["local", "central"])
def test_counted_reports_are_not_in_stolen_files(schema, tmp_path, rng, model):
    """Also after reports were changed or refused, and without any vacuum."""
    at = coordinator(declared(tmp_path, CENTRAL if model == "central" else SAMPLED, number=40), schema)
    run_to_round(at, rng, 3)
    bodies = [json.dumps(report(at, rng)).encode() for _ in range(at.published.row.wanted)]
    checked = [at.check(body) for body in bodies]
    needles = [text for each in checked for text in (each.content, each.fingerprint.encode())]
    at.accept_all(checked)
    assert in_files(schema, needles) == set(needles)
    assert at.close_if_full()
    assert in_files(schema, needles) == set()
    for body in bodies:
        assert at.accept(body) == Accepted(3)
    assert purge(at.declared, at.database).erased == 0
    run_to_the_end(at, rng)
    assert total(at) == at.declared.total


@pytest.mark.parametrize("model", ["local", "central"])
def test_what_a_release_before_has_stored_is_counted_and_erased(schema, tmp_path, rng, model):
    """Reports wait in the tables of 0.2.0, which would hold them for ever."""
    at = coordinator(file := declared(tmp_path, CENTRAL if model == "central" else SAMPLED, number=40), schema)
    run_to_round(at, rng, 3)
    bodies = [json.dumps(report(at, rng)).encode() for _ in range(at.published.row.wanted)]
    checked = [at.check(body) for body in bodies]
    needles = [text for each in checked for text in (each.content, each.fingerprint.encode())]
    at.stop()
    link = Database(schema).connect()
    as_before(link, checked)
    link.close()
    again = coordinator(file, schema)
    assert in_files(schema, needles) == set(needles)
    for body in bodies:
        assert again.accept(body) == Accepted(3)
    assert again.close_if_full()
    assert in_files(schema, needles) == set()
    run_to_the_end(again, rng)
    assert total(again) == again.declared.total


def test_who_reads_a_table_delays_erasing_and_not_those_who_report(schema, tmp_path, rng):
    """A dump holds its locks for long; what was counted goes before the next round closes."""
    import psycopg

    at = coordinator(declared(tmp_path, SAMPLED, number=40), schema)
    run_to_round(at, rng, 2)
    with psycopg.connect(schema) as dump:
        dump.execute("SELECT count(*) FROM contents_0").fetchall()
        while at.published.row.number == 2:
            at.accept(report(at, rng))
            at.close_if_full()
        for _ in range(at.published.row.wanted):
            at.accept(report(at, rng))
        assert not at.close_if_full()
        assert at.published.row.number == 3
    assert at.close_if_full()
    run_to_the_end(at, rng)
    assert total(at) == at.declared.total


@pytest.mark.parametrize("model", ["local", "central"])
def test_the_writers_turn_is_free_while_a_round_is_counted(schema, tmp_path, rng, model):
    file = declared(tmp_path, CENTRAL if model == "central" else SAMPLED, number=40)
    at, other = coordinator(file, schema), coordinator(file, schema)
    run_to_round(at, rng, 2)
    other.refresh()
    for _ in range(at.published.row.wanted):
        at.accept(report(at, rng))
    answers = []

    def come(reached):
        if reached in ("close: frozen", "close: read", "close: released"):
            (answer,) = other.accept_all([other.check(json.dumps(report(other, rng)).encode())])
            answers.append((getattr(answer, "code", answer), other.close_if_full()))

    at.point = come
    assert at.close_if_full()
    assert answers == [("closed" if model == "central" else Accepted(2), False)] * 3
    at.point = lambda _name: None
    run_to_the_end(at, rng)
    assert total(at) == at.declared.total == at.published.row.served

"""What strangers can do with requests: nothing that others notice. Each test was red once."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import stat
import threading

import pytest
from starlette.testclient import TestClient
from tests.study.service.small_studies import CENTRAL, SAMPLED, declared, report
from tests.study.service.test_service_app import OPERATOR, Served

from discreet.study.service import app, study_database
from discreet.study.service.looks import Looks
from discreet.study.service.study_database import Link
from discreet.study.service.study_files import places_of
from discreet.study.service.wire_messages import Refused


@pytest.fixture
def served(tmp_path):
    with Served(declared(tmp_path, SAMPLED)) as found:
        yield found


def test_rounds_that_do_not_exist_yet_are_no_failure(served):
    for number in (2, 3, 10**9):
        answer = served.client.get(f"/v1/operator/overview?round={number}", headers=OPERATOR)
        assert answer.status_code == 200
        assert answer.json()["rounds"] == []
    assert "discreet_failures_total 0.0" in served.client.get("/metrics", headers=OPERATOR).text


@pytest.mark.parametrize("path", ["/v1/reports/", "/v1/policy/", "/v1/study/", "/dashboard/"])
def test_nobody_is_redirected(served, path):
    """A redirect would name the host that the request named, and http where the proxy speaks https."""
    answer = TestClient(served.service.app, follow_redirects=False).get(path, headers={"host": "evil.example"})
    assert answer.status_code == 404
    assert "location" not in answer.headers


@pytest.mark.parametrize("model", [SAMPLED, CENTRAL])
def test_nobody_else_may_read_or_lock_the_files_of_a_study(tmp_path, rng, model):
    """Also with the usual umask, which lets everybody read."""
    import os

    file, before = declared(tmp_path, model), os.umask(0o022)
    try:
        with Served(file) as served:
            served.client.post("/v1/reports", json=report(served.at, rng))
            modes = {each: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.rglob("*") if each.is_file()}
    finally:
        os.umask(before)
    assert {"small.db", "small.db-wal", "small.db-shm", "small.db-turn", "small.head"} <= {each.name for each in modes}
    assert {each.name: mode for each, mode in modes.items() if mode & 0o077 and each != file} == {}


def test_readiness_writes_and_liveness_does_not(served, tmp_path):
    """A database that can be read but takes nothing more: alive, and not ready."""
    assert served.client.get("/readyz").json() == {"status": "ready"}
    other = sqlite3.connect(places_of(tmp_path / "small.toml").database, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    served.service._asked = -9.0
    begun = threading.Event()
    assert served.client.get("/readyz").status_code == 503
    assert served.client.get("/healthz").json() == {"status": "ok"}
    other.execute("ROLLBACK")
    served.until(lambda: begun.wait(0.01) or served.client.get("/readyz").status_code == 200)
    other.close()


class Hung:
    """A database that answers nothing until it is let go."""

    def __init__(self, monkeypatch) -> None:
        self.free, self.asked, self._run = threading.Event(), threading.Event(), Link.run
        monkeypatch.setattr(Link, "run", lambda link, query, *values: self.run(link, query, *values))

    def run(self, link, query, *values):
        self.asked.set()
        assert self.free.wait(60.0)
        return self._run(link, query, *values)


def test_a_hung_database_stops_nobody_who_needs_none(served, rng, monkeypatch):
    """Reports of unknown and of late rounds, pages and heads ask the database; all of them wait outside the loop."""
    late = report(served.at, rng)
    while served.at.published.row.number == 1:
        served.client.post("/v1/reports", json=report(served.at, rng))
    served.until(served.is_settled)
    served.at._rules.clear()
    monkeypatch.setattr(served.service._looks, "_seconds", 0.2)
    hung, found = Hung(monkeypatch), []
    try:
        for body in (late | {"round": 99}, late):
            for _ in range(6):
                answer = served.client.post("/v1/reports", json=body)
                assert answer.status_code == 503, answer.text
                assert answer.headers["retry-after"] == "1"
        assert hung.asked.is_set()
        for path in ("/healthz", "/v1/heads?from=1"):
            assert served.client.get(path).status_code == 503
        for path in ("/v1/policy", "/v1/study", "/v1/head", "/dashboard"):
            found.append(served.client.get(path).status_code)
        assert not hung.free.is_set()
    finally:
        hung.free.set()
    assert found == [200] * 4
    served.until(lambda: served.client.post("/v1/reports", json=late).status_code == 200)


def test_a_report_is_not_waited_for_longer_than_a_device_waits(served, rng, monkeypatch):
    body = report(served.at, rng)
    monkeypatch.setattr(app, "_ANSWER", 0.2)
    hung = Hung(monkeypatch)
    try:
        assert served.client.post("/v1/reports", json=body).status_code == 503
        assert served.client.get("/v1/policy").status_code == 200
    finally:
        hung.free.set()
    monkeypatch.setattr(app, "_ANSWER", 20.0)
    assert served.client.post("/v1/reports", json=body).json()["round"] == 1


def test_few_requests_wait_for_the_database_at_a_time():
    async def asked() -> None:
        looks, free = Looks(60.0), threading.Event()
        waiting = [asyncio.create_task(looks(free.wait, 60.0)) for _ in range(64)]
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="does not answer now"):
            await looks(free.wait, 60.0)
        free.set()
        assert all(await asyncio.gather(*waiting))
        assert await looks(lambda: "again") == "again"
        looks.shutdown()

    asyncio.run(asked())


def test_postgresql_may_not_take_for_ever(monkeypatch):
    psycopg = pytest.importorskip("psycopg", reason="needs the extra 'serve'")
    told = {}

    class Connection:
        def execute(self, query):
            told["set"] = query

    monkeypatch.setattr(psycopg, "connect", lambda _address, **how: told.update(how) or Connection())
    study_database._postgres("postgresql://nowhere/x")
    assert told["connect_timeout"] <= 5
    assert re.search(r"SET statement_timeout TO \d+; SET lock_timeout TO \d+", told["set"])

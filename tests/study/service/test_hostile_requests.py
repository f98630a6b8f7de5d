"""What strangers can do with requests: nothing that others notice. Each test was red once."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import stat
import threading
from contextlib import nullcontext

import pytest
from starlette.testclient import TestClient
from tests.study.service.small_studies import CENTRAL, SAMPLED, TOKENS, declared, report
from tests.study.service.test_service_app import OPERATOR, Served

from discreet.study.service import app, rounds, study_database
from discreet.study.service import coordinator as coordinating
from discreet.study.service.looks import Looks
from discreet.study.service.monitoring import Limits
from discreet.study.service.reports import Invited, token_digest
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


def test_heads_come_in_pages_and_nothing_else_of_the_rounds_is_read(served, rng, monkeypatch):
    while served.at.published.ended is None:
        served.client.post("/v1/reports", json=report(served.at, rng))
        served.until(served.is_settled)
    every = served.at.heads()
    assert len(every) > 4
    for module in (coordinating, app):
        monkeypatch.setattr(module, "MOST_HEADS", 3)
    asked = []
    monkeypatch.setattr(
        Link, "rows", lambda link, query, *v, real=Link.rows: asked.append(query) or real(link, query, *v)
    )
    pages = [served.client.get(f"/v1/heads?from={first}").json()["heads"] for first in (1, 4, len(every) + 1)]
    assert pages == [every[:3], every[3:6], []]
    assert not [query for query in asked if "policy" in query]
    kept = [served.client.get(f"/v1/heads?from={first}").headers["cache-control"] for first in (1, len(every))]
    assert kept == ["public, max-age=31536000, immutable", "public, max-age=0, s-maxage=1"]  # the last is no whole page


def test_what_everybody_may_see_has_a_tag_that_changes_with_it(served, rng):
    """A cache in front asks whether what it holds is still right, and is told so in no bytes."""
    paths = ("/v1/study", "/v1/policy", "/v1/head", "/v1/heads", "/")
    first = {path: served.client.get(path) for path in paths}
    for path, answer in first.items():
        assert "public" in answer.headers["cache-control"], path
        for held in (answer.headers["etag"], f'"other", W/{answer.headers["etag"]}'):
            again = served.client.get(path, headers={"if-none-match": held})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", answer.headers["etag"])
        assert served.client.get(path, headers={"if-none-match": '"other"'}).content == answer.content
    number = served.at.published.row.number
    while served.at.published.row.number == number:
        served.client.post("/v1/reports", json=report(served.at, rng))
        served.until(served.is_settled)
    for path, answer in first.items():
        later = served.client.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert later.status_code == (304 if path == "/v1/study" else 200), path
    for path, how in (("/v1/status", OPERATOR), ("/v1/operator/overview", OPERATOR), ("/healthz", {}), ("/no", {})):
        assert served.client.get(path, headers=how).headers["cache-control"] == "no-store", path
    assert served.client.post("/v1/reports", json=report(served.at, rng)).headers["cache-control"] == "no-store"


def test_heads_count_for_the_rate(tmp_path):
    with Served(declared(tmp_path, SAMPLED), limits=Limits(4096, rate=0.001, burst=5.0)) as served:
        assert [served.client.get("/v1/heads").status_code for _ in range(7)] == [200] * 5 + [429] * 2


def test_strangers_do_not_take_the_turn_of_the_invited(tmp_path, rng):
    """Unknown tokens are refused before the writer's turn; new ones are known at once."""
    with Served(declared(tmp_path, SAMPLED, TOKENS)) as served:
        link, taken, turns = served.at.database.connect(), served.at.accept_waiting, []
        served.at.accept_waiting = lambda take: turns.append(1) or taken(take)

        def post(token: str):
            return served.client.post(
                "/v1/reports", json=report(served.at, rng), headers={"Authorization": f"Bearer {token}"}
            )

        for batch in (["a" * 32, "b" * 32], ["c" * 32]):
            for number in range(20):
                answer = post(f"stranger {number}")
                assert (answer.status_code, answer.json()["error"]) == (403, "token")
            assert post(batch[0]).status_code == 403
            before = len(turns)
            with link.writing():
                rounds.add_tokens(link, [token_digest(token) for token in batch])
            assert [post(token).status_code for token in batch] == [200] * len(batch)
            assert len(turns) - before == len(batch)
        assert len(turns) == 3
        link.close()


def test_invitations_are_looked_up_once_for_all_who_wait(monkeypatch):
    known, looks, begun, free = [token_digest("one")], [], threading.Event(), threading.Event()

    def number(_link) -> int:
        looks.append(1)
        begun.set()
        assert free.wait(60.0)
        return len(known)

    monkeypatch.setattr(rounds, "number_of_tokens", number)
    monkeypatch.setattr(rounds, "all_tokens", lambda _link: list(known))
    invited, found = Invited(), []

    def ask(token: str) -> None:
        try:
            invited.check(token_digest(token), nullcontext(None))
            found.append(token)
        except Refused:
            found.append("no")

    first = threading.Thread(target=ask, args=("one",))
    first.start()
    assert begun.wait(60.0)
    known.append(token_digest("two"))  # while the first look is on: it may be too late for that
    others = [threading.Thread(target=ask, args=(token,)) for token in ("two", "two", "three", "four")]
    for each in others:
        each.start()
    free.set()
    for each in (first, *others):
        each.join()
    assert sorted(found) == ["no", "no", "one", "two", "two"]
    assert len(looks) <= 5
    assert invited.holds(token_digest("one"))
    assert not invited.holds(token_digest("three"))

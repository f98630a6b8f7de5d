"""What strangers can do with requests: nothing that others notice. Each test was red once."""

from __future__ import annotations

import sqlite3
import stat
import threading

import pytest
from starlette.testclient import TestClient
from tests.study.service.small_studies import CENTRAL, SAMPLED, declared, report
from tests.study.service.test_service_app import OPERATOR, Served

from discreet.study.service.study_files import places_of


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

"""Pages over HTTP: who may see what, the headers of everything, events, and nothing private on the public page."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest
from tests.study.service.small_studies import CENTRAL, MODELS, coordinator, declared, report
from tests.study.service.test_service_app import OPERATOR, Served

from discreet.ledger.chain import digest, link
from discreet.study.dashboard.serving import HEADERS, static_files, told_to_stop
from discreet.study.service.app import Service
from discreet.study.service.monitoring import Log
from discreet.worlds.catalogue import river_swim

SMALL_RIVER = {"states = 2": "states = 3", "horizon = 2": "horizon = 3"}


@pytest.fixture(params=MODELS)
def served(request, tmp_path):
    with Served(declared(tmp_path, MODELS[request.param])) as found:
        yield found


def settle(served, rng, reports=1):
    """Let so many reports come, and rounds close."""
    for _ in range(reports):
        served.client.post("/v1/reports", json=report(served.at, rng))
        served.until(served.is_settled)


def test_pages_come_with_their_policy(served):
    for path in ("/", "/dashboard", "/static/style.css", "/static/dashboard.js", "/static/icon.svg"):
        answer = served.client.get(path)
        assert answer.status_code == 200, path
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    page = served.client.get("/").headers
    assert page["cache-control"] == "public, max-age=0, s-maxage=1"
    assert served.client.get("/", headers={"if-none-match": page["etag"]}).status_code == 304
    assert served.client.get("/dashboard").headers["cache-control"] == "no-store"
    assert served.client.get("/static/dashboard.js").headers["content-type"] == "text/javascript; charset=utf-8"


def test_files_are_sent_once_and_nothing_else_is_a_file(served):
    tag = served.client.get("/static/style.css").headers["etag"]
    again = served.client.get("/static/style.css", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    for name in ("dashboard.html", "..%2f..%2f__init__.py", "__init__.py", "nothing.js", "%2e%2e/assets.py"):
        assert served.client.get(f"/static/{name}").status_code == 404, name
    assert set(static_files()) >= {"dashboard.js", "public.js", "style.css"}


def test_the_operators_data_want_the_token_in_a_header(served):
    for path in ("/v1/operator/overview", "/v1/operator/events", "/v1/status"):
        assert served.client.get(path).status_code == 403
        assert served.client.get(path, headers={"Authorization": "Bearer guess"}).status_code == 403
        assert served.client.get(f"{path}?token=operators-token").status_code == 403
    for path in ("/v1/study", "/v1/status", "/v1/nothing"):  # data that a browser must not take for a page
        assert served.client.get(path).headers["x-content-type-options"] == "nosniff"
    page = served.client.get("/dashboard").text
    assert served.at.declared.hash not in page
    assert served.at.declared.declaration["title"] not in page
    assert served.client.get("/v1/operator/overview?round=x", headers=OPERATOR).status_code == 400


def test_the_public_page_changes_when_a_round_closes_and_at_no_other_time(tmp_path, rng):
    """Reports that wait and things that were refused leave no trace on it; the operator sees both."""
    with Served(declared(tmp_path, CENTRAL, number=400)) as served:
        before = served.client.get("/").text
        served.client.post("/v1/reports", content=b"nonsense")
        served.service.metrics.refused.labels("malformed").inc(918_272)
        served.client.post("/v1/reports", json=report(served.at, rng))
        status = served.client.get("/v1/status", headers=OPERATOR).json()
        assert (status["waiting"], status["refused"]["malformed"]) == (1, 918_273)
        assert status["wanted"] > 1
        assert served.client.get("/").text == before
        served.service._pages._made = (None, "")  # also when it is made anew
        assert served.client.get("/").text == before
        settle(served, rng, status["wanted"] - 1)
        after = served.client.get("/").text
        assert served.at.published.row.number == 2
        assert after != before
        assert "Round 2 is open" in after
        for planted in ("918273", "918,273", "malformed", "waiting"):
            assert planted not in after


def test_the_public_page_shows_head_hash_ledger_and_texts_that_hash(served, rng):
    settle(served, rng, 3)
    page, at = served.client.get("/").text, served.at
    head = at.head()
    for shown in (at.declared.hash, head["signature"], head["policy"], "the whole study small"):
        assert shown in page
    assert digest(json.loads(at.declared.text)) == at.declared.hash.removeprefix("sha256:")


def test_the_overview_has_the_texts_that_were_hashed(served, rng):
    settle(served, rng, 4)
    found = served.client.get("/v1/operator/overview", headers=OPERATOR).json()
    hash_ = found["ledger"]["first"]
    for number, entry in enumerate(found["ledger"]["entries"]):
        assert entry["number"] == number
        hash_ = link(hash_, entry["body"])
        assert entry["hash"] == hash_
    heads = served.client.get("/v1/heads").json()["heads"]
    assert f"sha256:{digest(found['policy']['text'].encode())}" == heads[-1]["policy"]
    assert f"sha256:{digest(found['study']['text'].encode())}" == served.at.declared.hash
    rounds = found["rounds"]
    assert [row["number"] for row in rounds] == list(range(1, len(heads) + 1))
    assert sum(row["counted"] for row in rounds[:-1]) == served.at.published.row.served
    assert rounds[-1]["counted"] is None
    later = served.client.get("/v1/operator/overview?round=2&entry=3", headers=OPERATOR).json()
    assert later["rounds"] == rounds[1:]
    assert later["ledger"]["entries"] == found["ledger"]["entries"][3:]
    assert found["rehearsal"] is None
    assert all(row["value"] is None for row in rounds)


def test_every_report_is_waiting_or_counted_and_never_both(tmp_path, rng):
    """Whoever looks while rounds close sees the sum grow by what has come, at every look."""
    at = coordinator(declared(tmp_path))
    watch = Service(at, "operators-token", log=Log(open(os.devnull, "w")))._watch  # noqa: SIM115
    seen, sent = [], 0

    def look(_point):
        if not seen or seen[-1] is not None:
            seen.append(None)  # a look may pass points itself
            now = watch.now()
            seen[-1] = now["counted"] + now["waiting"] - sent

    while at.published.ended is None:
        at.accept(report(at, rng))
        sent += 1
        at.point = look
        at.close_if_full()
        at.point = lambda _point: None
    assert len(seen) > sent
    assert set(seen) == {0}
    assert watch.now()["ended"] is not None
    at.stop()


def test_a_rehearsal_is_judged_exactly(tmp_path, rng):
    world = river_swim(states=3, horizon=3)
    file = declared(tmp_path)
    text = file.read_text()
    for old, new in SMALL_RIVER.items():
        text = text.replace(old, new)
    file.write_text(text)
    at = coordinator(file)
    served = Service(at, "operators-token", log=Log(open(os.devnull, "w")), world=world)  # noqa: SIM115
    found = served._watch.overview(1, 0)
    from discreet.base.policies import Policy

    policy = Policy(json.loads(found["policy"]["text"])["actions"])
    assert found["rounds"][0]["value"] == world.value(policy)
    assert found["rehearsal"] == {"world": world.name, "best": world.optimal_value}
    at.stop()


def test_events_come_when_something_has_changed_and_end_when_the_service_stops(tmp_path, rng, monkeypatch):
    monkeypatch.setattr("discreet.study.dashboard.serving._BETWEEN", 0.001)
    at = coordinator(declared(tmp_path))
    service = Service(at, "operators-token", log=Log(open(os.devnull, "w")))  # noqa: SIM115

    async def listen():
        stream = service._pages.events()
        first = await anext(stream)
        assert service._pages.streams == 1
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.05)
        assert not waiting.done()  # nothing has changed: nothing is sent
        at.accept(report(at, rng))
        second = await waiting
        service._pages.stopping.set()
        assert [rest async for rest in stream] == []
        return first, second

    first, second = (json.loads(each.removeprefix(b"data: ")) for each in asyncio.run(listen()))
    assert (first["now"]["waiting"], second["now"]["waiting"]) == (0, 1)
    assert second["time"] >= first["time"]
    assert service._pages.streams == 0
    at.stop()


def test_a_stream_whose_database_fails_ends_and_is_logged(tmp_path, monkeypatch):
    at = coordinator(declared(tmp_path))
    with open(tmp_path / "log", "w+") as out:
        service = Service(at, "operators-token", log=Log(out))

        def broken():
            raise OSError("a secret of somebody")

        monkeypatch.setattr(service._pages, "now", broken)

        async def listen():
            return [each async for each in service._pages.events()]

        assert asyncio.run(listen()) == []
        out.seek(0)
        assert json.loads(out.read())["event"] == "watching"
    at.stop()


def test_proxies_are_asked_to_keep_nothing_of_a_stream_and_not_to_hold_it_back(served):
    headers = served.service._pages.stream().headers
    assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")


def test_too_many_watchers_are_refused(served):
    served.service._pages.streams = 32
    answer = served.client.get("/v1/operator/events", headers=OPERATOR)
    assert (answer.status_code, answer.json()["error"]) == (429, "rate")


def test_a_signal_is_heard_before_whoever_listened():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append("server"))
    try:
        with told_to_stop(lambda: heard.append("service")):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == ["service", "server", "server"]

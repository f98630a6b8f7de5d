"""The same over HTTP: codes, limits, tokens, pages, logs without anything raw, a graceful stop."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading

import pytest
from starlette.testclient import TestClient
from tests.study.service.small_studies import MODELS, TOKENS, coordinator, declared, report

from discreet.study.service import rounds
from discreet.study.service.app import Service, usual_limits
from discreet.study.service.monitoring import Limits, Log, Rates
from discreet.study.service.wire_messages import schema

OPERATOR = {"Authorization": "Bearer operators-token"}


class Served:
    """A service in this process, with its log."""

    def __init__(self, file, **options):
        self.at, self.out = coordinator(file), io.StringIO()
        self.service = Service(self.at, "operators-token", log=Log(self.out), look=0.01, **options)

    def __enter__(self):
        self._client = TestClient(self.service.app)
        self.client = self._client.__enter__()
        return self

    def __exit__(self, *error):
        return self._client.__exit__(*error)

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.getvalue().splitlines()]

    def is_settled(self) -> bool:
        """Whether what was committed last is published, and no round waits to be closed."""
        with self.at.reading() as link:
            latest, waiting = rounds.last_round(link), rounds.waiting(link)
        row, ended = self.at.published.row, self.at.published.ended
        return row.number == latest.number and (ended is not None or waiting < row.wanted)

    def until(self, test, seconds=20.0):
        """Wait for what happens in another thread."""
        done = threading.Event()
        for _ in range(int(seconds / 0.01)):
            if test():
                return
            done.wait(0.01)
        raise AssertionError("it did not happen")


@pytest.fixture(params=MODELS)
def served(request, tmp_path):
    with Served(declared(tmp_path, MODELS[request.param])) as found:
        yield found


def test_a_study_over_http_to_its_end(served, rng):
    client, at = served.client, served.at
    described = client.get("/v1/study").json()
    assert described["hash"] == at.declared.hash
    assert described["study"] == dict(at.declared.declaration)
    sent = 0
    while True:
        answer = client.get("/v1/policy")
        if answer.status_code == 410:
            assert answer.json()["error"] == "ended"
            break
        body = report(at, rng)
        first, again = client.post("/v1/reports", json=body), client.post("/v1/reports", json=body)
        assert first.json() == again.json() == {"status": "accepted", "round": body["round"]}
        sent += 1
        served.until(served.is_settled)
    assert sent == at.declared.total
    heads = client.get("/v1/heads?from=1").json()["heads"]
    assert client.get("/v1/head").json() == heads[-1]
    assert client.get(f"/v1/heads?from={heads[-1]['round']}").json()["heads"] == heads[-1:]
    assert {line["event"] for line in served.lines} == {"started", "closed"}


def test_refusals_have_codes_and_statuses(served, rng):
    client, body = served.client, report(served.at, rng)
    for content, status, code in (
        (b"nonsense", 400, "malformed"),
        (b"", 400, "malformed"),
        (json.dumps({**body, "study": "another"}).encode(), 404, "unknown"),
        (json.dumps({**body, "round": 99}).encode(), 404, "unknown"),
        (b"{" + b" " * 100_000, 413, "large"),
    ):
        answer = client.post("/v1/reports", content=content)
        assert (answer.status_code, answer.json()["error"]) == (status, code)
        assert set(answer.json()) == {"error", "reason"}
    for method, path in (("GET", "/nothing"), ("GET", "/v1/reports"), ("PUT", "/v1/policy"), ("DELETE", "/")):
        answer = client.request(method, path)
        assert (answer.status_code, answer.json()["error"]) == (404, "unknown")
    assert client.get("/v1/heads?from=x").status_code == 400
    counted = client.get("/v1/status", headers=OPERATOR).json()["refused"]
    assert counted["malformed"] == 3
    assert counted["large"] == 1
    assert served.at.waiting()[0] == 0


def test_metrics_and_status_are_for_the_operator(served, rng):
    client = served.client
    for path in ("/v1/status", "/metrics"):
        assert client.get(path).status_code == 403
        assert client.get(path, headers={"Authorization": "Bearer guess"}).status_code == 403
        assert client.get(path, headers={"Authorization": "Basic x"}).status_code == 403
        assert client.get(path, headers=OPERATOR).status_code == 200
    client.post("/v1/reports", json=report(served.at, rng))
    assert "discreet_reports_accepted_total 1.0" in client.get("/metrics", headers=OPERATOR).text
    status = client.get("/v1/status", headers=OPERATOR).json()
    assert status["total"] == 12
    assert status["budget"]["left"].startswith("epsilon")


def test_two_services_share_no_state(tmp_path, rng):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with Served(declared(tmp_path / "one")) as one, Served(declared(tmp_path / "two")) as two:
        one.client.post("/v1/reports", json=report(one.at, rng))
        assert "accepted_total 0.0" in two.client.get("/metrics", headers=OPERATOR).text


def test_tokens_travel_in_a_header(tmp_path, rng):
    from discreet.study.service.reports import token_digest

    with Served(declared(tmp_path, TOKENS)) as served:
        with served.at._link as link, link.writing():
            rounds.add_tokens(link, [token_digest("invited")])
        body = report(served.at, rng)
        assert served.client.post("/v1/reports", json=body).status_code == 403
        stranger = {"Authorization": "Bearer stranger"}
        assert served.client.post("/v1/reports", json=body, headers=stranger).status_code == 403
        assert (
            served.client.post("/v1/reports", json=body, headers={"Authorization": "Bearer invited"}).status_code == 200
        )


def test_the_public_page_escapes_what_the_study_says(tmp_path):
    file = declared(tmp_path, {'title = "Which reminder helps?"': 'title = "<script>alert(1)</script>"'})
    with Served(file) as served:
        page = served.client.get("/").text
        assert "default-src 'none'" in served.client.get("/").headers["content-security-policy"]
        assert "<script>" not in page
        assert served.at.declared.hash in page
        assert served.client.get("/healthz").json() == {"status": "ok"}


def test_an_unforeseen_error_is_logged_by_kind_and_place_alone(served, rng):
    def broken(body, token=None, looks=True):
        raise RuntimeError("a secret of somebody")

    served.at.check = broken
    answer = served.client.post("/v1/reports", json=report(served.at, rng))
    assert (answer.status_code, answer.json()["error"]) == (500, "internal")
    assert "secret" not in served.out.getvalue() + answer.text
    assert served.lines[-1]["error"] == "RuntimeError"
    assert served.lines[-1]["at"].startswith("test_service_app.py:")


def test_a_database_that_cannot_store_is_said_and_nothing_is_acknowledged(served, rng):
    def broken(take):
        raise OSError("disk of somebody")

    real, served.at.accept_waiting = served.at.accept_waiting, broken
    body = report(served.at, rng)
    answer = served.client.post("/v1/reports", json=body)
    assert (answer.status_code, answer.json()["error"]) == (503, "busy")
    assert answer.headers["retry-after"] == "1"
    served.at.accept_waiting = real
    assert served.client.post("/v1/reports", json=body).status_code == 200


def test_reports_that_wait_are_stored_before_the_service_stops(tmp_path, rng):
    """Many at once, then the end: everything that was acknowledged is in the database."""
    file = declared(tmp_path, number=400)
    with Served(file) as served:
        bodies = [report(served.at, rng) for _ in range(60)]
        answers = []

        def send(part):
            answers.extend(served.client.post("/v1/reports", json=body).status_code for body in part)

        threads = [threading.Thread(target=send, args=(bodies[k::6],)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [200] * 60
    at = coordinator(file)
    with at.reading() as link:
        assert link.rows("SELECT count(*) FROM reports") == [(60,)]
    assert served.lines[-1]["event"] == "stopped"


def test_what_comes_while_others_write_is_one_commit(tmp_path, rng):
    """The writer takes what waits when its turn has come, and not what waited when it began to wait."""
    with Served(declared(tmp_path, number=400)) as served:
        bodies = [report(served.at, rng) for _ in range(8)]
        answers = []

        def send(body):
            answers.append(served.client.post("/v1/reports", json=body).status_code)

        threads = [threading.Thread(target=send, args=(body,)) for body in bodies]
        with served.at.database.connect().writing():
            for thread in threads:
                thread.start()
            served.until(lambda: served.service._unanswered == 8)
        for thread in threads:
            thread.join()
        text = served.client.get("/metrics", headers=OPERATOR).text
    assert answers == [200] * 8
    assert "discreet_commit_reports_count 1.0" in text
    assert "discreet_commit_reports_sum 8.0" in text


def test_more_reports_than_may_wait_are_asked_to_come_again(tmp_path, rng):
    with Served(declared(tmp_path, number=400), limits=Limits(100_000, queue=1)) as served:
        bodies, answers = [report(served.at, rng) for _ in range(6)], []

        def send(body):
            answers.append(served.client.post("/v1/reports", json=body).status_code)

        threads = [threading.Thread(target=send, args=(body,)) for body in bodies]
        with served.at.database.connect().writing():
            for thread in threads:
                thread.start()
            served.until(lambda: len(answers) == 5)
        for thread in threads:
            thread.join()
    assert sorted(answers) == [200, 429, 429, 429, 429, 429]


def test_workers_add_up_what_they_have_counted(tmp_path):
    """Two processes count; each of them tells the sum, and the latest reading of what is in the database."""
    program = (
        "import os\n"
        "from discreet.study.service.wire_messages import Refused\n"
        "from discreet.study.service.monitoring import Metrics\n"
        "def count(times):\n"
        "    metrics = Metrics()\n"
        "    metrics.accepted.inc(times); metrics.count(Refused('rate', '')); metrics.round.set(times)\n"
        "    return metrics\n"
        "if os.fork() == 0:\n"
        "    count(3); os._exit(0)\n"
        "os.wait()\n"
        "metrics = count(4)\n"
        "print(metrics.refusals(), metrics.text().decode())"
    )
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    together = {**environment, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for given, accepted in ((together, 7), (environment, 4)):
        done = subprocess.run([sys.executable, "-c", program], env=given, text=True, capture_output=True, check=True)
        assert f"discreet_reports_accepted_total {accepted}.0" in done.stdout
        assert f"{{'rate': {2 if accepted == 7 else 1}}}" in done.stdout
        assert "discreet_round 4.0" in done.stdout


def test_an_address_that_asks_too_often_waits():
    moment = [0.0]
    rates = Rates(Limits(1000, rate=2.0, burst=3.0), clock=lambda: moment[0])
    from discreet.study.service.wire_messages import Refused

    for _ in range(3):
        rates.check("a")
    with pytest.raises(Refused, match="too many"):
        rates.check("a")
    rates.check("b")
    moment[0] = 0.5
    rates.check("a")
    with pytest.raises(Refused):
        rates.check("a")


def test_the_largest_honest_message_fits(served, rng):
    body = json.dumps(report(served.at, rng), indent=1).encode()
    assert len(body) < usual_limits(served.at).largest


def test_the_schema_says_what_the_types_say():
    found = schema()
    assert found["$defs"]["ReportMessage"]["required"] == ["study", "round", "id", "report"]
    assert found["$defs"]["ReportMessage"]["additionalProperties"] is False


def test_the_documented_schema_is_that_of_the_types():
    """Renew it with  json.dumps(schema(), indent=1)  if the messages have changed."""
    from pathlib import Path

    documented = Path(__file__).parents[3] / "docs" / "messages.schema.json"
    assert _sorted(json.loads(documented.read_text())) == _sorted(schema())


def _sorted(part):
    """A schema with the choices of every ``anyOf`` in one order: versions of msgspec differ in it."""
    if isinstance(part, dict):
        choices = {"anyOf": sorted(map(_sorted, part["anyOf"]), key=json.dumps)} if "anyOf" in part else {}
        return {name: _sorted(value) for name, value in part.items()} | choices
    return list(map(_sorted, part)) if isinstance(part, list) else part

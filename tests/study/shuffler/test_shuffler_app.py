"""The shuffler over HTTP: whole studies, wrong requests by the hundred at both parties, operator's pages, a stop."""

from __future__ import annotations

import asyncio
import io
import json
import random
import secrets
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient
from tests.study.service.test_fuzzed_requests import METHODS, ODD, SCHEMES, TEXTS
from tests.study.shuffler.two_parties import Parties, declared, rows

from discreet.client.errors import Rejected
from discreet.client.transport import Answer
from discreet.client.transport import Service as Seen
from discreet.study.service.app import Service
from discreet.study.service.monitoring import Log
from discreet.study.service.study_files import places_of, shuffler_folder, shuffler_places_of
from discreet.study.service.wire_messages import Refused
from discreet.study.shuffler.shuffler_app import ShufflerService, longer, usual_limits

ONE = {'recipe = "shuffle/first-visit-tables-randomised-response"': 'recipe = "shuffle/sampled-item"'}
PATHS = ["/", "/v1/sealed", "/v1/batches", "/v1/reports", "/v1/status", "/metrics", "/healthz", "/v1/policy", "/%ff"]
OPERATOR = "operator"


class Http:
    """A party over HTTP, as a client asks it."""

    private = True

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def ask(self, method: str, path: str, body: bytes | None = None, token: str | None = None) -> Answer:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        answer = self.client.request(method, path, content=body, headers=headers)
        return Answer(answer.status_code, answer.content)


@contextmanager
def served(parties: Parties, log: io.StringIO, **limits: Any):
    """Both parties behind their web applications; devices and the shuffler go through these."""
    with ExitStack() as running:
        first = Service(parties.coordinator, OPERATOR, log=Log(log), look=0.01)
        client = running.enter_context(TestClient(first.app, raise_server_exceptions=False))
        parties.shuffler._connection = parties.to_coordinator = Http(client)
        parties.shuffler._coordinator._connection = parties.to_coordinator
        usual = replace(usual_limits(parties.shuffler), **limits)
        second = ShufflerService(parties.shuffler, OPERATOR, log=Log(log), look=0.01, limits=usual)
        other = running.enter_context(TestClient(second.app, raise_server_exceptions=False))
        parties.to_shuffler = Http(other)
        yield client, other


def run_to_the_end(parties: Parties, chance: random.Random) -> int:
    taken, end = 0, time.monotonic() + 600
    while parties.coordinator.published.ended is None:
        assert time.monotonic() < end, "the study does not go on"
        if taken < parties.coordinator.published.row.served + 4:
            taken += parties.person(chance) is None
        else:
            time.sleep(0.005)
    return taken


def test_a_study_runs_over_http(tmp_path):
    parties, log = Parties(declared(tmp_path, ONE)), io.StringIO()
    with served(parties, log) as (client, other):
        assert other.get("/healthz").json() == {"status": "ok"}
        assert other.get("/v1/status").status_code == other.get("/metrics").status_code == 403
        assert run_to_the_end(parties, random.Random(1)) == 12
        page = client.get("/").text
        assert "If the shuffler and the coordinator act together" in page.replace("&#x27;", "'")
        assert "none of them may side with the coordinator or fail to randomise, and nobody checks" in page
        operator = {"authorization": f"Bearer {OPERATOR}"}
        status = other.get("/v1/status", headers=operator).json()
        assert status["guarantee"].startswith("shuffle differential privacy, epsilon 1, delta 1e-05")
        assert b"discreet_reports_accepted_total 12.0" in other.get("/metrics", headers=operator).content
    events = [json.loads(line)["event"] for line in log.getvalue().splitlines()]
    assert events.count("started") == events.count("stopped") == 2
    assert events.count("frozen") == 3
    places = shuffler_places_of(shuffler_folder(parties.file) / parties.file.name)
    assert rows(places.database, "SELECT how FROM batches") == 3 * [("acknowledged",)]


def announced(parties: Parties, body: bytes) -> dict[str, str]:
    """The header with which the shuffler sends a batch."""
    return {"authorization": f"Bearer {parties.shuffler.pass_of(body)}"}


def test_nothing_is_read_of_a_batch_that_the_shuffler_has_not_announced(tmp_path):
    parties, read = Parties(declared(tmp_path, ONE)), []

    def pieces(body: bytes):
        for at in range(0, len(body), 4):
            read.append(at)
            yield body[at : at + 4]

    body = b'{"study": 1}'
    good = announced(parties, body)["authorization"]
    (tmp_path / "other").mkdir()
    other = Parties(declared(tmp_path / "other", ONE))
    forged = good[:80] + ("A" if good[80] != "A" else "B") + good[81:]
    wrong = ["", "Bearer x", forged, announced(other, body)["authorization"], good + "=", good[:60]]
    with TestClient(Service(parties.coordinator, OPERATOR, log=Log(io.StringIO())).app) as client:
        for each in wrong:
            answer = client.post("/v1/batches", content=pieces(body), headers={"authorization": each} if each else {})
            assert (answer.status_code, answer.json()["error"]) in ((403, "operator"), (403, "token"))
        assert not read
        answer = client.post("/v1/batches", content=pieces(body), headers={"authorization": good})
        assert answer.json()["error"] == "malformed"  # it was read, and is none
        assert read
        answer = client.post("/v1/batches", content=body + b" ", headers={"authorization": good})
        assert "another batch than the one" in answer.json()["reason"]
    parties.shuffler.stop()
    other.stop()


def test_a_coordinator_that_hangs_holds_up_nobody_but_unknown_rounds(tmp_path, monkeypatch):
    """Many strangers ask about rounds that nobody knows; honest reports of the open round are answered meanwhile."""
    from discreet.study.shuffler import shuffler_app

    parties, chance = Parties(declared(tmp_path, ONE)), random.Random(1)
    monkeypatch.setattr(shuffler_app, "SECONDS", 0.2)
    free, asked = threading.Event(), []
    assert parties.person(chance) is None  # the round is known
    honest = json.loads(parties.to_shuffler.sent[-1][1])

    class Hangs:
        private = True

        def ask(self, *request):
            asked.append(request)
            assert free.wait(60.0)
            return parties.to_coordinator.ask(*request)

    parties.shuffler._coordinator._connection = Hangs()
    service = ShufflerService(parties.shuffler, OPERATOR, log=Log(io.StringIO()), look=600.0)
    service._send_all = lambda: 0  # what is done in the background has a thread of its own
    with TestClient(service.app) as client:
        try:
            for number in range(2, 12):
                answer = client.post("/v1/sealed", json=honest | {"round": number, "id": secrets.token_hex(16)})
                assert (answer.status_code, answer.json()["error"]) == (503, "busy")
            parties.to_shuffler = Http(client)
            assert parties.person(chance) is None
            assert len(asked) == 1  # once for all of them
        finally:
            free.set()
        found = ["busy"]
        while found[-1] == "busy":  # until the look that hung is over, and one that began since
            answer = client.post("/v1/sealed", json=honest | {"round": 12, "id": secrets.token_hex(16)})
            found.append(answer.json()["error"])
        assert found[-1] == "unknown"
    parties.coordinator.stop()


def test_who_waits_for_the_coordinator_hears_the_answer_that_was_waited_for(tmp_path):
    """Although somebody else has asked it again by then."""
    parties, free = Parties(declared(tmp_path, ONE)), threading.Event()
    assert parties.person(random.Random(1)) is None
    body = json.dumps(json.loads(parties.to_shuffler.sent[-1][1]) | {"round": 9, "id": secrets.token_hex(16)}).encode()
    service = ShufflerService(parties.shuffler, OPERATOR, log=Log(io.StringIO()))
    parties.shuffler.refresh = lambda: free.wait(60.0)

    async def asked() -> str:
        waiting = asyncio.create_task(service._after_asking(body, None))
        await asyncio.sleep(0)
        asks_again = asyncio.get_running_loop().create_future()
        service._asked.add_done_callback(lambda _: setattr(service, "_asked", asks_again))
        free.set()
        with pytest.raises(Refused) as refused:
            await waiting
        return refused.value.code

    assert asyncio.run(asked()) == "unknown"
    parties.stop()


def test_a_batch_that_comes_again_after_the_end_is_acknowledged(tmp_path):
    """If the answer to the last batch was lost, it is sent again until the shuffler knows that it was counted."""
    parties, chance = Parties(declared(tmp_path, {"blocks = 3": "blocks = 1"})), random.Random(1)
    for _ in range(12):
        assert parties.person(chance) is None
    parties.work()
    assert parties.coordinator.published.ended is not None
    ((_path, body),) = parties.to_coordinator.sent
    assert len(body) > 4096
    with TestClient(Service(parties.coordinator, OPERATOR, log=Log(io.StringIO())).app) as client:
        answer = client.post("/v1/batches", content=body, headers=announced(parties, body))
        assert (answer.status_code, answer.json()["status"]) == (200, "accepted")
        long = body + bytes(1 << 16)
        assert client.post("/v1/batches", content=long, headers=announced(parties, long)).status_code == 413
    parties.shuffler.stop()


def test_a_batch_is_sent_again_after_longer_and_longer_pauses(tmp_path):
    parties, pauses = Parties(declared(tmp_path, ONE)), []
    service = ShufflerService(parties.shuffler, OPERATOR, log=Log(io.StringIO()), look=0.001)
    chance, least = random.Random(1), service._look
    for _ in range(4):
        assert parties.person(chance) is None
    for _ in range(20):
        pauses.append(longer(pauses[-1] if pauses else least, least))  # as the task does that sends
    assert pauses[:3] == [0.002, 0.004, 0.008]
    assert pauses[-1] == 30.0
    assert longer(30.0, 60.0) == 60.0
    parties.to_coordinator.down = True
    assert service._send_all() == 1
    parties.to_coordinator.down = False
    assert service._send_all() == 0
    parties.stop()


class Fuzzer:
    """Requests to both parties: honest ones with something changed, each with a marker of its own."""

    def __init__(self, parties: Parties, coins: random.Random) -> None:
        self.parties, self.coins = parties, coins
        self.honest: list[bytes] = []
        self.service = Seen(parties.to_coordinator, parties.study.hash, shuffler=self)

    private = True

    def ask(self, method: str, path: str, body: bytes | None = None, token: str | None = None) -> Answer:
        """A wire that keeps what a device sends, and hands nothing on."""
        assert body is not None
        self.kept = body
        return Answer(200, msgspec.json.encode({"status": "accepted", "round": 1}))

    def report(self) -> dict[str, Any]:
        """What an honest device sends; after the end what the last one has sent, under another id."""
        device = self.parties.device()
        device._service = self.service
        with suppress(Rejected):
            device.begin()
            device.abandon()
            device.send()
        return dict(json.loads(self.kept)) | {"id": secrets.token_hex(16)}

    def body(self, marker: str) -> tuple[str, bytes]:
        coins, kind = self.coins, self.coins.randrange(8)
        if kind == 0:
            return "/v1/sealed", coins.choice(TEXTS)
        if kind == 1 and self.honest:
            return "/v1/sealed", coins.choice(self.honest)
        report = self.report()
        if kind == 2 and self.honest:
            report["id"] = json.loads(coins.choice(self.honest))["id"]
        elif kind == 3:
            content = bytearray(json.dumps(report).encode())
            at = coins.randrange(len(content))
            content[at : at + coins.randrange(1, 3)] = coins.randbytes(coins.randrange(3))
            return "/v1/sealed", bytes(content)
        elif kind == 4:
            batch = {name: value for name, value in report.items() if name in ("study", "round", "policy", "messages")}
            batch |= {"batch": secrets.token_hex(16), "users": 4, "key": self.parties.study.shuffler_key}
            batch["signature"] = coins.choice([128 * "0", marker, 7])
            return "/v1/batches", json.dumps(batch | {coins.choice(list(batch)): coins.choice(ODD)}).encode()
        elif kind == 5:
            key = coins.choice(list(report))
            report[key] = coins.choice([*ODD, marker])
        elif kind == 6:
            report["messages"] = coins.choice([[marker], report["messages"] * 2, [m + "=" for m in report["messages"]]])
        return "/v1/sealed", json.dumps(report).encode()


@pytest.mark.slow
def test_250_wrong_requests_at_both_parties(tmp_path):
    parties, log, coins = Parties(declared(tmp_path, ONE)), io.StringIO(), random.Random(5)
    with served(parties, log, queue=64) as (client, other):
        fuzzer = Fuzzer(parties, coins)
        for _ in range(250):
            marker = f"secret{coins.getrandbits(64):x}"
            path, body = fuzzer.body(marker)
            target = other if coins.random() < 0.7 else client
            method = "POST"
            if coins.random() < 0.1:
                path, method = coins.choice(PATHS), coins.choice(METHODS)
            headers = {"x-marker": marker}
            if path == "/v1/batches":
                headers |= announced(parties, body)
            if coins.random() < 0.2:
                headers["authorization"] = coins.choice(SCHEMES)
            answer = target.request(method, path, content=body, headers=_sendable(headers))
            assert answer.status_code != 500, (method, path)
            assert marker not in answer.text
            if (target, path, answer.status_code) == (other, "/v1/sealed", 200) and method == "POST":
                fuzzer.honest.append(body)
    assert "secret" not in log.getvalue()
    assert "Traceback" not in log.getvalue()
    places = shuffler_places_of(shuffler_folder(parties.file) / parties.file.name)
    stored = {id for (id,) in rows(places.database, "SELECT id FROM sealed")}
    assert stored == {json.loads(body)["id"] for body in fuzzer.honest}
    assert len(stored) > 2
    batches = rows(places_of(parties.file).database, "SELECT counted, users FROM batches")
    assert sum(by is None for by, _users in batches) <= 1
    assert {users for _by, users in batches} <= {4}


def _sendable(headers: dict[str, str]) -> dict[str, bytes]:
    return {name: value.encode("latin-1", "replace") for name, value in headers.items()}


def test_the_largest_honest_report_fits(tmp_path):
    parties = Parties(declared(tmp_path))
    parties.person(random.Random(1))
    ((_path, body),) = parties.to_shuffler.sent
    assert len(json.dumps(json.loads(body), indent=1)) < usual_limits(parties.shuffler).largest
    parties.stop()

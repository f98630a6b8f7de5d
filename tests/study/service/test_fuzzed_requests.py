"""Wrong requests by the thousand: no 500, no traceback, nothing raw in logs or answers, nothing counted by mistake.

Requests are honest ones with something changed: methods, addresses, headers, tokens, bytes, JSON of other types and
sizes, numbers that overflow, replays, reports under ids that others have. Each carries a marker of its own, which must
appear in no log and in no answer. In the end the database holds the reports that were answered with 200, and no token
was used more often than it may be.
"""

from __future__ import annotations

import io
import json
import random
import re
import secrets
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.study.service.small_studies import ASKED, CENTRAL, SAMPLED, TOKENS, coordinator, declared
from tests.study.service.soundness import COUNTED

from discreet.study.service.app import Service
from discreet.study.service.monitoring import Log
from discreet.study.service.reports import token_digest
from discreet.study.service.rounds import add_tokens
from discreet.study.service.study_files import new_tokens
from discreet.study.service.wire_messages import Refused

ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, 2**200, -(2**63), 0.5, 1e308, -0.0, "", "0", "items", "é",
    "\u0000", "\ud800", "x" * 5000, [], [[]], {}, {"kind": "record"}, [0] * 500, [[-1, -1, -1]] * 3, [[0, 0, 0]],
    [True, False], ["0", "1"], [None], {"a": {"b": {"c": []}}},
]  # fmt: skip
TEXTS = [
    b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b"\x00" * 100, b"[" * 20_000, b'{"a":' * 5000, b"1e99999", b"NaN",
    b'{"study":NaN}', b'"' + b"\\ud800" * 50 + b'"', b"9" * 3000, b"x" * 100_000, b'{"id":1,"id":2}', b"\xef\xbb\xbf{}",
]  # fmt: skip
PATHS = [
    "/", "/v1/study", "/v1/policy", "/v1/head", "/v1/heads", "/v1/heads?from=1", "/v1/heads?from=-1",
    "/v1/heads?from=99999999999999999999", "/v1/heads?from=%00", "/v1/heads?from=1&from=x", "/v1/heads?from=0x1",
    "/v1/status", "/metrics", "/healthz", "/v1/reports", "/v1/reports/", "/v1/../etc/passwd", "/v2/study", "//",
    "/%2e%2e/%ff", "/v1/study?" + "a=b&" * 500, "/favicon.ico", "/dashboard", "/static/style.css", "/static/%00",
    "/static/..%2f__init__.py", "/v1/operator/overview?round=-1", "/v1/operator/events",
]  # fmt: skip
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BREW"]
SCHEMES = [
    "",
    "Bearer",
    "Bearer ",
    "Basic dXNlcjpwYXNz",
    "bearer x",
    "Bearer \xff\xfe",
    "Bearer " + "t" * 5000,
    "Bearer a b",
]


class Fuzzer:
    """Makes requests from honest ones, and remembers which of them should have counted."""

    def __init__(self, at, tokens: list[str], coins: random.Random) -> None:
        self.at, self.coins, self.tokens = at, coins, tokens
        self.honest: list[tuple[bytes, str]] = []
        self.owners: dict[str, str] = {}

    def report(self) -> dict[str, Any]:
        """An honest report of the open round."""
        with suppress(Refused):  # after the end there is no open round any more
            self.message = self.at.policy()
        message, shape = self.message, self.at.declared.shape
        if self.at.declared.sealed:
            steps, state = [], shape.start
            for h in range(shape.horizon):
                steps.append([state, message["policy"]["actions"][h][state], self.coins.randrange(2)])
                state = self.coins.randrange(shape.states)
            report: dict[str, Any] = {"kind": "record", "steps": steps}
        elif "questions" in message:
            rows = [row for row, weight in enumerate(message["questions"]) if weight]
            question = 2 * self.coins.choice(rows) + self.coins.randrange(2)
            size = message["laws"][question % 2]["items"]
            report = {"kind": "answer", "question": question, "answer": self.coins.randrange(size)}
        else:
            h = self.coins.randrange(shape.horizon)
            report = {"kind": "items", "steps": [h], "items": [self.coins.randrange(message["laws"][h]["items"])]}
        name = f"{self.coins.getrandbits(128):032x}"
        return {"study": self.at.declared.hash, "round": message["round"], "id": name, "report": report}

    def changed(self, body: dict[str, Any], marker: str) -> Any:
        """The same with one thing that is wrong, somewhere."""
        coins, odd = self.coins, [*ODD, *[marker] * 8]
        place: Any = body if coins.random() < 0.5 else body["report"]
        lists = [entry for entry in body["report"].values() if isinstance(entry, list)]
        if lists and coins.random() < 0.3:  # a list that is too long, too short, or has another entry
            items = coins.choice(lists)
            items[coins.randrange(len(items)) :] = [coins.choice(odd) for _ in range(coins.randrange(3))]
            return body
        key = coins.choice(list(place))
        action = coins.randrange(4)
        if action == 0:
            del place[key]
        elif action == 1:
            place[f"more-{marker}"] = coins.choice(odd)
        else:
            place[key] = coins.choice(odd)
        return body

    def damaged(self, text: bytes) -> bytes:
        """The same with bytes changed, left out or added."""
        content = bytearray(text)
        for _ in range(self.coins.randrange(1, 4)):
            at = self.coins.randrange(len(content) + 1)
            content[at : at + self.coins.randrange(3)] = self.coins.randbytes(self.coins.randrange(3))
        return bytes(content)

    def taken(self, body: bytes, token: str) -> None:
        """A report was accepted: it is whole, and it was sent with its own token."""
        report = json.loads(body)
        assert report.keys() == {"study", "round", "id", "report"}
        assert re.fullmatch("[0-9a-f]{32}", report["id"])
        assert len({len(entry) for entry in report["report"].values() if isinstance(entry, list)}) <= 1
        assert not self.tokens or self.owners.setdefault(report["id"], token) == token, "a token of somebody else"
        self.honest.append((body, token))

    def request(self, marker: str) -> tuple[str, str, bytes, dict[str, str]]:
        """Method, address, body and headers of one request."""
        kind, coins = self.coins.randrange(10), self.coins
        headers = {"x-marker": marker, "content-type": coins.choice(["application/json", "text/plain", marker])}
        if self.tokens and coins.random() < 0.8:
            headers["authorization"] = f"Bearer {coins.choice(self.tokens)}"
        elif coins.random() < 0.3:
            headers["authorization"] = coins.choice(SCHEMES)
        if kind == 0:
            address = coins.choice(PATHS)
            return coins.choice(METHODS), address, coins.choice(TEXTS), headers
        if kind == 1:
            return "POST", "/v1/reports", coins.choice(TEXTS), headers
        if kind == 2 and self.honest:  # a replay, perhaps with another token
            body, token = coins.choice(self.honest)
            if self.tokens:
                headers["authorization"] = f"Bearer {token if coins.random() < 0.5 else coins.choice(self.tokens)}"
            return "POST", "/v1/reports", body, headers
        report = self.report()
        if kind == 3 and self.honest:  # another report under an id that is taken
            report["id"] = json.loads(coins.choice(self.honest)[0])["id"]
        if kind == 4:
            report["round"] = coins.choice([0, 1, report["round"] + 1, 2**53 - 1, -1, 2**70])
        if kind in (5, 6, 7):
            report = self.changed(report, marker)
        text = json.dumps(report).encode()
        if kind == 8:
            text = self.damaged(text)
        return "POST", "/v1/reports", text + b" " + marker.encode() * (kind == 9), headers


def fuzz(folder, requests: int, seed: int, *changes: dict[str, str]) -> Counter[int]:
    """Send so many requests; gives how often each status was answered."""
    file, coins = declared(folder, *changes, number=requests), random.Random(seed)
    at, log = coordinator(file), io.StringIO()
    tokens = new_tokens(6) if TOKENS in changes else []
    with at.reading() as link, link.writing():
        add_tokens(link, [token_digest(token) for token in tokens])
    service, fuzzer, statuses = (
        Service(at, "operators-token", log=Log(log), look=0.05),
        Fuzzer(at, tokens, coins),
        Counter(),
    )
    with TestClient(service.app, raise_server_exceptions=True) as client:
        for number in range(requests):
            if number == requests * 3 // 4:
                at.end()
            marker = f"mark{secrets.token_hex(8)}"
            method, address, body, headers = fuzzer.request(marker)
            raw = {name: value.encode("latin-1", "replace") for name, value in headers.items()}
            answer = client.request(method, address, content=body, headers=raw)
            statuses[answer.status_code] += 1
            where = f"seed {seed}, request {number}: {method} {address[:60]} {body[:300]!r} {answer.status_code}"
            assert answer.status_code not in (500, 503), where
            assert marker not in answer.text, where
            assert "Traceback" not in answer.text, where
            if answer.status_code >= 400 and method != "HEAD":
                assert answer.json().keys() == {"error", "reason"}, where
            if answer.status_code == 200 and method == "POST":
                fuzzer.taken(body, headers.get("authorization", " ").partition(" ")[2])
            assert marker not in log.getvalue(), where
        failed = int(service.metrics.failed._value.get())
    assert failed == 0
    text = log.getvalue()
    assert "mark" not in text
    assert "Traceback" not in text
    assert {json.loads(line)["event"] for line in text.splitlines()} <= {"started", "closed", "stopped"}
    check(at, fuzzer)
    return statuses


def check(at, fuzzer: Fuzzer) -> None:
    """Stored is what was accepted, and tokens count for as many reports as they may."""
    with at.reading() as link:
        stored = dict(link.rows("SELECT id, token FROM reports"))
        used = dict(link.rows("SELECT digest, used FROM tokens"))
        (served,) = link.row("SELECT served FROM rounds ORDER BY number DESC LIMIT 1")
        (counted,) = link.row(COUNTED)
    assert stored.keys() == {json.loads(body)["id"] for body, _token in fuzzer.honest}
    assert served == counted
    if fuzzer.tokens:
        assert used == dict.fromkeys(used, 0) | Counter(stored.values())
        assert max(used.values()) <= at.declared.most_reports
        assert used.keys() == {token_digest(token) for token in fuzzer.tokens}
    at.stop()


VARIANTS = {
    "local": (SAMPLED,), "asked": (ASKED,), "central": (CENTRAL,), "invited": (SAMPLED, TOKENS),
    "invited central": (CENTRAL, TOKENS),
}  # fmt: skip


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_wrong_requests_are_refused_in_a_sentence(tmp_path, changes):
    statuses = fuzz(tmp_path, 130, 11, *changes)
    assert {200, 400} <= statuses.keys()
    assert (403 in statuses) or TOKENS not in changes


@pytest.mark.long
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_10000_wrong_requests_are_refused_in_a_sentence(tmp_path, changes):
    seed = secrets.randbits(32)
    statuses = fuzz(tmp_path, 2500, seed, *changes)
    assert {200, 400, 403, 404, 409, 410, 413} - ({403} if TOKENS not in changes else set()) <= statuses.keys(), seed

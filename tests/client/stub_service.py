"""A service of tests: it answers in memory what a coordinator would, and remembers what was sent to it."""

from __future__ import annotations

import json
from typing import Any

import toy_study as toy
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.client.errors import Unreachable
from discreet.client.transport import Answer, Service
from discreet.client.words import digest


class Stub:
    """One study with signed rounds. The next ``failing`` requests are lost, then the answers to ``deaf`` reports."""

    private = True

    def __init__(self, response: str = "kary", steps: int = 1, asked: bool = False, **options: Any) -> None:
        self.key = Ed25519PrivateKey.generate()
        declared = toy.declaration(key=self.key.public_key().public_bytes_raw().hex(), **options)
        self.answer = toy.study_answer(declared, response, steps, asked=asked)
        self.study = toy.read(self.answer)
        self.rounds: list[Any] = []
        self.received: dict[str, bytes] = {}
        self.bodies: list[bytes] = []
        self.refuse: tuple[int, str] | None = None
        self.failing = self.deaf = 0

    def open_round(self, policy: Any = None) -> Any:
        """The next round, with a head chained to the last one."""
        number = len(self.rounds)
        previous = digest(self.rounds[-1]["head"]) if self.rounds else ""
        constant = {
            "kind": "deterministic",
            "actions": [[number % self.study.actions] * self.study.states] * self.study.horizon,
        }
        chosen = constant if policy is None else policy
        answer = toy.policy_answer(self.study, chosen, number)
        answer["head"] = toy.head(self.study, chosen, number, previous, self.key)
        self.rounds.append(answer)
        return answer

    def service(self) -> Service:
        """This stub as a device sees it."""
        return Service(self, self.study.hash)

    def ask(self, method: str, path: str, body: bytes | None = None, token: str | None = None) -> Answer:
        """One request."""
        if self.failing:
            self.failing -= 1
            raise Unreachable("lost on the way")
        answer = self._answer(method, path, body)
        if self.deaf and method == "POST":
            self.deaf -= 1
            raise Unreachable("the answer was lost")
        return answer

    def _answer(self, method: str, path: str, body: bytes | None) -> Answer:
        if path == "/v1/study":
            return _json(200, self.answer)
        if path == "/v1/policy":
            return _json(200, self.rounds[-1])
        if path.startswith("/v1/heads?from="):
            first = int(path.partition("=")[2])
            return _json(200, {"heads": [each["head"] for each in self.rounds if each["round"] >= first][:3]})
        assert method == "POST"
        assert body is not None
        self.bodies.append(body)
        if self.refuse is not None:
            return _json(self.refuse[0], {"error": self.refuse[1], "reason": "so it is"})
        report = json.loads(body)
        known = self.received.setdefault(report["id"], body)
        if known != body:
            return _json(409, {"error": "conflict", "reason": "another report has this id"})
        return _json(200, {"status": "accepted", "round": report["round"]})


def _json(status: int, content: Any) -> Answer:
    return Answer(status, json.dumps(content).encode())

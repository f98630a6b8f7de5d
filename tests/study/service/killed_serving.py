"""A process that kills coordinators and sends them reports.

``python -m tests.study.service.killed_serving MODEL FOLDER DATABASE KILLS SERVERS``; an empty DATABASE is a SQLite
file.

Coordinators run what ``discreet serve`` runs, in processes of their own that are forked after everything has been
imported, so that each kill hits the work and not the start of Python. Several clients send reports at once over HTTP
and send the same bytes again until they have a final answer. SIGKILL comes at a random moment, often in the middle of
a request, a commit or a closing; then the next coordinator starts on the same files. With several SERVERS the others
go on meanwhile, and close the rounds that the dead one has left.

Every report holds a pair of states that no other report holds, so the released transitions count zeros and ones. In
central studies epsilon is so large that noise stays far below one; nothing about the code is changed for that. What
must hold in the end:

* every report that was acknowledged is counted or waits, and the releases count every counted one once;
* heads are signed and chained, and agree with every head that a client has seen; the ledger verifies;
* no answer was a 500.

Prints kills, restarts that were killed before they answered, reports sent, acknowledged, sent again, and rounds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from tests.study.service.killing import answers, check_killed, clients, forked, free_port, is_final, shortest
from tests.study.service.soundness import STORED, heads_are_a_chain, the_ledger_is_sound

from discreet.base.policies import Policy, StochasticPolicy
from discreet.base.saved_arrays import from_bytes
from discreet.cli.serve import serve
from discreet.cli.study import open_coordinator
from discreet.ledger.chain import canonical
from discreet.study.service.app import Service  # noqa: F401
from discreet.study.service.declaration import read_study
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import new_study, places_of
from discreet.study.service.study_mechanism import policy_from

STATES, CLIENTS, PER_KILL = 40, 6, 14
PRIVACY = {
    "local": 'model = "local"\nepsilon = 12.0\noptions = { response = "kary", steps = 1, growth = 0.05 }',
    "central": (
        'model = "central"\nepsilon = 100.0\nrecipe = "central/joint-histogram-laplace"\noptions = { blocks = 400 }'
    ),
    "matrix": (
        'model = "central"\nepsilon = 100000.0\ndelta = 1e-5\nrecipe = "central/joint-histogram-matrix"\n'
        "options = { blocks = 400 }"
    ),
}


def declare(folder: Path, model: str) -> Path:
    """A study with a key of its own."""
    file = folder / "killed.toml"
    new_study(file)
    signing = read_study(file).signing_key
    file.write_text(
        f'format = 2\nname = "killed"\ntitle = "Killed"\nabout = "Often"\n'
        f"[problem]\nstates = {STATES}\nactions = 2\nhorizon = 2\n[privacy]\n"
        f"{PRIVACY[model]}\n[users]\nnumber = {STATES * STATES}\n[keys]\nsigning = '{signing}'\n"
    )
    return file


class Crowd:
    """Devices: each has one report, whose bytes never change, and sends it until it has a final answer."""

    def __init__(self, model: str, study: str, urls: list[str]) -> None:
        self.model, self.study, self.urls = model, study, urls
        self.pending: list[bytes] = []
        self.made: dict[str, int] = {}  # id: which pair of states
        self.accepted: set[str] = set()
        self.refused: set[str] = set()
        self.heads: dict[int, str] = {}
        self.again = 0
        self.ended = self.gone = False

    async def send(self, new: int, seconds: float) -> None:
        """Send what waits and some new reports, by several clients at once, as long as the coordinator lives."""
        self.left, self.until, self.gone = new, time.monotonic() + seconds, False
        async with clients() as client:
            await asyncio.gather(*(self._client(client, self.urls[i % len(self.urls)]) for i in range(CLIENTS)))

    async def _client(self, client: httpx.AsyncClient, url: str) -> None:
        while time.monotonic() < self.until and not self.ended and (self.pending or self.left > 0):
            if self.gone:
                return
            body = self.pending.pop() if self.pending else None
            try:
                if body is None:
                    body = await self._made(client, url)
                    continue
                answer = await client.post(f"{url}/v1/reports", content=body)
            except httpx.TransportError as error:
                if body is not None:
                    self.pending.append(body)
                    self.again += not isinstance(error, httpx.ConnectError)
                await asyncio.sleep(0.005)
                continue
            self._answered(body, answer)

    async def _made(self, client: httpx.AsyncClient, url: str) -> None:
        """A new device takes the policy and has its report ready."""
        answer = await client.get(f"{url}/v1/policy")
        if answer.status_code == 410:
            self.ended = True
            return
        if answer.status_code != 200 or self.left <= 0 or len(self.made) >= STATES * STATES:
            self.left = 0 if len(self.made) >= STATES * STATES else self.left
            return
        self.left -= 1
        self.add(answer.json())

    def add(self, message: dict[str, Any]) -> None:
        """One more report under this policy, with a pair of states of its own."""
        head = canonical(message["head"])
        assert self.heads.setdefault(message["round"], head) == head, "two heads for one round"
        cell = (len(self.made) * 611) % (STATES * STATES)
        first, second = divmod(cell, STATES)
        policy = policy_from(message["policy"])
        if isinstance(policy, StochasticPolicy):  # any action that it may draw
            policy = Policy(policy.probabilities.argmax(axis=2))
        actions = policy.actions.tolist()
        report: dict[str, Any] = {"kind": "items", "steps": [0], "items": [2 * cell]}
        if self.model != "local":
            report = {"kind": "record", "steps": [[first, actions[0][first], 0], [second, actions[1][second], 0]]}
        name = secrets.token_hex(16)
        self.made[name] = cell
        body = {"study": self.study, "round": message["round"], "id": name, "report": report}
        self.pending.append(json.dumps(body).encode())

    def _answered(self, body: bytes, answer: httpx.Response) -> None:
        name = json.loads(body)["id"]
        if not is_final(answer):
            self.pending.append(body)
        elif answer.status_code == 200:
            self.accepted.add(name)
        else:
            assert name not in self.accepted
            self.refused.add(name)


def warm(model: str) -> None:
    """Close a round of a study like this one, so that everything is imported and compiled before processes fork."""
    with tempfile.TemporaryDirectory() as folder:
        file = declare(Path(folder), model)
        at = open_coordinator(file, None)
        while at.published.row.number < 3:
            crowd = Crowd(model, at.declared.hash, [])
            crowd.add(at.policy())
            at.accept(crowd.pending.pop())
            at.close_if_full()
        at.stop()


def main(model: str, folder: Path, db: str | None, kills: int, servers: int) -> None:
    """Serve, send, kill; in the end look."""
    file, log = declare(folder, model), folder / "log"
    ports = [free_port() for _ in range(servers)]
    starts = [partial(serve, file, db, "127.0.0.1", port, 1, 0.0) for port in ports]
    crowd = Crowd(model, read_study(file).hash, [f"http://127.0.0.1:{port}" for port in ports])
    coins, silent = random.Random(os.urandom(8)), 0
    warm(model)
    open_coordinator(file, db).stop()
    began = time.monotonic()
    children = [forked(start, log) for start in starts]
    assert all(answers(*pair) for pair in zip(ports, children, strict=True)), log.read_text()
    start = time.monotonic() - began
    whole = start + shortest(lambda: asyncio.run(crowd.send(PER_KILL, 20.0)))
    for number in range(kills):
        which = coins.randrange(servers)
        victim, port = children[which], ports[which]

        def kill(*_: Any, victim: int = victim) -> None:
            os.kill(victim, signal.SIGKILL)
            crowd.gone = True

        signal.signal(signal.SIGALRM, kill)
        earliest = start if number % 4 else 1e-3  # most kills hit the work, some the start
        signal.setitimer(signal.ITIMER_REAL, coins.uniform(earliest, whole))
        if answers(port, victim):
            asyncio.run(crowd.send(PER_KILL, whole * 1.5))
        else:
            silent += 1
        check_killed(victim, log)
        children[which] = forked(starts[which], log)
    assert all(answers(*pair) for pair in zip(ports, children, strict=True))
    asyncio.run(crowd.send(0, 60.0))
    assert not crowd.pending
    for child in children:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
    rounds = look(file, db, crowd)
    print(kills, silent, len(crowd.made), len(crowd.accepted), crowd.again, rounds, f"{start:.2f}", f"{whole:.2f}")


def look(file: Path, db: str | None, crowd: Crowd) -> int:
    """Everything that must hold; gives how many rounds there were."""
    study, places = read_study(file), places_of(file)
    link = Database(places.database if db is None else db).connect()
    heads = heads_are_a_chain(link, study, places.head)
    assert all(heads[number] == head for number, head in crowd.heads.items()), "a head that was seen has changed"
    the_ledger_is_sound(link, study)
    stored = {str(name): counted for name, counted in link.rows(f"SELECT id, counted FROM ({STORED}) s")}
    assert crowd.accepted <= stored.keys(), "a report was lost"
    assert stored.keys() <= crowd.made.keys()
    assert not stored.keys() & crowd.refused - crowd.accepted, "refused and stored"
    counted = {crowd.made[name] for name, closing in stored.items() if closing is not None}
    (public,) = link.row("SELECT public FROM states")
    (served,) = link.row("SELECT served FROM rounds ORDER BY number DESC LIMIT 1")
    assert served == len(counted)
    expected = np.zeros(STATES * STATES)
    expected[list(counted)] = 1
    found = transitions(file, db, bytes(public), served)
    assert np.abs(found - expected).max() < 0.4, "counted twice, or not at all"
    link.close()
    return len(heads)


def transitions(file: Path, db: str | None, public: bytes, served: int) -> Any:
    """How often each pair of states was counted, from what was released."""
    at = open_coordinator(file, db)
    (channel,) = at.mechanism.privatizer.channels
    at.stop()
    arrays = {name.removeprefix("channel0."): array for name, array in from_bytes(public).items()}
    if "transitions" not in arrays:
        values = channel.encoder.marginals(arrays["values"])["transitions"].values
        return values[0].sum(axis=1).reshape(-1)
    law = channel._law(2 * STATES * STATES)
    weight = law.p - law.q
    decoded = arrays["transitions"][0].sum(axis=1).reshape(-1) / channel.encoder.scale
    return weight * decoded + served * (1 - weight) / STATES**2


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] or None, int(sys.argv[4]), int(sys.argv[5]))

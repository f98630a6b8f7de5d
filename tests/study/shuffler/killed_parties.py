"""A process that kills the parties of a shuffled study and sends them reports.

``python -m tests.study.shuffler.killed_parties FOLDER DATABASE KILLS``: DATABASE is the shuffler's; empty: a SQLite
file.

Coordinator and shuffler run what ``discreet serve`` and ``discreet shuffler`` run, each in a process of its own that is
forked after everything has been imported. Several clients take the policy from the coordinator, send sealed reports to
the shuffler, and send the same bytes again until they have a final answer. SIGKILL strikes one of the parties, or both,
at a random moment; then it starts again on its files.

Every report names an item (a pair of states) that no other report names, sealed as a device seals it but not
randomised, so the numbers of answers behind the releases are zeros and ones. What must hold in the end:

* every report that was acknowledged is in exactly one batch, or waits for the batch of the open round;
* every batch has its certified size, was paid for, was acknowledged (a batch that had changed since it was first sent
  would have been refused for ever), and is counted once and whole;
* heads are signed and chained, both ledgers verify and are within the budget; no answer was a 500.

Prints kills, reports made, acknowledged, sent again, and batches.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from tests.study.service.killing import answers, check_killed, clients, forked, free_port, is_final, shortest
from tests.study.service.soundness import heads_are_a_chain, the_ledger_is_sound
from tests.study.shuffler.two_parties import Parties

from discreet.base.saved_arrays import from_bytes
from discreet.cli.serve import serve
from discreet.cli.shuffler import open_shuffler, shuffler
from discreet.cli.study import open_coordinator
from discreet.client.questions import questions_of
from discreet.client.reports import read_round
from discreet.client.sealing import sealed
from discreet.client.study import read_study as read_for_device
from discreet.client.words import digest
from discreet.study.service.app import Service  # noqa: F401
from discreet.study.service.declaration import Study, read_study
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import new_study, places_of, shuffler_folder
from discreet.study.shuffler.shuffler_app import ShufflerService  # noqa: F401

STATES, CLIENTS, PER_KILL, USERS, BLOCKS = 40, 6, 20, 1600, 200


def declare(folder: Path) -> Path:
    """A study with keys of its own for both parties."""
    file = folder / "killed.toml"
    new_study(file, "shuffle")
    keys = read_study(file).declaration["keys"]
    file.write_text(
        f'format = 2\nname = "killed"\ntitle = "Killed"\nabout = "Often"\n'
        f"[problem]\nstates = {STATES}\nactions = 2\nhorizon = 2\n[privacy]\n"
        f'model = "shuffle"\nepsilon = 1.0\ndelta = 1e-3\nrecipe = "shuffle/sampled-item"\n'
        f"options = {{ blocks = {BLOCKS}, first = {USERS // BLOCKS} }}\n"
        f"[users]\nnumber = {USERS}\n[shuffle]\nlocal_epsilon = 60.0\n[keys]\n"
        + "".join(f'{name} = "{digits}"\n' for name, digits in keys.items())
    )
    shutil.copy(file, shuffler_folder(file))
    return file


class Crowd:
    """Devices: each has one report, whose bytes never change, and sends it until it has a final answer."""

    def __init__(self, study: Study, first: str, second: str) -> None:
        self.study, self.first, self.second = study, first, second
        self.device: Any = None
        self.pending: list[bytes] = []
        self.made: dict[str, int] = {}  # id: which pair of states
        self.accepted: set[str] = set()
        self.again = 0
        self.left = 0

    async def send(self, new: int, seconds: float) -> None:
        """Send what waits and some new reports, by several clients at once."""
        self.left, self.until = new, time.monotonic() + seconds
        async with clients() as client:
            await asyncio.gather(*(self._client(client) for _ in range(CLIENTS)))

    async def _client(self, client: httpx.AsyncClient) -> None:
        while time.monotonic() < self.until and (self.pending or self.left > 0):
            body = self.pending.pop() if self.pending else None
            try:
                if body is None:
                    await self._made(client)
                    continue
                self._answered(body, await client.post(f"{self.second}/v1/sealed", content=body))
            except httpx.TransportError as error:
                if body is not None:
                    self.pending.append(body)
                    self.again += not isinstance(error, httpx.ConnectError)
            await asyncio.sleep(0.004)

    async def _made(self, client: httpx.AsyncClient) -> None:
        if self.device is None:
            found = await client.get(f"{self.first}/v1/study")
            self.device = read_for_device(found.json(), self.study.hash)
        answer = await client.get(f"{self.first}/v1/policy")
        if answer.status_code == 200 and self.left > 0:
            self.left -= 1
            self.add(answer.json())

    def add(self, message: dict[str, Any]) -> None:
        """One more report under this policy, with a pair of states of its own."""
        cell = (len(self.made) * 611) % (STATES * STATES)
        first, second = divmod(cell, STATES)
        round_ = read_round(message, self.device)
        (question,) = questions_of(self.device, round_.policy)
        item = question.number((0, first, message["policy"]["actions"][0][first]), second, 0)
        name, head = secrets.token_hex(16), message["head"]
        body = {
            "study": self.study.hash, "round": message["round"], "policy": head["policy"], "head": digest(head),
            "terms": round_.terms, "id": name,
            "messages": sealed([item], self.device.sealing, self.study.hash, message["round"]),
        }  # fmt: skip
        self.made[name] = cell
        self.pending.append(json.dumps(body).encode())

    def _answered(self, body: bytes, answer: httpx.Response) -> None:
        name = json.loads(body)["id"]
        if not is_final(answer):
            self.pending.append(body)
        elif answer.status_code == 200:
            self.accepted.add(name)
        else:
            assert name not in self.accepted


def warm() -> None:
    """Two rounds of a study like this one, so that everything is loaded and compiled before processes fork."""
    with tempfile.TemporaryDirectory() as folder:
        parties = Parties(declare(Path(folder)))
        crowd = Crowd(parties.study, "", "")
        crowd.device = read_for_device(parties.coordinator.study(), parties.study.hash)
        while parties.coordinator.published.row.number < 3:
            for _ in range(USERS // BLOCKS):
                crowd.add(parties.coordinator.policy())
                parties.shuffler.accept(crowd.pending.pop())
            parties.work()
        parties.stop()


def main(folder: Path, db: str | None, kills: int) -> None:
    """Serve, send, kill; in the end look."""
    file, log, ports = declare(folder), folder / "log", [free_port(), free_port()]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    second = shuffler_folder(file) / file.name
    warm()
    open_coordinator(file, None).stop()
    open_shuffler(second, db, urls[0]).stop()
    starts = [lambda: serve(file, port=ports[0]), lambda: shuffler(second, db, port=ports[1], coordinator=urls[0])]
    children = [forked(start, log) for start in starts]
    began = time.monotonic()
    assert all(answers(*pair) for pair in zip(ports, children, strict=True)), log.read_text()
    crowd, coins = Crowd(read_study(file), *urls), random.Random(os.urandom(8))
    start = time.monotonic() - began
    whole = start + shortest(lambda: asyncio.run(crowd.send(PER_KILL, 20.0)))
    killed, enough = 0, max(kills, (kills // 5 + 1) * USERS // BLOCKS)
    while killed < kills or (crowd.again == 0 and killed < 10 * kills):
        killed += 1
        victims = coins.choice([[0], [1], [1], [0, 1]])

        def kill(*_: Any, victims: list[int] = victims, longest: float = whole / 4) -> None:
            for which in victims:
                os.kill(children[which], signal.SIGKILL)
            crowd.until = min(crowd.until, time.monotonic() + longest)  # who is left goes on for a while

        signal.signal(signal.SIGALRM, kill)
        signal.setitimer(signal.ITIMER_REAL, coins.uniform(1e-3, whole))
        before = len(crowd.made)
        asyncio.run(crowd.send(PER_KILL, whole * 1.2))
        whole *= 1.2 if len(crowd.made) == before else 1.0  # a machine that is busy now starts them more slowly
        for which in victims:
            check_killed(children[which], log)
            children[which] = forked(starts[which], log)
    assert all(answers(*pair) for pair in zip(ports, children, strict=True))
    asyncio.run(crowd.send(0, 600.0))
    assert not crowd.pending
    while len(crowd.accepted) <= enough and len(crowd.made) < USERS:  # a slow machine takes few: others come too late
        asyncio.run(crowd.send(USERS // BLOCKS, 600.0))
        time.sleep(0.1)
    wait_until_settled(second, db, urls[0])
    for child in children:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
    print(killed, len(crowd.made), len(crowd.accepted), crowd.again, look(file, db, urls[0], crowd))


def wait_until_settled(second: Path, db: str | None, url: str) -> None:
    """Until no batch is left to be frozen or sent."""
    at = open_shuffler(second, db, url)
    left, end = "SELECT count(*) FROM batches WHERE how IS NULL", time.monotonic() + 600
    full = "SELECT count(*) FROM sealed WHERE content IS NOT NULL"
    with at.reading() as link:
        while link.row(left) != (0,) or link.row(full)[0] >= USERS // BLOCKS:
            assert time.monotonic() < end, "a batch is not acknowledged"
            time.sleep(0.05)
    at.stop()


def look(file: Path, db: str | None, url: str, crowd: Crowd) -> int:
    """Everything that must hold; gives how many batches there were."""
    second = open_shuffler(shuffler_folder(file) / file.name, db, url)
    link = second.database.connect()
    frozen = the_shuffler_is_sound(link, crowd)
    the_ledger_is_sound(link, crowd.study)
    link.close()
    second.stop()
    places = places_of(file)
    at, link = open_coordinator(file, None), Database(places.database).connect()
    while at.close_if_full():
        pass
    heads_are_a_chain(link, crowd.study, places.head)
    the_ledger_is_sound(link, crowd.study)
    batches = {int(number): counted for number, counted in link.rows("SELECT round, counted FROM batches")}
    assert batches.keys() == frozen.keys(), "a batch was lost, or came from nowhere"
    assert all(counted == number for number, counted in batches.items())
    (public,) = link.row("SELECT public FROM states")
    cells = set().union(*frozen.values())
    expected = np.zeros(STATES * STATES)
    expected[list(cells)] = 1
    found = sent(at.mechanism.privatizer.channels[0], bytes(public), len(cells))
    assert np.abs(found - expected).max() < 1e-3, "counted twice, or not at all"
    link.close()
    at.stop()
    return len(frozen)


def the_shuffler_is_sound(link: Any, crowd: Crowd) -> dict[int, set[int]]:
    """Every acknowledged report is stored, batches are whole and settled; gives the cells of each by its round."""
    sealed_rows = link.rows("SELECT id, round, content FROM sealed")
    stored = {str(name): (int(number), content) for name, number, content in sealed_rows}
    assert crowd.accepted <= stored.keys() <= crowd.made.keys(), "a report was lost"
    found: dict[int, set[int]] = {}
    for number, users, how in link.rows("SELECT round, users, how FROM batches"):
        assert how == "acknowledged"
        members = [name for name, (its, _content) in stored.items() if its == number]
        assert len(members) == users == USERS // BLOCKS
        found[int(number)] = {crowd.made[name] for name in members}
    (charged,) = link.row("SELECT count(*) FROM ledger_entries WHERE body LIKE ?", "%a batch of%")
    assert charged == len(found), "charged, and not frozen, or the other way round"
    assert all((content is None) == (number in found) for number, content in stored.values())
    return found


def sent(channel: Any, public: bytes, served: int) -> Any:
    """How often each pair of states was sent, from what was released."""
    law = channel.response(USERS // BLOCKS, channel.fewest)
    values = from_bytes(public)["channel0.values"][0, :, :, :STATES, 0].sum(axis=1).reshape(-1)
    return values * (law.p - law.q) / channel.encoder.shape.horizon + served * law.q


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] or None, int(sys.argv[3]))

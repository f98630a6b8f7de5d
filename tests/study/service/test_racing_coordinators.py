"""Two coordinators on one database, each with threads that take reports and one that closes rounds, all at once."""

from __future__ import annotations

import secrets
import threading
import time

import numpy as np
import pytest
from tests.study.service.faulty import CELLS, FreshNoise, Site, prepared_once, study_of, tally  # noqa: F401
from tests.study.service.soundness import STORED, heads_are_a_chain, the_ledger_is_sound

from discreet.ledger.chain import canonical
from discreet.study.service.coordinator import Coordinator
from discreet.study.service.study_database import Database
from discreet.study.service.wire_messages import Refused

pytestmark = pytest.mark.usefixtures("prepared_once")


class Race:
    """What several threads do, and what they have seen."""

    def __init__(self, model: str) -> None:
        self.model, self.site = model, Site(study_of(model))
        self.lock, self.cells, self.accepted = threading.Lock(), list(range(CELLS)), dict[str, int]()
        self.made, self.heads, self.errors = dict[str, int](), dict[int, str](), list[BaseException]()

    def start(self) -> Coordinator:
        return Coordinator(self.site.study, Database(self.site.places.database), self.site.places, noise=FreshNoise())

    def send(self, at: Coordinator) -> None:
        """Reports, one after the other, each of them twice, until the study has ended or no cell is left."""
        while True:
            while at.waiting()[0] >= at.waiting()[1] > 0:
                time.sleep(0.001)  # the round is full: a device that comes now waits for the next policy
            message = at.policy()
            with self.lock:
                head = canonical(message["head"])
                assert self.heads.setdefault(message["round"], head) == head, "two heads for one round"
                cell, name = self.cells.pop(), secrets.token_hex(16)
                self.made[name] = cell
            state, bit = divmod(cell, 2)
            report = {"kind": "items", "steps": [0], "items": [cell]}
            if self.model != "local":
                report = {"kind": "record", "steps": [[state, message["policy"]["actions"][0][state], bit]]}
            body = {"study": self.site.study.hash, "round": message["round"], "id": name, "report": report}
            try:
                at.accept(body)
                self.accepted[name] = cell
                assert at.accept(body).round == message["round"]
            except Refused:  # the round has closed
                self.cells.insert(0, cell)

    def close(self, at: Coordinator) -> None:
        """Close rounds until the study has ended."""
        while at.published.ended is None and any(thread.is_alive() for thread in self.senders):
            at.close_if_full()

    def run(self) -> None:
        coordinators = [self.start(), self.start()]
        self.senders = [self.thread(self.send, at) for at in coordinators for _ in range(2)]
        closers = [self.thread(self.close, at) for at in coordinators]
        for thread in (*self.senders, *closers):
            thread.start()
        for thread in (*self.senders, *closers):
            thread.join()
        for at in coordinators:
            at.refresh()
            at.close_if_full()
            at.stop()

    def thread(self, work, at: Coordinator) -> threading.Thread:
        def watched() -> None:
            try:
                work(at)
            except (IndexError, Refused):
                pass  # no cell is left, or the study has ended
            except BaseException as error:
                self.errors.append(error)

        return threading.Thread(target=watched)


@pytest.mark.parametrize("model", ["local", "matrix"])
def test_reports_of_racing_coordinators_are_counted_once(model):
    race = Race(model)
    race.run()
    assert race.errors == []
    link = Database(race.site.places.database).connect()
    heads = heads_are_a_chain(link, race.site.study, race.site.places.head)
    assert all(heads[number] == head for number, head in race.heads.items())
    assert len(heads) > 3
    the_ledger_is_sound(link, race.site.study)
    stored = dict(link.rows(f"SELECT id, counted FROM ({STORED}) s"))
    assert race.accepted.keys() == stored.keys()
    expected = np.zeros(CELLS)
    expected[[race.made[name] for name, counted in stored.items() if counted is not None]] = 1
    (public,), (served,) = link.row("SELECT public FROM states"), link.row("SELECT max(served) FROM rounds")
    assert served == expected.sum() > 10
    assert np.abs(tally(race.site.study, bytes(public), served).reshape(-1) - expected).max() < 0.01
    link.close()
    race.site.remove()

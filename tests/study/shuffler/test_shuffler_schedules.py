"""Schedules of faults with two parties: either crashes at any point, requests and answers get lost, people repeat.

Whatever happens: a report that was acknowledged is in exactly one batch; a batch leaves after it was paid for, always
as the same bytes; the coordinator counts it once and whole; both ledgers verify. 100 schedules, or 1,000.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.study.service.faulty import prepared_once  # noqa: F401
from tests.study.service.soundness import heads_are_a_chain, the_ledger_is_sound
from tests.study.shuffler.faulty_parties import CELLS, Site, in_clear, in_the_clear, study_of, zeros_and_ones  # noqa: F401

from discreet.study.service.study_database import Link
from discreet.study.service.wire_messages import Accepted, Refused
from discreet.study.shuffler import shuffler as shuffling
from discreet.study.shuffler import shuffler_database

pytestmark = pytest.mark.usefixtures("in_the_clear")

KINDS = st.sampled_from(["crash", "crash", "crash", "error", "before-commit", "after-commit", "torn"])
WHO = st.sampled_from(["shuffler", "shuffler", "coordinator"])
LOST = st.sampled_from(["", "", "request", "response"])


class Shuffled(RuleBasedStateMachine):
    """A coordinator, a shuffler, and devices."""

    def __init__(self) -> None:
        super().__init__()
        self.site = Site(study_of())
        self.reports: list[dict] = []
        self.cells: dict[str, int] = {}
        self.acknowledged: set[str] = set()
        self.looking: list[sqlite3.Connection] = []
        self.checked: object = None

    def teardown(self) -> None:
        try:
            self.site.coordinator.restart(struck=False)
            self.site.shuffler.restart(struck=False)
            for report in self.reports:
                self._deliver(report)
            for _ in range(3):
                self.work("")
            self.everything_holds()
            self._nothing_is_left()
        finally:
            for link in self.looking:
                link.close()
            self.site.remove()

    # Devices

    def _sees(self) -> dict | None:
        message = self.site.coordinator.works(lambda desk: desk.policy())
        if isinstance(message, dict):
            return message
        return None

    def _deliver(self, report: dict, lost: str = "") -> None:
        if lost == "request":
            return
        answer = self.site.shuffler.works(lambda desk: desk.accept(json.dumps(report).encode()))
        if isinstance(answer, Refused):
            assert report["id"] not in self.acknowledged or answer.code == "busy", answer.code
        if isinstance(answer, Accepted) and lost != "response":
            assert answer.round == report["round"]
            self.acknowledged.add(report["id"])

    def _new(self, message: dict) -> dict | None:
        if len(self.reports) >= CELLS:
            return None
        cell = (len(self.reports) * 15) % CELLS  # 15 has no factor in common with them
        report = self.site.report(message, cell)
        self.reports.append(report)
        self.cells[report["id"]] = cell
        return report

    @rule(number=st.integers(1, 4), lost=LOST)
    def upload(self, number: int, lost: str) -> None:
        for _ in range(number):
            message = self._sees()
            report = message and self._new(message)
            if report:
                self._deliver(report, lost)

    @precondition(lambda self: self.reports)
    @rule(pick=st.integers(0, 1000))
    def replay(self, pick: int) -> None:
        self._deliver(self.reports[pick % len(self.reports)])

    @precondition(lambda self: self.acknowledged)
    @rule(pick=st.integers(0, 1000))
    def forge(self, pick: int) -> None:
        """Other messages under a known id count nowhere, and are refused until what it held is forgotten."""
        known = [report for report in self.reports if report["id"] in self.acknowledged]
        chosen = known[pick % len(known)]
        body = chosen | {"messages": [in_clear(1), *chosen["messages"][1:]]}
        answer = self.site.shuffler.works(lambda desk: desk.accept(json.dumps(body).encode()))
        ((left,),) = self.looking[0].execute("SELECT fingerprint FROM sealed WHERE id = ?", (chosen["id"],)).fetchall()
        assert not isinstance(answer, Accepted) or left == ""

    @rule(kind=st.sampled_from(["policy", "head", "terms", "study", "round", "few", "many", "size", "twice"]))
    def mixed(self, kind: str) -> None:
        """Whoever saw something else, or sends another number or size, is not mixed in."""
        message = self._sees()
        if message is None:
            return
        other, good = "sha256:" + 64 * "0", self.site.report(message, 0)
        sent = good["messages"]
        body = (
            good
            | {
                "policy": {"policy": other},
                "head": {"head": other},
                "terms": {"terms": other},
                "study": {"study": other},
                "round": {"round": message["round"] + 7},
                "few": {"messages": sent[1:]},
                "many": {"messages": [*sent, in_clear(0)]},
                "size": {"messages": [sent[0] + "A", *sent[1:]]},
                "twice": {"messages": [sent[1], *sent[1:]]},
            }[kind]
        )
        answer = self.site.shuffler.works(lambda desk: desk.accept(json.dumps(body).encode()))
        assert not isinstance(answer, Accepted)

    # Both parties at work

    @rule(lost=LOST)
    def work(self, lost: str) -> None:
        """The shuffler freezes and sends, the coordinator closes."""
        self.freeze()
        self.send(lost)
        self.close()
        self.look()

    @rule()
    def freeze(self) -> None:
        self.site.shuffler.works(lambda desk: desk.freeze_if_full())

    @rule(lost=LOST)
    def send(self, lost: str) -> None:
        self.site.wire.lose = lost
        self.site.shuffler.works(lambda desk: desk.send())
        self.site.wire.lose = ""

    @rule()
    def close(self) -> None:
        self.site.coordinator.works(lambda desk: desk.close_if_full())

    @rule()
    def look(self) -> None:
        self.site.shuffler.works(lambda desk: desk.refresh())

    @rule(lost=LOST)
    def whole_round(self, lost: str) -> None:
        self.upload(4, "")
        self.work(lost)

    @precondition(lambda self: len(self.reports) > 9)
    @rule()
    def end(self) -> None:
        self.site.coordinator.works(lambda desk: desk.end())

    @rule(who=WHO, kind=KINDS, after=st.integers(0, 60))
    def fault(self, who: str, kind: str, after: int) -> None:
        party = self.site.shuffler if who == "shuffler" else self.site.coordinator
        party.faults.arm(kind, after)

    @rule(who=WHO, kind=KINDS, after=st.integers(0, 40), lost=LOST)
    def round_that_fails(self, who: str, kind: str, after: int, lost: str) -> None:
        """A fault while a batch is frozen, sent and counted; then the parties try again."""
        self.upload(4, "")
        self.fault(who, kind, after)
        self.work(lost)
        self.fault(who, "", 0)
        self.work("")

    @rule(who=WHO)
    def restart(self, who: str) -> None:
        (self.site.shuffler if who == "shuffler" else self.site.coordinator).restart()

    # What always holds

    @invariant()
    def everything_holds(self) -> None:
        files = self.site.shuffler_places.database, self.site.places.database
        if not self.looking:
            self.looking = [sqlite3.connect(file, isolation_level=None) for file in files]
        second, first = self.looking
        versions = [link.execute("PRAGMA data_version").fetchone() for link in self.looking]
        if self.checked == (versions, len(self.acknowledged)):
            return  # nobody has written anything since the last look
        self.checked = versions, len(self.acknowledged)
        self._the_coordinator_is_sound(first, self._the_shuffler_is_sound(second))
        noted = second.execute("SELECT id FROM batches WHERE how = 'acknowledged'").fetchall()
        assert set(noted) <= set(first.execute("SELECT id FROM batches").fetchall()), "a batch was lost"

    def _the_shuffler_is_sound(self, connection) -> dict[int, set[int]]:
        """Every acknowledged report is stored; gives the cells of the members of each frozen batch by round."""
        stored = {row[0]: row[1:] for row in connection.execute("SELECT id, round, content FROM sealed")}
        assert self.acknowledged <= stored.keys(), "a report was lost"
        assert stored.keys() <= self.cells.keys(), "something else was stored"
        frozen: dict[int, set[int]] = {}
        for number, users, batch, dropped in connection.execute("SELECT number, users, batch, dropped FROM rounds"):
            members = {id for id, (its, _content) in stored.items() if its == number}
            assert len(members) <= users, "more users than the batch has"
            kept = {stored[id][1] is not None for id in members}
            if batch is not None:
                assert len(members) == users, "a batch below its certified size"
                assert kept == {False}
                frozen[number] = {self.cells[id] for id in members}
            elif dropped is None:
                assert kept <= {True}
        the_ledger_is_sound(Link(connection, threading.Lock()), self.site.study)
        (charged,) = connection.execute("SELECT count(*) FROM ledger_entries WHERE body LIKE '%a batch of%'").fetchone()
        assert charged == len(frozen), "charged, and not frozen, or the other way round"
        return frozen

    def _the_coordinator_is_sound(self, connection, frozen: dict[int, set[int]]) -> None:
        batches = connection.execute("SELECT id, round, users, counted, content FROM batches").fetchall()
        assert {row[0] for row in batches} <= self.site.wire.batches.keys()
        counted: set[int] = set()
        for _id, number, users, by, content in batches:
            assert (by is None) == (content is not None)
            assert users == len(frozen[number])
            counted |= frozen[number] if by is not None else set()
        (public,) = connection.execute("SELECT public FROM states").fetchone()
        (served,) = connection.execute("SELECT served FROM rounds ORDER BY number DESC LIMIT 1").fetchone()
        assert served == len(counted)
        found = self.site.tally(public, served)
        assert np.abs(found - zeros_and_ones(counted)).max() < 0.01, "counted twice, or not at all"
        link = Link(connection, threading.Lock())
        heads_are_a_chain(link, self.site.study, self.site.places.head)
        the_ledger_is_sound(link, self.site.study)

    def _nothing_is_left(self) -> None:
        """After the parties have worked without faults every frozen batch is counted, if the study has not ended."""
        found = [how for (how,) in self.looking[0].execute("SELECT how FROM batches ORDER BY round")]
        assert None not in found, "a batch is not settled"
        (ended,) = self.looking[1].execute("SELECT ended FROM study").fetchone()
        assert {*found[:-1]} <= {"acknowledged"}
        assert found[-1:] in ([], ["acknowledged"]) or ended == "ended by the operator", "a batch was lost"


def run(machine: type[Shuffled], schedules: int, steps: int) -> None:
    options = settings(
        max_examples=schedules, stateful_step_count=steps, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck), print_blob=False,
        phases=[Phase.explicit, Phase.generate],  # a failing schedule is printed as it is: making it shorter takes long
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=options)


@pytest.mark.slow
def test_100_schedules_of_faults_with_two_parties():
    run(Shuffled, 100, 6)


@pytest.mark.long
def test_1000_schedules_of_faults_with_two_parties():
    run(type("LongShuffled", (Shuffled,), {}), 1000, 10)


def _permuted_again(self, batch):
    """A twin that must be found out: it draws the order, and the id, anew whenever it sends."""
    found = json.loads(batch.body)
    turn = next(_TURNS) % len(found["messages"])
    found["messages"] = found["messages"][turn:] + found["messages"][:turn]
    found["signature"] = self._key.sign(shuffling.signed_text(found)).hex()
    return _DELIVERED(self, batch._replace(body=json.dumps(found).encode()))


_TURNS = itertools.count(1)
_DELIVERED = shuffling.Shuffler._delivered


def _forgotten_before(self, batch):
    """A twin that must be found out: it notes the acknowledgement before it has it."""
    with self._link as link, link.writing():
        shuffler_database.settle(link, batch.id, "acknowledged")
    return _SENT(self, batch)


_SENT = shuffling.Shuffler._sent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "twin"), [("_delivered", _permuted_again), ("_sent", _forgotten_before)], ids=["order", "note"]
)
def test_a_shuffler_that_is_not_careful_is_found_out(name, twin, monkeypatch):
    monkeypatch.setattr(shuffling.Shuffler, name, twin)
    with pytest.raises(AssertionError):
        run(type(f"Careless{name}", (Shuffled,), {}), 60, 8)

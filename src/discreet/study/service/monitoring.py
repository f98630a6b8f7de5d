"""What an operator sees, without anything raw: logs as JSON lines, metrics for Prometheus, limits on size and rate.

There is no access log: who came when with what is nobody's business. A log line says that something happened to the
service (it started, a round closed, an error of some kind at some line of the code), never what a request held.
Refusals are counted by their code. Arrivals and refusals are for the operator alone, behind the operator's token.

The pages of a study (:mod:`discreet.study.dashboard`) are functions of plain data, which is gathered here:
:class:`Watch` for the operator, :func:`public_facts` for everybody. Texts that were hashed (declaration, policies,
entries of the ledger) are handed on as they were hashed, so that a browser can compute the hashes anew.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from discreet.ledger.chain import Entry, cost_in, first_hash
from discreet.ledger.database import entries_of, entry_at
from discreet.ledger.spending import Balance, balance, now
from discreet.study.dashboard.page_words import REFUSALS
from discreet.study.dashboard.participants_page import ChargeRow, PublicFacts
from discreet.study.dashboard.peer_status import Neighbour
from discreet.study.dashboard.policy_view import policy_table, settled
from discreet.study.service import rounds
from discreet.study.service.coordinator import Coordinator
from discreet.study.service.rounds import RoundRow
from discreet.study.service.study_database import Link
from discreet.study.service.study_mechanism import policy_from
from discreet.study.service.wire_messages import STATUS, Refused
from discreet.worlds.tabular import TabularWorld

WORKERS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_MINUTE, _A_MINUTE = 60.0, 20  # seconds, and how often the same failure is logged in that time
_MOST_ADDRESSES = 10_000
_MOST_ROWS = 1000  # rounds or entries of one answer
_LAST_CHARGES = 10  # that the public page shows, besides the first
_LOOKED_BACK = 20  # rounds over which decisions count as settled


class Log:
    """One JSON object per line."""

    def __init__(
        self, out: TextIO | None = None, clock: Callable[[], str] = now, moment: Callable[[], float] = time.monotonic
    ) -> None:
        self._out, self._clock, self._moment = sys.stderr if out is None else out, clock, moment
        self._seen: OrderedDict[tuple[str, ...], tuple[float, int]] = OrderedDict()

    def write(self, event: str, **facts: str | int | float | None) -> None:
        """One line: what happened, and public facts about it."""
        line = json.dumps({"time": self._clock(), "event": event, **facts})
        self._out.write(line + "\n")
        self._out.flush()

    def seldom(self, event: str, **facts: str) -> None:
        """The same a few times a minute, and then how often it was not said: others can make it happen at will."""
        key, moment = (event, *facts.values()), self._moment()
        since, times = self._seen.pop(key, (moment, 0))
        if moment - since >= _MINUTE:
            if times > _A_MINUTE:
                self.write(event, **facts, unsaid=times - _A_MINUTE)
            since, times = moment, 0
        self._seen[key] = since, times + 1
        while len(self._seen) > _MOST_ROWS:
            self._seen.popitem(last=False)
        if times < _A_MINUTE:
            self.write(event, **facts)

    def failure(self, event: str, error: BaseException) -> None:
        """An error that nobody foresaw: its kind and its place in the code; its message might quote something."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno}" if frames else ""
        self.seldom(event, error=type(error).__name__, at=place)


class ServerLog(logging.Handler):
    """What the web server logs, as JSON lines without its messages: they may quote requests."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line: how grave it is and where in the code it was said."""
        self._log.seldom("server", level=record.levelname, at=f"{record.filename}:{record.lineno}")


class Metrics:
    """Counters and gauges, in a registry of their own.

    ``discreet serve --workers N`` names a folder in PROMETHEUS_MULTIPROC_DIR, by which the package prometheus_client
    adds up what all workers have counted, whichever of them is asked. Otherwise they are those of one process.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.accepted = Counter("discreet_reports_accepted", "Reports answered as accepted", registry=self.registry)
        self.refused = Counter("discreet_refused", "Requests refused, by code", ["code"], registry=self.registry)
        for code in STATUS:
            self.refused.labels(code)
        self.failed = Counter("discreet_failures", "Errors that nobody foresaw", registry=self.registry)
        self.commits = Histogram(
            "discreet_commit_reports", "Reports in one commit", registry=self.registry,
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
        )  # fmt: skip
        self.closing = Histogram("discreet_closing_seconds", "Time to close a round", registry=self.registry)
        self.round = self._gauge("discreet_round", "The open round")
        self.waiting = self._gauge("discreet_reports_waiting", "Reports accepted and not counted")
        self.counted = self._gauge("discreet_reports_counted", "Reports counted")

    def _gauge(self, name: str, words: str) -> Gauge:
        """A gauge that is read from the database, so the latest reading is everybody's."""
        return Gauge(name, words, registry=self.registry, multiprocess_mode="mostrecent")

    def count(self, refusal: Refused) -> None:
        """Count a refusal by its code."""
        self.refused.labels(refusal.code).inc()

    def refusals(self) -> dict[str, int]:
        """How often each code was answered."""
        found: dict[str, int] = {}
        for metric in self._added_up().collect():
            for sample in metric.samples:
                if sample.name == "discreet_refused_total" and sample.value:
                    found[sample.labels["code"]] = int(sample.value)
        return found

    def totals(self) -> dict[str, float]:
        """All counts without labels, by their names."""
        samples = (sample for metric in self._added_up().collect() for sample in metric.samples)
        return {sample.name: sample.value for sample in samples if not sample.labels}

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return bytes(generate_latest(self._added_up()))

    def _added_up(self) -> CollectorRegistry:
        if not os.environ.get(WORKERS_FOLDER):
            return self.registry
        together = CollectorRegistry()
        MultiProcessCollector(together)
        return together


@dataclass(frozen=True)
class Limits:
    """How large a message may be, how many wait to be stored, and how many requests a second one address may make."""

    largest: int
    queue: int = 4096
    rate: float = 0.0  # requests per second and address; 0: no limit here, but in the proxy in front
    burst: float = 100.0


class Rates:
    """A bucket for each address, which fills with time and is emptied by requests; the oldest are forgotten."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Refuse an address that asks too often."""
        limits = self._limits
        if limits.rate <= 0:
            return
        moment = self._clock()
        left, last = self._buckets.pop(address, (limits.burst, moment))
        left = min(limits.burst, left + (moment - last) * limits.rate)
        self._buckets[address] = (max(left - 1, 0.0) if left >= 1 else left, moment)
        while len(self._buckets) > _MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        if left < 1:
            raise Refused("rate", "too many requests from this address: wait a moment and send the same again")


def largest_body(horizon: int, bits: int) -> int:
    """The most bytes that an honest message has: names and hashes, some digits for each step, a text of bits."""
    return 2048 + 64 * horizon + 2 * bits


class Watch:
    """What the operator's page shows of one coordinator, gathered as plain data.

    ``world`` is that of a rehearsal: a world that is known, in which released policies can be judged exactly. Real
    people live in no such world.
    """

    def __init__(self, coordinator: Coordinator, metrics: Metrics, world: TabularWorld | None = None) -> None:
        self._at, self._metrics, self._world = coordinator, metrics, world
        self._started = now()
        self._values: dict[str, float] = {}
        declared = coordinator.declared.declaration
        self._shuffler = Neighbour(declared["shuffle"]["address"], now) if coordinator.declared.shuffled else None

    def now(self) -> dict[str, Any]:
        """Where the study stands: small, for whoever asks often."""
        at, metrics = self._at, self._metrics
        with at.reading() as link, link.reading():  # all at one moment: a report is waiting or counted, never both
            study, row, waiting = rounds.study_row(link), rounds.last_round(link), rounds.waiting(link)
            held = balance(link.raw, at.declared.name)
        assert study is not None
        assert row is not None
        metrics.round.set(row.number)
        metrics.waiting.set(waiting)
        metrics.counted.set(row.served)
        totals = metrics.totals()
        return {
            "study": at.declared.hash,
            "round": row.number,
            "opened": row.opened,
            "waiting": waiting,
            "wanted": row.wanted,
            "counted": row.served,
            "total": at.declared.total,
            "ended": study.ended,
            "refused": metrics.refusals(),
            "guarantee": at.mechanism.statement,
            "budget": _account(held),
            "entries": held.head.number,
            "shuffler": None if self._shuffler is None else self._shuffler.state(),
            "process": {
                "started": self._started,
                "accepted": int(totals.get("discreet_reports_accepted_total", 0)),
                "failures": int(totals.get("discreet_failures_total", 0)),
                "closed": int(totals.get("discreet_closing_seconds_count", 0)),
                "closing_seconds": round(totals.get("discreet_closing_seconds_sum", 0.0), 3),
            },
        }

    def overview(self, first_round: int, first_entry: int) -> dict[str, Any]:
        """Everything that grows round by round, from these numbers on; at most a thousand rounds and entries."""
        at, row = self._at, self._at.published.row
        with at.reading() as link:
            found = [each for each in rounds.rounds_from(link, first_round, _MOST_ROWS) if each.number <= row.number]
            recent = rounds.rounds_from(link, max(1, row.number - _LOOKED_BACK + 1), _LOOKED_BACK)
            after = rounds.round_at(link, found[-1].number + 1) if found else None
            entries = _entries(link, at.declared.name, first_entry)
        policies = [json.loads(each.policy) for each in recent if each.number <= row.number and each.how != "lost"]
        problem = at.declared.declaration["problem"]
        return {
            "study": {**at.study(), "text": at.declared.text},
            "recipe": at.mechanism.privatizer.recipe,
            "rounds": [self._round(one, two) for one, two in zip(found, [*found[1:], after], strict=False)],
            "policy": {
                "round": row.number,
                "text": row.policy,
                "table": policy_table(policies[-1], problem).as_dict(),
                "settled": settled(policies),
                "over": len(policies),
            },
            "ledger": {"first": first_hash(at.declared.name), "entries": entries},
            "rehearsal": None if self._world is None else {"world": self._world.name, "best": self._best},
            "refusals": REFUSALS,
        }

    def _round(self, row: RoundRow, after: RoundRow | None) -> dict[str, Any]:
        """A round, with how many reports its closing counted, and in a rehearsal what its policy is worth."""
        return {
            "number": row.number,
            "opened": row.opened,
            "closed": row.closed,
            "how": row.how,
            "wanted": row.wanted,
            "counted": None if after is None else after.served - row.served,
            "value": None if self._world is None or row.how == "lost" else self._value(row.policy),
        }

    @property
    def _best(self) -> float:
        assert self._world is not None
        return self._world.optimal_value

    def _value(self, text: str) -> float:
        """The exact value of a policy in the world of the rehearsal."""
        assert self._world is not None
        if text not in self._values:
            self._values[text] = self._world.value(policy_from(json.loads(text)))
            while len(self._values) > _MOST_ROWS:
                self._values.pop(next(iter(self._values)))
        return self._values[text]


def public_facts(at: Coordinator) -> PublicFacts:
    """What everybody may see: a function of the published round and of what was charged for it."""
    published, study = at.published, at.study()
    row = published.row
    with at.reading() as link:
        held = balance(link.raw, at.declared.name)
        numbers = {1, *range(max(1, held.head.number - _LAST_CHARGES + 1), held.head.number + 1)}
        entries = [entry_at(link.raw, at.declared.name, number) for number in sorted(numbers)]
    return PublicFacts(
        study=study, declaration=at.declared.text, round=row.number, opened=row.opened, ended=published.ended,
        head=row.signed, head_text=row.head, policy_text=row.policy,
        policy=policy_table(json.loads(row.policy), study["study"]["problem"]), counted=row.served,
        total=at.declared.total, budget=_account(held), entries=held.head.number,
        charges=[_charge(each, held) for each in entries if each is not None],
    )  # fmt: skip


def _account(held: Balance) -> dict[str, Any]:
    """A budget and what was spent of it, in words, and as a share."""
    budget = held.budget
    shares = [spent / limit for spent, limit in zip(held.spent, budget.limit, strict=True) if limit]
    return {
        "limit": budget.words(budget.limit),
        "spent": budget.words(held.spent),
        "left": budget.words(held.left, left=True),
        "share": min(1.0, max(shares, default=0.0)),
    }


def _charge(entry: Entry, held: Balance) -> ChargeRow:
    content = entry.content
    return ChargeRow(entry.number, content["time"], content["what"], held.budget.words(cost_in(content, "cost")))


def _entries(link: Link, data_set: str, first: int) -> list[dict[str, Any]]:
    """Entries of the ledger with the texts that were hashed."""
    found = []
    for entry in entries_of(link.raw, data_set, first):
        found.append({"number": entry.number, "body": entry.body, "hash": entry.hash})
        if len(found) == _MOST_ROWS:
            break
    return found

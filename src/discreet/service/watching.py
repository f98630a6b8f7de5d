"""What an operator sees, without anything raw: logs as JSON lines, metrics for Prometheus, limits on size and rate.

There is no access log: who came when with what is nobody's business. A log line says that something happened to the
service (it started, a round closed, an error of some kind at some line of the code), never what a request held.
Refusals are counted by their code. Arrivals and refusals are for the operator alone, behind the operator's token.
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
from typing import TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from discreet.ledger.spending import now
from discreet.service.messages import STATUS, Refused

WORKERS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_MOST_ADDRESSES = 10_000


class Log:
    """One JSON object per line."""

    def __init__(self, out: TextIO | None = None, clock: Callable[[], str] = now) -> None:
        self._out, self._clock = sys.stderr if out is None else out, clock

    def write(self, event: str, **facts: str | int | float | None) -> None:
        """One line: what happened, and public facts about it."""
        line = json.dumps({"time": self._clock(), "event": event, **facts})
        self._out.write(line + "\n")
        self._out.flush()

    def failure(self, event: str, error: BaseException) -> None:
        """An error that nobody foresaw: its kind and its place in the code; its message might quote something."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno}" if frames else ""
        self.write(event, error=type(error).__name__, at=place)


class ServerLog(logging.Handler):
    """What the web server logs, as JSON lines without its messages: they may quote requests."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line: how grave it is and where in the code it was said."""
        self._log.write("server", level=record.levelname, at=f"{record.filename}:{record.lineno}")


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

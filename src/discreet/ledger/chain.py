"""Entries of a ledger and the chain of hashes through them. Plain data: no database, no privacy.

A data set has a chain of its own. Entry 0 declares it with its budget; every later one is a charge. An entry is a body,
which is canonical JSON (keys sorted, no spaces, ASCII), and

    hash_n = SHA-256(hash_(n-1) + newline + body_n),    hash_(-1) = SHA-256("discreet ledger 1" + newline + name).

Entry 0 says the version. Version 2 (0.3.0) fixes the unit of charges and hashes requests anew. A chain of version 1
goes on after an entry of the kind "upgrade", which carries its sum over and closes the releases before it.

Bodies name their data set and number and carry the running total, so a changed, removed, exchanged or inserted entry
breaks the chain. A chain cannot see that its end was cut off, or that somebody wrote all of it anew: for that a head
(number and hash of the last entry) must be kept elsewhere, signed (:mod:`discreet.ledger.heads`).
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, NamedTuple

from discreet.base.errors import DiscreetError, InvalidInput
from discreet.ledger.budget import FREE, Budget, Cost, budget_from

FORMAT, OLD = "discreet ledger 2", "discreet ledger 1"
_FIRST = "discreet ledger 1"  # how chains begin, which did not change
UPGRADE = "#upgrade"  # the part of the entry that carries an old chain over; no plan has a name with #
_OPENING = frozenset({"dataset", "number", "time", "budget", "declaration"})
_CHARGE = frozenset(
    {"dataset", "number", "time", "kind", "what", "cost", "spent", "about", "request", "part", "release", "guarantee"}
)
_WRITER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


class Entry(NamedTuple):
    """One row of a ledger. ``request`` and ``part`` repeat what the body says, so that a database can look them up.

    ``request`` is what was paid for; ``part`` is the name of a plan, or ``name#3`` for part 3 of it. None stands twice.
    """

    data_set: str
    number: int
    request: str | None
    part: str | None
    body: str
    hash: str

    @property
    def well_formed(self) -> bool:
        """Whether the row holds a number and texts: SQLite would let them be anything."""
        return (type(self.number), type(self.body), type(self.hash)) == (int, str, str)

    @property
    def content(self) -> dict[str, Any]:
        """The body as plain data; refused if it is not that of an entry."""
        try:
            found = json.loads(self.body)
            fields = _OPENING if found["number"] == 0 else _CHARGE
            if self.well_formed and fields <= found.keys() and (fields is _OPENING or _are_costs(found)):
                return dict(found)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            pass
        raise InvalidInput(
            f"entry {self.number} of data set {self.data_set!r} cannot be read: check the ledger with  discreet ledger "
            "verify"
        )


def _are_costs(content: dict[str, Any]) -> bool:
    return min(*cost_in(content, "cost"), *cost_in(content, "spent")) >= 0


def canonical(content: Any) -> str:
    """Plain data as the one text that is hashed."""
    return _WRITER.encode(content)


def digest(content: Any) -> str:
    """The SHA-256 of plain data, of text or of bytes."""
    data = content if isinstance(content, bytes) else canonical(content).encode()
    return hashlib.sha256(data).hexdigest()


def first_hash(data_set: str) -> str:
    """What the first entry of a data set is chained to."""
    return hashlib.sha256(f"{_FIRST}\n{data_set}".encode()).hexdigest()


def link(previous: str, body: str) -> str:
    """The hash of an entry, which holds those of all before it."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


def chained(previous: str, content: dict[str, Any]) -> Entry:
    """The entry with this content, chained to the hash before it."""
    body = canonical(content)
    request, part = content.get("request"), content.get("part")
    return Entry(content["dataset"], content["number"], request, part, body, link(previous, body))


def old_words(data_set: str) -> str:
    """What is said of a data set that an earlier release has written."""
    return (
        f"data set {data_set!r} of this ledger was written by discreet 0.2: carry over what it has spent with  "
        "discreet ledger upgrade LEDGER"
    )


def cost_in(content: dict[str, Any], field: str) -> Cost:
    """A cost as bodies hold it: two whole numbers as text."""
    loss, delta = content[field]
    return Cost(int(loss), int(delta))


class Followed:
    """Follows the chain of one data set from its first entry, and collects what is wrong with it."""

    def __init__(self, data_set: str) -> None:
        self.data_set, self.number, self.hash = data_set, -1, first_hash(data_set)
        self.budget: Budget | None = None
        self.spent, self.releases = FREE, dict[int, str]()
        self.problems: list[str] = []
        self._paid: set[tuple[str, str]] = set()
        self._parts: dict[str, float] = {}  # how many releases each plan has
        self.old = False  # of version 1, and not carried over

    def take(self, entry: Entry) -> None:
        """Follow the chain by one entry. After a break it is followed on from what stands there."""
        expected = self.number + 1
        if not entry.well_formed:
            self._report(entry.number, "its row is not that of an entry")
            return
        if entry.number != expected:
            self._report(entry.number, f"entry {expected} should stand here: entries are missing or out of order")
        if entry.hash != link(self.hash, entry.body):
            self._report(entry.number, "its hash does not follow from the entry before it and its own text")
        self.number, self.hash = entry.number, entry.hash
        try:
            self._check(entry, entry.content)
        except (DiscreetError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
            self._report(entry.number, "its text is not that of an entry")

    def _check(self, entry: Entry, content: dict[str, Any]) -> None:
        named = content["dataset"], content["number"], content.get("request"), content.get("part")
        if named != entry[:4] or entry.data_set != self.data_set:
            self._report(entry.number, "it names another data set, number, request or plan than its row")
        if entry.number == 0:
            self.budget = budget_from(content["budget"])
            self.old = content["format"] == OLD
            return
        self._check_cost(entry.number, content)
        self._check_once(entry.number, content)
        if content["release"] is not None:
            self.releases[entry.number] = content["release"]

    def _check_cost(self, number: int, content: dict[str, Any]) -> None:
        cost = cost_in(content, "cost")
        self.spent = self.spent.plus(cost)
        if self.spent != cost_in(content, "spent"):
            self._report(number, "its running total is not the sum of the costs so far")
        if self.budget is not None:
            try:
                self.budget.check(self.data_set, self.spent, FREE)
            except DiscreetError:
                self._report(number, "it goes over the budget")

    def _check_once(self, number: int, content: dict[str, Any]) -> None:
        request, part = content["request"], content["part"]
        for paid in (("request", request), ("part", part)):
            if paid[1] is not None:
                if paid in self._paid:
                    self._report(number, f"its {paid[0]} was paid before")
                self._paid.add(paid)
        if content["kind"] == "upgrade":
            self.old = False
        elif content["kind"] == "plan":
            self._parts[part] = len(content["plan"])
        elif content["kind"] == "rounds":
            self._parts[part] = math.inf
        elif part is not None:
            name, _, index = part.rpartition("#")
            if not 0 <= int(index) < self._parts.get(name, 0):
                self._report(number, "it is part of a plan that was not declared before")

    def finished(self) -> list[str]:
        """All that is wrong with the chain, after its last entry."""
        missing = f"data set {self.data_set!r}: its first entry, which declares the budget, is missing"
        return self.problems if self.budget is not None else [*self.problems, missing]

    def _report(self, number: int, what: str) -> None:
        self.problems.append(f"data set {self.data_set!r}, entry {number}: {what}")

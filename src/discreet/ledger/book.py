"""The end of a chain, and the entries that are appended to it: their order, their costs, and what they must agree on.

:mod:`discreet.ledger.spending` holds the lock and writes what a :class:`Book` has entered. A book refuses an entry that
goes over the budget, is about another trust model, other neighbours or other people than the first charge, or belongs
to no declared plan. It reads the database and writes nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from discreet.base.errors import InvalidInput, Unsupported
from discreet.ledger import database
from discreet.ledger.budget import FREE, Cost, cost_of, units
from discreet.ledger.chain import Entry, chained, digest
from discreet.ledger.database import Connection
from discreet.privacy.certificate import steps_of
from discreet.privacy.guarantee import Guarantee, compose, finite_or_none

if TYPE_CHECKING:
    from discreet.ledger.spending import Balance, Charge


def fingerprint(guarantee: Guarantee) -> str:
    """The hash of a promise and its derivation: the same for the same mechanism with the same noise.

    Lines are rounded for people; the steps of the certificate have all digits.
    """
    derivation = guarantee.derivation
    return digest([guarantee.model, guarantee.neighbours, guarantee.unit, *derivation.lines(), steps_of(derivation)])


def now() -> str:
    """The time of an entry, in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class Book:
    """The end of one chain, under lock, and the entries that are appended to it."""

    def __init__(self, connection: Connection, at: Balance) -> None:
        self._connection, self._name = connection, at.data_set
        self._at, self.releases = at, list[tuple[int, bytes]]()
        self._number, self._hash, self._spent = at.head.number, at.head.hash, at.spent
        self._about = _about(connection, at.data_set)
        self._seen: set[str] = set()  # parts of plans in this very call
        self._time = now()
        self._costs: dict[int, tuple[Guarantee, Cost, dict[str, Any]]] = {}

    def enter(self, charge: Charge) -> Entry:
        """The entry of a charge, which is refused if it is over the budget or about something else."""
        self._check_same(charge.guarantee, charge.who, charge.declaration)
        cost, promise = self._priced(charge.guarantee)
        part = None
        if charge.plan is not None:
            part, cost = self._free_part(charge.plan, charge.guarantee), FREE
        stored = None if charge.release is None else digest(charge.release)
        entry = self._append(
            cost, kind="spend", what=charge.what, request=charge.request, part=part, release=stored,
            guarantee=promise, declaration=charge.declaration,
        )  # fmt: skip
        if charge.release is not None:
            self.releases.append((entry.number, charge.release))
        return entry

    def enter_plan(
        self, plan: str, parts: Sequence[Guarantee], delta: float | None, what: str, who: str | None,
        kind: str,
    ) -> Entry:  # fmt: skip
        """The entry of a whole plan, whose parts cost nothing afterwards."""
        for part in parts:
            self._check_same(part, who, self._at.declaration)
        whole = compose(parts, delta=sum(p.delta for p in parts) if delta is None else delta, why=f"the plan {plan!r}")
        cost = self._least(whole, parts)
        return self._append(
            cost, kind=kind, what=what or f"a plan of {len(parts)} releases", request=None, part=plan, release=None,
            guarantee=_promise(whole), declaration=self._at.declaration, plan=[fingerprint(part) for part in parts],
        )  # fmt: skip

    def _least(self, whole: Guarantee, parts: Sequence[Guarantee]) -> Cost:
        """The exact composition, or the plain sum if that is less and stays within the same delta."""
        mode, total = self._at.budget.mode, FREE
        composed = cost_of(whole, mode)
        try:
            for part in parts:
                total = total.plus(cost_of(part, mode))
        except Unsupported:
            return composed
        return min(composed, total) if total.delta <= max(composed.delta, units(whole.delta)) else composed

    def _append(self, cost: Cost, **facts: Any) -> Entry:
        self._at.budget.check(self._name, self._spent, cost)
        self._spent, self._number = self._spent.plus(cost), self._number + 1
        content = {
            "dataset": self._name,
            "number": self._number,
            "time": self._time,
            "cost": [str(cost.loss), str(cost.delta)],
            "spent": [str(self._spent.loss), str(self._spent.delta)],
            "about": self._about,
            **facts,
        }
        entry = chained(self._hash, content)
        self._hash = entry.hash
        return entry

    def _priced(self, guarantee: Guarantee) -> tuple[Cost, dict[str, Any]]:
        """The cost of a guarantee and what an entry says of it, computed once for charges that share it."""
        found = self._costs.get(id(guarantee))
        if found is None:
            found = guarantee, cost_of(guarantee, self._at.budget.mode), _promise(guarantee)
            self._costs[id(guarantee)] = found
        return found[1:]

    def _check_same(self, guarantee: Guarantee, who: str | None, declaration: str | None) -> None:
        if guarantee.simulated is not False:
            raise Unsupported(
                "simulated noise protects nobody and is not charged: give the guarantee of a real release"
            )
        unit = _unit(guarantee.unit, who)
        about = {"model": guarantee.model, "neighbours": guarantee.neighbours, "who": who, "unit": unit}
        if self._about is None:
            self._about = about
        for name, fixed in self._about.items():
            if about[name] != fixed:
                raise Unsupported(
                    f"charges of data set {self._name!r} are about {name} {fixed!r} since the first one, and this one "
                    f"is about {about[name]!r}: such promises do not add up; declare another data set"
                )
        if self._at.declaration is not None and declaration != self._at.declaration:
            raise InvalidInput(
                f"data set {self._name!r} was declared with the hash {self._at.declaration[:16]}..., and these data "
                f"are declared as {(declaration or 'none')[:16]}...: they are not the same data set"
            )

    def _free_part(self, plan: str, guarantee: Guarantee) -> str:
        """The first part of a plan with this promise that has not been used."""
        declared = database.entry_of_part(self._connection, self._name, plan)
        if declared is not None and declared.content["kind"] == "rounds":
            if fingerprint(guarantee) not in declared.content["plan"]:
                raise InvalidInput(f"the rounds of plan {plan!r} have another promise than {guarantee.statement()!r}")
            return f"{plan}#{self._number + 1}"  # the number of the entry, which no other has
        if declared is None or declared.content["kind"] != "plan":
            raise InvalidInput(f"data set {self._name!r} has no plan {plan!r}: declare it before its first release")
        for index, promised in enumerate(declared.content["plan"]):
            part = f"{plan}#{index}"
            used = part in self._seen or database.entry_of_part(self._connection, self._name, part) is not None
            if promised == fingerprint(guarantee) and not used:
                self._seen.add(part)
                return part
        raise InvalidInput(f"plan {plan!r} has no part left with the promise {guarantee.statement()!r}")


def _about(connection: Connection, data_set: str) -> dict[str, Any] | None:
    """What the first charge of a data set has fixed; before version 2 its unit stands in its guarantee alone."""
    for number in (1, 2):  # an upgrade may come before the first charge
        entry = database.entry_at(connection, data_set, number)
        if entry is not None and entry.content["about"] is not None:
            content = entry.content
            about = dict(content["about"])
            return about if "unit" in about else {**about, "unit": _unit(content["guarantee"]["unit"], about["who"])}
    return None


def _unit(unit: str, who: str | None) -> str:
    """The unit of a charge. With a column of users it is all that a user brings, however many trajectories count."""
    return "one user" if who is not None and unit.startswith("one user =") else unit


def _promise(guarantee: Guarantee) -> dict[str, Any]:
    """What an entry says of a guarantee."""
    return {
        "statement": guarantee.statement(),
        "unit": guarantee.unit,
        "epsilon": finite_or_none(guarantee.epsilon),
        "delta": finite_or_none(guarantee.delta),
        "rho": finite_or_none(guarantee.rho),
        "derivation": fingerprint(guarantee),
    }

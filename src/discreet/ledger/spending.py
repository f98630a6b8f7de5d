"""Declare a data set and charge its budget, inside the caller's open transaction.

``connection`` is one of sqlite3 or of psycopg 3 with a transaction open. So a study keeps its ledger in its own
database, and the charge commits or rolls back with everything else of that transaction:

    connection.execute("BEGIN IMMEDIATE")           # psycopg: with connection.transaction():
    spend(connection, "icu-2026", guarantee, what="round 3")
    ...                                             # draw the noise, store the release
    connection.execute("COMMIT")                    # only now may anybody see it

**Formal guarantees.** A charge that would go over the budget is refused and nothing is written; by the filters of
:mod:`discreet.ledger.budget` everything that was charged is then within the budget together, however it was chosen.
Charges of one data set must be about the same thing: the first one fixes trust model, neighbours, and who a user is
(the column), and others are refused. Simulated noise is refused: it protected nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.base.errors import InvalidInput
from discreet.base.validation import check_count
from discreet.ledger import database
from discreet.ledger.book import Book
from discreet.ledger.book import fingerprint as fingerprint
from discreet.ledger.book import now as now
from discreet.ledger.budget import FREE, Budget, Cost, budget_from
from discreet.ledger.chain import FORMAT, UPGRADE, Entry, chained, cost_in, first_hash, old_words
from discreet.ledger.database import Connection
from discreet.privacy.guarantee import Guarantee

_LONGEST_NAME = 200


@dataclass(frozen=True)
class Charge:
    """One release to be paid for.

    Args:
        guarantee: Its promise, from which its cost follows.
        what: What it is, in words.
        request: The hash of everything that was asked for: it is paid once.
        release: What is stored with the entry.
        declaration: The hash of what was declared about the data.
        who: The column that says who a user is.
        plan: The declared plan that this is a part of.

    Examples:
        >>> from discreet import ledger
        >>> from discreet.noise import DiscreteLaplace
        >>> from discreet.privacy import Sensitivity
        >>> from discreet.privacy.guarantee import drawn, from_mechanism
        >>> count = from_mechanism(DiscreteLaplace(10.0), Sensitivity(1.0, 1.0, 1.0), delta=0.0, name="a count")
        >>> ledger.Charge(drawn(count, simulated=False), what="a count").what
        'a count'
    """

    guarantee: Guarantee
    what: str
    request: str | None = None
    release: bytes | None = None
    declaration: str | None = None
    who: str | None = None
    plan: str | None = None


@dataclass(frozen=True)
class Balance:
    """Where a data set stands: its budget, what has been spent, and the end of its chain.

    Args:
        data_set: Its name.
        budget: What may be spent in all.
        spent: What has been spent.
        declaration: The hash of what was declared about the data, if it is fixed.
        head: The last entry of the chain.

    Examples:
        >>> import sqlite3
        >>> from discreet import ledger
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> _ = ledger.open_data_set(books, "icu", ledger.make_budget(epsilon=3.0))
        >>> ledger.balance(books, "icu").data_set
        'icu'
    """

    data_set: str
    budget: Budget
    spent: Cost
    declaration: str | None
    head: Entry

    @property
    def left(self) -> Cost:
        """What may still be spent."""
        return self.budget.limit.minus(self.spent)


def open_data_set(
    connection: Connection, data_set: str, budget: Budget, *, declaration: str | None = None, note: str = ""
) -> Entry:
    """Declare a data set with its budget, once. With a ``declaration`` every charge must be about data declared so.

    Args:
        connection: That :func:`opened` gave, inside of a transaction.
        data_set: A name; choose it for the people, not for the file.
        budget: What may be spent in all.
        declaration: The hash of what was declared about the data.
        note: A remark for readers of the ledger.

    Examples:
        >>> import sqlite3
        >>> from discreet import ledger
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> entry = ledger.open_data_set(books, "icu", ledger.make_budget(epsilon=3.0), note="the intensive care unit")
    """
    name = check_data_set(data_set)
    if name in database.data_sets(connection):
        raise InvalidInput(
            f"data set {name!r} has a budget already, and a budget is declared once: choose another name"
        )
    content = {
        "format": FORMAT,
        "kind": "open",
        "dataset": name,
        "number": 0,
        "time": now(),
        "budget": budget.as_dict(),
        "declaration": declaration,
        "note": note,
    }
    entry = chained(first_hash(name), content)
    database.add_data_set(connection, name)
    database.add_entries(connection, [entry])
    return entry


def spend(
    connection: Connection,
    data_set: str,
    guarantee: Guarantee,
    *,
    what: str,
    request: str | None = None,
    release: bytes | None = None,
    declaration: str | None = None,
    who: str | None = None,
    plan: str | None = None,
) -> Entry:
    """Charge one release: ``spend(connection, "icu-2026", guarantee, what="round 3")``; see :class:`Charge`.

    Args:
        connection: That :func:`opened` gave, inside of a transaction.
        data_set: Its name.
        guarantee: The promise of the release.
        what: What it is, in words.
        request: The hash of everything that was asked for: it is paid once.
        release: What is stored with the entry.
        declaration: The hash of what was declared about the data.
        who: The column that says who a user is.
        plan: The declared plan that this is a part of.

    Examples:
        >>> import sqlite3
        >>> from discreet import ledger
        >>> from discreet.noise import DiscreteLaplace
        >>> from discreet.privacy import Sensitivity
        >>> from discreet.privacy.guarantee import drawn, from_mechanism
        >>> count = from_mechanism(DiscreteLaplace(1.0), Sensitivity(1.0, 1.0, 1.0), delta=0.0, name="a count")
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> _ = ledger.open_data_set(books, "icu", ledger.make_budget(epsilon=1.5))
        >>> _ = ledger.spend(books, "icu", drawn(count, simulated=False), what="once")
        >>> _ = ledger.spend(books, "icu", drawn(count, simulated=False), what="twice")
        Traceback (most recent call last):
        discreet.base.errors.OverBudget: ...
    """
    charge = Charge(guarantee, what, request, release, declaration, who, plan)
    database.lock(connection, data_set)
    _check_unpaid(connection, data_set, charge)
    return spend_all(connection, data_set, [charge])[-1]


def spend_all(connection: Connection, data_set: str, charges: Iterable[Charge]) -> list[Entry]:
    """Charge several releases, all of them or none; a request that was paid before is refused by the database.

    Args:
        connection: That :func:`opened` gave, inside of a transaction.
        data_set: Its name.
        charges: What is to be paid.

    Examples:
        >>> import sqlite3
        >>> from discreet import ledger
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> _ = ledger.open_data_set(books, "icu", ledger.make_budget(epsilon=1.5))
        >>> ledger.spend_all(books, "icu", [])
        []
    """
    database.lock(connection, data_set)
    book = Book(connection, balance(connection, data_set))
    entries = [book.enter(charge) for charge in charges]
    database.add_entries(connection, entries)
    for number, content in book.releases:
        database.add_release(connection, data_set, number, content)
    return entries


def try_charge(connection: Connection, data_set: str, charge: Charge) -> None:
    """Refuse what :func:`spend` would refuse, and write nothing."""
    database.lock(connection, data_set)
    _check_unpaid(connection, data_set, charge)
    Book(connection, balance(connection, data_set)).enter(charge)


def declare_plan(
    connection: Connection, data_set: str, plan: str, parts: Sequence[Guarantee], *, delta: float | None = None,
    what: str = "", who: str | None = None,
) -> Entry:  # fmt: skip
    """Charge a plan: guarantees that are fixed before the first of them runs, composed exactly.

    Each part is then charged by ``spend(..., plan=name)`` at no further cost, once.

    Args:
        connection: That :func:`opened` gave, inside of a transaction.
        data_set: Its name.
        plan: A name for the plan.
        parts: The guarantees of the releases to come.
        delta: Of the whole; the sum of the parts' if it is not given.
        what: What it is, in words.
        who: The column that says who a user is.

    Examples:
        >>> import sqlite3
        >>> from discreet import ledger
        >>> from discreet.noise import DiscreteGaussian
        >>> from discreet.privacy import Sensitivity
        >>> from discreet.privacy.guarantee import drawn, from_mechanism
        >>> month = from_mechanism(DiscreteGaussian(60.0), Sensitivity(1.0, 1.0, 1.0), delta=1e-7, name="admissions")
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> _ = ledger.open_data_set(books, "icu", ledger.make_budget(epsilon=3.0, delta=1e-5))
        >>> entry = ledger.declare_plan(books, "icu", "year", [drawn(month, simulated=False)] * 12, delta=1e-6)
    """
    if not parts:
        raise InvalidInput("a plan has at least one part: give the guarantees of its releases")
    return _declare(connection, data_set, plan, parts, delta, what, who, "plan")


def declare_rounds(
    connection: Connection, data_set: str, plan: str, part: Guarantee, most: int = 1, *, delta: float | None = None,
    what: str = "", who: str | None = None,
) -> Entry:  # fmt: skip
    """Charge a plan of any number of releases with one promise ``part``, of which a user is in at most ``most``.

    That nobody is in more of them the caller keeps. A user then moves at most ``most`` releases, chosen adaptively
    among equal ones, so their exact composition covers her, and the releases that she is not in do not touch her data
    (parallel composition). Each release is then entered by ``spend(..., plan=name)`` at no further cost.

    Args:
        connection: That :func:`opened` gave, inside of a transaction.
        data_set: Its name.
        plan: A name for the plan.
        part: The guarantee of one release.
        most: In how many of them a user is, at most.
        delta: Of the whole.
        what: What it is, in words.
        who: The column that says who a user is.

    Examples:
        >>> import sqlite3
        >>> from discreet import ledger
        >>> from discreet.noise import DiscreteLaplace
        >>> from discreet.privacy import Sensitivity
        >>> from discreet.privacy.guarantee import drawn, from_mechanism
        >>> part = from_mechanism(DiscreteLaplace(10.0), Sensitivity(1.0, 1.0, 1.0), delta=0.0, name="a round")
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> _ = ledger.open_data_set(books, "study", ledger.make_budget(epsilon=3.0))
        >>> entry = ledger.declare_rounds(books, "study", "rounds", drawn(part, simulated=False), most=2)
    """
    check_count("most", most)
    what = what or "rounds of different users"
    return _declare(connection, data_set, plan, [part] * most, delta, what, who, "rounds")


def balance(connection: Connection, data_set: str) -> Balance:
    """The budget of a data set and what has been spent of it.

    Args:
        connection: That :func:`opened` gave.
        data_set: Its name.

    Examples:
        >>> import sqlite3
        >>> from discreet import ledger
        >>> books = sqlite3.connect(":memory:")
        >>> ledger.create(books)
        >>> _ = ledger.open_data_set(books, "icu", ledger.make_budget(epsilon=3.0))
        >>> ledger.balance(books, "icu").budget.mode
        'sum'
    """
    head = database.last_entry(connection, data_set)
    opening = _opening(connection, data_set)
    spent = FREE if head.number == 0 else cost_in(head.content, "spent")
    return Balance(data_set, budget_from(opening["budget"]), spent, opening["declaration"], head)


def check_data_set(name: object) -> str:
    """A name of a data set: printable text that is not too long."""
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidInput(f"a data set is named by at most {_LONGEST_NAME} printable characters, such as 'icu-2026'")
    return name


def _declare(
    connection: Connection, data_set: str, plan: str, parts: Sequence[Guarantee], delta: float | None, what: str,
    who: str | None, kind: str,
) -> Entry:  # fmt: skip
    """Charge a plan under a name that is not taken."""
    if not plan or "#" in plan:
        raise InvalidInput(f"a plan is named by text without '#', got {plan!r}")
    database.lock(connection, data_set)
    book = Book(connection, balance(connection, data_set))
    if database.entry_of_part(connection, data_set, plan) is not None:
        raise InvalidInput(f"plan {plan!r} was declared before: a plan is declared once, choose another name")
    entry = book.enter_plan(plan, parts, delta, what, who, kind)
    database.add_entries(connection, [entry])
    return entry


def _check_unpaid(connection: Connection, data_set: str, charge: Charge) -> None:
    """Refuse, in a sentence, a request that was paid before; the database would refuse it as well."""
    request = charge.request
    if request is not None and database.entry_for(connection, data_set, request) is not None:
        raise InvalidInput(f"request {request[:16]}... of data set {data_set!r} was paid before: use its release")


def _opening(connection: Connection, data_set: str) -> dict[str, Any]:
    opening = database.entry_at(connection, data_set, 0)
    if opening is None:
        raise InvalidInput(f"the first entry of data set {data_set!r} is missing: check the ledger with  ledger verify")
    content = opening.content
    if content.get("format") != FORMAT and database.entry_of_part(connection, data_set, UPGRADE) is None:
        raise InvalidInput(old_words(data_set))
    return content

"""Pay for a release once, and have it ever after.

``paid`` charges the ledger, lets the noise be drawn and stores what came out, in one transaction; a run that was killed
afterwards is finished by the same request at no further cost. This is what ``train`` calls, and what anything else that
releases something about a data set should call:

    from discreet.ledger import paid, request_hash

    bought = paid(
        "budget.db", "icu-2026",                             # a file or a PostgreSQL address; a declared data set
        request={"command": "evaluate", "policy": ..., ...}, # plain data: everything that was asked for
        guarantee=guarantee,                                 # computed, of real noise: guarantee.drawn(g, False)
        draw=lambda: b"...",                                 # called at most once: adds the noise, gives bytes to store
        what="value of policy.json",                         # in words, for whoever reads the ledger
        declaration=hash_of_declaration, who="patient",      # of the table; who is the column of users
    )
    bought.content      # the bytes of the release: those drawn now, or those stored before
    bought.fresh        # False: "already paid: the stored release was used"
    bought.facts()      # for the receipt: data set, entry, what was spent before, what is left

Count in ``count=``, which is called before the transaction, and let ``draw`` do no more than add noise to the counts:
the data set is locked meanwhile. ``content`` must hold what was released and nothing raw: neither counts nor noise.
Always go on from ``content``, also when it is fresh, so that both ways give the same result.

**Formal guarantees.** Nothing that was drawn leaves before its charge is committed. Of runs with one request that race,
one draws and all get its release. If the database does not say whether it has committed, it is asked again, under the
lock of the data set (so after a transaction that is still under way), and nothing is drawn a second time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from discreet.base.errors import InvalidInput
from discreet.ledger import database
from discreet.ledger.budget import Cost
from discreet.ledger.chain import Entry, cost_in, digest
from discreet.ledger.database import Connection, Unsure, opened, transaction
from discreet.ledger.spending import Balance, Charge, balance, fingerprint, spend_all, try_charge
from discreet.ledger.upgrading import closed_before
from discreet.privacy.guarantee import Guarantee

REUSED = "already paid: the stored release was used"


@dataclass(frozen=True)
class Paid:
    """A release that was paid for: its bytes, whether it was drawn just now, its entry and where the data set stood.

    Args:
        content: The bytes of the release.
        fresh: Whether it was drawn just now.
        entry: Of the chain.
        balance: Where the data set stood afterwards.
        closed: How many releases an upgrade has closed: if this was one of them, it was paid again.

    Examples:
        >>> import pathlib, tempfile
        >>> from discreet import ledger
        >>> from discreet.noise import DiscreteLaplace
        >>> from discreet.privacy import Sensitivity
        >>> from discreet.privacy.guarantee import drawn, from_mechanism
        >>> count = from_mechanism(DiscreteLaplace(10.0), Sensitivity(1.0, 1.0, 1.0), delta=0.0, name="a count")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "budget.db"
        ...     with ledger.opened(file, new=True) as books, ledger.transaction(books):
        ...         _ = ledger.open_data_set(books, "icu", ledger.make_budget(epsilon=3.0))
        ...     bought = ledger.paid(file, "icu", {}, drawn(count, simulated=False), lambda: b"17", what="a count")
        >>> bought.content, bought.balance.data_set
        (b'17', 'icu')
    """

    content: bytes
    fresh: bool
    entry: Entry
    balance: Balance  # now
    closed: int = 0  # releases from before an upgrade, which are not used again

    @property
    def cost(self) -> Cost:
        """What this release cost when it was drawn."""
        return cost_in(self.entry.content, "cost")

    @property
    def before(self) -> Cost:
        """What had been spent on the data set before it."""
        return cost_in(self.entry.content, "spent").minus(self.cost)

    def facts(self) -> dict[str, Any]:
        """Plain data for a receipt."""
        content, budget = self.entry.content, self.balance.budget
        left = budget.limit.minus(cost_in(content, "spent"))
        return {
            "dataset": self.entry.data_set,
            "declaration": content["declaration"],
            "entry": self.entry.number,
            "hash": self.entry.hash,
            "time": content["time"],
            "reused": not self.fresh,
            "mode": budget.mode,
            "budget": budget.numbers(budget.limit),
            "spent_before": budget.numbers(self.before),
            "releases_before": self.entry.number - 1,
            "closed": self.closed,
            "cost": budget.numbers(self.cost),
            "left_after": budget.numbers(left),
            "words": {
                "budget": budget.words(budget.limit),
                "spent_before": budget.words(self.before),
                "cost": budget.words(self.cost),
                "left_after": budget.words(left, left=True),
                "left_now": budget.words(self.balance.left, left=True),
            },
        }


def request_hash(request: Mapping[str, Any]) -> str:
    """The hash of everything that was asked for; plain data, so that the same request has the same hash.

    Args:
        request: Plain data.

    Examples:
        >>> from discreet import ledger
        >>> ledger.request_hash({"a": 1, "b": 2}) == ledger.request_hash({"b": 2, "a": 1})
        True
    """
    try:
        return digest(["request 2", dict(request)])  # version 1 hashed the request alone
    except (TypeError, ValueError):
        raise InvalidInput(
            "a request is plain data: text, finite numbers, lists and dictionaries with text keys"
        ) from None


def paid(
    ledger: str | os.PathLike[str],
    dataset: str,
    request: Mapping[str, Any],
    guarantee: Guarantee,
    draw: Callable[[], bytes],
    *,
    what: str,
    declaration: str | None = None,
    who: str | None = None,
    plan: str | None = None,
    count: Callable[[], object] | None = None,
) -> Paid:
    """The release of a request: the stored one, or one that is charged, drawn and stored in one transaction.

    ``count``, if it is given, is called before that transaction and only if something is to be drawn: the place for
    slow work on the data that ``draw`` needs.

    Args:
        ledger: A file or an address.
        dataset: Its name in the ledger.
        request: Everything that was asked for, as plain data.
        guarantee: The promise of the release.
        draw: Makes the release, as bytes.
        what: What it is, in words.
        declaration: The hash of what was declared about the data.
        who: The column that says who a user is.
        plan: The declared plan that this is a part of.
        count: See above.

    Examples:
        >>> import pathlib, tempfile
        >>> from discreet import ledger
        >>> from discreet.noise import DiscreteLaplace
        >>> from discreet.privacy import Sensitivity
        >>> from discreet.privacy.guarantee import drawn, from_mechanism
        >>> count = from_mechanism(DiscreteLaplace(10.0), Sensitivity(1.0, 1.0, 1.0), delta=0.0, name="a count")
        >>> promise = drawn(count, simulated=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "budget.db"
        ...     with ledger.opened(file, new=True) as books, ledger.transaction(books):
        ...         _ = ledger.open_data_set(books, "icu", ledger.make_budget(epsilon=3.0))
        ...     twice = [ledger.paid(file, "icu", {"of": 1}, promise, lambda: b"17", what="a count") for _ in range(2)]
        >>> [each.fresh for each in twice]
        [True, False]
    """
    charge = Charge(guarantee, what, request_hash(request), None, declaration, who, plan)
    with opened(ledger) as connection:
        with transaction(connection):  # refused, or found, before anybody looks at the data
            found = _stored(connection, dataset, charge)
        if found is not None:
            return found
    if count is not None:
        count()
    try:
        with opened(ledger) as connection, transaction(connection):
            found = _stored(connection, dataset, charge)
            return _bought(connection, dataset, charge, draw) if found is None else found
    except Unsure:
        return _asked_again(ledger, dataset, charge)


def _bought(connection: Connection, dataset: str, charge: Charge, draw: Callable[[], bytes]) -> Paid:
    content = draw()
    (entry,) = spend_all(connection, dataset, [replace(charge, release=content)])
    return Paid(content, True, entry, balance(connection, dataset), closed_before(connection, dataset))


def _stored(connection: Connection, dataset: str, charge: Charge) -> Paid | None:
    """What the request has paid for before. If nothing, the charge is tried, which refuses what would go over."""
    database.lock(connection, dataset)
    if charge.request is None:
        raise InvalidInput("a charge whose release is kept needs a request, by which it is found again")
    entry = database.entry_for(connection, dataset, charge.request)
    if entry is None:
        try_charge(connection, dataset, charge)
        return None
    if entry.content["guarantee"]["derivation"] != fingerprint(charge.guarantee):
        raise InvalidInput(
            f"this request was paid by entry {entry.number} of data set {dataset!r} with another guarantee, which is "
            "that of the stored release: put what tells them apart, such as the noise, into the request"
        )
    content = database.release_at(connection, dataset, entry.number)
    if content is None or digest(content) != entry.content["release"]:
        raise InvalidInput(
            f"the stored release of entry {entry.number} of data set {dataset!r} is missing or changed: check the "
            "ledger with  discreet ledger verify"
        )
    return Paid(content, False, entry, balance(connection, dataset))


def _asked_again(ledger: str | os.PathLike[str], dataset: str, charge: Charge) -> Paid:
    """After a transaction of which nobody knows whether it was committed: what the ledger says now."""
    with opened(ledger) as connection, transaction(connection):
        found = _stored(connection, dataset, charge)
    if found is None:
        raise InvalidInput("the ledger did not take the charge: nothing was spent and nothing released; run it again")
    return found

"""A budget that is kept: an append-only, hash-chained ledger of everything that was released about a data set.

=====================  ====================================================================================
file                   idea
=====================  ====================================================================================
``budget``             what a release costs, and the proof that adaptively chosen costs may be added up
``chain``              entries and the chain of hashes through them
``database``           the same tables in a SQLite file or in PostgreSQL
``book``               the end of a chain: what a new entry costs and must agree with
``spending``           ``open_data_set``, ``spend``, ``declare_plan`` inside the caller's own transaction
``paying``             ``paid``: charge, draw and store in one transaction, or reuse what was paid for
``heads``              signed heads, which show truncation and rewriting
``keys``               keys that sign heads and receipts, and how a signature is checked
``upgrading``          ``upgrade`` a ledger of version 1: what it has spent is carried over
``verifying``          ``verify`` a whole ledger
=====================  ====================================================================================

To charge for a release of your own, call :func:`discreet.ledger.paying.paid`; its module shows how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.base.packages import lazily

if TYPE_CHECKING:
    from discreet.ledger.budget import Budget, make_budget
    from discreet.ledger.database import create, opened, transaction
    from discreet.ledger.heads import check_head, read_head, sign_head
    from discreet.ledger.keys import make_key
    from discreet.ledger.paying import Paid, paid, request_hash
    from discreet.ledger.spending import (
        Balance,
        Charge,
        balance,
        declare_plan,
        declare_rounds,
        open_data_set,
        spend,
        spend_all,
    )
    from discreet.ledger.upgrading import Upgraded, upgrade
    from discreet.ledger.verifying import Report, verify

_HOMES = {
    "budget": ("Budget", "make_budget"),
    "database": ("create", "opened", "transaction"),
    "heads": ("check_head", "read_head", "sign_head"),
    "keys": ("make_key",),
    "paying": ("Paid", "paid", "request_hash"),
    "spending": (
        "Balance",
        "Charge",
        "balance",
        "declare_plan",
        "declare_rounds",
        "open_data_set",
        "spend",
        "spend_all",
    ),
    "upgrading": ("Upgraded", "upgrade"),
    "verifying": ("Report", "verify"),
}

__all__ = [
    "Balance",
    "Budget",
    "Charge",
    "Paid",
    "Report",
    "Upgraded",
    "balance",
    "check_head",
    "create",
    "declare_plan",
    "declare_rounds",
    "make_budget",
    "make_key",
    "open_data_set",
    "opened",
    "paid",
    "read_head",
    "request_hash",
    "sign_head",
    "spend",
    "spend_all",
    "transaction",
    "upgrade",
    "verify",
]

__getattr__, __dir__ = lazily(
    __name__, {name: f"discreet.ledger.{module}" for module, names in _HOMES.items() for name in names}
)

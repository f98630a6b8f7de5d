"""The shuffler's own database: SQLite or PostgreSQL, by the machinery of the service, and never the coordinator's.

==========  ==================================================================================================
table       what a row is
==========  ==================================================================================================
study       the one study of this database; whoever writes anything else locks this row first
rounds      a round as the shuffler saw it: hashes of policy and head, terms, sizes, the head itself, its batch
sealed      a report: id, round, digest of the token, and until its batch is frozen its fingerprint and its messages
batches     a batch: id, round, users, the signed bytes until they are acknowledged, and how it ended
tokens      the digest of an invitation token and how often it was used
evidence    two signed heads of one round
==========  ==================================================================================================

The ledger's tables lie beside them. Rows of ``study`` and ``tokens`` are those of the service, and so is their SQL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from discreet.study.service.study_database import Link

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE study (one INTEGER PRIMARY KEY CHECK (one = 1), hash TEXT NOT NULL, declaration TEXT NOT NULL, "
        "recipe TEXT NOT NULL, opened TEXT NOT NULL, ended TEXT)",
        "CREATE TABLE rounds (number BIGINT PRIMARY KEY, policy TEXT NOT NULL, head TEXT NOT NULL, "
        "terms TEXT NOT NULL, users BIGINT NOT NULL, messages BIGINT NOT NULL, signed TEXT NOT NULL, batch TEXT, "
        "dropped TEXT)",
        "CREATE TABLE sealed (id TEXT PRIMARY KEY, round BIGINT NOT NULL, fingerprint TEXT NOT NULL, token TEXT, "
        "content BYTEA)",
        "CREATE INDEX sealed_waiting ON sealed (round) WHERE content IS NOT NULL",
        "CREATE UNIQUE INDEX sealed_once ON sealed (token, round) WHERE token IS NOT NULL",
        "CREATE TABLE batches (id TEXT PRIMARY KEY, round BIGINT NOT NULL UNIQUE, users BIGINT NOT NULL, body BYTEA, "
        "how TEXT)",
        "CREATE TABLE tokens (digest TEXT PRIMARY KEY, used BIGINT NOT NULL)",
        "CREATE TABLE evidence (one TEXT NOT NULL, other TEXT NOT NULL)",
    ),
)
_ROUND = "SELECT number, policy, head, terms, users, messages, signed, batch, dropped FROM rounds"
_AT_ONCE = 500  # parameters of a query
FORGOTTEN = ""  # the fingerprint of a report whose batch is frozen


class RoundView(NamedTuple):
    """A round as the shuffler saw it. All reports of its batch name these hashes of policy, head and terms."""

    number: int
    policy: str
    head: str
    terms: str
    users: int
    messages: int  # of each user
    signed: str
    batch: str | None = None
    dropped: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it still takes reports."""
        return self.batch is None and self.dropped is None


class SealedRow(NamedTuple):
    """A report as it is stored."""

    id: str
    round: int
    fingerprint: str
    token: str | None
    content: bytes


class Batch(NamedTuple):
    """A batch that the coordinator has not acknowledged."""

    id: str
    round: int
    users: int
    body: bytes


def last_round(link: Link) -> RoundView | None:
    """The latest round that the shuffler has seen."""
    row = link.row(f"{_ROUND} ORDER BY number DESC LIMIT 1")
    return None if row is None else _view(row)


def round_at(link: Link, number: int) -> RoundView | None:
    """One round by its number."""
    row = link.row(f"{_ROUND} WHERE number = ?", number)
    return None if row is None else _view(row)


def add_round(link: Link, view: RoundView) -> None:
    """Enter a round."""
    link.run(
        "INSERT INTO rounds (number, policy, head, terms, users, messages, signed, batch, dropped) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *view,
    )


def drop_open_rounds(link: Link, why: str) -> int:
    """Give up every round that has no batch, with what was sent for it; gives how many reports that were."""
    gone = link.run(
        "UPDATE sealed SET content = NULL WHERE content IS NOT NULL AND round IN "
        "(SELECT number FROM rounds WHERE batch IS NULL)"
    ).rowcount
    link.run("UPDATE rounds SET dropped = ? WHERE batch IS NULL AND dropped IS NULL", why)
    return int(gone)


def waiting(link: Link, number: int) -> int:
    """How many reports of a round wait for their batch."""
    row = link.row("SELECT count(*) FROM sealed WHERE round = ? AND content IS NOT NULL", number)
    assert row is not None
    return int(row[0])


def contents(link: Link, number: int) -> list[bytes]:
    """The messages of all reports of a round that wait for their batch."""
    rows = link.rows("SELECT content FROM sealed WHERE round = ? AND content IS NOT NULL ORDER BY id", number)
    return [bytes(content) for (content,) in rows]


def known_reports(link: Link, ids: list[str]) -> dict[str, tuple[int, str, str | None]]:
    """Round, fingerprint (or ``FORGOTTEN``) and token of those of these reports that were taken before."""
    found: list[tuple[Any, ...]] = []
    for first in range(0, len(ids), _AT_ONCE):
        piece = ids[first : first + _AT_ONCE]
        query = f"SELECT id, round, fingerprint, token FROM sealed WHERE id IN ({', '.join('?' * len(piece))})"
        found += link.rows(query, *piece)
    return {str(row[0]): (int(row[1]), str(row[2]), row[3]) for row in found}


def rounds_of_tokens(link: Link, digests: list[str]) -> set[tuple[str, int]]:
    """In which rounds these tokens were used."""
    found: list[tuple[Any, ...]] = []
    for first in range(0, len(digests), _AT_ONCE):
        piece = digests[first : first + _AT_ONCE]
        query = f"SELECT token, round FROM sealed WHERE token IN ({', '.join('?' * len(piece))})"
        found += link.rows(query, *piece)
    return {(str(token), int(number)) for token, number in found}


def add_reports(link: Link, rows: Iterable[SealedRow]) -> None:
    """Enter reports."""
    link.many("INSERT INTO sealed (id, round, fingerprint, token, content) VALUES (?, ?, ?, ?, ?)", rows)


def freeze(link: Link, batch: Batch) -> None:
    """Enter the batch of a round; the messages of its members are in it, and nowhere else any more.

    Fingerprints go as well. The hash of a report that has one message tells which one of the batch that is: whoever has
    both can try them all.
    """
    link.run("INSERT INTO batches (id, round, users, body) VALUES (?, ?, ?, ?)", *batch)
    link.run("UPDATE rounds SET batch = ? WHERE number = ?", batch.id, batch.round)
    link.run("UPDATE sealed SET content = NULL, fingerprint = ? WHERE round = ?", FORGOTTEN, batch.round)


def unacknowledged(link: Link) -> list[Batch]:
    """Batches that are to be sent, or sent again."""
    rows = link.rows("SELECT id, round, users, body FROM batches WHERE how IS NULL ORDER BY round")
    return [Batch(str(id), int(number), int(users), bytes(body)) for id, number, users, body in rows]


def settle(link: Link, batch: str, how: str) -> None:
    """Note how a batch ended, and forget its bytes."""
    link.run("UPDATE batches SET how = ?, body = NULL WHERE id = ? AND how IS NULL", how, batch)


def last_batch(link: Link) -> int:
    """The latest round that has a batch; 0 if there is none."""
    row = link.row("SELECT coalesce(max(round), 0) FROM batches")
    assert row is not None
    return int(row[0])


def keep_evidence(link: Link, one: str, other: str) -> None:
    """Keep two signed heads of one round."""
    link.run("INSERT INTO evidence (one, other) VALUES (?, ?)", one, other)


def _view(row: tuple[Any, ...]) -> RoundView:
    number, policy, head, terms, users, messages, signed, batch, dropped = row
    return RoundView(int(number), policy, head, terms, int(users), int(messages), signed, batch, dropped)

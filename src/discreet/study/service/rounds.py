"""Rows of a study: the SQL of the service, all of it, as functions of an open connection.

Whoever writes is inside :meth:`~discreet.study.service.study_database.Link.writing`, which lets one writer in at a
time. So a round takes no report after it has closed, the number of reports never exceeds that of the study, and what
was read before a write is still true when it is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from discreet.study.service.study_database import Link

GIVEN_UP = ("abandoned", "lost")  # rounds that take no late reports, and whose reports nobody looks for
FORGOTTEN = ""  # the fingerprint of a report that was counted: it is known by its id alone
_AT_ONCE = 500  # parameters of a query
_ROUND = "SELECT number, policy, head, public_key, wanted, served, opened, closed, how FROM rounds"


class StudyRow(NamedTuple):
    """The study that a database belongs to."""

    hash: str
    declaration: str
    recipe: str
    opened: str
    ended: str | None


class RoundRow(NamedTuple):
    """One round. ``served`` reports had been counted when it opened; ``how`` says: counted, final, abandoned, lost."""

    number: int
    policy: str
    head: str
    public_key: bytes | None
    wanted: int
    served: int
    opened: str
    closed: str | None = None
    how: str | None = None

    @property
    def signed(self) -> dict[str, Any]:
        """Its head as plain data."""
        return dict(json.loads(self.head))


class ReportRow(NamedTuple):
    """One report as it is stored."""

    id: str
    round: int
    fingerprint: str
    token: str | None
    content: bytes


class BatchRow(NamedTuple):
    """One shuffled batch as it is stored."""

    id: str
    round: int
    users: int
    fingerprint: str
    content: bytes


class StateRow(NamedTuple):
    """What intake and learner remember when a round opens."""

    round: int
    public: bytes
    sealed: bytes | None
    learner: bytes


def study_row(link: Link) -> StudyRow | None:
    """The study of this database, if it has one."""
    row = link.row("SELECT hash, declaration, recipe, opened, ended FROM study")
    return None if row is None else StudyRow(*row)


def add_study(link: Link, row: StudyRow) -> bool:
    """Enter the study; false if another process was faster."""
    done = link.run(
        "INSERT INTO study (one, hash, declaration, recipe, opened) VALUES (1, ?, ?, ?, ?) "
        "ON CONFLICT (one) DO NOTHING",
        *row[:4],
    )
    return bool(done.rowcount == 1)


def end_study(link: Link, how: str) -> None:
    """Say that the study takes nothing more, and why."""
    link.run("UPDATE study SET ended = ?", how)


def last_round(link: Link) -> RoundRow | None:
    """The latest round: the open one, or after the end the final one."""
    return _round(link.row(f"{_ROUND} ORDER BY number DESC LIMIT 1"))


def round_at(link: Link, number: int) -> RoundRow | None:
    """One round by its number."""
    return _round(link.row(f"{_ROUND} WHERE number = ?", number))


def rounds_from(link: Link, first: int, most: int) -> list[RoundRow]:
    """Rounds in order, from one number on."""
    rows = link.rows(f"{_ROUND} WHERE number >= ? ORDER BY number LIMIT ?", first, most)
    return [found for row in rows if (found := _round(row)) is not None]


def heads_from(link: Link, first: int, last: int, most: int) -> list[str]:
    """The texts of signed heads in order, of these rounds."""
    query = "SELECT head FROM rounds WHERE number BETWEEN ? AND ? ORDER BY number LIMIT ?"
    return [str(head) for (head,) in link.rows(query, first, last, most)]


def most_wanted(link: Link) -> int:
    """How many reports the largest of all rounds wants."""
    row = link.row("SELECT coalesce(max(wanted), 1) FROM rounds WHERE wanted > 0")
    assert row is not None
    return int(row[0])


def given_up(link: Link, numbers: Sequence[int]) -> set[int]:
    """Which of these rounds were abandoned or lost."""
    query = f"SELECT number FROM rounds WHERE how IN {GIVEN_UP} AND number IN ({{}})"
    return {int(number) for (number,) in _in_pieces(link, query, numbers)}


def add_round(link: Link, row: RoundRow) -> None:
    """Enter a round."""
    link.run(
        "INSERT INTO rounds (number, policy, head, public_key, wanted, served, opened, closed, how) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *row,
    )


def close_round(link: Link, number: int, time: str, how: str) -> None:
    """Say that a round has closed, and how."""
    link.run("UPDATE rounds SET closed = ?, how = ? WHERE number = ?", time, how, number)


def waiting(link: Link) -> int:
    """How many accepted reports have not been counted, those of shuffled batches among them."""
    row = link.row(
        "SELECT (SELECT count(*) FROM reports WHERE counted IS NULL)"
        " + (SELECT coalesce(sum(users), 0) FROM batches WHERE counted IS NULL)"
    )
    assert row is not None
    return int(row[0])


def waiting_batch(link: Link) -> tuple[int, bytes] | None:
    """Users and content of the shuffled batch that has not been counted; a round has one."""
    row = link.row("SELECT users, content FROM batches WHERE counted IS NULL")
    return None if row is None else (int(row[0]), bytes(row[1]))


def known_batch(link: Link, batch: str) -> tuple[int, str] | None:
    """Round and fingerprint of a batch that was taken before."""
    row = link.row("SELECT round, fingerprint FROM batches WHERE id = ?", batch)
    return None if row is None else (int(row[0]), str(row[1]))


def known_batches(link: Link, ids: Sequence[str]) -> set[str]:
    """Which of these are batches that were taken before."""
    return {str(id) for (id,) in _in_pieces(link, "SELECT id FROM batches WHERE id IN ({})", ids)}


def add_batch(link: Link, row: BatchRow) -> None:
    """Enter a batch."""
    link.run("INSERT INTO batches (id, round, users, fingerprint, content) VALUES (?, ?, ?, ?, ?)", *row)


def waiting_reports(link: Link) -> list[tuple[int, bytes]]:
    """Round and content of all reports that have not been counted; in an order that says nothing about arrival."""
    query = "SELECT round, content FROM reports WHERE counted IS NULL ORDER BY round, id"
    return [(int(number), bytes(content)) for number, content in link.rows(query)]


def mark_counted(link: Link, number: int) -> None:
    """All waiting reports were counted by the closing of this round; their ids stay, their content goes.

    So do their fingerprints: whoever has the hash of a report of a few bits finds it by trying all of them.
    """
    link.run(
        f"UPDATE reports SET counted = ?, content = NULL, fingerprint = '{FORGOTTEN}' WHERE counted IS NULL", number
    )
    link.run("UPDATE batches SET counted = ?, content = NULL WHERE counted IS NULL", number)


def known_reports(link: Link, ids: Sequence[str]) -> dict[str, tuple[int, str, str | None]]:
    """Round, fingerprint and token of those of these reports that were taken before."""
    query = "SELECT id, round, fingerprint, token FROM reports WHERE id IN ({})"
    return {row[0]: (int(row[1]), str(row[2]), row[3]) for row in _in_pieces(link, query, ids)}


def add_reports(link: Link, rows: Iterable[ReportRow]) -> None:
    """Enter reports."""
    link.many("INSERT INTO reports (id, round, fingerprint, token, content) VALUES (?, ?, ?, ?, ?)", rows)


def number_of_tokens(link: Link) -> int:
    """How many tokens there are."""
    row = link.row("SELECT count(*) FROM tokens")
    assert row is not None
    return int(row[0])


def all_tokens(link: Link) -> Iterator[str]:
    """The digests of all tokens."""
    return (str(digest) for (digest,) in link.run("SELECT digest FROM tokens"))


def tokens_used(link: Link, digests: Sequence[str]) -> dict[str, int]:
    """How often each of these tokens was used; those that nobody was given are not there."""
    query = "SELECT digest, used FROM tokens WHERE digest IN ({})"
    return {str(token): int(used) for token, used in _in_pieces(link, query, digests)}


def rounds_of_tokens(link: Link, digests: Sequence[str]) -> set[tuple[str, int]]:
    """In which rounds these tokens were used."""
    query = "SELECT token, round FROM reports WHERE token IN ({})"
    return {(str(token), int(number)) for token, number in _in_pieces(link, query, digests)}


def use_tokens(link: Link, digests: Iterable[str]) -> None:
    """Count one more use of each of these tokens."""
    link.many("UPDATE tokens SET used = used + 1 WHERE digest = ?", [(each,) for each in digests])


def use_all_tokens(link: Link, times: int) -> None:
    """Count so many uses of every token."""
    link.run("UPDATE tokens SET used = used + ?", times)


def add_tokens(link: Link, digests: Iterable[str]) -> None:
    """Enter new tokens by their digests."""
    link.many("INSERT INTO tokens (digest, used) VALUES (?, 0)", [(each,) for each in digests])


def state_row(link: Link, number: int) -> StateRow | None:
    """What was remembered when a round opened."""
    row = link.row("SELECT round, public, sealed, learner FROM states WHERE round = ?", number)
    if row is None:
        return None
    return StateRow(int(row[0]), bytes(row[1]), None if row[2] is None else bytes(row[2]), bytes(row[3]))


def put_state(link: Link, row: StateRow) -> None:
    """Remember this, and nothing older."""
    link.run("DELETE FROM states")
    link.run("INSERT INTO states (round, public, sealed, learner) VALUES (?, ?, ?, ?)", *row)


def _round(row: tuple[Any, ...] | None) -> RoundRow | None:
    if row is None:
        return None
    number, policy, head, key, wanted, served, opened, closed, how = row
    return RoundRow(
        int(number), policy, head, None if key is None else bytes(key), int(wanted), int(served), opened, closed, how
    )


def _in_pieces(link: Link, query: str, values: Sequence[str | int]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for first in range(0, len(values), _AT_ONCE):
        piece = values[first : first + _AT_ONCE]
        found += link.rows(query.format(", ".join("?" * len(piece))), *piece)
    return found

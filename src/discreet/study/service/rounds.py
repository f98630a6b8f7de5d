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
ABANDONED = -1  # the lot of reports that no closing may count
_ERASED = 1000  # rows that SQLite erases at once, while nobody can write
_BRIEFLY = 100  # milliseconds that erasing waits for whoever reads
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


class Standing(NamedTuple):
    """How far a study is: what is asked before reports are taken and before a round is closed."""

    ended: str | None
    number: int  # of the latest round
    how: str | None
    wanted: int
    served: int
    lot: int  # the round whose closing counts what arrives now: the open one, or the next while it is being counted
    reports: int  # that have arrived in this lot
    frozen: int  # that are being counted

    @property
    def waiting(self) -> int:
        """How many accepted reports have not been counted, those of shuffled batches among them."""
        return self.reports + self.frozen

    @property
    def closing(self) -> bool:
        """Whether what the open round counts is frozen, and nobody has published the next one yet."""
        return self.lot > self.number

    @property
    def full(self) -> bool:
        """Whether the open round has what it wants."""
        return self.how is None and self.ended is None and not self.closing and self.reports >= self.wanted


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
    query = f"SELECT number FROM rounds WHERE how IN {GIVEN_UP} AND number {{}}"
    return {int(number) for (number,) in link.among(query, numbers)}


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


def standing(link: Link) -> Standing | None:
    """How far the study is, if it has been opened: one statement, however many reports wait."""
    row = link.row(
        "SELECT s.ended, r.number, r.how, r.wanted, r.served, i.lot, i.reports, i.frozen FROM study s, intake i, "
        "rounds r ORDER BY r.number DESC LIMIT 1"
    )
    return None if row is None else Standing(row[0], int(row[1]), row[2], *map(int, row[3:]))


def waiting(link: Link) -> int:
    """How many accepted reports have not been counted."""
    found = standing(link)
    return 0 if found is None else found.waiting


def freeze(link: Link) -> None:
    """What has arrived is what the open round counts; what comes from now on goes into the next lot."""
    link.run("UPDATE intake SET lot = lot + 1, frozen = reports, reports = 0")


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
    return {str(id) for (id,) in link.among("SELECT id FROM batches WHERE id {}", ids)}


def add_batch(link: Link, row: BatchRow) -> None:
    """Enter a batch."""
    link.run("INSERT INTO batches (id, round, users, fingerprint, content) VALUES (?, ?, ?, ?, ?)", *row)
    link.run("UPDATE intake SET reports = reports + ?", row.users)


def frozen_reports(link: Link, lot: int) -> list[tuple[int, bytes, int]]:
    """Round and content of the reports of a lot, and how many are the same; the order says nothing about arrival."""
    query = f"SELECT round, content, count(*) FROM {_contents(lot)} GROUP BY round, content ORDER BY round, content"
    return [(int(number), bytes(content), int(times)) for number, content, times in link.rows(query)]


def mark_counted(link: Link, number: int) -> None:
    """What was frozen was counted by the closing of this round. :func:`erase` removes it when nobody waits for it."""
    link.run("UPDATE intake SET frozen = 0")
    link.run("UPDATE batches SET counted = ?, content = NULL WHERE counted IS NULL", number)


def abandon(link: Link, number: int, following: int) -> None:
    """What waits while this round is open is never counted; the lot of another round fills from now on."""
    link.run(f"UPDATE reports SET lot = {ABANDONED} WHERE lot >= ?", number)
    for lot in (0, 1):
        link.run(f"DELETE FROM {_contents(lot)}")
    link.run("UPDATE intake SET lot = ?, reports = 0", following)
    mark_counted(link, ABANDONED)


def left_to_erase(link: Link) -> bool:
    """Whether contents of reports are there that were counted."""
    at = standing(link)
    return at is not None and not at.closing and link.row(f"SELECT 1 FROM {_contents(at.lot + 1)} LIMIT 1") is not None


def number_left_to_erase(link: Link) -> int:
    """How many reports these are: all are looked through."""
    if not left_to_erase(link) or (at := standing(link)) is None:
        return 0
    return int(link.rows(f"SELECT count(*) FROM {_contents(at.lot + 1)}")[0][0])


def forget_senders(link: Link) -> int:
    """Forget which token has sent which report; gives how many there were. Only once no report is taken any more."""
    return int(link.run("UPDATE reports SET token = NULL WHERE token IS NOT NULL").rowcount)


def erase(link: Link) -> None:
    """Remove contents and fingerprints of reports that were counted; their ids stay. SQLite: some of them.

    Whoever has the hash of a report of a few bits finds it by trying all of them, so fingerprints go, too. PostgreSQL
    gives the table a new file: rows that are deleted or overwritten would stay in the old one.
    """
    at = standing(link)
    if at is None or at.closing:
        return
    table = _contents(at.lot + 1)
    if link.sqlite:
        link.run(f"DELETE FROM {table} WHERE place IN (SELECT place FROM {table} ORDER BY place LIMIT {_ERASED})")
    else:
        link.run(f"SET LOCAL lock_timeout TO {_BRIEFLY}")  # intake waits behind it
        link.run(f"TRUNCATE {table}")


def known_reports(link: Link, ids: Sequence[str]) -> dict[str, tuple[int, str, str | None]]:
    """Round, fingerprint and token of those of these reports that were taken before."""
    found = link.among("SELECT id, round, token, place FROM reports WHERE id {}", ids)
    places, prints = [row[3] for row in found if row[3] is not None], dict[int, str]()
    for lot in (0, 1):  # a place is never used again
        prints |= dict(link.among(f"SELECT place, fingerprint FROM {_contents(lot)} WHERE place {{}}", places))
    return {id: (int(number), prints.get(place, FORGOTTEN), token) for id, number, token, place in found}


def add_reports(link: Link, rows: Sequence[ReportRow], lot: int) -> None:
    """Enter reports into the lot that fills. Ids are random; contents lie, and are erased, in the order of places."""
    if not rows:
        return
    number = len(rows)
    placed = "UPDATE intake SET reports = reports + ?, placed = placed + ? RETURNING placed"
    first = int(link.rows(placed, number, number)[0][0]) - number + 1
    known = [(row.id, row.round, row.token, lot, place) for place, row in enumerate(rows, first)]
    link.enter("reports", ("id", "round", "token", "lot", "place"), known)
    contents = [(place, row.round, row.fingerprint, row.content) for place, row in enumerate(rows, first)]
    link.enter(_contents(lot), ("place", "round", "fingerprint", "content"), contents)


def _contents(lot: int) -> str:
    return f"contents_{lot & 1}"


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
    query = "SELECT digest, used FROM tokens WHERE digest {}"
    return {str(token): int(used) for token, used in link.among(query, digests)}


def rounds_of_tokens(link: Link, digests: Sequence[str]) -> set[tuple[str, int]]:
    """In which rounds these tokens were used."""
    query = "SELECT token, round FROM reports WHERE token {}"
    return {(str(token), int(number)) for token, number in link.among(query, digests)}


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

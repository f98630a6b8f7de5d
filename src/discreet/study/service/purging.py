"""Erasing from the files of a database what the study no longer needs.

A closing erases what the reports that it counted have said (:func:`discreet.study.service.closing.erase`). What is left
of a row that was changed or removed is the database's own affair: PostgreSQL keeps old versions of rows in its files,
and SQLite keeps room that is free. Purging writes the tables anew, without any of it, and once a study has ended it
also forgets which token has sent which report. Ids stay, so that nobody is counted twice, and how often each token was
used. It reaches the files of the tables; PostgreSQL's log of writes, its archives, standbys, backups and snapshots of
disks keep what they hold until they are recycled, and nothing here can hurry them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from discreet.base.errors import InvalidInput
from discreet.study.service import rounds
from discreet.study.service.declaration import Study
from discreet.study.service.study_database import Database, database_errors

_TABLES = ("study", "rounds", "reports", "states", "tokens", "batches", "intake", "contents_0", "contents_1")


class Purged(NamedTuple):
    """What was done: reports whose contents were erased only now, and reports whose tokens were forgotten."""

    erased: int
    unlinked: int
    waiting: int


def purge(study: Study, database: Database) -> Purged:
    """Erase what is not needed from the files of the tables; whoever serves the study waits meanwhile."""
    database.check_exists()
    database.prepare()
    link = database.connect()
    try:
        with database.plainly():
            found = rounds.study_row(link)
            if found is None or found.hash != study.hash:
                raise InvalidInput(f"{database.named} does not hold this study: name the database that does")
            erased = rounds.number_left_to_erase(link)
            while rounds.left_to_erase(link):
                with link.writing():
                    rounds.erase(link)
            unlinked = 0
            with link.writing():
                at = rounds.standing(link)
                if at is not None and at.how is not None:
                    unlinked = rounds.forget_senders(link)
            if link.sqlite:
                link.run("VACUUM")
                busy, _pages, _moved = link.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0]
                if busy:
                    raise InvalidInput(f"{database.named} is being read: stop serve, and purge again")
            else:
                link.run("SET statement_timeout TO 0")  # a table of many millions takes its time
                for table in _TABLES:
                    link.run(f"VACUUM FULL {table}")
                with suppress(*database_errors()):
                    link.run("CHECKPOINT")  # old files go; who may not ask for it waits for the next one
            return Purged(erased, unlinked, rounds.waiting(link))
    finally:
        link.close()

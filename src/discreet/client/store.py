"""What must outlast a crash of the device: how many reports were begun, their bytes, the last head, evidence.

A report has a row from the moment its episode begins. The row holds the bytes that are to be sent, at first those of
the empty record, so that whatever happens to the episode, something can be sent at the time that was drawn. ``settle``
puts the real report in their place; from the first attempt to send on (``fix``) they never change. Rows are never
removed, because they are the cap; their bytes are, once the service has answered.

Records are never stored: a crash in the middle of an episode sends the empty record. In central studies the report is
the record, and lies here from the end of the episode until the service has answered.
"""

from __future__ import annotations

import json
import os
import sqlite3
from typing import Any, NamedTuple, Protocol

from discreet.client.errors import Refused

OPEN, READY, SENDING, DONE, REJECTED = "open", "ready", "sending", "done", "rejected"
_TABLES = """
CREATE TABLE IF NOT EXISTS reports (
    id TEXT PRIMARY KEY, study TEXT NOT NULL, due INTEGER NOT NULL, body BLOB, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS heads (study TEXT PRIMARY KEY, head TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS evidence (study TEXT NOT NULL, one TEXT NOT NULL, other TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS visits (study TEXT PRIMARY KEY, time INTEGER NOT NULL);
"""


class Waiting(NamedTuple):
    """A report that has not been answered yet: its id, when to send it, its bytes and how far it is."""

    id: str
    due: int
    body: bytes
    state: str


class Store(Protocol):
    """What a device keeps. Every change is durable when the call returns."""

    def begin(self, study: str, cap: int, report: Waiting) -> bool:
        """Note a report; False, and nothing is noted, if there are ``cap`` already."""

    def settle(self, id: str, body: bytes) -> bool:
        """The real report of an open episode; False if the empty one has been sent already."""

    def fix(self, id: str) -> bytes | None:
        """The bytes of a report, which never change from now on; None if it was answered already."""

    def close(self, id: str, state: str) -> None:
        """Note that the service has answered, and forget the bytes."""

    def waiting(self, study: str) -> list[Waiting]:
        """Reports that were not answered yet, the oldest first."""

    def count(self, study: str) -> int:
        """How many reports were begun."""

    def head(self, study: str) -> dict[str, Any] | None:
        """The last head that was seen."""

    def keep_head(self, study: str, head: dict[str, Any]) -> None:
        """Remember a head as the last one."""

    def keep_evidence(self, study: str, one: dict[str, Any], other: dict[str, Any]) -> None:
        """Keep two heads of one round."""

    def evidence(self, study: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Pairs of heads that contradict each other."""

    def visit(self, study: str) -> int | None:
        """The time that was drawn for the next visit."""

    def plan_visit(self, study: str, time: int | None) -> None:
        """Remember, or forget, the time of the next visit."""


class SQLiteStore:
    """A store in a file of the standard library's database, readable by its owner alone."""

    def __init__(self, path: str) -> None:
        try:
            if path != ":memory:":
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._base = sqlite3.connect(path, isolation_level=None, timeout=30)
            self._base.execute("PRAGMA synchronous = FULL")
            self._base.execute("PRAGMA fullfsync = ON")  # macOS: into the drive, too
            self._base.execute("PRAGMA secure_delete = ON")
            self._base.executescript(_TABLES)
        except (OSError, sqlite3.Error):
            raise Refused(
                f"the store {os.path.basename(path)!r} cannot be opened as one of this client: give a file in a folder "
                "that can be written, and for each device its own"
            ) from None

    def begin(self, study: str, cap: int, report: Waiting) -> bool:
        """Note a report, unless the cap is reached; one transaction, so that two processes do not exceed it either."""
        self._base.execute("BEGIN IMMEDIATE")
        try:
            free = self.count(study) < cap
            if free:
                row = report.id, study, report.due, report.body, report.state
                self._base.execute("INSERT INTO reports VALUES (?, ?, ?, ?, ?)", row)
            self._base.execute("COMMIT")
        except BaseException:
            self._base.execute("ROLLBACK")
            raise
        return free

    def settle(self, id: str, body: bytes) -> bool:
        """Replace the empty report, unless it was sent."""
        change = "UPDATE reports SET body = ?, state = ? WHERE id = ? AND state = ?"
        return self._base.execute(change, (body, READY, id, OPEN)).rowcount == 1

    def fix(self, id: str) -> bytes | None:
        """The bytes that are sent now and whenever it is tried again."""
        self._base.execute("UPDATE reports SET state = ? WHERE id = ? AND state IN (?, ?)", (SENDING, id, OPEN, READY))
        row = self._base.execute("SELECT body FROM reports WHERE id = ? AND state = ?", (id, SENDING)).fetchone()
        return bytes(row[0]) if row else None

    def close(self, id: str, state: str) -> None:
        """Note the answer; the bytes are overwritten."""
        self._base.execute("UPDATE reports SET state = ?, body = NULL WHERE id = ?", (state, id))

    def waiting(self, study: str) -> list[Waiting]:
        """Reports without an answer."""
        rows = self._base.execute(
            "SELECT id, due, body, state FROM reports WHERE study = ? AND body IS NOT NULL ORDER BY rowid", (study,)
        )
        return [Waiting(id, due, bytes(body), state) for id, due, body, state in rows]

    def count(self, study: str) -> int:
        """How many reports were begun."""
        return int(self._base.execute("SELECT COUNT(*) FROM reports WHERE study = ?", (study,)).fetchone()[0])

    def head(self, study: str) -> dict[str, Any] | None:
        """The last head that was seen."""
        row = self._base.execute("SELECT head FROM heads WHERE study = ?", (study,)).fetchone()
        return dict(json.loads(row[0])) if row else None

    def keep_head(self, study: str, head: dict[str, Any]) -> None:
        """Remember a head as the last one."""
        self._base.execute("INSERT OR REPLACE INTO heads VALUES (?, ?)", (study, json.dumps(head)))

    def keep_evidence(self, study: str, one: dict[str, Any], other: dict[str, Any]) -> None:
        """Keep two heads of one round."""
        self._base.execute("INSERT INTO evidence VALUES (?, ?, ?)", (study, json.dumps(one), json.dumps(other)))

    def evidence(self, study: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Pairs of heads that contradict each other."""
        rows = self._base.execute("SELECT one, other FROM evidence WHERE study = ?", (study,))
        return [(json.loads(one), json.loads(other)) for one, other in rows]

    def visit(self, study: str) -> int | None:
        """The time of the next visit."""
        row = self._base.execute("SELECT time FROM visits WHERE study = ?", (study,)).fetchone()
        return int(row[0]) if row else None

    def plan_visit(self, study: str, time: int | None) -> None:
        """Remember, or forget, the time of the next visit."""
        if time is None:
            self._base.execute("DELETE FROM visits WHERE study = ?", (study,))
        else:
            self._base.execute("INSERT OR REPLACE INTO visits VALUES (?, ?)", (study, time))


class MemoryStore:
    """A store that lasts as long as the program, for simulated people of one study."""

    def __init__(self) -> None:
        self._reports: dict[str, Waiting] = {}
        self._begun = 0
        self._head: dict[str, Any] | None = None
        self._evidence: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._visit: int | None = None

    def begin(self, study: str, cap: int, report: Waiting) -> bool:
        """Note a report, unless the cap is reached."""
        if self._begun >= cap:
            return False
        self._begun += 1
        self._reports[report.id] = report
        return True

    def settle(self, id: str, body: bytes) -> bool:
        """Replace the empty report, unless it was sent."""
        report = self._reports.get(id)
        if report is None or report.state != OPEN:
            return False
        self._reports[id] = report._replace(body=body, state=READY)
        return True

    def fix(self, id: str) -> bytes | None:
        """The bytes that are sent now and whenever it is tried again."""
        report = self._reports.get(id)
        if report is None:
            return None
        self._reports[id] = report._replace(state=SENDING)
        return report.body

    def close(self, id: str, state: str) -> None:
        """Note the answer, and forget the bytes."""
        self._reports.pop(id, None)

    def waiting(self, study: str) -> list[Waiting]:
        """Reports without an answer."""
        return list(self._reports.values())

    def count(self, study: str) -> int:
        """How many reports were begun."""
        return self._begun

    def head(self, study: str) -> dict[str, Any] | None:
        """The last head that was seen."""
        return self._head

    def keep_head(self, study: str, head: dict[str, Any]) -> None:
        """Remember a head as the last one."""
        self._head = head

    def keep_evidence(self, study: str, one: dict[str, Any], other: dict[str, Any]) -> None:
        """Keep two heads of one round."""
        self._evidence.append((one, other))

    def evidence(self, study: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Pairs of heads that contradict each other."""
        return list(self._evidence)

    def visit(self, study: str) -> int | None:
        """The time of the next visit."""
        return self._visit

    def plan_visit(self, study: str, time: int | None) -> None:
        """Remember, or forget, the time of the next visit."""
        self._visit = time

"""What must hold of the database of a study, whatever has happened to its coordinators."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from discreet import ledger
from discreet.ledger.chain import canonical, digest
from discreet.study.service.chain_heads import ExternalHead, check_head, hashed
from discreet.study.service.declaration import Study
from discreet.study.service.study_database import Link

# A report was counted once the closing of its lot has opened another round, and abandoned if its lot is no round.
CLOSED = "(r.lot < (SELECT max(number) FROM rounds))"
STORED = (
    f"SELECT r.id, r.round, CASE WHEN {CLOSED} THEN r.lot END AS counted, c.content, c.fingerprint FROM reports r "
    "LEFT JOIN (SELECT * FROM contents_0 UNION ALL SELECT * FROM contents_1) c ON c.place = r.place"
)
COUNTED = f"SELECT count(*) FROM reports r WHERE r.lot > 0 AND {CLOSED}"


def heads_are_a_chain(link: Link, study: Study, head_file: Path) -> dict[int, str]:
    """Heads are signed, name what they follow and what was released before them; gives them by round.

    The file outside the database names heads that the database has.
    """
    rows = link.rows("SELECT number, policy, head FROM rounds ORDER BY number")
    assert [number for number, _policy, _head in rows] == list(range(1, len(rows) + 1))
    entries = link.rows(
        "SELECT e.request, r.content FROM ledger_entries e JOIN ledger_releases r ON e.number = r.number"
    )
    releases, previous, found = {str(request): bytes(content) for request, content in entries}, "", {}
    for number, policy, text in rows:
        head = json.loads(text)
        _signed(text, study.signing_key)
        assert (head["study"], head["round"], head["previous"]) == (study.hash, number, previous)
        assert head["policy"] == hashed(json.loads(policy))
        paid = releases.pop(digest({"study": study.hash, "round": number - 1}), None)
        assert head["released"] == ("" if paid is None else hashed(paid))
        previous, found[number] = hashed(head), text
    assert not releases, "a release that no head names"
    external = ExternalHead(head_file).read()
    assert external is not None
    assert external["round"] == 0 or canonical(external) == found[external["round"]], "seen, and not in the database"
    return found


@cache
def _signed(head: str, key: str) -> None:
    check_head(json.loads(head), key)


def the_ledger_is_sound(link: Link, study: Study) -> None:
    """The chain of charges verifies, and they are within the budget."""
    assert ledger.verify(link.raw).sound
    held = ledger.balance(link.raw, study.name)
    assert held.left.loss >= 0
    assert held.left.delta >= 0

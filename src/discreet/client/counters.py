"""Answered bits (shuffled studies): which counters there are, which of them a record sets, and the messages of it.

A *row* is (group, state, action); there is one group for all steps, or one for each. Rows come in this order, and only
those that the public policy can play where the study masks the others (at step 0 in the start state alone, if there is
a public one). The counters of layout

* **joint**: for every row, for every successor (S: the record ends with this step), a reward bit of 0 and of 1;
* **tables**: all rows (visits); for every successor all rows that can have one (transitions); all rows (reward bits);
* **two-tables**: for every successor all rows that can have one (transitions); for every row a reward bit of 0 and 1.

The last of separate steps has no successor but the end. A record sets, at each of its steps (``first_visits``: at the
first one at each (state, action)), the joint counter, or visit, transition and a reward bit of 1, or transition and
reward bit.

**The messages**, in whole numbers: for every step of the record in order the reward becomes a bit, also where the visit
does not count; then for counter c = 0, 1, ... a number z is read, the answer is the true bit, or the other one if z is
below the threshold, and the message says 2 c + answer. The server counts in the same way
(``ResponseChannel.counters``), and says how many counters there are: a device that finds another number sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from discreet.client.exact import Tape, reward_fraction
from discreet.client.policy import Policy
from discreet.client.study import Study

Row = tuple[int, int, int]


class Counters(NamedTuple):
    """The counters of one round: where each row stands, where its transitions or joint cells begin, how many."""

    rows: dict[Row, int]
    followed: dict[Row, int]  # rows that can have a successor, in their order
    starts: dict[Row, int]  # joint: the first counter of each row
    size: int


def counters_of(study: Study, policy: Policy) -> Counters:
    """The counters of a round with this policy."""
    S, rows = study.states, [row for row in _rows(study) if _asked(study, policy, row)]
    last = study.kind.groups - 1 if study.kind.groups > 1 or study.horizon == 1 else -1
    followed = {row: place for place, row in enumerate(row for row in rows if row[0] != last)}
    places = {row: place for place, row in enumerate(rows)}
    if study.kind.layout != "joint":
        return Counters(places, followed, {}, 2 * len(rows) + S * len(followed))
    starts, size = {}, 0
    for row in rows:
        starts[row] = size
        size += 2 * (S + 1) if row in followed else 2
    return Counters(places, followed, starts, size)


def set_by(study: Study, counters: Counters, record: Sequence[tuple[int, int, float]], bits: Sequence[int]) -> set[int]:
    """The counters that a record sets; ``bits`` are its reward bits."""
    found: set[int] = set()
    seen: set[tuple[int, int]] = set()
    for h, (state, action, _reward) in enumerate(record):
        if study.kind.first_visits and (state, action) in seen:
            continue
        seen.add((state, action))
        row = (h if study.kind.groups > 1 else 0, state, action)
        if row in counters.rows:
            successor = record[h + 1][0] if h + 1 < len(record) else None
            found.update(_of_a_step(study, counters, row, successor, bits[h]))
    return found


def messages_of(
    study: Study, counters: Counters, threshold: int, record: Sequence[tuple[int, int, float]], tape: Tape
) -> list[int]:
    """What a device sends of a record, before it is sealed; of the empty record as many messages as of any other."""
    bits = [int(tape.chance(*reward_fraction(reward, *study.rewards))) for _state, _action, reward in record]
    true = set_by(study, counters, record, bits)
    return [2 * c + ((c in true) ^ (z < threshold)) for c, z in enumerate(tape.numbers(counters.size))]


def _of_a_step(study: Study, counters: Counters, row: Row, successor: int | None, bit: int) -> Iterator[int]:
    S, R, followed = study.states, len(counters.rows), len(counters.followed)
    if study.kind.layout == "joint":
        where = (S if successor is None else successor) if row in counters.followed else 0
        yield counters.starts[row] + 2 * where + bit
        return
    place, visits = counters.rows[row], R if study.kind.layout == "tables" else 0
    if successor is not None and row in counters.followed:
        yield visits + successor * followed + counters.followed[row]
    if study.kind.layout == "two-tables":
        yield S * followed + 2 * place + bit
        return
    yield place
    if bit:
        yield R + S * followed + place


def _rows(study: Study) -> Iterator[Row]:
    for group in range(study.kind.groups):
        for state in range(study.states):
            for action in range(study.actions):
                yield group, state, action


def _asked(study: Study, policy: Policy, row: Row) -> bool:
    """Whether the public policy can play a row, or no row is left out."""
    if not study.kind.masked:
        return True
    group, state, action = row
    steps = range(study.horizon) if study.kind.groups == 1 else range(group, group + 1)
    return any(
        policy.plays(step, state, action) and (step > 0 or study.start is None or state == study.start)
        for step in steps
    )

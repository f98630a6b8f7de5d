"""What can be said in a round, and what a record says of it: one table for every kind of report.

=================  ======================  ===================================================  ======================
kind               questions               items of a question, in their order                  what a record says
=================  ======================  ===================================================  ======================
sampled-items      one for each step       cells of that step, then "ended"                     the cell of the step
one-item           one                     cells of all steps, group by group, then "ended"     the cell of one step
answered-bits      one                     counters of the layout                               all that it sets
asked-first-visit  2 r, 2 r + 1 of row r   S successors or none; 0, 1 or none                   its first visit of r
=================  ======================  ===================================================  ======================

A *row* is (group, state, action), with a group for each step or one for all. A *cell* is (row, successor, reward bit);
successor S means that the record ends with this step. Cells lie in this order, and only those are items that can occur:
the public policy can take the action at a step of the group (at step 0 in the start state alone, if there is a public
one; without a mask any action counts, and of sampled items any start, too); at the last step the successor is S, before
it any state, and S too where records may end early. There, "ended" is one further item.

*Counters* of the rows that can occur: **joint**, for every row and every successor a reward bit of 0 and of 1;
**tables**, all rows (visits), for every successor all rows that can have one (transitions), all rows (reward bits);
**two-tables**, for every successor all rows that can have one, for every row a reward bit of 0 and of 1. The last of
separate steps has no successor but S. A record sets, at each of its steps (``first_visits``: at the first one at each
state and action), the joint counter, or visit, transition and a reward bit of 1, or transition and reward bit.

This is steps 3 and 6 of the protocol (docs/messages.md). The server counts in the same way and says how many items
there are: a device that counts another number sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from discreet.client.exact import Tape, reward_fraction
from discreet.client.policy import Policy
from discreet.client.study import Study

Record = Sequence[tuple[int, int, float]]
Row = tuple[int, int, int]
STEPS, ITEM, BITS, ASKED = "sampled-items", "one-item", "answered-bits", "asked-first-visit"
_NOWHERE = (0, range(0))


class Question(NamedTuple):
    """What can be said to it: where each row begins, and its successors.

    In a layout of several tables a row begins with its place in each of them, and ``followed`` are the places of those
    that can have a successor in the table of transitions.
    """

    rows: dict[Row, tuple[int, range]]
    followed: dict[Row, int]
    size: int

    def number(self, row: Row, successor: int, bit: int) -> int | None:
        """The number of a cell; None for one that cannot occur."""
        first, successors = self.rows.get(row, _NOWHERE)
        return first + 2 * (successor - successors.start) + bit if successor in successors else None


def questions_of(study: Study, policy: Policy) -> tuple[Question, ...]:
    """The questions of a round with this policy; of first visits the two kinds of them."""
    H, apart = study.horizon, study.kind.groups > 1
    if study.kind.name == ASKED:
        return Question({}, {}, study.states + 1), Question({}, {}, 3)
    if study.kind.name == STEPS:
        return tuple(_question(study, policy, [range(h, h + 1)]) for h in range(H))
    return (_question(study, policy, [range(h, h + 1) for h in range(H)] if apart else [range(H)]),)


def _question(study: Study, policy: Policy, groups: Sequence[range]) -> Question:
    S, last, masked, bits = study.states, study.horizon - 1, study.kind.masked, study.kind.name == BITS
    # By whether a row occurs at the last step alone, and whether at the last step at all.
    end = S + 1 if study.early_end or bits else S
    successors = {(True, True): range(S, S + 1), (False, True): range(S + 1), (False, False): range(end)}
    rows: dict[Row, tuple[int, range]] = {}
    size, tables = 0, bits and study.kind.layout != "joint"
    for group, steps in enumerate(groups):
        for state in range(S):
            anywhere = study.start in (None, state) or (not masked and study.kind.name != ITEM)
            here = steps if anywhere or steps[0] > 0 else steps[1:]
            for action in range(study.actions):
                at = [h for h in here if policy.plays(h, state, action)] if masked else here
                if at:
                    own = successors[(steps if bits else at)[0] == last, at[-1] == last]
                    rows[group, state, action] = len(rows) if tables else size, own
                    size += 2 * len(own)
    moving = (row for row, (_first, own) in rows.items() if tables and own.start == 0)
    followed = {row: place for place, row in enumerate(moving)}
    if tables:
        size = 2 * len(rows) + S * len(followed)
    return Question(rows, followed, size if bits else size + study.early_end)


def item_of(study: Study, question: Question, asked: int, record: Record, tape: Tape) -> int | None:
    """The item of a record; None if it has none: the record has ended, or its cell cannot occur."""
    if study.kind.name == ASKED:
        return _of_first_visit(study, question, asked, record, tape)
    h = asked if study.kind.name == STEPS else tape.below(study.horizon)
    if h >= len(record):
        return question.size - 1 if study.early_end else None
    state, action, reward = record[h]
    group = h if study.kind.groups > 1 else 0
    return question.number((group, state, action), _successor(study, record, h), bit_of(study, reward, tape))


def _of_first_visit(study: Study, question: Question, asked: int, record: Record, tape: Tape) -> int:
    row, about = divmod(asked, 2)
    visit = (h for h, (s, a, _reward) in enumerate(record) if s * study.actions + a == row)
    h = next(visit, len(record))
    if about and h < len(record):
        return bit_of(study, record[h][2], tape)
    return record[h + 1][0] if h + 1 < len(record) else question.size - 1


def set_by(study: Study, question: Question, record: Record, bits: Sequence[int]) -> set[int]:
    """The counters that a record sets; ``bits`` are its reward bits."""
    found: set[int] = set()
    seen: set[tuple[int, int]] = set()
    for h, (state, action, _reward) in enumerate(record):
        if study.kind.first_visits and (state, action) in seen:
            continue
        seen.add((state, action))
        row = (h if study.kind.groups > 1 else 0, state, action)
        if row in question.rows:
            found.update(_of_a_step(study, question, row, _successor(study, record, h), bits[h]))
    return found


def _of_a_step(study: Study, question: Question, row: Row, successor: int, bit: int) -> Iterator[int]:
    S, R, followed, place = study.states, len(question.rows), len(question.followed), question.rows[row][0]
    if study.kind.layout == "joint":
        yield place + 2 * (successor - question.rows[row][1].start) + bit
        return
    visits = R if study.kind.layout == "tables" else 0
    if successor < S and row in question.followed:
        yield visits + successor * followed + question.followed[row]
    if study.kind.layout == "two-tables":
        yield S * followed + 2 * place + bit
        return
    yield place
    if bit:
        yield R + S * followed + place


def bit_of(study: Study, reward: float, tape: Tape) -> int:
    """A reward as a bit, one with probability (reward - low) / (high - low)."""
    return int(tape.chance(*reward_fraction(reward, *study.rewards)))


def _successor(study: Study, record: Record, h: int) -> int:
    return record[h + 1][0] if h + 1 < len(record) else study.states

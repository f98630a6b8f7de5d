"""One message (shuffled studies): an item of one step that the device alone draws, randomised among all items.

An item is a cell (state, action, successor or end, reward bit), with its step where there is a group for each. Items
are numbered group by group in the order of the table (state, action, successor, bit); S is the successor of a record's
last step. A cell is an item if some step of its group allows it: the public policy can take the action there (at step 0
in the start state alone, if there is a public one; any action where the study does not mask), and the successor is S at
the last step, and below S before it, or S too where records may end early. There, one further item after all cells says
that the record had ended before the step that was drawn.

**The message**, in whole numbers: the step is below(H); if the record reaches it, its reward becomes a bit and its cell
is the item; if not, the item is "ended" where there is one. Where there is no item, it is below(k). Then one item of k
is reported by the threshold. The server numbers items in the same way (``ItemChannel.items``), and says how many there
are: a device that counts another number sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from discreet.client.exact import Tape, reward_fraction
from discreet.client.policy import Policy
from discreet.client.study import Study

Cell = tuple[int, int, int, int, int]  # group, state, action, successor, bit


class Numbered(NamedTuple):
    """The items of one round: the number of each cell, and how many there are."""

    cells: dict[Cell, int]
    size: int


def numbered(study: Study, policy: Policy) -> Numbered:
    """The items of a round with this policy."""
    cells = {cell: number for number, cell in enumerate(_cells(study, policy))}
    return Numbered(cells, len(cells) + study.early_end)


def message_of(
    study: Study, items: Numbered, threshold: int, record: Sequence[tuple[int, int, float]], tape: Tape
) -> int:
    """What a device sends of a record, before it is sealed."""
    step = tape.below(study.horizon)
    item = _item(study, items, record, step, tape)
    return tape.item(tape.below(items.size) if item is None else item, items.size, threshold)


def _item(study: Study, items: Numbered, record: Sequence[tuple[int, int, float]], step: int, tape: Tape) -> int | None:
    if step >= len(record):
        return items.size - 1 if study.early_end else None
    state, action, reward = record[step]
    bit = int(tape.chance(*reward_fraction(reward, *study.rewards)))
    successor = record[step + 1][0] if step + 1 < len(record) else study.states
    group = step if study.kind.groups > 1 else 0
    return items.cells.get((group, state, action, successor, bit))


def _cells(study: Study, policy: Policy) -> Iterator[Cell]:
    for group in range(study.kind.groups):
        steps = range(study.horizon) if study.kind.groups == 1 else range(group, group + 1)
        for state in range(study.states):
            for action in range(study.actions):
                for successor in range(study.states + 1):
                    if any(_allows(study, policy, step, state, action, successor) for step in steps):
                        yield group, state, action, successor, 0
                        yield group, state, action, successor, 1


def _allows(study: Study, policy: Policy, step: int, state: int, action: int, successor: int) -> bool:
    if step == 0 and study.start is not None and state != study.start:
        return False
    ends = successor == study.states
    follows = ends if step == study.horizon - 1 else not ends or study.early_end
    return follows and (not study.kind.masked or policy.plays(step, state, action))

"""One question (local studies, kind "asked-first-visit"): about the first visit of one state and action.

A *row* is r = state * A + action. Question 2 r asks which state followed the first visit of row r, question 2 r + 1
which reward bit it brought. The first has the answers 0 ... S - 1 and S, the second 0, 1 and 2; the last of them is
"none": the record never visits the row, or ends with that visit (first question).

**The question**, in whole numbers, before the episode begins: with the weights w of the round, z is below(sum of w),
the row is the first one with w_0 + ... + w_r > z, and below(2) says which of its two questions it is. Weights are
public, and answers are decoded without them, so privacy rests on none of this. A row with a weight must be one that the
public policy can play (at step 0 in the start state alone, if there is a public one), where the study masks the others:
the server takes no answers about others.

**The answer**: if the question is about a reward bit and the row was visited, the reward becomes a bit, one with
probability (reward - low) / (high - low). Then the answer is randomised by the law of the question, which keeps the
whole epsilon of a report: one of three about bits; one of S + 1, or a bit for each of them ("unary"), about successors.
The server counts in the same way (``discreet.mechanisms.messages.device_answers``), and says how many answers there
are: a device that counts another number sends nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from discreet.client.errors import Refused
from discreet.client.exact import Tape, reward_fraction
from discreet.client.laws import Law, check_law
from discreet.client.policy import Policy, reaches
from discreet.client.study import Study
from discreet.client.words import field

NAME = "asked-first-visit"
_BITS = 3  # zero, one, none
_HEAVIEST = 1 << 30  # a weight


def check_laws(laws: Sequence[Law], study: Study) -> None:
    """Refuse other laws than two, of successors and of bits, that keep what was agreed to."""
    if [law.items for law in laws] != [study.states + 1, _BITS]:
        raise Refused(
            f"the service does not state two laws, of {study.states + 1:,} and of {_BITS} answers: nothing is sent, "
            "because answers would be misread"
        )
    for law, response in zip(laws, (study.kind.response, "kary"), strict=True):
        check_law(law, response, study.per_step)


def read_weights(answer: dict[str, Any], study: Study, policy: Policy) -> tuple[int, ...]:
    """The weights of rows in an answer of the service, added up from the first row on."""
    weights, rows = field(answer, "questions", list), study.states * study.actions
    whole = all(type(weight) is int and 0 <= weight <= _HEAVIEST for weight in weights)
    if len(weights) != rows or not whole or not any(weights):
        raise Refused(
            f"the weights of questions must be {rows:,} whole numbers from 0 to {_HEAVIEST:,}, and not all of them 0"
        )
    if study.kind.masked and not all(
        reaches(study, policy, *divmod(row, study.actions)) for row, weight in enumerate(weights) if weight
    ):
        raise Refused(
            "the service asks about a state and action that the policy of this round cannot play: nothing is sent, "
            "because answers would be misread"
        )
    return tuple(accumulate(weights))


def draw_question(up_to: Sequence[int], tape: Tape) -> int:
    """The question of an episode, drawn before it begins."""
    row = bisect_right(up_to, tape.below(up_to[-1]))
    return 2 * row + tape.below(2)


def answer_of(
    study: Study, laws: Sequence[Law], question: int, record: Sequence[tuple[int, int, float]], tape: Tape
) -> dict[str, Any]:
    """The report of a record; that of the empty record answers "none"."""
    row, about = divmod(question, 2)
    law, true = laws[about], _bit(study, row, record, tape) if about else _successor(study, row, record)
    if not about and study.kind.response == "unary":
        return {"kind": "answer", "question": question, "bits": tape.bits(true, *law)}
    return {"kind": "answer", "question": question, "answer": tape.item(true, *law)}


def _successor(study: Study, row: int, record: Sequence[tuple[int, int, float]]) -> int:
    h = _first_visit(study, row, record)
    return study.states if h is None or h + 1 >= len(record) else record[h + 1][0]


def _bit(study: Study, row: int, record: Sequence[tuple[int, int, float]], tape: Tape) -> int:
    h = _first_visit(study, row, record)
    return _BITS - 1 if h is None else int(tape.chance(*reward_fraction(record[h][2], *study.rewards)))


def _first_visit(study: Study, row: int, record: Sequence[tuple[int, int, float]]) -> int | None:
    return next((h for h, (s, a, _reward) in enumerate(record) if s * study.actions + a == row), None)

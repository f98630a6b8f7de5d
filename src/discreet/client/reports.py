"""A record in, the report of it out. A record is a list of (state, action, reward) from the first step on.

The numbers are those of the protocol's steps (docs/messages.md); what can be said, and what a record says, stands in
:mod:`discreet.client.questions`.

3. *Items*: the service must count as many as the device. Its one law, or the law of each question, must keep what was
   agreed to (step 4, :mod:`discreet.client.laws`): in shuffled studies, whatever a coordinator asks for and a shuffler
   confirms, the declared ``local_epsilon``.
5. *The question*, before the episode begins: m of H steps; or, with the weights w of the round, z is below(sum of w),
   the row is the first one with w_0 + ... + w_r > z, and below(2) says which of its two questions it is. A row with a
   weight must be one that the public policy can play, where the study masks the others. One item: the step is below(H),
   drawn with the item and told to nobody. Privacy rests on no weight: answers are decoded without them.
6. *The item*: the reward of the step becomes a bit; of answered bits the rewards of all steps do, in order, also where
   a visit does not count. Where a record has no item, it is below(k).
7. *The answer*: one item of k, or a bit for each ("unary"; questions about a reward bit are always answered by one of
   three). Answered bits: for counter c = 0, 1, ... a number z is read, the answer is the true bit, or the other one if
   z is below the threshold, and the message says 2 c + answer. They are sealed one by one (step 8).

Central studies (kind "record") send all H steps as [state, action, reward bit], and [-1, -1, -1] after the end. The
empty record goes through the same steps. Random numbers are read from the tape in exactly this order, so that another
client gives the same report for the same bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from discreet.client.errors import Refused
from discreet.client.exact import WHOLE, Tape
from discreet.client.laws import Law, check_law, read_law
from discreet.client.policy import Policy, reaches, read_policy
from discreet.client.questions import ASKED, BITS, STEPS, Question, Record, bit_of, item_of, questions_of, set_by
from discreet.client.study import Study
from discreet.client.words import digest, field, whole

_ROUNDS = 1 << 53
_HEAVIEST = 1 << 30  # a weight


class Round(NamedTuple):
    """What a device agreed to for one episode: the policy, what can be said, and by which laws it is."""

    number: int
    policy: Policy
    laws: tuple[Law, ...] = ()
    questions: tuple[Question, ...] = ()
    terms: str = ""  # shuffled: the hash of laws, size of the batch and kind of report, which the shuffler certifies
    asked: tuple[int, ...] = ()  # asked about first visits: the weights of rows, added up from the first row on


def read_round(answer: dict[str, Any], study: Study) -> Round:
    """The round in an answer of the service; refused unless its laws keep what was agreed to."""
    if field(answer, "study", str) != study.hash:
        raise Refused("the service sent the policy of another study")
    policy = read_policy(field(answer, "policy", dict), study)
    number = whole(answer, "round", 0, _ROUNDS)
    if study.kind.name == "record":
        return Round(number, policy)
    laws = tuple(read_law(law) for law in field(answer, "laws", list))
    round_ = Round(number, policy, laws, questions_of(study, policy))
    sizes = [question.size for question in round_.questions]
    if study.model == "shuffle":
        return round_._replace(terms=_terms(answer, study, laws, *sizes))
    if study.kind.name == ASKED and [law.items for law in laws] != sizes:
        raise Refused(
            f"the service does not state two laws, of {study.states + 1:,} and of 3 answers: nothing is sent, because "
            "answers would be misread"
        )
    if len(laws) != len(sizes):
        raise Refused(f"the service states {len(laws)} laws for {study.horizon} steps")
    for h, (law, size) in enumerate(zip(laws, sizes, strict=True)):
        if law.items != size:
            raise Refused(
                f"the service counts {law.items:,} items at step {h} and this client {size:,}: nothing is sent, "
                "because reports would be misread"
            )
        check_law(law, _response(study, h), study.per_step)
    return round_._replace(asked=_weights(answer, study, policy)) if study.kind.name == ASKED else round_


def _terms(answer: dict[str, Any], study: Study, laws: tuple[Law, ...], size: int) -> str:
    users, bits = whole(answer, "wanted", 1, _ROUNDS), study.kind.name == BITS
    most_lies = WHOLE // 2 if bits else WHOLE // max(1, size)
    if len(laws) != 1 or laws[0].items != size or not 1 <= laws[0].threshold <= most_lies:
        raise Refused(
            f"the service does not state one law for the {size:,} numbers of this round: nothing is sent, because "
            "messages would be misread"
        )
    check_law(laws[0], "unary" if bits else "kary", study.per_step)
    return digest({"laws": answer["laws"], "users": users, "report": study.kind.stated})


def _weights(answer: dict[str, Any], study: Study, policy: Policy) -> tuple[int, ...]:
    weights, rows = field(answer, "questions", list), study.states * study.actions
    known = all(type(weight) is int and 0 <= weight <= _HEAVIEST for weight in weights)
    if len(weights) != rows or not known or not any(weights):
        raise Refused(
            f"the weights of questions must be {rows:,} whole numbers from 0 to {_HEAVIEST:,}, and not all of them 0"
        )
    asked = (divmod(row, study.actions) for row, weight in enumerate(weights) if weight)
    if study.kind.masked and not all(reaches(study, policy, *row) for row in asked):
        raise Refused(
            "the service asks about a state and action that the policy of this round cannot play: nothing is sent, "
            "because answers would be misread"
        )
    return tuple(accumulate(weights))


def pick(study: Study, round_: Round, tape: Tape) -> list[int]:
    """The steps that a report is about, or its question, drawn before the episode begins."""
    if study.kind.name == ASKED:
        return [2 * bisect_right(round_.asked, tape.below(round_.asked[-1])) + tape.below(2)]
    return tape.pick(study.horizon, study.kind.steps) if study.kind.name == STEPS else []


def report_of(study: Study, round_: Round, steps: Sequence[int], record: Record, tape: Tape) -> dict[str, Any]:
    """The report of a record; the empty record is ``[]``."""
    if study.kind.name == "record":
        known = [[state, action, bit_of(study, reward, tape)] for state, action, reward in record]
        return {"kind": "record", "steps": known + [[-1, -1, -1] for _ in range(study.horizon - len(known))]}
    sent = [_answer(study, round_, j, record, tape) for j in steps]
    if study.kind.name == ASKED:
        (said,) = sent
        return {"kind": "answer", "question": steps[0], "bits" if isinstance(said, str) else "answer": said}
    name = "items" if study.kind.response == "kary" else "bits"
    return {"kind": name, "steps": list(steps), name: sent}


def shuffled_messages(study: Study, round_: Round, record: Record, tape: Tape) -> list[int]:
    """The messages of a record in a shuffled study, before they are sealed; the empty record is ``[]``."""
    if not round_.terms:
        raise Refused("the round of a shuffled study says nothing about its messages")
    if study.kind.name != BITS:
        return [_answer(study, round_, 0, record, tape)]
    (question,), (law,) = round_.questions, round_.laws
    true = set_by(study, question, record, [bit_of(study, reward, tape) for _state, _action, reward in record])
    return [2 * c + ((c in true) ^ (z < law.threshold)) for c, z in enumerate(tape.numbers(question.size))]


def _answer(study: Study, round_: Round, asked: int, record: Record, tape: Tape) -> Any:
    """A randomised answer to a question: the number of an item, or a bit for each as text."""
    place = asked % 2 if study.kind.name == ASKED else asked
    law = round_.laws[place]
    item = item_of(study, round_.questions[place], asked, record, tape)
    send = tape.bits if _response(study, place) == "unary" else tape.item
    return send(tape.below(law.items) if item is None else item, *law)


def _response(study: Study, place: int) -> str:
    return "kary" if study.kind.name == ASKED and place else study.kind.response

"""A record in, the report of it out. A record is a list of (state, action, reward) from the first step on.

**Local** studies (kind "sampled-items"). The steps that the report is about are drawn before the episode begins. Then,
for every one of them in order: the reward becomes a bit, one with probability (reward - low) / (high - low); state,
action, successor and bit are an item; the item is randomised by the law of its step. If the record had ended before the
step, the item is "ended" where the study declares that records may end early. Elsewhere, and for cells that cannot
occur under the policy, the item is drawn evenly from all of them before it is randomised.

Or one question (kind "asked-first-visit", :mod:`discreet.client.asked`): it is drawn before the episode begins, and the
answer is randomised by its law.

**Shuffled** studies. One message for every counter (kind "answered-bits", :mod:`discreet.client.counters`), or one item
(kind "one-item", :mod:`discreet.client.one_item`). They are sealed one by one (:mod:`discreet.client.sealing`) before
they leave. Whatever a coordinator asks for, and a shuffler confirms, the law must keep the declared ``local_epsilon``.

**Central** studies (kind "record"). All H steps as [state, action, reward bit], and [-1, -1, -1] after the end.

The empty record goes through the same steps. Random numbers are read from the tape in exactly this order, so that
another client gives the same report for the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from discreet.client.asked import NAME as ASKED
from discreet.client.asked import answer_of, check_laws, draw_question, read_weights
from discreet.client.counters import Counters, counters_of, messages_of
from discreet.client.errors import Refused
from discreet.client.exact import WHOLE, Tape, reward_fraction
from discreet.client.laws import Law, check_law, read_law
from discreet.client.one_item import Numbered, message_of, numbered
from discreet.client.policy import Items, Policy, items_of, read_policy
from discreet.client.study import Study
from discreet.client.words import digest, field, whole

Record = Sequence[tuple[int, int, float]]
_ROUNDS = 1 << 53


class Round(NamedTuple):
    """What a device agreed to for one episode: the policy, and by which laws steps or answers are reported."""

    number: int
    policy: Policy
    laws: tuple[Law, ...]
    items: tuple[Items, ...]
    numbers: Counters | Numbered | None = None  # shuffled: what the numbers in messages stand for
    terms: str = ""  # shuffled: the hash of laws, size of the batch and kind of report, which the shuffler certifies
    asked: tuple[int, ...] = ()  # asked about first visits: the weights of rows, added up from the first row on


def read_round(answer: dict[str, Any], study: Study) -> Round:
    """The round in an answer of the service; refused unless its laws keep what was agreed to."""
    if field(answer, "study", str) != study.hash:
        raise Refused("the service sent the policy of another study")
    policy = read_policy(field(answer, "policy", dict), study)
    number = whole(answer, "round", 0, _ROUNDS)
    if study.kind.name == "record":
        return Round(number, policy, (), ())
    laws = tuple(read_law(law) for law in field(answer, "laws", list))
    if study.model == "shuffle":
        return _shuffled(answer, study, number, policy, laws)
    if study.kind.name == ASKED:
        check_laws(laws, study)
        return Round(number, policy, laws, (), asked=read_weights(answer, study, policy))
    if len(laws) != study.horizon:
        raise Refused(f"the service states {len(laws)} laws for {study.horizon} steps")
    items = tuple(items_of(study, policy, h) for h in range(study.horizon))
    for h, (law, own) in enumerate(zip(laws, items, strict=True)):
        if law.items != own.size:
            raise Refused(
                f"the service counts {law.items:,} items at step {h} and this client {own.size:,}: nothing is sent, "
                "because reports would be misread"
            )
        check_law(law, study.kind.response, study.per_step)
    return Round(number, policy, laws, items)


def _shuffled(answer: dict[str, Any], study: Study, number: int, policy: Policy, laws: tuple[Law, ...]) -> Round:
    users, bits = whole(answer, "wanted", 1, _ROUNDS), study.kind.name == "answered-bits"
    numbers = counters_of(study, policy) if bits else numbered(study, policy)
    most_lies = WHOLE // 2 if bits else WHOLE // max(1, numbers.size)
    if len(laws) != 1 or laws[0].items != numbers.size or not 1 <= laws[0].threshold <= most_lies:
        raise Refused(
            f"the service does not state one law for the {numbers.size:,} numbers of this round: nothing is sent, "
            "because messages would be misread"
        )
    check_law(laws[0], "unary" if bits else "kary", study.per_step)
    terms = digest({"laws": answer["laws"], "users": users, "report": study.kind.stated})
    return Round(number, policy, laws, (), numbers, terms)


def pick(study: Study, round_: Round, tape: Tape) -> list[int]:
    """The steps that a report is about, or its question, drawn before the episode begins."""
    if study.kind.name == ASKED:
        return [draw_question(round_.asked, tape)]
    return tape.pick(study.horizon, study.kind.steps) if study.kind.name == "sampled-items" else []


def report_of(study: Study, round_: Round, steps: Sequence[int], record: Record, tape: Tape) -> dict[str, Any]:
    """The report of a record; the empty record is ``[]``."""
    if study.kind.name == "record":
        ended = [-1, -1, -1]
        known = [[state, action, int(_bit(study, reward, tape))] for state, action, reward in record]
        return {"kind": "record", "steps": known + [ended for _ in range(study.horizon - len(known))]}
    if study.kind.name == ASKED:
        (question,) = steps
        return answer_of(study, round_.laws, question, record, tape)
    answer = tape.item if study.kind.response == "kary" else tape.bits
    sent = []
    for h in steps:
        item = _item(study, round_.items[h], record, h, tape)
        law = round_.laws[h]
        sent.append(answer(tape.below(law.items) if item is None else item, *law))
    kind, name = ("items", "items") if study.kind.response == "kary" else ("bits", "bits")
    return {"kind": kind, "steps": list(steps), name: sent}


def shuffled_messages(study: Study, round_: Round, record: Record, tape: Tape) -> list[int]:
    """The messages of a record in a shuffled study, before they are sealed; the empty record is ``[]``."""
    threshold = round_.laws[0].threshold
    if isinstance(round_.numbers, Numbered):
        return [message_of(study, round_.numbers, threshold, record, tape)]
    if not isinstance(round_.numbers, Counters):
        raise Refused("the round of a shuffled study says nothing about its messages")
    return messages_of(study, round_.numbers, threshold, record, tape)


def _item(study: Study, items: Items, record: Record, h: int, tape: Tape) -> int | None:
    if h >= len(record):
        return items.size - 1 if study.early_end else None
    state, action, reward = record[h]
    successor = record[h + 1][0] if h + 1 < len(record) else study.states
    return items.number(state, action, successor, int(_bit(study, reward, tape)))


def _bit(study: Study, reward: float, tape: Tape) -> bool:
    return tape.chance(*reward_fraction(reward, *study.rewards))

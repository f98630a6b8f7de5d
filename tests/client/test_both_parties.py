"""Coordinator and shuffler act together: whatever they tell a device, what it sends keeps the declared local epsilon.

A round is made as an honest coordinator would make it, and then lied about: threshold, number of items, size of the
batch, another law, kind, layout, groups, first visits, mask, table of the policy. Where the device sends something, the
law of what it sends is computed for every record, in exact fractions, and no two records may differ by more than the
bound; JavaScript devices must take and refuse the same lies.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
import toy_study as toy
from node_program import run_program

from discreet.client.errors import Refused
from discreet.client.exact import WHOLE, Tape
from discreet.client.policy import Policy, read_policy
from discreet.client.questions import Question, item_of, questions_of, set_by
from discreet.client.reports import Round, read_round
from discreet.client.study import Study, most_moved
from discreet.mechanisms.counts.first_visit import FirstVisit, FirstVisitTables
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables

SHAPES = ((2, 2, 2), (1, 2, 3), (3, 1, 2), (2, 2, 1))
LAYOUTS = ("joint", "tables", "two-tables")
BITS, ITEM = "answered-bits", "one-item"


def study_of(shape: tuple[int, int, int], report: dict[str, Any], bound: Any, early_end: bool = False) -> Any:
    """What a service says of a study."""
    declared = toy.declaration(*shape, model="shuffle", early_end=early_end)
    declared["keys"]["sealing"], declared["shuffle"] = toy.NO_KEY, {"address": "", "local_epsilon": bound}
    return toy.study_answer(declared) | {"report": {"early_end": early_end} | report}


def a_report(source: random.Random, horizon: int) -> dict[str, Any]:
    report = {"groups": source.choice((1, horizon)), "masked": source.random() < 0.5}
    if source.random() < 0.4:
        return report | {"kind": ITEM}
    return report | {"kind": BITS, "layout": source.choice(LAYOUTS), "first_visits": source.random() < 0.5}


def size_of(study: Study, policy: Policy) -> int:
    (question,) = questions_of(study, policy)
    return question.size


def told(source: random.Random) -> tuple[Any, Any]:
    """What two parties together tell a device: the study, and a round of it, with up to three lies."""
    shape, early_end = source.choice(SHAPES), source.random() < 0.3
    answer = study_of(shape, a_report(source, shape[2]), source.choice((0.5, 2.0, 4.0, 12.0)), early_end)
    study = toy.read(answer)
    policy = toy.random_policy(study, source, stochastic=source.random() < 0.5)
    size, response = size_of(study, read_policy(policy, study)), "unary" if study.kind.name == BITS else "kary"
    least = toy.least_threshold(size, response, study.per_step)
    told = {
        "study": study.hash,
        "round": 1,
        "policy": policy,
        "wanted": 100,
        "laws": [{"items": size, "lie": str(least)}],
    }
    several = 1
    for lie in sorted(source.sample(("threshold", "items", "batch", "kind", "policy", "several"), source.randrange(4))):
        match lie:
            case "threshold":
                lower = source.choice(
                    (0, 1, least - 1, least - least // 10**9, least // 2, source.randrange(least + 1))
                )
                told["laws"][0]["lie"] = str(source.choice((lower, least, least + 1, WHOLE // 2, WHOLE)))
            case "items":
                told["laws"][0]["items"] = source.choice((2, size - 1, size + 1, 2 * size, 1 << 40))
            case "batch":
                told["wanted"] = source.choice((1, 2, 10**6, 1 << 52))
            case "kind":
                answer["report"] |= a_report(source, shape[2])
            case "policy":
                told["policy"] = toy.random_policy(study, source, stochastic=source.random() < 0.5)
            case "several":
                several = source.choice((0, 2))
    if source.random() < 0.7:  # the liars count as the device will
        now = toy.read(answer)
        for law in told["laws"]:
            law["items"] = size_of(now, read_policy(told["policy"], now))
    told["laws"] *= several
    return answer, told


def records(study: Study, policy: Policy) -> Iterator[list[tuple[int, int, float]]]:
    """Every record that a device lets its person have, with rewards that are bits."""
    steps = list(itertools.product(range(study.states), range(study.actions), (0.0, 1.0)))
    lengths = range(study.horizon + 1) if study.early_end else (0, study.horizon)
    for length in lengths:
        for record in itertools.product(steps, repeat=length):
            starts = not record or study.start is None or record[0][0] == study.start
            if starts and all(policy.plays(h, s, a) for h, (s, a, _r) in enumerate(record)):
                yield list(record)


def loss(study: Study, round_: Round) -> float:
    """The largest log of a ratio of probabilities of what leaves, over all messages and pairs of records."""
    (law,) = round_.laws
    lie, known = law.threshold, list(records(study, round_.policy))
    (question,) = round_.questions
    if study.kind.name == BITS:
        bits = [set_by(study, question, record, [int(r) for _s, _a, r in record]) for record in known]
        most = max(len(one ^ other) for one in bits for other in bits)
        return most * math.log(Fraction(WHOLE - lie, lie))
    laws = [_item_law(study, round_, question, record) for record in known]
    ratios = (max(column) / min(column) for column in zip(*laws, strict=True))
    return math.log(max(ratios))


def tape_of(study: Study, step: int) -> Tape:
    """Random bytes by which a device draws this step, and a reward above the lowest is a one."""
    words = [step << 2]
    return Tape(lambda count: (words.pop() if words else 0).to_bytes(count, "little"))


def _item_law(study: Study, round_: Round, question: Question, record: list[tuple[int, int, float]]) -> list[Fraction]:
    """The probability of each message of a record: the step is even, and where there is no item it is even, too."""
    size, lie = round_.laws[0].items, Fraction(round_.laws[0].threshold, WHOLE)
    found = [Fraction(0)] * size
    for step in range(study.horizon):
        item = item_of(study, question, 0, record, tape_of(study, step))
        for message in range(size):
            at = lie if message != item else 1 - (size - 1) * lie
            found[message] += (Fraction(1, size) if item is None else at) / study.horizon
    return found


def lies() -> list[tuple[Any, Any]]:
    source = random.Random(36)
    return [told(source) for _ in range(400)]


def taken(answer: Any, told: Any) -> tuple[Study, Round] | None:
    try:
        study = toy.read(answer)
        return study, read_round(told, study)
    except Refused:
        return None


@pytest.mark.slow
def test_whatever_both_parties_say_no_device_loses_more_than_was_declared():
    tight = accepted = 0
    for answer, lie in lies():
        if (found := taken(answer, lie)) is None:
            continue
        study, bound = found[0], answer["study"]["shuffle"]["local_epsilon"]
        most = loss(*found)
        assert most <= bound * (1 + 1e-12)
        accepted, tight = accepted + 1, tight + (study.kind.name == ITEM and most > bound * (1 - 1e-9))
    assert 100 < accepted < 300
    assert tight > 10


def test_devices_in_javascript_take_and_refuse_the_same():
    asked = [{"study": answer, "policy": lie} for answer, lie in lies()]
    said = run_program("answer.js", "taken", text="".join(json.dumps(each) + "\n" for each in asked)).split()
    assert said == [str(taken(each["study"], each["policy"]) is not None).lower() for each in asked]


def test_no_threshold_of_one_for_two_colluding_parties():
    """What was accepted once: 2^62 - 1 to 1 for the truth, in a study that promised a local epsilon of 3.89."""
    for report in ({"kind": ITEM}, {"kind": BITS, "layout": "joint", "first_visits": True}):
        answer = study_of((2, 2, 2), {"groups": 1, "masked": True} | report, 3.89)
        study = toy.read(answer)
        policy = {"kind": "deterministic", "actions": [[0, 0], [0, 0]]}
        law = {"items": size_of(study, read_policy(policy, study)), "lie": "1"}
        round_ = {"study": study.hash, "round": 1, "policy": policy, "wanted": 200, "laws": [law]}
        with pytest.raises(Refused, match=r"does not keep epsilon .* nothing is sent"):
            read_round(round_, study)
        open_ = toy.read(study_of((2, 2, 2), {"groups": 1, "masked": True} | report, "none"))
        read_round(round_ | {"study": open_.hash}, open_)  # where the declaration says that nothing is left


@pytest.mark.parametrize("stated", ["", "all", None, True, [], {}])
def test_a_declaration_that_does_not_say_what_is_left_is_refused(stated):
    answer = study_of((2, 2, 2), {"kind": ITEM, "groups": 1, "masked": True}, stated)
    with pytest.raises(Refused, match=r"act together \(local_epsilon in \[shuffle\]\)|must be a number"):
        toy.read(answer)
    if stated is None:
        del answer["study"]["shuffle"]["local_epsilon"]
        with pytest.raises(Refused, match="nothing is sent; ask whoever runs the study"):
            toy.read(answer)


@pytest.mark.parametrize(("S", "A", "H"), [(1, 1, 1), (1, 2, 2), (2, 1, 3), (2, 2, 2), (3, 1, 2), (1, 1, 4), (1, 2, 4)])
def test_no_two_records_set_more_counters_differently_than_is_counted_with(S, A, H):
    """By enumeration, for every form; never more than the server counts with, where it makes such a form."""
    for layout, first, groups, masked in itertools.product(LAYOUTS, (False, True), {1, H}, (False, True)):
        report = {"kind": BITS, "layout": layout, "groups": groups, "first_visits": first, "masked": masked}
        study = toy.read(study_of((S, A, H), report, 1.0, early_end=True))._replace(start=None)
        anything = Policy(None, [[[1 / A] * A] * S] * H)
        (counters,) = questions_of(study, anything)
        bits = {frozenset(set_by(study, counters, r, [int(x[2]) for x in r])) for r in records(study, anything)}
        found = max(len(one ^ other) for one in bits for other in bits)
        counted = most_moved(layout, groups, first, study)
        assert found <= counted == study.kind.steps
        if found == counted:
            continue
        assert S * A <= H + 1, (layout, first, groups)  # too few rows for two records that differ in everything


@pytest.mark.parametrize(("S", "A", "H"), [(1, 1, 1), (1, 2, 2), (2, 1, 3), (2, 2, 6), (3, 2, 6), (4, 2, 6), (2, 5, 1)])
def test_devices_count_no_more_bits_than_the_server_calibrates_for(S, A, H):
    """Else devices would refuse honest rounds."""
    import discreet

    pooled = discreet.Shape(S, A, H, homogeneous=True, start=None)
    apart = discreet.Shape(S, A, H, homogeneous=False, start=None)
    honest = [
        (JointHistogram(apart), "joint", False), (FirstVisit(pooled), "joint", True),
        (ThreeTables(apart), "tables", False), (FirstVisitTables(pooled), "tables", True),
        (TwoTables(apart), "two-tables", False), (TwoTables(pooled, first_visit=True), "two-tables", True),
    ]  # fmt: skip
    study = toy.read(study_of((S, A, H), {"kind": ITEM, "groups": 1, "masked": True}, 1.0))
    for encoder, layout, first in honest:
        counted = most_moved(layout, encoder.shape.groups, first, study)
        assert counted <= encoder.sensitivity().cells
        if S * A > 1:
            assert counted == encoder.sensitivity().cells, (layout, first)

"""The shared vectors of shuffled studies, what they are sealed with, and the law of what a device sends.

False alarms: the chi-squared tests below use 1e-9 as their level, and the twin with another threshold must be rejected
at that level.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter

import make_shuffled_vectors as made
import pytest
import toy_study as toy
from cryptography.exceptions import InvalidTag
from scipy import stats

from discreet.client.errors import Refused
from discreet.client.exact import WHOLE, Given, Tape
from discreet.client.reports import read_round, shuffled_messages
from discreet.client.sealing import sealed

SHARED = json.loads(made.FILE.read_text())
LEVEL = 1e-9


def test_the_file_is_what_the_generator_writes():
    assert made.FILE.read_text() == made.text()
    assert {setting["study"]["report"]["kind"] for setting in SHARED["settings"]} == {"answered-bits", "one-item"}


def test_there_are_vectors_of_every_layout_pooled_and_for_each_step():
    forms = set()
    for setting in SHARED["settings"]:
        report, horizon = setting["study"]["report"], setting["study"]["study"]["problem"]["horizon"]
        if report["kind"] == "answered-bits" and horizon > 1:
            forms.add((report["layout"], report["first_visits"], report["groups"] == horizon))
    assert forms == set(itertools.product(("joint", "tables", "two-tables"), (False, True), (False, True)))


def test_other_layouts_are_refused():
    answer = next(each["study"] for each in SHARED["settings"] if "layout" in each["study"]["report"])
    with pytest.raises(Refused, match="a layout of joint or tables or two-tables, and the service asks for 'heap'"):
        toy.read(answer | {"report": answer["report"] | {"layout": "heap"}})


def test_the_client_gives_every_result_and_reads_every_byte():
    for vector in SHARED["vectors"]:
        setting = SHARED["settings"][vector["setting"]]
        study = toy.read(setting["study"])
        round_ = read_round(setting["policy"], study)
        given = Given(bytes.fromhex(vector["tape"]))
        assert shuffled_messages(study, round_, vector["record"], Tape(given)) == vector["result"]
        assert given.read == len(vector["tape"]) // 2
        assert round_.terms == setting["terms"]


def test_laws_that_keep_less_than_what_is_left_without_a_shuffler_are_refused():
    """One unit of 2^-62 below the smallest threshold."""
    assert len(SHARED["refused"]) > 20
    for each in SHARED["refused"]:
        setting = SHARED["settings"][each["setting"]]
        study = toy.read(setting["study"])
        with pytest.raises(Refused, match="does not keep epsilon"):
            read_round(setting["policy"] | {"laws": each["laws"]}, study)


def test_every_record_of_a_round_gives_as_many_messages():
    numbers: dict[int, set[int]] = {}
    for vector in SHARED["vectors"]:
        numbers.setdefault(vector["setting"], set()).add(len(vector["result"]))
    assert all(len(found) == 1 for found in numbers.values())


def test_sealed_examples_open_and_new_ones_have_one_size():
    for example in SHARED["sealed"]:
        assert made.opened(example["sealed"], example["study"], example["round"]) == example["message"]
    fresh = sealed([0, 1, 2**32 - 1], made.public_key(), made.STUDY, 3)
    assert {len(message) for message in fresh} == {70}
    assert [made.opened(message, made.STUDY, 3) for message in fresh] == [0, 1, 2**32 - 1]
    with pytest.raises(InvalidTag):
        made.opened(fresh[0], made.STUDY, 4)  # sealed for another round


def setting_of(kind: str, lie: int):
    """A setting of a kind whose law has this threshold, with a whole record."""
    source = random.Random(3)
    for setting in SHARED["settings"]:
        study = toy.read(setting["study"])
        if study.kind.name == kind and study.horizon == 3 and not study.early_end:
            (law,) = setting["policy"]["laws"]
            policy = setting["policy"] | {"laws": [law | {"lie": str(lie)}]}
            study = study._replace(alone=None)
            record = toy.random_record(study, policy["policy"], source, 3)
            return study, read_round(policy, study), [(s, a, float(study.rewards[1])) for s, a, _r in record]
    raise AssertionError(kind)


def bits_fit(lie: int, stated: int) -> float:
    """The p-value of the number of false answers of 4,000 devices, if each bit is answered falsely as stated."""
    study, round_, record = setting_of("answered-bits", lie)
    source = random.Random(11)
    told = [
        tuple(value % 2 for value in shuffled_messages(study, round_, record, Tape(source.randbytes)))
        for _ in range(4000)
    ]
    ones = [sum(column) for column in zip(*told, strict=True)]
    false = sum(min(count, 4000 - count) for count in ones)
    return float(stats.binomtest(false, 4000 * len(ones), stated / WHOLE).pvalue)


def test_bits_are_answered_falsely_as_often_as_stated():
    lie = WHOLE // 7
    assert bits_fit(lie, lie) > LEVEL
    assert bits_fit(lie + lie // 10, lie) < LEVEL


def item_fits(lie: int, stated: int) -> float:
    """The p-value of the items of 20,000 devices, if each false item has the stated probability."""
    study, round_, record = setting_of("one-item", lie)
    (question,) = round_.questions
    source, size = random.Random(12), question.size
    clear = Counter()
    for step, (state, action, _reward) in enumerate(record):
        successor = record[step + 1][0] if step < 2 else study.states
        clear[question.number((step if study.kind.groups > 1 else 0, state, action), successor, 1)] += 1
    sent = Counter(shuffled_messages(study, round_, record, Tape(source.randbytes))[0] for _ in range(20_000))
    weight = 1 - size * stated / WHOLE
    expected = [20_000 * (stated / WHOLE + weight * clear[item] / 3) for item in range(size)]
    return float(stats.chisquare([sent[item] for item in range(size)], expected).pvalue)


def test_items_have_the_stated_law():
    _study, round_, _record = setting_of("one-item", 1)
    lie = WHOLE // (3 * round_.questions[0].size)
    assert item_fits(lie, lie) > LEVEL
    assert item_fits(lie + lie // 5, lie) < LEVEL

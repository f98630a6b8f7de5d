"""The JavaScript client: its own tests are run by Node, and it is compared with the Python client here."""

from __future__ import annotations

import json
import os
import random
import re
import struct
from fractions import Fraction

import msgspec
import pytest
import toy_study as toy
from node_program import PACKAGE, run_program, run_tests

from discreet.client.exact import WHOLE, Given, Tape
from discreet.client.laws import Law, keeps
from discreet.client.policy import read_policy
from discreet.client.questions import questions_of
from discreet.client.reports import read_round, shuffled_messages
from discreet.client.words import canonical


def answers(question: str, lines: list[str]) -> list[str]:
    """What the JavaScript client says to each line."""
    return run_program("answer.js", question, text="\n".join(lines) + "\n").splitlines()


@pytest.mark.slow
def test_the_tests_of_the_package():
    run_tests("test/*.test.js")


@pytest.mark.long
def test_a_million_reports_have_the_exact_law():
    run_tests("test/long/*.test.js")


def test_the_commands_of_the_package_run_the_same_files():
    package = json.loads((PACKAGE / "package.json").read_text())
    assert package["scripts"]["test"] == "node --test test/*.test.js"
    assert package["scripts"]["test:long"] == "node --test test/long/*.test.js"
    assert not (PACKAGE / "package-lock.json").exists()  # it would record where things were downloaded from
    assert "dependencies" not in package


def any_number(source: random.Random) -> float:
    while True:
        number = struct.unpack("<d", source.randbytes(8))[0]
        if abs(number) < float("inf"):
            return float(number)


def anything(source: random.Random, depth: int = 0) -> object:
    """Plain data of any form: numbers next to every change of notation, letters of all planes."""
    letters = 'aZ\x7f\x00\n"\\é\u2028\uffff\U0001f600\U00010000\ue000'
    text = "".join(source.choices(letters, k=source.randrange(6)))
    leaves = [
        any_number(source), source.randrange(10**16) / 10 ** source.randrange(22), source.random(), text,
        source.randrange(-(10**18), 10**18), source.randrange(10), float(10 ** source.randrange(-8, 20)), True, None,
    ]  # fmt: skip
    match source.randrange(9) if depth < 4 else 8:
        case 0:
            return [anything(source, depth + 1) for _ in range(source.randrange(4))]
        case 1:
            return {text[:i] + source.choice(letters): anything(source, depth + 1) for i in range(source.randrange(6))}
    return source.choice(leaves)


def test_canonical_texts_are_those_of_python():
    """However they were written before: by msgspec, as the service does, or by Python itself."""
    source = random.Random(11)
    contents = [anything(source) for _ in range(4000)]
    for write in (lambda content: msgspec.json.encode(content).decode(), json.dumps):
        assert answers("canonical", [write(content) for content in contents]) == [
            canonical(content).decode() for content in contents
        ]


def test_thresholds_are_accepted_as_by_python():
    """Next to the smallest one that keeps an epsilon, whose part is no round number."""
    source, asked, wanted = random.Random(12), [], []
    for _ in range(100):
        items, response = source.choice((2, 3, 48, 10**6)), source.choice(("kary", "unary"))
        epsilon, parts = source.choice((source.random(), 10 * source.random(), 1e-3, 60.0)), source.randrange(1, 9)
        most = Fraction(epsilon) / parts
        smallest = toy.least_threshold(items, response, most)
        for threshold in (smallest - 1, smallest, smallest + 1):
            asked.append(json.dumps([items, str(threshold), response, epsilon, parts]))
            wanted.append(str(keeps(Law(items, threshold), response, most)).lower())
    assert answers("keeps", asked) == wanted
    assert wanted.count("true") >= 150
    assert wanted.count("false") >= 100


def shuffled_setting(source: random.Random):
    """A shuffled study of any form, and a policy of it."""
    shape = source.choice(((2, 2, 3), (3, 2, 2), (2, 3, 1)))
    early_end, start = source.random() < 0.5, source.choice((None, 0))
    declared = toy.declaration(*shape, model="shuffle", start=start, early_end=early_end)
    declared["keys"]["sealing"], declared["shuffle"] = toy.NO_KEY, {"address": "", "local_epsilon": "none"}
    report = {"groups": source.choice((1, shape[2])), "masked": source.random() < 0.7, "early_end": early_end}
    bits = {
        "kind": "answered-bits",
        "layout": source.choice(("joint", "tables", "two-tables")),
        "first_visits": source.random() < 0.5,
    }
    answer = toy.study_answer(declared) | {"report": report | source.choice((bits, {"kind": "one-item"}))}
    study = toy.read(answer)
    policy = toy.random_policy(study, source, stochastic=source.random() < 0.4)
    known, is_bits = read_policy(policy, study), study.kind.name == "answered-bits"
    (question,) = questions_of(study, known)
    size = question.size
    law = {"items": size, "lie": str(source.randrange(1, WHOLE // (2 if is_bits else size)))}
    return answer, study, toy.policy_answer(study, policy) | {"wanted": source.randrange(1, 500), "laws": [law]}


def test_messages_of_shuffled_studies_are_those_of_python():
    source, asked, wanted = random.Random(13), [], []
    for _ in range(200):
        answer, study, policy = shuffled_setting(source)
        round_ = read_round(policy, study)
        record = toy.random_record(study, policy["policy"], source, source.randrange(study.horizon + 1))
        given = Given(source.randbytes(4096))
        messages = shuffled_messages(study, round_, record, Tape(given))
        asked.append(json.dumps({"study": answer, "policy": policy, "record": record, "tape": given._content.hex()}))
        wanted.append([messages, given.read, round_.terms])
    assert [json.loads(line) for line in answers("messages", asked)] == wanted


def test_the_everyday_tests_need_no_download():
    """Only sealing does, which has its own folder of tests."""
    for file in (PACKAGE / "test").glob("*.test.js"):
        assert "@hpke" not in file.read_text()
    assert os.path.isdir(PACKAGE / "test" / "long")


@pytest.mark.service
@pytest.mark.parametrize("model", ["local", "central"])
def test_a_study_of_javascript_devices_learns(tmp_path, model):
    """A real service and devices in Node: 250 people teach it which of three reminders is followed.

    Playing at random earns 0.4 a person, and the last 100 would earn 70 with a chance of 1e-9. In 300 simulated runs of
    each model these 100 lost at most 6 against the best, which earns 90: 70 are 4.7 standard deviations below.
    """
    from discreet.cli.crowd_service import served
    from discreet.study.service.study_files import new_study

    file = tmp_path / "reminders.toml"
    new_study(file)
    changes = {"states": '["anybody"]', "actions": '["a", "b", "c"]', "horizon": "1", "number": "250"}
    changes |= {"model": f'"{model}"', "epsilon": "4.0"} | ({"delta": "1e-5"} if model == "central" else {})
    text = file.read_text()
    for key, value in changes.items():
        text = re.sub(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
    file.write_text(text)
    with served(file) as there:
        earned = json.loads(run_program("crowd.js", there.url, there.study_hash, "250", "[[0.1, 0.2, 0.9]]"))
    assert len(earned) == 250
    assert sum(earned[150:]) >= 70

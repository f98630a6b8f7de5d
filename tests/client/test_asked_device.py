"""A device that is asked one question: what it agrees to and refuses, what it answers, and by which law."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import accumulate, product
from types import SimpleNamespace

import numpy as np
import pytest
import toy_study as toy
from scipy import stats
from stub_service import Stub

from discreet.base.policies import Policy, StochasticPolicy
from discreet.base.shape import Shape
from discreet.client import Device, Refused
from discreet.client.exact import WHOLE, Given, Tape
from discreet.client.laws import Law
from discreet.client.policy import Policy as DevicePolicy
from discreet.client.policy import reaches, read_policy
from discreet.client.questions import questions_of
from discreet.client.reports import Round, pick, read_round, report_of
from discreet.mechanisms.counts.encoder import Context, reward_bit
from discreet.mechanisms.counts.first_visit_question import AskedFirstVisit
from discreet.mechanisms.mechanism import asked_rows
from discreet.mechanisms.messages.asked_first_visit import AskedChannel
from discreet.mechanisms.messages.device_reports import randomize_answer
from discreet.mechanisms.messages.questions import weights_of
from discreet.mechanisms.messages.survey import Report
from discreet.mechanisms.trajectories import Trajectories

FALSE_ALARM = 1e-9  # of each comparison; real entropy
REPORTS = 20_000


def device_of(stub: Stub) -> Device:
    return Device(stub.service(), ":memory:", study_hash=stub.study.hash, at_once=True)


def study_of(states=3, actions=2, horizon=4, response="kary", masked=True, **options):
    return toy.read(toy.study_answer(toy.declaration(states, actions, horizon, **options), response, 1, masked, True))


def channel_of(study) -> AskedChannel:
    shape = Shape(
        study.states, study.actions, study.horizon, homogeneous=True, rewards=study.rewards, start=study.start
    )
    return AskedChannel(AskedFirstVisit(shape), study.epsilon / study.cap, study.kind.response)


def server_policy(policy):
    return Policy(policy["actions"]) if "actions" in policy else StochasticPolicy(policy["probabilities"])


@pytest.mark.parametrize("response", ["kary", "unary"])
def test_an_episode_ends_in_one_answer_of_the_agreed_form(response):
    seen = Counter()
    for number in range(60):
        stub = Stub(response, asked=True)
        answer = stub.open_round()
        device = device_of(stub)
        device.begin()
        if number % 3:
            for step in range(device.horizon):
                device.record(step, step % 3, device.act(step, step % 3), 0.5)
            device.finish()
        else:
            device.abandon()  # the empty record answers "none"
        assert device.send() == 0
        (report,) = (json.loads(body)["report"] for body in stub.received.values())
        row, about = divmod(report["question"], 2)
        unary = about == 0 and response == "unary"
        assert report.keys() == {"kind", "question", "bits" if unary else "answer"}
        assert report["kind"] == "answer"
        assert answer["questions"][row] > 0
        size = answer["laws"][about]["items"]
        assert len(report["bits"]) == size if unary else 0 <= report["answer"] < size
        seen[about] += 1
    assert len(seen) == 2


def less(law: dict, response: str) -> None:
    """A law that loses a little more than was agreed to."""
    law["lie"] = str(toy.LAWS[response](2.01, law["items"]).threshold)


@pytest.mark.parametrize("response", ["kary", "unary"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a, r: a["laws"][0].update(items=3), "two laws, of 4 and of 3 answers"),
        (lambda a, r: a["laws"][1].update(items=2), "two laws"),
        (lambda a, r: a["laws"].append(a["laws"][0]), "two laws"),
        (lambda a, r: a["laws"].pop(), "two laws"),
        (lambda a, r: a["laws"].reverse(), "two laws"),
        (lambda a, r: less(a["laws"][0], r), "does not keep epsilon 2, which is its part"),
        (lambda a, r: less(a["laws"][1], "kary"), "does not keep epsilon 2, which is its part"),
        (lambda a, r: a.pop("questions"), "'questions' is missing"),
        (lambda a, r: a.update(questions="1"), "a list is expected"),
        (lambda a, r: a["questions"].pop(), "must be 6 whole numbers"),
        (lambda a, r: a["questions"].__setitem__(0, -1), "must be 6 whole numbers"),
        (lambda a, r: a["questions"].__setitem__(0, 1.0), "must be 6 whole numbers"),
        (lambda a, r: a["questions"].__setitem__(0, True), "must be 6 whole numbers"),
        (lambda a, r: a["questions"].__setitem__(0, 2**30 + 1), "from 0 to 1,073,741,824"),
        (lambda a, r: a.update(questions=[0] * 6), "not all of them 0"),
        (lambda a, r: a["questions"].__setitem__(1, 1), "that the policy of this round cannot play"),
    ],
)
def test_rounds_that_are_not_as_agreed_are_refused_and_nothing_is_sent(response, change, words):
    stub = Stub(response, asked=True)
    change(stub.open_round(), response)
    device = device_of(stub)
    with pytest.raises(Refused, match=words):
        device.begin()
    assert (device.reports, stub.bodies) == (0, [])


def test_where_nothing_is_masked_anything_may_be_asked():
    study = study_of(masked=False)
    policy = {"kind": "deterministic", "actions": [[0, 0, 0]] * 4}
    assert len(read_round(toy.policy_answer(study, policy), study).asked) == 6
    assert 0 not in toy.policy_answer(study, policy)["questions"]


def test_epsilon_is_shared_by_all_reports():
    stub = Stub(asked=True, cap=3)
    answer = stub.open_round()
    device_of(stub).begin()
    answer["laws"][1]["lie"] = str(toy.LAWS["kary"](1.0, 3).threshold)
    with pytest.raises(Refused, match=r"does not keep epsilon 0\.666"):
        device_of(stub).begin()


def test_the_kind_is_read_strictly():
    for change, words in (({"response": "plain"}, "kary or unary"), ({"masked": 1}, "true or false")):
        answer = toy.study_answer(toy.declaration(), asked=True)
        answer["report"] |= change
        with pytest.raises(Refused, match=words):
            toy.read(answer)
    central = toy.study_answer(toy.declaration(model="central"))
    central["report"] = {"kind": "asked-first-visit", "response": "kary", "masked": True}
    with pytest.raises(Refused, match="does not send in a study whose model is 'central'"):
        toy.read(central)


def test_answers_are_those_of_the_first_visit():
    study, anything = study_of(start=None), DevicePolicy([[0] * 3] * 4, None)
    round_ = Round(0, anything, (Law(4, 1), Law(3, 1)), questions_of(study, anything))
    tape = Tape(bytes)  # numbers of zero: the truth, and a reward above the lowest is a one
    record = [(1, 0, 0.0), (2, 1, 1.0), (1, 0, 1.0), (0, 1, 0.0)]

    def said(row, of=record):
        return tuple(report_of(study, round_, [2 * row + about], of, tape)["answer"] for about in (0, 1))

    assert said(2) == (2, 0)  # state 1, action 0: first at step 0
    assert said(5) == (1, 1)
    assert said(1) == (3, 0)  # the last step has no successor
    assert said(0) == (3, 2)  # never visited
    assert said(2, []) == (3, 2)
    assert said(5, record[:2]) == (3, 1)  # an early end
    assert said(2, record[:2]) == (2, 0)  # and the step before it


@pytest.mark.parametrize("masked", [True, False])
def test_the_rows_that_may_be_asked_about_are_those_of_the_server(masked):
    source = random.Random(8)
    for stochastic, start in product((False, True), (None, 0, 2)):
        study = study_of(masked=masked, start=start)
        for _ in range(20):
            stated = toy.random_policy(study, source, stochastic)
            own = read_policy(stated, study)
            channel, policy = channel_of(study), server_policy(stated)
            rows = asked_rows(channel.encoder.shape, Context(policy), masked).reshape(-1)
            assert not masked or [reaches(study, own, *divmod(row, 2)) for row in range(6)] == rows.tolist()
            answer = toy.policy_answer(study, stated)
            answer["questions"] = list(weights_of(rows, np.arange(6.0), np.linspace(0.0, 1.0, 6)))
            read_round(answer, study)  # the weights of the server are weights for the device


@pytest.mark.parametrize("response", ["kary", "unary"])
def test_answers_are_those_of_the_server_byte_by_byte(monkeypatch, response):
    """The server's own randomiser, given the client's random bytes, answers the same."""
    reward_bit(0.5, -1.0, 2.0, np.array([1], np.uint64))  # compiled and kept on disk first, which takes entropy, too
    source, study = random.Random(6), study_of(response=response, start=None, rewards=(-1.0, 1.0), early_end=True)
    for _ in range(80):
        stated = toy.random_policy(study, source, stochastic=source.random() < 0.5)
        round_ = read_round(toy.policy_answer(study, stated), study)
        full = toy.random_record(study, stated, source, source.randrange(5))
        record = [(s, a, float(source.choice((-1, 1)))) for s, a, _ in full]
        (question,) = pick(study, round_, Tape(source.randbytes))
        tape = source.randbytes(400)
        given = Given(tape)
        report = report_of(study, round_, [question], record, Tape(given))
        visited = any(2 * (2 * s + a) + 1 == question for s, a, _ in record)
        same = Given(tape[8 * visited :])  # the server reads no word for a reward
        monkeypatch.setattr("discreet.noise.randomized_response.os", SimpleNamespace(urandom=same))
        sent = randomize_answer(channel_of(study), trajectory(study, record), question)
        assert same.read + 8 * visited == given.read
        assert sent.step == report["question"] == question
        said = "".join(map(str, sent.message)) if "bits" in report else int(sent.message[0])
        assert said == report["bits" if "bits" in report else "answer"]
        counted = np.array([int(bit) for bit in report["bits"]] if "bits" in report else [report["answer"]])
        channel_of(study).count(server_policy(stated), [[Report(question, counted)]])


def trajectory(study, record) -> Trajectories:
    padded = [*record, *[(0, 0, 0.0)] * (study.horizon - len(record))]
    states, actions, rewards = (np.array([[step[i] for step in padded]]) for i in range(3))
    return Trajectories(states, actions, rewards.astype(float), np.array([len(record)]))


def p_of_questions(weights, stated) -> float:
    """The p-value of questions drawn by some weights, under others."""
    study, tape = study_of(), Tape()
    round_ = Round(0, DevicePolicy([], None), asked=tuple(accumulate(weights)))
    seen = np.zeros(2 * len(weights))
    for _ in range(REPORTS):
        seen[pick(study, round_, tape)] += 1
    chance = np.repeat(stated, 2) / (2 * sum(stated))
    assert not seen[chance == 0].any()
    return float(stats.chisquare(seen[chance > 0], REPORTS * chance[chance > 0]).pvalue)


def test_questions_are_drawn_by_their_weights_and_not_by_others():
    """One run in 10^9 is a false alarm."""
    weights = [0, 3, 1, 0, 12, 2]
    assert p_of_questions(weights, weights) > FALSE_ALARM
    for scale in (2 / 3, 3 / 2):
        assert p_of_questions(weights, [0, 3, 1, 0, 12 * scale, 2]) < FALSE_ALARM


def p_of_answers(response: str, about: int, stated: float, sent: float) -> float:
    """The p-value of answers by the law of one epsilon, under the law of another; the true answer is 1, in both."""
    study, other = (study_of(response=response, start=None, epsilon=epsilon) for epsilon in (sent, stated))
    policy = {"kind": "deterministic", "actions": [[0, 0, 0]] * 4}
    round_, law = (read_round(toy.policy_answer(each, policy), each) for each in (study, other))
    record, tape = [(2, 0, 1.0), (1, 0, 0.0), (2, 0, 0.0), (0, 0, 0.0)], Tape()
    items, threshold = law.laws[about]
    seen = np.zeros(items)
    for _ in range(REPORTS):
        report = report_of(study, round_, [2 * 4 + about], record, tape)
        if "bits" in report:
            seen += np.frombuffer(report["bits"].encode(), np.uint8) - 48
        else:
            seen[report["answer"]] += 1
    unary = response == "unary" and about == 0
    chance = np.full(items, threshold / WHOLE)
    chance[1] = 0.5 if unary else 1 - (items - 1) * threshold / WHOLE
    mean = REPORTS * chance
    statistic = ((seen - mean) ** 2 / (mean * (1 - chance) if unary else mean)).sum()
    return float(stats.chi2.sf(statistic, items - (not unary)))


@pytest.mark.parametrize(("response", "about"), [("kary", 0), ("unary", 0), ("kary", 1)])
def test_answers_have_the_exact_law_and_not_that_of_another_epsilon(response, about):
    """One run in 10^9 is a false alarm."""
    assert p_of_answers(response, about, 1.5, 1.5) > FALSE_ALARM
    assert p_of_answers(response, about, 1.5, 1.0) < FALSE_ALARM
    assert p_of_answers(response, about, 1.5, 2.25) < FALSE_ALARM

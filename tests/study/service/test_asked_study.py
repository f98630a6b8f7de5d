"""Studies that ask about first visits: chosen, served, restarted, refused, and decoded from real devices."""

from __future__ import annotations

import json
from itertools import accumulate, product
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from tests.study.service.small_studies import ASKED, SAMPLED, coordinator, declared, report, run_to_the_end, study_in

from discreet.base.errors import Unsupported
from discreet.base.policies import Policy
from discreet.client.exact import Tape
from discreet.client.policy import Policy as DevicePolicy
from discreet.client.questions import questions_of
from discreet.client.reports import Round, pick, read_round, report_of
from discreet.client.study import read_study as read_for_device
from discreet.mechanisms.saved_intakes import from_bytes, identity
from discreet.study.service import closing, rounds
from discreet.study.service.declaration import read_study
from discreet.study.service.reports import ReportFormat
from discreet.study.service.restoring import restore
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import places_of
from discreet.study.service.study_mechanism import prepare
from discreet.study.service.wire_messages import Accepted, Refused

LARGER = {"states = 2": "states = 4", "horizon = 2": "horizon = 6"}
PRIVATE, OPEN = {"epsilon = 4.0": "epsilon = 0.5"}, {"epsilon = 4.0": "epsilon = 30.0"}
UNARY = {"options = {}\n\n[users]": 'options = { response = "unary" }\n\n[users]'}
MIXED = {'name = "ucbvi"': 'name = "ucbpo"'}
SAMPLING = {'name = "ucbvi"\noptions = {}': 'name = "psrl"\noptions = { draws = 1 }'}


def state(at) -> bytes:
    """What intake and learner remember, as it lies in the database."""
    with at.reading() as link:
        row = rounds.state_row(link, at.published.row.number)
    return row.public + row.learner


# Which recipe


def prepared(tmp_path, *changes, number=20_000):
    """The mechanism of a study in a folder of its own."""
    return prepare(study_in(declared(Path(mkdtemp(dir=tmp_path)), *changes, number=number)))


def test_auto_asks_about_first_visits_where_that_is_expected_to_do_more(tmp_path):
    chosen = prepared(tmp_path, LARGER, PRIVATE)
    assert chosen.privatizer.recipe == "local/asked-first-visit"
    assert chosen.report_kind() == {
        "kind": "asked-first-visit", "response": "kary", "masked": True, "epsilon": chosen.part.epsilon,
    }  # fmt: skip
    assert [law["items"] for law in chosen.laws(None, 1)] == [5, 3]
    assert prepared(tmp_path, LARGER, OPEN).privatizer.recipe == "local/sampled-step"


@pytest.mark.parametrize(
    ("changes", "sampled"),
    [
        ({"early_end = false": "early_end = true"}, False),
        (MIXED, False),
        ({"reports_per_user = 1": "reports_per_user = 2"}, False),
        ({"homogeneous = true": "homogeneous = false"}, True),
        ({"options = {}\n\n[users]": "options = { steps = 1 }\n\n[users]"}, True),
        ({'recipe = "auto"': 'recipe = "local/sampled-step"'}, True),
    ],
)
def test_the_sampled_step_serves_where_first_visits_cannot_be_asked_about(tmp_path, changes, sampled):
    found = prepared(tmp_path, LARGER, PRIVATE, changes)
    assert found.privatizer.recipe == ("local/sampled-step" if sampled else "local/asked-first-visit")
    assert found.epsilon <= 0.5


@pytest.mark.parametrize("changes", [MIXED, {"early_end = false": "early_end = true"}])
def test_a_sampled_step_that_auto_chose_is_the_same_mechanism_as_one_that_is_named(tmp_path, changes):
    """A study keeps the name of its recipe, and is reopened by that."""
    first = declared(tmp_path, LARGER, changes, OPEN)
    chosen, named = prepare(study_in(first)), prepare(study_in(first), "local/sampled-step")
    assert chosen.privatizer.recipe == "local/sampled-step"
    assert chosen.report_kind() == named.report_kind()
    total = chosen.study.total
    assert np.array_equal(identity(chosen.privatizer, total), identity(named.privatizer, total))


def test_bandits_have_no_successors_to_ask_about(tmp_path):
    assert prepared(tmp_path, {"horizon = 2": "horizon = 1"}).privatizer.recipe == "local/sampled-step"
    with pytest.raises(Unsupported, match="no successors to ask about"):
        prepared(tmp_path, {"horizon = 2": "horizon = 1"}, ASKED)


def test_unknown_options_are_named_as_before(tmp_path):
    with pytest.raises(Exception, match="no option 'stepz'"):
        prepared(tmp_path, LARGER, {"options = {}\n\n[users]": "options = { stepz = 1 }\n\n[users]"})


def test_a_study_that_was_opened_keeps_its_mechanism_whatever_auto_would_choose_now(tmp_path, rng, monkeypatch):
    file = declared(tmp_path, LARGER, PRIVATE, number=40)
    at = coordinator(file)
    at.accept(report(at, rng))
    assert at.mechanism.asks
    at.stop()
    monkeypatch.setattr("discreet.study.service.study_mechanism._is_served", lambda *_: False)
    again = coordinator(file)
    assert again.mechanism.asks
    run_to_the_end(again, rng)
    assert again.published.row.served == again.declared.total


# Rounds


@pytest.mark.parametrize("changes", [[], [UNARY], [MIXED], [LARGER], [LARGER, MIXED, UNARY]])
def test_a_study_runs_to_its_end_with_weights_of_its_policies(tmp_path, rng, changes):
    at = coordinator(declared(tmp_path, ASKED, *changes, number=25))
    device, seen = read_for_device(at.study(), at.declared.hash), set()
    while at.published.ended is None:
        answer = at.policy()
        read_round(answer, device)  # a device agrees to it
        assert all(type(weight) is int for weight in answer["questions"])
        seen.add(tuple(answer["questions"]))
        at.accept(report(at, rng))
        at.close_if_full()
    assert at.published.row.served == at.declared.total
    assert len(seen) > 2  # who was asked before moves the weights
    assert "questions" not in at.published.policy


def twins(tmp_path, *changes, number):
    """The same study in two folders, with the same keys."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first = declared(tmp_path / "one", ASKED, *changes, number=number)
    for file in first.parent.iterdir():
        (tmp_path / "two" / file.name).write_bytes(file.read_bytes())
    return first, tmp_path / "two" / first.name


@pytest.mark.parametrize("changes", [[], [UNARY], [SAMPLING], [MIXED]])
def test_a_restart_in_any_round_changes_nothing(tmp_path, rng, changes):
    """Two studies get the same reports; one is reopened before every report, with other weights nowhere."""
    first, second = twins(tmp_path, *changes, number=14)
    whole, again = coordinator(first), coordinator(second)
    while whole.published.ended is None:
        body = report(whole, rng)
        again.stop()
        again = coordinator(second)
        assert again.policy() == whole.policy()
        assert again.accept(body) == whole.accept(body)
        for at in (whole, again):
            at.close_if_full()
        assert state(again) == state(whole)
    assert again.published.row.policy == whole.published.row.policy  # what is recommended in the end


@pytest.mark.parametrize("changes", [[], [SAMPLING], [MIXED]])
def test_what_is_recommended_in_the_end_is_the_same_after_a_restart(tmp_path, rng, changes):
    first, second = twins(tmp_path, LARGER, *changes, number=400)
    whole, again = coordinator(first), coordinator(second)
    for _ in range(20):
        for _ in range(whole.published.row.wanted):
            body = report(whole, rng)
            assert again.accept(body) == whole.accept(body)
        assert whole.close_if_full()
        assert again.close_if_full()
    again.stop()
    again = coordinator(second)
    with again.reading() as link:
        loaded = closing.load(link, again._desk, again.published.row).state.release
    for name, (values, variance) in whole._live.state.release.statistics.items():
        np.testing.assert_array_equal(loaded[name].values, values)
        np.testing.assert_array_equal(loaded[name].variance, variance)
    for at in (whole, again):
        at.end()  # with nothing that waits: the learner sees no other release
    assert again.published.row.policy == whole.published.row.policy


def test_weights_are_those_of_the_state_with_which_the_round_opened(tmp_path, rng):
    at = coordinator(declared(tmp_path, ASKED))
    while at.published.row.number < 4:
        at.accept(report(at, rng))
        at.close_if_full()
    weights = at.policy()["questions"]
    with at.reading() as link:
        saved = dict(from_bytes(rounds.state_row(link, at.published.row.number).public))
    policy = Policy(at.policy()["policy"]["actions"])
    assert at.mechanism.questions(saved, policy) == weights
    saved["channel0.asked"] = saved["channel0.asked"] + np.arange(8.0).reshape(4, 2)
    assert at.mechanism.questions(saved, policy) != weights


def test_a_round_whose_state_is_gone_is_not_served(tmp_path):
    file = declared(tmp_path, ASKED)
    at = coordinator(file)
    with at.reading() as link, link.writing():
        link.run("DELETE FROM states")
    at.stop()
    with pytest.raises(Exception, match="the state of round 1 is missing from the database"):
        coordinator(file)


def test_a_restored_database_goes_on_with_questions(tmp_path, rng):
    file = declared(tmp_path, ASKED)
    at = coordinator(file)
    while at.published.row.number < 3:
        at.accept(report(at, rng))
        at.close_if_full()
    at.stop()
    places = places_of(file)
    restore(read_study(file), Database(places.database), places)
    again = coordinator(file)
    assert again.published.row.number == 4
    assert any(again.policy()["questions"])
    run_to_the_end(again, rng)


# Refusals


def answered(at, **changes):
    """A report of the open round with this answer."""
    body = report(at, np.random.default_rng(1))
    return {**body, "report": {"kind": "answer", **changes}}


def playable(at) -> tuple[int, int]:
    """A row that the open round asks about, and one that it does not."""
    weights = at.policy()["questions"]
    return next(row for row, w in enumerate(weights) if w), next(row for row, w in enumerate(weights) if not w)


KARY = [
    (lambda row, not_played: {"question": 8, "answer": 0}, "a question of this study is a number in 0..7"),
    (lambda row, not_played: {"question": -1, "answer": 0}, "a question of this study is a number in 0..7"),
    (lambda row, not_played: {"question": 2 * not_played, "answer": 0}, "nobody is asked .* its policy cannot play"),
    (
        lambda row, not_played: {"question": 2 * not_played + 1, "answer": 0},
        "nobody is asked .* its policy cannot play",
    ),
    (lambda row, not_played: {"question": 2 * row, "answer": 3}, "an answer to this question lies in 0..2"),
    (lambda row, not_played: {"question": 2 * row, "answer": -1}, "an answer to this question lies in 0..2"),
    (lambda row, not_played: {"question": 2 * row + 1, "answer": 3}, "an answer to this question lies in 0..2"),
    (lambda row, not_played: {"question": 2 * row + 1, "bits": "010"}, "answered by answer, and by nothing else"),
    (lambda row, not_played: {"question": 2 * row + 1}, "answered by answer, and by nothing else"),
    (lambda row, not_played: {"question": 2 * row, "answer": True}, r"not a report at \$.report.answer"),
    (lambda row, not_played: {"question": 2 * row, "answer": None}, r"not a report at \$.report.answer"),
    (lambda row, not_played: {"question": 2 * row, "answer": 1.0}, r"not a report at \$.report.answer"),
    (lambda row, not_played: {"question": "2", "answer": 1}, r"not a report at \$.report.question"),
    (lambda row, not_played: {"answer": 1}, r"not a report at \$.report"),
    (lambda row, not_played: {"question": 2 * row, "answer": 1, "steps": [0]}, r"not a report at \$.report"),
]
BITS = [
    (lambda row, not_played: {"question": 2 * row, "answer": 1}, "answered by bits, and by nothing else"),
    (lambda row, not_played: {"question": 2 * row, "bits": "01"}, "answered by 3 zeros and ones"),
    (lambda row, not_played: {"question": 2 * row, "bits": "0101"}, "answered by 3 zeros and ones"),
    (lambda row, not_played: {"question": 2 * row, "bits": "012"}, "answered by 3 zeros and ones"),
    (
        lambda row, not_played: {"question": 2 * row, "bits": "010", "answer": 1},
        "answered by bits, and by nothing else",
    ),
    (lambda row, not_played: {"question": 2 * row + 1, "bits": "010"}, "answered by answer, and by nothing else"),
    (lambda row, not_played: {"question": 2 * row, "bits": [0, 1, 0]}, r"not a report at \$.report.bits"),
]


@pytest.mark.parametrize(("changes", "cases"), [([], KARY), ([UNARY], BITS)])
def test_what_no_device_sends_is_refused_with_its_sentence(tmp_path, changes, cases):
    at = coordinator(declared(tmp_path, ASKED, *changes))
    row, not_played = playable(at)
    for wrong, sentence in cases:
        with pytest.raises(Refused, match=sentence) as found:
            at.accept(answered(at, **wrong(row, not_played)))
        assert found.value.code == "malformed"
    for body in ({"kind": "items", "steps": [0], "items": [0]}, {"kind": "bits", "steps": [0], "bits": ["0"]}):
        with pytest.raises(Refused, match="reports of this study are of kind answer"):
            at.accept({**answered(at), "report": body})
    with pytest.raises(Refused, match="a record must not leave the device"):
        at.accept({**answered(at), "report": {"kind": "record", "steps": [[0, 0, 0], [0, 0, 0]]}})
    assert at.waiting()[0] == 0
    good = {"question": 2 * row, "bits": "010"} if changes else {"question": 2 * row, "answer": 2}
    assert at.accept(answered(at, **good)) == Accepted(1)


def test_answers_are_refused_by_studies_that_ask_about_steps(tmp_path):
    at = coordinator(declared(tmp_path, SAMPLED))
    assert not at.mechanism.asks
    with pytest.raises(Refused, match="asks about steps, and not about first visits"):
        at.accept(answered(at, question=0, answer=0))
    assert "questions" not in at.policy()


def test_late_answers_count_under_the_policy_of_their_round(tmp_path, rng):
    at = coordinator(declared(tmp_path, ASKED))
    first, (row, _) = at.policy(), playable(at)
    while at.published.row.number == 1 or at.policy()["questions"][row]:  # until a policy does not play that row
        assert at.published.ended is None
        at.accept(report(at, rng))
        at.close_if_full()
    now = {**answered(at, question=2 * row, answer=0)}
    with pytest.raises(Refused, match="cannot play"):
        at.accept(now)
    assert at.accept({**now, "round": first["round"]}) == Accepted(1)
    run_to_the_end(at, rng)
    assert at.published.row.served == at.declared.total


# Decoding

USERS, REPEATS = 24, 150
RECORD = [(0, 0, 1.0), (1, 1, 0.25), (0, 0, 0.0)]  # everybody does the same: the policy plays (0, 0) and (1, 1)


def decoded(tmp_path, response: str, epsilon: float, sent: float):
    """Estimates over many studies from devices that answer by the laws of ``sent``, and the last release.

    Every question is asked equally often, so that what is estimated is known.
    """
    options = f'options = {{ response = "{response}" }}\n\n[users]'
    changes = [ASKED, {"horizon = 2": "horizon = 3", "options = {}\n\n[users]": options}]
    mechanism = prepared(tmp_path, *changes, {"epsilon = 4.0": f"epsilon = {epsilon}"}, number=USERS)
    other = prepared(tmp_path, *changes, {"epsilon = 4.0": f"epsilon = {sent}"})
    device, policy = device_of(mechanism), Policy([[0, 1]] * 3)
    told = DevicePolicy([[0, 1]] * 3, None)
    laws = tuple(_law(law) for law in other.laws(policy, 1))
    round_ = Round(1, told, laws, questions_of(device, told))
    form, tape, found = ReportFormat(mechanism), Tape(np.random.default_rng(7).bytes), []
    rules = form.rules(policy)
    for _ in range(REPEATS):
        intake = mechanism.privatizer.collect(USERS)
        questions = [2 * row + about for row, about in product((0, 3), (0, 1))] * (USERS // 4)
        bodies = [report_of(device, round_, [question], RECORD, tape) for question in questions]
        kept = [form.pack(_read(body), rules) for body in bodies]
        release = intake.receive([(policy, form.messages(kept))])
        found.append({name: release[name].values[0] for name in ("visits", "rewards", "transitions")})
    return {name: np.array([each[name] for each in found]) for name in found[0]}, release


def device_of(mechanism):
    described = {"study": dict(mechanism.study.declaration), "report": mechanism.report_kind()}
    return read_for_device(described, mechanism.study.hash)


def _law(stated):
    from discreet.client.laws import read_law

    return read_law(stated)


def _read(body):
    from discreet.study.service.wire_messages import decode

    whole = {"study": "sha256:0", "round": 1, "id": 32 * "0", "report": body}
    return decode(json.dumps(whole).encode()).report


ASKED_EACH = USERS // 4
TRUE = {
    "visits": ASKED_EACH * np.array([[1.0, 0.0], [0.0, 1.0]]),
    "rewards": ASKED_EACH * np.array([[1.0, 0.0], [0.0, 0.25]]),
    "transitions": ASKED_EACH * np.array([[[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]]),
}


def biased(estimates) -> bool:
    """Whether a mean is further off than 5.5 standard errors: a false alarm in 4e-8 of comparisons, 16 of them here."""
    off = []
    for name, sample in estimates.items():
        error = np.maximum(sample.std(axis=0, ddof=1) / np.sqrt(len(sample)), 1e-9)
        off.append(np.abs(sample.mean(axis=0) - TRUE[name]) > 5.5 * error)
    return any(each.any() for each in off)


@pytest.mark.parametrize("response", ["kary", "unary"])
def test_counts_decoded_from_real_devices_are_right_and_those_of_another_law_are_not(tmp_path, response):
    """Fixed seeds; the rows that nobody is asked about have neither answers nor noise."""
    right, release = decoded(tmp_path, response, 2.0, 2.0)
    assert not biased(right)
    assert (release["visits"].variance[0] > 0).tolist() == [[True, False], [False, True]]
    for sent in (2.0 * 2 / 3, 2.0 * 3 / 2):
        assert biased(decoded(tmp_path, response, 2.0, sent)[0])


def test_questions_of_devices_follow_the_weights_that_were_handed_out(tmp_path):
    """A device never asks about what has no weight; one row of four has all of it here."""
    study, tape = device_of(prepared(tmp_path, ASKED)), Tape(np.random.default_rng(3).bytes)
    round_ = Round(1, DevicePolicy([], None), asked=tuple(accumulate([0, 0, 5, 0])))
    assert {question for _ in range(100) for question in pick(study, round_, tape)} == {4, 5}

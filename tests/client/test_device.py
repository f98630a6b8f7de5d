"""A device: what it agrees to, what it refuses, and what it sends, through crashes and lost answers."""

from __future__ import annotations

import json
import random
import sqlite3
import stat
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import toy_study as toy
from stub_service import Stub

from discreet.client import Device, Refused, Rejected, Unreachable
from discreet.client.store import MemoryStore, SQLiteStore, Waiting
from discreet.client.transport import Answer, Connection, Service
from discreet.client.words import digest


class Clock:
    """A clock that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def device_of(stub: Stub, store=":memory:", **options) -> Device:
    return Device(stub.service(), store, study_hash=stub.study.hash, **{"at_once": True, **options})


def live(device: Device, rewards=0.5) -> None:
    for step in range(device.horizon):
        state = step % 3 if step else 0
        device.record(step, state, device.act(step, state), rewards)


def sent(stub: Stub) -> list:
    return [json.loads(body) for body in stub.received.values()]


@pytest.mark.parametrize(("response", "steps"), [("kary", 1), ("unary", 2)])
def test_an_episode_ends_in_one_report_of_the_agreed_form(response, steps):
    stub = Stub(response, steps)
    answer = stub.open_round()
    device = device_of(stub)
    device.begin()
    live(device)
    device.finish()
    assert device.send() == 0
    (report,) = sent(stub)
    assert report["study"] == stub.study.hash
    assert report["round"] == 0
    assert len(bytes.fromhex(report["id"])) == 16
    assert len(report["report"]["steps"]) == steps
    for h, value in zip(report["report"]["steps"], report["report"]["items" if response == "kary" else "bits"]):
        items = answer["laws"][h]["items"]
        assert 0 <= value < items if response == "kary" else len(value) == items


def test_central_records_hold_bits_of_rewards_and_the_end():
    ones = 0
    for _ in range(200):
        stub = Stub(model="central", early_end=True, rewards=(0.0, 4.0))
        stub.open_round()
        device = device_of(stub)
        device.begin()
        device.record(0, 0, 0, 1.0)
        device.record(1, 2, 0, 4)
        device.finish()
        device.send()
        (report,) = sent(stub)
        first, second, *rest = report["report"]["steps"]
        assert first[:2] == [0, 0]
        assert second == [2, 0, 1]
        assert rest == [[-1, -1, -1]] * 2
        ones += first[2]
    assert 15 < ones < 90  # 50 expected; 6 standard deviations either way


def test_labels_go_in_and_come_out():
    stub = Stub(states=["calm", "busy"], actions=["wait", "nudge"], start="calm", horizon=2)
    stub.open_round({"kind": "deterministic", "actions": [[1, 0], [0, 1]]})
    device = device_of(stub)
    device.begin()
    assert device.act(0, "calm") == "nudge"
    assert device.act(0, 0) == 1
    device.record(0, "calm", "nudge", 1)
    device.record(1, np.int64(1), 1, np.float32(0.25))
    device.finish()
    device.send()
    assert len(stub.received) == 1


def test_a_stochastic_policy_is_followed_by_its_probabilities():
    stub = Stub("unary", states=1, horizon=1)
    stub.open_round({"kind": "stochastic", "probabilities": [[[0.25, 0.75]]]})
    device = device_of(stub)
    device.begin()
    drawn = Counter(device.act(0, 0) for _ in range(4000))
    assert abs(drawn[1] - 3000) < 170  # 6 standard deviations: a false alarm once in 10^9


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -0.001, 1.0000001, "1", None, True, 1j])
def test_rewards_out_of_range_are_refused_without_being_quoted(reward):
    stub = Stub()
    stub.open_round()
    device = device_of(stub)
    device.begin()
    with pytest.raises(Refused, match="a reward must be a number from 0 to 1") as refused:
        device.record(0, 0, 0, reward)
    assert "0000001" not in str(refused.value)


def test_what_cannot_be_counted_is_not_recorded():
    stub = Stub()
    stub.open_round()
    device = device_of(stub)
    with pytest.raises(Refused, match="begin"):
        device.act(0, 0)
    device.begin()
    with pytest.raises(Refused, match="begun already"):
        device.begin()
    for step, state, action, words in [
        (1, 0, 0, "in order"),
        (0, 1, 0, "start state"),
        (0, 0, 1, "does not take this"),
    ]:
        with pytest.raises(Refused, match=words):
            device.record(step, state, action, 0.0)
    for state in (3, -1, "calm", 0.0, True, None):
        with pytest.raises(Refused, match=r"state must be a number in 0\.\.2"):
            device.act(0, state)
    with pytest.raises(Refused, match="no early ends"):
        device.finish()


def test_a_reporting_window_of_no_length_is_refused_in_one_sentence_as_the_service_does():
    with pytest.raises(Refused, match="30m or 1h"):
        Stub(window="0s")


def test_the_cap_is_kept_over_restarts(tmp_path):
    stub = Stub(cap=2)
    for _ in range(3):
        stub.open_round()
    for _ in range(2):
        device = device_of(stub, tmp_path / "device.db")
        device.begin()
        live(device)
        device.finish()
        device.send()
    with pytest.raises(Refused, match="the 2 reports that the study allows"):
        device_of(stub, tmp_path / "device.db").begin()
    assert stat.S_IMODE((tmp_path / "device.db").stat().st_mode) == 0o600


def test_a_lost_answer_leads_to_the_same_bytes_again(tmp_path):
    stub = Stub()
    stub.open_round()
    device = device_of(stub, tmp_path / "device.db")
    device.begin()
    live(device)
    device.finish()
    stub.failing, stub.deaf = 1, 2
    for _ in range(3):
        with pytest.raises(Unreachable):
            device.send()
    again = device_of(stub, tmp_path / "device.db")  # the app was closed meanwhile
    again.retry()
    assert len(stub.bodies) == 3
    assert len(set(stub.bodies)) == 1
    assert again.send() == 0
    assert len(stub.bodies) == 3


def test_bytes_and_id_are_on_disk_before_the_first_attempt(tmp_path):
    stub = Stub()
    stub.open_round()
    device = device_of(stub, tmp_path / "device.db")
    device.begin()
    live(device)
    device.finish()
    stub.failing = 1
    with pytest.raises(Unreachable):
        device.send()
    (row,) = sqlite3.connect(tmp_path / "device.db").execute("SELECT id, body, state FROM reports")
    device.send()
    assert row == (next(iter(stub.received)), stub.bodies[0], "sending")
    (row,) = sqlite3.connect(tmp_path / "device.db").execute("SELECT body, state FROM reports")
    assert row == (None, "done")


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 413])
def test_a_refused_report_is_used_up(status):
    stub = Stub()
    stub.open_round()
    device = device_of(stub)
    device.begin()
    live(device)
    device.finish()
    stub.refuse = status, "late"
    with pytest.raises(Rejected, match="late"):
        device.send()
    assert device.send() == 0
    assert device.reports == 1
    with pytest.raises(Refused, match="allows"):
        device.begin()


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>Welcome to our hotel</html>"), (200, b"{}"), (404, b"<html>nginx</html>"), (410, b'{"error": 1}')],
)
def test_whoever_answers_in_place_of_the_service_uses_up_nothing(monkeypatch, status, body):
    stub = Stub()
    stub.open_round()
    device = device_of(stub)
    device.begin()
    live(device)
    device.finish()
    with monkeypatch.context() as patch:
        patch.setattr(stub, "_answer", lambda *_: Answer(status, body))
        with pytest.raises(Unreachable, match="something else than the service"):
            device.send()
    device.send()
    assert len(stub.received) == 1


def test_tokens_are_one_line():
    stub = Stub()
    for token in ("", "a\nb", "ä", "x" * 201):
        with pytest.raises(Refused, match="token"):
            device_of(stub, token=token)


@pytest.mark.parametrize("status", [301, 401, 429, 500, 503])
def test_a_busy_service_is_tried_again(status):
    stub = Stub()
    stub.open_round()
    device = device_of(stub)
    device.begin()
    live(device)
    device.finish()
    stub.refuse = status, "later"
    with pytest.raises(Unreachable):
        device.send()
    stub.refuse = None
    device.send()
    assert len(set(stub.bodies)) == 1


def test_the_time_of_the_report_is_drawn_before_and_kept(tmp_path):
    stub, clock = Stub(window="10m"), Clock()
    stub.open_round()
    device = device_of(stub, tmp_path / "device.db", at_once=False, clock=clock)
    due = device.begin()
    assert 1000 <= due < 1600
    live(device)
    assert device.finish() == due
    clock.now = due - 1
    assert device.send() == 1
    assert stub.bodies == []
    clock.now = due
    assert device_of(stub, tmp_path / "device.db", at_once=False, clock=clock).send() == 0
    assert len(stub.received) == 1


def test_times_of_reports_are_spread_over_the_window():
    stub, drawn = Stub(window="1m"), []
    stub.open_round()
    for _ in range(600):
        drawn.append(int(device_of(stub, MemoryStore(), at_once=False, clock=Clock()).begin()) - 1000)
    assert set(drawn) <= set(range(60))
    assert np.histogram(drawn, 6, (0, 60))[0].min() > 40  # 100 expected, 6.6 standard deviations


@pytest.mark.parametrize("how", ["crash", "abandon", "too slow"])
def test_an_unfinished_episode_sends_the_empty_record_at_its_time(tmp_path, how):
    stub, clock = Stub(model="central", window="10m"), Clock()
    stub.open_round()
    device = device_of(stub, tmp_path / "device.db", at_once=False, clock=clock)
    due = device.begin()
    device.record(0, 0, 0, 1.0)
    if how == "abandon":
        assert device.abandon() == due
    if how == "crash":
        device = device_of(stub, tmp_path / "device.db", at_once=False, clock=clock)
    clock.now = due - 1  # one draw in 600 is due at once
    assert device.send() == 1
    clock.now = due
    assert device.send() == 0
    (report,) = sent(stub)
    assert report["report"]["steps"] == [[-1, -1, -1]] * 4
    if how == "too slow":
        for step in range(1, 4):
            device.record(step, 0, 0, 1.0)
        with pytest.raises(Refused, match="left already"):
            device.finish()
        assert len(stub.bodies) == 1


def test_raw_records_are_never_written(tmp_path):
    stub = Stub(model="central", horizon=3)
    stub.open_round()
    device = device_of(stub, tmp_path / "device.db")
    device.begin()
    before = (tmp_path / "device.db").read_bytes()
    live(device)
    assert (tmp_path / "device.db").read_bytes() == before


def test_a_planned_visit_is_not_early(tmp_path):
    stub, clock = Stub(), Clock()
    stub.open_round()
    device = device_of(stub, tmp_path / "device.db", clock=clock)
    when = device.plan("1h")
    assert 1000 <= when <= 4600
    assert device_of(stub, tmp_path / "device.db", clock=clock).plan("1h") == when
    clock.now = when - 1
    with pytest.raises(Refused, match="has not come yet"):
        device.begin()
    clock.now = when
    device.begin()


def test_another_study_than_the_agreed_one_is_refused():
    stub = Stub()
    stub.open_round()
    with pytest.raises(Refused, match="not the study that was agreed to"):
        Device(Service(stub, "sha256:" + 64 * "1"), MemoryStore(), study_hash="sha256:" + 64 * "1").begin()
    stub.answer["study"]["privacy"]["epsilon"] = 40.0
    with pytest.raises(Refused, match="not the study that was agreed to"):
        device_of(stub).begin()
    for name in ("", "sha256:12", "sha256:" + 64 * "G", "md5:" + 64 * "0"):
        with pytest.raises(Refused, match="64 hexadecimal digits"):
            Device("http://localhost:1", MemoryStore(), study_hash=name)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"response": "plain"}, "kary or unary"),
        ({"kind": "record"}, "does not send in a study"),
        ({"kind": "noisy-table"}, "does not send in a study"),
        ({"early_end": True}, "may end early"),
        ({"steps": 5}, "between 1 and 4"),
        ({"steps": True}, "whole number"),
        ({"masked": 1}, "true or false"),
    ],
)
def test_reports_that_would_show_more_than_was_agreed_are_refused(change, words):
    stub = Stub()
    stub.open_round()
    stub.answer["report"].update(change)
    device = device_of(stub)
    with pytest.raises(Refused, match=words):
        device.begin()
    assert device.reports == 0
    assert stub.bodies == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a["laws"][1].update(items=a["laws"][1]["items"] + 1), "the service counts"),
        (lambda a: a["laws"][1].update(lie=str(int(a["laws"][1]["lie"]) * 99 // 100)), "does not keep epsilon 2"),
        (lambda a: a["laws"].pop(), "3 laws for 4 steps"),
        (lambda a: a["policy"]["actions"].pop(), "must have 4 steps"),
        (lambda a: a["policy"]["actions"][0].append(0), "3 states"),
        (lambda a: a["policy"].update(actions=[[2, 0, 0]] * 4), "does not have"),
        (lambda a: a["policy"].update(kind="mixture"), "policies of kind"),
        (lambda a: a["policy"].update(actions=[[1, 1, 1]] * 4), "not the one that its signed head names"),
        (lambda a: a.update(study="sha256:0"), "another study"),
        (lambda a: a.update(round=7), "not the one that its signed head names"),
        (lambda a: a["head"].update(round=7), "signature"),
        (lambda a: a["head"].update(signature="00"), "signature"),
        (lambda a: a["head"].update(key=64 * "0"), "another study"),
    ],
)
def test_rounds_that_are_not_as_agreed_are_refused_and_nothing_is_sent(change, words):
    stub = Stub()
    change(stub.open_round())
    device = device_of(stub)
    with pytest.raises(Refused, match=words):
        device.begin()
    assert device.reports == 0
    assert stub.bodies == []


@pytest.mark.parametrize("response", ["kary", "unary"])
@pytest.mark.parametrize("cap", [1, 2, 3])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_epsilon_is_shared_by_all_reports_and_their_steps(response, cap, steps):
    """Laws for epsilon / (reports times steps) are followed, and those of one report or one step less are not."""
    stub = Stub(response, steps, cap=cap)
    answer = stub.open_round()
    device_of(stub).begin()
    for fewer in {(cap - 1) * steps, cap * (steps - 1)} - {0}:
        for law in answer["laws"]:
            law["lie"] = str(toy.LAWS[response](2.0 / fewer, law["items"]).threshold)
        with pytest.raises(Refused, match="does not keep epsilon"):
            device_of(stub).begin()


def test_half_of_the_lies_is_noticed_on_the_device():
    """The twin of a service whose noise is halved: it states laws of twice the epsilon."""
    stub = Stub()
    answer = stub.open_round()
    for law in answer["laws"]:
        law["lie"] = str(toy.LAWS["kary"](4.0, law["items"]).threshold)
    with pytest.raises(Refused, match="does not keep epsilon 2"):
        device_of(stub).begin()


def test_the_chain_is_followed_over_rounds_that_were_missed(tmp_path):
    stub = Stub(cap=3)
    for rounds in (1, 1, 9):
        for _ in range(rounds):
            stub.open_round()
        device = device_of(stub, tmp_path / "device.db")
        device.begin()
        device.abandon()
    assert device.reports == 3


def test_an_older_round_and_a_broken_chain_are_refused(tmp_path):
    stub = Stub(cap=3)
    for _ in range(3):
        stub.open_round()
    device = device_of(stub, tmp_path / "device.db")
    device.begin()
    device.abandon()
    later = stub.rounds.pop()
    with pytest.raises(Refused, match="lost rounds or shows an old one"):
        device.begin()
    stub.rounds.append(later)
    stub.open_round()
    stub.rounds[3]["head"] = toy.head(stub.study, stub.rounds[3]["policy"], 3, "sha256:elsewhere", stub.key)
    with pytest.raises(Refused, match="broken before round 3"):
        device.begin()
    assert device.evidence == []


@pytest.mark.parametrize("later", [False, True])
def test_two_heads_of_one_round_are_kept_as_evidence(tmp_path, later):
    stub = Stub(cap=3)
    stub.open_round()
    stub.open_round()
    device = device_of(stub, tmp_path / "device.db")
    device.begin()
    device.abandon()
    seen = stub.rounds.pop()["head"]
    other = stub.open_round({"kind": "deterministic", "actions": [[0, 1, 0]] * 4})["head"]
    if later:  # the other view is hidden below a later round
        stub.open_round()
    with pytest.raises(Refused, match="two different heads for round 1"):
        device.begin()
    assert device_of(stub, tmp_path / "device.db").evidence == [(seen, other)]
    assert digest(seen) != digest(other)
    assert device.reports == 1


def test_without_the_package_for_signatures_the_remedy_is_named(monkeypatch):
    stub = Stub()
    stub.open_round()
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(Refused, match="pip install cryptography"):
        device_of(stub).begin()
    trusting = Device(Service(stub, stub.study.hash, signatures=False), MemoryStore(), study_hash=stub.study.hash)
    trusting.begin()


def test_invitations_do_not_travel_in_the_clear():
    """Neither when an episode begins, nor when one that began over https is sent by somebody else's address."""
    stub, store = Stub(), MemoryStore()
    stub.open_round()
    device = device_of(stub, store, token="abc")
    device.begin()
    live(device)
    device.finish()
    stub.private = False
    for act in (device_of(stub, token="abc").begin, device_of(stub, store, token="abc").send):
        with pytest.raises(Refused, match="invitation, and the address begins with http"):
            act()
    assert not sent(stub)
    device_of(stub).begin()  # what is randomised may be read by anybody
    stub.private = True
    assert device_of(stub, store, token="abc").send() == 0


def test_answers_that_are_no_json_objects_are_refused():
    class Strange:
        private = True

        def __init__(self, body: bytes) -> None:
            self.body = body

        def ask(self, *_: object) -> Answer:
            return Answer(200, self.body)

    for body in (
        b"",
        b"[]",
        b"<html>",
        b'{"study": {}, "study": {}}',
        b'{"study": NaN}',
        b'{"study": 1e999}',
        b"\xff",
        b"[" * 100000,
    ):
        with pytest.raises(Refused, match="JSON object"):
            Device(Service(Strange(body), "x"), MemoryStore(), study_hash="x").begin()


def test_records_do_not_travel_in_the_clear():
    stub = Stub(model="central")
    stub.open_round()
    stub.private = False
    with pytest.raises(Refused, match="https"):
        device_of(stub).begin()
    assert not Connection("http://study.example.org").private
    assert Connection("https://study.example.org/a").private
    assert Connection("http://127.0.0.1:80").private
    for url in ("study.example.org", "ftp://a", "http://", "https://a?b=c", "http://a:x", "http://[a"):
        with pytest.raises(Refused, match="address of a service"):
            Connection(url)


def test_nobody_there_is_unreachable():
    with pytest.raises(Unreachable, match="cannot be reached"):
        Device("http://127.0.0.1:1", MemoryStore(), study_hash="sha256:" + 64 * "0").begin()


def test_stores_that_are_none_are_refused(tmp_path):
    (tmp_path / "text.db").write_text("nothing of the kind" * 100)
    for path in (tmp_path / "text.db", tmp_path / "no folder" / "device.db"):
        with pytest.raises(Refused, match="cannot be opened"):
            SQLiteStore(str(path))


def test_two_processes_do_not_exceed_the_cap(tmp_path):
    stub = Stub(cap=1)
    stub.open_round()
    one, two = (device_of(stub, tmp_path / "device.db") for _ in range(2))
    one.begin()
    with pytest.raises(Refused, match="allows"):
        two.begin()
    assert one.reports == two.reports == 1


@pytest.mark.parametrize("store", [MemoryStore, lambda: SQLiteStore(":memory:")], ids=["memory", "sqlite"])
def test_stores_refuse_more_than_the_cap_and_changes_after_the_first_attempt(store):
    kept = store()
    for number in range(3):
        report = Waiting(f"{number}", 0, b"empty", "open")
        assert kept.begin("study", 2, report) == (number < 2)
    assert kept.count("study") == 2
    assert kept.settle("0", b"real")
    assert not kept.settle("0", b"other")
    assert (kept.fix("0"), kept.fix("1"), kept.fix("2")) == (b"real", b"empty", None)
    assert not kept.settle("1", b"too late")
    assert kept.fix("1") == b"empty"
    kept.close("0", "done")
    assert kept.fix("0") is None
    assert [report.id for report in kept.waiting("study")] == ["1"]
    assert kept.count("study") == 2


def test_importing_the_client_loads_nothing_else():
    code = (
        "import sys, discreet.client\n"
        "ours = {n for n in sys.modules if n.startswith('discreet.') and not n.startswith('discreet.client')}\n"
        "slow = {'numpy', 'scipy', 'numba', 'cryptography', 'importlib.metadata', 'http.client', 'email'}\n"
        "print(sorted(ours), sorted(slow & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "['discreet.base', 'discreet.base.packages'] []"


def test_random_records_of_all_kinds_go_through():
    source = random.Random(1)
    for _ in range(60):
        stub = Stub(
            source.choice(("kary", "unary")), source.choice((1, 2)), early_end=source.random() < 0.5, start=None,
            model=source.choice(("local", "central")),
        )  # fmt: skip
        policy = toy.random_policy(stub.study, source)
        stub.open_round(policy)
        device = device_of(stub)
        device.begin()
        length = source.randrange(5) if stub.study.early_end else 4
        for step, (state, action, reward) in enumerate(toy.random_record(stub.study, policy, source, length)):
            device.record(step, state, action, reward)
        device.finish()
        device.send()
        assert len(stub.received) == 1

"""The shared vectors: they are what the generator writes, what the client does, and what the server would do."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace

import make_vectors
import numpy as np
import pytest
import toy_study as toy

from discreet.base.policies import Policy, StochasticPolicy
from discreet.base.shape import Shape
from discreet.client.exact import Given, Tape, reward_fraction
from discreet.client.policy import read_policy
from discreet.client.questions import questions_of
from discreet.client.reports import pick, read_round, report_of
from discreet.mechanisms.counts.encoder import reward_bit
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.messages import device_reports
from discreet.mechanisms.messages.sampled_item import ReportChannel
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise.exact_randomized_response import report_bits, report_item

SHARED = json.loads((Path(__file__).parent / "vectors.json").read_text())


def run(vector, tape):
    """What the client makes of the input of a vector."""
    match vector["what"]:
        case "below":
            return tape.below(int(vector["n"]))
        case "reward":
            return int(tape.chance(*reward_fraction(vector["reward"], vector["low"], vector["high"])))
        case "pick":
            return tape.pick(vector["horizon"], vector["steps"])
        case "kary":
            return tape.item(vector["item"], vector["items"], int(vector["threshold"]))
        case "unary":
            return tape.bits(vector["item"], vector["items"], int(vector["threshold"]))
    setting = SHARED["settings"][vector["setting"]]
    study = toy.read(setting["study"])
    round_ = read_round(setting["policy"], study)
    if vector["what"] == "item":
        state, action, *rest = vector["cell"]
        return round_.questions[vector["step"]].number((0, state, action), *rest)
    return report_of(study, round_, pick(study, round_, tape), vector["record"], tape)


def test_the_file_is_what_the_generator_writes():
    assert make_vectors.FILE.read_text() == make_vectors.text()
    assert len(SHARED["vectors"]) == 1300


def test_the_client_gives_every_result_and_reads_every_byte():
    for vector in SHARED["vectors"]:
        given = Given(bytes.fromhex(vector.get("tape", "")))
        assert run(vector, Tape(given)) == vector["result"], vector
        assert given.read == len(vector.get("tape", "")) // 2


def test_responses_are_those_of_the_server_byte_by_byte():
    answers = {"kary": report_item, "unary": report_bits}
    seen = 0
    for vector in SHARED["vectors"]:
        if vector["what"] in answers:
            tape = bytes.fromhex(vector["tape"])
            found = answers[vector["what"]](vector["item"], vector["items"], int(vector["threshold"]), tape)
            wanted = vector["result"]
            assert found == ([int(bit) for bit in wanted] if vector["what"] == "unary" else wanted)
            seen += 1
    assert seen > 150


def channel_of(study) -> ReportChannel:
    """The channel of the server for a study."""
    shape = Shape(study.states, study.actions, study.horizon, rewards=study.rewards, start=study.start)
    encoder = SampledStep(shape, study.kind.steps, study.early_end)
    return ReportChannel(encoder, study.epsilon, study.kind.response)


def server_policy(policy):
    return Policy(policy["actions"]) if "actions" in policy else StochasticPolicy(policy["probabilities"])


def test_items_are_the_cells_of_the_server_in_their_order():
    """Every cell of every step of every setting: the server's numbers, and None where the server has no cell."""
    for setting in SHARED["settings"]:
        study = toy.read(setting["study"])
        if study.kind.name != "sampled-items":
            continue
        domain = channel_of(study).domain(server_policy(setting["policy"]["policy"]), study.kind.masked)
        policy = read_policy(setting["policy"]["policy"], study)
        for h, own in enumerate(questions_of(study, policy)):
            mask = domain.cells[h]
            numbers = np.where(mask.reshape(-1), np.cumsum(mask) - 1, -1).reshape(mask.shape)
            for cell in np.ndindex(*mask.shape):
                found = own.number((0, *cell[:2]), *cell[2:])
                assert (-1 if found is None else found) == numbers[cell]
            assert own.size == domain.steps[h].items == int(setting["policy"]["laws"][h]["items"])
            assert channel_of(study).law_at(domain, h).threshold == int(setting["policy"]["laws"][h]["lie"])


@pytest.mark.parametrize("response", ["kary", "unary"])
@pytest.mark.parametrize("early_end", [False, True])
def test_the_reports_of_a_record_are_those_of_the_server(monkeypatch, response, early_end):
    """The server's own randomiser, given the client's random bytes, sends the same about the same steps."""
    reward_bit(0.5, -1.0, 2.0, np.array([1], np.uint64))  # compiled and kept on disk first, which takes entropy, too
    source = random.Random(5)
    for _ in range(40):
        start = source.choice((None, 0, 2))
        declared = toy.declaration(3, 2, 4, start=start, rewards=(-1.0, 1.0), early_end=early_end)
        study = toy.read(toy.study_answer(declared, response, 2))
        policy = toy.random_policy(study, source)
        round_ = read_round(toy.policy_answer(study, policy), study)
        length = source.randrange(1, 5) if early_end else 4
        record = [(s, a, float(source.choice((-1, 1)))) for s, a, _ in toy.random_record(study, policy, source, length)]
        steps = pick(study, round_, Tape(source.randbytes))
        tape = source.randbytes(4000)
        given = Given(tape)
        report = report_of(study, round_, steps, record, Tape(given))
        same = WithoutRewards(tape, [h < length for h in steps])
        monkeypatch.setattr(
            "discreet.noise.randomized_response.os", SimpleNamespace(urandom=same)
        )  # nobody else's bytes
        sent = device_reports.randomize_record(
            channel_of(study), trajectory(study, record), Policy(policy["actions"]), steps
        )
        assert same.read == given.read
        assert [each.step for each in sent] == report["steps"]
        if response == "kary":
            assert [int(each.message[0]) for each in sent] == report["items"]
        else:
            assert ["".join(map(str, each.message)) for each in sent] == report["bits"]


class WithoutRewards:
    """The tape of a client, for a server that reads no word for the reward of a step that has one."""

    def __init__(self, tape, rewards):
        self._tape, self._rewards, self.read = tape, iter(rewards), 0

    def __call__(self, count):
        self.read += 8 * next(self._rewards) + count
        return self._tape[self.read - count : self.read]


def trajectory(study, record) -> Trajectories:
    H = study.horizon
    padded = [*record, *[(0, 0, 0.0)] * (H - len(record))]
    states, actions, rewards = (np.array([[step[i] for step in padded]]) for i in range(3))
    return Trajectories(states, actions, rewards.astype(float), np.array([len(record)]))

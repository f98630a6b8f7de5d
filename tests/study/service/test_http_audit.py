"""The audit through HTTP: devices report to a served study, and what it publishes must not tell one of them apart.

* Central, without statistics: the coupling check of ``discreet.audit`` drives the web application. Two populations
  differ in one record, the noise of one run is moved until the other publishes the same, down to the hashes in its
  signed heads, and the cost of the move is compared with the promise.
* Central, with statistics: noise from the operating system over some hundred rounds, against its law.
* Local: reports that arrived, from two records that differ, against the promise by exact binomial limits.

Each clears the service and convicts one whose noise is halved.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from served import declare, serving

from discreet.audit.binomial_audit import Charge, audit_pairs
from discreet.audit.coupling import Play, Transcript, coupled, noisy_cells
from discreet.audit.neighbours import Neighbours, Population, _record, neighbours
from discreet.audit.noise_coupling import Share, share_of
from discreet.client.exact import WHOLE
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.messages.device_reports import tally_records
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import DiscreteLaplace, KaryRandomizedResponse
from discreet.study.service import coordinator as coordinator_module
from discreet.study.service.declaration import read_study
from discreet.study.service.study_mechanism import policy_from, prepare

USERS, BLOCKS = 12, 4
CENTRAL = {
    "states": "2", "horizon": "2", "early_end": "true", "model": '"central"', "epsilon": "1.0",
    "recipe": '"central/joint-histogram-laplace"', "number": str(USERS),
}  # fmt: skip


@pytest.fixture
def halved(monkeypatch):
    """A service whose noise is half of what its promise needs."""

    def spoilt(study, recipe=None):
        honest = prepare(study, recipe)
        channels = tuple(replace(each, law=DiscreteLaplace(each.law.scale / 2)) for each in honest.privatizer.channels)
        return replace(honest, privatizer=replace(honest.privatizer, channels=channels))

    monkeypatch.setattr(coordinator_module, "prepare", spoilt)
    monkeypatch.setattr(Privatizer, "check_unchanged", lambda _self: None)  # which would refuse it before any noise


class Obedient(Population):
    """A population that follows the policy, because the service refuses records that cannot have come about."""

    def _response(self, user):
        return super()._response(user)._replace(actions=np.full(self._both.shape.horizon, -1))

    def record(self, user: int, policy) -> list[tuple[int, int, float]]:
        """What one of them does under a policy."""
        states, actions, rewards, length = _record(self._response(user), policy, self._both.shape)
        return [(int(states[h]), int(actions[h]), float(rewards[h])) for h in range(length)]


@dataclass(frozen=True)
class Obeying(Neighbours):
    """Two such populations."""

    def side(self, second: bool) -> Obedient:
        return Obedient(self, second)


@dataclass(frozen=True)
class ServedPlay(Play):
    """The play of the coupling check, with a served study in the place of a session: its learner chooses policies."""

    file: Path | None = None

    def _run(self, tape, second, policies, last):
        people, out, tallies = self.both.side(second), Transcript([], [], [], []), []
        assert self.file is not None
        with serving(self.file, noise=tape) as place:
            encoders = [channel.encoder for channel in self.privatizer.channels]
            user, end = 0, self.most if last is None else last + 1
            while len(out.cells) < end:
                tape.turn(len(out.cells))
                handed = place.policy()
                policy, users = policy_from(handed["policy"]), handed["wanted"]
                records = [people.record(user + i, policy) for i in range(users)]
                for record in records:
                    place.take_part(lambda _act, record=record: record)
                user += users
                place.wait(handed["round"])
                intake = place.coordinator._live.intake
                tallies.append(tally_records(encoders, Context(policy), trajectories(records, self.privatizer.shape)))
                out.policies.append(policy)
                out.users.append(users)
                out.cells.append([noisy_cells(run) for run in intake._runs])
                out.releases.append(intake.release_now())
            people.heads = [(head["policy"], head["released"]) for head in place.heads()][: end + 1]
        heads.append(people.heads)
        return out, tallies


heads: list[list[tuple[str, str]]] = []


def trajectories(records, shape) -> Trajectories:
    H = shape.horizon
    padded = [[*record, *[(0, 0, 0.0)] * (H - len(record))] for record in records]
    columns = [np.array([[step[i] for step in record] for record in padded]) for i in range(3)]
    return Trajectories(columns[0], columns[1], columns[2].astype(float), np.array([len(r) for r in records]))


def share(folder: Path, number: int) -> Share:
    """How much of the stated epsilon the replaced user loses, at the point where that is most."""
    heads.clear()
    file = declare(folder, **CENTRAL)
    file.write_text(file.read_text().replace("options = {}", f"options = {{ blocks = {BLOCKS} }}", 1))
    mechanism = prepare(read_study(file))
    both = neighbours(mechanism.study.shape, [c.encoder for c in mechanism.privatizer.channels], number, USERS)
    obeying = Obeying(both.shape, both.seed, both.replaced, both.pair, both.everything, both.extreme)
    play = ServedPlay(mechanism.privatizer, obeying, USERS, most=BLOCKS - 1, file=file)
    found = share_of(coupled(play), mechanism.whole)
    assert heads[-1] == heads[0], "the moved noise must lead to the very same signed heads"
    return found


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 2])
def test_a_served_study_hides_a_record_as_well_as_it_says(tmp_path, number):
    """Without statistics. Pair 0 differs as much as records can, so it reaches the promise; pair 2 is an empty one."""
    found = share(tmp_path, number)
    assert found.holds
    assert number != 0 or found.of_stated > 0.99


@pytest.mark.long
def test_half_of_the_noise_is_convicted(tmp_path, halved):
    found = share(tmp_path, 0)
    assert not found.holds
    assert found.of_stated > 1.9


FALSE_ALARM = 1e-6
ROUNDS = 200


def noise_of_rounds(folder: Path) -> tuple[np.ndarray, DiscreteLaplace]:
    """The noise of every released cell of some hundred rounds of a bandit with one user each, and its stated law."""
    values = {"states": "1", "horizon": "1", "model": '"central"', "epsilon": "1.0", "number": str(ROUNDS + 1)}
    file = declare(folder, **values, recipe='"central/joint-histogram-laplace"')
    file.write_text(file.read_text().replace("options = {}", f"options = {{ blocks = {ROUNDS + 1} }}", 1))
    (channel,) = prepare(read_study(file)).privatizer.channels
    assert isinstance(channel, Channel)
    found, before = [], np.zeros(channel.encoder.size)
    with serving(file) as place:
        for i in range(ROUNDS):
            handed = place.policy()
            action = handed["policy"]["actions"][0][0]
            place.take_part(lambda _act, i=i, action=action: [(0, action, float(i % 2))])
            place.wait(handed["round"])
            (run,) = place.coordinator._live.intake._runs
            now = noisy_cells(run)
            counted = np.zeros(channel.encoder.size).reshape(2, 2, 2)  # action, successor or end, reward bit
            counted[action, 1, i % 2] = 1.0
            drawn = (now - before).reshape(2, 2, 2) - counted
            assert not drawn[1 - action].any()  # known zeros carry no noise
            found += drawn[action, 1].tolist()
            before = now
    return np.rint(found), channel.law


def p_value(noise: np.ndarray, law: DiscreteLaplace) -> float:
    """A chi-square test of draws against a law, with the tails put together."""
    reach = max(1, math.ceil(1.2 * law.scale))
    inside = np.arange(-reach, reach + 1)
    chances = np.exp(law.log_probability(inside.astype(float)))
    seen = np.array([np.sum(noise == x) for x in inside] + [np.sum(np.abs(noise) > reach)])
    return float(stats.chisquare(seen, len(noise) * np.append(chances, 1 - chances.sum())).pvalue)


@pytest.mark.long
def test_real_noise_of_a_served_study_has_its_law(tmp_path):
    """400 draws from the operating system, over 200 rounds; one false alarm in 10^6 runs."""
    noise, law = noise_of_rounds(tmp_path)
    assert len(noise) == 2 * ROUNDS
    assert p_value(noise, law) > FALSE_ALARM
    assert p_value(noise, DiscreteLaplace(law.scale / 2)) < FALSE_ALARM


@pytest.mark.long
def test_half_of_the_real_noise_is_convicted(tmp_path, halved):
    noise, law = noise_of_rounds(tmp_path)
    assert p_value(noise, law) < FALSE_ALARM


class Reports:
    """Devices with one of two records, and the log-likelihood ratio of what the service accepted from them."""

    known = True

    def __init__(self, place, threshold: int) -> None:
        self._place, self._lie = place, threshold / WHOLE

    def sample(self, side: int, trials: int, draws) -> np.ndarray:
        reward = float(1 - side)
        del self._place.sent[:]
        for _ in range(trials):
            self._place.take_part(lambda act: [(0, act(0, 0), reward)])
        ones = np.array([json.loads(body)["report"]["items"][0] for body in self._place.sent])
        assert len(ones) == trials
        return np.where(ones == 1, 1.0, -1.0)[:, None] * math.log(1 / self._lie - 1)


TRIALS = 1600


def lost_by_reports(folder: Path) -> float:
    """What reports of one bit with epsilon 1 lose for certain, at confidence 1 - 10^-6."""
    file = declare(folder, states="1", horizon="1", epsilon="1.0", number=str(4 * TRIALS))
    with serving(file) as place:
        pair = Reports(place, KaryRandomizedResponse(1.0, 2).threshold)
        return audit_pairs([Charge(pair, 1.0, 0.0)], trials=TRIALS, seed=1, confidence=1 - 1e-6).lower_bound


@pytest.mark.long
def test_reports_that_arrive_keep_their_promise(tmp_path):
    assert 0.3 < lost_by_reports(tmp_path) <= 1.0


@pytest.mark.long
def test_devices_with_half_of_the_noise_are_convicted(tmp_path, monkeypatch):
    """Their own check of laws would refuse, and so would the service's, so both are taken away."""
    monkeypatch.setattr(Privatizer, "check_unchanged", lambda _self: None)
    monkeypatch.setattr("discreet.client.reports.check_law", lambda *_: None)
    stated = coordinator_module.prepare

    def louder(study, recipe=None):
        honest = stated(study, recipe)
        channel = replace(honest.channel, epsilon=2.0)
        return replace(honest, privatizer=replace(honest.privatizer, channels=(channel,)))

    monkeypatch.setattr(coordinator_module, "prepare", louder)
    assert lost_by_reports(tmp_path) > 1.0

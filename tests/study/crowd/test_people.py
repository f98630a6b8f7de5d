"""A crowd: people walk as their world says, come as many as a round wants, and are judged exactly."""

from __future__ import annotations

import json
import random
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2] / "client"))
from stub_service import Stub

from discreet.base.errors import InvalidInput, Unsupported
from discreet.client.transport import Answer
from discreet.study.crowd.people import Walk, crowd
from discreet.worlds import river_swim
from discreet.worlds.rewards import Finite, FiniteOnTransition, OnTransition
from discreet.worlds.tabular import TabularWorld

WORLD = river_swim(states=3, horizon=4)


class Rounds(Stub):
    """A stub whose rounds close when they have what they want; ``says`` whether it tells how many that is."""

    def __init__(self, sizes, says=True, **options):
        super().__init__(states=3, actions=2, horizon=4, **options)
        self.sizes, self.lock, self.taken, self.most = list(sizes), threading.Lock(), Counter(), Counter()
        self.says, self.fail_every, self.requests = says, 0, 0
        self.open_round()

    def open_round(self, policy=None):
        answer = super().open_round(policy)
        if self.says:
            answer["wanted"] = self.sizes[len(self.rounds) - 1]
        return answer

    def _answer(self, method, path, body):
        with self.lock:
            self.requests += 1
            if self.fail_every and self.requests % self.fail_every == 0:
                return Answer(503, b"{}")
            if len(self.rounds) > len(self.sizes) and path != "/v1/study":
                return Answer(410, json.dumps({"error": "ended", "reason": "thank you"}).encode())
            answer = super()._answer(method, path, body)
            if method == "POST" and answer.status == 200:
                self.taken[json.loads(body)["round"]] += 1
                self.most[len(self.rounds) - 1] += 1
                if self.most[len(self.rounds) - 1] == self.sizes[len(self.rounds) - 1]:
                    if len(self.rounds) < len(self.sizes):
                        self.open_round()
                    else:
                        self.rounds.append(None)
            return answer


SIZES = [1, 1, 2, 3, 5, 8, 13]


def test_people_come_round_by_round_and_regret_is_exact():
    stub = Rounds(SIZES)
    result = crowd(lambda: stub, stub.study.hash, WORLD, sum(SIZES), connections=3)
    assert [stub.taken[k] for k in range(len(SIZES))] == SIZES
    gaps = [WORLD.gap(policy) for policy in (constant(0), constant(1))]
    assert result.total_regret == pytest.approx(sum(size * gaps[k % 2] for k, size in enumerate(SIZES)))
    assert (result.rounds, result.accepted, result.refused) == (len(SIZES), sum(SIZES), {})
    assert int(result.people[-1]) == sum(SIZES)
    assert result.last_gap == pytest.approx(gaps[0])


@pytest.mark.parametrize("response", ["kary", "unary"])
def test_people_who_are_asked_about_first_visits_answer_what_the_round_asks(response):
    stub = Rounds(SIZES, asked=True, response=response)
    result = crowd(lambda: stub, stub.study.hash, WORLD, sum(SIZES), connections=3)
    assert (result.accepted, result.refused) == (sum(SIZES), {})
    for body in map(json.loads, stub.received.values()):
        row, about = divmod(body["report"]["question"], 2)
        assert stub.rounds[body["round"]]["questions"][row] > 0
        assert ("bits" in body["report"]) == (response == "unary" and about == 0)


def test_a_service_that_does_not_say_what_it_wants_gets_everybody():
    stub = Rounds(SIZES, says=False)
    result = crowd(lambda: stub, stub.study.hash, WORLD, 200, connections=3)
    assert result.accepted == sum(SIZES)
    assert sum(stub.taken.values()) == sum(SIZES)
    assert set(result.refused) <= {"ended"}


def test_a_busy_service_loses_nobody():
    stub = Rounds(SIZES)
    stub.fail_every = 7
    assert crowd(lambda: stub, stub.study.hash, WORLD, sum(SIZES), connections=2).accepted == sum(SIZES)


def test_fewer_people_than_the_study_takes_end_the_crowd_and_not_the_study():
    stub = Rounds(SIZES)
    result = crowd(lambda: stub, stub.study.hash, WORLD, 10, connections=2)
    assert result.accepted == 10
    assert len(stub.rounds) == 5


def test_what_a_device_refuses_stops_the_crowd_with_its_reason():
    stub = Rounds(SIZES)
    stub.rounds[0]["laws"][0]["lie"] = "5"
    with pytest.raises(Unsupported, match="does not keep epsilon"):
        crowd(lambda: stub, stub.study.hash, WORLD, 10)


@pytest.mark.parametrize("world", [river_swim(states=4, horizon=4), river_swim(states=3, horizon=5)])
def test_another_world_than_the_declared_one_is_refused(world):
    stub = Rounds(SIZES)
    with pytest.raises(InvalidInput, match="choose another world"):
        crowd(lambda: stub, stub.study.hash, world, 10)


def test_every_person_needs_an_invitation_where_there_are_some():
    stub = Rounds(SIZES)
    with pytest.raises(InvalidInput, match="too few"):
        crowd(lambda: stub, stub.study.hash, WORLD, 10, tokens=["a", "b"])


def constant(action):
    from discreet.base.policies import Policy

    return Policy(np.full((4, 3), action))


def worlds():
    source = np.random.default_rng(3)
    transitions = source.dirichlet(np.ones(3), size=(2, 3, 2))
    values = np.array([0.0, 0.25, 1.0])
    cumulative = np.cumsum(source.dirichlet(np.ones(3), size=(2, 3, 2)), axis=-1)
    given = np.cumsum(source.dirichlet(np.ones(3), size=(2, 3, 2, 3)), axis=-1)
    for sums in (cumulative, given):
        sums[..., -1] = 1.0
    start = np.array([0.2, 0.5, 0.3])
    for law in (
        Finite(values, cumulative),
        FiniteOnTransition(values, given),
        OnTransition(source.random((2, 3, 2, 3))),
    ):
        yield TabularWorld("toy", transitions, law, start, 2)
    yield river_swim(states=3, horizon=2)


@pytest.mark.parametrize("world", list(worlds()), ids=lambda world: type(world.rewards).__name__)
def test_people_walk_as_their_world_says(world):
    """Start, successors and mean rewards over 20,000 walks; false alarms: once in 10^6 runs of all of it."""
    walk, people = Walk(world, random.Random(4)), 20_000
    starts, pairs = Counter(), Counter()
    rewards = {}
    for i in range(people):
        walk.begin()
        starts[walk.state] += 1
        for h in range(2):
            here, action = walk.state, (i + h) % 2
            reward = walk.step(h, action)
            pairs[h, here, action, walk.state] += 1
            rewards.setdefault((h, here, action), []).append(reward)
    assert fits([starts[s] for s in range(3)], world.start)
    for (h, s, a), seen in rewards.items():
        g = h if len(world.transitions) > 1 else 0
        assert fits([pairs[h, s, a, t] for t in range(3)], world.transitions[g, s, a])
        error = abs(np.mean(seen) - world.means[g, s, a])
        assert error < 6 * 0.5 / np.sqrt(len(seen)) + 1e-9


def fits(seen, law) -> bool:
    seen, law = np.asarray(seen, float), np.asarray(law)
    possible = law > 0
    if seen[~possible].any():
        return False
    if possible.sum() == 1:
        return True
    return bool(stats.chisquare(seen[possible], seen.sum() * law[possible]).pvalue > 1e-8)


def test_a_wrong_world_does_not_fit():
    assert not fits([5000, 5000], [0.45, 0.55])
    assert not fits([5000, 1], [1.0, 0.0])

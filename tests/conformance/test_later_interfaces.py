"""Mechanisms that are still to come fit the interfaces that there are: stubs of each, driven by the real block loop.

Three of them: a stream (every user's own statistic is released by itself), a request for one layer, and a request for a
linear statistic. Each is a session with ``answer(request) -> Release`` and a learner with init, ask, update, policy and
recommend; none of them needs a change in Request, Release, Users or the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.base.errors import Unsupported
from discreet.base.policies import Mixture, Policy
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.release import Estimate, Layer, Linear, Release, Request
from discreet.noise import DiscreteLaplace
from discreet.privacy.guarantee import billboard, from_mechanism, locally
from discreet.simulation.block_loop import run_blocks

WORLD = discreet.worlds.river_swim(states=3, horizon=3).with_time(homogeneous=False)
SHAPE = WORLD.shape
LAW = DiscreteLaplace(5.0)
ENCODER = JointHistogram(SHAPE)
ONE_RELEASE = from_mechanism(LAW, ENCODER.sensitivity(), delta=0.0, name=ENCODER.name)


@dataclass(frozen=True)
class Stub:
    """A privatizer: opens sessions of one kind."""

    session: Any
    opening: int = 0

    def open(self, users, noise, total_users):
        return self.session(users, noise, total_users)


@dataclass
class StubSession:
    users: Any
    noise: Any
    total: int
    served: int = 0
    asked: list = field(default_factory=list)

    @property
    def left(self):
        return self.total - self.served

    def release(self, request, statistics, guarantee, users):
        self.served += users
        self.asked.append(request)
        return Release(
            statistics, self.served, guarantee, lambda n, p: np.full((SHAPE.groups, 3, 2), LAW.sum_quantile(n, p))
        )


class StreamSession(StubSession):
    """Every user's message leaves by itself: one row of the release per user of the request."""

    def answer(self, request):
        users = request.users or 1
        messages = self.users.messages(ENCODER, Context(request.policy), users)
        noisy = messages + self.noise.draw(LAW, 1, messages.size).reshape(messages.shape)
        statistics = {"messages": Estimate(noisy, np.full(noisy.shape, LAW.variance))}
        return self.release(request, statistics, locally(ONE_RELEASE), users)


class LayerSession(StubSession):
    """Answers about one step: the visits of that step alone."""

    def answer(self, request):
        if not isinstance(request.what, Layer):
            raise Unsupported("this session answers one layer at a time")
        users = request.users or 5
        (tally,) = self.users.tally([ENCODER], Context(request.policy, request.what), users)
        visits = ENCODER.marginals(tally)["visits"].values[[request.what.step]]
        noisy = visits + self.noise.draw(LAW, 1, visits.size).reshape(visits.shape)
        statistics = {"visits": Estimate(noisy, np.full(visits.shape, LAW.variance))}
        return self.release(request, statistics, billboard(ONE_RELEASE), users)


class LinearSession(StubSession):
    """Answers with sums of weights[s, a] * targets[s'] at one step, targets clipped to their public bound."""

    def answer(self, request):
        what, users = request.what, request.users or 5
        (tally,) = self.users.tally([ENCODER], Context(request.policy, what), users)
        counts = ENCODER.marginals(tally)["transitions"].values[what.step]
        clipped = np.clip(what.targets, -what.bound, what.bound)
        clear = what.weights * (counts @ clipped)
        noisy = clear + what.bound * self.noise.draw(LAW, 1, clear.size).reshape(clear.shape)
        statistics = {"linear": Estimate(noisy, np.full(clear.shape, what.bound**2 * LAW.variance))}
        return self.release(request, statistics, billboard(ONE_RELEASE), users)


@dataclass(frozen=True)
class StubLearner:
    """Remembers what it was told, and asks the next question from that: layers in turn, or targets it has learned."""

    what: str
    name: str = "stub"
    needs: frozenset = frozenset()

    def init(self, problem, coins):
        return ()

    def ask(self, state):
        if self.what == "layer":
            return Request(self.policy(state), users=4, what=Layer(len(state) % SHAPE.horizon))
        if self.what == "linear":
            targets = state[-1].ravel()[:3] if state else np.ones(3)
            return Request(self.policy(state), what=Linear(len(state) % 2, targets, np.ones((3, 2)), bound=2.0))
        return Request(self.policy(state), users=3)

    def update(self, state, release):
        (estimate,) = release.statistics.values()
        return (*state, estimate.values)

    def policy(self, state):
        fixed = [Policy(np.full((3, 3), action, np.int64)) for action in (0, 1)]
        return Mixture(tuple(fixed), [0.5, 0.5]) if len(state) % 2 else fixed[1]

    def recommend(self, state):
        return self.policy(state)


@pytest.mark.parametrize(
    ("session", "what", "episodes", "questions", "shape", "model"),
    [
        (StreamSession, "stream", 12, 4, (3, ENCODER.size), "local"),
        (LayerSession, "layer", 12, 3, (1, 3, 2), "joint"),
        (LinearSession, "linear", 15, 3, (3, 2), "joint"),
    ],
    ids=["stream", "layer", "linear"],
)
def test_a_later_mechanism_runs_in_todays_loop(session, what, episodes, questions, shape, model):
    opened = []

    def recorded(*arguments):
        opened.append(session(*arguments))
        return opened[-1]

    record = run_blocks(WORLD, StubLearner(what), Stub(recorded), episodes, 0, 0, lambda _n: None, keep_release=True)
    asked = opened[0].asked
    assert len(asked) == questions
    assert record.release.users == episodes
    assert record.release.guarantee.model == model
    (estimate,) = record.release.statistics.values()
    assert estimate.values.shape == shape
    assert record.release.width(2, 0.1).max() == LAW.sum_quantile(2, 0.1)
    assert record.regret[-1] > 0
    assert record.switches == questions - 1
    if what == "layer":
        assert [request.what for request in asked] == [Layer(0), Layer(1), Layer(2)]
    if what == "linear":  # the second question was made from the first answer
        assert not np.array_equal(asked[0].what.targets, asked[1].what.targets)


def test_a_session_of_one_kind_refuses_the_questions_of_another():
    with pytest.raises(Unsupported, match="one layer"):
        run_blocks(WORLD, StubLearner("stream"), Stub(LayerSession), 6, 0, 0, lambda _n: None)

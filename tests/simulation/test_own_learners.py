"""Somebody's own learner is checked at the door: one sentence for each mistake that people made."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet import learners, worlds
from discreet.base.errors import DiscreetError
from discreet.mechanisms.release import Request

ZEROS = np.zeros((2, 2), np.int64)


class Own:
    name, needs = "own", frozenset({"visits"})

    def init(self, problem, coins):
        return 0

    def ask(self, state):
        return Request(discreet.Policy(ZEROS))

    def update(self, state, release):
        return state

    def policy(self, state):
        return discreet.Policy(ZEROS)

    recommend = policy


def mistake(**changed):
    return type("Mine", (Own,), changed)()


@pytest.mark.parametrize(
    ("learner", "privacy", "said"),
    [
        (mistake(needs={"visits"}), None, "Mine.needs must be a frozenset of statistics, got a set"),
        (mistake(update=None), None, "Mine is no learner yet: it lacks update"),
        (mistake(name=None), None, "its name must be text"),
        (mistake(ask=lambda self, state: ZEROS), None, "what Mine.ask returns must be a Request, got a ndarray"),
        (mistake(ask=lambda self, state: Request(ZEROS)), None, "the policy of a Request must be a discreet.Policy"),
        (mistake(recommend=lambda self, state: ZEROS), None, "what Mine.recommend returns must be a discreet.Policy"),
        (
            mistake(needs=frozenset({"vists"})),
            None,
            "the learner needs 'vists', and no none recipe that fits here releases it: did you mean visits",
        ),
        (
            mistake(needs=frozenset({"vists"})),
            discreet.Central(1.0, 1e-5),
            "no central recipe that fits here",
        ),
        (mistake(needs=frozenset({"zzz"})), discreet.Local(1.0), "register a recipe of your own that releases it"),
    ],
)
def test_each_mistake_is_one_sentence(learner, privacy, said):
    world = worlds.random_mdp(states=2, actions=2, horizon=2)
    with pytest.raises(DiscreetError) as caught:
        discreet.simulate(world, learner, privacy or discreet.NoPrivacy(), episodes=20)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 250


def test_one_without_mistakes_runs_also_by_name():
    world = worlds.random_mdp(states=2, actions=2, horizon=2)
    assert discreet.simulate(world, Own(), discreet.NoPrivacy(), episodes=20).episodes[-1] == 20
    learners.register("of-mine", Own)
    try:
        discreet.simulate(world, "of-mine", discreet.NoPrivacy(), episodes=20)
    finally:
        learners.LEARNERS.forget("of-mine")

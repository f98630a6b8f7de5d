"""States of learners as bytes: the same again, or refused by name. Runs are in
tests/mechanisms/test_saved_intakes.py."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.saved_arrays import from_bytes, to_bytes
from discreet.base.streams import COINS, stream
from discreet.learners.base import Problem
from discreet.learners.registry import make_learner
from discreet.learners.saved_learners import load_state, save_state

PROBLEM = Problem(discreet.worlds.river_swim(states=3, horizon=3).shape, 100)


@pytest.mark.parametrize("name", ["ucbvi", "psrl", "ucbpo", "obi"])
def test_a_learner_that_has_seen_nothing_comes_back(name):
    learner = make_learner(name)
    state = learner.init(PROBLEM, stream(0, 0, COINS))
    content = save_state(learner, state)
    again = load_state(learner, PROBLEM, None, content)
    assert save_state(learner, again) == content
    assert learner.policy(again) == learner.policy(state)
    assert learner.recommend(again) == learner.recommend(state)
    assert again.release is None
    assert again.coins.tobytes() == state.coins.tobytes()


def test_states_of_another_learner_or_problem_are_refused():
    learner = make_learner("ucbvi")
    content = save_state(learner, learner.init(PROBLEM, stream(0, 0, COINS)))
    for other in (make_learner("obi"), make_learner("ucbvi", threshold=2.0), make_learner("ucbpo")):
        with pytest.raises(InvalidInput, match=f"another learner or problem, not of {other.name}"):
            load_state(other, PROBLEM, None, content)
    with pytest.raises(InvalidInput, match="another learner or problem"):
        load_state(learner, PROBLEM._replace(episodes=99), None, content)


def test_damaged_states_are_refused():
    learner = make_learner("ucbvi")
    content = save_state(learner, learner.init(PROBLEM, stream(0, 0, COINS)))
    with pytest.raises(InvalidInput, match="damaged"):
        load_state(learner, PROBLEM, None, content[:-1])
    arrays = from_bytes(content)
    for name in arrays.keys() - {"policy.actions"}:
        with pytest.raises(InvalidInput, match="not one of ucbvi"):
            load_state(learner, PROBLEM, None, to_bytes({n: a for n, a in arrays.items() if n != name}))
    with pytest.raises(InvalidInput, match="no policy is made of no tables"):
        load_state(learner, PROBLEM, None, to_bytes({n: a for n, a in arrays.items() if n != "policy.actions"}))
    with pytest.raises(InvalidInput, match="give it that release again"):
        load_state(learner, PROBLEM, None, to_bytes(arrays | {"released": np.array(True)}))


@pytest.mark.parametrize("name", ["policy-elimination", "uc-o-reps"])
def test_learners_that_remember_more_are_refused_by_name(name):
    learner = make_learner(name)
    with pytest.raises(Unsupported, match=f"state of {name} cannot be saved .* take ucbvi, obi, psrl or ucbpo"):
        save_state(learner, None)

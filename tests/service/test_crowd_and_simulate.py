"""A served study learns as the simulation does: crowds over HTTP against runs of ``simulate``, on a small bandit."""

from __future__ import annotations

import numpy as np
import pytest
from served import declare

from discreet.cli.crowd_service import served
from discreet.client.exact import Tape
from discreet.client.transport import Connection
from discreet.crowd.people import crowd
from discreet.service.mechanism import prepare
from discreet.service.study import read_study
from discreet.simulation.run import simulate
from discreet.worlds.registry import make_world

USERS, CROWDS, RUNS = 300, 3, 60
WORLD = make_world("bernoulli-arms", means="0.2,0.8")


def compare(folder) -> float:
    """How many standard errors of the difference the mean regret of crowds is away from that of simulate."""
    file = declare(folder, states="1", horizon="1", epsilon="4.0", number=str(USERS))
    mechanism = prepare(read_study(file))
    runs = simulate(WORLD, mechanism.learner, mechanism.privatizer, episodes=USERS, runs=RUNS, seed=5).total_regret
    found = []
    for seed in range(CROWDS):
        with served(file) as place:
            met = crowd(lambda url=place.url: Connection(url), place.study_hash, WORLD, USERS, seed=seed)
        assert (met.accepted, met.refused) == (USERS, {})
        found.append(met.total_regret)
    return float((np.mean(found) - runs.mean()) / (runs.std(ddof=1) * np.sqrt(1 / CROWDS + 1 / RUNS)))


@pytest.mark.service
def test_crowds_have_the_regret_of_simulate(tmp_path):
    """Five standard errors: a false alarm once in a million runs if regret were normal, and some more for its tail."""
    assert abs(compare(tmp_path)) < 5


@pytest.mark.service
def test_crowds_whose_reports_say_nothing_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr(Tape, "item", lambda tape, _item, items, _threshold: tape.below(items))
    assert compare(tmp_path) > 5

"""A served study learns as the simulation does: crowds over HTTP against runs of ``simulate``, on a small bandit."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from served import declare

from discreet.cli.crowd_service import served
from discreet.client.exact import Tape
from discreet.client.transport import Connection
from discreet.simulation.simulate import simulate
from discreet.study.crowd.people import crowd
from discreet.study.service.declaration import read_study
from discreet.study.service.study_mechanism import prepare
from discreet.worlds.registry import make_world

USERS, CROWDS, RUNS = 300, 4, 60
WORLD = make_world("bernoulli-arms", means="0.2,0.8")


def share(found: list[float], runs: list[float]) -> float:
    """The share of choices of that many among all numbers whose sum is as far out as that of ``found``, on its side.

    With one law for both all choices are alike, whatever that law is (one run in a thousand is ten times the mean, so
    standard errors say little): the share is at most p with probability 2 p.
    """
    sums = np.sum(list(combinations([*found, *runs], len(found))), axis=1)
    return float(min(np.mean(sums >= sum(found) - 1e-9), np.mean(sums <= sum(found) + 1e-9)))


def compare(folder, number) -> float:
    """The share of crowds over HTTP among runs of simulate."""
    folder.mkdir()
    file = declare(folder, states="1", horizon="1", epsilon="4.0", number=str(USERS))
    mechanism = prepare(read_study(file))
    runs = simulate(
        WORLD, mechanism.learner, mechanism.privatizer, episodes=USERS, runs=RUNS, seed=5 + number
    ).total_regret
    found = []
    for seed in range(CROWDS):
        with served(file) as place:
            met = crowd(
                lambda url=place.url: Connection(url), place.study_hash, WORLD, USERS, seed=seed + CROWDS * number
            )
        assert (met.accepted, met.refused) == (USERS, {})
        found.append(met.total_regret)
    return share(found, list(runs))


def differ(folder) -> bool:
    """Whether both of two comparisons say so: each errs once in a thousand times, with people and runs of its own."""
    return all(compare(folder / str(number), number) < 5e-4 for number in range(2))


@pytest.mark.service
def test_crowds_have_the_regret_of_simulate(tmp_path):
    assert not differ(tmp_path)


@pytest.mark.service
def test_crowds_whose_reports_say_nothing_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr(Tape, "item", lambda tape, _item, items, _threshold: tape.below(items))
    assert differ(tmp_path)

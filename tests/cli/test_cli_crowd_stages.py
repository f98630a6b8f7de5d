"""What a crowd says about learning: stages, exact shares of the regret of playing at random, and what comes next."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.policies import uniform_policy
from discreet.cli.crowd import next_steps, stages
from discreet.worlds.registry import make_world

WORLD = make_world("bernoulli-arms", means="0.2,0.8")
GAP = WORLD.gap(uniform_policy(WORLD.shape))


def test_stages_are_shares_of_playing_at_random():
    people = np.arange(1, 161)
    gaps = np.where(people <= 80, GAP, GAP / 4)
    found = stages(people, np.cumsum(gaps), WORLD)
    assert [(stage.first, stage.last) for stage in found] == [(1, 10), (11, 20), (21, 40), (41, 80), (81, 160)]
    assert [stage.share for stage in found] == pytest.approx([1, 1, 1, 1, 0.25])
    assert found[-1].row() == ["81 to 160", "25%", "#" * 5]


def test_stages_end_where_regret_is_known():
    people = np.array([1, 3, 30, 64])
    found = stages(people, GAP * np.array([1.0, 3.0, 10.0, 20.0]), WORLD)
    assert [(stage.first, stage.last) for stage in found] == [(1, 3), (4, 30), (31, 64)]
    assert found[-1].share == pytest.approx(10 / 34)


def test_where_there_is_nothing_to_learn_nothing_is_said():
    same = make_world("bernoulli-arms", means="0.5,0.5")
    assert stages(np.array([1, 2]), np.zeros(2), same) == []
    assert stages(np.zeros(0, np.int64), np.zeros(0), WORLD) == []


def test_the_next_steps_name_the_study_and_the_command_as_it_was_called(monkeypatch):
    assert "discreet study check here.toml" in next_steps("here.toml")
    monkeypatch.setattr("sys.argv", [".venv/bin/discreet"])
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert ".venv/bin/discreet study check here.toml" in next_steps("here.toml")

"""The study of the browser example, simulated: the app learns what people follow, in every run."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

import discreet
from discreet.learners import UCBVI

FOLDER = Path(__file__).parents[3] / "examples" / "browser_study"


@pytest.fixture
def world(monkeypatch):
    """The habits of the example's simulated people."""
    monkeypatch.syspath_prepend(str(FOLDER))
    from run import make_world

    yield make_world()
    sys.modules.pop("run")


@pytest.mark.long
def test_the_app_learns_what_people_follow_in_every_run(world):
    """Fixed seeds. The twin forgets that the noise of a row stays until somebody plays it again, and locks in."""
    study = tomllib.loads((FOLDER / "study.toml").read_text())
    target = discreet.Local(study["privacy"]["epsilon"], recipe=study["privacy"]["recipe"])
    assert study["privacy"]["model"] == "local"

    def gaps(learner, runs):
        return discreet.simulate(world, learner, target, episodes=4000, runs=runs, seed=5).final_gap

    assert gaps(UCBVI(), 12).max() < 0.45
    assert (gaps(UCBVI(patience=0.0), 28) > 1.0).any()

"""Worlds, learners, recipes and privatizers of one's own: accepted wherever names are, and by name once registered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

import discreet
from discreet.cli import main
from discreet.learners.registry import LEARNERS
from discreet.learners.ucbvi import UCBVI
from discreet.recipes.recipe import Recipe
from discreet.recipes.registry import build, find
from discreet.worlds.registry import WORLDS


@dataclass(frozen=True)
class Mine(UCBVI):
    name: ClassVar[str] = "mine"


def small(doors: int = 2):
    """Two doors, one better."""
    return replace(discreet.worlds.bernoulli_arms(means="0.2,0.8" if doors == 2 else "0.2,0.5,0.8"), name="doors")


@pytest.fixture
def registered():
    known = find("central/joint-histogram-laplace", "central")
    discreet.learners.register("mine", Mine)
    discreet.worlds.register("doors", small)
    discreet.recipes.register(replace(known, name="central/mine", source="me", automatic=False))
    yield
    LEARNERS.forget("mine")
    WORLDS.forget("doors")
    discreet.recipes.forget("central/mine")


def test_registered_names_work_in_python(registered):
    privacy = discreet.Central(1.0, recipe="central/mine", options={"blocks": 3})
    result = discreet.simulate("doors", "mine", privacy, episodes=12, runs=2)
    assert (result.world, result.learner, result.recipe) == ("doors", "mine", "central/mine")
    comparison = discreet.compare("doors", learners=["ucbvi", "mine"], privacy=privacy, episodes=12, runs=2)
    assert [found.recipe for found in comparison] == ["central/mine"] * 2
    rehearsed = discreet.rehearse(
        "doors", discreet.Central(1.0), episodes=12, learners=["mine"], recipes=["central/mine"], runs=2
    )
    assert rehearsed.best.candidate.privacy.recipe == "central/mine"
    shape = small().shape
    assert discreet.calibrate(privacy, shape, episodes=12).recipe == "central/mine"
    for target in (privacy, "central/mine"):
        report = discreet.audit(target, shape, episodes=12, trials=2_000, sessions=False)
        assert (report.recipe, report.holds) == ("central/mine", True)
    with pytest.raises(discreet.InvalidInput, match="did you mean central/mine"):
        discreet.audit("Central/Mine", shape)


def test_registered_names_work_on_the_command_line(registered, capsys):
    typed = ["simulate", "--world", "doors", "--learner", "mine", "--privacy", "central", "--epsilon", "1"]
    with pytest.raises(SystemExit) as stop:
        main([*typed, "--recipe", "central/mine", "--option", "blocks=3", "--episodes", "12", "--runs", "2"])
    assert not stop.value.code
    out = capsys.readouterr().out
    assert "central/mine" in out
    assert "doors" in out
    with pytest.raises(SystemExit):
        main(["simulate", "--learner", "Mine"])
    assert "did you mean mine" in capsys.readouterr().err


def test_things_that_have_no_name(tmp_path):
    world, shape = small(), small().shape
    privatizer = build(discreet.Central(1.0, options={"blocks": 3}), shape, 12)

    def make(shape, episodes):
        return build(discreet.Central(1.0, options={"blocks": 3}), shape, episodes)

    for target in (privatizer, make):
        result = discreet.simulate(world, Mine(), target, episodes=12)
        assert result.guarantee.epsilon == privatizer.guarantee.epsilon
        assert discreet.audit(target, shape, episodes=12, trials=2_000, sessions=False).holds
        assert discreet.calibrate(target, shape, episodes=12).recipe == privatizer.recipe
    found = discreet.compare([world], learners=[Mine(), Mine(threshold=2.0)], privacy=[privatizer, make], episodes=12)
    assert len(found) == 4
    assert len(set(found.labels)) == 4
    assert discreet.rehearse(world, discreet.Central(1.0), episodes=12, learners=[Mine()], runs=2).rows


def test_a_recipe_that_builds_from_scratch():
    def assemble(privacy, shape, episodes, options):
        return build(discreet.Central(privacy.epsilon, options={"blocks": options["parts"]}), shape, episodes)

    recipe = Recipe("central/from-scratch", "central", "for a test", assemble, options={"parts": 2})
    discreet.recipes.register(recipe)
    try:
        privacy = discreet.Central(1.0, recipe="central/from-scratch", options={"parts": 4})
        result = discreet.simulate(small(), "ucbvi", privacy, episodes=12)
        assert result.recipe == "central/from-scratch"
        assert result.guarantee.epsilon <= 1.0
    finally:
        discreet.recipes.forget("central/from-scratch")

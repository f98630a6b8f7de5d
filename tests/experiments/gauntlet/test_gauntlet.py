"""The gauntlet's cells can be built, a tiny one runs, is stored and is not run again."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from experiments.gauntlet.__main__ import main
from experiments.gauntlet.cells import (
    BANDIT,
    FOR_HEAVY,
    HEAVY,
    STANDARD,
    TRUST,
    TUNING,
    VALIDATION,
    WORLDS,
    learner_of,
    make_cells,
    trust_of,
    worlds_of,
)

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.policies import uniform_policy
from discreet.worlds.family import WorldFamily
from experiments.gauntlet import running

TINY = ["--world", "arms-2", "--learner", "ucbvi", "--users", "300", "--runs", "3", "--jobs", "1", "--tag", "here"]


def test_worlds_of_every_kind_are_in_both_halves():
    assert len({entry.name for entry in WORLDS}) == len(WORLDS) >= 16
    kinds = {half: {entry.kind for entry in WORLDS if entry.half == half} for half in (TUNING, VALIDATION)}
    assert kinds[TUNING] == kinds[VALIDATION]
    assert any(entry.per_step for entry in WORLDS)


def test_no_world_is_in_both_halves():
    made = {half: [(e.world, dict(e.options), e.per_step) for e in worlds_of(half)] for half in (TUNING, VALIDATION)}
    assert not [world for world in made[TUNING] if world in made[VALIDATION]]


@pytest.mark.parametrize("entry", WORLDS, ids=lambda entry: entry.name)
def test_every_world_can_be_made_and_uniform_play_has_regret(entry):
    world = entry.make()
    instance = world.instance(3) if isinstance(world, WorldFamily) else world
    assert instance.gap(uniform_policy(instance.shape)) > 0.005
    assert instance.shape.homogeneous != entry.per_step


def test_cells_have_the_runs_that_are_promised():
    cells = make_cells(WORLDS)
    many = {(cell.entry.kind == BANDIT, cell.trust == "none", cell.entry.small): cell.runs for cell in cells}
    assert many[True, False, True] == many[False, True, True] == 100
    assert many[False, False, True] == many[False, True, False] == 20
    assert {cell.runs for cell in make_cells(WORLDS, quick=True)} == {8, 4}
    assert {cell.learner for cell in cells if cell.entry.kind == HEAVY} == set(FOR_HEAVY)
    assert {cell.users for cell in cells} == {20_000, 100_000, 1_000_000}
    for name in (*STANDARD, *FOR_HEAVY):
        assert learner_of(name).name == name


def test_names_take_options():
    assert learner_of("ucbvi,reward_scale=0.25").reward_scale == 0.25
    assert trust_of("central-1,recipe=central/first-visit-laplace,blocks=60").options == {"blocks": 60}
    assert trust_of("shuffle-1") == TRUST["shuffle-1"]
    for bad in ("central-2", "central-1,blocks"):
        with pytest.raises(InvalidInput):
            trust_of(bad)
    with pytest.raises(InvalidInput, match="unknown world of the gauntlet"):
        worlds_of(None, ["arms-3"])


def test_a_tiny_cell_runs_is_stored_and_resumes(tmp_path, capsys):
    assert main([*TINY, "--trust", "none", "--out", str(tmp_path)]) == 0
    (stored,) = tmp_path.glob("*.json")
    row = json.loads(stored.read_text())
    assert (row["status"], row["finished"], row["half"]) == ("done", 3, TUNING)
    assert row["uniform_gap"] == pytest.approx([0.1] * 3)
    assert row["share"] == pytest.approx(np.mean(row["regret"]) / 30)
    assert row["worst"] == pytest.approx(max(row["regret"]) / 30)
    stored.write_text(json.dumps({**row, "mark": True}))
    assert main([*TINY, "--trust", "none", "shuffle-1", "--out", str(tmp_path)]) == 0
    assert "2 cells, 1 of them" in capsys.readouterr().out
    assert json.loads(stored.read_text())["mark"]  # not run again
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_what_defines_a_cell_defines_its_file(tmp_path):
    (cell,) = make_cells(worlds_of(None, ["arms-2"]), ["ucbvi"], ["none"])
    others = [replace(cell, **change) for change in ({"users": 5}, {"runs": 2}, {"seed": 7}, {"learner": "psrl"})]
    others.append(replace(cell, entry=replace(cell.entry, options={"means": "0.6,0.3"})))
    paths = {running.path_of(other, "a", tmp_path) for other in others} | {running.path_of(cell, "b", tmp_path)}
    assert len(paths | {running.path_of(cell, "a", tmp_path)}) == len(others) + 2
    assert all(cell.run_seed(0) == other.run_seed(0) for other in others if other.seed == cell.seed)


def test_a_refusal_is_a_row_that_says_why():
    (cell,) = make_cells(worlds_of(None, ["heavy-1.8-river-4"]), ["policy-elimination"], ["shuffle-1"], users=100)
    row = running.measure(cell, limit=5.0)
    assert row["status"] == "refused"
    assert row["reason"]


@pytest.mark.parametrize(("limit", "finished"), [(500.0, 1), (2_500.0, 3)])
def test_a_cell_without_time_keeps_the_runs_that_it_had(monkeypatch, limit, finished):
    """By a clock of our own, on which a look takes a thousand seconds: real ones may stand still for several runs."""
    looks = itertools.count(0, 1_000)
    monkeypatch.setattr(running, "time", SimpleNamespace(process_time=lambda: float(next(looks))))
    (cell,) = make_cells(worlds_of(None, ["arms-2"]), ["ucbvi"], ["none"], users=2_000)
    row = running.measure(cell, limit=limit)
    assert (row["status"], row["finished"]) == ("fewer runs", finished)


def test_a_stuck_run_is_counted_and_a_poor_world_does_not_decide_the_mean():
    measured = {"regret": [10.0, 30.0], "final_gap": [0.02, 0.03], "uniform_gap": [0.1, 0.3]}
    row = running.summary(100, measured)
    assert (row["stuck"], row["worst"], row["share"]) == (0, pytest.approx(1.0), pytest.approx(1.0))
    assert running.summary(100, {**measured, "final_gap": [0.026, 0.03]})["stuck"] == 1


@pytest.mark.parametrize("words", [["--world", "arms-3"], ["--learner", "ucbv"], ["--trust", "central-3"]])
def test_unknown_names_are_refused_before_anything_runs(words, tmp_path: Path, capsys):
    assert main([*words, "--out", str(tmp_path / "new")]) == 2
    assert "unknown" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["random-play", "guided-play"])
def test_references_explore_and_recommend(name):
    """All users explore, whatever was released; what they recommend is far better than what they do."""
    world, learner = discreet.worlds.river_swim(states=3, horizon=6), learner_of(name)
    result = discreet.simulate(world, learner, discreet.NoPrivacy(), episodes=2000, seed=3)
    uniform, regret = world.gap(uniform_policy(world.shape)), result.total_regret[0] / 2000
    assert regret == pytest.approx(uniform) if name == "random-play" else 0.02 < regret / uniform < 0.6
    assert result.final_gap[0] < 0.02 * uniform


def test_references_have_no_options():
    with pytest.raises(InvalidInput, match="guided-play"):
        learner_of("guided-play,astray=1")

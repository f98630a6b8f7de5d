"""The matrix: every cell runs and keeps its promise, or says why it does not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

import discreet
from discreet.base.policies import MIXED, uniform_policy
from discreet.cli import main
from discreet.learners.registry import LEARNERS
from discreet.mechanisms.release import Request
from discreet.reproduce import matrix as module
from discreet.reproduce.matrix import (
    MODELS,
    Place,
    Refusal,
    draw_matrix,
    first_reason,
    refusal_table,
    run_matrix,
    write_matrix,
)
from discreet.reproduce.run import open_executor
from discreet.worlds.registry import WORLDS

PLACES = (
    Place("river", "river-swim", {"states": 3, "horizon": 3}),
    Place("river, per step", "river-swim", {"states": 2, "horizon": 2}, per_step=True),
    Place("bandit", "bandit", {"arms": 3}),
    Place("layered", "layered", {"layers": "1,2,1", "actions": 2}),
)
PROMISES = {"central": ("joint", "central"), "shuffle": ("shuffle",), "local": ("local",)}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    with open_executor("threads:1") as pool:
        return run_matrix(tmp_path_factory.mktemp("matrix"), pool, episodes=24, runs=2, places=PLACES)


@pytest.mark.slow
def test_cells_keep_their_promise(matrix):
    ran = list(matrix.ran())
    assert len(ran) > 20
    for learner, model, place, cell in ran:
        kept = cell.data["guarantee"]
        if model == "none":
            assert kept["model"] == "none"
            continue
        where = f"{learner}, {model}, {place.label}"
        assert kept["model"] in PROMISES[model], where
        assert kept["epsilon"] is not None, where
        assert kept["epsilon"] <= 1.0, where
        assert kept["delta"] <= 1e-5, where


@pytest.mark.slow
def test_every_learner_runs_somewhere_and_privately(matrix):
    for learner in LEARNERS:
        models = {model for name, model, _, _ in matrix.ran() if name == learner}
        assert models, learner
        if learner != "uob-reps":  # it has no private form
            assert models - {"none"}, learner


def test_every_trust_model_serves_someone(matrix):
    assert {model for _, model, _, _ in matrix.ran()} == set(MODELS)


def test_a_refusal_says_why(matrix):
    page = write_matrix(matrix)
    refusals = [cell.refused for cell in matrix.results.values() if cell.refused is not None]
    assert refusals
    assert all(len(reason.split()) > 4 for reason in refusals)
    assert all(first_reason(reason) in page for reason in refusals)


def test_the_page_and_the_picture_show_all_cells(matrix):
    page = write_matrix(matrix)
    assert all(place.label in page for place in PLACES)
    assert all(learner in page for learner in LEARNERS)
    assert draw_matrix(matrix).startswith(b"\x89PNG")
    assert draw_matrix(matrix, "dark") != draw_matrix(matrix)


def test_refusals_are_a_table_that_names_each_cell_once():
    cells = [
        Refusal("no", who, model, where) for who in ("a", "b") for where in ("x", "y") for model in ("none", "local")
    ]
    assert refusal_table([*cells, Refusal("no", "a", "local", "z")], places=2)[2:] == [
        "| no | a, b | none, local | all |",
        "| no | a | local | z |",
    ]
    assert refusal_table([Refusal("no", "a", model, "x") for model in MODELS], places=2)[2:] == ["| no | a | all | x |"]


@dataclass(frozen=True)
class NeverLearns:
    """The smallest learner: it plays at random and looks at nothing."""

    name: ClassVar[str] = "never-learns"
    needs: ClassVar[frozenset[str]] = frozenset({"visits", MIXED})

    def init(self, problem, coins):
        return problem

    def ask(self, state):
        return Request(self.policy(state))

    def update(self, state, release):
        return state

    def policy(self, state):
        return uniform_policy(state.shape)

    def recommend(self, state):
        return self.policy(state)


@pytest.fixture
def registered():
    """A learner and two worlds of one's own, one of which cannot be made by its name alone."""
    discreet.learners.register("never-learns", NeverLearns)
    discreet.worlds.register("two-doors", lambda: discreet.worlds.bandit(arms=2))
    discreet.worlds.register("many-doors", lambda doors: discreet.worlds.bandit(arms=doors))
    yield
    LEARNERS.forget("never-learns")
    WORLDS.forget("two-doors")
    WORLDS.forget("many-doors")


def test_what_users_register_has_a_row_and_a_table(registered, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "PLACES", PLACES[:1])
    with pytest.raises(SystemExit) as stop:
        main(["matrix", "--episodes", "12", "--runs", "1", "--executor", "threads:1", "--out", str(tmp_path)])
    assert not stop.value.code
    page = (tmp_path / "matrix.md").read_text()
    river, doors, many = (part.partition("\n## ")[0] for part in page.split("\n## ")[1:4])
    assert river.startswith("river\n")
    assert doors.startswith("two-doors\n")
    assert many.startswith("many-doors\n")
    for table in (river, doors):
        (row,) = (line for line in table.splitlines() if line.startswith("| never-learns |"))
        assert row.replace("\u00a0", " ").count("| 1.000 ± 0.000 ") == len(MODELS), (
            "it runs under every trust model, and is uniform play"
        )
        assert "| ucbvi |" in table
    assert "| never-learns |" not in many
    assert "world 'many-doors' cannot be made without its option 'doors'" in page
    assert "never-learns" in capsys.readouterr().out


def test_what_is_not_registered_has_none(matrix):
    assert "never-learns" not in write_matrix(matrix)
    assert module.all_places() == module.PLACES


def test_a_place_to_run_that_does_not_exist_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["matrix", "--executor", "nowhere", "--out", str(tmp_path / "matrix")])
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1

"""The matrix: every cell runs and keeps its promise, or says why it does not run."""

from __future__ import annotations

import pytest

from discreet.learners.registry import LEARNERS
from discreet.reproduce.matrix import MODELS, Place, draw_matrix, first_reason, run_matrix, write_matrix
from discreet.reproduce.sweep import open_executor

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

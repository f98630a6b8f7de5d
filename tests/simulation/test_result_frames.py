"""Results as frames: tidy, of the library that is asked for, and without one a sentence."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.simulation import result_frames

WORLD = discreet.worlds.river_swim(states=3, horizon=3)


@pytest.fixture(scope="module")
def result():
    return discreet.simulate(WORLD, "ucbvi", discreet.Central(1.0, options={"blocks": 4}), episodes=40, runs=3, seed=5)


@pytest.fixture(params=["pandas", "polars"])
def library(request):
    pytest.importorskip(request.param, reason="needs a library of frames")
    return request.param


def column(frame, name):
    return np.asarray(frame[name])


def test_one_row_per_run(result, library):
    frame = result.to_frame(library)
    assert type(frame).__module__.startswith(library)
    assert frame.shape[0] == 3
    np.testing.assert_array_equal(column(frame, "run"), [0, 1, 2])
    np.testing.assert_array_equal(column(frame, "regret"), result.total_regret)
    np.testing.assert_array_equal(column(frame, "final_gap"), result.final_gap)
    np.testing.assert_array_equal(column(frame, "switches"), result.switches)
    assert set(column(frame, "learner")) == {"ucbvi"}
    assert set(column(frame, "seed")) == {5}
    np.testing.assert_array_equal(column(frame, "epsilon"), [result.guarantee.epsilon] * 3)


def test_one_row_per_run_and_checkpoint(result, library):
    frame = result.to_frame(library, rows="checkpoints")
    points = len(result.episodes)
    assert frame.shape[0] == 3 * points
    np.testing.assert_array_equal(column(frame, "regret"), result.regret.ravel())
    np.testing.assert_array_equal(column(frame, "episodes"), np.tile(result.episodes, 3))
    np.testing.assert_array_equal(column(frame, "run"), np.repeat([0, 1, 2], points))


def test_data_sets_have_a_row_each(library):
    learned = discreet.simulate(WORLD, "apvi", episodes=30, runs=2, behaviour="uniform")
    frame = learned.to_frame(library)
    np.testing.assert_array_equal(column(frame, "value"), learned.value)
    assert np.isinf(column(frame, "epsilon")).all()
    with pytest.raises(InvalidInput, match="no checkpoints"):
        learned.to_frame(library, rows="checkpoints")


def test_a_comparison_is_one_table(result, library):
    other = discreet.simulate(WORLD, "ucbvi", episodes=40, runs=3, seed=5)
    comparison = discreet.compare({"private": result, "plain": other})
    table = comparison.to_frame(library)
    assert list(column(table, "label")) == ["private", "plain"]
    np.testing.assert_allclose(column(table, "regret"), [result.total_regret.mean(), other.total_regret.mean()])
    assert np.isnan(column(table, "difference")[0])
    row = comparison.rows[1].difference
    assert [column(table, name)[1] for name in ("difference", "low", "high")] == [row.mean, row.low, row.high]
    assert comparison.to_frame(library, rows="runs").shape[0] == 6
    assert comparison.to_frame(library, rows="checkpoints").shape[0] == 6 * len(result.episodes)
    assert set(column(comparison.to_frame(library, rows="runs"), "label")) == {"private", "plain"}


def test_a_rehearsal_is_a_table_of_candidates(library):
    found = discreet.rehearse(
        WORLD, discreet.Central(1.0), episodes=20, recipes=["central/joint-histogram-laplace"], runs=2
    )
    frame = found.to_frame(library)
    assert frame.shape[0] == 1
    assert column(frame, "share_mean")[0] == found.best.mean


def test_without_a_library_it_says_what_to_install(result, monkeypatch):
    monkeypatch.setattr(result_frames, "find_spec", lambda name: None)
    with pytest.raises(Unsupported, match="pip install pandas"):
        result.to_frame()
    with pytest.raises(Unsupported, match="pip install polars"):
        result.to_frame("polars")


def test_the_one_that_is_installed_is_taken(result, monkeypatch):
    pytest.importorskip("polars", reason="needs a library of frames")
    monkeypatch.setattr(result_frames, "find_spec", lambda name: name == "polars" or None)
    assert type(result.to_frame()).__module__.startswith("polars")


@pytest.mark.parametrize("how", [{"library": "Pandas"}, {"library": "duckdb"}, {"rows": "users"}])
def test_unknown_words_are_refused(result, how):
    with pytest.raises(InvalidInput, match="unknown"):
        result.to_frame(**how)

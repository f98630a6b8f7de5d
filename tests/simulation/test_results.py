"""Results: saved and read back, plotted whole, and honest about what is missing."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.files import check_writable, write_atomically
from discreet.simulation.plots import plot_results
from discreet.simulation.result import standard_error

WORLD = discreet.worlds.river_swim(states=3, horizon=3)


@pytest.fixture(scope="module")
def result():
    privacy = discreet.Central(1.0, 1e-6, options={"blocks": 4})
    return discreet.simulate(WORLD, discreet.learners.UCBVI(), privacy, episodes=40, runs=3, seed=2)


def test_a_saved_result_reads_back(result, tmp_path):
    result.save(tmp_path / "deep" / "run")
    back = discreet.load_result(tmp_path / "deep" / "run")
    for field in ("episodes", "regret", "final_gap", "deployed_gap", "switches", "deterministic_switches"):
        np.testing.assert_array_equal(getattr(back, field), getattr(result, field))
    for field in ("world", "learner", "privacy", "recipe", "seed", "seconds"):
        assert getattr(back, field) == getattr(result, field)
    assert back.statement == result.statement
    assert back.guarantee["epsilon"] == result.guarantee.epsilon
    assert back.as_dict() == result.as_dict()
    assert os.listdir(tmp_path / "deep" / "run") == ["result.json"]
    assert discreet.load_result(tmp_path / "deep" / "run" / "result.json").seed == 2


def test_plain_data_has_what_was_promised(result):
    data = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert set(data) >= {
        "world", "learner", "privacy", "recipe", "episodes", "runs", "seed", "regret", "checkpoints", "curve",
        "final_gap", "deployed_gap", "switches", "guarantee", "seconds",
    }  # fmt: skip
    assert data["regret"]["mean"] == pytest.approx(result.regret[:, -1].mean())
    assert data["regret"]["std"] == pytest.approx(result.regret[:, -1].std(ddof=1))
    assert data["regret"]["per_run"] == result.regret[:, -1].tolist()
    assert data["curve"]["mean"] == pytest.approx(result.regret.mean(axis=0).tolist())
    assert data["checkpoints"][-1] == data["episodes"] == 40
    assert (data["runs"], data["seed"], data["simulated"]) == (3, 2, True)
    assert set(data["switches"]) == {"mean", "per_run", "deterministic"}
    assert set(data["guarantee"]) >= {"model", "epsilon", "delta", "rho", "neighbours", "unit", "claimed"}


def test_absent_and_infinite_values_are_null(result, tmp_path):
    nothing = discreet.simulate(WORLD, discreet.learners.UCBVI(), episodes=5)
    assert nothing.as_dict()["guarantee"]["epsilon"] is None
    adversarial = replace(nothing, final_gap=np.array([np.nan]), deployed_gap=np.array([np.nan]))
    for name in ("final_gap", "deployed_gap"):
        assert adversarial.as_dict()[name] == {"mean": None, "per_run": None}
    assert dict(adversarial.facts())["final gap"].startswith("none")
    adversarial.save(tmp_path)
    assert np.isnan(discreet.load_result(tmp_path).final_gap).all()
    assert np.isnan(discreet.load_result(tmp_path).deployed_gap).all()


def test_a_result_of_another_version_is_refused_in_one_sentence(result, tmp_path):
    result.save(tmp_path)
    data = json.loads((tmp_path / "result.json").read_text())
    assert (data["format"], data["version"]) == ("discreet-result", 1)
    for version in (None, 2):
        (tmp_path / "result.json").write_text(json.dumps({**data, "version": version}))
        with pytest.raises(InvalidInput, match=r"saved by another release, such as .* simulate again with --save$"):
            discreet.load_result(tmp_path)


def test_a_person_reads_both_gaps_and_what_is_heuristic(result):
    facts = dict(result.facts())
    assert facts["learner"] == "ucbvi (heuristic constants)"
    assert f"{result.final_gap.mean():.4g}" in facts["final gap"]
    assert f"{result.deployed_gap.mean():.4g}" in facts["deployed gap"]


def test_a_summary_in_one_line(result):
    text = result.summary()
    assert "\n" not in text
    for part in ("ucbvi", "river-swim-3", result.recipe, "40 episodes", "3 runs", "epsilon 1", "delta 1e-06"):
        assert part in text


def test_the_standard_error_of_a_mean():
    assert standard_error(np.array([1.0, 3.0])) == pytest.approx(1.0)
    assert standard_error(np.array([5.0])) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_plot_is_written_whole(result, tmp_path, suffix, magic):
    result.plot(tmp_path / f"regret{suffix}")
    data = (tmp_path / f"regret{suffix}").read_bytes()
    assert data.startswith(magic)
    assert data.rstrip().endswith((b"\x60\x82", b"</svg>", b"%%EOF"))
    assert os.listdir(tmp_path) == [f"regret{suffix}"]


def test_a_plot_of_several_results_names_them(result, tmp_path):
    single = discreet.simulate(WORLD, discreet.learners.UCBVI(), episodes=30)
    plot_results([result, single], tmp_path / "both.svg", labels=["with-privacy", "without"], title="two")
    assert (tmp_path / "both.svg").stat().st_size > 1000


def test_wrong_paths_are_refused_before_anything_is_written(result, tmp_path):
    with pytest.raises(InvalidInput, match="must end in"):
        result.plot(tmp_path / "regret.gif")
    with pytest.raises(InvalidInput, match="does not exist"):
        result.plot(tmp_path / "missing" / "regret.png")
    with pytest.raises(InvalidInput, match="is a folder"):
        check_writable(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot write"):
        result.save(tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"world": 1}', "not json"])
def test_damaged_results_are_refused(tmp_path, content):
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(InvalidInput, match="does not hold a result"):
        discreet.load_result(tmp_path)
    with pytest.raises(InvalidInput, match="cannot read"):
        discreet.load_result(tmp_path / "nowhere")


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    write_atomically(path, "old")

    def fail(*_arguments):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InvalidInput, match="full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.json"]
    monkeypatch.undo()
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"

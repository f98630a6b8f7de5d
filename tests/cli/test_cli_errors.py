"""Bad input: exit code 2, one line that names the remedy, no traceback, and no file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from discreet.base.registry import Named
from discreet.learners.registry import LEARNERS
from discreet.learners.ucbvi import UCBVI

CENTRAL = ("--privacy", "central", "--epsilon", "1")

BAD = [
    (("--privacy", "central", "--epsilon", "-1"), "epsilon must be a finite number above 0, got -1.0"),
    (("--privacy", "central", "--epsilon", "0"), "epsilon must be a finite number above 0, got 0.0"),
    (("--privacy", "central", "--epsilon", "nan"), "epsilon must be a finite number above 0, got nan"),
    (("--privacy", "central"), "give either epsilon or rho"),
    ((*CENTRAL, "--rho", "1"), "give either epsilon or rho"),
    ((*CENTRAL, "--delta", "1"), "delta must lie in [0, 1), got 1.0"),
    ((*CENTRAL, "--delta", "-0.1"), "delta must lie in [0, 1), got -0.1"),
    (("--privacy", "shuffle", "--epsilon", "1"), "delta must be above 0 in the shuffle model"),
    (("--privacy", "none", "--epsilon", "1"), "takes no epsilon"),
    (("--privacy", "none", "--delta", "1e-5"), "takes no epsilon, delta or rho"),
    (("--privacy", "centrl", "--epsilon", "1"), "did you mean central?"),
    (("--world", "riverswim"), "did you mean river-swim?"),
    (("--learner", "ucb"), "did you mean ucbvi or"),
    (("--horizon", "0"), "horizon must be a whole number of at least 1, got 0"),
    (("--states", "1"), "states must be a whole number of at least 2, got 1"),
    (("--world", "bandit", "--horizon", "4"), "world bandit has no option 'horizon'; it has arms, sigma, instance"),
    (("--instance", "3"), "world river-swim has no option 'instance'"),
    (("--world", "random-mdp", "--instance", "-1"), "instance must be a whole number of at least 0"),
    (("--world-option", "name=x"), "world river-swim has no option 'name'"),
    (("--world-option", "states"), "--world-option takes name=value, got 'states'"),
    (("--world-option", "states=many"), "option states must be a whole number, got 'many'"),
    (("--states", "4", "--world-option", "states=5"), "states was given twice"),
    (("--option", "threshold=1", "--option", "threshold=2"), "threshold was given twice"),
    (("--option", "reward_scale=big"), "option reward_scale must be a number, got 'big'"),
    (("--learner", "obi", "--option", "constants=tigth"), "did you mean tight?"),
    (("--option", "bonus_scale=0.1"), "reward_scale, spread_scale"),
    ((*CENTRAL, "--option", "blocks=some"), "blocks must be a whole number"),
    ((*CENTRAL, "--option", "blocks=0"), "blocks must be a whole number of at least 1, got 0"),
    ((*CENTRAL, "--option", "masked=perhaps"), "option masked must be true or false"),
    (
        ("--privacy", "local", "--epsilon", "1", "--recipe", "central/joint-histogram-laplace"),
        "is for the central model, not for local",
    ),
    ((*CENTRAL, "--recipe", "central/joint-histogram-laplac"), "did you mean central/joint-histogram-laplace"),
    ((*CENTRAL, "--recipe", "central/joint-histogram-gaussian"), "cannot give pure privacy"),
    (
        (*CENTRAL, "--recipe", "central/first-visit-laplace", "--per-step"),
        "need a world that is declared time-homogeneous",
    ),
    (("--runs", "0"), "runs must be a whole number of at least 1, got 0"),
    (("--episodes", "0"), "episodes must be a whole number of at least 1, got 0"),
    (("--seed", "-1"), "seed must be a whole number of at least 0, got -1"),
    (("--threads", "0"), "threads must be a whole number of at least 1, got 0"),
]


@pytest.mark.parametrize(
    ("arguments", "sentence"), BAD, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_bad_input_is_one_line_and_exit_code_two(discreet, tmp_path, arguments, sentence):
    outcome = discreet("simulate", *arguments, "--json", str(tmp_path / "result.json"))
    assert outcome.code == 2
    assert outcome.err.startswith("discreet: ")
    assert outcome.err.count("\n") == 1
    assert sentence in outcome.err
    assert outcome.out == ""
    assert not list(tmp_path.iterdir())


def test_an_unknown_option_lists_those_of_learner_and_recipe(discreet):
    outcome = discreet("simulate", *CENTRAL, "--option", "block=4")
    assert outcome.code == 2
    assert "did you mean blocks" in outcome.err
    assert "learner ucbvi takes reward_scale, spread_scale" in outcome.err
    assert "recipe central takes blocks, first, opening, masked" in outcome.err


def test_a_learner_that_needs_what_no_recipe_releases_is_refused(discreet, monkeypatch):
    @dataclass(frozen=True)
    class Hungry(UCBVI):
        needs: ClassVar[frozenset[str]] = frozenset({"weather"})

    monkeypatch.setitem(LEARNERS._entries, "hungry", Named(Hungry, "needs the weather", "a test"))
    outcome = discreet("simulate", *CENTRAL, "--learner", "hungry")
    assert outcome.code == 2
    assert "the learner needs 'weather', and no central recipe that fits here releases it" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("simulate", "--json", "missing/result.json"), "the folder 'missing' does not exist"),
        (("simulate", "--plot", "missing/regret.png"), "the folder 'missing' does not exist"),
        (("simulate", "--plot", "regret.gif"), "the name must end in .png, .svg, .pdf"),
        (("simulate", "--save", "taken"), "it is a file; give a folder"),
        (("simulate", "--save", "taken/inside"), "cannot write results to 'taken/inside'"),
        (("simulate", "--json", "."), "it is a folder; give a file name in it"),
        (("calibrate", "--epsilon", "1", "--json", "missing/c.json"), "the folder 'missing' does not exist"),
        (("recipes", "--json", "missing/r.json"), "the folder 'missing' does not exist"),
        (("worlds", "--json", "missing/w.json"), "the folder 'missing' does not exist"),
        (("learners", "--json", "missing/l.json"), "the folder 'missing' does not exist"),
        (("demo", "--out", "missing/demo.html"), "the folder 'missing' does not exist"),
        (("demo", "--plot", "demo.jpeg"), "the name must end in"),
        (("recipes", "--model", "locale"), "did you mean local?"),
        (("calibrate", "--epsilon", "1", "--failure-probability", "1"), "must lie strictly between 0 and 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_outputs_are_checked_before_any_work(discreet, tmp_path: Path, monkeypatch, arguments, sentence):
    def work(*_arguments, **_keywords):
        raise AssertionError("work was done before the outputs were checked")

    monkeypatch.setattr("discreet.simulation.simulate.simulate", work)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    outcome = discreet(*arguments)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert outcome.err.startswith("discreet: ")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("arguments", [("simulate", "--drawing", "x"), ("simulate", "--runs", "many"), ("perform",)])
def test_usage_errors_exit_with_two(discreet, arguments):
    outcome = discreet(*arguments)
    assert outcome.code == 2
    assert arguments[1 if len(arguments) > 1 else 0] in outcome.err
    assert "Traceback" not in outcome.err


def test_a_missing_extra_is_named_before_any_work(discreet, tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.cli.output.find_spec", lambda _name: None)
    monkeypatch.chdir(tmp_path)
    for arguments in (("simulate", "--plot", "regret.png"), ("demo",)):
        outcome = discreet(*arguments)
        assert outcome.code == 2
        assert "pip install '.[plots]' in your clone" in outcome.err
    assert not list(tmp_path.iterdir())


def test_control_c_says_so_and_leaves_no_file(discreet, tmp_path, monkeypatch):
    def interrupted(*_arguments, **_keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.simulation.simulate.simulate", interrupted)
    outcome = discreet("simulate", "--json", str(tmp_path / "result.json"), "--save", str(tmp_path / "run"))
    assert outcome == (130, "", "discreet: interrupted, nothing was written\n")
    assert not list(tmp_path.iterdir())

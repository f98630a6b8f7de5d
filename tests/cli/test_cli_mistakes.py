"""Fifty things that people type: exit code 2, one line, and what to type instead."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as library
from discreet.cli.usage import UsageError

CENTRAL = ("--privacy", "central", "--epsilon", "1")
TABLE = ("--user", "u", "--step", "t", "--state", "s", "--action", "a")
SIZES = ("--states", "2", "--actions", "2", "--horizon", "2")

MISTAKES = [
    # numbers
    (("simulate", "--episodes", "20k"), "--episodes must be a whole number, got '20k': write 20000"),
    (("simulate", "--episodes", "1.5M"), "--episodes must be a whole number, got '1.5M': write 1500000"),
    (("simulate", "--episodes", "1e4"), "--episodes must be a whole number, got '1e4': write 10000"),
    (("simulate", "--episodes", "20,000"), "--episodes must be a whole number, got '20,000': write 20000"),
    (("simulate", "--episodes=2.5"), "--episodes must be a whole number, got '2.5'"),
    (("simulate", "--runs", "ten"), "--runs must be a whole number, got 'ten'"),
    (("simulate", "--privacy", "central", "--epsilon", "1,5"), "--epsilon must be a number, got '1,5': write 1.5"),
    (("simulate", "--privacy", "central", "--epsilon", "one"), "--epsilon must be a number, got 'one'"),
    (("simulate", "--episodes", "-5"), "episodes must be a whole number of at least 1, got -5"),
    (("simulate", "--runs", "0"), "runs must be a whole number of at least 1, got 0"),
    (("plan", *SIZES, "--users", "1000", "--rewards", "0"), "--rewards needs two values, separated by a space"),
    (("train", "x.csv", *TABLE, *SIZES, "--out", "p.json", "--rewards=-1,1"), "write --rewards -1 1"),
    (("plan", *SIZES, "--users", "10k"), "--users takes whole numbers separated by commas, got '10k'"),
    # options that are not there
    (("simulate", "--episode", "100"), "there is no option --episode: did you mean --episodes?"),
    (("simulate", "--Seed", "1"), "there is no option --Seed: did you mean --seed?"),
    (("simulate", "--per_step"), "there is no option --per_step: did you mean --per-step?"),
    (("simulate", "--drawing", "x"), "there is no option --drawing; see discreet simulate --help"),
    (("simulate", "--world", "frozen-lake", "--size", "8x8"), "write --world-option size=8x8"),
    (("simulate", "--world=bandit", "--arms=7"), "--arms is an option of world bandit: write --world-option arms=7"),
    (("simulate", "--blocks", "30"), "--blocks is an option of recipes: write --option blocks=30"),
    (("calibrate", "--reward-scale", "1"), "an option of learner ucbvi: write --option reward_scale=1"),
    (("simulate", "--learner", "psrl", "--prior", "unit"), "an option of learner psrl: write --option prior=unit"),
    (("simulate", "--two\nlines", "x"), "there is no option --two lines"),
    (("simulate", "--epsilon"), "--epsilon needs a value behind it"),
    (("simulate", "river-swim"), "unexpected argument 'river-swim': a value stands behind the name of its option"),
    # commands
    (("simulat",), "unknown command 'simulat': did you mean simulate?"),
    (("Simulate",), "unknown command 'Simulate': did you mean simulate?"),
    (("learner",), "did you mean learners"),
    (("fit",), "unknown command 'fit': "),
    (("ledger", "opn", "x.db"), "unknown command 'opn': did you mean open?"),
    # names
    (("simulate", "--learner", "UCBVI"), "unknown learner 'UCBVI': did you mean ucbvi?"),
    (("simulate", "--learner", "q-learning"), "vapvi"),
    (("simulate", "--world", "RiverSwim"), "did you mean river-swim"),
    (("simulate", "--world", "river_swim"), "unknown world 'river_swim': did you mean river-swim?"),
    (("simulate", "--privacy", "Central", "--epsilon", "1"), "unknown privacy model 'Central': did you mean central?"),
    (("simulate", "--privacy", "federated"), "choose one of central, local, none, shuffle"),
    (("simulate", *CENTRAL, "--recipe", "first-visit-laplace"), "did you mean central/first-visit-laplace"),
    (("recipes", "central/first-visit"), "did you mean central/first-visit-"),
    (("recipes", "--model", "centrall"), "did you mean central?"),
    (("simulate", "--world-option", "states"), "--world-option takes name=value, got 'states'"),
    (("simulate", "--world", "taxi", "--states", "5"), "world taxi has no option 'states'; it has horizon"),
    (("simulate", *CENTRAL, "--option", "block=3"), "did you mean blocks"),
    # promises
    (("simulate", *CENTRAL, "--rho", "1"), "give either epsilon or rho, not both"),
    (("simulate", "--privacy", "central"), "give either epsilon or rho"),
    (("simulate", "--epsilon", "1"), "--privacy none promises nothing"),
    (("simulate", "--privacy", "shuffle", "--epsilon", "1"), "delta must be above 0 in the shuffle model"),
    (("simulate", *CENTRAL, "--delta", "1"), "delta must lie in [0, 1), got 1.0"),
    (("audit", "--privacy", "none"), "nothing to audit; choose central, local or shuffle"),
    # files
    (("simulate", "--json", "nowhere/x.json"), "the folder 'nowhere' does not exist; make it first"),
    (("simulate", "--plot", "regret.jpg"), "the name must end in .png, .svg, .pdf"),
    (("simulate", "--plot", "a.png", "--json", "a.png"), "name the same file"),
    (("compare", "nowhere"), "cannot read results from 'nowhere'"),
    (("compare", "."), "cannot read results from 'result.json'"),
    (("show", "nowhere.json"), "nowhere.json"),
    (("verify", "nowhere.json"), "nowhere.json"),
    (("verify",), "RECEIPT is missing; see discreet verify --help"),
    (("train", "x.csv", *TABLE, *SIZES), "--out is missing; see discreet train --help"),
    (("evaluate", "p.json"), "give --data, a table whose users judge the policy, or --world"),
    (("rehearse", *CENTRAL), "say where to rehearse: --world NAME, or a shape"),
    (("reproduce",), "give the name of a figure, or all; --list shows them"),
    # where something stands
    (("--quiet", "simulate"), "--quiet stands before its command: write discreet simulate --quiet"),
    (("-q", "worlds"), "write discreet worlds -q"),
    (("help",), "write discreet --help"),
    (("help", "simulate"), "write discreet simulate --help"),
    (("simulate", "help"), "write discreet simulate --help"),
    (("version",), "write discreet --version"),
    (("study", "new"), "STUDY.toml is missing"),
    # twice, or both
    (("simulate", "--learner", "ucbvi", "--learner=psrl"), "--learner was given twice, and simulate takes one"),
    (
        ("train", "x.csv", "--receipt", "r.json", "--receipt", "r.html"),
        "--receipt was given twice, and train takes one",
    ),
    (("evaluate", "p", "--json", "a", "--out", "b"), "--json was given twice, and evaluate takes one: leave one out"),
    # what would do nothing
    (("recipes", "central/joint-histogram-gaussian", "--model", "local"), "--model chooses among all recipes: leave"),
    (
        ("simulate", "--users", "9"),
        "--users does nothing here, because learner ucbvi acts for --episodes: leave it out",
    ),
    (("simulate", "--learner", "apvi", "--episodes", "9"), "--episodes does nothing here, because learner apvi is"),
    (("simulate", "--learner", "apvi", "--users", "0"), "--users must be at least 1, got 0"),
    (("audit", "--recipe", "a", "--recipe", "b"), "discreet rehearse compares several"),
    (("ledger", "open", "x.db", "--dataset", "d", "--epsilon", "1", "--rho", "1"), "give one of them, not both"),
    (("reproduce", "local", "--list"), "leave it out, or leave out 'local'"),
    # names of the literature, and of things that are elsewhere
    (("simulate", "--privacy", "LDP", "--epsilon", "1"), "write --privacy local"),
    (("simulate", "--privacy", "jdp", "--epsilon", "1"), "write --privacy central"),
    (("audit", "--privacy", "zcdp", "--rho", "1"), "write --privacy central, with --rho instead of --epsilon"),
    (("simulate", *CENTRAL, "--recipe", "broken/noise-halved"), "only audit takes it"),
    (("simulate", *CENTRAL, "--recipe", "zzzzzz"), "that discreet recipes lists"),
    (("simulate", "--learner", "perturbed-leader"), "choose one, such as layered or kinds"),
    (("simulate", "--world", "frozen-lake", "--world-option", "size=9x9"), "choose one of 4x4, 8x8"),
    (("worlds", "River_Swim"), "unknown world 'River_Swim': did you mean river-swim?"),
    (("learners", "UCBVI"), "did you mean ucbvi?"),
    # before any work
    (("audit", "--epsilon", "1", "--trials", "0"), "trials must be a whole number of at least 400, got 0"),
    (("demo", "--out", "demo.pdf"), "--out must end in .html, got 'demo.pdf'"),
    (("serve", "x.toml", "--port", "99999"), "--port must be at most 65535, got 99999"),
    (("study", "check", "x.toml"), "there is no study 'x.toml': write one with discreet study new"),
    (("shuffler", "x.toml"), "there is no study 'x.toml'"),
]


@pytest.mark.parametrize(
    ("typed", "remedy"), MISTAKES, ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else ""
)
def test_a_mistake_is_one_line_with_the_remedy(discreet, tmp_path, monkeypatch, typed, remedy):
    def work(*_arguments, **_keywords):
        raise AssertionError("work was done")

    monkeypatch.setattr("discreet.simulation.simulate._simulate_users", work)
    monkeypatch.chdir(tmp_path)
    outcome = discreet(*typed)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("discreet: ")
    assert outcome.err.count("\n") == 1
    assert remedy in outcome.err
    assert "Traceback" not in outcome.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("typed", "missing"), [(("study",), "study: new"), (("ledger",), "ledger: open")])
def test_a_group_without_a_command_shows_its_help_and_says_what_is_missing(discreet, typed, missing):
    outcome = discreet(*typed)
    assert (outcome.code, "Usage" in outcome.out) == (2, True)
    assert outcome.err.startswith(f"discreet: a command is missing behind discreet {missing}")


IN_TABLES = [
    # what is asked of the table t.csv; the words of the command line, not those of Python
    ((), "--reward is missing: name its column"),
    (("--reward", "r", "--holdout", "35"), "write 0.35 for 35%"),
    (("--reward", "r", "--ledger", "x.db"), "give --ledger and --dataset together"),
    (("--reward", "r", "--safe"), "declare --behaviour"),
    (("--reward", "r", "--table", "x"), "--table is for databases"),
    (("--reward", "R"), "has no column 'R': its first line must name it, letter by letter"),
    (("--reward", "u"), "column 'u' was given as the user and in another role"),
]


@pytest.mark.parametrize(("typed", "remedy"), IN_TABLES)
def test_a_mistake_about_a_table_costs_nothing_and_writes_nothing(discreet, tmp_path, monkeypatch, typed, remedy):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("u,t,s,a,r\n1,0,0,1,0.5\n")
    outcome = discreet("train", "t.csv", *TABLE, *SIZES, "--epsilon", "1", "--out", "p.json", *typed)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert remedy in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_what_is_public_is_asked_for_by_its_option(discreet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("u,t,s,a,r\n1,0,0,1,0.5\n")
    (tmp_path / "none.txt").write_text("")
    (tmp_path / "empty.csv").write_text("")
    asked = ("--epsilon", "1", "--out", "p.json", "--reward", "r")
    for options, remedy in {
        ("t.csv", *SIZES[:4]): "--horizon is missing",
        ("t.csv", *SIZES[2:]): "--states is missing",
        ("t.csv", "--states", "none.txt", *SIZES[2:]): "got none: write one label for each",
        ("t.csv", "--states", "gone.txt", *SIZES[2:]): "there is no file of labels 'gone.txt'",
        ("empty.csv", *SIZES): "'empty.csv' is empty",
    }.items():
        outcome = discreet("train", *options, *TABLE, *asked)
        assert outcome.code == 2
        assert remedy in outcome.err


def test_steps_that_are_counted_from_one_are_noticed_by_the_owner(discreet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("u,t,s,a,r\n1,1,0,1,0.5\n1,2,0,1,0.5\n")
    hint = "if your steps are counted from 1, give --first-step 1"
    assert hint in " ".join(discreet("check", "t.csv", *TABLE, *SIZES).out.split())
    assert "counted from" not in discreet("check", "t.csv", *TABLE, *SIZES, "--first-step", "1").out


def test_one_world_and_one_learner_are_shown_by_name(discreet):
    assert discreet("worlds", "bandit").out.startswith("bandit\n")
    shown = discreet("learners", "psrl").out
    assert "draws=8" in shown
    assert "ucbvi" not in shown


@pytest.mark.parametrize("typed", [("-h",), ("simulate", "-h"), ("study", "-h")])
def test_help_has_a_short_name(discreet, typed):
    outcome = discreet(*typed)
    assert outcome.code == 0
    assert "Usage: discreet" in outcome.out


def test_the_package_can_be_run_as_a_module():
    from importlib import import_module

    assert import_module("discreet.__main__").main is import_module("discreet.cli").main


def test_there_are_fifty_of_them():
    assert len(MISTAKES) >= 50
    assert len({typed for typed, _ in MISTAKES}) == len(MISTAKES)


def test_nothing_typed_is_help_and_not_an_error_line(discreet):
    outcome = discreet()
    assert outcome.code == 2
    assert "Usage: discreet" in outcome.out + outcome.err
    assert "discreet: " not in outcome.err


def test_the_class_of_usage_errors_is_the_parsers():
    assert UsageError.__name__ == "UsageError"


CALLS = [
    (lambda world: library.simulate("River_Swim", "ucbvi", episodes=5), "did you mean river-swim?"),
    (lambda world: library.simulate(world, "UCBVI", episodes=5), "did you mean ucbvi?"),
    (lambda world: library.simulate(world, library.learners.UCBVI, episodes=5), "is a class: write UCBVI()"),
    (lambda world: library.simulate(np.eye(2), "ucbvi", episodes=5), "world must be a world from discreet.worlds"),
    (lambda world: library.simulate(world, "ucbvi", 1.0, episodes=5), "privacy must be a trust model such as Central"),
    (lambda world: library.Central(1.0, recipe=lambda shape, episodes: None), "discreet.recipes.register"),
    (lambda world: library.Central(1.0, rho=1.0), "not both"),
    (lambda world: library.audit(library.Central(1.0), world, episodes=5), "give the .shape of a world"),
    (lambda world: library.calibrate(library.Central(1.0), world, episodes=5), "give the .shape of a world"),
    (
        lambda world: library.simulate(world, "ucbvi", library.Central(1.0, options={"block": 3}), episodes=5),
        "unknown option of the recipes of the central model 'block': did you mean blocks?",
    ),
    (lambda world: library.simulate(world, "ucbvi", episodes=5).plot(ax=3), "ax must be axes of matplotlib, got int"),
]


def test_a_name_that_is_nearly_right_is_shown_as_it_should_be():
    with pytest.raises(AttributeError, match=r"no attribute 'riverswim': did you mean river_swim\?"):
        library.worlds.riverswim  # noqa: B018


@pytest.mark.parametrize(("call", "remedy"), CALLS)
def test_the_same_care_in_python(call, remedy):
    with pytest.raises(library.InvalidInput) as refusal:
        call(library.worlds.river_swim(states=3, horizon=3))
    assert remedy in str(refusal.value)
    assert "\n" not in str(refusal.value)

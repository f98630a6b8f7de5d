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
]


@pytest.mark.parametrize(
    ("typed", "remedy"), MISTAKES, ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else ""
)
def test_a_mistake_is_one_line_with_the_remedy(discreet, tmp_path, monkeypatch, typed, remedy):
    def work(*_arguments, **_keywords):
        raise AssertionError("work was done")

    monkeypatch.setattr("discreet.simulation.run._simulate_users", work)
    monkeypatch.chdir(tmp_path)
    outcome = discreet(*typed)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("discreet: ")
    assert outcome.err.count("\n") == 1
    assert remedy in outcome.err
    assert "Traceback" not in outcome.err
    assert not list(tmp_path.iterdir())


def test_there_are_fifty_of_them():
    assert len(MISTAKES) >= 50
    assert len({typed for typed, _ in MISTAKES}) == len(MISTAKES)


def test_nothing_typed_is_help_and_not_an_error_line(discreet):
    for typed in ((), ("ledger",)):
        outcome = discreet(*typed)
        assert outcome.code == 2
        assert "Usage: discreet" in outcome.out + outcome.err
        assert "discreet: " not in outcome.err


def test_the_class_of_usage_errors_is_the_parsers():
    assert UsageError.__name__ == "UsageError"


CALLS = [
    (lambda world: library.simulate("riverswim", "ucbvi", episodes=5), "did you mean river-swim?"),
    (lambda world: library.simulate(world, "UCBVI", episodes=5), "did you mean ucbvi?"),
    (lambda world: library.simulate(world, library.learners.UCBVI, episodes=5), "is a class: write UCBVI()"),
    (lambda world: library.simulate(np.eye(2), "ucbvi", episodes=5), "world must be a world from discreet.worlds"),
    (lambda world: library.simulate(world, "ucbvi", 1.0, episodes=5), "privacy must be a trust model such as Central"),
    (lambda world: library.Central(1.0, recipe=lambda shape, episodes: None), "discreet.recipes.register"),
    (lambda world: library.Central(1.0, rho=1.0), "not both"),
]


@pytest.mark.parametrize(("call", "remedy"), CALLS)
def test_the_same_care_in_python(call, remedy):
    with pytest.raises(library.InvalidInput) as refusal:
        call(library.worlds.river_swim(states=3, horizon=3))
    assert remedy in str(refusal.value)
    assert "\n" not in str(refusal.value)

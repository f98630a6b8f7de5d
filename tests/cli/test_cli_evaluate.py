"""The commands that judge: train with held-out users, evaluate on a table, plan; and how they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pytest

from discreet.base.policies import Policy, load_policy
from discreet.base.shape import Shape
from discreet.tables.policy_arrays import behaviour_table
from discreet.tables.read.columns import Columns, Declaration

COLUMNS = ("--user", "u", "--step", "t", "--state", "s", "--action", "a", "--reward", "r")
DOMAIN = ("--states", "2", "--actions", "2", "--horizon", "2", "--no-early-end")
TARGET = ("--epsilon", "4", "--delta", "1e-6")


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    duckdb.sql(
        "COPY (SELECT i // 2 AS u, i % 2 AS t, (i // 4) % 2 AS s, (i // 3) % 2 AS a, ((i // 3) % 2)::DOUBLE AS r "
        f"FROM range(1600) x(i)) TO '{path}' (HEADER)"
    )
    return path


def test_train_holds_users_out_and_evaluate_asks_them_again(discreet, rows, tmp_path):
    policy, receipt, picture = tmp_path / "policy.json", tmp_path / "receipt.json", tmp_path / "fit.png"
    outcome = discreet(
        "train", str(rows), *COLUMNS, *DOMAIN, *TARGET, "--holdout", "0.35", "--behaviour", "uniform", "--out",
        str(policy), "--receipt", str(receipt), "--plot", str(picture),
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "95% intervals" in outcome.out
    assert "policy.split.json" in outcome.out
    assert "asked once, as far as its file knows: epsilon 4" in outcome.out
    assert "adds to those of earlier releases" in outcome.out
    assert json.loads(receipt.read_text())["adds_up"] in outcome.out
    assert picture.stat().st_size > 1000
    section = json.loads(receipt.read_text())["evaluation"]
    assert section["split"]["held_out"] == 280
    assert (tmp_path / "policy.split.json").exists()
    judged = discreet(
        "evaluate", str(policy), "--data", str(rows), *COLUMNS, *DOMAIN, *TARGET, "--behaviour", "uniform", "--json",
        str(tmp_path / "e.json"),
    )  # fmt: skip
    assert judged.code == 0, judged.err
    assert "Only users who were held out" in judged.out
    assert "asked 2 times, as far as its file knows: epsilon 8" in judged.out
    assert "asked 2 times" in json.loads((tmp_path / "e.json").read_text())["adds_up"]
    facts = json.loads((tmp_path / "e.json").read_text())
    assert facts["guarantee"]["epsilon"] <= 4
    assert set(facts["evaluation"]) >= {"value", "behaviour", "difference", "verdict"}
    again = discreet(
        "train",
        str(rows),
        *COLUMNS,
        *DOMAIN,
        *TARGET,
        "--holdout",
        "0.35",
        "--out",
        str(policy),
        "--behaviour",
        "uniform",
    )
    assert again.code == 2
    assert "records an earlier split" in again.err


def test_a_safe_policy_is_written(discreet, rows, tmp_path):
    policy = tmp_path / "safe.json"
    outcome = discreet(
        "train", str(rows), *COLUMNS, *DOMAIN, *TARGET, "--safe", "--behaviour", "uniform", "--out", str(policy)
    )
    assert outcome.code == 0, outcome.err
    assert "adds to those of earlier releases" in outcome.out
    assert "as far as its file knows" not in outcome.out
    assert load_policy(policy).probabilities.shape == (2, 2, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give --data"),
        (("--world", "river-swim", "--data", "x.csv"), "give --data"),
        (("--world", "river-swim", "--epsilon", "1"), "--epsilon is for tables"),
        (("--world", "river-swim", "--states", "six"), "whole number"),
        (("--data", "{rows}", "--epsilon", "1"), "--state is missing"),
        (
            (
                "--data",
                "{rows}",
                "--state",
                "s",
                "--action",
                "a",
                "--horizon",
                "2",
                "--states",
                "2",
                "--actions",
                "2",
                "--step",
                "t",
                "--epsilon",
                "1",
            ),
            "user is missing: name the column",
        ),
        (("--data", "{rows}", *COLUMNS, *DOMAIN), "either epsilon or rho"),
        (("--data", "{rows}", *COLUMNS, *DOMAIN, "--epsilon", "1", "--split", "{rows}"), "not a recorded split"),
        (("--data", "{rows}", *COLUMNS, *DOMAIN, "--epsilon", "1", "--behaviour", "nobody.json"), "nobody.json"),
    ],
)
def test_bad_evaluations_are_refused(discreet, rows, tmp_path, arguments, message):
    from discreet import Policy

    policy = tmp_path / "p.json"
    Policy([[0, 1], [0, 1]]).save(policy)
    outcome = discreet("evaluate", str(policy), *(text.format(rows=rows) for text in arguments))
    assert outcome.code == 2
    assert message in outcome.err


def test_train_refuses_options_without_judges(discreet, rows, tmp_path):
    for arguments, message in (
        (("--plot", str(tmp_path / "x.png")), "give --holdout"),
        (("--split", str(tmp_path / "x.json")), "give --holdout"),
        (("--safe",), "declare --behaviour"),
    ):
        outcome = discreet(
            "train", str(rows), *COLUMNS, *DOMAIN, *TARGET, "--out", str(tmp_path / "p.json"), *arguments
        )
        assert outcome.code == 2
        assert message in outcome.err
        assert not (tmp_path / "p.json").exists()


def test_plan_shows_noise_against_counts(discreet, tmp_path):
    outcome = discreet(
        "plan", "--states", "2", "--actions", "2", "--horizon", "2", "--users", "300,600", "--epsilons", "1,4",
        "--runs", "1", "--json", str(tmp_path / "plan.json"), "--plot", str(tmp_path / "plan.png"),
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "compare rows with each other" in " ".join(outcome.out.split())
    assert len(json.loads((tmp_path / "plan.json").read_text())["rows"]) == 6
    for wrong in (("--users", "many"), ("--epsilons", "x"), ("--users", "-3")):
        refused = discreet("plan", "--states", "2", "--actions", "2", "--horizon", "2", "--users", "300", *wrong)
        assert refused.code == 2


def test_calibrate_takes_offline_learners(discreet):
    outcome = discreet("calibrate", "--learner", "apvi", "--epsilon", "1", "--delta", "1e-6")
    assert outcome.code == 0, outcome.err
    assert "offline/" in outcome.out
    assert "1 for 20,000" in outcome.out
    named = discreet("calibrate", "--recipe", "offline/gaussian", "--epsilon", "1", "--delta", "1e-6")
    assert named.code == 0
    assert "offline/gaussian" in named.out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (".4,.6", None),
        (".4,.3,.3", "behaviour must be one probability for each of 2 actions, got 3"),
        (".4,.5", "behaviour must sum to one, got a sum of 0.9"),
        ("-.4,1.4", "behaviour must not be empty or negative"),
        (".4,much", "or numbers such as .35,.30,.35, got '.4,much'"),
    ],
)
def test_a_behaviour_is_given_by_the_probabilities_of_actions(discreet, rows, tmp_path, given, message):
    policy = tmp_path / "p.json"
    Policy([[1, 1], [1, 1]]).save(policy)
    asked = ("evaluate", str(policy), "--data", str(rows), *COLUMNS, *DOMAIN, *TARGET, f"--behaviour={given}")
    outcome = discreet(*asked)
    assert (outcome.code, outcome.err.count("\n")) == ((0, 0) if message is None else (2, 1)), outcome.err
    assert message is None or message in " ".join(outcome.err.split())


def test_a_vector_is_the_same_behaviour_in_every_state():
    declaration = Declaration(Columns("u", "t", "s", "a"), Shape(3, 2, 4))
    for given in ([0.25, 0.75], ".25,.75"):
        table = behaviour_table(given, declaration)
        assert table.shape == (4, 3, 2)
        assert (table == [0.25, 0.75]).all()


def test_a_policy_file_is_written_by_hand_as_the_page_says(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    (tmp_path / "usual.json").write_text(re.findall(r"`(\{\"format\".*?\})`", page)[0])
    declaration = Declaration(Columns("u", "t", "s", "a"), Shape(1, 3, 1))
    assert behaviour_table(tmp_path / "usual.json", declaration).tolist() == [[[0.35, 0.3, 0.35]]]

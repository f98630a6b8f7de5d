"""Labels from the command line: in the policy file, in the receipt, and in a table that a clinician can read."""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pytest

from discreet.base.policies import Mixture, Policy, StochasticPolicy, load_policy
from discreet.offline import policy_hash

COLUMNS = [
    "--user",
    "u",
    "--step",
    "t",
    "--state",
    "s",
    "--action",
    "a",
    "--reward",
    "r",
    "--horizon",
    "2",
    "--rewards",
    "-1",
    "1",
]


@pytest.fixture
def stays(tmp_path):
    """In state low resting pays, in state high walking does; half of the stays end after one step."""
    duckdb.sql(
        "COPY (SELECT u, t, CASE WHEN (u + t) % 2 = 0 THEN 'low' ELSE 'high' END AS s, "
        "CASE WHEN (u // 2) % 2 = 0 THEN 'rest' ELSE 'walk' END AS a, "
        "CASE WHEN ((u + t) % 2 = 0) = ((u // 2) % 2 = 0) THEN 1 ELSE -1 END AS r "
        f"FROM range(4000) x(u), range(2) y(t) WHERE t = 0 OR u % 8 < 4) TO '{tmp_path / 'stays.csv'}' (HEADER)"
    )
    (tmp_path / "states.txt").write_text("low\nhigh\n")
    (tmp_path / "actions.txt").write_text("rest\nwalk\n")
    return tmp_path


def arguments(folder, *more):
    files = ("--states", str(folder / "states.txt"), "--actions", str(folder / "actions.txt"))
    return (
        "train",
        str(folder / "stays.csv"),
        *COLUMNS,
        *files,
        "--epsilon",
        "20",
        "--out",
        str(folder / "p.json"),
        *more,
    )


def test_labels_go_into_policy_and_receipt_and_are_printed(discreet, stays):
    outcome = discreet(*arguments(stays, "--receipt", str(stays / "r.json")))
    assert outcome.code == 0, outcome.err
    policy = load_policy(stays / "p.json")
    assert policy.act(0, "low") == "rest"
    assert policy.act(1, "high") == "walk"
    declared = json.loads((stays / "r.json").read_text())
    assert declared["declared"]["state_labels"] == ["low", "high"]
    assert declared["declared"]["action_labels"] == ["rest", "walk"]
    assert declared["policy"]["sha256"] == policy_hash(policy)
    for text in (outcome.out, discreet("show", str(stays / "p.json")).out):
        assert [line.split() for line in text.splitlines() if line.split()[:1] in (["low"], ["high"])] == [
            ["low", "all", "rest"], ["high", "all", "walk"],
        ]  # fmt: skip
    assert "a lower bound on the average sum of rewards" in " ".join(outcome.out.split())


def test_a_reordered_list_of_labels_is_another_policy(discreet, stays):
    discreet(*arguments(stays))
    first = load_policy(stays / "p.json")
    (stays / "actions.txt").write_text("walk\nrest\n")
    discreet(*arguments(stays))
    second = load_policy(stays / "p.json")
    assert first != second
    assert policy_hash(first) != policy_hash(second)
    assert [second.act(0, s) for s in ("low", "high")] == ["rest", "walk"]


def test_show_takes_states_by_label_and_refuses_others(discreet, tmp_path):
    Policy([[0, 1], [1, 1]], ("low", "high"), ("rest", "walk")).save(tmp_path / "p.npz")
    one = discreet("show", str(tmp_path / "p.npz"), "--state", "low")
    assert [line.split() for line in one.out.splitlines() if line.split()][2:] == [["low", "0", "rest"], ["1", "walk"]]
    assert "high" not in one.out
    other = discreet("show", str(tmp_path / "p.npz"), "--state", "lo")
    assert (other.code, other.err) == (2, "discreet: unknown state 'lo': did you mean low?\n")
    Policy([[0, 1]]).save(tmp_path / "n.json")
    assert discreet("show", str(tmp_path / "n.json"), "--state", "1").code == 0
    for bad in ("2", "-1", "²", "x"):
        assert "must be a number in 0..1" in discreet("show", str(tmp_path / "n.json"), f"--state={bad}").err


def test_policies_that_draw_are_shown_with_their_chances(discreet, tmp_path):
    table = np.array([[[0.75, 0.25], [0.0, 1.0]]])
    StochasticPolicy(table, ("low", "high"), ("rest", "walk")).save(tmp_path / "s.json")
    out = discreet("show", str(tmp_path / "s.json")).out
    assert "rest 75%, walk 25%" in out
    mixed = Mixture((Policy([[0, 0]], None, ("rest", "walk")), Policy([[1, 0]], None, ("rest", "walk"))), [0.25, 0.75])
    mixed.save(tmp_path / "m.json")
    out = discreet("show", str(tmp_path / "m.json")).out
    assert "walk 75%, rest 25%" in out
    assert [line.split() for line in out.splitlines() if line.split()[:1] == ["1"]] == [["1", "all", "rest"]]


def test_evaluate_prints_the_table_too(discreet, tmp_path):
    Policy([[0, 1], [1, 1]], ("low", "high"), ("rest", "walk")).save(tmp_path / "p.json")
    outcome = discreet("evaluate", str(tmp_path / "p.json"), "--world", "random-mdp", "--instance", "1")
    assert outcome.code == 0, outcome.err
    assert "walk" in outcome.out
    clash = discreet(
        "evaluate",
        str(tmp_path / "p.json"),
        "--world",
        "random-mdp",
        "--instance",
        "1",
        "--json",
        str(tmp_path / "p.json"),
    )
    assert clash.code == 2
    assert "POLICY and --json name the same file" in clash.err
    assert isinstance(load_policy(tmp_path / "p.json"), Policy)


def test_long_policies_are_cut_and_say_where_the_rest_is(discreet, tmp_path):
    Policy(np.arange(100)[None] % 3).save(tmp_path / "p.json")
    from discreet.cli.show import print_policy

    print_policy(load_policy(tmp_path / "p.json"), most=40, file=tmp_path / "p.json")
    outcome = discreet("show", str(tmp_path / "p.json"))  # its output follows that of the call above
    assert "more rows: discreet show" in outcome.out
    assert sum(line.split()[1:2] == ["all"] for line in outcome.out.splitlines()) == 140

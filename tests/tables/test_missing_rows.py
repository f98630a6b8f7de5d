"""Tables in which rows are missing, or that hold nobody by mistake: nothing false is said, and no policy handed out."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import discreet
import discreet.data
import discreet.offline
from discreet.base.errors import EmptyTable
from discreet.cli import main

STATES, ACTIONS = 3, 2


def visits(users, horizon=1, share=0.0, seed=0):
    """Rewards of one half and a bit, whatever anybody does; states are missing completely at random."""
    rng = np.random.default_rng(seed)
    size = (users, horizon)
    state = rng.integers(STATES, size=size).astype(float)
    state[rng.random(size) < share] = np.nan
    columns = {
        "u": np.repeat(np.arange(users), horizon), "t": np.tile(np.arange(horizon), users), "s": state.ravel(),
        "a": rng.integers(ACTIONS, size=size).ravel(), "r": (rng.random(size) < 0.6).astype(float).ravel(),
    }  # fmt: skip
    return pd.DataFrame(columns)


def declared(frame, **changes):
    usual = {
        "user": "u", "step": "t", "state": "s", "action": "a", "reward": "r", "states": STATES, "actions": ACTIONS,
        "horizon": 1, "early_end": False,
    }  # fmt: skip
    return discreet.data.read(frame, **{**usual, **changes})


def as_users_did(horizon=1):
    return discreet.StochasticPolicy(np.full((horizon, STATES, ACTIONS), 1 / ACTIONS))


@pytest.mark.parametrize("behaviour", ["uniform", None])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
@pytest.mark.usefixtures("seeded_noise")
def test_where_rows_are_missing_a_policy_is_not_better_than_itself(share, behaviour):
    """It was said in every release. Two wrong of three have a chance of at most .75%; the seed is fixed."""
    table = declared(visits(20_000, share=share))
    words = [
        discreet.offline.evaluate(table, as_users_did(), epsilon=2.0, delta=1e-6, behaviour=behaviour).verdict.word
        for _ in range(3)
    ]
    assert words.count("about the same") >= 2
    whole = discreet.offline.evaluate(table, as_users_did(), epsilon=2.0, delta=1e-6, behaviour=behaviour)
    assert abs(whole.value.estimate - whole.behaviour.estimate) < 0.02  # .06 at a tenth missing before
    judged = whole.facts["evaluation"]["judged"]
    users = whole.facts["evaluation"]["users"]
    assert judged["users"] == pytest.approx((1 - share) * users, abs=5 * np.sqrt(users) / 2)
    assert "if rows are missing for reasons that have nothing to do" in whole.verdict.reason
    told = re.search(r"\(about (\d+)% of the users are not judged\)", whole.verdict.reason)
    assert told is not None
    assert int(told[1]) == pytest.approx(100 * share, abs=2)


@pytest.mark.usefixtures("seeded_noise")
@pytest.mark.parametrize("early_end", [False, True])
def test_wherever_a_tenth_is_missing_the_behaviour_is_about_itself(early_end):
    """One release each, from a seed; it was "better" in 45 of 50. Three wrong of ten have a chance of at most 1.2%."""
    words = []
    for what in ("first state", "first action", "later state", "last state", "whole user"):
        for missing in ("end", "drop"):
            frame = visits(6000, horizon=3)
            lost = np.repeat(np.random.default_rng(1).random(6000) < 0.1, 3)
            step = {"later state": 1, "last state": 2}.get(what, 0)
            where = lost & ((frame["t"] == step) | (what == "whole user"))
            frame.loc[where, "a" if what == "first action" else "s"] = 9
            table = declared(frame, horizon=3, early_end=early_end, missing=missing)
            found = discreet.offline.evaluate(table, as_users_did(3), epsilon=2.0, behaviour="uniform")
            words.append(found.verdict.word)
    assert words.count("about the same") >= 8


@pytest.mark.usefixtures("seeded_noise")
def test_a_trial_with_a_third_of_its_states_missing():
    """2,139 people, four arms of the same effect, the state missing for 37%: "better" in all of 15 releases before.

    Each of three is wrongly "better" with probability 2.5% at most: two of them for 2 seeds of 1,000."""
    rng = np.random.default_rng(2)
    frame = visits(2139, share=0.37, seed=2).assign(a=rng.integers(4, size=2139))
    frame["r"] = np.clip(rng.normal(330, 140, len(frame)), 0, 1200)
    table = declared(frame, actions=4, rewards=(0, 1200))
    asked = {"epsilon": 2.0, "delta": 1e-6, "holdout": 0.35, "behaviour": "uniform"}
    fits = [discreet.offline.train(table, **asked) for _ in range(3)]
    assert [fit.verdict.word for fit in fits].count("better") < 2
    fit = fits[0]
    assert fit.facts["evaluation"]["assumes"].startswith("rows are missing for reasons")
    assert fit.facts["declared"]["missing"] == "end"


def test_the_old_rule_gives_values_and_no_verdict():
    table = declared(visits(20_000, share=0.1), missing="row")
    found = discreet.offline.evaluate(table, as_users_did(), epsilon=2.0, behaviour="uniform")
    assert found.verdict.word == "not judged"
    assert 'declare missing="end" or "drop"' in found.verdict.reason
    assert found.value.width < 0.2


def test_nobody_is_judged_by_nobody():
    table = declared(visits(2000).assign(t=5))
    found = discreet.offline.evaluate(table, as_users_did(), epsilon=2.0, behaviour="uniform")
    assert found.verdict.word == "not judged"
    assert "check the declarations" in found.verdict.reason
    assert (found.value.low, found.value.high) == (0.0, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [{"first_step": 1}, {"states": discreet.data.Bins([50, 60, 70])}, {"homogeneous": True, "states": ["x", "y"]}],
    ids=["first step", "states", "labels"],
)
def test_no_policy_comes_from_a_table_that_may_be_empty(wrong, tmp_path):
    from discreet.ledger.budget import make_budget
    from discreet.ledger.database import opened, transaction
    from discreet.ledger.spending import open_data_set

    ledger = str(tmp_path / "budget.db")
    with opened(ledger, new=True) as connection, transaction(connection):
        open_data_set(connection, "made", make_budget(epsilon=1.5, delta=0.0, rho=None, mode="sum"))
    frame = visits(2000)
    if "homogeneous" in wrong:
        frame["s"] = "z"
    table = declared(frame, **wrong)
    with pytest.raises(EmptyTable, match=r"of 2,000 users are in .* epsilon 1\) is spent; check the .* \(first step"):
        discreet.offline.train(table, epsilon=1.0)
    for _ in range(2):  # paid once
        with pytest.raises(EmptyTable, match="the ledger keeps the release"):
            discreet.offline.train(table, epsilon=1.0, ledger=ledger, dataset="made")


def test_on_the_command_line_it_is_exit_code_3(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    visits(2000).assign(s=400).to_csv("visits.csv", index=False)
    options = "--user u --step t --state s --action a --reward r --states 3 --actions 2 --horizon 1 --epsilon 1"
    with pytest.raises(SystemExit) as stopped:
        main(["train", "visits.csv", *options.split(), "--out", "policy.json", "--receipt", "receipt.json"])
    assert stopped.value.code == 3
    assert "check the declarations (first step; states" in capsys.readouterr().err
    assert not (tmp_path / "policy.json").exists()
    assert not (tmp_path / "receipt.json").exists()

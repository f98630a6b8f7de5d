"""``judge="everybody"`` through train, receipt and checker: who judges, who does not, and what is refused.

Noise is real here, at epsilon 60 and 600 users: what is asserted of numbers holds but for a chance below 1e-9.
"""

from __future__ import annotations

import json

import numpy as np
import polars
import pytest

import discreet
import discreet.data
from discreet import ledger
from discreet.base.errors import InvalidInput, Unsupported
from discreet.tables.verify import verify

N = 600


def table(top=100.0, horizon=1, states=1, **more):
    rng = np.random.default_rng(0)
    drug = rng.integers(0, 3, N)
    frame = polars.DataFrame(
        {"who": range(N), "s": rng.integers(0, states, N), "drug": drug, "y": 40 + 20.0 * (drug == 1) + drug % 2}
    )
    declared = {"states": states, "actions": 3, "horizon": horizon, "rewards": (0.0, top), **more}
    step = {} if horizon == 1 else {"step": "s"}
    return discreet.data.read(frame, user="who", state="s", action="drug", reward="y", **step, **declared)


def test_one_step_is_judged_by_everybody_at_no_further_cost(tmp_path):
    fit = discreet.offline.train(table(), epsilon=60.0)
    told = fit.facts["evaluation"]
    assert fit.recipe == "offline/outcomes-laplace"
    assert fit.policy.actions.tolist() == [[1]]
    assert fit.verdict.word == told["word"] == "better"
    assert fit.difference.holds(14.0)
    assert fit.guarantee.epsilon == pytest.approx(60.0, rel=1e-9)
    assert (told["mechanisms"], told["split"], fit.split) == ([], None, None)
    assert told["by"].startswith("everybody judges: ")
    assert fit.facts["learner"]["penalty_scale"] == 0.0
    fit.receipt(tmp_path / "r.html")
    assert "everybody judges: the interval is from the released table" in (tmp_path / "r.html").read_text()
    assert verify(fit.facts, policy=fit.policy).answer == "holds"


@pytest.mark.parametrize(
    "change",
    [
        {"by": "everybody judges: trust us"},
        {"by": None},
        {"split": {"users": 600}},
        {"word": "better", "verdict": "better: the difference to the behaviour lies between -1 and 2"},
    ],
)
def test_a_receipt_that_says_otherwise_does_not_hold(change):
    facts = json.loads(json.dumps(discreet.offline.train(table(), epsilon=60.0).facts))
    assert verify(facts).answer == "holds"
    facts["evaluation"] |= change
    assert verify(facts).answer == "does not hold"


def test_yes_and_no_are_released_as_before_and_judged_too():
    fit = discreet.offline.train(table(top=1.0), epsilon=60.0)
    assert fit.recipe == "offline/laplace"
    assert fit.facts["learner"]["penalty_scale"] == 1.0
    assert fit.verdict.word in ("about the same", "cannot be told")  # everything above 1 counts as 1
    assert verify(fit.facts).answer == "holds"


def test_who_does_not_judge():
    assert discreet.offline.train(table(), epsilon=60.0, judge="nobody").facts["evaluation"] is None
    assert discreet.offline.train(table(), epsilon=60.0, judge="nobody").facts["learner"]["penalty_scale"] == 1.0
    assert (
        "by" not in discreet.offline.train(table(), epsilon=60.0, holdout=0.35, behaviour="uniform").facts["evaluation"]
    )
    several = discreet.offline.train(table(states=30), epsilon=60.0)
    assert several.facts["evaluation"] is None
    assert discreet.offline.train(table(horizon=2, states=2), epsilon=60.0).facts["evaluation"] is None


def test_what_is_refused_before_anything_is_spent():
    with pytest.raises(Unsupported, match="one step, and there are 2: give holdout="):
        discreet.offline.train(table(horizon=2, states=2), epsilon=1.0, judge="everybody")
    with pytest.raises(Unsupported, match="90 states and actions are more than 64"):
        discreet.offline.train(table(states=30), epsilon=1.0, judge="everybody")
    with pytest.raises(Unsupported, match='missing="row" keeps'):
        discreet.offline.train(table(missing="row"), epsilon=1.0, judge="everybody")
    with pytest.raises(InvalidInput, match="leave judge='everybody' out"):
        discreet.offline.train(table(), epsilon=1.0, judge="everybody", holdout=0.35)
    with pytest.raises(InvalidInput, match="judge"):
        discreet.offline.train(table(), epsilon=1.0, judge="folds")
    with pytest.raises(Unsupported, match="rewards are known"):
        discreet.offline.train(table(), epsilon=1.0, judge="everybody", known_rewards=[[1.0, 2.0, 3.0]])


def test_the_ledger_gives_the_same_judgement_again(tmp_path):
    file = tmp_path / "budget.ledger"
    with ledger.opened(file, new=True) as connection, ledger.transaction(connection):
        ledger.open_data_set(connection, "trial", ledger.make_budget(epsilon=61.0))
    first, again = (discreet.offline.train(table(), epsilon=60.0, ledger=file, dataset="trial") for _ in range(2))
    assert (first.facts["ledger"]["reused"], again.facts["ledger"]["reused"]) == (False, True)
    assert first.facts["evaluation"] == again.facts["evaluation"]

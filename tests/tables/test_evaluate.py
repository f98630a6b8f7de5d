"""Training with held-out users, and judging policies from elsewhere, on small tables with real noise."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Mixture, Policy, StochasticPolicy
from discreet.tables.evaluation.split import load_split
from discreet.tables.holdout_evaluation import Budget

USERS, H = 3000, 3
DECLARED = {
    "user": "u", "step": "t", "state": "s", "action": "a", "reward": "r", "states": 2, "actions": 2, "horizon": H
}  # fmt: skip
GOOD = Policy(np.ones((H, 2), np.int64))  # action 1 is worth 0.8 a step, action 0 is worth 0.2


def rows(users=USERS, seed=0, early=False):
    """Users who act at random; the state is noise, the action decides the reward."""
    rng = np.random.default_rng(seed)
    shape = (users, H)
    a, s = rng.integers(2, size=shape), rng.integers(2, size=shape)
    r = (rng.random(shape) < np.where(a == 1, 0.8, 0.2)).astype(float)
    last = rng.integers(1, H + 1, users) if early else np.full(users, H)
    keep = np.arange(H) < last[:, None]
    u, t = np.broadcast_to(np.arange(users)[:, None], shape), np.broadcast_to(np.arange(H), shape)
    columns = {"u": u, "t": t, "s": s, "a": a, "r": r}
    return pd.DataFrame({name: column[keep] for name, column in columns.items()})


def read(frame=None, **changes):
    return discreet.data.read(rows() if frame is None else frame, **{"early_end": False, **DECLARED, **changes})


@pytest.fixture(scope="module")
def fit():
    return discreet.offline.train(read(), epsilon=4.0, delta=1e-6, holdout=0.35, behaviour="uniform")


def test_held_out_users_judge_what_was_learned(fit):
    # The truth is 3 * 0.8 = 2.4 against 1.5; a 95% interval misses it now and then, ten half-widths never.
    for found, true in ((fit.value, 2.4), (fit.behaviour, 1.5), (fit.difference, 0.9)):
        assert abs(found.estimate - true) < 5 * found.width
        assert found.low <= found.estimate <= found.high
        assert found.width < 1.0
    assert fit.verdict.word == "better"
    assert fit.policy.actions.tolist() == GOOD.actions.tolist()


def test_everything_counts_under_one_guarantee(fit):
    assert fit.guarantee.epsilon <= 4.0
    assert fit.guarantee.simulated is False
    assert fit.guarantee.delta == 1e-6
    text = fit.guarantee.explain()
    assert "parallel composition" in text
    assert "1,950 users are counted in the table and 1,050 others judge" in text
    section = fit.facts["evaluation"]
    assert section["value"] == fit.value.as_dict()
    assert section["split"]["held_out"] == 1050
    assert len(section["mechanisms"]) in (3, 5)
    json.dumps(fit.facts, allow_nan=False)


@pytest.mark.parametrize(("homogeneous", "behaviour"), [(False, "uniform"), (True, "uniform"), (False, None)])
def test_policies_from_elsewhere_are_judged(homogeneous, behaviour):
    data = read(rows(early=True), homogeneous=homogeneous, early_end=True)
    found = discreet.offline.evaluate(data, GOOD, epsilon=8.0, delta=1e-6, behaviour=behaviour)
    assert found.guarantee.epsilon <= 8.0
    assert found.guarantee.simulated is False
    # Episodes have 1 to 3 steps, 2 on average: 1.6 for the policy and 1.0 for the behaviour.
    assert abs(found.value.estimate - 1.6) < 5 * found.value.width
    assert abs(found.behaviour.estimate - 1.0) < 5 * found.behaviour.width
    assert 0.0 <= found.value.low <= found.value.high <= 3.0
    assert "differential privacy" in found.summary()


@pytest.mark.parametrize("declared", [{"homogeneous": True}, {"states": list(range(3000))}], ids=["pooled", "large"])
def test_a_behaviour_that_no_table_shows_must_be_declared(declared):
    """Pooled counts of first visits do not show it, and it may change from step to step."""
    data, options = read(**declared), {"epsilon": 1.0, "delta": 1e-6}
    nothing = Policy(np.zeros((H, data.shape.states), np.int64))
    refused = r"is not declared is read from a table of all visits .* at every step.*declare behaviour="
    with pytest.raises(Unsupported, match=refused):
        discreet.offline.evaluate(data, nothing, **options)
    with pytest.raises(Unsupported, match=refused):
        discreet.offline.train(data, holdout=0.35, **options)


def test_zero_concentrated_targets_and_known_rewards():
    data = read()
    known = np.array([[0.2, 0.8], [0.2, 0.8]])
    found = discreet.offline.evaluate(data, GOOD, rho=2.0, behaviour="uniform", known_rewards=known)
    assert found.guarantee.rho <= 2.0
    unknown = discreet.offline.evaluate(data, GOOD, rho=2.0, known_rewards=known)
    assert unknown.guarantee.rho <= 2.0
    assert Budget(None, 0.0, 0.5).pure == pytest.approx(1.0)


def test_a_later_evaluation_uses_the_recorded_split_or_refuses(fit, tmp_path):
    fit.split.save(tmp_path / "split.json")
    found = discreet.offline.evaluate(
        read(), GOOD, epsilon=4.0, delta=1e-6, behaviour="uniform", split=tmp_path / "split.json"
    )
    assert found.facts["evaluation"]["split"]["key_sha256"] == fit.facts["evaluation"]["split"]["key_sha256"]
    assert "asked 2 times" in found.facts["adds_up"]
    assert found.facts["evaluation"]["users"] == 368  # of 1,050 held out; the others fill a table
    with pytest.raises(InvalidInput, match="other users, or for the same in another order"):
        discreet.offline.evaluate(
            read(rows().sample(frac=1.0, random_state=0)), GOOD, epsilon=1.0, behaviour="uniform", split=fit.split
        )


def test_a_safe_policy_keeps_to_the_behaviour_where_little_is_known():
    usual = np.array([[0.98, 0.02], [0.98, 0.02]])  # action 1 is hardly ever taken
    frame = rows(400)
    frame["a"] = 0
    safe = discreet.offline.train(read(frame), epsilon=1.0, behaviour=usual, safe=True)
    assert isinstance(safe.policy, StochasticPolicy)
    # Noise lifts a row that nobody was in above three deviations about once in a hundred times; of six rows never five.
    assert np.isclose(safe.policy.probabilities[..., 1], 0.02).sum() >= 2
    assert "safe" in safe.facts["values"]["meaning"]


def test_a_ledger_pays_for_table_and_judgement_once(tmp_path):
    from discreet.ledger.budget import make_budget
    from discreet.ledger.database import opened, transaction
    from discreet.ledger.spending import open_data_set

    ledger = str(tmp_path / "budget.db")
    with opened(ledger, new=True) as connection, transaction(connection):
        open_data_set(connection, "made", make_budget(epsilon=5.0, delta=1e-5, rho=None, mode="sum"))
    asked = {
        "epsilon": 2.0, "delta": 1e-6, "holdout": 0.35, "behaviour": "uniform", "ledger": ledger, "dataset": "made"
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="give split="):
        discreet.offline.train(read(), **asked)
    first, second = (discreet.offline.train(read(), **asked, split=tmp_path / "split.json") for _ in range(2))
    assert first.facts["ledger"]["reused"] is False
    assert second.facts["ledger"]["reused"] is True
    assert (first.value, first.difference, first.policy) == (second.value, second.difference, second.policy)
    assert second.guarantee.epsilon == pytest.approx(first.guarantee.epsilon)
    assert 1.9 < second.guarantee.epsilon <= 2.0
    second.receipt(tmp_path / "stored.json")
    assert discreet.verify(tmp_path / "stored.json").holds
    judged = {"epsilon": 2.0, "behaviour": "uniform", "ledger": ledger, "dataset": "made", "split": first.split}
    one, two = (discreet.offline.evaluate(read(), GOOD, **judged) for _ in range(2))
    assert one.value == two.value
    assert two.facts["ledger"]["reused"] is True
    assert two.facts["adds_up"] is None
    with pytest.raises(Exception, match="budget"):
        discreet.offline.evaluate(read(), GOOD, **{**judged, "epsilon": 3.0})
    assert load_split(tmp_path / "split.json") == first.split
    assert [each.epsilon for each in load_split(tmp_path / "split.json").asked] == [2.0]  # drawn once


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"holdout": 1.5}, "holdout"),
        ({"safe": True}, "declare behaviour="),
        ({"behaviour": np.ones((2, 2))}, "sum to one"),
        ({"returns": (9, 10)}, "do not fit"),
        ({"holdout": 0.35, "behaviour": np.ones((2, 2))}, "sum to one"),
        ({"holdout": 0.35, "behaviour": np.full((3, 2), 0.5)}, "behaviour must have shape"),
        ({"holdout": 0.35, "returns": (9, 10)}, "do not fit"),
        ({"holdout": 0.35, "confidence": 2.0}, "confidence"),
        ({"holdout": 0.0001}, "without users"),
    ],
)
def test_what_cannot_be_judged_is_refused_before_anything_is_spent(changes, message):
    with pytest.raises(InvalidInput, match=message):
        discreet.offline.train(read(), epsilon=1.0, **changes)


def test_more_refusals(tmp_path):
    frame = rows().assign(e=0)
    several = read(frame, per_user=2, episode="e")
    with pytest.raises(Unsupported, match="one trajectory of every user"):
        discreet.offline.train(several, epsilon=1.0, holdout=0.35)
    with pytest.raises(InvalidInput, match="no seed"):
        discreet.offline.evaluate(read(), GOOD, epsilon=1.0, seed=1)
    with pytest.raises(Unsupported, match="one of several policies"):
        discreet.offline.evaluate(read(), Mixture((GOOD,), np.ones(1)), epsilon=1.0)
    with pytest.raises(InvalidInput, match="is for 1 steps"):
        discreet.offline.evaluate(read(), Policy([[0, 0]]), epsilon=1.0)
    labelled = Policy(np.ones((H, 2), np.int64), ("x", "y"))
    with pytest.raises(InvalidInput, match="other labels"):
        discreet.offline.evaluate(read(rows().assign(s="p"), states=["p", "q"]), labelled, epsilon=1.0)
    with pytest.raises(InvalidInput, match="either epsilon or rho"):
        discreet.offline.evaluate(read(), GOOD)
    large = {"states": 3000, "actions": 20}
    policy = Policy(np.zeros((H, 3000), np.int64))
    with pytest.raises(Unsupported, match="declare behaviour="):
        discreet.offline.evaluate(read(**large), policy, epsilon=1.0, delta=1e-6)


def test_without_a_table_users_judge_by_their_weights_alone():
    near = 0.9 * 0.5 + 0.1 * np.array([0.0, 1.0])
    policy = StochasticPolicy(np.broadcast_to(np.r_[near, np.zeros(18)], (H, 3000, 20)))
    behaviour = np.zeros((3000, 20))
    behaviour[:, :2] = 0.5
    data = read(states=3000, actions=20)
    found = discreet.offline.evaluate(data, policy, epsilon=4.0, delta=1e-6, behaviour=behaviour)
    assert found.facts["evaluation"]["users"] == USERS
    assert abs(found.value.estimate - 3 * (0.55 * 0.8 + 0.45 * 0.2)) < 5 * found.value.width
    assert found.guarantee.delta == 0


def test_receipts_and_pictures(fit, tmp_path):
    fit.receipt(tmp_path / "receipt.json")
    fit.plot(tmp_path / "fit.svg")
    assert discreet.verify(tmp_path / "receipt.json", policy=fit.policy).holds
    assert json.loads((tmp_path / "receipt.json").read_text())["evaluation"]["word"] == "better"
    assert (tmp_path / "fit.svg").stat().st_size > 1000
    plain = discreet.offline.train(read(rows(50)), epsilon=1.0)
    assert plain.facts["evaluation"] is None
    assert plain.value is None
    with pytest.raises(InvalidInput, match="nobody judged"):
        plain.plot(tmp_path / "x.png")
    found = discreet.offline.evaluate(read(), GOOD, epsilon=1.0, behaviour="uniform")
    found.receipt(tmp_path / "evaluation.json")
    assert discreet.verify(tmp_path / "evaluation.json", policy=GOOD).holds
    with pytest.raises(InvalidInput, match=r"end in \.json"):
        found.receipt(tmp_path / "evaluation.html")

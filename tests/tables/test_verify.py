"""``discreet.verify``: guarantees, certificates and receipts; a receipt must agree with its certificate and policy."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

import discreet
import discreet.data
import discreet.offline
from discreet.base.errors import InvalidInput
from discreet.base.policies import Policy

COLUMNS = {"user": "u", "step": "t", "state": "s", "action": "a", "reward": "r"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(1)
    lines = ["u,t,s,a,r"]
    lines += [
        f"{user},{step},{rng.integers(3)},{rng.integers(2)},{rng.integers(2)}" for user in range(60) for step in (0, 1)
    ]
    path = tmp_path_factory.mktemp("verify") / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    return discreet.data.read(path, **COLUMNS, states=3, actions=2, horizon=2, early_end=False)


def receipt_of(table, **target):
    fit = discreet.offline.train(table, "apvi", **target)
    return fit, json.loads(json.dumps(fit.facts, allow_nan=False))


@pytest.mark.parametrize(
    "target",
    [
        {"epsilon": 2.0, "delta": 1e-6},
        {"epsilon": 2.0},
        {"rho": 0.5},
        {"epsilon": 1.0, "delta": 1e-6, "recipe": "offline/sparse-laplace"},
        {"epsilon": 1.0, "delta": 1e-6, "recipe": "offline/gaussian", "recipe_options": {"release": "both"}},
    ],
    ids=str,
)
def test_receipts_of_real_releases_are_verified(table, target):
    fit, receipt = receipt_of(table, **target)
    assert receipt["certificate"]["noise"] == "from the operating system's entropy"
    found = discreet.verify(receipt, policy=fit.policy)
    assert found.holds, found.reason


@pytest.fixture(scope="module")
def receipt(table):
    return receipt_of(table, epsilon=2.0, delta=1e-6)[1]


def changed(receipt, path, value):
    forged = copy.deepcopy(receipt)
    *way, last = path
    inner = forged
    for name in way:
        inner = inner[name]
    inner[last] = value
    return forged


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("guarantee", "epsilon"), 1.9, "another epsilon"),
        (("guarantee", "epsilon"), "2.0", "another epsilon"),
        (("guarantee", "delta"), 1e-9, "another delta"),
        (("guarantee", "rho"), None, "another rho"),
        (("guarantee", "model"), "local", "another trust model"),
        (("guarantee",), None, "nothing of its guarantee"),
        (("mechanisms",), [], "other noise"),
        (("mechanisms", 0, "law"), {"name": "DiscreteLaplace", "scale": 50.0}, "other noise"),
        (("mechanisms", 0, "law"), {"name": "DiscreteLaplace", "scale": "1e999999999"}, "other noise"),
        (("mechanisms", 0, "law"), {"kind": ["x"], "scale": float("nan")}, "other noise"),
        (("guarantee", "delta"), float("nan"), "another delta"),
        (("certificate", "stated", "epsilon"), "1.9", "another epsilon"),
    ],
    ids=str,
)
def test_a_receipt_that_contradicts_its_certificate_is_refused(receipt, path, value, reason):
    assert discreet.verify(receipt).holds
    found = discreet.verify(changed(receipt, path, value))
    assert found.answer == "does not hold"
    assert reason in found.reason


def test_another_policy_is_refused(receipt, tmp_path):
    other = Policy(np.zeros((2, 3), np.int64))
    other.save(tmp_path / "other.json")
    for policy in (other, tmp_path / "other.json"):
        found = discreet.verify(receipt, policy=policy)
        assert found.answer == "does not hold"
        assert "not the one that the receipt names" in found.reason
    with pytest.raises(InvalidInput, match="names no policy"):
        discreet.verify(receipt["certificate"], policy=other)


def test_guarantees_and_files_are_verified(receipt, tmp_path):
    made = discreet.recipes.registry.build(discreet.Central(1.0, 1e-5), discreet.Shape(3, 2, 2), 100)
    assert discreet.verify(made.guarantee).holds
    file = tmp_path / "certificate.json"
    file.write_text(json.dumps(made.guarantee.certificate()))
    assert discreet.verify(file).holds
    assert discreet.verify(str(file)).model == "joint"
    for wrong, reason in (
        (tmp_path / "nowhere.json", "there is no file"),
        (tmp_path, "cannot be opened"),
        (7, "got int"),
        ({"format": "other"}, "not a certificate"),
        (replace, "got function"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            discreet.verify(wrong)


def test_a_receipt_is_not_verified_by_a_certificate_beside_its_own(receipt):
    """The outer certificate would be checked, and the receipt compared with the inner one, which nobody checked."""
    forged = copy.deepcopy(receipt)
    forged["certificate"]["stated"]["epsilon"] = "0.1"
    forged["guarantee"]["epsilon"] = 0.1
    assert not discreet.verify(forged).holds
    for inner in (forged["certificate"], 5, None):
        with pytest.raises(InvalidInput, match="carries another one"):
            discreet.verify({**forged, **receipt["certificate"], "certificate": inner})


def test_steps_of_any_depth_are_answered_in_a_sentence(receipt):
    inner = {"kind": "of mars", "law": {"kind": "gaussian", "sigma": "1"}}
    for _ in range(3000):
        inner = {"kind": "of mars", "of": [inner]}
    found = discreet.verify(changed(receipt, ("certificate", "steps"), inner))
    assert not found.holds
    assert "other noise" in found.reason

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
from discreet.ledger import keys
from discreet.ledger.keys import make_key
from discreet.privacy import guarantee as rules
from discreet.privacy.units import reports_of

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
        (("guarantee", "statement"), "pure central differential privacy, epsilon 0.01, replace one user", "statement"),
        (("guarantee", "derivation"), ["epsilon 0.01"], "another derivation"),
        (("guarantee", "epsilon_at", 1, "epsilon"), 0.018, "at delta 1e-05"),
        (("guarantee", "epsilon_at", 1, "delta"), 1e-9, "other deltas"),
        (("guarantee", "unit"), "one user = up to 1000 whole trajectories", "another unit"),
        (("guarantee", "neighbours"), "replace ten users", "another kind of neighbours"),
        (("guarantee", "also"), ["local"], "models that it implies"),
        (("guarantee", "simulated"), True, "origin of the noise"),
        (("guarantee", "public"), ["everything else"], "what is public"),
        (("guarantee", "note"), "epsilon 0.01", "has no place for, 'note'"),
        (("certificate", "noise"), "not drawn yet", "noise that was drawn"),
        (("certificate", "conditions"), ["nothing is public"], "the conditions do not say so"),
        (("declared", "trajectories_per_user"), 1000, "number of trajectories"),
        (("mechanisms", 0, "sensitivity", "l1"), 800.0, "other noise"),
        (("mechanisms", 0, "cells"), 1, "other noise"),
        (("budget", "rho"), 0.001, "another budget"),
        (("noise",), "drawn by a sampler of ours", "says from where"),
        (("promise",), "epsilon 0.01", "no place for, 'promise'"),
    ],
    ids=str,
)
def test_a_receipt_that_contradicts_its_certificate_is_refused(receipt, path, value, reason):
    assert discreet.verify(receipt).holds
    found = discreet.verify(changed(receipt, path, value))
    assert found.answer == "does not hold"
    assert reason in found.reason


def test_mechanisms_are_a_multiset(receipt):
    """A second release with the same law is another promise."""
    found = discreet.verify(changed(receipt, ("mechanisms",), receipt["mechanisms"] * 2))
    assert found.answer == "does not hold"
    assert "other noise" in found.reason


def with_unit(receipt, unit, times):
    """The unit changed wherever it stands."""
    forged = changed(changed(receipt, ("guarantee", "unit"), unit), ("certificate", "unit"), unit)
    return changed(forged, ("declared", "trajectories_per_user"), times)


def test_a_unit_of_several_trajectories_needs_its_step(receipt):
    found = discreet.verify(with_unit(receipt, "one user = up to 1000 whole trajectories", 1000))
    assert found.answer == "does not hold"
    assert "up to 1000 trajectories, and the steps are about 1 of them" in found.reason
    for unit in ("one household, however many trajectories", "one user = up to 2 whole trajectories\n"):
        assert discreet.verify(with_unit(receipt, unit, 1)).answer == "cannot tell"
    forged = with_unit(receipt, "one user = up to 2 whole trajectories", 2)
    inner = forged["certificate"]["steps"]
    forged["certificate"]["steps"] = {"kind": "group", "trajectories": 2, "parts": 1, "of": [inner]}
    assert "the steps give epsilon" in discreet.verify(forged).reason


def test_all_reports_of_a_participant_are_put_together():
    part = discreet.recipes.registry.build(discreet.Local(1.0, recipe="local/sampled-step"), discreet.Shape(3, 2, 4), 9)
    certificate = part.guarantee.certificate()
    for rounds, answer in ((1, "holds"), (50, "does not hold")):
        certificate["unit"] = f"all reports of a participant, at most {rounds}"
        assert discreet.verify(certificate).answer == answer
    twice = rules.about(rules.compose([part.guarantee] * 2, delta=0.0, why=""), unit=reports_of(2))
    assert discreet.verify(twice).holds
    assert discreet.verify(rules.about(twice, unit=reports_of(3))).answer == "does not hold"


def test_a_simulation_protects_nobody():
    world = discreet.worlds.river_swim(states=3, horizon=3)
    for result in (
        discreet.simulate(world, "ucbvi", discreet.Central(1.0), episodes=50),
        discreet.offline.simulate(world, users=50, privacy=discreet.Central(1.0), runs=1),
    ):
        found = discreet.verify(result.guarantee)
        assert (found.answer, found.holds, found.code) == ("protects nobody", False, 3)
    calibrated = discreet.calibrate(discreet.Central(1.0), world.shape, episodes=50).guarantee
    found = discreet.verify(calibrated)
    assert (found.answer, found.noise) == ("holds", "not drawn yet")


def test_another_trust_model_is_printed(receipt):
    """A mechanism whose one step is renamed is another one, and its certificate may be true: the reader is told."""
    made = discreet.recipes.registry.build(discreet.Central(1.0), discreet.Shape(3, 2, 4), 200)
    certificate = made.guarantee.certificate()
    assert "model: joint" in discreet.verify(certificate).explain()
    certificate["steps"]["kind"], certificate["model"] = "local", "local"
    found = discreet.verify(certificate).explain()
    for line in ("model: local", "unit: one user = one whole trajectory", "neighbours: replace one user", "noise: not"):
        assert f"\n{line}" in found
    inside = changed(receipt, ("certificate", "steps"), certificate["steps"])
    assert not discreet.verify(inside).holds


@pytest.mark.usefixtures("seeded_noise")
def test_the_word_of_a_verdict_fits_its_interval(table):
    fit = discreet.offline.train(table, epsilon=2.0, delta=1e-6, holdout=0.35, behaviour="uniform")
    receipt = json.loads(json.dumps(fit.facts))
    assert discreet.verify(receipt).holds
    for word in ("better", "worse", "about the same", "proved"):
        judged = receipt["evaluation"]
        sentence = judged["verdict"].replace(judged["word"], word, 1)
        for forged in (
            changed(receipt, ("evaluation", "word"), word),
            changed(changed(receipt, ("evaluation", "word"), word), ("evaluation", "verdict"), sentence),
        ):
            if forged != receipt and word != judged["word"]:
                assert "does not fit its interval" in discreet.verify(forged).reason
    other = changed(receipt, ("evaluation", "difference", "low"), receipt["evaluation"]["difference"]["low"] - 0.1)
    assert "does not fit its interval" in discreet.verify(other).reason
    none = changed(receipt, ("evaluation", "mechanisms"), receipt["evaluation"]["mechanisms"] * 2)
    assert "the judgement of the receipt lists other noise" in discreet.verify(none).reason


def test_receipts_of_other_versions_are_refused_in_a_sentence(receipt):
    for forged in (changed(receipt, ("version",), 1), changed(receipt, ("certificate", "version"), 1)):
        with pytest.raises(InvalidInput, match=r"version .* again"):
            discreet.verify(forged)
    with pytest.raises(InvalidInput, match="no receipt"):
        discreet.verify(changed(receipt, ("format",), "discreet-recipe"))


@pytest.fixture
def signed(receipt, tmp_path):
    public = make_key(tmp_path / "key.pem")
    return keys.signed(receipt, keys.private_key(tmp_path / "key.pem")), public


def test_only_the_key_that_is_named_is_believed(receipt, signed, tmp_path):
    whole, public = signed
    found = discreet.verify(whole)
    assert (found.answer, found.signature) == ("holds", f"by key {public}, which you did not name")
    for key in (public, public.upper(), tmp_path / "key.pem"):
        found = discreet.verify(whole, key=key)
        assert (found.answer, found.signature) == ("holds", f"by key {public}, the one that you named")
    other = make_key(tmp_path / "other.pem")
    made = discreet.recipes.registry.build(discreet.Central(1.0), discreet.Shape(3, 2, 2), 100)
    for promise, reason in ((whole, "by another key"), (receipt, "not signed"), (made.guarantee, "not signed")):
        found = discreet.verify(promise, key=other)
        assert (found.answer, found.code) == ("does not hold", 1)
        assert reason in found.reason
    for key in (None, public):
        found = discreet.verify(changed(whole, ("date",), "2001-01-01"), key=key)
        assert (found.answer, found.signature) == ("does not hold", "broken")
    with pytest.raises(InvalidInput, match="neither a fingerprint"):
        discreet.verify(whole, key="ab12")


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
    assert "no rule is known" in found.reason

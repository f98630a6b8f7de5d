"""``discreet verify``: three exit codes, one sentence for what cannot be read."""

from __future__ import annotations

import json

import pytest

from discreet import Local, Shape
from discreet.recipes.registry import build


@pytest.fixture
def certificate(tmp_path):
    made = build(Local(1.0, recipe="local/sampled-step"), Shape(3, 2, 4), 100).guarantee
    file = tmp_path / "certificate.json"
    file.write_text(json.dumps(made.certificate()))
    return file


def test_a_promise_that_holds(discreet, certificate, tmp_path):
    outcome = discreet("verify", str(certificate), "--json", str(tmp_path / "verdict.json"))
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("signature: none\nholds: ")
    assert "epsilon: stated 1, recomputed at most 1" in outcome.out
    assert json.loads((tmp_path / "verdict.json").read_text())["answer"] == "holds"


def test_a_promise_that_does_not(discreet, certificate):
    forged = json.loads(certificate.read_text())
    forged["stated"]["epsilon"] = "0.5"
    certificate.write_text(json.dumps(forged))
    outcome = discreet("verify", str(certificate))
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.startswith("signature: none\ndoes not hold: ")


def test_the_promise_of_a_simulation(discreet, certificate):
    simulated = json.loads(certificate.read_text()) | {"noise": "simulated"}
    certificate.write_text(json.dumps(simulated))
    outcome = discreet("verify", str(certificate))
    assert (outcome.code, outcome.err) == (3, "")
    assert "\nprotects nobody: " in outcome.out


def test_without_a_signature_a_named_key_is_not_satisfied(discreet, certificate):
    own = discreet("ledger", "key").out.strip()
    outcome = discreet("verify", str(certificate), "--key", own)
    assert (outcome.code, outcome.err) == (1, "")
    assert "\ndoes not hold: it is not signed" in outcome.out
    assert discreet("verify", str(certificate), "--key", "nobody").code == 2


@pytest.mark.parametrize("text", ["", "[1", '{"certificate": NaN}', "{}", '{"a": 1, "a": 1}'])
def test_what_cannot_be_read(discreet, tmp_path, text):
    file = tmp_path / "receipt.json"
    file.write_text(text)
    outcome = discreet("verify", str(file))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("discreet: this cannot be read as a certificate: ")
    assert outcome.err.count("\n") == 1


def test_files_that_are_not_there(discreet, certificate, tmp_path):
    assert discreet("verify", str(tmp_path / "nowhere.json")).code == 2
    assert discreet("verify", str(certificate), "--policy", str(tmp_path / "nowhere.json")).code == 2
    assert discreet("verify", str(certificate), "--json", str(certificate)).code == 2


def test_a_page_is_refused_with_what_to_do(discreet, tmp_path):
    page = tmp_path / "receipt.html"
    page.write_text("<!doctype html>")
    outcome = discreet("verify", str(page))
    assert outcome.code == 2
    assert "'receipt.html' is a page to be read: verify the receipt in JSON" in outcome.err

"""The commands of offline learning: check, train, evaluate, and offline learners in simulate."""

from __future__ import annotations

import html
import json
import re

import duckdb
import pytest

from discreet.base.policies import load_policy

COLUMNS = ("--user", "u", "--step", "t", "--state", "s", "--action", "a", "--reward", "r")
DOMAIN = ("--states", "2", "--actions", "2", "--horizon", "2")


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    duckdb.sql(
        "COPY (SELECT i // 2 AS u, i % 2 AS t, (i // 4) % 2 AS s, (i // 3) % 2 AS a, ((i // 3) % 2)::DOUBLE AS r "
        f"FROM range(400) x(i)) TO '{path}' (HEADER)"
    )
    return path


def test_train_writes_a_policy_and_a_receipt(discreet, rows, tmp_path):
    policy, receipt = tmp_path / "policy.json", tmp_path / "receipt.json"
    outcome = discreet(
        "train", str(rows), *COLUMNS, *DOMAIN, "--epsilon", "2", "--delta", "1e-5", "--out", str(policy),
        "--receipt", str(receipt), "--option", "penalty_scale=0.5",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "central differential privacy, epsilon 2" in outcome.out
    assert load_policy(policy).actions.shape == (2, 2)
    facts = json.loads(receipt.read_text())
    assert facts["learner"]["penalty_scale"] == 0.5
    assert facts["guarantee"]["simulated"] is False
    evaluated = discreet(
        "evaluate", str(policy), "--world", "random-mdp", "--instance", "3", "--json", str(tmp_path / "v.json")
    )
    assert evaluated.code == 0, evaluated.err
    value = json.loads((tmp_path / "v.json").read_text())
    assert value["gap"] == pytest.approx(value["optimal_value"] - value["value"])


def test_receipts_are_signed_by_their_owner(discreet, rows, tmp_path, monkeypatch):
    """By the key of her account, or by the one that she names; where none can be kept, a line says so."""
    policy, receipt, judged = (tmp_path / name for name in ("policy.json", "receipt.json", "judged.json"))
    told = (*COLUMNS, *DOMAIN, "--epsilon", "2")
    train = ("train", str(rows), *told, "--out", str(policy), "--receipt", str(receipt))
    evaluate = ("evaluate", str(policy), "--data", str(rows), *told, "--json", str(judged))
    own, other = discreet("ledger", "key").out.strip(), discreet("ledger", "key", str(tmp_path / "k.pem")).out.strip()
    for more, public in (((), own), (("--key", str(tmp_path / "k.pem")), other)):
        for command, file in ((train, receipt), (evaluate, judged)):
            outcome = discreet(*command, *more)
            assert f"signed by {public}" in outcome.out.replace("\n", "").replace(" " * 10, "")
            for key, code in ((own, 0), (other, 0)):
                assert discreet("verify", str(file), "--key", key).code == (code if key == public else 1)
            assert discreet("verify", str(file)).out.startswith(f"signature: by key {public}, which you did not name")
    assert discreet("verify", str(receipt), "--policy", str(policy)).code == 0
    (tmp_path / "settings").write_text("no folder")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    outcome = discreet(*train)
    assert outcome.code == 0
    assert "not signed, because no key can be kept" in " ".join(outcome.out.split())
    assert discreet("verify", str(receipt)).out.startswith("signature: none\nholds: ")
    assert discreet("ledger", "key").code == 2
    receipt.unlink()
    for key in ("nowhere.pem", str(rows)):
        outcome = discreet(*train, "--key", key)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert not receipt.exists()
    unsigned = discreet("train", str(rows), *told, "--out", str(policy), "--key", str(tmp_path / "k.pem"))
    assert (unsigned.code, "--key signs a receipt" in unsigned.err) == (2, True)


def test_pages_carry_the_signed_receipt(discreet, rows, tmp_path):
    page = tmp_path / "receipt.html"
    discreet(
        "train", str(rows), *COLUMNS, *DOMAIN, "--epsilon", "2", "--out", str(tmp_path / "p.json"),
        "--receipt", str(page),
    )  # fmt: skip
    (text,) = re.findall("<pre>(.*)</pre>", page.read_text(), re.DOTALL)
    (tmp_path / "receipt.json").write_text(html.unescape(text))
    own = discreet("ledger", "key").out.strip()
    assert own in page.read_text()
    assert discreet("verify", str(tmp_path / "receipt.json"), "--key", own).code == 0


def test_check_is_loud_and_says_that_it_is_not_private(discreet, rows):
    outcome = discreet("check", str(rows), *COLUMNS, "--states", "1", "--actions", "2", "--horizon", "2")
    assert outcome.code == 1  # half of the states are not declared
    assert "NOT private" in outcome.out
    assert "200" in outcome.out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--states", None), "--states is missing"),
        (("--user", "patient"), "no column 'patient'"),
        (("--epsilon", None), "either epsilon or rho"),
        (("--epsilon", "-1"), "epsilon must be"),
        (("--learner", "ucbvi"), "apvi"),
        (("--out", "nowhere/policy.json"), "does not exist"),
        (("--out", "policy.txt"), ".json or .npz"),
        (("--states", "two"), "labels such as 1,2,3, or a file with one label per line"),
        (("--option", "penalty"), "name=value"),
        (("--option", "bonus=1"), "option of learner apvi"),
        (("--sampler", "numpy"), "sampler must be 'discreet' or 'opendp'"),
    ],
)
def test_bad_declarations_stop_before_anything_is_written(discreet, rows, tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    given = dict(zip(COLUMNS[::2], COLUMNS[1::2], strict=True)) | dict(zip(DOMAIN[::2], DOMAIN[1::2], strict=True))
    given |= {"--epsilon": "1", "--out": "policy.json", "--receipt": "receipt.json", change[0]: change[1]}
    arguments = [word for name, value in given.items() if value is not None for word in (name, value)]
    outcome = discreet("train", str(rows), *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert sorted(tmp_path.iterdir()) == before


def test_simulate_runs_offline_learners(discreet, tmp_path):
    file = tmp_path / "result.json"
    outcome = discreet(
        "simulate", "--world", "random-mdp", "--learner", "apvi", "--users", "2000", "--behaviour", "uniform",
        "--privacy", "central", "--epsilon", "1", "--runs", "2", "--json", str(file),
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    facts = json.loads(file.read_text())
    assert facts["regret"] is None
    assert len(facts["final_gap"]["per_run"]) == 2
    assert "final gap" in outcome.out
    refused = discreet("simulate", "--learner", "apvi", "--privacy", "local", "--epsilon", "1")
    assert refused.code == 2
    assert "none and central" in refused.err


def test_evaluate_wants_one_world(discreet, rows, tmp_path):
    outcome = discreet("evaluate", str(tmp_path / "none.json"), "--world", "random-mdp")
    assert outcome.code == 2
    assert "--instance" in outcome.err

"""``discreet ledger`` and ``train --ledger``: open, charge, refuse, reuse, show, sign, verify, and plain errors."""

from __future__ import annotations

import json
import random
import sqlite3

import pytest

ROWS = "u,t,s,a,r\n" + "".join(f"{u},{t},{(u + t) % 2},{u % 2},{0.5}\n" for u in range(200) for t in range(2))
TABLE = ("--user", "u", "--step", "t", "--state", "s", "--action", "a", "--reward", "r", "--states", "2",
         "--actions", "2", "--horizon", "2")  # fmt: skip


@pytest.fixture
def book(discreet, tmp_path, monkeypatch):
    """A ledger with a budget of (2, 2e-6) for icu-2026, and a table to train on."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(ROWS)
    outcome = discreet(
        "ledger", "open", "budget.db", "--dataset", "icu-2026", "--epsilon", "2", "--delta", "2e-6", "--json", "o.json"
    )
    assert outcome.code == 0, outcome.err
    assert "epsilon 2 and delta 2e-06" in outcome.out
    assert json.loads((tmp_path / "o.json").read_text())["left"] == {"epsilon": 2.0, "delta": 2e-6}
    return tmp_path


def train(discreet, *more, epsilon="1"):
    given = ("--epsilon", epsilon, "--delta", "1e-6", "--out", "p.json", "--receipt", "r.json", *more)
    return discreet("train", "rows.csv", *TABLE, *given)


CHARGED = ("--ledger", "budget.db", "--dataset", "icu-2026")


def test_train_is_charged_once_reused_and_refused(discreet, book):
    first = train(discreet, *CHARGED)
    assert first.code == 0, first.err
    policy, receipt = (book / "p.json").read_bytes(), json.loads((book / "r.json").read_text())
    assert "charged epsilon 1 and delta 1e-06" in " ".join(first.out.split())
    assert not receipt["ledger"]["reused"]
    (book / "p.json").unlink()
    again = train(discreet, *CHARGED)
    assert "already paid: the stored release was used" in " ".join(again.out.split())
    assert (book / "p.json").read_bytes() == policy
    reused = json.loads((book / "r.json").read_text())
    assert reused["ledger"]["reused"]
    assert reused["guarantee"] == receipt["guarantee"]
    (book / "p.json").unlink()
    refused = train(discreet, *CHARGED, epsilon="1.5")
    assert (refused.code, refused.out) == (2, "")
    assert "'icu-2026' has epsilon 1 and delta 1e-06 left of epsilon 2 and delta 2e-06" in refused.err
    assert not (book / "p.json").exists()


def test_show_says_what_was_spent_on_what(discreet, book):
    train(discreet, *CHARGED)
    outcome = discreet("ledger", "show", "budget.db", "--json", "s.json")
    assert outcome.code == 0, outcome.err
    text = " ".join(outcome.out.split())
    assert "spent epsilon 1 and delta 1e-06" in text
    assert "train apvi by offline/" in text
    (account,) = json.loads((book / "s.json").read_text())
    assert account["left"]["epsilon"] == pytest.approx(1.0)
    (entry,) = account["entries"]
    assert entry["number"] == 1
    assert entry["declaration"] == json.loads((book / "r.json").read_text())["data"]["declaration"]


def test_a_signed_head_shows_what_was_cut_off(discreet, book):
    train(discreet, *CHARGED)
    public = discreet("ledger", "key", "key.pem", "--json", "k.json").out.strip()
    assert json.loads((book / "k.json").read_text()) == {"file": "key.pem", "public_key": public}
    assert discreet("ledger", "head", "budget.db", "--key", "key.pem", "--out", "head.json").code == 0
    sound = discreet("ledger", "verify", "budget.db", "--head", "head.json", "--public-key", public)
    assert (sound.code, "nothing is missing" in sound.out) == (0, True)
    with sqlite3.connect("budget.db") as connection:
        connection.execute("DELETE FROM ledger_entries WHERE number = 1")
        connection.execute("DELETE FROM ledger_releases")
    connection.close()
    alone = discreet("ledger", "verify", "budget.db")
    assert (alone.code, "only a signed head" in alone.out) == (0, True)
    seen = discreet("ledger", "verify", "budget.db", "--head", "head.json", "--json", "v.json")
    assert (seen.code, "NOT SOUND" in seen.out) == (1, True)
    assert "entry 1 of the signed head is not there" in json.loads((book / "v.json").read_text())["problems"][0]
    other = discreet("ledger", "verify", "budget.db", "--head", "head.json", "--public-key", "00" * 32)
    assert (other.code, "not by" in other.err) == (2, True)


def test_a_budget_in_rho_says_which_epsilon_it_keeps(discreet, book):
    stated = ("--epsilon", "1", "--delta", "1e-6", "--mode", "zcdp")
    assert discreet("ledger", "open", "budget.db", "--dataset", "many", *stated).code == 0
    shown = " ".join(discreet("ledger", "show", "budget.db", "--dataset", "many").out.split())
    assert "and delta 5e-07, which keeps epsilon 1 at delta 1e-06" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("open", "budget.db", "--dataset", "icu-2026", "--epsilon", "1"), "declared once"),
        (("open", "new.db", "--dataset", "x"), "give one of them"),
        (("open", "new.db", "--dataset", "x", "--epsilon", "-1"), "epsilon"),
        (("open", "new.db", "--dataset", "", "--epsilon", "1"), "named by"),
        (("open", "new.db", "--dataset", "x", "--epsilon", "1", "--declaration", "abc"), "64 hexadecimal digits"),
        (("open", "no/such/new.db", "--dataset", "x", "--epsilon", "1"), "does not exist"),
        (("open", "rows.csv", "--dataset", "x", "--epsilon", "1"), "is no ledger"),
        (("show", "absent.db"), "there is no ledger 'absent.db'"),
        (("show", "rows.csv"), "is no ledger"),
        (("show", "."), "cannot be read"),
        (("show", "budget.db", "--dataset", "icu-2025"), "did you mean icu-2026"),
        (("verify", "budget.db", "--head", "rows.csv"), "no head of a ledger"),
        (("verify", "budget.db", "--public-key", "00"), "give --head"),
    ],
)
def test_wrong_commands_get_one_sentence(discreet, book, arguments, message):
    outcome = discreet("ledger", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("discreet: ")
    assert outcome.err.count("\n") == 1
    assert message in outcome.err
    assert not (book / "new.db").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--ledger", "budget.db"), "together"),
        (("--dataset", "icu-2026"), "together"),
        (("--ledger", "absent.db", "--dataset", "icu-2026"), "there is no ledger"),
        (("--ledger", "budget.db", "--dataset", "icu-2025"), "did you mean icu-2026"),
        (("--ledger", "p.json", "--dataset", "icu-2026"), "there is no ledger"),
    ],
)
def test_train_refuses_ledgers_that_are_none(discreet, book, more, message):
    outcome = train(discreet, *more)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert not (book / "p.json").exists()


def test_an_output_does_not_overwrite_the_ledger(discreet, book):
    (book / "budget.json").write_bytes((book / "budget.db").read_bytes())
    outcome = discreet(
        "train",
        "rows.csv",
        *TABLE,
        "--epsilon",
        "1",
        "--out",
        "budget.json",
        "--ledger",
        "budget.json",
        "--dataset",
        "x",
    )
    assert (outcome.code, "name the same file" in outcome.err) == (2, True)


def test_an_address_is_not_shown(discreet, book):
    """It may hold a password."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'discreet[ledger]'")
    outcome = discreet("ledger", "show", "postgresql://me:secret@127.0.0.1:1/books")
    assert outcome.code == 2
    assert "cannot be reached" in outcome.err
    assert "secret" not in outcome.err


@pytest.mark.slow
def test_damaged_ledgers_get_a_sentence(discreet, book):
    """Bytes of the file changed at random, and rows that make no sense: exit code 1 or 2, and never a traceback."""
    train(discreet, *CHARGED)
    whole = (book / "budget.db").read_bytes()
    rng = random.Random(7)
    for _ in range(20):
        damaged = bytearray(whole)
        for _ in range(rng.randrange(1, 40)):
            damaged[rng.randrange(16, len(damaged))] = rng.randrange(256)
        (book / "damaged.db").write_bytes(damaged[: rng.choice([len(damaged), len(damaged) // 2])])
        for command in ("show", "verify"):
            outcome = discreet("ledger", command, "damaged.db")
            assert outcome.code in (0, 1, 2)
            assert "Traceback" not in outcome.err
    for change in ("body = '{}'", "body = 7", "number = 'x'", "hash = x'00'", "body = replace(body, 'spent', 'left')"):
        (book / "damaged.db").write_bytes(whole)
        with sqlite3.connect("damaged.db") as connection:
            connection.execute(f"UPDATE ledger_entries SET {change} WHERE number = 1")
        connection.close()
        assert discreet("ledger", "verify", "damaged.db").code == 1
        assert discreet("ledger", "show", "damaged.db").code in (0, 2)
        refused = train(discreet, "--ledger", "damaged.db", "--dataset", "icu-2026")
        assert refused.code in (0, 2)
        assert "Traceback" not in refused.err

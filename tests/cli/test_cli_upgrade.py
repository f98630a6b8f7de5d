"""A ledger of 0.2.0: refused in a sentence, carried over with its sum and its chain, its releases never used again."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.ledger.conftest import pure
from tests.released.make import TABLE

from discreet import ledger
from discreet.base.errors import InvalidInput, OverBudget, Unsupported
from discreet.ledger.chain import OLD

RELEASED = Path(__file__).parents[1] / "released" / "0.2.0"
WHAT = (
    "data set 'people' of this ledger was written by discreet 0.2: carry over what it has spent with discreet ledger "
    "upgrade LEDGER"
)
CHARGED = ("--epsilon", "1", "--ledger", "ledger.db", "--dataset", "people", "--out", "again.json")


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A ledger of 0.2.0 that has spent 1 of 4, and the table that it is about."""
    for name in ("ledger.db", "table.csv", "policy.json"):
        shutil.copy(RELEASED / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "ledger.db"


@pytest.mark.parametrize(
    "arguments",
    [
        ("ledger", "show", "ledger.db"),
        ("ledger", "verify", "ledger.db"),
        ("train", "table.csv", *TABLE, *CHARGED),
    ],
    ids=lambda given: " ".join(given[:2]),
)
def test_an_old_ledger_is_refused_in_one_sentence(discreet, old, arguments):
    before = old.read_bytes()
    outcome = discreet(*arguments)
    assert (outcome.code, outcome.out, outcome.err.strip()) == (2, "", f"discreet: {WHAT}")
    assert old.read_bytes() == before


def test_the_sum_and_the_chain_stay_and_the_same_request_is_charged_anew_and_says_so(discreet, old):
    ledger.make_key(old.parent / "key.pem")
    with ledger.opened(old) as books:
        head = ledger.sign_head(books, old.parent / "key.pem")
        entries = books.execute("SELECT * FROM ledger_entries ORDER BY number").fetchall()
    done = discreet("ledger", "upgrade", "ledger.db")
    assert (done.code, done.out) == (0, "people: spent epsilon 1, as before; stored releases that were closed: 1\n")
    assert "nothing to carry over" in discreet("ledger", "upgrade", "ledger.db").out
    with ledger.opened(old) as books:
        assert books.execute("SELECT * FROM ledger_entries ORDER BY number").fetchall()[: len(entries)] == entries
        assert ledger.verify(books, head).problems == ()
    first = discreet("train", "table.csv", *TABLE, *CHARGED)
    said = " ".join(first.out.split())
    assert "charged epsilon 1, anew: 1 stored release from before the upgrade is closed; epsilon 2 left" in said
    again = discreet("train", "table.csv", *TABLE, *CHARGED)
    assert "already paid: the stored release was used; epsilon 2 left" in " ".join(again.out.split())
    assert "epsilon 2" in " ".join(discreet("ledger", "show", "ledger.db").out.split())
    with ledger.opened(old) as books:
        assert ledger.verify(books, head).problems == ()
        with pytest.raises(OverBudget), ledger.transaction(books):
            ledger.spend(books, "people", pure(2.5), what="too much", who="user")
        with pytest.raises(Unsupported, match="about unit 'one user'"), ledger.transaction(books):
            ledger.spend(books, "people", _of_reports(), what="of another unit", who="user")


def _of_reports():
    from discreet.privacy.guarantee import about

    return about(pure(0.1), unit="all reports of a participant, at most 2")


def test_a_damaged_ledger_is_not_carried_over(old):
    with sqlite3.connect(old) as raw:
        raw.execute('UPDATE ledger_entries SET body = replace(body, \'"cost":["3\', \'"cost":["2\') WHERE number = 1')
    with ledger.opened(old) as books:
        with pytest.raises(InvalidInput, match="nothing was carried over"), ledger.transaction(books):
            ledger.upgrade(books)
        assert books.execute("SELECT count(*) FROM ledger_entries").fetchone() == (2,)


def test_a_data_set_that_nobody_charged_is_carried_over_too(tmp_path, monkeypatch):
    """The first charge after it fixes what charges are about."""
    with ledger.opened(tmp_path / "budget.db", new=True) as books:
        with ledger.transaction(books):
            ledger.open_data_set(books, "people", ledger.make_budget(epsilon=1.0))
        with monkeypatch.context() as patch, ledger.transaction(books):
            patch.setattr("discreet.ledger.spending.FORMAT", OLD)
            ledger.open_data_set(books, "empty", ledger.make_budget(epsilon=1.0))
        with pytest.raises(InvalidInput, match="carry over what it has spent"), ledger.transaction(books):
            ledger.spend(books, "empty", pure(0.1), what="a count", who="user")
        with ledger.transaction(books):
            assert [found.data_set for found in ledger.upgrade(books)] == ["empty"]  # "people" is of this version
        with ledger.transaction(books):
            ledger.spend(books, "empty", pure(0.1), what="a count", who="user")
        with pytest.raises(Unsupported, match="about who 'user'"), ledger.transaction(books):
            ledger.spend(books, "empty", pure(0.1), what="a count", who="visit")
        assert ledger.verify(books).problems == ()

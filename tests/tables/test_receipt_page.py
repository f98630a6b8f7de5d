"""The page of a receipt: sentences with computed numbers, everything escaped, optional sections where they are."""

from __future__ import annotations

import copy
import math
import re
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

import discreet.data
import discreet.offline
from discreet import ledger
from discreet.privacy.odds import factor, likely, one_in
from discreet.privacy.words import rounded_up
from discreet.tables.receipt_page import page
from discreet.tables.receipt_words import ADDS_UP, at_several_deltas, not_promised, people_words, promised

EVIL = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """The facts of a real release that was charged to a ledger."""
    book = tmp_path_factory.mktemp("book") / "budget.db"
    with ledger.opened(book, new=True) as connection, ledger.transaction(connection):
        ledger.open_data_set(connection, "icu-2026", ledger.make_budget(epsilon=4.0, delta=1e-5))
    rng = np.random.default_rng(2)
    columns = {"patient": np.repeat(np.arange(400), 2), "t": np.tile([0, 1], 400), "r": np.full(800, 0.5)}
    columns |= {name: rng.integers(0, 2, 800) for name in ("s", "a")}
    names = {"user": "patient", "step": "t", "state": "s", "action": "a", "reward": "r"}
    table = discreet.data.read(pa.table(columns), **names, states=2, actions=2, horizon=2)
    for epsilon in (0.5, 1.0):
        fit = discreet.offline.train(table, epsilon=epsilon, delta=1e-6, ledger=book, dataset="icu-2026")
    return fit.facts


class Reader(HTMLParser):
    """The text of a page; and that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.open = "", []

    def handle_starttag(self, tag, attributes):
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += f" {data}"


def read(facts) -> str:
    reader = Reader()
    reader.feed(page(facts))
    assert reader.open == []
    return " ".join(reader.text.split())


def test_it_says_what_is_promised_about_whom_and_what_was_spent(facts):
    text = read(facts)
    for phrase in (
        facts["guarantee"]["statement"],
        "more than 2.719 times as likely",
        "From even odds, 50%, that is to at most 73.2%.",
        "differ by a factor of at most 7.39",
        "Delta, 1e-06, is the most by which",
        "the noise that the receipt says was added",
        "Data set icu-2026",
        f"written on {facts['date']}",
        "one value of the column 'patient', one trajectory",
        "how many people there are (400)",
        facts["data"]["declaration"],
        "spent before epsilon 0.5 and delta 1e-06, by one entry",
        "left after it epsilon 2.5 and delta 8e-06",
        facts["ledger"]["hash"],
        "exact samplers of OpenDP",
        "Nobody was held out to judge the policy",
        facts["policy"]["sha256"],
        facts["versions"]["opendp"],
        "the policy is good",
    ):
        assert phrase in text, phrase
    for line in facts["guarantee"]["derivation"]:
        assert line.strip().removeprefix("└─ ") in text


def test_numbers_are_computed_and_never_understated(facts):
    for epsilon in (0.1, 0.5, 1.0, 2.0, 3.7):
        assert math.exp(epsilon) <= float(factor(epsilon)) < math.exp(epsilon) * 1.01
        assert math.exp(epsilon) / (1 + math.exp(epsilon)) <= float(likely(epsilon)[:-1]) / 100 + 1e-12
    for delta in (1e-6, 3e-7, 1e-9, 0.3):
        assert 1 / int(one_in(delta).removeprefix("one in ").replace(",", "")) >= delta * (1 - 1e-9)
    rows = at_several_deltas(facts)
    beyond = facts["guarantee"]["exceeded"]
    assert beyond == 0.0 or 1e-6 < beyond < 1e-4
    assert ("1e-06", "1", "2.719", "73.2%", rounded_up(beyond, 3)) in rows
    assert len(rows) == 5


def test_large_numbers_are_called_large(facts):
    large = copy.deepcopy(facts)
    large["guarantee"] |= {"epsilon": 8.0, "delta": 0.01, "exceeded": 0.04}
    words = " ".join(promised(large))
    assert "This epsilon is large" in words
    assert "This delta is large: with 400 people" in words
    assert "is large" not in " ".join(promised(facts))


def test_a_promise_in_rho_is_put_into_words_at_a_usual_delta(facts):
    stated = copy.deepcopy(facts)
    stated["guarantee"] |= {"epsilon": None, "delta": 0.0}
    assert "Take any one person" in promised(stated)[0]
    nothing = copy.deepcopy(stated)
    nothing["guarantee"]["epsilon_at"] = [{"delta": 1e-3, "epsilon": None, "exceeded": None}]
    assert "Nothing that can be stated" in promised(nothing)[0]
    assert "no bound" in read(nothing)


def test_optional_sections_are_shown_where_they_are(facts):
    alone = read({**facts, "ledger": None, "adds_up": ADDS_UP})
    assert "No ledger was kept" in alone
    assert ADDS_UP in alone
    assert "Already paid" in read({**facts, "ledger": {**facts["ledger"], "reused": True}})
    entry = {"estimate": 0.74, "low": 0.66, "high": 0.81, "confidence": 0.95}
    evaluation = {"value": entry, "behaviour": entry, "difference": entry, "verdict": "better"}
    judged = read({**facts, "evaluation": evaluation})
    assert judged.count("0.74 0.66 to 0.81 95%") == 3
    assert "better" in judged
    assert "held out to judge" not in judged
    certified = read({**facts, "certificate": {"law": EVIL}})
    assert "discreet verify receipt.json" in certified
    assert "The receipt" in certified
    assert "this receipt is not signed" in certified
    assert "signed by the key ab12" in read({**facts, "signature": {"key": "ab12", "value": "00"}})


def test_held_out_people_are_counted_too(facts):
    everybody = facts["declared"]["users"] + 700
    judged = facts | {"evaluation": {"split": {"users": everybody}}}
    assert people_words(facts) == f"{facts['declared']['users']:,}"
    assert people_words(judged) == f"{everybody:,}: {facts['declared']['users']:,} learned from, 700 held out to judge"
    assert f"({people_words(judged)})" in not_promised(judged)[1]


def test_everything_is_escaped(facts):
    evil = copy.deepcopy(facts)
    evil["data"] |= {"dataset": EVIL, "user": EVIL}
    evil["declared"] |= {"state_labels": [EVIL] * 60, "public": [EVIL]}
    evil["certificate"] = {"law": EVIL}
    evil["guarantee"]["derivation"].append(f"   {EVIL}")
    text = page(evil)
    assert "<script" not in text
    assert "... 60 in all" in read(evil)


def test_the_page_needs_nothing_from_elsewhere_and_bends_to_its_reader(facts):
    text = page(facts)
    assert not re.search(r"https?://|<script|<link|<img|@import|url\(", text)
    for rule in ("prefers-color-scheme:dark", "@media print", "max-width:34rem", "overflow-wrap:anywhere"):
        assert rule in text

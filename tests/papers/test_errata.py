"""The page of errata says what the entries compute: part of it is made from them, and no verdict outruns its proof."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from pathlib import Path

import pytest

from discreet.papers import PUBLISHED, example
from discreet.papers.errata import ROWS, outcome, page, rounded, sizes
from discreet.papers.statements import BEYOND, FAILS, HOLDS, STATEMENTS

ERRATA = (Path(__file__).parents[2] / "docs" / "errata.md").read_text()
MADE = re.search(r"<!-- made by discreet\.papers\.errata -->\n(.*)<!-- end of what is made -->", ERRATA, re.DOTALL)

# By hand, from the formulas of the findings; deltas by the closed form of the Gaussian, or as probabilities.
FOUND = {
    ("heavy-tailed-central", "S=6 A=2 H=20 K=20000 eps=1"): "epsilon 1.75",
    ("heavy-tailed-central-raw-counts", "S=6 A=2 H=20 K=20000 eps=1"): "epsilon at least 1566",
    ("heavy-tailed-local", "S=6 A=2 H=20 K=20000 eps=1"): "epsilon 1.667",
    ("adversarial-full-information", "S=16 A=3 H=4 K=4095 eps=1"): "epsilon 5.333",
    ("adversarial-bandit", "S=16 A=3 H=4 K=4095 eps=1"): "epsilon 2",
    ("ldp-obi-gaussian", "S=2 A=2 H=2 pooled K=20000 eps=20 delta=0.1"): "delta 0.986",
    ("offline-vapvi", "S=2 A=100 H=20 K=1000 rho=1"): "rho at most 0.8",
    ("offline-vapvi-experiment", "S=2 A=100 H=20 K=1000 rho=1"): "rho at least 11.4, at most 24.15",
    ("sdp-pe-split", "S=4 A=2 H=6 K=20000 eps=0.9"): "epsilon 1.8",
    ("sdp-pe-integer-messages", "S=1 A=20 H=1 K=20000 eps=1 delta=1e-05"): "delta at least 0.33",
    ("sdp-pe-integer-messages", "S=1 A=20 H=1 K=20000 eps=0.9 delta=1e-05"): "delta at least 0.176",
}


def test_the_page_has_what_is_made():
    assert MADE is not None
    assert MADE[1].strip() == page().strip(), "run python -m discreet.papers.errata and put it between the marks"


def test_every_mechanism_has_a_statement_and_a_row():
    assert {row.name for row in ROWS} == set(PUBLISHED) == set(STATEMENTS)
    for statement in STATEMENTS.values():
        assert all((statement.where, statement.says, statement.condition, statement.computed))
        assert statement.standing in (FAILS, BEYOND, HOLDS)


@pytest.mark.parametrize(("where", "found"), FOUND.items(), ids=lambda value: value if isinstance(value, str) else "")
def test_known_numbers_stand_in_the_page(where, found):
    name, at = where
    (row,) = (row for row in ROWS if (row.name, sizes(row.setting)) == (f"published/{name}", at))
    assert outcome(row.entry, row.setting, row.unit).found == found


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_verdict_rests_on_a_bound_of_the_right_kind(name):
    """What is said not to hold is exact there or reached by a pair; an upper bound above a claim proves nothing."""
    entry = PUBLISHED[name]
    results = [(row, outcome(row.entry, row.setting, row.unit)) for row in ROWS if row.name == name]
    for row, result in results:
        if not result.holds and (entry.bound or entry.no_bound(row.setting)):
            reached = entry.reached(row.setting)
            said = {"epsilon": row.setting.epsilon, "delta": row.setting.delta, "rho": row.setting.rho}[reached.unit]
            assert reached.value > said
    holds = [result.holds for _, result in results]
    if entry.statement.standing == HOLDS:
        assert all(holds) or entry.roughly
    else:
        assert not all(holds)


def test_what_is_quoted_in_lists_is_a_row_of_the_page():
    shown = {(row.name, sizes(row.setting)) for row in ROWS}
    assert {(name, sizes(example(name))) for name in PUBLISHED} <= shown


def test_bounds_are_rounded_outwards():
    assert (rounded(0.12341, math.ceil), rounded(0.12349, math.floor)) == ("0.1235", "0.1234")
    assert (rounded(24.15, math.ceil), rounded(11.4, math.floor), rounded(0.0, math.ceil)) == ("24.15", "11.4", "0")


def test_entries_are_described_for_people():
    for entry in PUBLISHED.values():
        for each in fields(entry):
            if each.name in ("paper", "noise", "finding", "corrected"):
                assert getattr(entry, each.name)


def test_the_statements_are_counted_right():
    found = [statement.standing for statement in STATEMENTS.values()]
    assert (found.count(HOLDS), found.count(FAILS), found.count(BEYOND)) == (10, 9, 3)
    text = " ".join(ERRATA.split())
    assert "Ten of the 22 statements hold at the sizes that are named, nine do not" in text

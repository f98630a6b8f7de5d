"""One line at a prompt, a table in a notebook: short, escaped, and at home on any ground."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from discreet.base.notebook import counted, facts_html, one_line, table_html


@pytest.mark.parametrize("length", [1, 50, 110, 119, 120, 500])
def test_a_line_is_short_whatever_it_is_about(length):
    text = one_line("Thing", "x" * length, "y")
    assert len(text) < 120
    assert text.startswith("<Thing: x")
    assert text.endswith(">")
    assert text.endswith(", y>") == (length < 105)


def test_a_line_is_one_line():
    assert one_line("Thing", "two\nlines", "") == "<Thing: two lines>"


@pytest.mark.parametrize(("number", "words"), [(1, "1 run"), (2, "2 runs"), (0, "0 runs"), (20_000, "20,000 runs")])
def test_numbers_of_things(number, words):
    assert counted(number, "run") == words


def test_tables_are_escaped_and_whole():
    html = table_html("<b>", ["name", "1 < 2"], [["<script>alert(1)</script>", "&"]], "a > b")
    assert "<script" not in html
    tree = ElementTree.fromstring(html)
    cells = [cell.text for cell in tree.iter() if cell.tag in ("td", "th")]
    assert cells == ["name", "1 < 2", "<script>alert(1)</script>", "&"]
    facts = ElementTree.fromstring(facts_html("title", [("a", "<x>"), ("b", "2")]))
    assert [cell.text for cell in facts.iter("td")] == ["<x>", "2"]


def test_tables_take_the_colours_of_their_page():
    """No colour of its own but a half-transparent grey line: black on white and white on black both stay readable."""
    html = table_html("t", ["a"], [["b"]])
    styles = [rule for node in ElementTree.fromstring(html).iter() for rule in node.get("style", "").split(";")]
    colours = {rule for rule in styles if rule.startswith(("color:", "background"))}
    assert colours <= {"color:inherit", "background:transparent"}
    assert not [rule for rule in styles if "url(" in rule or "http" in rule]


def test_rows_that_do_not_fit_their_columns_are_refused():
    with pytest.raises(ValueError, match="zip"):
        table_html("t", ["a", "b"], [["only one"]])


def test_plans_and_checks_are_short_at_a_prompt_and_tables_in_a_notebook():
    import discreet.data
    import discreet.offline

    plan = discreet.offline.plan(discreet.Shape(2, 2, 2), users=100, epsilons=1.0, runs=1)
    assert repr(plan) == "<Plan: 2 rows, 2 states, 2 actions, 2 steps>"
    assert "noise in a row" in plan._repr_html_()
    report = discreet.data.CheckReport(rows=4, users=1, findings=(("rows without a state", 1),))
    assert repr(report) == "<CheckReport, NOT private: 4 rows, 1 user, some rows would be repaired>"
    assert "rows without a state" in report._repr_html_()
    assert "NOT private" in report._repr_html_()

"""Statements that are checked one by one: the page says what held and what did not, with the numbers."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pytest

from discreet.cli import main
from discreet.reproduce.statements import STATEMENTS, Statements, check_statements


class Found(NamedTuple):
    name: str
    statement: str
    holds: bool
    numbers: dict[str, Any]


FOUND = (
    Found("A1", "water is wet", True, {"wetness": 0.123456}),
    Found("A2", "stones float", np.bool_(False), {"depth": np.float64(7.0), "stone": {"grey": 2, "red": None}}),
)
NAMED = Statements("things/statements", "About things", "a paper", lambda scale, seed: FOUND)


def test_the_page_says_what_held(tmp_path):
    verdicts, page = check_statements(NAMED, out=tmp_path, seed=3)
    text = page.read_text()
    assert verdicts == FOUND
    assert "| A1 | water is wet | ✓ holds | wetness: 0.1235 |" in text
    assert "| A2 | stones float | ✗ fails | depth: 7, stone: (grey: 2, red: None) |" in text
    assert "discreet reproduce things/statements --scale quick --seed 3" in text
    kept = json.loads((page.parent / "verdicts.json").read_text())
    assert (kept["A1"]["holds"], kept["A2"]["holds"]) == (True, False)


def test_the_command_runs_them_and_puts_them_on_the_front_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(STATEMENTS, "things/statements", NAMED)
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "things", "--out", str(tmp_path)])
    assert not stop.value.code
    assert "stones float" in capsys.readouterr().out
    front = (tmp_path / "index.md").read_text()
    assert "| water is wet | ✓ holds |" in front
    assert "| stones float | ✗ fails |" in front


def test_the_statements_about_adversaries_are_listed():
    from discreet.reproduce.adversarial import CHECKS

    assert "adversarial/statements" in STATEMENTS
    assert len(CHECKS) >= 8


def test_the_matrix_refuses_a_place_to_run_that_does_not_exist(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["matrix", "--executor", "nowhere", "--out", str(tmp_path / "matrix")])
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1

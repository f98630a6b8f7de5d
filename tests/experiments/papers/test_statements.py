"""Statements that are checked one by one: the page says what held and what did not, with the numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from experiments.papers.figure import Verdict

from discreet.base.errors import InvalidInput
from discreet.cli import main
from experiments.papers import FIGURES, Claim, Figure, Scale, reproduce

WET = Verdict(True, numbers={"wetness": 0.123456})
FLOAT = Verdict(np.bool_(False), numbers={"depth": np.float64(7.0), "stone": {"grey": 2, "red": None}})
NAMED = Figure(
    "things/statements",
    "About things",
    "a paper",
    (),
    {"quick": Scale(1, 1), "paper": Scale(2, 2)},
    (Claim("A1", "water is wet", lambda scale: WET), Claim("A2", "stones float", lambda scale: FLOAT)),
)


def test_the_page_says_what_held(tmp_path):
    done = reproduce(NAMED, out=tmp_path, seed=3)
    text = done.page.read_text()
    assert done.verdicts == {"A1": {"measured": WET}, "A2": {"measured": FLOAT}}
    assert "| A1 | water is wet | ✓ holds | wetness: 0.1235 |" in text
    assert "| A2 | stones float | ✗ fails | depth: 7, stone: (grey: 2, red: None) |" in text
    assert "discreet reproduce things/statements --scale quick --seed 3" in text
    kept = json.loads((done.page.parent / "verdicts.json").read_text())
    assert (kept["A1"]["holds"], kept["A2"]["holds"]) == (True, False)
    assert kept["A2"]["numbers"]["depth"] == 7.0


def test_statements_without_a_picture_have_none_and_others_have(tmp_path):
    plain = reproduce(NAMED, out=tmp_path).page
    assert "figure.png" not in plain.read_text()
    assert not (plain.parent / "figure.png").exists()
    drawn = reproduce(replace(NAMED, draw=lambda scale: b"a picture of " + str(scale.runs).encode()), out=tmp_path).page
    assert "![About things](figure.png)" in drawn.read_text()
    assert (drawn.parent / "figure.png").read_bytes() == b"a picture of 1"


def test_checks_get_what_was_measured_at_the_scale_and_seed(tmp_path):
    seen = []
    claims = (Claim("A1", "a", lambda found: seen.append(found) or WET),)
    reproduce(replace(NAMED, claims=claims), scale="paper", out=tmp_path, seed=5)
    reproduce(replace(NAMED, claims=claims, measure=lambda scale: [scale.episodes]), out=tmp_path)
    assert seen == [Scale(2, 2, seed=5), [1]]


def test_scales_are_named(tmp_path):
    with pytest.raises(InvalidInput, match="quick"):
        reproduce(NAMED, scale="quik", out=tmp_path)


def test_the_command_runs_them_and_puts_them_on_the_front_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(FIGURES, "things/statements", NAMED)
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "things", "--out", str(tmp_path)])
    assert not stop.value.code
    assert "stones float" in capsys.readouterr().out
    front = (tmp_path / "index.md").read_text()
    assert "| water is wet | ✓ holds |" in front
    assert "| stones float | ✗ fails |" in front

"""Trials of one step: what is stored is what the page says, and a few trials are run anew."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.trials import CELLS, STORED, name_of, trial

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"


def test_the_page_says_what_is_stored():
    stored, page = json.loads(STORED.read_text()), PAGE.read_text()
    for cell in CELLS:
        epsilon, top, effect = cell
        if not effect:
            continue
        found, null = stored[name_of(cell)], stored[name_of((epsilon, top, 0.0))]
        shares = [found[word] / found["trials"] for word in ("best", "better", "worse", "covered")]
        shares.append(null["better"] / null["trials"])
        row = f"| {epsilon:g} | 0 to {top:,.0f} | " + " | ".join(f"{share:.2f}".removeprefix("0") for share in shares)
        assert row in page, row
        assert found["trials"] >= 400
        assert found["itself"] == null["itself"] == 0
        assert found["worse"] / found["trials"] <= 0.02


def test_what_was_asked_for_at_epsilon_2():
    stored = json.loads(STORED.read_text())
    for top, better in ((1500.0, 0.83), (7500.0, 0.75)):
        found = stored[name_of((2.0, top, 26.0))]
        assert found["better"] / found["trials"] >= better
        assert found["best"] / found["trials"] >= 0.95


def test_a_few_trials_anew():
    """Twelve seeded trials: of .87 that are better, fewer than 7 would be 2e-3 by chance."""
    found = [trial(2.0, 1500.0, 26.0, seed) for seed in range(12)]
    assert sum(each["better"] for each in found) >= 7
    assert not sum(each["itself"] + each["worse"] for each in found)

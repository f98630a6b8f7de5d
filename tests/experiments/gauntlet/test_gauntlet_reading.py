"""Tables, pictures and comparisons of stored cells, on rows that are made up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from experiments.gauntlet.__main__ import main
from experiments.gauntlet.cells import make_cells, worlds_of
from experiments.gauntlet.comparing import (
    MORE_TRUST,
    between,
    worse_with_more_trust,
)
from experiments.gauntlet.reading import load, markdown, percent

from discreet.base.errors import InvalidInput
from experiments.gauntlet import running


def store(folder: Path, shares: dict[str, float], tag: str = "old", seed: int = 1, stuck: int = 0) -> None:
    """Rows for two worlds: 20 runs of ucbvi whose regret is this share of uniform play's, on average."""
    rng = np.random.default_rng(seed)
    for cell in make_cells(worlds_of(None, ["river-4", "arms-5"]), ["ucbvi"], list(shares), runs=20, seed=seed):
        regret = 0.4 * cell.users * shares[cell.trust] * (1 + 0.1 * rng.standard_normal(cell.runs))
        gap = [0.2] * stuck + [0.0] * (cell.runs - stuck)
        measured = {"regret": regret.tolist(), "final_gap": gap, "uniform_gap": [0.4] * cell.runs, "seconds": 1.0}
        row = {**cell.key(), "tag": tag, "half": cell.entry.half, "kind": cell.entry.kind, "limit": 5.0, "reason": ""}
        row |= {"status": "done", **measured, **running.summary(cell.users, measured)}
        folder.mkdir(exist_ok=True)
        running.path_of(cell, tag, folder).write_text(json.dumps(row))


def refuse(folder: Path, trust: str) -> None:
    for cell in make_cells(worlds_of(None, ["river-4"]), ["ucbvi"], [trust], runs=20):
        row = {**cell.key(), "tag": "old", "half": cell.entry.half, "kind": cell.entry.kind, "limit": 5.0}
        row |= {"status": "refused", "reason": "there is none"}
        running.path_of(cell, "old", folder).write_text(json.dumps(row))


def test_more_trust_that_is_worse_is_found_and_less_is_not(tmp_path):
    store(tmp_path, {"none": 0.01, "central-1": 0.3, "shuffle-1": 0.2, "local-1": 0.5})
    found = worse_with_more_trust(load(tmp_path))
    assert len(found) == 2 * 2  # central with shuffle and shuffle with local in two worlds; none has no neighbour here
    sure = {(item.first["trust"], item.second["trust"]) for item in found if item.corrected < 0.05}
    assert sure == {("central-1", "shuffle-1")}
    assert len(set(MORE_TRUST)) == len(MORE_TRUST)


def test_versions_are_compared_cell_by_cell(tmp_path, capsys):
    store(tmp_path / "a", {"none": 0.1, "local-1": 0.5}, stuck=3)
    store(tmp_path / "b", {"none": 0.05, "local-1": 0.5}, tag="new", seed=2)
    found = between(load(tmp_path / "a"), load(tmp_path / "b"), same=("world", "users", "learner", "trust"))
    assert {item.first["trust"] for item in found if item.corrected < 0.05} == {"none"}
    assert [item.ratio for item in found if item.first["trust"] == "none"] == pytest.approx([0.5, 0.5], rel=0.1)
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "| ucbvi | none | 2 | 0." in (text := capsys.readouterr().out)
    assert "| 6 of 40 | 0 of 40 |" in text
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "a"), "--trusts", "none", "local-1"]) == 0
    assert "| ucbvi | local-1 | 2 | " in capsys.readouterr().out


def test_the_table_and_the_picture_are_written(tmp_path):
    store(tmp_path, {"none": 0.01, "local-1": 0.5}, stuck=3)
    refuse(tmp_path, "shuffle-1")
    assert main(["table", str(tmp_path)]) == 0
    text = (tmp_path / "table.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| river-4 |"))
    assert row.count("**(3)**") == 2
    assert "| – |" in row
    assert "there is none" in text
    assert "6 of 40" not in text  # the halves are summed apart
    assert (tmp_path / "table.png").read_bytes().startswith(b"\x89PNG")
    assert main(["compare", str(tmp_path)]) == 0


def test_a_folder_with_two_versions_asks_which(tmp_path):
    store(tmp_path, {"none": 0.01})
    store(tmp_path, {"none": 0.02}, tag="new")
    with pytest.raises(InvalidInput, match=r"more than one tag: give --tag, one of \['new', 'old'\]"):
        load(tmp_path)
    assert {row["tag"] for row in load(tmp_path, "new")} == {"new"}
    assert markdown(load(tmp_path, "new")).startswith("Version new, seed 1.")
    with pytest.raises(InvalidInput, match="no such cells"):
        load(tmp_path, "newer")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InvalidInput, match="is not a cell"):
        load(tmp_path)


@pytest.mark.parametrize(("share", "text"), [(1.5, "150"), (0.1, "10"), (0.0213, "2.1"), (0.00123, "0.12"), (0.0, "0")])
def test_percent_has_two_digits(share, text):
    assert percent(share) == text

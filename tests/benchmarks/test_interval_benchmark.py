"""The benchmark of intervals: it goes on where it stopped, and its summary counts what it says."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from benchmarks import evaluation


def test_it_is_resumable_and_sums_up(tmp_path, monkeypatch, capsys):
    file = tmp_path / "rows.jsonl"
    monkeypatch.setattr(evaluation, "CELLS", [("dirichlet", 300, 1.0)])
    command = ["evaluation", "--repetitions", "1", "--file", str(file), "--policy", "learned"]
    monkeypatch.setattr(sys, "argv", command)
    evaluation.main()
    first = file.read_text()
    assert len(first.splitlines()) == 2
    evaluation.main()
    assert file.read_text() == first
    assert "dirichlet 300 1.0 learned declared | 1 |" in capsys.readouterr().out
    row = json.loads(first.splitlines()[0])
    missed = {**row, "repetition": 1, "high": [-9.0] * 3, "low": [-10.0] * 3, "verdict": "better", "truth": [0, 0, -1]}
    text = evaluation.summary([{**row, "truth": [(a + b) / 2 for a, b in zip(row["low"], row["high"])]}, missed])
    assert "0.500 /" in text
    assert text.endswith("0.500")


@pytest.mark.parametrize("name", ["dirichlet", "river", "hospital", "hospital-pooled"])
def test_worlds_are_what_their_tables_say(name):
    """Mean returns of users against exact values: four deviations, missed once in 16,000."""
    world = evaluation.WORLDS[name](3)
    assert world.chances.sum(axis=3) == pytest.approx(1.0)
    paths = evaluation.act(world, 4000, np.random.default_rng(0))
    low, span = world.shape.rewards[0], world.shape.reward_span
    returns = np.bincount(paths.user, low + span * paths.reward, minlength=4000)
    exact = evaluation.values(world, world.behaviour)[1]
    assert abs(returns.mean() - exact) < 4 * returns.std() / 4000**0.5

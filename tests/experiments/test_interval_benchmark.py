"""The benchmark of intervals: it goes on where it stopped, sums up what it says, and its page comes from its file."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from experiments.evaluation_page import BEGIN, DATA, END, PAGE, cells_of, read, tables, wilson
from experiments.evaluation_worlds import WORLDS, Crowd, values

from experiments import evaluation, evaluation_page


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
    found = cells_of([{**row, "truth": [(a + b) / 2 for a, b in zip(row["low"], row["high"])]}, missed])
    assert (found[0].n, found[0].covered, found[0].better, found[0].false_better) == (2, (1, 1, 1), 1, 1)
    untold = cells_of([{**missed, "verdict": "cannot be told"}, {**row, "verdict": "about the same"}])[0]
    assert (untold.untold, untold.told_covered[0]) == (1, int(row["low"][0] <= row["truth"][0] <= row["high"][0]))
    assert "0.500 /" in evaluation.summary(found)
    assert evaluation.summary(found).endswith("0.500")


def test_what_is_slow_comes_less_often():
    bench = evaluation.Bench("river", 50_000, 1.0)
    assert bench.kinds(20) == evaluation.KINDS
    assert bench.kinds(11) == []
    assert ("safe", "declared") not in evaluation.Bench("river", 10_000, 1.0).kinds(11)


@pytest.mark.parametrize("name", ["dirichlet", "river", "hospital", "hospital-pooled"])
def test_worlds_are_what_their_tables_say(name):
    """Mean returns of users against exact values: four deviations, missed once in 16,000."""
    world = WORLDS[name]([3])
    assert world.chances.sum(axis=3) == pytest.approx(1.0)
    paths = Crowd(world).act(4000, np.random.default_rng(0))
    low, span = world.shape.rewards[0], world.shape.reward_span
    returns = np.bincount(paths.user, low + span * paths.reward, minlength=4000)
    exact = values(world, world.behaviour)[1]
    assert abs(returns.mean() - exact) < 4 * returns.std() / 4000**0.5


def test_the_tables_of_the_page_are_drawn_from_the_file():
    cells, page = read(), PAGE.read_text()
    assert len(cells) >= 39
    assert len(DATA.read_bytes()) < 100_000
    assert page.split(BEGIN)[1].split(END)[0].strip() == tables(cells).strip()
    other = [cells[0]._replace(covered=(0, 0, 0)), *cells[1:]]
    assert tables(other) != tables(cells)


def test_a_page_is_written_between_its_marks(tmp_path, monkeypatch):
    cells = [cell._replace(n=20, covered=(18, 20, 20)) for cell in read()[:3]]
    monkeypatch.setattr(evaluation_page, "DATA", tmp_path / "x.json")
    monkeypatch.setattr(evaluation_page, "PAGE", tmp_path / "x.md")
    (tmp_path / "x.md").write_text(f"before\n{BEGIN}\nstale\n{END}\nafter\n")
    evaluation_page.write([*cells, cells[0]._replace(users=77, n=19)])  # the last one has too few repetitions
    assert evaluation_page.read() == cells
    text = (tmp_path / "x.md").read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "stale" not in text
    assert "0.900 of 20" in text


def test_proportions_have_wilsons_interval():
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)  # p (1 - p) / n (1.96)^2 = (p - 1/2)^2 there
    for end in wilson(93, 100):
        assert (0.93 - end) ** 2 == pytest.approx(1.96**2 * end * (1 - end) / 100)

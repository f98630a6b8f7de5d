"""The pages about all figures: every verdict that lies there, at the better scale, with its size and its correction."""

from __future__ import annotations

import json

import pytest
from experiments.papers.figure import Claim, Figure, Job, Scale, Verdict
from experiments.papers.overview import count_verdicts, saved_figures, write_claims, write_overview
from experiments.papers.verdicts import Effect

JOB = Job("ours", "a", "a", "river-swim", "ucbvi", "local", 1.0)
SCALES = {"quick": Scale(10, 6), "paper": Scale(1_000, 20)}


def figure(name: str, *claims: str) -> Figure:
    found = tuple(Claim(claim, f"it is said that {claim}", lambda view: Verdict(None)) for claim in claims)
    return Figure(f"x/{name}", name, "a paper", (JOB,), SCALES, found)


def save(tmp_path, figure: Figure, scale: str, verdicts: dict) -> None:
    folder = tmp_path / figure.slug / scale
    folder.mkdir(parents=True)
    (folder / "verdicts.json").write_text(json.dumps(verdicts))


def held(doubt: float, **rest) -> dict:
    return {"ours": Verdict(True, doubt=doubt, effect=Effect("ratio", 2.0, 1.5, 3.0), runs=20, **rest).as_dict()}


def test_the_papers_scale_is_shown_where_it_was_run(tmp_path):
    one, two = figure("one", "b"), figure("two", "b")
    save(tmp_path, one, "quick", {"b": held(0.01)})
    save(tmp_path, one, "paper", {"b": held(0.01)})
    save(tmp_path, two, "quick", {"b": held(0.01)})
    assert [each.scale for each in saved_figures([one, two, figure("three", "b")], tmp_path)] == ["paper", "quick"]
    page = write_overview([one, two], tmp_path)
    assert "| [x/one](x-one/paper/page.md) | paper: 1,000 × 20 | it is said that b |" in page
    assert "quick: 10 × 6" in page


def test_the_table_of_claims_has_sizes_and_says_what_uniform_play_passes(tmp_path):
    one = figure("one", "b", "c")
    undecided = Verdict(None, doubt=0.1, effect=Effect("difference", -3.0, -7.0, 1.0), runs=20, needed=45).as_dict()
    save(tmp_path, one, "quick", {"b": held(1e-6, idle=True), "c": {"ours": undecided}})
    lines = write_claims([one], tmp_path).splitlines()
    (b,), (c,) = ([line for line in lines if f"said that {claim}" in line] for claim in "bc")
    assert "✓ holds (uniform play passes too) | ×2 | 1.5 to 3 | 1e-06 | 20 |" in b
    assert "· undecided at 20 runs, about 45 would decide | -3 | -7 to 1 | 0.1 | 20 |" in c
    assert count_verdicts(saved_figures([one], tmp_path)[0]) == "1 hold, 1 undecided"


def test_what_does_not_survive_a_correction_for_the_whole_page_has_a_dagger(tmp_path):
    """Ten tests with a doubt of 0.02 are decided one by one; of ten such one is wrong every fifth time."""
    many = figure("many", *"bcdefghijk")
    save(tmp_path, many, "quick", {claim: held(1e-5 if claim == "b" else 0.02) for claim in "bcdefghijk"})
    table = write_claims([many], tmp_path)
    assert table.count("✓ holds †") == 9
    alone = figure("alone", "b")
    save(tmp_path, alone, "quick", {"b": held(0.02)})
    assert "✓ holds †" not in write_claims([alone], tmp_path)


@pytest.mark.parametrize("old", [{"verdict": "fails", "evidence": "e"}])
def test_pages_of_an_earlier_version_are_listed_without_sizes(tmp_path, old):
    one = figure("one", "b")
    save(tmp_path, one, "quick", {"b": {"ours": old}})
    assert "✗ fails | — | — | — | — |" in write_claims([one], tmp_path)
    assert "| quick, drawn earlier |" in write_overview([one], tmp_path)

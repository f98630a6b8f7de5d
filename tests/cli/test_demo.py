"""The page of the demonstration: whole, self-contained, and true to the results."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from discreet.base.pictures import LIGHT
from discreet.base.policies import uniform_policy
from discreet.cli.demo_page import render, run_demo, uniform_play

VOID = {"meta", "link", "br", "img", "path", "use"}


@pytest.fixture(scope="module")
def comparison():
    return run_demo(runs=2, seed=1, episodes=300)


class Outline(HTMLParser):
    """Open tags, links that leave the page, and all text."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.tags, self.text = [], [], [], ""

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open += [] if tag in VOID else [tag]
        self.fetched += [v for k, v in attributes if k in ("src", "href", "xlink:href") and not v.startswith("#")]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def outline(page: str) -> Outline:
    parsed = Outline()
    parsed.feed(page)
    return parsed


def test_the_page_is_well_formed_and_fetches_nothing(comparison):
    page = render(comparison)
    parsed = outline(page)
    assert parsed.open == []
    assert parsed.fetched == []
    assert not {"script", "link", "img", "iframe"} & set(parsed.tags)
    assert "@import" not in page
    assert "<metadata" not in page
    assert not re.search(r"url\((?!#)", page)
    assert parsed.tags.count("svg") == 1


def test_the_page_and_its_picture_follow_the_colours_of_the_reader(comparison):
    page = render(comparison)
    picture = page[page.index("<svg") : page.index("</svg>")]
    assert "prefers-color-scheme: dark" in page
    assert not [colour for colour in (*LIGHT.colours, LIGHT.ink, LIGHT.paper) if colour in picture.lower()]
    assert all(f"var(--line-{index})" in picture for index in range(5))


def test_the_page_holds_every_number_and_derivation(comparison):
    text = outline(render(comparison)).text
    for row in comparison.rows():
        for part in (row.label, row.regret, row.final_gap, row.guarantee):
            assert part in text
    for result in comparison.results:
        assert result.guarantee.explain() in text
        assert f"recipe {result.recipe}" in text


def test_uniform_play_is_exact(comparison):
    world, like = comparison.world, comparison.results[0]
    gap = world.optimal_value - world.value(uniform_policy(world.shape))
    uniform = uniform_play(world, like)
    np.testing.assert_allclose(uniform.regret[0], gap * like.episodes, rtol=1e-12)
    assert uniform.final_gap[0] == pytest.approx(gap)


def test_the_promises_are_those_of_the_labels(comparison):
    guarantees = [result.guarantee for result in comparison.results]
    assert all((result.seed, result.runs) == (1, 2) for result in comparison.results)
    assert [g.model for g in guarantees] == ["none", "joint", "shuffle", "local"]
    assert [g.delta for g in guarantees[1:]] == [1e-5, 1e-5, 0.0]
    assert all(g.epsilon <= 1 + 1e-9 for g in guarantees[1:])


def test_the_command_writes_the_page_and_says_where(discreet, tmp_path):
    out, picture = tmp_path / "page.html", tmp_path / "page.png"
    outcome = discreet("demo", "--out", str(out), "--plot", str(picture), "--runs", "1", "--episodes", "60")
    assert outcome.code == 0, outcome.err
    assert outcome.out.rstrip().endswith(f"The page is {out}")
    assert "local, pure epsilon 1" in outcome.out
    assert out.read_text().startswith("<!doctype html>")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_commands_on_the_page_are_the_runs_on_the_page(comparison, discreet, tmp_path):
    import json

    lines = re.findall(r"discreet (simulate .*)", outline(render(comparison)).text)
    for line, result in zip(lines, comparison.results, strict=True):
        file = tmp_path / "result.json"
        assert discreet(*line.split(), "--json", str(file)).code == 0
        assert json.loads(file.read_text())["regret"] == result.as_dict()["regret"]

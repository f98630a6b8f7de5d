"""The page for participants in a real browser: read without scripts, checked with them."""

from __future__ import annotations

import re

import pytest
from tests.browser.live import LiveStudy, declared
from tests.browser.looks import contrasts, heard, nameless, sideways

from discreet.study.dashboard.participants_page import policy_html
from discreet.study.dashboard.policy_view import Cell, PolicyTable
from discreet.study.dashboard.serving import static_files

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A study in which some have taken part."""
    with LiveStudy(declared(tmp_path_factory.mktemp("river"), 4000)) as found:
        found.people(30)
        yield found


def test_hashes_and_signature_are_recomputed_in_the_browser(page, live):
    page.goto(live.url)
    page.get_by_role("button", name="Check it in this browser").click()
    page.wait_for_selector("#checked li")
    assert [each[0] for each in page.locator("#checked li").all_inner_texts()] == ["✓", "✓", "✓"]
    page.evaluate("document.querySelector('#declaration').textContent += ' '")
    page.get_by_role("button", name="Check it in this browser").click()
    page.wait_for_selector("#checked li.bad")
    assert [each[0] for each in page.locator("#checked li").all_inner_texts()] == ["✗", "✓", "✓"]


def test_it_is_whole_without_scripts_and_says_when_a_round_is_new(open_page, live):
    silent = open_page(java_script_enabled=False)
    silent.goto(live.url)
    for said in ("What leaves your device", "multiplies the odds of the true one by at most", "spring", "sha256:"):
        assert said in silent.inner_text("main")
    assert silent.get_by_role("button", name="Check it in this browser").is_hidden()
    page = open_page()
    page.goto(live.url)
    page.evaluate("document.body.dataset.round = 1")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_role("status").filter(has_text=re.compile("Round .* has begun since")).wait_for()
    page.get_by_role("link", name="Show it").click()
    page.wait_for_function("() => document.body.dataset.round !== '1'")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_everything_can_be_read_in_both_schemes(open_page, live, scheme, width):
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 740})
    page.goto(live.url)
    assert sideways(page) <= 0
    found = contrasts(page)
    assert len(found) > 60
    assert found[0][0] >= 4.5, found[:5]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) > 3 * 128) == (scheme == "light")


def test_assistive_software_hears_names(page, live):
    page.goto(live.url)
    assert nameless(page) == []
    roles = [role for role, _ in heard(page)]
    for landmark in ("main", "banner", "contentinfo"):
        assert roles.count(landmark) == 1
    assert page.eval_on_selector_all("th", "cells => cells.every(cell => cell.scope)")


def test_long_names_leave_room_for_what_is_done(open_page):
    """The names stay where they are when a table is scrolled, so they may not cover all of it."""
    table = PolicyTable(
        ["a situation that takes many words " * 3, "x" * 80], ["wait"], [[Cell(0, "wait", 1.0)] * 2] * 6
    )
    page = open_page(viewport={"width": 360, "height": 740})
    page.set_content(
        f"<meta name=viewport content='width=device-width'><main>{policy_html(table, 'The policy')}</main>"
    )
    page.add_style_tag(content=static_files()["style.css"].content.decode())
    names = page.eval_on_selector_all("tbody th", "cells => cells.map(cell => cell.getBoundingClientRect().width)")
    assert len(names) == 2
    assert max(names) < 0.55 * page.eval_on_selector(".scroll", "place => place.clientWidth")
    assert sideways(page) <= 0


def test_what_computes_looks_finds_what_is_wrong(page):
    """The twins: a faint text, a wide page, a button without a name."""
    page.set_content(
        "<meta name=viewport content='width=device-width'><body style='background: rgb(255, 255, 255)'>"
        "<p style='color: rgb(170, 170, 170)'>faint</p><div style='width: 3000px'>wide</div><button></button>"
    )
    assert contrasts(page)[0][0] < 2.5
    assert sideways(page) > 1000
    assert nameless(page) == [("button", "")]

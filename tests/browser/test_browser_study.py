"""A person's whole way through the example study in a browser: at a desk, and on a phone in the dark by keys alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.service

PROGRAM = Path(__file__).parents[2] / "examples" / "browser_study" / "run.py"
PHONE = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}
PLACES = ("at the desk", "on the way", "on the sofa")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The example as a person starts it, with a crowd that is faster than usual."""
    command = [sys.executable, str(PROGRAM), "--port", "0", "--pace", "10"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        found = re.search(r"http://127\.0\.0\.1:\d+", lines[1])
        assert found, lines
        yield found[0]
    finally:
        process.terminate()
        process.wait(30)


def names(snapshot: str) -> str:
    """The accessibility tree as text, in one line."""
    return " ".join(snapshot.split())


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def test_a_person_plays_sees_what_is_sent_and_sends_it(address, open_page, pictures):
    page = open_page()
    sent: list[dict[str, Any]] = []
    page.on("request", lambda request: sent.append(request.post_data_json) if request.method == "POST" else None)
    page.goto(address)
    button(page, "Begin the day").click()
    lived = []
    for moment in range(6):
        page.get_by_role("heading", name=f"moment {moment + 1} of 6").wait_for()
        suggestion = page.locator("#stage .big strong").inner_text()
        button(page, "Not now" if moment % 2 else "I did it").click()
        lived.append((suggestion, "not now" if moment % 2 else "did it"))
        if moment < 5:
            button(page, PLACES[(moment + 1) % 3]).click()
    page.get_by_text("This is what is sent").wait_for()
    assert not sent
    rows = page.locator(".stays tbody tr")
    assert [tuple(row.locator("td").all_inner_texts()[1:3]) for row in rows.all()] == lived
    assert rows.nth(1).locator("td").first.inner_text() == PLACES[1]
    shown = json.loads(page.locator("pre").inner_text() or page.locator("pre").text_content())
    (step,) = shown["report"]["steps"]
    assert "asked" in (rows.nth(step).get_attribute("class") or "")
    page.get_by_text("How likely was each of the").click()
    chances = [float(text.rstrip("%")) for text in page.locator(".bars li > span:last-child").all_inner_texts()]
    assert len(chances) == (6 if step in (0, 5) else 18)
    assert abs(sum(chances) - 100) < 3  # they are rounded
    assert page.locator(".bars li.true").count() == page.locator(".bars li.sent").count() == 1
    page.screenshot(path=pictures / "browser-study.png", full_page=True)
    button(page, "Send it").click()
    page.get_by_role("heading", name="Sent", exact=True).wait_for()
    assert sent == [shown]  # to the letter what was shown, and once
    page.reload()
    page.get_by_role("heading", name="This person has taken part").wait_for()
    button(page, "Play as somebody else").click()
    button(page, "Begin the day").wait_for()
    assert len(sent) == 1


def plan(page: Any) -> list[list[str]]:
    """The suggestions that the page shows, moment by moment."""
    return [row.locator("td").all_inner_texts() for row in page.locator("#plan tbody tr").all()]


def test_the_plan_of_the_round_is_shown_and_follows_the_crowd(address, open_page):
    """Whether it becomes a good one is chance, and tested by simulation (tests/study/crowd)."""
    page = open_page()
    said: list[dict[str, Any]] = []

    def overhear(route: Any) -> None:
        answer = route.fetch()
        said.append(answer.json())
        route.fulfill(response=answer)

    page.route("**/v1/policy", overhear)
    page.goto(address)
    page.locator("#plan caption", has_text=re.compile(r"in round ([2-9]|\d\d)")).wait_for()
    page.unroute("**/v1/policy")
    page.route("**/v1/policy", lambda route: route.abort())  # what is shown stays
    page.get_by_text("The service cannot be reached").wait_for()
    labels = ("walk", "water", "breath")
    assert plan(page) == [[labels[action] for action in row] for row in said[-1]["policy"]["actions"]]


def test_what_the_crowd_met_is_told_as_it_is(address, open_page):
    page = open_page()
    met = {"people": 0, "round": 1, "regret": 0.0, "over": "", "best": 4.9, "value": 2.1, "curve": [], "habits": {}}
    page.route("**/crowd.json", lambda route: route.fulfill(json=met))
    page.goto(address)
    words = page.locator("#crowd-words")
    words.filter(has_text="people follow 2.1 of 6 suggestions a day").wait_for()
    assert page.locator("#curve svg").get_attribute("aria-label") == "Nobody has taken part yet."
    met |= {"people": 1200, "regret": 600.0, "value": 4.7, "curve": [[600, 2.2], [1200, 4.7]]}
    words.filter(has_text="1,200 simulated people have taken part. With the plan now, people follow 4.7").wait_for()
    assert "Learning has cost 600 suggestions so far (regret), 0.50 a person." in words.inner_text()
    assert "2.2 at first, 4.7 now, at best 4.9" in (page.locator("#curve svg").get_attribute("aria-label") or "")
    met |= {"over": "ended"}
    words.filter(has_text="The study has ended.").wait_for()


def test_on_a_phone_in_the_dark_with_the_keyboard_alone(address, open_page, pictures):
    page = open_page(**PHONE)
    page.goto(address)
    button(page, "Begin the day").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="moment 1 of 6").wait_for()
    tree = names(page.locator("body").aria_snapshot())
    for part in (
        'heading "What helps you through the day?" [level=1]',
        'button "I did it"',
        "08:00",
        'table "What the',
    ):
        assert part in tree, tree
    assert page.evaluate("document.activeElement.textContent") == "08:00, moment 1 of 6"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "I did it"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Where are you next?").wait_for()
    page.screenshot(path=pictures / "browser-study-phone.png")
    while page.evaluate("document.activeElement.textContent") != "Play the rest of the day for me":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Your day is over").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in re.findall(r"\d+", ground)[:3]) < 60
    small = "[...document.querySelectorAll('button')].filter(b => b.getBoundingClientRect().height < 44).length"
    assert page.evaluate(small) == 0
    button(page, "Keep it here").click()
    page.get_by_role("heading", name="Nothing was sent").wait_for()


def test_what_was_begun_and_left_goes_as_the_empty_record_and_is_counted(address, open_page):
    """Two pages of one browser share the store: the second one finds and sends what the first has left."""
    page = open_page()
    page.goto(address)
    button(page, "Begin the day").click()
    page.get_by_role("heading", name="moment 1 of 6").wait_for()
    other = page.context.new_page()
    other.goto(address)
    other.get_by_role("heading", name="A report of this person waits").wait_for()
    other.get_by_text("the report of an empty day").wait_for()
    button(other, "Send it").click()
    other.get_by_role("heading", name="Sent", exact=True).wait_for()
    button(page, "Play the rest of the day for me").click()
    page.get_by_text("has left already, as the empty record").wait_for()
    other.reload()
    other.get_by_role("heading", name="This person has taken part").wait_for()


def test_a_service_that_is_away_is_said_and_the_same_is_sent_later(address, open_page):
    page = open_page()
    page.goto(address)
    button(page, "Begin the day").click()
    button(page, "Play the rest of the day for me").click()
    button(page, "Send it").wait_for()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.post_data) if request.method == "POST" else None)
    page.route("**/v1/reports", lambda route: route.abort())
    button(page, "Send it").click()
    page.get_by_text("the service cannot be reached").wait_for()
    page.unroute("**/v1/reports")
    button(page, "Try again").click()
    page.get_by_role("heading", name="Sent", exact=True).wait_for()
    assert len(sent) == 2
    assert sent[0] == sent[1]


def test_the_example_leaves_nothing_behind(tmp_path):
    """Told to stop, it stops its service and removes its folder."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(PROGRAM), "--port", "0", "--pace", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    lines = [process.stdout.readline(), process.stdout.readline()]
    assert "Open http://127.0.0.1:" in lines[1], lines
    assert list(tmp_path.glob("discreet-*/day.db")) or list(tmp_path.glob("discreet-*/study.db"))
    process.terminate()
    assert process.wait(60) == 0
    assert not list(tmp_path.iterdir())

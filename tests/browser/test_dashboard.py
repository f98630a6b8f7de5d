"""The operator's page in a real browser, over a real coordinator with a crowd."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.error
import urllib.request

import pytest
from tests.browser.live import RIVER, WORLD, LiveStudy, ShuffledStudy, declared
from tests.browser.looks import contrasts, heard, nameless, sideways

from discreet.base.policies import Policy
from discreet.client.errors import Unreachable
from discreet.study.dashboard.serving import MOST_STREAMS
from discreet.worlds.catalogue import river_swim

pytestmark = pytest.mark.service

DRAWN = """async (values) => {
  const { bars, steps } = await import("/static/charts.js");
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  bars(picture, { values, labels: ["then", "now"] }, 400);
  steps(picture.cloneNode(), { values: Array(300_000).fill(1), labels: ["round 1", "round 300,000"] }, 400);
  return [...picture.querySelectorAll("text")].map((text) => text.textContent);
}"""
STATES, ACTIONS = ["spring", "rapids", "bend", "sea"], {"drift", "swim"}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A rehearsal of RiverSwim in which some have taken part."""
    with LiveStudy(declared(tmp_path_factory.mktemp("river"), 4000), *WORLD) as found:
        for _ in range(3):
            assert found.post(b"nonsense") == 400
        found.people(60)
        yield found


def sign_in(page, live):
    """Open the page and give it the token; wait until it has drawn everything."""
    page.goto(f"{live.url}/dashboard")
    page.get_by_label("Operator's token").fill(live.token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("#connection[data-state=live]")
    page.wait_for_selector("#heads-check.good")
    page.wait_for_selector("#ledger-check.good")
    return page


def events_of(live):
    """What the page listens to."""
    return urllib.request.Request(f"{live.url}/v1/operator/events", headers={"Authorization": f"Bearer {live.token}"})


def number(page, selector):
    """The first number in an element."""
    return int(re.search(r"[\d,]+", page.inner_text(selector))[0].replace(",", ""))


def rows(page, selector):
    """The texts of a table, row by row."""
    return page.eval_on_selector_all(
        f"{selector} tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )


def test_a_wrong_token_is_said_and_the_right_one_is_kept_in_this_tab(page, live):
    page.goto(f"{live.url}/dashboard")
    assert page.locator("#signed-in").is_hidden()
    page.get_by_label("Operator's token").fill("guess")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="not the operator's token").wait_for()
    assert page.locator("#signed-in").is_hidden()
    assert page.evaluate("document.activeElement.id") == "token"
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    sign_in(page, live)
    page.reload()
    page.wait_for_selector("#connection[data-state=live]")
    assert not any(live.token in url for url in [*asked, page.url])
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    page.wait_for_selector("#policy-table td")
    page.evaluate("window.untouched = true")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_function("() => !window.untouched && document.readyState === 'complete'")
    assert page.locator("#signed-in").is_hidden()
    assert page.locator("#policy-table td").count() == 0  # nothing is left for whoever sits down next
    assert page.inner_text("h1") == "A study"
    page.reload()
    page.get_by_label("Operator's token").wait_for()
    assert page.evaluate("sessionStorage.length") == 0


def test_numbers_are_those_of_the_service(page, live):
    sign_in(page, live)
    status = live.status()
    assert number(page, "#round") == status["round"]
    assert page.inner_text("#here") == f"{status['waiting']} of {status['wanted']}"
    assert page.inner_text("#spent") == status["budget"]["spent"] == "epsilon 4"
    assert rows(page, "#refusals-table")[0][:2] == ["malformed", "3"]
    assert status["guarantee"] in page.inner_text("#promise")
    assert "studies hold nobody out yet" in page.inner_text("main")
    counted = [row[2] for row in rows(page, "#rounds-table")]
    assert counted[0] == "–"
    assert int(counted[1]) >= 1


def test_the_policy_stands_there_with_labels_and_numbers(page, live):
    sign_in(page, live)
    message = json.loads(live.get("/v1/policy"))
    shown = rows(page, "#policy-table")
    assert [row[0] for row in shown] == STATES
    names = ["drift", "swim"]
    assert [row[1:] for row in shown] == [[names[step[s]] for step in message["policy"]["actions"]] for s in range(4)]
    heat = rows(page, "#settled-table")
    assert [row[0] for row in heat] == STATES
    assert all(re.fullmatch(r"\d+%", cell) for row in heat for cell in row[1:])
    colours = "cells => cells.map(cell => [cell.innerText, getComputedStyle(cell).backgroundColor])"
    painted = dict(page.eval_on_selector_all("#settled-table td, #legend span", colours))
    assert len(set(painted.values())) >= 6
    headers = page.eval_on_selector_all("#policy-table thead th", "cells => cells.map(cell => cell.innerText)")
    assert headers == ["Situation", *(f"Step {h}" for h in range(1, 7))]


def test_a_rehearsal_is_labelled_and_judged_exactly(page, live):
    sign_in(page, live)
    world = river_swim(states=4, horizon=6)
    policy = Policy(json.loads(live.get("/v1/policy"))["policy"]["actions"])
    assert "Computed, not measured" in page.inner_text("#rehearsal-note")
    assert float(page.inner_text("#value")) == pytest.approx(world.value(policy), abs=1e-4)
    assert float(page.inner_text("#gap")) == pytest.approx(world.gap(policy), abs=1e-4)
    assert page.get_by_role("img", name="lost for each person").is_visible()


def test_it_is_live_while_reports_arrive_and_recovers_from_a_killed_coordinator(page, live):
    """One page, never loaded again: it counts along, says that the coordinator is gone, and goes on when it is back."""
    sign_in(page, live)
    page.evaluate("window.untouched = true")
    before, round_ = number(page, "#all"), number(page, "#round")
    live.crowd(150, "--seed", "1", wait=False)
    page.wait_for_function(
        "([all, round]) => parseInt(document.querySelector('#all').innerText.replace(',', '')) > all && "
        "parseInt(document.querySelector('#round').innerText) > round && "
        "!document.querySelector('#arrivals svg').getAttribute('aria-label').startsWith('0 reports')",
        arg=[before, round_],
    )
    live.stop(signal.SIGKILL)
    page.wait_for_selector("#connection[data-state=lost]")
    assert "no connection since" in page.inner_text("#connection")
    assert page.inner_text("#health") == "not reached"
    last = number(page, "#all")
    live.start()
    page.wait_for_selector("#connection[data-state=live]")
    end = time.monotonic() + 180  # clients wait longer and longer before they try again
    while (seen := number(page, "#all")) < before + 150:
        assert time.monotonic() < end, f"{seen} of {before + 150}: {live.log.read_text()[-2000:]}"
        if live.crowd_is_over:  # on a busy machine it may have lost its patience while the coordinator was gone
            live.crowd(before + 150 - seen, "--seed", "2", wait=False)
        page.wait_for_timeout(1000)
    assert number(page, "#all") >= last
    page.wait_for_function(
        "() => document.querySelector('#rounds-table th[scope=row]').innerText === "
        "document.querySelector('#round').innerText"
    )
    assert page.inner_text("#health") == "well"
    assert page.locator("#heads-check.good").count() == page.locator("#ledger-check.good").count() == 1
    assert page.evaluate("window.untouched")


def test_a_changed_history_is_found_by_the_browser(page, live):
    """The twin of the check marks: a head and an entry that were changed on their way are wrong."""

    def forge(route):
        answer = route.fetch()
        body = answer.json()
        if "heads" in body:
            body["heads"][2]["policy"] = body["heads"][1]["policy"]
        else:
            entry = body["ledger"]["entries"][2]
            entry["body"] = entry["body"].replace("reports", "report5").replace("report,", "report5,")
        route.fulfill(response=answer, json=body)

    page.route("**/v1/heads*", forge)
    page.route("**/v1/operator/overview*", forge)
    page.goto(f"{live.url}/dashboard")
    page.get_by_label("Operator's token").fill(live.token)
    page.keyboard.press("Enter")
    page.wait_for_selector("#heads-check.bad")
    page.wait_for_selector("#ledger-check.bad")
    assert "round 3 is not signed" in page.inner_text("#heads-check")
    assert "entry 2 does not follow" in page.inner_text("#ledger-check")


def test_a_browser_that_computes_no_hashes_says_so_and_does_not_say_that_they_are_wrong(page, live):
    page.add_init_script("Object.defineProperty(globalThis.crypto, 'subtle', { value: undefined })")
    page.goto(f"{live.url}/dashboard")
    page.get_by_label("Operator's token").fill(live.token)
    page.keyboard.press("Enter")
    page.get_by_text("not checked", exact=True).first.wait_for()
    assert "open the page over https" in page.inner_text("#heads-check") + page.inner_text("#ledger-check")
    assert "wrong" not in page.inner_text("main")
    page.goto(live.url)
    page.get_by_role("button", name="Check it in this browser").click()
    page.get_by_text("open the page over https").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read_on_a_phone_in_both_schemes(open_page, live, scheme):
    page = sign_in(open_page(color_scheme=scheme, viewport={"width": 360, "height": 740}), live)
    assert sideways(page) <= 0
    found = contrasts(page)
    assert len(found) > 100
    assert found[0][0] >= 4.5, found[:5]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) > 3 * 128) == (scheme == "light")


def test_assistive_software_hears_names_and_keys_reach_everything(open_page, live):
    page = sign_in(open_page(reduced_motion="reduce"), live)
    assert nameless(page) == []
    tree = heard(page)
    roles = [role for role, _ in tree]
    for landmark in ("main", "banner", "contentinfo", "navigation"):
        assert roles.count(landmark) == 1, landmark
    assert roles.count("table") == 6
    assert ("progressbar", "Reports of this round") in tree
    assert page.eval_on_selector_all("th", "cells => cells.every(cell => cell.scope)")
    assert page.get_attribute("#connection", "role") == "status"  # polite
    page.evaluate("document.body.tabIndex = -1; document.body.focus()")
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.innerText.trim().split('\\n')[0]"))
    for name in ("Skip to the content", "Sign out", "Policy", "Rounds, newest first", "The page for participants"):
        assert name in reached, (name, reached)
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


@pytest.mark.parametrize(("values", "marks"), [([0, 5, 1], [0, 3, 6]), ([0], [0, 1, 2]), ([4, 4], [0, 2, 4])])
def test_marks_of_a_picture_say_where_they_stand(page, live, values, marks):
    """Whole numbers, the one in the middle half of the one above; and many rounds are not too many to be drawn."""
    page.goto(f"{live.url}/dashboard")
    assert page.evaluate(DRAWN, values) == [*map(str, marks), "then", "now"]


def test_a_study_called_by_hostile_names_is_shown_as_text(page, tmp_path):
    """Tags, quotes, and letters that run from right to left."""
    title, state = '<script>alert(1)</script> \\"quoted\\" &amp;', "</td><img src=x onerror=alert(2)>"
    hebrew = "\u05e9\u05dc\u05d5\u05dd"
    changes = {
        **RIVER,
        'title = "Which reminder helps?"': f'title = "{title}"',
        "states = 4 ": f'states = ["{state}", "{hebrew}", "bend", "sea"] ',
    }
    shown = title.replace("\\", "")
    page.on("dialog", lambda dialog: pytest.fail("a script of the study has run"))
    with LiveStudy(declared(tmp_path, 400, changes)) as hostile:
        sign_in(page, hostile)
        assert page.inner_text("h1") == shown
        assert [row[0] for row in rows(page, "#policy-table")][:2] == [state, hebrew]
        assert page.title().startswith(shown)
        assert page.locator("main img[src], main script").count() == 0
        assert page.locator("#rehearsal-part").is_hidden()
        page.goto(hostile.url)
        assert page.inner_text("h1") == shown
        assert state in page.inner_text("main")
        assert page.eval_on_selector("tbody th bdi", "cell => getComputedStyle(cell).unicodeBidi") == "isolate"


def test_a_shuffler_that_is_killed_is_told_from_people_who_do_not_come(page, tmp_path):
    """All but one report, the shuffler dies, the last one is turned away; both come back, and the round closes."""
    with ShuffledStudy(tmp_path) as shuffled:
        sign_in(page, shuffled)
        page.wait_for_selector("#shuffler[data-state=well]")
        wanted = shuffled.status()["wanted"]
        shuffled.people(wanted - 1)
        assert page.inner_text("#here") == f"0 of {wanted}"  # what gathers at the shuffler, the coordinator cannot see
        assert "gather at the shuffler" in page.inner_text("#here-note")
        shuffled.shuffler.stop(signal.SIGKILL)
        page.wait_for_selector("#shuffler[data-state=lost]")
        assert page.get_attribute("#connection", "data-state") == "live"
        offline = shuffled.person()
        with pytest.raises(Unreachable):
            offline.send()
        assert number(page, "#round") == 1
        shuffled.shuffler.start()
        page.wait_for_selector("#shuffler[data-state=well]")
        offline.send()
        page.wait_for_function("() => document.querySelector('#round').innerText === '2'")
        page.wait_for_function("() => document.querySelectorAll('#rounds-table tbody tr').length === 2")
        assert rows(page, "#rounds-table")[1][1:3] == ["closed, released", str(wanted)]
        assert "If the shuffler and the coordinator act together" in page.inner_text("#promise")
        page.goto(shuffled.url)
        assert "If the shuffler and the coordinator act together" in page.inner_text("main")
        assert "cannot see who sent which" in page.inner_text("main")


def test_pages_that_were_closed_make_room_for_others(live):
    request = events_of(live)
    held = [urllib.request.urlopen(request, timeout=20) for _ in range(MOST_STREAMS)]
    with pytest.raises(urllib.error.HTTPError, match="429"):
        urllib.request.urlopen(request, timeout=20)
    for each in held:
        each.close()
    for _ in range(200):
        try:
            urllib.request.urlopen(request, timeout=20).close()
            break
        except urllib.error.HTTPError:
            time.sleep(0.1)
    else:
        raise AssertionError("streams that nobody reads are kept")


def test_a_coordinator_with_watchers_ends_their_streams_when_it_stops(page, live):
    """Last, for nobody serves afterwards: a stream of events does not hold a graceful stop up.

    A stream that the service ends is whole. One that the server waits for in vain is broken off, which reading it says.
    """
    sign_in(page, live)
    held = urllib.request.urlopen(events_of(live), timeout=20)
    assert held.readline().startswith(b"data: ")
    live.stop(signal.SIGTERM)
    assert held.read().endswith(b"\n")
    page.wait_for_selector("#connection[data-state=lost]")
    live.start()

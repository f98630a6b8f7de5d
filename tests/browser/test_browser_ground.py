"""The browser itself: it runs scripts, sees colour schemes, and tells on pages that reach for other hosts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.browser.conftest import watch

pytestmark = pytest.mark.service


def test_scripts_run_and_colour_schemes_are_seen(open_page):
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme, viewport={"width": 360, "height": 640})
        page.set_content("<h1>Hello</h1>")
        assert page.evaluate(f"matchMedia('(prefers-color-scheme: {scheme})').matches && innerWidth === 360")


def test_a_page_that_asks_another_host_or_breaks_is_told_on(browser):
    """The twin of every test here: what ``open_page`` asserts to be empty is not."""
    wrong: list[str] = []
    page = browser.new_page()
    page.route("**/*", lambda route: route.abort())
    watch(page, wrong)
    page.set_content(
        "<meta http-equiv=content-security-policy content=\"style-src 'none'\"><p style='color: red'>x</p>"
        "<img src=https://example.org/x.png><script>throw new Error('broken')</script>"
    )
    page.wait_for_function("() => document.images[0].complete")
    page.close()
    assert any("example.org" in each for each in wrong), wrong
    assert any("broken" in each for each in wrong), wrong
    assert any("stopped by its policy" in each for each in wrong), wrong


@pytest.mark.parametrize(
    ("url", "fine"), [("http://127.0.0.1:8000/", True), ("data:,x", True), ("http://[::2]/", False)]
)
def test_hosts_are_told_apart(url, fine):
    wrong: list[str] = []
    heard = {}
    watch(SimpleNamespace(on=lambda name, listener: heard.update({name: listener})), wrong)
    heard["request"](SimpleNamespace(url=url))
    assert (not wrong) == fine

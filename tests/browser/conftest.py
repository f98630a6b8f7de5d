"""A real browser for tests of pages: Debian's Chromium, steered by Playwright.

``page`` is an empty page of a fresh profile, and ``open_page`` makes one with options of Playwright's contexts (width,
colour scheme, reduced motion). Whatever a page asks of another host than this machine, an error that its scripts do not
catch, and anything that its content-security-policy has stopped, fails the test.

The browser lives as long as one file of tests: Playwright's synchronous interface keeps an event loop running in this
thread, and other files want loops of their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

MISSING = "Chromium is not installed: on Debian  apt-get install -y chromium  as root (.ci/ensure-browser)"
HERE = ("127.0.0.1", "localhost")
OPENED_BY_ITSELF = ("about", "data", "blob")  # schemes that reach no host
PATIENCE = 40_000  # milliseconds until something that a test waits for counts as missing

OpenPage = Callable[..., Any]


def chromium() -> str | None:
    """Where Chromium is; CHROMIUM names another one."""
    asked = os.environ.get("CHROMIUM")
    return asked or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window. Root, as in containers, must do without its sandbox."""
    program = chromium()
    if program is None:
        pytest.skip(MISSING)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    needs = "Playwright is not installed: python -m pip install --constraint constraints.txt '.[browser]'"
    sync_api = pytest.importorskip("playwright.sync_api", reason=needs)
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=[*arguments, "--disable-dev-shm-usage"])
        yield found
        found.close()


def watch(page: Any, wrong: list[str]) -> None:
    """Write down what no page of ours may do."""

    def asked(request: Any) -> None:
        address = urlsplit(request.url)
        if address.scheme not in OPENED_BY_ITSELF and address.hostname not in HERE:
            wrong.append(f"asked another host: {request.url[:200]}")

    def said(message: Any) -> None:
        if "Content Security Policy" in message.text:
            wrong.append(f"stopped by its policy: {message.text[:300]}")

    page.on("request", asked)
    page.on("console", said)
    page.on("pageerror", lambda error: wrong.append(f"error in a script: {str(error)[:300]}"))


def stop_others(route: Any) -> None:
    """Nothing leaves this machine, also where a test is about to fail for it."""
    if urlsplit(route.request.url).hostname in HERE:
        route.continue_()
    else:
        route.abort()


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """A function that opens a page in a fresh profile; its arguments are those of Playwright's ``new_context``."""
    wrong: list[str] = []
    contexts: list[Any] = []

    def opened(**options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.route("**/*", stop_others)
        context.on("page", lambda page: watch(page, wrong))
        return context.new_page()

    yield opened
    for context in contexts:
        context.close()
    assert not wrong, wrong


@pytest.fixture
def page(open_page: OpenPage) -> Any:
    """An empty page of a fresh profile."""
    return open_page()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where pictures of pages go: the folder that PICTURES names, or one that goes."""
    folder = Path(os.environ.get("PICTURES", tmp_path / "pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder

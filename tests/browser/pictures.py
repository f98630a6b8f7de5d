"""Pictures of the pages for the documentation:  python -m tests.browser.pictures docs/pictures

A rehearsal is served and a crowd takes part while they are taken, so numbers differ from one time to the next. Colours
are reduced to a palette, which keeps each file small.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from tests.browser.conftest import chromium
from tests.browser.live import WORLD, LiveStudy, declared

SIZES = {"desktop": (1200, 900), "phone": (360, 760)}


def take(page: Any, file: Path, *, clip: dict[str, int] | None = None) -> None:
    """A picture of what is seen, in few colours."""
    with Image.open(io.BytesIO(page.screenshot(clip=clip))) as picture:
        picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(file, optimize=True)
    print(file, f"{file.stat().st_size / 1000:.0f} kB")


def watch(page: Any, live: LiveStudy) -> None:
    """Sign in, and wait until some reports were seen to come."""
    page.goto(f"{live.url}/dashboard")
    page.fill("#token", live.token)
    page.keyboard.press("Enter")
    page.wait_for_selector("#heads-check.good")
    page.wait_for_timeout(10_000)
    page.wait_for_function("() => document.querySelector('#here-bar').value < document.querySelector('#here-bar').max")


def main(folder: Path) -> None:
    """All of them."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        with LiveStudy(declared(Path(place), 20_000), *WORLD) as live:
            for content in (b"nonsense", b"nonsense", b"{" + b" " * 100_000):
                live.post(content)
            live.crowd(1200)
            live.crowd(18_000, "--connections", "2", "--seed", "1", wait=False)
            for name, scheme in (("desktop", "light"), ("phone", "dark"), ("desktop", "dark"), ("phone", "light")):
                width, height = SIZES[name]
                page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": height})
                watch(page, live)
                take(page, folder / f"dashboard-{name}-{scheme}.png")
                if (name, scheme) in (("desktop", "light"), ("phone", "dark")):
                    page.evaluate("document.querySelector('#policy').scrollIntoView({behavior: 'instant'})")
                    take(page, folder / f"dashboard-policy-{name}-{scheme}.png")
                page.goto(live.url)
                take(page, folder / f"participants-{name}-{scheme}.png")
                if name == "desktop" and scheme == "light":
                    page.click("#check")
                    page.wait_for_selector("#checked li")
                    page.evaluate("document.querySelector('#checks').scrollIntoView({behavior: 'instant'})")
                    take(page, folder / "participants-checked.png")
                page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A page of one origin takes part in a study of another, from a real browser, and keeps count in its database."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.service

SOURCES = Path(__file__).parents[2] / "clients" / "javascript" / "src"
PLAYED = """async ([url, studyHash, store]) => {
  const { Device } = await import("./index.js");
  const device = new Device(url, { studyHash, store, atOnce: true });
  try {
    await device.begin();
    for (let step = 0; step < device.horizon; step++) device.record(step, 0, device.act(step, 0), 1);
    return { left: await device.report(), reports: await device.reports() };
  } catch (error) {
    return { name: error.name, message: error.message };
  }
}"""
MANY = """async ([url, studyHash]) => {
  const { Device } = await import("./index.js");
  const devices = Array.from({ length: 8 }, () => new Device(url, { studyHash, store: "shared", atOnce: true }));
  const begun = await Promise.allSettled(devices.map((device) => device.begin()));
  return begun.filter((each) => each.status === "fulfilled").length;
}"""


FINISHED = """async ([url, studyHash]) => {
  const { Device } = await import("./index.js");
  const device = new Device(url, { studyHash, store: "closed", atOnce: true });
  await device.begin();
  for (let step = 0; step < device.horizon; step++) device.record(step, 0, device.act(step, 0), 1);
  await device.finish();
  return (await device.waiting())[0].body;
}"""
SENT = """async ([url, studyHash]) => {
  const { Device } = await import("./index.js");
  return new Device(url, { studyHash, store: "closed", atOnce: true }).send();
}"""


BOXES = """async () => {
  const { BrowserBox } = await import("./browser.js");
  const box = new BrowserBox("boxes");
  const count = () => box.change((state) => (state.count = (state.count ?? 0) + 1)).catch((error) => error.name);
  const deleted = () => new Promise((done) => (indexedDB.deleteDatabase("boxes").onsuccess = done));
  const newer = () =>
    new Promise((done) => (indexedDB.open("boxes", 9).onsuccess = ({ target }) => (target.result.close(), done())));
  const found = [await count()];
  (await box.open).close(); // as when it is closing: one change is refused, and the next one opens it again
  found.push(await count(), await count());
  (await box.open).dispatchEvent(new Event("close")); // the browser has closed it by itself
  found.push(await count());
  await deleted(); // somebody has cleared the data of the page
  found.push(await count());
  await deleted();
  await newer(); // of another version: it cannot be opened
  found.push(await count());
  await deleted();
  found.push(await count());
  return found;
}"""


class Quiet(SimpleHTTPRequestHandler):
    """The sources of the client as a web server would serve them."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def page_address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SOURCES)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def study(tmp_path_factory: Any, page_address: str) -> Iterator[tuple[str, str]]:
    from tests.study.service.small_studies import said

    from discreet.client.errors import ClientError
    from discreet.client.transport import Connection
    from discreet.study.service.declaration import read_study
    from discreet.study.service.study_files import new_study

    file = tmp_path_factory.mktemp("study") / "river.toml"
    new_study(file)
    said(file)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = [sys.executable, "-c", "from discreet.cli import main; main()", "serve", str(file), "--port", str(port)]
    process = subprocess.Popen([*start, "--allow-origin", page_address], stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                if Connection(url, 2.0).ask("GET", "/healthz").status == 200:
                    break
            except ClientError:
                time.sleep(0.1)
        yield url, read_study(file).hash
    finally:
        process.terminate()
        process.wait(30)


def test_a_page_that_was_named_takes_part_and_keeps_count(page_address, study, page):
    page.goto(f"{page_address}/index.js")
    assert page.evaluate(PLAYED, [*study, "mine"]) == {"left": 0, "reports": 1}
    page.reload()
    again = page.evaluate(PLAYED, [*study, "mine"])
    assert again["name"] == "Refused"
    assert "takes no further part" in again["message"]


def test_devices_of_one_store_count_together(page_address, study, page):
    page.goto(f"{page_address}/index.js")
    assert page.evaluate(MANY, list(study)) == 1


def test_a_database_that_was_closed_or_failed_is_opened_again(page_address, page):
    page.goto(f"{page_address}/index.js")
    assert page.evaluate(BOXES) == [1, "Refused", 2, 3, 1, "Refused", 1]


def test_a_page_that_was_closed_before_it_sent_sends_what_it_had_made(page_address, study, page):
    page.goto(f"{page_address}/index.js")
    made = page.evaluate(FINISHED, list(study))
    again = page.context.new_page()
    page.close()
    sent: list[Any] = []
    again.on("request", lambda request: sent.append(request.post_data_json) if request.method == "POST" else None)
    again.goto(f"{page_address}/index.js")
    assert again.evaluate(SENT, list(study)) == 0
    assert sent == [made]


def test_a_page_that_was_not_named_is_kept_out_by_the_browser(page_address, study, page):
    page.goto(f"{page_address.replace('127.0.0.1', 'localhost')}/index.js")
    found = page.evaluate(PLAYED, [*study, "other"])
    assert found["name"] == "Unreachable"


def test_the_wrong_study_is_refused_in_a_browser_as_elsewhere(page_address, study, page):
    page.goto(f"{page_address}/index.js")
    found = page.evaluate(PLAYED, [study[0], "sha256:" + 64 * "0", "third"])
    assert found["name"] == "Refused"
    assert "not the study that was agreed to" in found["message"]

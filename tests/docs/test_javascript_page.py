"""The devices of the guide to JavaScript are run as they stand there: in Node, and in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "javascript.md"
PACKAGE = ROOT / "clients" / "javascript"


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    return str(found)


def of_study(program: str, there) -> str:
    return re.sub(r"sha256:[0-9a-f]{64}", there.study_hash, program).replace("http://127.0.0.1:8000", there.url)


@pytest.fixture
def reminders(tmp_path) -> Path:
    """The study of the guide to real users."""
    from discreet.study.service.study_files import new_study

    file = tmp_path / "reminders.toml"
    new_study(file)
    changed = {"states": '["anybody"]', "actions": '["gentle", "funny", "with a picture"]', "horizon": "1"}
    text = file.read_text()
    for key, value in changed.items():
        text = re.sub(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
    file.write_text(text)
    return file


@pytest.mark.service
def test_the_device_in_node_takes_part_once(reminders, tmp_path):
    from discreet.cli.crowd_service import served

    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node 20 or later: apt-get install -y nodejs npm (.ci/ensure-node)")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "discreet-client").symlink_to(PACKAGE)
    with served(reminders) as there:
        (tmp_path / "device.mjs").write_text(of_study(block("js"), there))
        runs = [subprocess.run([node, "device.mjs"], cwd=tmp_path, capture_output=True, text=True) for _ in range(2)]
    first, again = runs
    assert first.returncode == 0, first.stderr
    said = first.stdout.splitlines()
    assert said[0].removeprefix("reminder: ") in ("gentle", "funny", "with a picture")
    assert said[1] == "reports that wait for their time: 1"
    assert again.returncode != 0
    wanted = "Refused: this device has made the one report that the study allows: it takes no further part"
    assert wanted in again.stderr
    assert wanted in " ".join(PAGE.read_text().split())


class Forwarding(SimpleHTTPRequestHandler):
    """The page and the sources beside it, and the service under the same origin, as a proxy would do it."""

    url = ""

    def translate_path(self, path: str) -> str:
        under = path.partition("/discreet-client/")[2]
        return str(PACKAGE / "src" / under) if under else super().translate_path(path)

    def do_GET(self) -> None:
        self._forward(None) if self.path.startswith("/v1/") else super().do_GET()

    def do_POST(self) -> None:
        self._forward(self.rfile.read(int(self.headers["content-length"])))

    def _forward(self, body: bytes | None) -> None:
        from discreet.client.transport import Connection

        answer = Connection(self.url).ask(self.command, self.path, body)
        self.send_response(answer.status)
        self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.service
def test_the_page_takes_part_in_a_browser(reminders, tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra 'browser'")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed: on Debian  apt-get install -y chromium  as root (.ci/ensure-browser)")
    from discreet.cli.crowd_service import served

    with served(reminders) as there:
        Forwarding.url = there.url
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Forwarding, directory=str(tmp_path)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_port}"
        (tmp_path / "page.html").write_text(of_study(block("html"), there).replace(there.url, origin))
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            page = browser.new_page()
            page.goto(f"{origin}/page.html")
            shown = page.locator("#reminder", has_text=re.compile("gentle|funny|with a picture"))
            shown.wait_for()
            page.locator("#yes").click()
            page.get_by_text("1 reports wait for their time").wait_for()
            browser.close()
        server.shutdown()

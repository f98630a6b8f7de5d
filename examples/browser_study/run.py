"""A small study in a browser: play a day, see what is sent, and watch the policy adapt to a simulated crowd.

    python examples/browser_study/run.py [--port 8080] [--pace 3]

It serves a copy of ``study.toml`` (``discreet serve``, in a temporary folder that goes at the end), lets simulated
people take part, so many a second, and serves the page. The page reaches the coordinator through this server, so that
everything has one origin; its device is ``clients/javascript``, as it stands there.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from discreet import Policy, worlds
from discreet.cli.crowd_service import served
from discreet.client.errors import ClientError, Rejected, Unreachable
from discreet.client.heads import Head
from discreet.client.reports import Round
from discreet.client.transport import Connection, Service
from discreet.study.crowd.people import Walk, live
from discreet.worlds.tabular import TabularWorld

HERE = Path(__file__).parent
CLIENT = HERE.parents[1] / "clients" / "javascript" / "src"
PAGE = {"/": "page.html", "/page.js": "page.js", "/parts.js": "parts.js", "/page.css": "page.css"}
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LARGEST = 1 << 16  # bytes of a report that are passed on
POINTS = 80  # of the curve

# How likely simulated people follow a suggestion, and where they are next: [state][action], [state][action][successor].
FOLLOWED = [[0.85, 0.3, 0.2], [0.15, 0.25, 0.8], [0.1, 0.8, 0.25]]
NEXT = [
    [[0.2, 0.6, 0.2], [0.6, 0.2, 0.2], [0.6, 0.2, 0.2]],
    [[0.3, 0.3, 0.4], [0.4, 0.2, 0.4], [0.4, 0.2, 0.4]],
    [[0.2, 0.4, 0.4], [0.2, 0.1, 0.7], [0.2, 0.1, 0.7]],
]


def make_world() -> TabularWorld:
    """The simulated people's habits."""
    return worlds.from_arrays(NEXT, FOLLOWED, horizon=6, start=0, name="day")


class Noting(Service):
    """A service that remembers what the policy of the last round is worth in a world."""

    def __init__(self, connection: Connection, agreed: str, world: TabularWorld) -> None:
        super().__init__(connection, agreed)
        self._world, self.gap, self.number = world, 0.0, 0

    def understand(self, answer: dict[str, Any]) -> tuple[Round, Head]:
        """The round, and the exact gap of its policy."""
        round_, head = super().understand(answer)
        self.gap, self.number = float(self._world.gap(Policy(np.array(round_.policy.actions)))), round_.number
        return round_, head


class Crowd(threading.Thread):
    """Simulated people, so many a second, and the regret of what they met."""

    def __init__(self, url: str, agreed: str, pace: float, seed: int = 0) -> None:
        super().__init__(daemon=True)
        world = make_world()
        self._service, self._walk = Noting(Connection(url), agreed, world), Walk(world, random.Random(seed))
        self._best, self._pace, self._gaps = float(world.optimal_value), pace, list[float]()
        self._over, self._enough = "", threading.Event()

    def run(self) -> None:
        """Person after person, until the study ends."""
        while not self._enough.wait(1 / self._pace):
            try:
                refused = live(self._service, self._walk)
            except Rejected as stopped:
                self._over = stopped.code
                return
            except (Unreachable, ClientError):
                continue
            if refused is None:
                self._gaps.append(self._service.gap)

    def end(self) -> None:
        """Nobody else begins."""
        self._enough.set()
        self.join(10)

    def now(self) -> dict[str, Any]:
        """What the page shows beside the game."""
        gaps = np.array(self._gaps)
        pieces = np.array_split(gaps, min(POINTS, len(gaps))) if len(gaps) else []
        ends = np.cumsum([len(piece) for piece in pieces]).tolist() if pieces else []
        return {
            "people": len(gaps), "round": self._service.number, "regret": float(gaps.sum()), "over": self._over,
            "best": self._best, "value": self._best - self._service.gap,
            "curve": [[end, self._best - float(piece.mean())] for end, piece in zip(ends, pieces)],
            "habits": {"followed": FOLLOWED, "next": NEXT},
        }  # fmt: skip


def handler(url: str, study_hash: str, crowd: Crowd) -> type[BaseHTTPRequestHandler]:
    """Requests: the page, the client's modules, what the crowd met, and the coordinator behind ``/v1/``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version, server_version, sys_version = "HTTP/1.1", "page", ""

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if path in PAGE:
                self._file(HERE / PAGE[path])
            elif path.startswith("/client/") and (CLIENT / path[8:]).parent == CLIENT and path.endswith(".js"):
                self._file(CLIENT / path[8:])
            elif path == "/crowd.json":
                self._answer(200, "application/json", json.dumps(crowd.now()).encode())
            elif path.startswith("/v1/"):
                self._pass_on(None)
            else:
                self._answer(404, "text/plain", b"there is nothing here\n")

        def do_POST(self) -> None:
            length = self.headers.get("content-length", "")
            if self.path != "/v1/reports" or not length.isdigit() or int(length) > LARGEST:
                self.close_connection = True
                return self._answer(404, "text/plain", b"there is nothing here\n")
            return self._pass_on(self.rfile.read(int(length)))

        def log_message(self, *_: object) -> None:
            """Who looks at what is nobody's business."""

        def _pass_on(self, body: bytes | None) -> None:
            try:
                answer = Connection(url).ask(self.command, self.path, body)
            except ClientError:
                return self._answer(503, "application/json", b'{"error": "busy", "reason": "try again later"}')
            return self._answer(answer.status, "application/json", answer.body)

        def _file(self, file: Path) -> None:
            if not file.is_file():
                return self._answer(404, "text/plain", b"there is nothing here\n")
            return self._answer(200, KINDS[file.suffix], file.read_bytes().replace(b"STUDY_HASH", study_hash.encode()))

        def _answer(self, status: int, kind: str, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", f"{kind}; charset=utf-8")
            self.send_header("content-length", str(len(content)))
            self.send_header("content-security-policy", POLICY)
            self.send_header("cache-control", "no-store")
            self.send_header("x-content-type-options", "nosniff")
            self.end_headers()
            with suppress(ConnectionError):  # whoever asked may be gone
                self.wfile.write(content)

    return Handler


def main(arguments: list[str] | None = None) -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="A small study in a browser, with a simulated crowd.")
    parser.add_argument("--port", type=int, default=8080, help="of the page; 0 takes a free one")
    parser.add_argument("--pace", type=float, default=3.0, help="simulated people a second")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the service and its folder go, too
    print("Starting the service: a few seconds.", flush=True)
    with served(HERE / "study.toml") as there:
        crowd = Crowd(there.url, there.study_hash, max(asked.pace, 0.01))
        try:
            server = ThreadingHTTPServer(("127.0.0.1", asked.port), handler(there.url, there.study_hash, crowd))
        except OSError:
            sys.exit(f"port {asked.port} is taken: choose another one with --port, or 0 for any")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        crowd.start()
        print(f"Open http://127.0.0.1:{server.server_port} in a browser; Ctrl-C ends it.", flush=True)
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            pass
        finally:
            crowd.end()
            server.shutdown()


if __name__ == "__main__":
    main()

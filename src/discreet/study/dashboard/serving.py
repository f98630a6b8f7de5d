"""Both pages over HTTP: documents and files with their headers, and the stream of events that the dashboard listens to.

Who may see what is for the caller to check, and the numbers come from functions that are handed in. An event says where
the study stands. It is sent when that has changed, a few times a second at most, and as a beat when nothing has;
however many pages watch, it is looked up once.

The files that pages are made of, as they are sent: scripts, style, icon, and the headers that go with everything.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from time import perf_counter
from types import FrameType
from typing import Any, NamedTuple

import msgspec
from starlette.responses import HTMLResponse, Response, StreamingResponse

from discreet.study.dashboard.participants_page import PublicFacts, participants_page

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_KINDS = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}


class File(NamedTuple):
    """A file as it is sent: its bytes, what kind they are, and a tag that changes when they do."""

    content: bytes
    kind: str
    tag: str


@cache
def static_files() -> dict[str, File]:
    """All files by name."""
    found = {}
    for each in (files("discreet.study.dashboard") / "static").iterdir():
        kind = _KINDS.get(each.name.rpartition(".")[2])
        if kind is not None:
            content = each.read_bytes()
            found[each.name] = File(content, f"{kind}; charset=utf-8", f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


def operator_page() -> bytes:
    """The document of the operator's page. It holds nothing about the study: that comes with the token."""
    return static_files()["dashboard.html"].content


_PAGE = {**HEADERS, "cache-control": "no-store"}
FOR_ALL = "public, max-age=0, s-maxage=1"  # for what is the same for everybody until a round closes
_BETWEEN, _BEAT = 0.3, 5.0  # seconds between two events at least, and at most
MOST_STREAMS = 32


@dataclass
class Pages:
    """The pages of one study.

    ``now`` says where it stands, ``facts`` what everybody may know, ``clock`` the time; ``failed`` is told of errors,
    and ``run`` looks outside the event loop.
    Streams end when ``stopping`` is set.
    """

    now: Callable[[], Any]
    facts: Callable[[], PublicFacts]
    clock: Callable[[], str]
    failed: Callable[[str, BaseException], None]
    run: Callable[[Callable[[], Any]], Awaitable[Any]] = asyncio.to_thread
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0
    _made: tuple[object, str] = (None, "")
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _seen: tuple[float, bytes] = (-_BEAT, b"")

    async def participants(self, of: object, held: str | None) -> Response:
        """The public page; it is made anew when ``of``, the published round, is another one than before."""
        if self._made[0] is not of:
            self._made = of, participants_page(await self.run(self.facts))
        tag = tag_of(self._made[1].encode())
        headers = {**HEADERS, "cache-control": FOR_ALL, "etag": tag}
        if is_held(held, tag):
            return Response(status_code=304, headers=headers)
        return HTMLResponse(self._made[1], headers=headers)

    def operator(self) -> Response:
        """The document of the dashboard, which holds nothing about the study."""
        return HTMLResponse(operator_page(), headers=_PAGE)

    def file(self, name: str, held: str | None) -> Response | None:
        """A file of the pages, or that what the browser holds is still right; None if there is no such file."""
        file = static_files().get(name)
        if file is None or file.kind.startswith("text/html"):
            return None
        headers = {**HEADERS, "cache-control": "no-cache", "etag": file.tag}
        if is_held(held, file.tag):
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.kind)

    def stream(self) -> Response:
        """Server-sent events; proxies are asked not to hold them back."""
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self.events(), headers=headers, media_type="text/event-stream")

    async def events(self) -> AsyncIterator[bytes]:
        """Where the study stands, when it has changed, and the time, when it has not; until the service stops."""
        sent, left = b"", 0.0
        self.streams += 1
        try:
            while not self.stopping.is_set():
                found = await self._look()
                if found != sent or left <= 0:
                    sent, left = found, _BEAT
                    yield b'data: {"time":"%s","now":%s}\n\n' % (self.clock().encode(), found)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.stopping.wait(), _BETWEEN)
                left -= _BETWEEN
        except Exception as error:  # the page asks again, and is told what is wrong
            self.failed("watching", error)
        finally:
            self.streams -= 1

    async def _look(self) -> bytes:
        async with self._looking:
            if perf_counter() - self._seen[0] >= _BETWEEN / 2:
                found = msgspec.json.encode(await self.run(self.now))
                self._seen = perf_counter(), found
            return self._seen[1]


def tag_of(content: bytes) -> str:
    """What tells two contents of one address apart."""
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def is_held(held: str | None, tag: str) -> bool:
    """Whether If-None-Match names this tag: among others, and weakened by a proxy, perhaps."""
    return held is not None and tag in {each.strip().removeprefix("W/") for each in held.split(",")}


@contextmanager
def told_to_stop(stop: Callable[[], object]) -> Iterator[None]:
    """Call ``stop`` when the process is asked to end, before whoever listens now.

    A web server waits for answers that it has begun before it tells its application that it stops, and a stream of
    events would never end. Signals reach the main thread alone, so elsewhere nothing is done.
    """
    before: dict[int, Any] = {}

    def heard(number: int, frame: FrameType | None) -> None:
        stop()
        before[number](number, frame)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            if callable(listener := signal.getsignal(number)):
                before[number] = listener
                signal.signal(number, heard)
    try:
        yield
    finally:
        for caught, listener in before.items():
            signal.signal(caught, listener)

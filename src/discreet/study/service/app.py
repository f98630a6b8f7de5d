"""The coordinator over HTTP: small handlers, one writer, one that closes rounds.

Reports are committed in groups: handlers check what arrives and put it into a queue; one thread waits for its turn to
write, takes everything that has come by then, stores it in one transaction and answers all of it after the COMMIT. So a
commit is paid once for many reports, and nothing is acknowledged that could be lost. Another thread closes rounds, and
looks now and then whether a coordinator elsewhere has.

Everything that goes wrong is a code and a sentence as JSON. Errors that nobody foresaw are logged by their kind and
place, never by their message, and answered by 500.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from discreet.base.errors import DiscreetError
from discreet.ledger.spending import now
from discreet.study.dashboard.serving import FOR_ALL, MOST_STREAMS, Pages, is_held, tag_of, told_to_stop
from discreet.study.service import batches
from discreet.study.service.chain_heads import Behind
from discreet.study.service.coordinator import MOST_HEADS, Coordinator, NotAtHand
from discreet.study.service.looks import Looks
from discreet.study.service.monitoring import Limits, Log, Metrics, Rates, Watch, largest_body, public_facts
from discreet.study.service.reports import Answer, Incoming
from discreet.study.service.study_database import storing_errors
from discreet.study.service.wire_messages import Refused
from discreet.worlds.tabular import TabularWorld

_TOGETHER = 1000  # reports of one commit
_PAUSE = 0.005  # seconds between two looks whether everything was answered
_ANSWER = 20.0  # seconds that a report or a batch waits until it is stored
_READY = 1.0  # seconds between two looks whether reports can be stored, and until one has to end
_LONGEST_TOKEN = 200
_LATER = (429, 500, 503)  # statuses after which the same may be sent again
# How long caches may keep an answer. Devices ask every time; what is shared between them may be a second old.
_SHORT, _A_WHILE = FOR_ALL, "public, max-age=0, s-maxage=60"
_ALWAYS = "public, max-age=31536000, immutable"
_NOTHING = "there is nothing at this address for this method"

Handler = Callable[[Request], Awaitable[Response]]


class Service:
    """A coordinator with its writer and its closing thread; ``app`` is the ASGI application around it."""

    def __init__(
        self, coordinator: Coordinator, operator_token: str, *, limits: Limits | None = None, log: Log | None = None,
        look: float = 0.25, world: TabularWorld | None = None,
    ) -> None:  # fmt: skip
        self.coordinator, self._operator, self._look = coordinator, operator_token, look
        self.limits = usual_limits(coordinator) if limits is None else limits
        self.log, self.metrics, self._rates = Log() if log is None else log, Metrics(), Rates(self.limits)
        self._queue: deque[tuple[Incoming, asyncio.Future[Answer]]] = deque()  # filled here, emptied by the writer
        self._unanswered, self._arrived = 0, asyncio.Event()
        self._full = asyncio.Event()
        self._writing, self._closing = ThreadPoolExecutor(1, "writing"), ThreadPoolExecutor(1, "closing")
        self._handed_out: tuple[object, bytes] = (None, b"")
        self._written: asyncio.Future[None] | None = None
        self._asked = 0.0
        self._looks, self._batches = Looks(), Looks(_ANSWER)
        self._watch = Watch(coordinator, self.metrics, world)
        self._pages = Pages(self._watch.now, lambda: public_facts(coordinator), now, self._failed, self._looks)
        self.app = _Plainly(Starlette(routes=self._routes(), lifespan=self._lifespan), self)

    def _routes(self) -> list[Route]:
        found: list[tuple[str, str, Handler]] = [
            ("GET", "/v1/study", self._study),
            ("GET", "/v1/policy", self._policy),
            ("POST", "/v1/reports", self._report),
            ("POST", "/v1/batches", self._batch),
            ("GET", "/v1/head", self._head),
            ("GET", "/v1/heads", self._heads),
            ("GET", "/v1/status", self._status),
            ("GET", "/metrics", self._metrics),
            ("GET", "/healthz", self._health),
            ("GET", "/readyz", self._ready),
            ("GET", "/", self._page),
            ("GET", "/dashboard", self._dashboard),
            ("GET", "/static/{name}", self._static),
            ("GET", "/v1/operator/overview", self._overview),
            ("GET", "/v1/operator/events", self._events),
        ]
        return [Route(path, handler, methods=[method]) for method, path, handler in found]

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._close())]
        self.log.write("started", study=self.coordinator.declared.hash, round=self.coordinator.published.row.number)
        loop = asyncio.get_running_loop()
        try:
            with told_to_stop(lambda: loop.call_soon_threadsafe(self._pages.stopping.set)):
                yield
        finally:
            self._pages.stopping.set()
            while self._unanswered:  # what was taken into the queue is stored and answered
                await asyncio.sleep(_PAUSE)
            for task in tasks:
                while not task.done():  # before Python 3.12 wait_for may swallow a cancellation
                    task.cancel()
                    await asyncio.wait({task}, timeout=1.0)
            self._looks.shutdown()
            self._batches.shutdown()
            self._writing.shutdown()
            self._closing.shutdown()
            self.coordinator.stop()
            self.log.write("stopped", study=self.coordinator.declared.hash)

    # The two tasks

    async def _write(self) -> None:
        """Store what has arrived, all of it in one transaction, and answer after its commit."""
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            if not self._queue:
                continue  # what has arrived was taken by the commit before
            batch: list[tuple[Incoming, asyncio.Future[Answer]]] = []
            try:
                answers = await loop.run_in_executor(
                    self._writing, self.coordinator.accept_waiting, lambda batch=batch: self._take(batch)
                )
            except Exception as error:
                self._failed("storing", error)
                busy = Refused("busy", "the coordinator cannot store reports now: send the same again later")
                answers = [busy for _ in batch or self._take(batch)]
            self.metrics.commits.observe(len(batch))
            for (_, waiting), answer in zip(batch, answers, strict=True):
                if not waiting.done():
                    waiting.set_result(answer)
            self._unanswered -= len(batch)
            if self._queue:
                self._arrived.set()
            if self.coordinator.full:
                self._full.set()

    def _take(self, batch: list[tuple[Incoming, asyncio.Future[Answer]]]) -> list[Incoming]:
        """Move what waits into the batch, up to the most that one commit holds."""
        while self._queue and len(batch) < _TOGETHER:
            batch.append(self._queue.popleft())
        return [incoming for incoming, _ in batch]

    async def _close(self) -> None:
        """Close rounds when they are full; look now and then, for there may be other coordinators."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._closing, self.coordinator.warm_up)
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), self._look)
            self._full.clear()
            try:
                await loop.run_in_executor(self._closing, self._close_all)
            except Exception as error:
                self._failed("closing", error)
                await asyncio.sleep(self._look)

    def _close_all(self) -> None:
        while True:
            begun, number = perf_counter(), self.coordinator.published.row.number
            if not self.coordinator.close_if_full():
                break
            seconds = perf_counter() - begun
            self.metrics.closing.observe(seconds)
            self.log.write("closed", round=number, seconds=round(seconds, 3))

    # Handlers

    async def _study(self, request: Request) -> Response:
        return kept(request, msgspec.json.encode(self.coordinator.study()), _A_WHILE)

    async def _policy(self, request: Request) -> Response:
        message = self.coordinator.policy()
        if self._handed_out[0] is not message:
            self._handed_out = message, msgspec.json.encode(message)
        return kept(request, self._handed_out[1], _SHORT)

    async def _report(self, request: Request) -> Response:
        self._rates.check(request.client.host if request.client else "")
        body, token = await _body(request, self.limits.largest), _token(request)
        try:
            incoming = self.coordinator.check(body, token, looks=False)
        except NotAtHand:
            incoming = await self._looks(self.coordinator.check, body, token)
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if len(self._queue) >= self.limits.queue:
            raise Refused("rate", "too many reports at once: wait a moment and send the same again")
        self._queue.append((incoming, waiting))
        self._unanswered += 1
        self._arrived.set()
        try:
            answer = await asyncio.wait_for(asyncio.shield(waiting), _ANSWER)
        except TimeoutError:
            raise Refused("busy", "the coordinator cannot store reports now: send the same again later") from None
        if isinstance(answer, Refused):
            raise answer
        self.metrics.accepted.inc()
        return _json(answer)

    async def _batch(self, request: Request) -> Response:
        self._rates.check(request.client.host if request.client else "")
        if not self.coordinator.declared.shuffled:
            raise Refused("malformed", "this study has no shuffler: devices send their reports themselves")
        announced = batches.check_pass(_token(request), self.coordinator.declared)
        body = await _body(request, await self._looks(self.coordinator.largest_batch))
        batches.check_announced(body, announced)
        answer = await self._batches(self.coordinator.accept_batch, body)
        self._full.set()
        return _json(answer)

    async def _head(self, request: Request) -> Response:
        return kept(request, msgspec.json.encode(self.coordinator.head()), _SHORT)

    async def _heads(self, request: Request) -> Response:
        self._rates.check(request.client.host if request.client else "")
        texts = await self._looks(self.coordinator.head_texts, _number(request, "from", "1"))
        always = len(texts) == MOST_HEADS  # a whole page of what never changes
        return kept(request, f'{{"heads":[{",".join(texts)}]}}'.encode(), _ALWAYS if always else _SHORT)

    async def _status(self, request: Request) -> Response:
        self._check_operator(request)
        return _json(await self._looks(self._watch.now))

    async def _metrics(self, request: Request) -> Response:
        self._check_operator(request)
        await self._looks(self._watch.now)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def _health(self, request: Request) -> Response:
        try:
            await self._looks(self.coordinator.refresh)
        except Refused:
            raise
        except Exception as error:
            self._failed("health", error)
            raise Refused("busy", "the coordinator cannot read its database") from None
        return _json({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        """Whether a report could be stored: written at most once a second, and by one request at a time."""
        if self._written is None or (self._written.done() and perf_counter() - self._asked >= _READY):
            self._asked = perf_counter()
            loop = asyncio.get_running_loop()
            self._written = loop.run_in_executor(self._writing, self.coordinator.write_nothing)
        try:
            await asyncio.wait_for(asyncio.shield(self._written), _READY)
        except Exception as error:
            self._failed("ready", error)
            raise Refused("busy", "the coordinator cannot store reports now") from None
        return _json({"status": "ready"})

    async def _page(self, request: Request) -> Response:
        return await self._pages.participants(self.coordinator.published, request.headers.get("if-none-match"))

    async def _dashboard(self, request: Request) -> Response:
        return self._pages.operator()

    async def _static(self, request: Request) -> Response:
        found = self._pages.file(request.path_params["name"], request.headers.get("if-none-match"))
        if found is None:
            raise Refused("unknown", _NOTHING)
        return found

    async def _overview(self, request: Request) -> Response:
        self._check_operator(request)
        first, entry = _number(request, "round", "1"), _number(request, "entry", "0")
        return _json(await self._looks(self._watch.overview, first, entry))

    async def _events(self, request: Request) -> Response:
        self._check_operator(request)
        if self._pages.streams >= MOST_STREAMS:
            raise Refused("rate", f"{MOST_STREAMS} pages are watching already: close some of them")
        return self._pages.stream()

    # The rest

    def _check_operator(self, request: Request) -> None:
        token = _token(request) or ""
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._operator.encode()):
            raise Refused("operator", "this is for the operator of the study: send the operator's token")

    def _failed(self, event: str, error: BaseException) -> None:
        self.metrics.failed.inc()
        self.log.failure(event, error)
        if isinstance(error, Behind):
            self.log.write("behind", remedy="discreet study restored")


class _Failing(Protocol):
    metrics: Metrics

    def _failed(self, event: str, error: BaseException) -> None: ...


class _Plainly:
    """Everything that is raised becomes a code and a sentence; nothing of it reaches the server's own log."""

    def __init__(self, inner: Starlette, service: _Failing) -> None:
        self._inner: ASGIApp = inner
        self._service = service
        inner.router.redirect_slashes = False  # a redirect names the host that the request named, and no https
        for kind in (Refused, DiscreetError, HTTPException, ClientDisconnect, Exception):
            inner.add_exception_handler(kind, self._answer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._inner(scope, receive, send)
        except Exception as error:
            if scope["type"] != "http":
                raise
            self._service._failed("request", error)

    async def _answer(self, request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            error = Refused("unknown", _NOTHING)
        if isinstance(error, Refused):
            self._service.metrics.count(error)
            return _json({"error": error.code, "reason": error.reason}, error.status)
        if isinstance(error, ClientDisconnect):
            return Response(status_code=400)
        self._service._failed("request", error)
        if isinstance(error, storing_errors()):
            return _json({"error": "busy", "reason": "the database cannot be used now: send the same again later"}, 503)
        return _json({"error": "internal", "reason": "something went wrong here: send the same again later"}, 500)


def usual_limits(coordinator: Coordinator) -> Limits:
    """Limits that no honest message exceeds."""
    shape, kind = coordinator.declared.shape, coordinator.mechanism.report_kind()
    items = 2 * shape.states * shape.actions * (shape.states + 1) + 1
    bits = items * kind.get("steps", 1) if kind.get("response") == "unary" else 0
    return Limits(largest_body(shape.horizon, bits))


async def _body(request: Request, largest: int) -> bytes:
    """The body of a request, read no further than is allowed."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > largest:
            raise Refused("large", f"a message here has at most {largest} bytes")
    return bytes(content)


def _token(request: Request) -> str | None:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if not kind:
        return None
    if kind.lower() != "bearer" or not 0 < len(token) <= _LONGEST_TOKEN:
        raise Refused("token", "a token is sent as  Authorization: Bearer TOKEN")
    return token


def _number(request: Request, name: str, usual: str) -> int:
    """A number in the address."""
    text = request.query_params.get(name, usual)
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise Refused("malformed", f"{name} is a whole number")
    return int(text)


def kept(request: Request, content: bytes, how_long: str) -> Response:
    """What everybody may see, for caches in front: with a tag, or that what they hold is still right."""
    tag = tag_of(content)
    headers = {"cache-control": how_long, "etag": tag, "x-content-type-options": "nosniff"}
    if is_held(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, "application/json")


def _json(content: Any, status: int = 200) -> Response:
    return _json_bytes(msgspec.json.encode(content), status)


def _json_bytes(content: bytes, status: int = 200) -> Response:
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    headers |= {"retry-after": "1"} if status in _LATER else {}
    return Response(content, status, headers, "application/json")

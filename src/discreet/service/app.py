"""The coordinator over HTTP: small handlers, one writer, one that closes rounds.

Reports are committed in groups: handlers check what arrives and put it into a queue; one task takes everything that
has come, stores it in one transaction and answers all of it after the COMMIT. So a commit is paid once for many
reports, and nothing is acknowledged that could be lost. Another thread closes rounds, and looks now and then whether
a coordinator elsewhere has.

Everything that goes wrong is a code and a sentence as JSON. Errors that nobody foresaw are logged by their kind and
place, never by their message, and answered by 500.
"""

from __future__ import annotations

import asyncio
import hmac
import html
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from discreet.errors import DiscreetError
from discreet.ledger.spending import balance
from discreet.service.coordinator import Coordinator
from discreet.service.database import storing_errors
from discreet.service.heads import Behind
from discreet.service.messages import Refused
from discreet.service.reports import Answer, Incoming
from discreet.service.watching import Limits, Log, Metrics, Rates, largest_body

_TOGETHER = 1000  # reports of one commit
_LONGEST_TOKEN = 200
_LATER = (429, 500, 503)  # statuses after which the same may be sent again
_SEALED_PAGE = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'", "cache-control": "no-store"}
_LEAVES = {
    "local": "One report, randomised on your device before it leaves. Nobody ever sees what you did.",
    "shuffle": "Small messages, randomised on your device and sealed. The shuffler sees who sends and cannot read "
    "them; the coordinator reads them, mixed with those of many others, and cannot see who sent which.",
    "central": "What you did, encrypted as soon as it arrives. Only noisy sums over many participants are published.",
}

Handler = Callable[[Request], Awaitable[Response]]


class Service:
    """A coordinator with its writer and its closing thread; ``app`` is the ASGI application around it."""

    def __init__(
        self, coordinator: Coordinator, operator_token: str, *, limits: Limits | None = None, log: Log | None = None,
        look: float = 0.25,
    ) -> None:  # fmt: skip
        self.coordinator, self._operator, self._look = coordinator, operator_token, look
        self.limits = usual_limits(coordinator) if limits is None else limits
        self.log, self.metrics, self._rates = Log() if log is None else log, Metrics(), Rates(self.limits)
        self._queue: asyncio.Queue[tuple[Incoming, asyncio.Future[Answer]]] = asyncio.Queue(self.limits.queue)
        self._full = asyncio.Event()
        self._writing, self._closing = ThreadPoolExecutor(1, "writing"), ThreadPoolExecutor(1, "closing")
        self._handed_out: tuple[object, bytes] = (None, b"")
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
            ("GET", "/", self._page),
        ]
        return [Route(path, handler, methods=[method]) for method, path, handler in found]

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._close())]
        self.log.write("started", study=self.coordinator.declared.hash, round=self.coordinator.published.row.number)
        try:
            yield
        finally:
            await self._queue.join()  # what was taken into the queue is stored and answered
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            self._writing.shutdown()
            self._closing.shutdown()
            self.coordinator.stop()
            self.log.write("stopped", study=self.coordinator.declared.hash)

    # The two tasks

    async def _write(self) -> None:
        """Store what has arrived, all of it in one transaction, and answer after its commit."""
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            while len(batch) < _TOGETHER and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            try:
                answers = await loop.run_in_executor(
                    self._writing, self.coordinator.accept_all, [incoming for incoming, _ in batch]
                )
            except Exception as error:
                self._failed("storing", error)
                answers = [Refused("busy", "the coordinator cannot store reports now: send the same again later")]
                answers *= len(batch)
            self.metrics.commits.observe(len(batch))
            for (_, waiting), answer in zip(batch, answers, strict=True):
                if not waiting.done():
                    waiting.set_result(answer)
                self._queue.task_done()
            if self.coordinator.full:
                self._full.set()

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
        return _json(self.coordinator.study())

    async def _policy(self, request: Request) -> Response:
        message = self.coordinator.policy()
        if self._handed_out[0] is not message:
            self._handed_out = message, msgspec.json.encode(message)
        return _json_bytes(self._handed_out[1])

    async def _report(self, request: Request) -> Response:
        self._rates.check(request.client.host if request.client else "")
        incoming = self.coordinator.check(await _body(request, self.limits.largest), _token(request))
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((incoming, waiting))
        except asyncio.QueueFull:
            raise Refused("rate", "too many reports at once: wait a moment and send the same again") from None
        answer = await waiting
        if isinstance(answer, Refused):
            raise answer
        self.metrics.accepted.inc()
        return _json(answer)

    async def _batch(self, request: Request) -> Response:
        self._rates.check(request.client.host if request.client else "")
        if not self.coordinator.declared.shuffled:
            raise Refused("malformed", "this study has no shuffler: devices send their reports themselves")
        body = await _body(request, await asyncio.to_thread(self.coordinator.largest_batch))
        answer = await asyncio.get_running_loop().run_in_executor(self._writing, self.coordinator.accept_batch, body)
        self._full.set()
        return _json(answer)

    async def _head(self, request: Request) -> Response:
        return _json(self.coordinator.head())

    async def _heads(self, request: Request) -> Response:
        first = request.query_params.get("from", "1")
        if not (first.isascii() and first.isdigit() and len(first) <= 15):
            raise Refused("malformed", "from is the number of a round")
        return _json({"heads": await asyncio.to_thread(self.coordinator.heads, int(first))})

    async def _status(self, request: Request) -> Response:
        self._check_operator(request)
        return _json(await asyncio.to_thread(self._now))

    async def _metrics(self, request: Request) -> Response:
        self._check_operator(request)
        await asyncio.to_thread(self._now)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def _health(self, request: Request) -> Response:
        try:
            await asyncio.to_thread(self.coordinator.refresh)
        except Exception as error:
            self._failed("health", error)
            raise Refused("busy", "the coordinator cannot read its database") from None
        return _json({"status": "ok"})

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(_page_of(self.coordinator.study(), self.coordinator.head()), headers=_SEALED_PAGE)

    # The rest

    def _now(self) -> dict[str, Any]:
        coordinator = self.coordinator
        (waiting, wanted), row = coordinator.waiting(), coordinator.published.row
        self.metrics.round.set(row.number)
        self.metrics.waiting.set(waiting)
        self.metrics.counted.set(row.served)
        with coordinator.reading() as link:
            held = balance(link.raw, coordinator.declared.name)
        budget = held.budget
        return {
            "study": coordinator.declared.hash,
            "round": row.number,
            "waiting": waiting,
            "wanted": wanted,
            "counted": row.served,
            "total": coordinator.declared.total,
            "ended": coordinator.published.ended,
            "refused": self.metrics.refusals(),
            "guarantee": coordinator.mechanism.statement,
            "budget": {"spent": budget.words(held.spent), "left": budget.words(held.left, left=True)},
        }

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
            error = Refused("unknown", "there is nothing at this address for this method")
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
    bits = items * kind["steps"] if kind.get("response") == "unary" else 0
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


def _json(content: Any, status: int = 200) -> Response:
    return _json_bytes(msgspec.json.encode(content), status)


def _json_bytes(content: bytes, status: int = 200) -> Response:
    headers = {"cache-control": "no-store"} | ({"retry-after": "1"} if status in _LATER else {})
    return Response(content, status, headers, "application/json")


def _page_of(study: dict[str, Any], head: dict[str, Any]) -> str:
    """The public page: what is asked, what leaves, what is promised, and what a device can compare."""
    declared = study["study"]
    leaves = _LEAVES[declared["privacy"]["model"]]
    facts = [
        ("What is asked", declared["about"]),
        ("What leaves your device", leaves),
        ("What is promised", study["promise"]["words"]),
        *([("If both parties collude", study["promise"]["alone"]["words"])] if "alone" in study["promise"] else []),
        ("The study, as devices know it", study["hash"]),
        ("The latest head", f"round {head['round']}, policy {head['policy']}, signature {head['signature']}"),
    ]
    rows = "".join(f"<h2>{html.escape(name)}</h2><p>{html.escape(text)}</p>" for name, text in facts)
    title = html.escape(declared["title"] or declared["name"])
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{title}</title><style>:root{{color-scheme:light dark}}body{{font:1rem/1.5 system-ui;max-width:40rem;"
        f"margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}}</style><h1>{title}</h1>{rows}</html>"
    )

"""The shuffler over HTTP: reports are stored in groups, batches are frozen and sent in the background.

As in the coordinator (:mod:`discreet.study.service.app`, whose small parts are used here): a report is answered after
the COMMIT of its row, everything that goes wrong is a code and a sentence, nothing raw reaches a log. One thread
stores; another asks the coordinator which round is open, freezes whole batches and sends what has not been
acknowledged. A stop waits for what has been taken into the queue; whatever is left of a batch goes on at the next
start.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from discreet.ledger.spending import balance
from discreet.study.service import rounds
from discreet.study.service.app import _ANSWER, _body, _json, _Plainly, _token
from discreet.study.service.coordinator import NotAtHand
from discreet.study.service.looks import SECONDS, Looks
from discreet.study.service.monitoring import Limits, Log, Metrics, Rates
from discreet.study.service.reports import Answer
from discreet.study.service.wire_messages import Refused
from discreet.study.shuffler import shuffler_database
from discreet.study.shuffler.sealed_reports import Incoming
from discreet.study.shuffler.shuffler import Shuffler

_TOGETHER = 200  # reports of one commit
_MARGIN = 4096
_LONGEST = 30.0  # seconds between two attempts to send a batch
_A_MESSAGE = 80  # bytes, with its quotes and comma


class ShufflerService:
    """A shuffler with its writer and its sender; ``app`` is the ASGI application around it."""

    def __init__(
        self, shuffler: Shuffler, operator_token: str, *, limits: Limits | None = None, log: Log | None = None,
        look: float = 0.25,
    ) -> None:  # fmt: skip
        self.shuffler, self._operator, self._look = shuffler, operator_token, look
        self.limits = usual_limits(shuffler) if limits is None else limits
        self.log, self.metrics, self._rates = Log() if log is None else log, Metrics(), Rates(self.limits)
        self._queue: asyncio.Queue[tuple[Incoming, asyncio.Future[Answer]]] = asyncio.Queue(self.limits.queue)
        self._full = asyncio.Event()
        self._looks = Looks(most=self.limits.queue)
        self._asking = ThreadPoolExecutor(1, "asking")
        self._asked: asyncio.Future[None] | None = None
        self._writing, self._sending = ThreadPoolExecutor(1, "writing"), ThreadPoolExecutor(1, "sending")
        self.app = _Plainly(Starlette(routes=self._routes(), lifespan=self._lifespan), self)

    def _routes(self) -> list[Route]:
        return [
            Route("/v1/sealed", self._sealed, methods=["POST"]),
            Route("/v1/status", self._status, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/healthz", self._health, methods=["GET"]),
        ]

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._send())]
        self.log.write("started", study=self.shuffler.declared.hash)
        try:
            yield
        finally:
            await self._queue.join()  # what was taken into the queue is stored and answered
            for task in tasks:
                while not task.done():  # before Python 3.12 wait_for may swallow a cancellation
                    task.cancel()
                    await asyncio.wait({task}, timeout=1.0)
            self._looks.shutdown()
            for pool in (self._asking, self._writing, self._sending):
                pool.shutdown()
            self.shuffler.stop()
            self.log.write("stopped", study=self.shuffler.declared.hash)

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
                    self._writing, self.shuffler.accept_all, [incoming for incoming, _ in batch]
                )
            except Exception as error:
                self._failed("storing", error)
                answers = [Refused("busy", "the shuffler cannot store reports now: send the same again later")]
                answers *= len(batch)
            self.metrics.commits.observe(len(batch))
            for (_, waiting), answer in zip(batch, answers, strict=True):
                if not waiting.done():
                    waiting.set_result(answer)
                self._queue.task_done()
            if self.shuffler.full:
                self._full.set()

    async def _send(self) -> None:
        """Freeze whole batches and send them, and look now and then which round is open.

        A batch that is not acknowledged is sent again after ever longer pauses: it may be large, and the coordinator
        may be busy.
        """
        loop, pause = asyncio.get_running_loop(), self._look
        while True:
            try:
                left = await loop.run_in_executor(self._sending, self._send_all)
            except Exception as error:
                self._failed("sending", error)
                left = 1
            pause = longer(pause, self._look) if left else self._look
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), pause)
            self._full.clear()

    def _send_all(self) -> int:
        begun = perf_counter()
        if self.shuffler.freeze_if_full():
            seconds = perf_counter() - begun
            self.metrics.closing.observe(seconds)
            self.log.write("frozen", seconds=round(seconds, 3))
        left = self.shuffler.send()
        with suppress(Refused):  # the coordinator does not answer; devices are told when they ask
            self.shuffler.refresh()
        return left

    # Handlers

    async def _sealed(self, request: Request) -> Response:
        self._rates.check(request.client.host if request.client else "")
        body, token = await _body(request, self.limits.largest), _token(request)
        try:
            incoming = await self._looks(self.shuffler.check, body, token, False)
        except NotAtHand:
            incoming = await self._after_asking(body, token)
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((incoming, waiting))
        except asyncio.QueueFull:
            raise Refused("rate", "too many reports at once: wait a moment and send the same again") from None
        try:
            answer = await asyncio.wait_for(asyncio.shield(waiting), _ANSWER)
        except TimeoutError:
            raise Refused("busy", "the shuffler cannot store reports now: send the same again later") from None
        if isinstance(answer, Refused):
            raise answer
        self.metrics.accepted.inc()
        return _json(answer)

    async def _after_asking(self, body: bytes, token: str | None) -> Incoming:
        """A report of an unknown round, after the coordinator was asked: once for all who wait, who hold no thread."""
        asked = self._asked
        begun = asked is not None and not asked.done()
        if asked is None or asked.done():
            asked = self._asked = asyncio.get_running_loop().run_in_executor(self._asking, self.shuffler.refresh)
            asked.add_done_callback(lambda over: over.cancelled() or over.exception())  # whoever waits raises it
        done, _ = await asyncio.wait({asked}, timeout=SECONDS)
        if not done:
            raise Refused("busy", "the coordinator does not say which round is open: send the same again later")
        asked.result()
        try:
            return await self._looks(self.shuffler.check, body, token, False)
        except NotAtHand:
            if begun:  # it was asked before this report came
                raise Refused("busy", "the round is not known yet: send the same again later") from None
            raise Refused("unknown", "the study has no such round") from None

    async def _status(self, request: Request) -> Response:
        self._check_operator(request)
        return _json(await self._looks(self._now))

    async def _metrics(self, request: Request) -> Response:
        self._check_operator(request)
        await self._looks(self._now)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def _health(self, request: Request) -> Response:
        try:
            await self._looks(self._now)
        except Refused:
            raise
        except Exception as error:
            self._failed("health", error)
            raise Refused("busy", "the shuffler cannot read its database") from None
        return _json({"status": "ok"})

    # The rest

    def _now(self) -> dict[str, Any]:
        shuffler = self.shuffler
        with shuffler.reading() as link:
            view, study = shuffler_database.last_round(link), rounds.study_row(link)
            held, left = balance(link.raw, shuffler.declared.name), len(shuffler_database.unacknowledged(link))
            waiting = 0 if view is None else shuffler_database.waiting(link, view.number)
        number = 0 if view is None else view.number
        self.metrics.round.set(number)
        self.metrics.waiting.set(waiting)
        return {
            "study": shuffler.declared.hash,
            "round": number,
            "waiting": waiting,
            "wanted": 0 if view is None else view.users,
            "unacknowledged": left,
            "ended": None if study is None else study.ended,
            "refused": self.metrics.refusals(),
            "guarantee": shuffler.mechanism.statement,
            "budget": {"spent": held.budget.words(held.spent), "left": held.budget.words(held.left, left=True)},
        }

    def _check_operator(self, request: Request) -> None:
        token = _token(request) or ""
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._operator.encode()):
            raise Refused("operator", "this is for whoever runs the shuffler: send the operator's token")

    def _failed(self, event: str, error: BaseException) -> None:
        self.metrics.failed.inc()
        self.log.failure(event, error)


def longer(pause: float, least: float) -> float:
    """Twice as long as the last pause, up to half a minute; never shorter than the usual one."""
    return max(least, min(2 * pause, _LONGEST))


def usual_limits(shuffler: Shuffler) -> Limits:
    """Limits that no honest report exceeds: one message for each counter that there can be."""
    return Limits(_MARGIN + _A_MESSAGE * shuffler.most_messages())

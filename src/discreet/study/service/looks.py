"""Whatever asks the database or takes long, outside the event loop: a few at a time, and nobody waits for ever.

A database may hang, and a thread that asks it then hangs with it. So there are few such threads, few requests may wait
for one, and each of them waits briefly; everything that is answered from memory goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from discreet.study.service.wire_messages import Refused

SECONDS = 5.0
_THREADS, _MOST = 4, 64
Found = TypeVar("Found")


class Looks:
    """A pool of threads for looking."""

    def __init__(self, seconds: float = SECONDS, most: int = _MOST) -> None:
        self._pool, self._seconds = ThreadPoolExecutor(_THREADS, "looking"), seconds
        self._free = threading.Semaphore(most)

    async def __call__(self, work: Callable[..., Found], *given: Any) -> Found:
        """What the work gives; refused as busy if it takes too long, or if too many wait already."""
        if not self._free.acquire(blocking=False):
            raise _busy()
        future = self._pool.submit(work, *given)
        future.add_done_callback(lambda _: self._free.release())
        done, _ = await asyncio.wait({waiting := asyncio.wrap_future(future)}, timeout=self._seconds)
        if not done:
            waiting.cancel()  # one that has begun goes on, and holds its thread
            raise _busy()
        return waiting.result()

    def shutdown(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _busy() -> Refused:
    return Refused("busy", "the database does not answer now: send the same again later")

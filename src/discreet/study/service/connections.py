"""How long a request may take to arrive, and how many connections there are, in all and of one address.

Half a request costs whoever sends it nothing, and keeps a connection open here. So one that has not arrived whole after
``seconds``, and some more for every ``rate`` bytes that have come, is dropped; where all connections are taken, a new
one takes the place of the one that has been arriving for longest, or of one that does not read its answer. Declared
proxies bring many people over one address, and may have as many connections as there are.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from discreet.base.system import allow_files

BACKLOG = 128  # connections that are accepted at once
_FILES = 256  # open files that are not connections: the database, the log, what is being accepted
_MOST = 8192


@dataclass
class Bounds:
    """The limits of one process, and its connections in the order in which their last requests began."""

    most: int
    of_one: int
    proxies: Sequence[str] = ()
    seconds: float = 20.0
    rate: float = 50_000.0  # bytes a second
    open: dict[Bounded, None] = field(default_factory=dict)
    addresses: Counter[str] = field(default_factory=Counter)

    def is_proxy(self, address: str) -> bool:
        """Whether many people may come from there."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in ipaddress.ip_network(each, strict=False) for each in self.proxies)

    def make_room(self, new: Bounded) -> None:
        """Drop a connection if there are too many: of this address, if it has more than its share."""
        greedy = self.addresses[new.address] > self.of_one and not self.is_proxy(new.address)
        if not greedy and len(self.open) <= self.most:
            return
        others = [each for each in self.open if each is not new and not each.transport.is_closing()]
        if greedy:
            others = [each for each in others if each.address == new.address]
        slow = next((each for each in others if each.since is not None), None)
        slow = slow or next((each for each in others if each.flow.write_paused), new)
        slow.transport.abort()


def usual_bounds(proxies: Sequence[str] = ()) -> Bounds:
    """As many connections as this process may have open files, half of them of one address."""
    files = allow_files(_MOST + _FILES)
    most = _MOST if files is None else max(32, min(_MOST, files - _FILES))
    return Bounds(most, most // 2, proxies)


class Bounded(H11Protocol):
    """A connection of the web server within the bounds of its process."""

    bounds: ClassVar[Bounds] = Bounds(1024, 512)
    since: float | None = None  # when the request that is arriving began; None: it has arrived
    address = ""
    _arrived = 0
    _whole: Any = None  # the request that arrived last
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it in, perhaps in place of another one."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.since = self.loop.time()
        self.bounds.addresses[self.address] += 1
        self.bounds.open[self] = None
        self.bounds.make_room(self)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Note whether a request begins, or has arrived whole."""
        if self.since is None:
            self.since, self._arrived = self.loop.time(), 0
            self.bounds.open.pop(self, None)
            self.bounds.open[self] = None
        self._arrived += len(data)
        super().data_received(data)
        if self.cycle is not None and self.cycle is not self._whole and not self.cycle.more_body:
            self._whole, self.since = self.cycle, None

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room."""
        if self._timer is not None:
            self._timer.cancel()
        if self.bounds.open.pop(self, self) is None:
            self.bounds.addresses[self.address] -= 1
            if not self.bounds.addresses[self.address]:
                del self.bounds.addresses[self.address]
        super().connection_lost(exc)

    def _watch(self) -> None:
        bounds, now = self.bounds, self.loop.time()
        if self.since is not None and now - self.since > bounds.seconds + self._arrived / bounds.rate:
            self.transport.abort()
            return
        self._timer = self.loop.call_later(bounds.seconds / 4, self._watch)

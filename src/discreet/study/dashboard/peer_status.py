"""Whether another party of a study answers: the shuffler, for the dashboard of the coordinator.

The coordinator sees nothing of a shuffler but its whole batches, so a shuffler that is down looks like people who do
not come. Its ``/healthz`` tells the two apart. It is asked in the background, now and then, and only while somebody
watches.
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from time import monotonic
from typing import Any

_EVERY, _PATIENCE = 3.0, 2.0  # seconds between two questions, and until one counts as not answered


def health_of(address: str) -> str:
    """What a party says of itself: "answers", "troubled", or "silent" if nothing comes back."""
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/healthz", timeout=_PATIENCE) as answer:
            return "answers" if answer.status == 200 else "troubled"
    except urllib.error.HTTPError:
        return "troubled"
    except (OSError, ValueError):
        return "silent"


class Neighbour:
    """Another party at an address, and what was heard of it last; without an address nobody is asked."""

    def __init__(
        self, address: str, clock: Callable[[], str], health: Callable[[str], str] = health_of,
        moment: Callable[[], float] = monotonic,
    ) -> None:  # fmt: skip
        self._address, self._clock, self._health, self._moment = address, clock, health, moment
        self._next, self._asking = float("-inf"), threading.Lock()
        self._heard = {"address": address, "state": "unasked" if address else "unknown", "since": clock()}

    def state(self) -> dict[str, Any]:
        """What was heard last, and since when; asks again in the background if that is some seconds ago."""
        if self._address and self._moment() >= self._next and self._asking.acquire(blocking=False):
            self._next = self._moment() + _EVERY
            threading.Thread(target=self._ask, daemon=True).start()
        return self._heard

    def _ask(self) -> None:
        try:
            state = self._health(self._address)
            if state != self._heard["state"]:
                self._heard = {**self._heard, "state": state, "since": self._clock()}
        finally:
            self._asking.release()

"""One connection that several threads share, as a shuffler does that sends a batch while it looks for the round."""

from __future__ import annotations

import http.client
import threading
import time

from discreet.client.transport import Answer, Connection


class Strict:
    """A connection that says if a request begins before the answer to the one before it was read."""

    mixed = False

    def __init__(self, *_where, **_how) -> None:
        self.busy = False

    def request(self, method, path, body, headers) -> None:
        Strict.mixed = Strict.mixed or self.busy
        self.busy, self.path = True, path
        time.sleep(0.0005)  # another thread gets the processor

    def getresponse(self):
        return self

    status = 200

    def read(self, _most) -> bytes:
        content, self.busy = self.path.encode(), False
        return content

    def close(self) -> None:
        self.busy = False


def test_threads_ask_one_after_the_other(monkeypatch):
    monkeypatch.setattr(http.client, "HTTPConnection", Strict)
    connection, found = Connection("http://localhost:1"), []

    def ask(name: str) -> None:
        found.extend(connection.ask("GET", f"/{name}") == Answer(200, f"/{name}".encode()) for _ in range(20))

    threads = [threading.Thread(target=ask, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == 80 * [True]
    assert not Strict.mixed

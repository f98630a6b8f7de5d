"""Half requests, slow ones and many of them: they are dropped, and whoever sends a whole one is answered."""

from __future__ import annotations

import http.client
import io
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from discreet.study.service.connections import Bounded, Bounds, usual_bounds
from discreet.study.service.monitoring import Log, ServerLog

HALF = b"GET /v1/policy HTTP/1.1\r\nHost: a\r\nX-"
BODY = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 400\r\n\r\n{"
PATIENCE = 60.0


async def answer(request) -> Response:
    return Response(str(len(await request.body())))


@contextmanager
def served(bounds: Bounds) -> Iterator[int]:
    """A small application behind bounded connections; gives its port."""

    class Few(Bounded):
        pass

    Few.bounds = bounds
    app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])
    config = uvicorn.Config(app, port=0, http=Few, log_config=None, access_log=False, lifespan="off", backlog=16)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + PATIENCE
    while not server.started:
        assert time.monotonic() < end
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join(PATIENCE)


def opened(port: int, content: bytes = HALF) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    found.sendall(content)
    return found


def is_dropped(link: socket.socket) -> bool:
    try:
        return link.recv(100) == b""
    except ConnectionError:
        return True


def asked(port: int, body: bytes | None = None) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET" if body is None else "POST", "/", body)
        return connection.getresponse().read()
    finally:
        connection.close()


@pytest.mark.parametrize("content", [b"", HALF, BODY])
def test_a_request_that_does_not_arrive_is_dropped(content):
    with served(Bounds(100, 100, seconds=0.2)) as port:
        assert is_dropped(opened(port, content))
        assert asked(port) == b"0"


def test_a_kept_connection_is_dropped_if_its_next_request_does_not_arrive():
    with served(Bounds(100, 100, seconds=0.2)) as port:
        link = opened(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        found = b""
        while not found.endswith(b"\r\n\r\n0"):
            found += link.recv(1000)
        link.sendall(HALF)
        assert is_dropped(link)


def test_a_large_body_has_more_time():
    with served(Bounds(100, 100, seconds=0.2, rate=10.0)) as port:
        link = opened(port, BODY + b"1" * 300)
        time.sleep(0.6)
        link.sendall(b"1" * 99)
        assert b"200 OK" in link.recv(1000)


def test_half_requests_take_nobody_s_place():
    """Three times as many as there may be connections, and none of them ends by itself."""
    with served(Bounds(20, 20, seconds=600.0)) as port:
        held = [opened(port) for _ in range(60)]
        assert asked(port) == b"0"
        assert asked(port, b"12345") == b"5"
        assert is_dropped(held[0])
        for link in held:
            link.close()


@pytest.mark.parametrize(("proxies", "dropped"), [((), True), (("127.0.0.0/8",), False)])
def test_one_address_has_its_share_unless_it_is_a_proxy(proxies, dropped):
    bounds = Bounds(100, 5, proxies, seconds=600.0)
    with served(bounds) as port:
        held = [opened(port) for _ in range(5)]
        one_more = opened(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200 OK" in one_more.recv(1000)
        held[0].settimeout(PATIENCE if dropped else 0.2)
        with nullcontext() if dropped else pytest.raises(TimeoutError):
            assert is_dropped(held[0])
        for link in [*held, one_more]:
            link.close()
        end = time.monotonic() + PATIENCE
        while bounds.open or bounds.addresses:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert asked(port) == b"0"


def test_there_are_fewer_connections_than_files():
    import resource

    bounds = usual_bounds()
    assert 32 <= bounds.most <= max(32, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 256)
    assert bounds.of_one == bounds.most // 2


def test_what_others_can_cause_is_not_logged_without_end():
    out, moment = io.StringIO(), [0.0]
    log = Log(out, moment=lambda: moment[0])
    record = logging.LogRecord("uvicorn", logging.WARNING, "h11_impl.py", 1, "Invalid HTTP request", None, None)
    for _ in range(10_000):
        log.failure("request", ValueError("secret"))
        ServerLog(log).emit(record)
    log.failure("request", TypeError())
    assert len(out.getvalue().splitlines()) == 41
    moment[0] = 61.0
    log.failure("request", ValueError("secret"))
    last = out.getvalue().splitlines()[-2:]
    assert '"unsaid": 9980' in last[0]
    assert "unsaid" not in last[1]
    assert "secret" not in out.getvalue()

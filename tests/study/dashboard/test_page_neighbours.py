"""Another party that answers, is in trouble, or is silent; asked now and then, and never by who waits for it."""

from __future__ import annotations

import http.server
import threading
import time

import pytest

from discreet.study.dashboard.peer_status import Neighbour, health_of


@pytest.fixture(params=[200, 503])
def party(request):
    """A party that answers with a status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(request.param if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_words):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield request.param, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_party_is_heard(party):
    status, address = party
    assert health_of(address) == ("answers" if status == 200 else "troubled")


def test_nobody_there_is_silence():
    assert health_of("http://127.0.0.1:1") == health_of("nonsense://") == health_of("http://[") == "silent"


def test_it_is_asked_in_the_background_and_not_too_often():
    asked, answers, moment = [], threading.Event(), [0.0]

    def slowly(address):
        asked.append(address)
        assert answers.wait(20)
        return "silent" if moment[0] else "answers"

    found = Neighbour("http://x", lambda: f"at {moment[0]}", slowly, lambda: moment[0])

    def heard(state):
        while found.state()["state"] != state:
            time.sleep(0.001)
        return found.state()

    assert found.state()["state"] == found.state()["state"] == "unasked"  # the answer is not waited for
    answers.set()
    assert heard("answers")["since"] == "at 0.0"
    assert len(asked) == 1
    moment[0] = 60.0
    assert heard("silent")["since"] == "at 60.0"
    assert len(asked) == 2


def test_without_an_address_nobody_is_asked():
    found = Neighbour("", lambda: "now", lambda address: pytest.fail("there is no address"))
    assert found.state() == {"address": "", "state": "unknown", "since": "now"}

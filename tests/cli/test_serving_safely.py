"""How services are started: whose word about addresses is taken, where passwords may stand, and who dies with whom."""

from __future__ import annotations

import http.client
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from tests.study.service.small_studies import SAMPLED, declared

from discreet.cli import main
from discreet.cli.crowd_service import _free_port
from discreet.cli.workers import check_proxies, run_workers, warn_of_plain_http
from discreet.client import Device
from discreet.client.errors import ClientError
from discreet.client.store import MemoryStore
from discreet.study.service.declaration import read_study
from discreet.study.service.study_files import places_of

PATIENCE = 120.0


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return int(stop.value.code or 0)


@pytest.mark.parametrize(
    "address", ["postgresql://me:secret@127.0.0.1:1/x", "postgres://me@127.0.0.1:1/x?password=secret&a=b"]
)
@pytest.mark.parametrize("command", [("serve",), ("study", "end"), ("study", "policy", "--out", "policy.json")])
def test_a_password_on_the_command_line_is_refused(tmp_path, capsys, monkeypatch, command, address):
    monkeypatch.chdir(tmp_path)
    first, *rest = command
    words = [first, rest[0]] if first == "study" else [first]
    assert run(*words, declared(tmp_path, SAMPLED), *rest[1:], "--db", address) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "holds a password" in said
    assert "PGPASSFILE" in said
    assert "secret" not in said
    assert said.count("discreet:") == 1


def test_what_is_no_address_of_a_proxy_is_refused(tmp_path, capsys):
    assert check_proxies(["127.0.0.1", "10.0.0.0/8", "::1"]) == ["127.0.0.1", "10.0.0.0/8", "::1"]
    study = declared(tmp_path, SAMPLED)
    for wrong in ("*", "localhost", "10.0.0.0/99", ""):
        assert run("serve", study, "--proxy", wrong) == 2
        assert "--proxy is the address of a proxy" in " ".join(capsys.readouterr().err.split())


def test_forwarded_addresses_are_ignored_unless_a_proxy_is_declared(monkeypatch):
    import uvicorn

    told = []
    monkeypatch.setattr(uvicorn, "run", lambda *_all, **how: told.append(how))
    monkeypatch.setenv("DISCREET_SERVE", "")
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # which the web server would believe
    run_workers("serve", {}, "127.0.0.1", 1)
    run_workers("serve", {}, "127.0.0.1", 1, proxies=["127.0.0.1"])
    assert [(each["proxy_headers"], each["forwarded_allow_ips"]) for each in told] == [
        (False, []),
        (True, ["127.0.0.1"]),
    ]


@contextmanager
def serving(folder, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process of ``discreet serve`` on a free port; whatever is left of it is killed."""
    port = _free_port()
    words = [sys.executable, "-m", "discreet", "serve", str(declared(folder, SAMPLED)), "--port", str(port), *options]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: status(port, "GET", "/healthz") == 200)
        yield process, port
    finally:
        for number in _family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        process.wait()


def until(true) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def status(port: int, method: str, path: str, **headers: str) -> int | None:
    """The status of an answer; None if nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, b"{}" if method == "POST" else None, headers)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def _family(number: int) -> list[int]:
    """A process and all processes of its session."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat:
                    if int(stat.read().rpartition(")")[2].split()[3]) == number:
                        found.append(int(name))
            except (OSError, ValueError, IndexError):
                continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("declares", [False, True])
def test_a_forwarded_address_buys_nothing_without_a_declared_proxy(tmp_path, declares):
    options = ["--rate", "0.001", *(["--proxy", "127.0.0.1"] if declares else [])]
    with serving(tmp_path, *options) as (_process, port):
        found = [status(port, "POST", "/v1/reports", **{"X-Forwarded-For": f"10.0.0.{i}"}) for i in range(130)]
        assert found[:100] == [400] * 100
        assert found[100:] == [400 if declares else 429] * 30
        if declares:  # what a client says of itself stands before what the proxy adds
            same = [
                status(port, "POST", "/v1/reports", **{"X-Forwarded-For": f"1.2.3.{i}, 10.9.9.9"}) for i in range(110)
            ]
            assert same[100:] == [429] * 10


@pytest.mark.slow
def test_workers_end_when_the_process_that_watches_them_is_killed(tmp_path):
    with serving(tmp_path, "--workers", "2") as (process, port):
        until(lambda: len(_family(process.pid)) >= 3)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        until(lambda: status(port, "GET", "/healthz") is None)
        until(lambda: not _family(process.pid))


@pytest.mark.slow
def test_a_signal_to_stop_is_obeyed_while_the_database_hangs(tmp_path):
    """Somebody else holds the lock of the database, for which a report waits a minute."""
    with serving(tmp_path) as (process, port):
        file = tmp_path / "small.toml"
        other = sqlite3.connect(places_of(file).database, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        device = Device(f"http://127.0.0.1:{port}", MemoryStore(), study_hash=read_study(file).hash, at_once=True)
        device.begin()
        device.abandon()

        def send() -> None:
            with suppress(ClientError):
                device.send()

        threading.Thread(target=send, daemon=True).start()
        time.sleep(1.0)
        begun = time.monotonic()
        process.terminate()
        process.wait(60)
        assert time.monotonic() - begun < 45  # five seconds, where a machine has time
        other.close()


@pytest.mark.parametrize(
    ("host", "warned"), [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True), ("::", True)]
)
def test_plain_http_for_others_is_said(capsys, host, warned):
    warn_of_plain_http(host, 8000)
    said = capsys.readouterr().err
    assert ("is plain HTTP" in said) == warned == bool(said)


def test_who_serves_for_others_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("discreet.cli.serve.run_workers", lambda *_, **__: None)
    study = declared(tmp_path, SAMPLED)
    for host, warned in (("127.0.0.1", False), ("0.0.0.0", True)):
        assert run("serve", study, "--host", host, "--port", _free_port()) == 0
        assert ("is plain HTTP" in capsys.readouterr().err) == warned

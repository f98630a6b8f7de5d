"""The service against a bare endpoint, as ratios measured in one run; one worker against two; memory over many reports.

    python -m experiments.service                   # throughput on SQLite, and on PostgreSQL where it is installed
    python -m experiments.service --connections 256 # more devices at once: groups that are committed together grow
    python -m experiments.service --memory 1000000  # resident memory while so many reports pass through a coordinator
    python -m experiments.service --open 200000     # devices that do not wait, while a round of so many closes

The *bare* endpoint is what anybody would write first with the same framework: parse the message, insert one row,
commit, answer. It has the same durability (WAL, ``synchronous=FULL``), and checks nothing. *Never synced* is the same
without durability: what the framework alone can do. Servers run in processes of their own; a load generator of plain
sockets sends messages that were made beforehand. All are measured in turn, several times, and medians are shown: of the
rate, which depends on what else the machine does, and of the processor time that a server spends on a report. Each
connection waits for its answer before it sends again, so a group has at most as many reports as a worker has
connections: two workers commit groups of half the size, one after the other.

With ``--open`` devices do not wait for each other: they come as a Poisson process at a share of the rate that the bare
endpoint of the same run stores, and a report's time counts from the moment at which it was due, so that a service that
stands still is seen by everybody who comes meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

_BARE = "DISCREET_BENCH_BARE"  # the database of the bare endpoint
_SYNCED = "DISCREET_BENCH_SYNCED"  # FULL, or OFF
_CONNECTIONS = 32


def bare():
    """The bare endpoint: one row for each message, committed before it is answered."""
    import sqlite3

    import msgspec
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    database = sqlite3.connect(os.environ[_BARE], isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {os.environ[_SYNCED]}")
    database.execute("CREATE TABLE IF NOT EXISTS reports (id TEXT PRIMARY KEY, content BLOB)")

    async def report(request):
        body = await request.body()
        database.execute("INSERT INTO reports VALUES (?, ?)", (msgspec.json.decode(body)["id"], body))
        return Response(b'{"status":"accepted"}', media_type="application/json")

    async def health(request):
        return Response(b"{}")

    return Starlette(routes=[Route("/v1/reports", report, methods=["POST"]), Route("/healthz", health)])


def declared(folder: Path, number: int) -> Path:
    """A local study of RiverSwim's shape whose rounds grow fast, so that closing is a small part of the work."""
    from discreet.study.service.study_files import new_study

    file = folder / "study.toml"
    new_study(file)
    text = file.read_text().replace("number = 20000", f"number = {number}")
    text = text.replace('recipe = "auto"', 'recipe = "local/sampled-step"').replace('epsilon = ""', "epsilon = 4.0")
    text = text.replace('title = ""', 'title = "Load"').replace('about = ""', 'about = "Load"')
    file.write_text(text.replace("options = {}\n\n[users]", "options = { growth = 0.5 }\n\n[users]"))
    return file


def messages(study: str, count: int, number: int = 1) -> list[bytes]:
    """Reports for one round, each with an id of its own; late ones count as well."""
    rng = np.random.default_rng(0)
    steps, items = rng.integers(1, 5, count), rng.integers(0, 32, count)
    return [
        b'{"study":"%s","round":%d,"id":"%s","report":{"kind":"items","steps":[%d],"items":[%d]}}'
        % (study.encode(), number, secrets.token_hex(16).encode(), h, i)
        for h, i in zip(steps, items, strict=True)
    ]


async def _send(port: int, bodies: list[bytes], connections: int = _CONNECTIONS) -> tuple[float, int]:
    """All messages over some connections; seconds, and how many were accepted."""
    waiting, accepted = iter(bodies), 0

    async def one() -> None:
        nonlocal accepted
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for body in waiting:
            head = f"POST /v1/reports HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length")
            )
            await reader.readexactly(length)
            accepted += answer.startswith(b"HTTP/1.1 200")
        writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    return time.perf_counter() - begun, accepted


@contextmanager
def running(command: list[str], **environment: str) -> Iterator[tuple[int, list[int]]]:
    """A server in processes of its own: its port, and its processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, *command, "--port", str(port)], env={**os.environ, **environment}, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(1200):
            assert process.poll() is None, "the server has stopped"
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as connection:
                    connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                    if connection.recv(12) == b"HTTP/1.1 200":
                        break
            except OSError:
                pass
            time.sleep(0.1)
        yield port, _family(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def _family(parent: int) -> list[int]:
    found = [parent]
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) in found:
            found.append(int(path.parent.name))
    return found


def cpu_seconds(processes: list[int]) -> float:
    """Processor time of these processes so far."""
    ticks = 0
    for number in processes:
        fields = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def throughput(
    reports: int, rounds: int, postgres: str | None, connections: int = _CONNECTIONS
) -> dict[str, dict[str, float]]:
    """Reports per second and processor milliseconds per report of every kind of server, measured in turn."""
    from discreet.study.service.declaration import read_study

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers, studies = {}, {}
        command = ["-m", "uvicorn", "--factory", "experiments.service:bare", "--no-access-log", "--log-level", "error"]
        for name, synced in (("bare", "FULL"), ("bare, never synced", "OFF")):
            settings = {_BARE: str(folder / f"{synced}.db"), _SYNCED: synced}
            servers[name] = stack.enter_context(running(command, **settings))
        kinds = {"service, SQLite": [], "service, SQLite, 2 workers": ["--workers", "2"]}
        if postgres is not None:
            kinds |= {"service, PostgreSQL": [], "service, PostgreSQL, 2 workers": ["--workers", "2"]}
        for number, (name, options) in enumerate(kinds.items()):
            home = folder / str(number)
            home.mkdir()
            file = declared(home, 10_000_000)
            studies[name] = read_study(file).hash
            if "PostgreSQL" in name:
                assert postgres is not None
                options = [*options, "--db", _schema(postgres, f"bench{number}")]
            command = ["-c", "from discreet.cli import main; main()", "serve", str(file), *options]
            servers[name] = stack.enter_context(running(command))
        rates: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
        for turn in range(rounds + 1):
            for name, (port, processes) in servers.items():
                bodies, before = messages(studies.get(name, "-"), reports), cpu_seconds(processes)
                seconds, accepted = asyncio.run(_send(port, bodies, connections))
                assert accepted == reports, f"{name}: {accepted} of {reports} were accepted"
                if turn:  # the first turn warms up
                    spent = cpu_seconds(processes) - before
                    rates[name].append((reports / seconds, 1000 * spent / reports))
    return {
        name: {"per_second": statistics.median(r for r, _ in found), "cpu_ms": statistics.median(c for _, c in found)}
        for name, found in rates.items()
    }


async def _come(port: int, bodies: list[bytes], rate: float, seed: int = 0) -> list[tuple[float, float, bool]]:
    """Messages that are due at moments of a Poisson process, whatever became of those before.

    Gives for each when it was due, how many seconds later it was answered, and whether it was accepted.
    """
    due = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, len(bodies)))
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    found: list[tuple[float, float, bool]] = []
    begun = time.perf_counter()

    async def one(body: bytes, moment: float) -> None:
        text = b"POST /v1/reports HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        while True:
            reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(text)
                answer = await reader.readuntil(b"\r\n\r\n")
                break
            except (asyncio.IncompleteReadError, ConnectionError):  # it was idle for long: the same is sent again
                writer.close()
        length = next(int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(length)
        found.append((moment, time.perf_counter() - begun - moment, answer.startswith(b"HTTP/1.1 200")))
        idle.append((reader, writer))

    tasks = []
    for body, moment in zip(bodies, due, strict=True):
        await asyncio.sleep(max(0.0, begun + moment - time.perf_counter()))
        tasks.append(asyncio.create_task(one(body, float(moment))))
    await asyncio.gather(*tasks)
    for _, writer in idle:
        writer.close()
    return found


def percentiles(found: list[tuple[float, float, bool]]) -> dict[str, float]:
    """How many, the share that was accepted, and milliseconds until the answer."""
    seconds = [1000 * taken for _, taken, _ in found]
    p50, p99 = np.percentile(seconds, [50, 99]) if seconds else (np.nan, np.nan)
    accepted = statistics.fmean(ok for _, _, ok in found) if found else np.nan
    return {"reports": len(found), "accepted": accepted, "p50_ms": float(p50), "p99_ms": float(p99)}


def open_loop(waiting: int, share: float, seconds: float) -> dict[str, dict[str, float]]:
    """Reports that are due whether or not the service keeps up: with few who wait, with many, and while these close."""
    import sqlite3

    from discreet.study.service import rounds
    from discreet.study.service.declaration import read_study
    from discreet.study.service.study_database import Database
    from discreet.study.service.study_files import places_of

    found = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = declared(folder, 50_000_000)
        command = ["-m", "uvicorn", "--factory", "experiments.service:bare", "--no-access-log", "--log-level", "error"]
        settings = {_BARE: str(folder / "bare.db"), _SYNCED: "FULL"}
        port, _ = stack.enter_context(running(command, **settings))
        taken, _ = asyncio.run(_send(port, messages("-", 1000)))
        rate = share * 1000 / taken
        many = int(rate * seconds)
        found["bare"] = percentiles(asyncio.run(_come(port, messages("-", many), rate)))
        command = ["-c", "from discreet.cli import main; main()", "serve", str(file)]
        port, _ = stack.enter_context(running(command))
        study, link = read_study(file).hash, Database(places_of(file).database).connect()
        stack.callback(link.close)
        link.run("UPDATE rounds SET wanted = 40000000")
        asyncio.run(_send(port, messages(study, 500)))
        found["service"] = percentiles(asyncio.run(_come(port, messages(study, many), rate)))
        said = [json.loads(body) for body in messages(study, waiting)]
        for first in range(0, waiting, 5000):
            rows = [
                rounds.ReportRow(
                    each["id"], 1, secrets.token_hex(32), None,
                    json.dumps({"items": each["report"]["items"], "steps": each["report"]["steps"]}).encode(),
                ) for each in said[first : first + 5000]
            ]  # fmt: skip
            with link.writing():
                rounds.add_reports(link, rows, 1)
        found[f"service, {waiting:,} wait"] = percentiles(asyncio.run(_come(port, messages(study, many), rate)))
        link.run("UPDATE rounds SET wanted = 1 WHERE number = 1")  # it closes at the next look
        begun = time.perf_counter()
        last = asyncio.run(_come(port, messages(study, many), rate))
        with sqlite3.connect(places_of(file).database) as look:
            while (closed := look.execute("SELECT max(number) FROM rounds").fetchone()[0]) < 2:
                time.sleep(0.1)
        assert closed >= 2
        found[f"service, {waiting:,} close"] = percentiles(last)
        took = time.perf_counter() - begun
        print(f"{rate:.0f} reports/s are due, {share:g} of what bare stores; the closing was over within {took:.1f} s")
    return found


def _schema(address: str, name: str) -> str:
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{address}&options=-csearch_path%3D{name}"


def memory(reports: int, pieces: int = 10) -> list[tuple[int, float]]:
    """Resident memory in MiB of this process while so many reports pass through a coordinator."""
    from discreet.study.service.coordinator import Coordinator
    from discreet.study.service.declaration import read_study
    from discreet.study.service.study_database import Database
    from discreet.study.service.study_files import places_of
    from discreet.study.service.wire_messages import Accepted

    seen = []
    with tempfile.TemporaryDirectory() as folder:
        file = declared(Path(folder), reports)
        file.write_text(file.read_text().replace("growth = 0.5", "growth = 0.02"))
        places = places_of(file)
        at = Coordinator(read_study(file), Database(places.database), places)
        sent, begun = 0, time.perf_counter()
        while sent < reports:
            number = at.published.row.number if at.published.ended is None else 1
            batch = [at.check(body) for body in messages(at.declared.hash, min(1000, reports - sent), number)]
            assert all(isinstance(answer, Accepted) for answer in at.accept_all(batch))
            sent += len(batch)
            while at.close_if_full():
                pass
            if sent % (reports // pieces) < len(batch):
                seen.append((sent, _resident()))
                print(f"{sent:>10,} reports  {seen[-1][1]:8.1f} MiB  round {at.published.row.number}", flush=True)
        print(f"{sent / (time.perf_counter() - begun):,.0f} reports per second through the coordinator")
        at.stop()
    return seen


def _resident() -> float:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Print a table of rates and ratios, or memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reports", type=int, default=2000, help="reports of one measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each server")
    parser.add_argument("--connections", type=int, default=_CONNECTIONS, help="devices that send at once")
    parser.add_argument("--memory", type=int, default=0, help="measure memory over so many reports instead")
    parser.add_argument("--open", type=int, default=0, help="devices that do not wait, and so many that are counted")
    parser.add_argument("--share", type=float, default=0.5, help="of what the bare endpoint stores, with --open")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement, with --open")
    parser.add_argument("--postgres", action="store_true", help="start a PostgreSQL server and measure on it, too")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: object
    if given.memory:
        found = memory(given.memory)
    elif given.open:
        found = apart = open_loop(given.open, given.share, given.seconds)
        usual = apart["service"]["p99_ms"]
        for name, row in apart.items():
            words = f"{row['reports']:7.0f} due, {row['accepted']:.3f} accepted, p50 {row['p50_ms']:7.1f} ms, p99 "
            print(f"{name:32}{words}{row['p99_ms']:7.1f} ms ({row['p99_ms'] / usual:.2f} of the service)")
    else:
        with ExitStack() as stack:
            address = None
            if given.postgres:
                from tests.ledger.postgres import server

                address = stack.enter_context(server())
            found = table = throughput(given.reports, given.rounds, address, given.connections)
        for name, row in table.items():
            rate, cost = (row[what] / table["bare"][what] for what in ("per_second", "cpu_ms"))
            words = f"{row['per_second']:8.0f}/s ({rate:.2f} of bare)  {row['cpu_ms']:.3f} ms ({cost:.2f} of bare)"
            print(f"{name:32}{words}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The load generator that does not wait: who comes while a server stands still counts, whoever was answered before."""

from __future__ import annotations

import asyncio

from experiments.service import _come, percentiles

STILL = 0.4


def test_a_server_that_stands_still_is_seen_by_all_who_come_meanwhile():
    """A client that waited for its answer before it came again would show one slow answer of 200."""

    async def measure() -> list[tuple[float, float, bool]]:
        answered = 0

        async def answer(reader, writer) -> None:
            nonlocal answered
            while await reader.readline():
                while (await reader.readline()).strip():
                    pass
                await reader.readexactly(2)
                answered += 1
                if answered == 50:
                    import time

                    time.sleep(STILL)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            return await _come(server.sockets[0].getsockname()[1], [b"{}"] * 200, rate=250.0)

    found = asyncio.run(measure())
    assert len(found) == 200
    assert all(ok for _, _, ok in found)
    assert sum(taken > STILL / 2 for _, taken, _ in found) >= 20  # about 50 were due in the second half of it
    assert percentiles(found)["p99_ms"] > 1000 * STILL / 2

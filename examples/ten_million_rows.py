"""Ten million rows of Parquet to a private policy: how long it takes. Run with  python examples/ten_million_rows.py

Half a million made-up users with 20 steps each, 50 states and 5 actions, counted by DuckDB, released with exact noise
from the operating system, planned by APVI. Prints wall and processor seconds and the largest memory of this process.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import duckdb

import discreet.data
import discreet.offline

USERS, HORIZON, STATES, ACTIONS = 500_000, 20, 50, 5


def write_rows(path: Path) -> None:
    """Uniform states, actions and rewards: there is nothing to learn, only to count."""
    duckdb.sql(
        f"COPY (SELECT i // {HORIZON} AS patient, i % {HORIZON} AS day, "
        f"(random() * {STATES})::INT % {STATES} AS state, (random() * {ACTIONS})::INT % {ACTIONS} AS drug, "
        f"random() AS outcome FROM range({USERS * HORIZON}) rows(i)) TO '{path}' (FORMAT parquet)"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.parquet"
        write_rows(path)
        began, busy = time.perf_counter(), time.process_time()
        table = discreet.data.read(
            path, user="patient", step="day", state="state", action="drug", reward="outcome",
            states=STATES, actions=ACTIONS, horizon=HORIZON,
        )  # fmt: skip
        fit = discreet.offline.train(table, epsilon=1.0, delta=1e-6, progress=True)
        wall, processor = time.perf_counter() - began, time.process_time() - busy
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{USERS * HORIZON:,} rows: {wall:.1f} s, {processor:.1f} processor seconds, {memory:.2f} GB")
    print(fit.summary())


if __name__ == "__main__":
    main()

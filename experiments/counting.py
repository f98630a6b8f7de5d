"""Counting against plain SQL: ``python -m experiments.counting --rows 10000000``.

The same Parquet file of clean trajectories (20 steps, 50 states, 5 actions, rewards in [0, 1]) is counted by

* ``discreet.data``, with every rule: domains, duplicates, gaps, rounding, users;
* plain DuckDB as an analyst would write it for data known to be clean: the next state by a window, then one group-by;
* the same with the only repair that privacy cannot do without, one row per user and step.

Prints processor seconds and the largest memory of a process of its own for each, and the ratio. ``--csv`` reads the
same rows from a CSV file, ``--text`` gives users long names. Files are made in a temporary folder and removed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from pathlib import Path

Answer = SimpleQueue  # of rows, seconds, gigabytes

STEPS, STATES, ACTIONS = 20, 50, 5
AIM = 0.8

WINDOW = """
    SELECT day, state, drug, following, level, count(*) FROM (
        SELECT day, state, drug, (outcome > random())::INT AS level,
               lead(state) OVER (PARTITION BY patient ORDER BY day) AS following FROM {rows})
    GROUP BY ALL
"""
REPAIRED = """
    SELECT day, item, following, count(*) FROM (
        SELECT day, item, lead(item // 10) OVER (PARTITION BY patient ORDER BY day) AS following FROM (
            SELECT patient, day, min((state * 5 + drug) * 2 + (outcome > random())::INT) AS item FROM {rows}
            GROUP BY 1, 2))
    GROUP BY ALL
"""


def write(path: Path, rows: int, text: bool) -> None:
    """Uniform states, actions and rewards: there is nothing to learn, only to count."""
    import duckdb

    patient = f"'patient-' || md5((i // {STEPS})::VARCHAR)" if text else f"i // {STEPS}"
    form = "FORMAT parquet" if path.suffix == ".parquet" else "FORMAT csv, HEADER"
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(
            f"COPY (SELECT {patient} AS patient, i % {STEPS} AS day, (random() * {STATES})::INT % {STATES} AS state, "
            f"(random() * {ACTIONS})::INT % {ACTIONS} AS drug, random() AS outcome FROM range({rows}) rows(i)) "
            f"TO '{path}' ({form})"
        )


def discreetly(path: Path) -> int:
    """Count by the library; how many rows were counted."""
    import discreet.data

    table = discreet.data.read(
        path, user="patient", step="day", state="state", action="drug", reward="outcome",
        states=STATES, actions=ACTIONS, horizon=STEPS,
    )  # fmt: skip
    table.users()
    return int(table.joint_counts().counts.sum())


def plainly(path: Path, query: str) -> int:
    """Count by one query of DuckDB."""
    import duckdb

    reader = "read_parquet" if path.suffix == ".parquet" else "read_csv"
    with duckdb.connect() as connection:
        found = connection.execute(query.format(rows=f"{reader}('{path}')")).fetchnumpy()
    return int(found["count_star()"].sum())


def windowed(path: Path) -> int:
    """Clean data: a window and a group-by."""
    return plainly(path, WINDOW)


def repaired(path: Path) -> int:
    """One row per user and step, then the same."""
    return plainly(path, REPAIRED)


def _measure(
    work: Callable[[Path], int], path: Path, answer: multiprocessing.SimpleQueue[tuple[int, float, float]]
) -> None:
    began = time.process_time()
    counted = work(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer.put((counted, time.process_time() - began, peak / 1e6))


def measured(work: Callable[[Path], int], path: Path) -> tuple[int, float, float]:
    """Rows counted, processor seconds and gigabytes, in a process of its own; loading libraries is part of it."""
    context = multiprocessing.get_context("spawn")
    answer = context.SimpleQueue()
    process = context.Process(target=_measure, args=(work, path, answer))
    process.start()
    process.join()
    return answer.get()


def main() -> None:
    """Make the rows, count them in turns, print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--csv", action="store_true")
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--alone", action="store_true", help="only discreet: plain SQL needs more memory")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("visits.csv" if given.csv else "visits.parquet")
        write(path, given.rows, given.text)
        print(f"{given.rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB")
        works = [discreetly] if given.alone else [discreetly, windowed, repaired]
        results = {work.__name__: [measured(work, path) for _ in range(given.rounds)] for work in works}
    seconds = {}
    for name, runs in results.items():
        seconds[name] = sorted(run[1] for run in runs)[len(runs) // 2]
        memory = max(run[2] for run in runs)
        print(f"{name:>12}: {runs[0][0]:,} rows counted, {seconds[name]:.2f} processor seconds, {memory:.2f} GB")
    for name in seconds.keys() - {"discreetly"}:
        ratio = seconds[name] / seconds["discreetly"]
        print(f"{ratio:.2f} times the speed of {name} (aim {AIM:g})")


if __name__ == "__main__":
    main()

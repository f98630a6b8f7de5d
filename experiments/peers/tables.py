"""A made-up table of trajectories, and the count that a data engineer would write by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HORIZON, STATES, ACTIONS = 20, 50, 5
COUNT = (
    "select day, state, drug, next, outcome >= 0.5 as bit, count(*) as n from (select *, lead(state) over "
    "(partition by patient order by day) as next from '{path}') group by all"
)


def write_rows(path: Path, rows: int) -> None:
    """Uniform states, actions and rewards: there is nothing to learn, only to count."""
    import duckdb

    duckdb.sql(
        f"copy (select i // {HORIZON} as patient, i % {HORIZON} as day, "
        f"(random() * {STATES})::int % {STATES} as state, (random() * {ACTIONS})::int % {ACTIONS} as drug, "
        f"random() as outcome from range({rows}) rows(i)) "
        f"to '{path}' (format parquet)"
    )


def read_table(path: Path) -> Any:
    """The same file, declared."""
    import discreet.data

    return discreet.data.read(
        path, user="patient", step="day", state="state", action="drug", reward="outcome", states=STATES,
        actions=ACTIONS, horizon=HORIZON,
    )  # fmt: skip

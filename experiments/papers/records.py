"""Finished runs as small files: what a job was, its seed, and what every run of it gave.

A *record* is one file for one job, number of episodes and seed. How a figure calls its line makes no difference, so
figures share their runs. It grows by runs: how many there are to be is no part of it either, so a study of six runs
that is continued to twenty keeps the six, and one that is stopped goes on where it was. A file is written whole or not
at all. Numbers are kept to seven digits, in memory too, so that what is read back is what was there.

A record says what ran: the learner with all of its knobs and the recipe with all of its options, in words. Where a
default has changed since, the words differ, and the runs are stale: they are run again, not mixed with new ones.
Records from before there were such words are taken as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from discreet import RESULTS_SINCE as __version__
from discreet.base.files import folder_for, write_atomically
from discreet.simulation.experiments import address
from experiments.papers.figure import Measured, Task

Runs = dict[str, dict[str, Any]]  # by the number of the run, as text, which JSON keys are
_KEPT = ("model", "epsilon", "delta", "rho", "statement")  # of a guarantee


def record_of(result: Mapping[str, Any], first_run: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The record of some runs: ``result`` is what a simulation gives as plain data, ``facts`` what else is known."""
    gaps = result["final_gap"]["per_run"] or [None] * result["runs"]
    samples = facts.get("samples")  # of a count: there are many runs, and their regret is not looked at
    plain = samples is not None or result["regret"] is None
    rows: Runs = {}
    for i in range(result["runs"]):
        row: dict[str, Any] = {"gap": gaps[i]} if samples is None else {"sample": samples[i]}
        if not plain:
            row |= {"regret": result["curve"]["per_run"][i], "switches": result["switches"]["per_run"][i]}
        rows[str(first_run + i)] = _short(row)
    common = {
        "recipe": result["recipe"],
        "guarantee": {name: result["guarantee"].get(name) for name in _KEPT},
        **{name: value for name, value in facts.items() if name != "samples"},
    }
    checkpoints = None if plain else result["checkpoints"]
    seconds = float(f"{result['seconds'] or 0.0:.3g}")
    return {"facts": common, "checkpoints": checkpoints, "seconds": seconds, "runs": rows}


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two records of the same task as one."""
    runs = dict(sorted({**one["runs"], **other["runs"]}.items(), key=lambda item: int(item[0])))
    return {**one, "runs": runs, "seconds": one["seconds"] + other["seconds"]}


def measured_of(record: Mapping[str, Any], runs: int) -> Measured:
    """The first ``runs`` runs of a record as a result."""
    rows = [record["runs"][str(i)] for i in range(runs)]
    data: dict[str, Any] = {
        **record["facts"],
        "regret": None if record["checkpoints"] is None else {"per_run": [row["regret"][-1] for row in rows]},
        "final_gap": {"per_run": [row.get("gap") for row in rows]},
        "runs": runs,
        "seconds": record["seconds"],
    }
    if record["checkpoints"] is not None:
        data["checkpoints"] = record["checkpoints"]
        data["curve"] = {"per_run": [row["regret"] for row in rows]}
        data["switches"] = {"per_run": [row["switches"] for row in rows]}
    if rows and "sample" in rows[0]:
        data["samples"] = [row["sample"] for row in rows]
    return Measured(data)


def missing(task: Task, record: Mapping[str, Any] | None) -> list[int]:
    """The numbers of the runs that are still to be done."""
    done = {} if record is None else record["runs"]
    return [run for run in range(task.runs) if str(run) not in done]


def place(task: Task, folder: Path) -> Path:
    """The file of a task."""
    job = task.job
    words = [job.world, job.learner, job.model if job.recipe == "auto" else job.recipe]
    words += [f"{each:g}" for each in (job.epsilon, job.rho) if each is not None]
    return address(folder, words, task.as_dict())


def load_record(task: Task, folder: Path) -> dict[str, Any] | None:
    """The runs of exactly this task by this version with these defaults, as far as they are there."""
    try:
        data: dict[str, Any] = json.loads(place(task, folder).read_text())
    except (OSError, ValueError):
        return None
    wanted = json.loads(json.dumps(task.as_dict()))
    if data.get("task") != wanted or data.get("version") != __version__:
        return None
    return data if data.get("ran") in (None, task.job.resolved) else None


def keep_runs(task: Task, folder: Path, new: Mapping[str, Any]) -> dict[str, Any]:
    """Add runs to the file of their task, and return all that it now holds."""
    before = load_record(task, folder)
    whole = {"ran": task.job.resolved, **new} if before is None else joined(before, new)
    record = {"task": task.as_dict(), "version": __version__, **whole}
    with folder_for(folder):
        write_atomically(place(task, folder), _one_line_a_run(record))
    return record


def load_task(task: Task, folder: Path) -> Measured | None:
    """The result of exactly this task, if all of its runs are there."""
    record = load_record(task, folder)
    return None if record is None or missing(task, record) else measured_of(record, task.runs)


def _one_line_a_run(record: Mapping[str, Any]) -> str:
    """JSON with a line for every run, so that a continued study changes few lines of its file."""
    runs = ",\n".join(f'  "{run}": {json.dumps(row)}' for run, row in record["runs"].items())
    rest = [f' "{name}": {json.dumps(value)}' for name, value in record.items() if name != "runs"]
    return "{\n" + ",\n".join([*rest, f' "runs": {{\n{runs}\n }}']) + "\n}\n"


def _short(value: Any) -> Any:
    """Floating point numbers to seven digits, whole ones as they are, anywhere in plain data."""
    if isinstance(value, Mapping):
        return {name: _short(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_short(each) for each in value]
    return float(f"{value:.7g}") if isinstance(value, float | np.floating) else value


def chunks(runs: Iterable[int], pieces: int) -> list[tuple[int, int]]:
    """Runs as stretches (first, how many), of which a study of all has about so many.

    >>> chunks([0, 1, 2, 5], 20), chunks(range(100), 20)[:2]
    ([(0, 1), (1, 1), (2, 1), (5, 1)], [(0, 5), (5, 5)])
    """
    numbers = list(runs)
    longest = max(1, len(numbers) // pieces)
    found: list[tuple[int, int]] = []
    for run in numbers:
        first, count = found[-1] if found else (-1, 0)
        if found and run == first + count and count < longest:
            found[-1] = (first, count + 1)
        else:
            found.append((run, 1))
    return found

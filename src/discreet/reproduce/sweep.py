"""Running many tasks on any executor of ``concurrent.futures``, and never one that is done already.

Every finished task is a folder with ``result.json`` in it, written whole: a sweep that was stopped goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discreet import __version__
from discreet.errors import InvalidInput, MissingExtra
from discreet.files import write_atomically
from discreet.reproduce.job import Task, run_task
from discreet.reproduce.measured import Measured
from discreet.validation import check_count


@contextmanager
def open_executor(where: str = "threads") -> Iterator[Executor]:
    """Open "threads" (one per core), "threads:N", or "dask:ADDRESS" for a cluster of dask.distributed."""
    kind, _, rest = where.partition(":")
    if kind == "threads":
        count = check_count("threads", int(rest)) if rest.isdigit() else None
        if rest and count is None:
            raise InvalidInput(f"threads:N takes a whole number, got {rest!r}")
        pool = ThreadPoolExecutor(count or os.cpu_count() or 1)
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    elif kind == "dask" and rest:
        try:
            from distributed import Client
        except ImportError:
            raise MissingExtra("distributed", "dask") from None
        try:
            client = Client(rest, timeout="10s")
        except (OSError, ValueError) as error:
            raise InvalidInput(f"no dask scheduler answers at {rest!r}: {type(error).__name__}") from None
        with client, client.get_executor(pure=False) as cluster:
            yield cluster
    else:
        raise InvalidInput(f"executor must be threads, threads:N or dask:ADDRESS, got {where!r}")


def run_tasks(
    tasks: Sequence[Task], folder: Path, executor: Executor, tick: Callable[[int], None] = lambda _done: None
) -> dict[str, Measured]:
    """The results of all tasks by the key of their job; those found in the folder are not run again."""
    results: dict[str, Measured] = {}
    waiting: dict[Future[dict[str, Any]], Task] = {}
    try:
        for task in tasks:
            found = load_task(task, folder)
            if found is None:
                waiting[executor.submit(run_task, task)] = task
            else:
                results[task.job.key] = found
                tick(1)
        for future in as_completed(waiting):
            task = waiting[future]
            results[task.job.key] = save_task(task, folder, future.result())
            tick(1)
    except BaseException:
        for future in waiting:
            future.cancel()
        raise
    return {task.job.key: results[task.job.key] for task in tasks}


def save_task(task: Task, folder: Path, data: dict[str, Any]) -> Measured:
    """Keep a result beside the task that it answers. Refusals are not kept: the next version may not refuse."""
    if "refused" not in data:
        place = _place(task, folder)
        place.mkdir(parents=True, exist_ok=True)
        record = {**data, "task": task.as_dict(), "version": __version__}
        write_atomically(place / "result.json", json.dumps(record, indent=1))
    return Measured(data)


def load_task(task: Task, folder: Path) -> Measured | None:
    """The result of exactly this task, if it is there."""
    try:
        data = json.loads((_place(task, folder) / "result.json").read_text())
    except (OSError, ValueError):
        return None
    wanted = json.loads(json.dumps(task.as_dict()))
    return Measured(data) if data.get("task") == wanted and data.get("version") == __version__ else None


def _place(task: Task, folder: Path) -> Path:
    """A folder per task: figures that share a line share its result."""
    digest = hashlib.sha256(json.dumps(task.as_dict(), sort_keys=True).encode()).hexdigest()[:8]
    return folder / f"{task.job.key.replace('/', '-').replace(' ', '-')}-{digest}"

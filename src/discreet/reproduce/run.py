"""Running figures: their jobs on any executor, nothing twice; then the verdicts, the picture and the page.

Every finished task is a folder with ``result.json`` in it, written whole: what was stopped goes on from there, and
figures that share a line share its result.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from discreet import __version__
from discreet.errors import InvalidInput, MissingExtra, Unsupported
from discreet.files import write_atomically
from discreet.registry import Registry
from discreet.reproduce.drawing import draw
from discreet.reproduce.figure import SCALES, Figure, Job, Measured, Task, Verdict
from discreet.reproduce.page import plain_verdicts, write_page
from discreet.simulation.progress import progress_bar
from discreet.validation import check_count


@dataclass(frozen=True)
class Reproduction:
    """A figure that was run: its results by job, its verdicts by claim and version, and where its page lies."""

    figure: Figure
    results: dict[str, Measured]
    verdicts: dict[str, dict[str, Verdict]]
    page: Path


def reproduce(
    figure: Figure,
    *,
    scale: str = "quick",
    out: str | os.PathLike[str] = "reproduction",
    seed: int = 0,
    executor: str | Executor = "threads",
    progress: bool = False,
) -> Reproduction:
    """Run a figure and write ``page.md``, ``figure.png`` and ``verdicts.json`` into ``out/<figure>/<scale>``.

    Results are kept in ``out/runs``: what an earlier call finished, for any figure, is not run again. A figure without
    jobs is measured from the start, and has no ``figure.png`` if nothing draws it.
    """
    if scale not in SCALES:
        raise InvalidInput(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    if isinstance(executor, str):
        with open_executor(executor) as pool:
            return reproduce(figure, scale=scale, out=out, seed=seed, executor=pool, progress=progress)
    folder = Path(out) / figure.slug / scale
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write to {str(folder)!r}: {error.strerror}") from None
    size = replace(figure.scales[scale], seed=seed)
    tasks = figure.tasks(size)
    with progress_bar(figure.name, len(tasks), progress) as tick:
        results = run_tasks(tasks, Path(out) / "runs", executor, tick)
    found = results if figure.jobs else figure.measure(size)
    verdicts = figure.verdicts(found)
    picture = draw(figure, found)
    if picture is not None:
        write_atomically(folder / "figure.png", picture)
    write_atomically(folder / "verdicts.json", json.dumps(plain_verdicts(figure, verdicts), indent=1, default=float))
    page = folder / "page.md"
    write_atomically(page, write_page(figure, results, verdicts, scale, seed))
    return Reproduction(figure, results, verdicts, page)


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
    digest = hashlib.sha256(json.dumps(task.as_dict(), sort_keys=True).encode()).hexdigest()[:8]
    return folder / f"{task.job.key.replace('/', '-').replace(' ', '-')}-{digest}"


def run_task(task: Task) -> dict[str, Any]:
    """Run a task to its end and return plain data; a combination that nobody has proved correct gives its refusal.

    It is a function of its argument alone, so it runs alike in a thread, in a process or on a cluster.
    """
    try:
        return _run(task)
    except Unsupported as refusal:
        return {"refused": str(refusal)}


def _run(task: Task) -> dict[str, Any]:
    import discreet

    job = task.job
    _check_names(job)
    world = _world(job)
    privacy, facts = _target(job, world.shape, job.users or task.episodes)
    if job.users is not None:
        from discreet import offline

        learned = offline.simulate(
            world, job.learner, privacy, users=job.users, behaviour=job.behaviour, runs=task.runs, seed=task.seed,
            options=job.learner_options,
        )  # fmt: skip
        return {**learned.as_dict(), **facts}
    from discreet.learners.registry import make_learner

    keep = job.statistic is not None
    result = discreet.simulate(
        world, make_learner(job.learner, **job.learner_options), privacy, episodes=task.episodes, runs=task.runs,
        seed=task.seed, threads=1, keep_release=keep,
    )  # fmt: skip
    if job.statistic is not None:
        name, state, action = job.statistic
        kept = [release[name].values.sum(axis=0)[state, action] for release in result.releases]
        facts = {**facts, "samples": np.asarray(kept, np.float64).tolist()}
    return {**result.as_dict(), **_truth(result.guarantee), **facts}


def _truth(guarantee: Any) -> dict[str, Any]:
    """The delta that a published mechanism really has at the epsilon that it claims."""
    claim = guarantee.claimed
    return {} if claim is None or not claim.delta else {"true_delta": guarantee.delta_at(claim.epsilon)}


def _check_names(job: Job) -> None:
    """A name that the registries do not hold makes a line that is not drawn, not a figure that fails."""
    from discreet.learners.registry import LEARNERS
    from discreet.recipes.registry import recipes
    from discreet.worlds.registry import WORLDS

    if job.world != "arrays":
        _check_thing("world", job.world, WORLDS, job.world_options)
    if job.users is None:
        _check_thing("learner", job.learner, LEARNERS, job.learner_options)
        if job.recipe not in {"auto", *(recipe.name for recipe in recipes())}:
            raise Unsupported(f"there is no recipe {job.recipe!r} in this version")


def _check_thing(kind: str, name: str, registry: Registry, given: Mapping[str, Any]) -> None:
    """It is in the registry, and nothing that it must be told is missing: what users register may have such options."""
    if name not in registry:
        raise Unsupported(f"there is no {kind} {name!r} in this version")
    parameters = inspect.signature(registry[name].make).parameters.values()
    named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    missing = [each.name for each in named if each.default is each.empty and each.name not in given]
    if missing:
        raise Unsupported(f"{kind} {name!r} cannot be made without its option {missing[0]!r}: give it a default")


def _world(job: Job) -> Any:
    import discreet
    from discreet.worlds.registry import make_world

    if job.world == "arrays":
        return discreet.worlds.from_arrays(**job.world_options)
    world = make_world(job.world, **job.world_options)
    return world.with_time(homogeneous=False) if job.per_step else world


def _target(job: Job, shape: Any, users: int) -> tuple[Any, dict[str, Any]]:
    """The privacy target of a job, and what is to be told about the mechanism that it stands for."""
    from discreet.recipes.trust import Central, Local, NoPrivacy, Shuffle

    kind = {trust.model: trust for trust in (NoPrivacy, Central, Local, Shuffle)}[job.model]
    target: dict[str, Any] = {"recipe": job.recipe, "options": dict(job.recipe_options)}
    if job.printed is None:
        return kind(epsilon=job.epsilon, delta=job.delta, rho=job.rho, **target), {}
    from discreet.papers import published

    truth = published(job.printed).truth(shape, epsilon=job.epsilon, delta=job.delta, rho=job.rho, episodes=users)
    facts = {
        "mechanism": job.printed,
        "claimed": {"epsilon": job.epsilon, "delta": job.delta, "rho": job.rho},
        "true_delta": truth.delta_at(job.epsilon) if job.epsilon is not None and job.delta else None,
    }
    if job.rho is not None and truth.rho is not None:
        return kind(rho=truth.rho, **target), facts
    epsilon = truth.epsilon_at(job.delta)
    if not math.isfinite(epsilon):
        raise Unsupported(f"{job.printed} keeps no promise with delta {job.delta:g}, whatever epsilon is")
    return kind(epsilon=epsilon, delta=job.delta, **target), facts

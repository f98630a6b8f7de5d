"""Running figures: their jobs on any executor, nothing twice; then the verdicts, the picture and the page.

Every finished run is kept in the file of its job (:mod:`experiments.papers.records`): what was stopped goes on from
there, more runs are added to those that are there, and figures that share a line share its runs.
"""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput, MissingExtra, Unsupported
from discreet.base.files import folder_for, write_atomically
from discreet.base.registry import Registry
from discreet.base.shape import LayeredShape
from discreet.base.types import Floats
from discreet.simulation.experiments import open_executor
from discreet.simulation.progress import progress_bar
from experiments.papers.drawing import draw
from experiments.papers.figure import BEHAVIOUR, SCALES, UNIFORM, Figure, Job, Measured, Task, Verdict
from experiments.papers.page import plain_verdicts, write_page
from experiments.papers.records import chunks, keep_runs, load_record, measured_of, missing, record_of

_SEPSIS = "icu-sepsis"
_PIECES = 20  # of a task, at most: what a stop can cost is one of them


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
    """Run a figure and write ``page.md``, ``verdicts.json`` and pictures into ``out/<figure>/<scale>``.

    Runs are kept in ``out/runs``: what an earlier call finished, for any figure, is not run again. The first picture is
    ``figure.png``, the next one ``figure-2.png``. A figure without jobs is measured from the start, and has no picture
    if nothing draws it.
    """
    if scale not in SCALES:
        raise InvalidInput(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    if isinstance(executor, str):
        with open_executor(executor) as pool:
            return reproduce(figure, scale=scale, out=out, seed=seed, executor=pool, progress=progress)
    folder = Path(out) / figure.slug / scale
    size = replace(figure.scales[scale], seed=seed)
    tasks = figure.tasks(size)
    with folder_for(folder), progress_bar(figure.name, sum(task.runs for task in tasks), progress) as tick:
        results = run_tasks(tasks, Path(out) / "runs", executor, tick)
    found = results if figure.jobs else figure.measure(size)
    verdicts = figure.verdicts(found)
    for name, picture in draw(figure, found).items():
        write_atomically(folder / name, picture)
    write_atomically(folder / "verdicts.json", json.dumps(plain_verdicts(figure, verdicts), indent=1, default=float))
    page = folder / "page.md"
    write_atomically(page, write_page(figure, results, verdicts, scale, seed))
    return Reproduction(figure, results, verdicts, page)


def run_tasks(
    tasks: Sequence[Task], folder: Path, executor: Executor, tick: Callable[[int], None] = lambda _done: None
) -> dict[str, Measured]:
    """The results of all tasks by the key of their job; runs that are found in the folder are not run again.

    Every finished piece of a task, a run or a few short ones, is kept at once. ``tick`` counts runs.
    """
    records = [load_record(task, folder) for task in tasks]
    refused: dict[int, str] = {}
    waiting: dict[Future[dict[str, Any]], tuple[int, int]] = {}
    try:
        for i, task in enumerate(tasks):
            left = missing(task, records[i])
            tick(task.runs - len(left))
            for first, runs in _pieces(task, left):
                waiting[executor.submit(run_piece, task, first, runs)] = i, runs
        for future in as_completed([*waiting]):
            data = future.result()
            i, runs = waiting.pop(future)
            if "refused" in data:
                refused[i] = data["refused"]
            records[i] = _keep(tasks[i], folder, data) or records[i]
            tick(runs)
    except BaseException:
        for future, (i, _) in waiting.items():
            if not future.cancel() and future.done() and future.exception() is None:
                _keep(tasks[i], folder, future.result())
        raise
    return {task.job.key: _result(task, record, refused.get(i)) for i, (task, record) in enumerate(zip(tasks, records))}


def _result(task: Task, record: Mapping[str, Any] | None, refusal: str | None) -> Measured:
    return Measured({"refused": refusal}) if record is None or refusal else measured_of(record, task.runs)


def _keep(task: Task, folder: Path, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Add finished runs to the file of their task. Refusals are not kept: the next version may not refuse."""
    return None if "refused" in data else keep_runs(task, folder, data)


def _pieces(task: Task, left: Sequence[int]) -> list[tuple[int, int]]:
    """The runs that are left, as stretches (first, how many); a data set's learner does all of its runs at once."""
    if task.job.users is not None:
        return [(0, task.runs)] if left else []
    return chunks(left, _PIECES)


def run_piece(task: Task, first: int, runs: int) -> dict[str, Any]:
    """Some runs of a task as plain data; a combination that nobody has proved correct gives its refusal.

    It is a function of its arguments alone, so it runs alike in a thread, in a process or on a cluster.
    """
    try:
        return _run(task, first, runs)
    except Unsupported as refusal:
        return {"refused": str(refusal)}


def _run(task: Task, first: int, runs: int) -> dict[str, Any]:
    import discreet

    job = task.job
    _check_names(job)
    world = _world(job)
    if job.learner in (UNIFORM, BEHAVIOUR):
        return record_of(_play_for_ever(world, task, first, runs), first, {})
    privacy, facts = _target(job, world.shape, job.users or task.episodes)
    if job.users is not None:
        from discreet import offline

        learned = offline.simulate(
            world, job.learner, privacy, users=job.users, behaviour=job.behaviour, runs=runs, seed=task.seed,
            options=job.learner_options, known_rewards=job.known_rewards,
        )  # fmt: skip
        return record_of(learned.as_dict(), first, facts)
    from discreet.learners.registry import make_learner

    keep = job.statistic is not None
    result = discreet.simulate(
        world, make_learner(job.learner, **job.learner_options), privacy, episodes=task.episodes, runs=runs,
        seed=task.seed, threads=1, keep_release=keep, first_run=first,
    )  # fmt: skip
    if job.statistic is not None:
        name, state, action = job.statistic
        kept = [release[name].values.sum(axis=0)[state, action] for release in result.releases]
        facts = {**facts, "samples": np.asarray(kept, np.float64).tolist()}
    return record_of(result.as_dict(), first, {**_truth(result.guarantee), **facts})


def _play_for_ever(world: Any, task: Task, first: int, runs: int) -> dict[str, Any]:
    """What a simulation would give whose learner draws every action evenly, or as in its data; exact, from the gap."""
    from discreet.simulation.block_loop import checkpoints
    from discreet.simulation.simulate import world_of_run

    worlds = [world_of_run(world, task.seed, run) for run in range(first, first + runs)]
    marks = checkpoints(task.episodes)
    if isinstance(world.shape, LayeredShape):
        curves = [_lost_evenly(each, task.episodes) for each in worlds]
        gaps: list[float | None] = [None] * runs  # losses change, so no policy has a gap
    else:
        even = [float(each.gap(_policy_of(task.job, world.shape))) for each in worlds]
        gaps, curves = [*even], [np.asarray(gap * marks, np.float64) for gap in even]
    return {
        "recipe": "none",
        "runs": runs,
        "regret": None if task.job.users is not None else {},
        "checkpoints": marks.tolist(),
        "curve": {"per_run": [curve.tolist() for curve in curves]},
        "final_gap": {"per_run": gaps},
        "switches": {"per_run": [0] * runs},
        "guarantee": {"model": "none", "statement": "no data are used"},
        "seconds": 0.0,
    }


def _policy_of(job: Job, shape: Any) -> Any:
    from discreet.base.policies import uniform_policy
    from discreet.simulation.data_sets import behaviour_policy

    return uniform_policy(shape) if job.learner == UNIFORM else behaviour_policy(job.behaviour, shape)


def _lost_evenly(world: Any, episodes: int) -> Floats:
    """The regret of even play at the checkpoints, where losses change with the episodes."""
    from discreet.base.policies import uniform_policy
    from discreet.problems.adversarial.simulator import HindsightJudge
    from discreet.simulation.block_loop import empty_record

    judge, record, evenly = (
        HindsightJudge(world, world.losses(episodes)),
        empty_record(episodes),
        uniform_policy(world.shape),
    )
    judge.deploy(evenly)
    judge.count(0, episodes)
    judge.verdict(record, evenly, evenly)
    return record.regret


def _truth(guarantee: Any) -> dict[str, Any]:
    """The delta that a published mechanism really has at the epsilon that it claims."""
    claim = guarantee.claimed
    return {} if claim is None or not claim.delta else {"true_delta": guarantee.delta_at(claim.epsilon)}


def _check_names(job: Job) -> None:
    """A name that the registries do not hold makes a line that is not drawn, not a figure that fails."""
    from discreet.learners.registry import LEARNERS
    from discreet.recipes.registry import recipes
    from discreet.worlds.registry import WORLDS

    if job.world not in ("arrays", _SEPSIS):
        _check_thing("world", job.world, WORLDS, job.world_options)
    if job.users is None and job.learner != UNIFORM:
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
    if job.world == _SEPSIS:
        return _sepsis(**job.world_options)
    world = make_world(job.world, **job.world_options)
    return world.with_time(homogeneous=False) if job.per_step else world


def _sepsis(**options: Any) -> Any:
    """The world of the icu-sepsis package, which has no name among the worlds; a line without it is not drawn."""
    from discreet.worlds.imported import icu_sepsis

    try:
        return icu_sepsis(**options)
    except MissingExtra as missing:
        raise Unsupported(str(missing)) from None


def _target(job: Job, shape: Any, users: int) -> tuple[Any, dict[str, Any]]:
    """The privacy target of a job, and what is to be told about the mechanism that it stands for."""
    from discreet.recipes.targets import Central, Local, NoPrivacy, Shuffle

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

"""One thing to simulate, as plain data: it can be named, saved, compared, and sent to another machine.

A job is one line of a figure (or one point of it): a world, a learner and a privacy target, all by their public names.
``version`` says which of the three drawings of a figure it belongs to:

==============  ===================================================================================================
"reference"     no privacy; it stands in every drawing
"published"     the noise that the paper prints, with its true epsilon and not the claimed one
"certified"     the paper's mechanism with noise that keeps the paper's promise
"ours"          the recipe that ``auto`` takes at the same promise
==============  ===================================================================================================

A published mechanism is a recipe of its own where there is one. Else ``printed`` names its entry among the published
mechanisms: what its noise really gives at these sizes is computed, and a certified recipe is calibrated to *that*.
Noise of one scale on all counts is then the printed noise itself; where a paper prints several scales it is the same
privacy, spent evenly, and the figure says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from discreet.errors import Unsupported

VERSIONS = ("published", "certified", "ours")
REFERENCE = "reference"


@dataclass(frozen=True)
class Job:
    """What to run. ``line`` is its label in the legend; jobs of one line differ in what the horizontal axis shows."""

    version: str
    name: str
    line: str
    world: str
    learner: str
    model: str = "none"
    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    recipe: str = "auto"
    printed: str | None = None
    world_options: Mapping[str, Any] = field(default_factory=dict)
    learner_options: Mapping[str, Any] = field(default_factory=dict)
    recipe_options: Mapping[str, Any] = field(default_factory=dict)
    per_step: bool = False
    users: int | None = None  # the size of the data set: an offline learner
    behaviour: str = "uniform"
    statistic: tuple[str, int, int] | None = None  # keep this count of (state, action) from the last release
    episodes: int | None = None  # where the figure fixes them, whatever the scale

    @property
    def key(self) -> str:
        return f"{self.version}/{self.name}"


@dataclass(frozen=True)
class Task:
    """A job at a scale; equal tasks have equal results, so a finished one is never run twice."""

    job: Job
    episodes: int
    runs: int
    seed: int

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "job": {**asdict(self.job), "statistic": self.job.statistic and [*self.job.statistic]}}


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
    """Of a published mechanism: the delta that it really has at the epsilon that it claims."""
    claim = guarantee.claimed
    return {} if claim is None or not claim.delta else {"true_delta": guarantee.delta_at(claim.epsilon)}


def _check_names(job: Job) -> None:
    """A name that the registries do not hold makes a line that is not drawn, not a figure that fails."""
    from discreet.learners.registry import LEARNERS
    from discreet.recipes.registry import recipes
    from discreet.worlds.registry import WORLDS

    known = {
        "world": (job.world, {*WORLDS, "arrays"}),
        "learner": (job.learner, set(LEARNERS) if job.users is None else {job.learner}),
        "recipe": (job.recipe, {"auto", *(recipe.name for recipe in recipes())} if job.users is None else {job.recipe}),
    }
    for kind, (name, names) in known.items():
        if name not in names:
            raise Unsupported(f"there is no {kind} {name!r} in this version")


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

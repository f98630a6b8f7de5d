"""The matrix: every learner under every trust model, in the same worlds, at the same epsilon.

A cell is one simulation, or the reason why it refuses: an unknown combination never falls through to a number. Worlds
differ so much in scale that a cell is the *share* of uniform play's regret in the same runs: 1 means that nothing was
learned, 0 that nothing was lost. Of an offline learner it is the share of uniform play's gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet.base.types import Floats
from discreet.reproduce.drawing import as_png, new_picture
from discreet.reproduce.figure import UNIFORM, Job, Measured, Task, standard_error
from discreet.reproduce.run import run_tasks
from discreet.simulation.progress import progress_bar

MODELS = ("none", "central", "shuffle", "local")
_LAYERED = ("layered", "kinds")
LAYERED_EPISODES = 2_000  # a convex program per episode: these learners are slower than the others


@dataclass(frozen=True)
class Place:
    """A world of the matrix: its label, and how a job names it."""

    label: str
    world: str
    options: Mapping[str, Any]
    per_step: bool = False


PLACES = (
    Place("RiverSwim-4", "river-swim", {"states": 4, "horizon": 6}),
    Place("RiverSwim-4, per step", "river-swim", {"states": 4, "horizon": 6}, per_step=True),
    Place("random worlds", "random-mdp", {}),
    Place("bandit", "bandit", {"arms": 20}),
    Place("layered, adversarial", "layered", {}),
    Place("kinds, adversarial", "kinds", {}),
)


def all_places() -> tuple[Place, ...]:
    """The worlds of the matrix, and those that you registered: only what is registered is not named as text."""
    from discreet.worlds.registry import WORLDS

    yours = [name for name, entry in WORLDS.items() if not isinstance(entry.home, str)]
    return (*PLACES, *(Place(name, name, {}) for name in yours))


@dataclass(frozen=True)
class Matrix:
    """All cells that were run, by the key of their job."""

    epsilon: float
    delta: float
    learners: tuple[str, ...]
    places: tuple[Place, ...]
    results: dict[str, Measured]

    def cell(self, learner: str, model: str, place: Place) -> Measured:
        """What was measured for a learner under a trust model in a place, or its refusal."""
        return self.results[f"matrix/{_name(learner, model, place)}"]

    def shares(self, learner: str, model: str, place: Place) -> Floats:
        """What a learner lost of what uniform play loses, run by run; the gap of an offline learner likewise."""
        cell, even = self.cell(learner, model, place), self.results[f"matrix/{_name(UNIFORM, 'none', place)}"]
        if cell.offline:
            return np.asarray(cell.gap / even.gap[: len(cell.gap)])
        return np.asarray(cell.regret[:, -1] / even.regret[: len(cell.regret), -1])

    def text(self, learner: str, model: str, place: Place) -> str:
        """The mean share with its standard error; a dash for a refusal."""
        cell = self.cell(learner, model, place)
        if cell.refused is not None:
            return "–"
        shares = self.shares(learner, model, place)
        gap = " (gap)" if cell.offline else ""
        return f"{shares.mean():.3f} ± {float(standard_error(shares)):.3f}{gap}"

    def ran(self) -> Iterator[tuple[str, str, Place, Measured]]:
        """The cells that did not refuse."""
        for learner in self.learners:
            for model in MODELS:
                for place in self.places:
                    cell = self.cell(learner, model, place)
                    if cell.refused is None:
                        yield learner, model, place, cell


def matrix_jobs(
    epsilon: float, delta: float, learners: Sequence[str], places: Sequence[Place], users: int
) -> list[Job]:
    """One job per cell; offline learners get a data set of as many users as others have episodes.

    Uniform play has a job in every place.
    """
    from discreet.learners.registry import offline_names

    jobs = [
        Job(
            "matrix", _name(UNIFORM, "none", place), UNIFORM, place.world, UNIFORM, world_options=place.options,
            per_step=place.per_step, episodes=_episodes(place, users),
        )
        for place in places
    ]  # fmt: skip
    for learner in learners:
        for model in MODELS:
            for place in places:
                private: dict[str, Any] = {} if model == "none" else {"epsilon": epsilon, "delta": delta}
                jobs.append(
                    Job(
                        "matrix", _name(learner, model, place), learner, place.world, learner, model,
                        world_options=place.options, per_step=place.per_step,
                        users=users if learner in offline_names() else None,
                        episodes=_episodes(place, users),
                        learner_options=_options(learner, model), **private,
                    )
                )  # fmt: skip
    return jobs


def run_matrix(
    folder: Path,
    executor: Executor,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    episodes: int = 10_000,
    runs: int = 3,
    seed: int = 0,
    learners: Sequence[str] | None = None,
    places: Sequence[Place] | None = None,
    progress: bool = False,
) -> Matrix:
    """Run every cell; what is in the folder already is not run again.

    If they are not given, learners are all that have a name, and places are those of :func:`all_places`.
    """
    from discreet.learners.registry import LEARNERS

    chosen = tuple(LEARNERS) if learners is None else tuple(learners)
    places = all_places() if places is None else tuple(places)
    jobs = matrix_jobs(epsilon, delta, chosen, places, episodes)
    tasks = [Task(job, job.episodes or episodes, runs, seed) for job in jobs]
    with progress_bar("matrix", sum(task.runs for task in tasks), progress) as tick:
        results = run_tasks(tasks, folder / "runs", executor, tick)
    return Matrix(epsilon, delta, chosen, places, results)


def write_matrix(matrix: Matrix) -> str:
    """The matrix as a page: a table per world, then the reasons of the cells that refuse."""
    lines = [
        "# Every learner under every trust model",
        "",
        f"At epsilon {matrix.epsilon:g} and delta {matrix.delta:g}, for replacing one user. A cell is the regret as a "
        "share of uniform play's in the same runs, ± one standard error: 0 is perfect, and at 1 nothing was learned. "
        "For offline learners it is the gap of the learned policy, as a share of uniform play's. A dash is a "
        "combination that is refused, for a reason that the last table gives.",
        "",
        "![The matrix](matrix.png)",
        "",
    ]
    refusals: list[Refusal] = []
    for place in matrix.places:
        lines += [f"## {place.label}", "", "| learner | " + " | ".join(MODELS) + " |", "|---|" + "---|" * len(MODELS)]
        for learner in matrix.learners:
            cells = [matrix.cell(learner, model, place) for model in MODELS]
            if any(cell.refused is None for cell in cells):
                shares = (matrix.text(learner, model, place).replace(" ", "\u00a0") for model in MODELS)
                lines.append(f"| {learner} | " + " | ".join(shares) + " |")
            for model, cell in zip(MODELS, cells, strict=True):
                if cell.refused is not None:
                    refusals.append(Refusal(first_reason(cell.refused), learner, model, place.label))
        lines.append("")
    return "\n".join([*lines, "## Why cells refuse", "", *refusal_table(refusals, len(matrix.places)), ""])


class Refusal(NamedTuple):
    """A cell that was not run."""

    reason: str
    learner: str
    model: str
    place: str


def refusal_table(refusals: Sequence[Refusal], places: int) -> list[str]:
    """Lines of a table: a reason, and the learners, trust models and worlds for which it holds."""
    where: dict[tuple[str, str], dict[str, list[str]]] = {}  # of a reason and a learner: a world and its trust models
    for refusal in refusals:
        where.setdefault((refusal.reason, refusal.learner), {}).setdefault(refusal.place, []).append(refusal.model)
    rows: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (reason, learner), found in where.items():
        for models in dict.fromkeys(tuple(models) for models in found.values()):
            worlds = tuple(place for place, here in found.items() if tuple(here) == models)
            rows.setdefault((reason, models, worlds), []).append(learner)
    lines = ["| reason | learners | trust models | worlds |", "|---|---|---|---|"]
    for (reason, models, worlds), learners in rows.items():
        in_models = "all" if len(models) == len(MODELS) else ", ".join(models)
        in_worlds = "all" if len(worlds) == places else "; ".join(worlds)
        lines.append(f"| {reason} | {', '.join(learners)} | {in_models} | {in_worlds} |")
    return lines


def draw_matrix(matrix: Matrix, theme: str = "light") -> bytes:
    """One panel per world: learners by trust models, coloured by the share of uniform play's regret."""
    panels = {
        place.label: np.array([[_mean_share(matrix, each, m, place) for m in MODELS] for each in matrix.learners])
        for place in matrix.places
    }
    return draw_shares(panels, matrix.learners, f"epsilon {matrix.epsilon:g}, delta {matrix.delta:g}", theme)


def draw_shares(panels: Mapping[str, Floats], learners: Sequence[str], title: str, theme: str) -> bytes:
    """Tables of shares (learners by trust models; NaN for a refusal) as a picture, three in a row."""
    from discreet.base.pictures import THEMES, checked_theme

    colours, across = THEMES[checked_theme(theme)], min(3, len(panels))
    rows = -(-len(panels) // across)
    picture = new_picture(2.3 * across + 1.6, (0.25 * len(learners) + 0.9) * rows + 0.4)
    picture.set_facecolor(colours.paper)
    every = picture.subplots(rows, across, squeeze=False, sharey=True)
    shown = None
    for axes, (label, values) in zip(every.flat, panels.items(), strict=False):
        axes.set_facecolor(colours.paper)
        shown = axes.imshow(np.clip(values, 0.0, 1.0), cmap="cividis", vmin=0, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            ink = colours.soft if np.isnan(value) else "black" if value > 0.55 else "white"
            text = "–" if np.isnan(value) else f"{value:.2f}"
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=ink)
        axes.set_xticks(range(len(MODELS)), MODELS, fontsize=8, color=colours.ink)
        axes.set_yticks(range(len(learners)), learners, fontsize=8, color=colours.ink)
        axes.set_title(label, fontsize=9, color=colours.ink)
        axes.tick_params(color=colours.soft)
        for spine in axes.spines.values():
            spine.set_color(colours.soft)
    for axes in every.flat[len(panels) :]:
        axes.set_visible(False)
    scale = picture.colorbar(shown, ax=list(every.flat), fraction=0.02, pad=0.01)
    scale.set_label("share of uniform play's regret (1: nothing learned)", fontsize=8, color=colours.ink)
    scale.ax.tick_params(labelsize=8, color=colours.soft, labelcolor=colours.ink)
    picture.suptitle(title, fontsize=10, color=colours.ink)
    return as_png(picture, dpi=150)


def _mean_share(matrix: Matrix, learner: str, model: str, place: Place) -> float:
    refused = matrix.cell(learner, model, place).refused is not None
    return float("nan") if refused else float(matrix.shares(learner, model, place).mean())


def first_reason(refusal: str) -> str:
    """Where no recipe serves, each gives its reason; the first says enough on a page."""
    first, *others = refusal.split("; ")
    return f"{first}; and {len(others)} more" if others else first


def _name(learner: str, model: str, place: Place) -> str:
    return f"{learner} {model} {place.label}"


def _options(learner: str, model: str) -> dict[str, Any]:
    """Only the shuffle recipes answer for one step at a time; elsewhere elimination asks for whole tables."""
    return {"one_layer": False} if learner == "policy-elimination" and model != "shuffle" else {}


def _episodes(place: Place, users: int) -> int | None:
    return min(users, LAYERED_EPISODES) if place.world in _LAYERED else None

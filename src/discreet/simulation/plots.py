"""Results as pictures: regret curves with a band, values learned from data sets; the guarantee is in the legend."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.base.pictures import FORMATS, THEMES, Canvas, blank_figure, canvas, figure_bytes
from discreet.privacy.words import rounded_up
from discreet.simulation.result import OfflineResult, SimulationResult, standard_error

__all__ = ["FORMATS", "draw_results", "plot_results", "plot_values"]


def plot_results(
    results: Sequence[SimulationResult],
    path: str | os.PathLike[str] | None = None,
    *,
    ax: Any = None,
    labels: Sequence[str] | None = None,
    title: str = "",
    theme: str | None = None,
) -> Any:
    """Draw cumulative regret against episodes, both on logarithmic axes; the band is one standard error either side.

    The picture goes to a file, into axes of yours (``ax``), or, given neither, into a new figure of ``pyplot``, which
    notebooks show. ``theme`` is "light" or "dark"; see :mod:`discreet.base.pictures`. Returns the axes.
    """
    place = canvas(path, ax, theme)
    _draw_regret(place, results, labels, title)
    return place.finished()


def draw_results(
    results: Sequence[SimulationResult],
    kind: str,
    *,
    labels: Sequence[str] | None = None,
    title: str = "",
    theme: str = "light",
) -> bytes:
    """The picture as bytes of the given kind (png, svg, pdf)."""
    figure = blank_figure()
    place = Canvas((figure.subplots(),), THEMES[theme], None, True)
    _draw_regret(place, results, labels, title)
    place.finished()
    return figure_bytes(figure, kind)


def _draw_regret(place: Canvas, results: Sequence[SimulationResult], labels: Sequence[str] | None, title: str) -> None:
    (axes,) = place.panels
    already = len(axes.get_lines())  # axes of the caller may hold other results
    for index, result in enumerate(results, already):
        label = labels[index - already] if labels else f"{result.learner}, {result.recipe}\n{result.statement}"
        mean = result.regret.mean(axis=0)
        (line,) = axes.plot(
            result.episodes, mean, label=label, markevery=(0.02 * (index % 5), 0.1), **place.theme.line(index)
        )
        if result.runs > 1:  # nothing is known about the spread of a single run
            error = result.regret.std(axis=0, ddof=1) / np.sqrt(result.runs)
            low, high = np.maximum(mean - error, 1e-9), mean + error
            axes.fill_between(result.episodes, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    positive = [float(result.regret.mean(axis=0)[0]) for result in results if result.regret.mean(axis=0)[0] > 0]
    axes.set_ylim(bottom=0.5 * min(positive) if positive else None)
    axes.set_xlabel("episodes (users)")
    axes.set_ylabel("cumulative regret (exact)")
    worlds = dict.fromkeys(result.world for result in results)
    place.title(title or ", ".join(worlds))
    axes.legend(fontsize=8, frameon=False)


def plot_values(
    results: Sequence[OfflineResult],
    path: str | os.PathLike[str] | None = None,
    *,
    ax: Any = None,
    labels: Sequence[str] | None = None,
    title: str = "",
    theme: str | None = None,
) -> Any:
    """Draw the learned value against the number of users, one line per label; bars are standard errors.

    Labels are guarantees unless they are given. Where the picture goes is as in :func:`plot_results`.

    Args:
        results: Of offline learning.
        path: The file to write.
        ax: Axes of yours.
        labels: One for each result; equal labels are one line.
        title: Above the picture; the name of the world without it.
        theme: "light" or "dark".

    Examples:
        >>> import discreet.offline
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> results = [discreet.offline.simulate(world, users=users, runs=2) for users in (50, 100)]
        >>> import matplotlib.figure
        >>> axes = discreet.offline.plot_values(results, ax=matplotlib.figure.Figure().add_subplot())
        >>> axes.get_xlabel()
        'users'
    """
    place = canvas(path, ax, theme)
    (axes,) = place.panels
    lines: dict[str, list[OfflineResult]] = {}
    for index, result in enumerate(results):
        lines.setdefault(labels[index] if labels else _label(result), []).append(result)
    for index, (label, line) in enumerate(lines.items()):
        line = sorted(line, key=lambda result: result.users)
        errors = [standard_error(result.value) for result in line] if all(each.runs > 1 for each in line) else None
        axes.errorbar(
            [result.users for result in line], [result.value.mean() for result in line], yerr=errors, label=label,
            capsize=3, **place.theme.line(index),
        )  # fmt: skip
    best = np.mean([result.optimal_value.mean() for result in results])
    behaviour = np.mean([result.behaviour_value.mean() for result in results])
    axes.axhline(float(best), linestyle="--", color=place.theme.soft, label="best policy")
    axes.axhline(float(behaviour), linestyle=":", color=place.theme.soft, label="behaviour policy")
    axes.set_xscale("log")
    axes.set_xlabel("users")
    axes.set_ylabel("value of the learned policy (exact)")
    place.title(title or results[0].world)
    if ax is None:
        axes.figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=3)
    else:  # the figure is somebody else's, and other pictures may be in it
        axes.legend(fontsize=8, frameon=False)
    return place.finished()


def _label(result: OfflineResult) -> str:
    """A line's name: the learner and what it promises, briefly."""
    guarantee = result.guarantee
    if guarantee.model == "none":
        return f"{result.learner}, no privacy"
    if not np.isfinite(guarantee.epsilon):
        return f"{result.learner}, rho {rounded_up(guarantee.rho, 3)}"
    delta = f", delta {rounded_up(guarantee.delta, 2)}" if guarantee.delta else ""
    return f"{result.learner}, epsilon {rounded_up(guarantee.epsilon, 3)}{delta}"

"""Results as pictures: regret curves with a band, values learned from data sets; the guarantee is in the legend."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import InvalidInput, MissingExtra
from discreet.files import check_writable, write_atomically
from discreet.privacy.words import rounded_up
from discreet.simulation.result import OfflineResult, SimulationResult, standard_error

FORMATS = (".png", ".svg", ".pdf")
_STYLES = ("-", "--", "-.", ":")  # lines are told apart without colours, too
_SIZE = (7.2, 4.6)


def plot_results(
    results: Sequence[SimulationResult],
    path: str | os.PathLike[str] | None = None,
    *,
    ax: Any = None,
    labels: Sequence[str] | None = None,
    title: str = "",
) -> Any:
    """Draw cumulative regret against episodes, both on logarithmic axes; the band is one standard error either side.

    The picture goes to a file, into axes of yours (``ax``), or, given neither, into a new figure of ``pyplot``, which
    notebooks show. Returns the axes.
    """
    file = None if path is None else checked_plot(path)
    axes = _axes(file, ax)
    _draw_regret(axes, results, labels, title)
    if file is not None:
        write_atomically(file, figure_bytes(axes.figure, file.suffix[1:]))
    return axes


def draw_results(
    results: Sequence[SimulationResult], kind: str, *, labels: Sequence[str] | None = None, title: str = ""
) -> bytes:
    """The picture as bytes of the given kind (png, svg, pdf)."""
    figure = blank_figure()
    _draw_regret(figure.add_subplot(), results, labels, title)
    return figure_bytes(figure, kind)


def _draw_regret(axes: Any, results: Sequence[SimulationResult], labels: Sequence[str] | None, title: str) -> None:
    for index, result in enumerate(results):
        label = labels[index] if labels else f"{result.learner}, {result.recipe}\n{result.statement}"
        mean = result.regret.mean(axis=0)
        style = _STYLES[index % len(_STYLES)]
        (line,) = axes.plot(result.episodes, mean, label=label, linewidth=1.8, linestyle=style)
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
    axes.set_title(title or ", ".join(worlds))
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize=8, frameon=False)


def plot_values(
    results: Sequence[OfflineResult],
    path: str | os.PathLike[str] | None = None,
    *,
    ax: Any = None,
    labels: Sequence[str] | None = None,
    title: str = "",
) -> Any:
    """Draw the learned value against the number of users, one line per label; bars are standard errors.

    Labels are guarantees unless they are given. Where the picture goes is as in :func:`plot_results`.

    Args:
        results: Of offline learning.
        path: The file to write.
        ax: Axes of yours.
        labels: One for each result; equal labels are one line.
        title: Above the picture; the name of the world without it.

    Examples:
        >>> import discreet.offline
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> results = [discreet.offline.simulate(world, users=users, runs=2) for users in (50, 100)]
        >>> import matplotlib.figure
        >>> axes = discreet.offline.plot_values(results, ax=matplotlib.figure.Figure().add_subplot())
        >>> axes.get_xlabel()
        'users'
    """
    file = None if path is None else checked_plot(path)
    axes = _axes(file, ax)
    lines: dict[str, list[OfflineResult]] = {}
    for index, result in enumerate(results):
        lines.setdefault(labels[index] if labels else _label(result), []).append(result)
    for label, line in lines.items():
        line = sorted(line, key=lambda result: result.users)
        errors = [standard_error(result.value) for result in line] if all(each.runs > 1 for each in line) else None
        axes.errorbar(
            [result.users for result in line], [result.value.mean() for result in line], yerr=errors, label=label,
            marker="o", capsize=3,
        )  # fmt: skip
    best = np.mean([result.optimal_value.mean() for result in results])
    behaviour = np.mean([result.behaviour_value.mean() for result in results])
    axes.axhline(float(best), linestyle="--", color="0.4", label="best policy")
    axes.axhline(float(behaviour), linestyle=":", color="0.4", label="behaviour policy")
    axes.set_xscale("log")
    axes.set_xlabel("users")
    axes.set_ylabel("value of the learned policy (exact)")
    axes.set_title(title or results[0].world)
    axes.grid(visible=True, alpha=0.3)
    if ax is None:
        axes.figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=3)
    else:  # the figure is somebody else's, and other pictures may be in it
        axes.legend(fontsize=8, frameon=False)
    if file is not None:
        write_atomically(file, figure_bytes(axes.figure, file.suffix[1:]))
    return axes


def _label(result: OfflineResult) -> str:
    """A line's name: the learner and what it promises, briefly."""
    guarantee = result.guarantee
    if guarantee.model == "none":
        return f"{result.learner}, no privacy"
    if not np.isfinite(guarantee.epsilon):
        return f"{result.learner}, rho {rounded_up(guarantee.rho, 3)}"
    delta = f", delta {rounded_up(guarantee.delta, 2)}" if guarantee.delta else ""
    return f"{result.learner}, epsilon {rounded_up(guarantee.epsilon, 3)}{delta}"


def checked_plot(path: str | os.PathLike[str]) -> Path:
    """The file of a picture, refused before anything is drawn if it cannot be written or drawn."""
    file = check_writable(path)
    if file.suffix not in FORMATS:
        raise InvalidInput(f"cannot draw {file.name!r}: the name must end in {', '.join(FORMATS)}")
    return file


def blank_figure() -> Any:
    """An empty figure of the usual size."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    return Figure(figsize=_SIZE, layout="constrained")


def _axes(file: Path | None, ax: Any) -> Any:
    """Where to draw: axes that were given, those of a picture for a file, or new ones that a notebook shows."""
    if ax is not None:
        return ax
    if file is not None:
        return blank_figure().add_subplot()
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    return pyplot.subplots(figsize=_SIZE, layout="constrained")[1]


def figure_bytes(figure: Any, kind: str) -> bytes:
    """A figure as the content of a file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()

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


def plot_results(
    results: Sequence[SimulationResult],
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    title: str = "",
) -> None:
    """Draw cumulative regret against episodes, both on logarithmic axes; the band is one standard error either side."""
    file = checked_plot(path)
    write_atomically(file, draw_results(results, file.suffix[1:], labels=labels, title=title))


def draw_results(
    results: Sequence[SimulationResult], kind: str, *, labels: Sequence[str] | None = None, title: str = ""
) -> bytes:
    """The picture as bytes of the given kind (png, svg, pdf)."""
    figure = blank_figure()
    axes = figure.add_subplot()
    for index, result in enumerate(results):
        label = labels[index] if labels else f"{result.learner}, {result.recipe}\n{result.statement}"
        mean = result.regret.mean(axis=0)
        error = result.regret.std(axis=0, ddof=1) / np.sqrt(result.runs) if result.runs > 1 else np.zeros_like(mean)
        (line,) = axes.plot(result.episodes, mean, label=label, linewidth=1.8)
        axes.fill_between(
            result.episodes,
            np.maximum(mean - error, 1e-9),
            mean + error,
            color=line.get_color(),
            alpha=0.2,
            linewidth=0,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    positive = [float(result.regret.mean(axis=0)[0]) for result in results if result.regret.mean(axis=0)[0] > 0]
    axes.set_ylim(bottom=0.5 * min(positive) if positive else None)
    axes.set_xlabel("episodes (users)")
    axes.set_ylabel("cumulative regret (exact)")
    axes.set_title(title or (f"{results[0].world}" if results else ""))
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    return figure_bytes(figure, kind)


def plot_values(results: Sequence[OfflineResult], path: str | os.PathLike[str], *, title: str = "") -> None:
    """Draw the learned value against the number of users, one line per guarantee; bars are standard errors."""
    file = checked_plot(path)
    figure = blank_figure()
    axes = figure.add_subplot()
    lines: dict[str, list[OfflineResult]] = {}
    for result in results:
        lines.setdefault(_label(result), []).append(result)
    for label, line in lines.items():
        line = sorted(line, key=lambda result: result.users)
        axes.errorbar(
            [result.users for result in line], [result.value.mean() for result in line],
            yerr=[standard_error(result.value) for result in line], label=label, marker="o", capsize=3,
        )  # fmt: skip
    references = (("best policy", "optimal_value", "--"), ("behaviour policy", "behaviour_value", ":"))
    for label, name, style in references:
        mean = np.mean([getattr(result, name).mean() for result in results])
        axes.axhline(float(mean), linestyle=style, color="0.4", label=label)
    axes.set_xscale("log")
    axes.set_xlabel("users")
    axes.set_ylabel("value of the learned policy (exact)")
    axes.set_title(title or results[0].world)
    axes.grid(visible=True, alpha=0.3)
    figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=3)
    write_atomically(file, figure_bytes(figure, file.suffix[1:]))


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
    return Figure(figsize=(7.2, 4.6), layout="constrained")


def figure_bytes(figure: Any, kind: str) -> bytes:
    """A figure as the content of a file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()

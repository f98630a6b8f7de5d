"""Regret curves as pictures: mean over runs with a band, the guarantee in the legend."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence

import numpy as np

from discreet.errors import InvalidInput, MissingExtra
from discreet.files import check_writable, write_atomically
from discreet.simulation.result import SimulationResult

FORMATS = (".png", ".svg", ".pdf")


def plot_results(
    results: Sequence[SimulationResult],
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    title: str = "",
) -> None:
    """Draw cumulative regret against episodes, both on logarithmic axes; the band is one standard error either side."""
    file = check_writable(path)
    if file.suffix not in FORMATS:
        raise InvalidInput(f"cannot draw {file.name!r}: the name must end in {', '.join(FORMATS)}")
    write_atomically(file, draw_results(results, file.suffix[1:], labels=labels, title=title))


def draw_results(
    results: Sequence[SimulationResult], kind: str, *, labels: Sequence[str] | None = None, title: str = ""
) -> bytes:
    """The picture as bytes of the given kind (png, svg, pdf)."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
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
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()

"""Figures as pictures: one row per version (as published, certified, ours), one column per drawing of the paper."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from discreet.errors import MissingExtra
from discreet.privacy.words import rounded_up
from discreet.reproduce.figure import MEASURED, REFERENCE, Figure, Job, Measured, standard_error

TITLES = {
    "published": "as published, at its true epsilon",
    "certified": "the same mechanism, certified",
    "ours": "auto, at the same promise",
    MEASURED: "measured",
}
_DASHES = (":", "--", "-", "-.")
Styles = Mapping[str, Mapping[str, Any]]
Lines = dict[str, list[tuple[Job, Measured]]]


def new_picture(width: float, height: float) -> Any:
    """An empty picture of matplotlib; the size is in inches."""
    try:
        from matplotlib.figure import Figure as Picture
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    return Picture(figsize=(width, height), layout="constrained")


def as_png(picture: Any, dpi: int = 130) -> bytes:
    """The picture as a file."""
    buffer = io.BytesIO()
    picture.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def draw(figure: Figure, found: Any) -> bytes | None:
    """The whole figure as a PNG, from its results by job or from what it measured; None where nothing is drawn."""
    if figure.jobs:
        return _draw_jobs(figure, found)
    return None if figure.draw is None else figure.draw(found)


def _draw_jobs(figure: Figure, results: Mapping[str, Measured]) -> bytes:
    versions, columns = figure.versions, figure.drawings
    picture = new_picture(4.6 * len(versions), 3.9 * len(columns))
    from matplotlib import colormaps

    grid = picture.subplots(len(columns), len(versions), squeeze=False, sharey="row")
    styles = _styles(figure, colormaps["tab10"])
    for column, version in enumerate(versions):
        lines = _lines(figure, results, version)
        for row, drawing in enumerate(columns):
            axes = grid[row, column]
            _DRAW[drawing](axes, lines, styles)
            axes.grid(visible=True, alpha=0.3)
            if row == 0:
                axes.set_title(TITLES[version], fontsize=10)
            axes.legend(fontsize=6.5, frameon=False)
            if column:
                axes.set_ylabel("")
    picture.suptitle(figure.title, fontsize=11)
    return as_png(picture)


def _styles(figure: Figure, palette: Any) -> dict[str, dict[str, Any]]:
    """A colour per algorithm; where it is run at several epsilons, a dash per epsilon."""
    bases = list(dict.fromkeys(_base(job) for job in figure.jobs))
    epsilons = sorted({job.epsilon for job in figure.jobs if job.epsilon is not None})
    styles: dict[str, dict[str, Any]] = {}
    for job in figure.jobs:
        dash = "-"
        if job.epsilon is not None and _base(job) != job.line:
            dash = _DASHES[epsilons.index(job.epsilon) % len(_DASHES)]
        styles[job.line] = {"color": palette(bases.index(_base(job)) % 10), "linestyle": dash}
    return styles


def _base(job: Job) -> str:
    """The algorithm, without the epsilon that some lines carry in their name."""
    return job.line.partition(", ε=")[0]


def promise(measured: Measured) -> str:
    """The guarantee of a result in a few characters, for legends; empty without privacy."""
    kept = measured.data["guarantee"]
    if kept["model"] == "none":
        return ""
    if kept["epsilon"] is None:
        return f"ρ={rounded_up(kept['rho'], 3)}" if kept["rho"] is not None else "no ε"
    return f"ε={rounded_up(kept['epsilon'], 3)}" + (f", δ={rounded_up(kept['delta'], 1)}" if kept["delta"] else "")


def _lines(figure: Figure, results: Mapping[str, Measured], version: str) -> Lines:
    lines: Lines = {}
    for job in figure.jobs:
        found = results.get(job.key)
        if job.version in (version, REFERENCE) and found is not None and found.refused is None:
            lines.setdefault(job.line, []).append((job, found))
    return lines


def _label(line: str, measured: Measured) -> str:
    kept = promise(measured)
    return f"{line} [{kept}]" if kept else line


def _curves(axes: Any, lines: Lines, styles: Styles, *, rate: bool) -> None:
    for line, members in lines.items():
        for _, measured in members:
            curve = measured.regret / measured.episodes if rate else measured.regret
            mean, spread = curve.mean(axis=0), standard_error(curve)
            x = measured.episodes
            axes.plot(x, mean, **styles[line], label=_label(line, measured), linewidth=1.5)
            axes.fill_between(
                x, np.maximum(mean - spread, 1e-9), mean + spread, color=styles[line]["color"], alpha=0.15, linewidth=0
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("episodes")
    axes.set_ylabel("regret per episode" if rate else "cumulative regret")


def _points(axes: Any, lines: Lines, styles: Styles, x_of: Callable[[Job, Measured], float | None]) -> None:
    for line, members in lines.items():
        placed = [(x, measured) for job, measured in members if (x := x_of(job, measured)) is not None]
        if not placed:  # no privacy has no epsilon: a level to compare with
            axes.axhline(float(members[0][1].total.mean()), color=styles[line]["color"], linestyle="--", label=line)
            continue
        placed.sort(key=lambda point: point[0])
        promises = {promise(measured) for _, measured in placed}
        label = _label(line, placed[0][1]) if len(promises) == 1 else line
        y = [float(measured.total.mean()) for _, measured in placed]
        errors = [float(standard_error(measured.total)) for _, measured in placed]
        axes.errorbar([x for x, _ in placed], y, yerr=errors, **styles[line], marker="o", capsize=3, label=label)
    axes.set_xscale("log")


def _by_epsilon(axes: Any, lines: Lines, styles: Styles) -> None:
    _points(axes, lines, styles, lambda job, _: job.epsilon)
    axes.set_xlabel("epsilon, as claimed")
    axes.set_ylabel("regret at the end")


def _by_users(axes: Any, lines: Lines, styles: Styles) -> None:
    _points(axes, lines, styles, lambda job, _: job.users)
    axes.set_xlabel("users in the data set")
    axes.set_ylabel("gap of the learned policy")


def _by_switches(axes: Any, lines: Lines, styles: Styles) -> None:
    _points(axes, lines, styles, lambda _, measured: max(float(measured.switches.mean()), 1.0))
    axes.set_xlabel("policy switches")
    axes.set_ylabel("regret at the end")


def _histogram(axes: Any, lines: Lines, styles: Styles) -> None:
    """Densities on a logarithmic axis where many spreads meet, which may differ by orders of magnitude; else shares."""
    many = len(lines) > 2
    for line, members in lines.items():
        samples = members[0][1].samples
        label = f"{_label(line, members[0][1])}, sd {samples.std():.3g}"
        shares = None if many else np.full(len(samples), 1 / len(samples))
        looks = {"color": styles[line]["color"], "alpha": 0.35, "histtype": "stepfilled"}
        axes.hist(samples, bins=40, density=many, weights=shares, label=label, **looks)
    if many:
        axes.set_yscale("log")
    axes.set_xlabel("released sum of rewards")
    axes.set_ylabel("density" if many else "share of repetitions")


_DRAW: dict[str, Callable[[Any, Lines, Styles], None]] = {
    "regret": lambda axes, lines, styles: _curves(axes, lines, styles, rate=False),
    "per episode": lambda axes, lines, styles: _curves(axes, lines, styles, rate=True),
    "by epsilon": _by_epsilon,
    "by users": _by_users,
    "by switches": _by_switches,
    "histogram": _histogram,
}

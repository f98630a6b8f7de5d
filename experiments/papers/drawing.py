"""Figures as pictures: one picture for every drawing of the paper, its own axes first, a column for every version.

A panel has few lines, each with a colour, a marker and its name beside its end, so that it can be read without a
legend, in print and by people who do not see colours apart. Uniform play is a dashed grey line. Bands reach from the
lowest to the highest run, as in the papers.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from discreet.base.errors import MissingExtra
from discreet.base.pictures import DARK, repaint, small_png
from discreet.privacy.words import rounded_up
from experiments.papers.figure import BEHAVIOUR, MEASURED, REFERENCE, UNIFORM, Figure, Job, Measured, standard_error

TITLES = {
    "published": "as published, at its true epsilon",
    "certified": "the same mechanism, certified",
    "ours": "auto, at the same promise",
    MEASURED: "measured",
}
LOGARITHMIC = ("regret, log", "per episode", "by episodes")
# Colours that differ in brightness too (Okabe and Ito, then Tol), and markers that differ without any.
_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255", "#999933", "#332288",
)  # fmt: skip
_ON_DARK = (
    "#56b4e9", "#ff9d5c", "#2ecc9b", "#f0a6cc", "#f5c84c", "#9fd3f2", DARK.ink, "#d98aa8", "#cfcf70", "#b9a3e3",
)  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_GREY = "#666666"
_TITLE = 56  # characters of a title that have room over one panel
_SPACING = 0.085  # between the names of lines, in heights of a panel
Style = Mapping[str, Any]
Row = float | str | None  # an epsilon, a place, or everything
Lines = dict[str, list[tuple[Job, Measured]]]


class Label(NamedTuple):
    """The name of a line, and where in the panel (data coordinates) the line ends."""

    text: str
    x: float
    y: float
    colour: str


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


def picture_name(index: int, *, dark: bool = False) -> str:
    """The file of a figure's picture: figure.png, figure-2.png and so on; on dark paper figure-dark.png."""
    return ("figure" if index == 0 else f"figure-{index + 1}") + ("-dark" if dark else "") + ".png"


def draw(figure: Figure, found: Any) -> dict[str, bytes]:
    """The pictures of a figure as PNG by the names of their files, from its results or from what it measured.

    Those of jobs are there twice, on light and on dark paper.
    """
    if not figure.jobs:
        return {} if figure.draw is None else {picture_name(0): figure.draw(found)}
    files = {}
    for i, drawing in enumerate(figure.drawings):
        picture = _draw(figure, found, drawing)
        files[picture_name(i)] = small_png(as_png(picture))
        repaint(picture, DARK, {**dict(zip(_COLOURS, _ON_DARK, strict=True)), _GREY: DARK.soft})
        files[picture_name(i, dark=True)] = small_png(as_png(picture))
    return files


def rows_of(figure: Figure) -> list[Row]:
    """The places or epsilons that have a row of panels each; None for a single row of all."""
    everywhere = [set(figure.hidden.get(version, ())) for version in figure.versions]
    never = set.intersection(*everywhere)  # lines that no drawing shows need no row
    places = dict.fromkeys(job.row for job in figure.jobs if job.row and job.line not in never)
    epsilons = sorted({job.epsilon for job in figure.jobs if job.epsilon is not None})
    return [*places] or ([*epsilons] if figure.by_epsilon else []) or [None]


def lines_of(figure: Figure, results: Mapping[str, Measured], version: str, row: Row = None) -> Lines:
    """What a panel shows: the lines of a version, those of one row where there are several, and the references."""
    lines: Lines = {}
    own = {job.name for job in figure.jobs if job.version == version}
    for job in figure.jobs:
        measured = results.get(job.key)
        shown = job.version == version or (job.version == REFERENCE and job.name not in own)
        fits = row is None or (job.row in ("", row) if isinstance(row, str) else job.epsilon in (None, row))
        hidden = job.line in figure.hidden.get(version, ())
        if shown and fits and not hidden and measured is not None and measured.refused is None:
            lines.setdefault(job.line, []).append((job, measured))
    return lines


def _draw(figure: Figure, results: Mapping[str, Measured], drawing: str) -> Any:
    versions, rows = figure.versions, rows_of(figure)
    picture = new_picture(4.9 * len(versions), 3.0 * len(rows) + 0.5)
    grid = picture.subplots(len(rows), len(versions), squeeze=False, sharey="row")
    styles = _styles(figure)
    named: list[tuple[Any, list[Label]]] = []
    for row, shown in enumerate(rows):
        for column, version in enumerate(versions):
            axes = grid[row, column]
            lines = lines_of(figure, results, version, shown)
            labels = _DRAW[drawing](axes, lines, styles)
            if shown is not None and drawing in LOGARITHMIC and (column == 0 or drawing == "by episodes"):
                labels += _formulas(axes, figure, lines, shown, rate=drawing == "per episode")
            axes.grid(visible=True, alpha=0.3)
            axes.tick_params(labelsize=8)
            named.append((axes, labels))
            if row == 0:
                axes.set_title(TITLES[version], fontsize=10)
            if row + 1 < len(rows):
                axes.set_xlabel("")
            axes.set_ylabel(("" if column else axes.get_ylabel()) if shown is None else _of_row(axes, column, shown))
    for axes, labels in named:  # now that the panels of a row have agreed on their limits
        _name_lines(axes, labels)
    picture.suptitle(textwrap.fill(figure.title, _TITLE * len(versions)), fontsize=11)
    return picture


def _of_row(axes: Any, column: int, row: float | str) -> str:
    name = row if isinstance(row, str) else f"claimed ε={row:g}"
    return "" if column else f"{name}\n{axes.get_ylabel()}"


def _styles(figure: Figure) -> dict[str, dict[str, Any]]:
    """A colour and a marker per line; lines that differ in epsilon only share the colour where they never meet."""
    names = dict.fromkeys(_base(job.line) if figure.by_epsilon else job.line for job in figure.jobs)
    numbers = {name: i for i, name in enumerate(name for name in names if name != UNIFORM)}
    styles: dict[str, dict[str, Any]] = {UNIFORM: {"color": _GREY, "linestyle": "--"}}
    for job in figure.jobs:
        if job.line == UNIFORM:
            continue
        i = numbers[_base(job.line) if figure.by_epsilon else job.line]
        styles[job.line] = {"color": _COLOURS[i % len(_COLOURS)], "marker": _MARKERS[i % len(_MARKERS)]}
    return styles


def _base(line: str) -> str:
    """The algorithm, without the epsilon that some lines carry in their name."""
    return line.partition(", ε=")[0]


def promise(measured: Measured) -> str:
    """The guarantee of a result in a few characters, for labels; empty without privacy."""
    kept = measured.data["guarantee"]
    if kept["model"] == "none":
        return ""
    if kept["epsilon"] is None:
        return f"ρ={rounded_up(kept['rho'], 3)}" if kept["rho"] is not None else "no ε"
    return f"ε={rounded_up(kept['epsilon'], 3)}" + (f", δ={rounded_up(kept['delta'], 1)}" if kept["delta"] else "")


def _label(job: Job, measured: Measured) -> str:
    """The name of a line, and below it what it keeps, unless that is what it claims."""
    kept, claimed = promise(measured), "" if job.epsilon is None else f"ε={rounded_up(job.epsilon, 3)}"
    claimed += f", δ={rounded_up(job.delta, 1)}" if job.delta else ""
    claimed = claimed if job.rho is None else f"ρ={rounded_up(job.rho, 3)}"
    return f"{job.line}\nkeeps {kept}" if kept and kept != claimed else job.line


def _name_lines(axes: Any, labels: Iterable[Label]) -> None:
    """Names to the right of the panel, each as high as its line ends if there is room, else as near as there is."""
    placed = [
        (axes.transAxes.inverted().transform(axes.transData.transform((each.x, each.y))), each) for each in labels
    ]
    placed.sort(key=lambda item: (item[0][1], item[1].text))
    gaps = [_SPACING * (1 + each.text.count("\n")) for _, each in placed]
    heights = _spread([float(min(max(point[1], 0.0), 1.0)) for point, _ in placed], gaps)
    for (point, each), height in zip(placed, heights, strict=True):
        end = (float(point[0]), float(min(max(point[1], 0.0), 1.0)))
        axes.annotate(
            each.text, xy=end, xytext=(1.06, height), xycoords="axes fraction", textcoords="axes fraction",
            fontsize=6.5, color=each.colour, va="center", linespacing=1.05, annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": each.colour, "linewidth": 0.5, "shrinkA": 1, "shrinkB": 0,
                "relpos": (0.0, 0.5),
            },
        )  # fmt: skip


def _spread(wanted: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Heights in the same order, no two nearer than half of both gaps, as near to the wanted ones as that lets.

    Names that would overlap form a block around the mean of where they want to be; blocks that meet become one.

    >>> [round(height, 2) for height in _spread([0.5, 0.5, 1.0], [0.1, 0.1, 0.1])]
    [0.45, 0.55, 1.0]
    """
    blocks: list[list[int]] = []
    for i in range(len(wanted)):
        blocks.append([i])
        while len(blocks) > 1 and _bottom(blocks[-1], wanted, gaps) < _top(blocks[-2], wanted, gaps):
            last = blocks.pop()
            blocks[-1] += last
    heights = [0.0] * len(wanted)
    for block in blocks:
        height = _bottom(block, wanted, gaps)
        for i in block:
            heights[i] = height + gaps[i] / 2
            height += gaps[i]
    return heights


def _bottom(block: Sequence[int], wanted: Sequence[float], gaps: Sequence[float]) -> float:
    """Where a block of names begins; it does not leave the panel by more than a name."""
    middle, half = sum(wanted[i] for i in block) / len(block), sum(gaps[i] for i in block) / 2
    return min(max(middle - half, -_SPACING), 1.0 + _SPACING - 2 * half)


def _top(block: Sequence[int], wanted: Sequence[float], gaps: Sequence[float]) -> float:
    return _bottom(block, wanted, gaps) + sum(gaps[i] for i in block)


def _curves(axes: Any, lines: Lines, styles: Mapping[str, Style], *, rate: bool, log: bool) -> list[Label]:
    labels = []
    for line, members in lines.items():
        for job, measured in members:
            curve = measured.regret / measured.episodes if rate else measured.regret
            x, mean = measured.episodes, curve.mean(axis=0)
            marks = _marked(x, log=log)
            axes.plot(x, mean, **styles[line], markevery=marks, markersize=4, linewidth=1.4)
            if line != UNIFORM:
                low, high = curve.min(axis=0), curve.max(axis=0)
                seen = low > 0 if log else np.ones(len(x), np.bool_)  # zero is infinitely far down a logarithmic axis
                axes.fill_between(x, low, high, where=seen, color=styles[line]["color"], alpha=0.12, linewidth=0)
            labels.append(Label(_label(job, measured), float(x[-1]), float(mean[-1]), styles[line]["color"]))
    last = max((float(measured.episodes[-1]) for members in lines.values() for _, measured in members), default=1.0)
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(min(10.0, last / 2), last)
        _cut_below(axes, lines, rate=rate)
    else:
        axes.set_xlim(0.0, last)
        # An adversary may lose less to who changes with it than to the best policy in hindsight.
        axes.set_ylim(bottom=1.1 * min([0.0, *(float(line.get_ydata().min()) for line in axes.lines)]))
        axes.ticklabel_format(axis="both", style="sci", scilimits=(-3, 5))
    axes.set_xlabel("episodes")
    axes.set_ylabel("regret per episode" if rate else "cumulative regret")
    return labels


def _marked(x: Any, *, log: bool, count: int = 6) -> list[int]:
    """The points that carry a marker: evenly spread along the axis."""
    places = np.geomspace(max(float(x[0]), 1.0), float(x[-1]), count) if log else np.linspace(0, float(x[-1]), count)
    return sorted({int(np.argmin(np.abs(x - place))) for place in places})


def _cut_below(axes: Any, lines: Lines, *, rate: bool) -> None:
    """Runs without any regret have no place on a logarithmic axis: it begins at a tenth of the smallest mean."""
    ends = [
        float((measured.regret[:, -1] / (measured.episodes[-1] if rate else 1.0)).mean())
        for members in lines.values()
        for _, measured in members
    ]
    smallest = min((end for end in ends if end > 0), default=1.0)
    axes.set_ylim(bottom=10.0 ** math.floor(math.log10(smallest) - 0.5))


def _formulas(axes: Any, figure: Figure, lines: Lines, row: float | str, *, rate: bool) -> list[Label]:
    """What theorems say, where a figure has formulas of them."""
    if not lines:
        return []
    labels, members = [], next(iter(lines.values()))
    x = np.unique(np.concatenate([measured.episodes for _, measured in members]))
    fixed = sorted({float(job.episodes) for job, _ in members if job.episodes is not None})
    x = np.array(fixed) if fixed else x[x >= 10]
    for name, formula in figure.curves.items():
        y = formula(row, x) / (x if rate else 1.0)
        axes.plot(x, y, color="black", linestyle=":", linewidth=1.2)
        axes.set_ylim(top=max(axes.get_ylim()[1], 3 * float(y[-1])))
        labels.append(Label(name, float(x[-1]), float(y[-1]), "black"))
    return labels


def _points(
    axes: Any, lines: Lines, styles: Mapping[str, Style], x_of: Callable[[Job, Measured], float | None],
    *, log: bool = False,
) -> list[Label]:  # fmt: skip
    labels, levels = [], []
    places = set[float]()
    axes.set_xscale("log")
    for line, members in lines.items():
        style = {"linestyle": "-", **styles[line]}
        placed = [(x, measured) for job, measured in members if (x := x_of(job, measured)) is not None]
        if not placed:  # no privacy has no epsilon: a level to compare with
            level = float(members[0][1].total.mean())
            axes.axhline(level, color=style["color"], linestyle="--", linewidth=1.2)
            levels.append((line, level, style["color"]))
            continue
        placed.sort(key=lambda point: point[0])
        places |= {x for x, _ in placed}
        promises = {promise(measured) for _, measured in placed}
        text = _label(members[0][0], placed[0][1]) if len(promises) == 1 else line
        y = [float(measured.total.mean()) for _, measured in placed]
        errors = [float(standard_error(measured.total)) for _, measured in placed]
        axes.errorbar([x for x, _ in placed], y, yerr=errors, **style, capsize=3, markersize=4.5)
        labels.append(Label(text, placed[-1][0], y[-1], style["color"]))
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0.0)
    axes.margins(x=0.08)
    if len(places) == 1:
        axes.set_xlim(min(places) / 2, 2 * min(places))
    right = axes.get_xlim()[1]
    return [*labels, *(Label(line, right, level, colour) for line, level, colour in levels)]


def _by_epsilon(axes: Any, lines: Lines, styles: Mapping[str, Style]) -> list[Label]:
    labels = _points(axes, lines, styles, lambda job, _: job.epsilon)
    axes.set_xlabel("epsilon, as claimed")
    axes.set_ylabel("regret at the end")
    return labels


def _by_episodes(axes: Any, lines: Lines, styles: Mapping[str, Style]) -> list[Label]:
    labels = _points(axes, lines, styles, lambda job, _: job.episodes, log=True)
    measured = sorted({job.episodes for members in lines.values() for job, _ in members if job.episodes is not None})
    axes.set_xticks(measured, [f"{number:,}" for number in measured])
    axes.set_xticks([], minor=True)  # their names would overlap
    axes.set_xlabel("episodes K, in a world made for K")
    axes.set_ylabel("regret after K episodes")
    return labels


def _by_users(axes: Any, lines: Lines, styles: Mapping[str, Style]) -> list[Label]:
    labels = _points(axes, lines, styles, lambda job, _: None if job.learner in (UNIFORM, BEHAVIOUR) else job.users)
    axes.set_xlabel("users in the data set")
    axes.set_ylabel("gap of the learned policy")
    return labels


def _switches_of(job: Job, measured: Measured) -> float | None:
    return None if job.learner == UNIFORM else max(float(measured.switches.mean()), 1.0)


def _by_switches(axes: Any, lines: Lines, styles: Mapping[str, Style]) -> list[Label]:
    labels = _points(axes, lines, styles, _switches_of)
    low, high = axes.get_xlim()
    if high < 100 * low:  # on so short an axis the names of all small ticks would overlap
        ticks = [m * 10**e for e in range(6) for m in (1, 2, 5) if low <= m * 10**e <= high]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set_xticks([], minor=True)
    axes.set_xlabel("policy switches")
    axes.set_ylabel("regret at the end")
    return labels


def _histogram(axes: Any, lines: Lines, styles: Mapping[str, Style]) -> list[Label]:
    """Densities on a logarithmic axis where many spreads meet, which may differ by orders of magnitude; else shares."""
    many = len(lines) > 2
    for line, members in lines.items():
        samples = members[0][1].samples
        kept = promise(members[0][1])
        label = f"{_base(line)}{f' [{kept}]' if kept else ''}, sd {samples.std():.3g}"
        shares = None if many else np.full(len(samples), 1 / len(samples))
        looks = {"color": styles[line]["color"], "alpha": 0.35, "histtype": "stepfilled"}
        axes.hist(samples, bins=40, density=many, weights=shares, label=label, **looks)
    if many:
        axes.set_yscale("log")
    axes.set_xlabel("released sum of rewards")
    axes.set_ylabel("density" if many else "share of repetitions")
    axes.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return []


_DRAW: dict[str, Callable[[Any, Lines, Mapping[str, Style]], list[Label]]] = {
    "regret": lambda axes, lines, styles: _curves(axes, lines, styles, rate=False, log=False),
    "regret, log": lambda axes, lines, styles: _curves(axes, lines, styles, rate=False, log=True),
    "per episode": lambda axes, lines, styles: _curves(axes, lines, styles, rate=True, log=True),
    "by epsilon": _by_epsilon,
    "by users": _by_users,
    "by episodes": _by_episodes,
    "by switches": _by_switches,
    "histogram": _histogram,
}

"""The gauntlet as a heat map: worlds down, trust models and learners across.

Colour is the share of uniform play's regret, from blue (nearly none) to red (as bad as uniform play); a number says
how many runs are stuck, in bold if all are. Grey refuses; what has the colour of the paper was not run. There is a
picture on light paper and one on dark paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet.base.errors import MissingExtra
from discreet.base.pictures import DARK, LIGHT, Theme

from .reading import Row, halves_of, learners_in, name_of, trusts_in, worlds_in

_LEAST, _MOST = 0.003, 1.0
_TICKS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_DARK = (0.006, 0.5)  # text is white on colours beyond
_CELL = (0.36, 0.25)  # inches across and down


def draw(rows: Sequence[Row], path: Path) -> None:
    """The picture on light paper, and beside it, with ``-dark`` in its name, the one on dark paper."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    for theme, file in ((LIGHT, path), (DARK, path.with_stem(f"{path.stem}-dark"))):
        names = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
        paper = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), theme.paper)
        with matplotlib.rc_context({**dict.fromkeys(names, theme.ink), **paper}):
            _draw(rows, file, theme)


def _draw(rows: Sequence[Row], path: Path, theme: Theme) -> None:
    """One panel per half, and one for the heavy tails of each."""
    import matplotlib
    from matplotlib.figure import Figure

    panels = halves_of(rows)
    heights = [len(worlds_in(part)) for _, part in panels]
    widest = max(len(trusts_in(part)) * len(learners_in(part)) for _, part in panels)
    size = (3.4 + _CELL[0] * max(widest, 14), 1.6 + _CELL[1] * sum(heights) + 1.35 * len(panels))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=[count + 1.0 for count in heights])[:, 0]
    colours = matplotlib.colormaps["RdYlBu_r"].with_extremes(bad=theme.paper)
    norm = matplotlib.colors.LogNorm(_LEAST, _MOST, clip=True)
    for axis, (half, part) in zip(axes, panels, strict=True):
        image = _panel(axis, half, part, colours, norm, theme)
    bar = figure.colorbar(image, ax=list(axes), location="bottom", shrink=0.5, aspect=40, pad=0.01)
    bar.set_ticks(_TICKS, labels=[f"{100 * tick:g}%" for tick in _TICKS])
    bar.ax.minorticks_off()
    bar.set_label(
        "regret as a share of uniform play's (mean of runs).  Numbers: stuck runs, * fewer runs than planned.  "
        "Grey: refused",
        fontsize=9,
    )
    figure.suptitle(f"Gauntlet, version {rows[0]['tag']}, seed {rows[0]['seed']}", fontsize=11)
    figure.savefig(path, dpi=130)


def _panel(axis: Any, half: str, rows: Sequence[Row], colours: Any, norm: Any, theme: Theme) -> Any:
    worlds, trusts, learners = worlds_in(rows), trusts_in(rows), learners_in(rows)
    columns = [(trust, learner) for trust in trusts for learner in learners]
    found = {((row["world"], row["users"]), (row["trust"], row["learner"])): row for row in rows}
    shares = np.full((len(worlds), len(columns)), np.nan)
    for y, world in enumerate(worlds):
        for x, column in enumerate(columns):
            row = found.get((world, column))
            if row is not None:
                shares[y, x] = row.get("share", np.nan)
                _write(axis, x, y, row)
    image = axis.imshow(np.maximum(shares, _LEAST), cmap=colours, norm=norm, aspect="auto", interpolation="nearest")
    axis.set_yticks(range(len(worlds)), labels=[name_of(*world) for world in worlds], fontsize=8)
    axis.set_xticks(
        range(len(columns)), labels=[learner for _, learner in columns], fontsize=7.5, rotation=60, ha="right"
    )
    axis.tick_params(length=0)
    axis.set_xticks(np.arange(-0.5, len(columns)), minor=True)
    axis.set_yticks(np.arange(-0.5, len(worlds)), minor=True)
    axis.grid(which="minor", color=theme.paper, linewidth=0.8)
    axis.tick_params(which="minor", length=0)
    for group, trust in enumerate(trusts):
        middle = (group + 0.5) * len(learners) - 0.5
        above = {"xycoords": ("data", "axes fraction"), "xytext": (0, 3), "textcoords": "offset points"}
        axis.annotate(trust, (middle, 1.0), ha="center", va="bottom", fontsize=8.5, fontweight="bold", **above)
        if group:
            axis.axvline(group * len(learners) - 0.5, color=theme.ink, linewidth=1.2)
    axis.set_title(half.capitalize(), loc="left", fontsize=10, pad=22)
    for side in axis.spines.values():
        side.set_visible(False)
    return image


def _write(axis: Any, x: int, y: int, row: Row) -> None:
    if "share" not in row:
        axis.add_patch(_grey(x, y))
        axis.text(
            x, y, "slow" if row["status"] == "too long" else "–", ha="center", va="center", fontsize=6.5, color="black"
        )
        return
    text = (str(row["stuck"]) if row["stuck"] else "") + ("*" if row["status"] == "fewer runs" else "")
    weight = "bold" if row["stuck"] == row["finished"] else "normal"
    dark = row["share"] < _DARK[0] or row["share"] > _DARK[1]
    colour = "white" if dark else "black"
    axis.text(x, y, text, ha="center", va="center", fontsize=7.5, fontweight=weight, color=colour)


def _grey(x: int, y: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor="0.8", edgecolor="none")

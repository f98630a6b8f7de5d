"""One look for all pictures: colours that colour-blind people can tell apart, marks and dashes, light and dark paper.

The colours are those of Okabe and Ito (2008), on dark paper lighter ones of the same hues. Lines differ in colour, in
their dashes and in their marks, so that a picture can also be read in print.

A picture goes to a file, into axes of the caller, or into a new figure of ``pyplot``, which notebooks show. Files are
on light paper unless ``theme="dark"`` is asked for; axes of the caller and figures of ``pyplot`` keep their own paper,
and colours follow it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput, MissingExtra, check_name
from discreet.base.files import check_writable, write_atomically

FORMATS = (".png", ".svg", ".pdf")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")
SIZE = (7.2, 4.6)


@dataclass(frozen=True)
class Theme:
    """The colours of a picture: text, lines of the grid, paper, and what is drawn."""

    ink: str
    soft: str
    grid: str
    paper: str
    colours: tuple[str, ...]

    def line(self, index: int) -> dict[str, Any]:
        """How line number ``index`` looks: keywords of ``axes.plot``."""
        return {
            "color": self.colours[index % len(self.colours)],
            "linestyle": DASHES[index % len(DASHES)],
            "marker": MARKS[index % len(MARKS)],
            "markersize": 5.5,
            "linewidth": 1.8,
        }


LIGHT = Theme(
    ink="#1d2430", soft="#5c6675", grid="#dfe3ea", paper="#ffffff",
    colours=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b4fa0"),
)  # fmt: skip
DARK = Theme(
    ink="#e6e9ef", soft="#a8b0bd", grid="#3a4150", paper="#1e2129",
    colours=("#56b4e9", "#ff9d5c", "#2ecc9b", "#f0a6cc", "#f5c84c", "#9fd3f2", "#b9a3e3"),
)  # fmt: skip
THEMES = {"light": LIGHT, "dark": DARK}
_PAPER = ["light"]  # of files, unless a picture is asked for another


def set_theme(theme: str) -> None:
    """Draw files on this paper from now on, "light" or "dark", wherever no ``theme`` is given.

    Examples:
        >>> from discreet.base.pictures import set_theme
        >>> set_theme("light")
    """
    _PAPER[0] = checked_theme(theme)


def checked_theme(theme: str) -> str:
    """The name of a theme that exists."""
    return check_name("theme", theme, THEMES)


@dataclass(frozen=True)
class Canvas:
    """Where something is drawn, with which colours, and what becomes of it."""

    panels: tuple[Any, ...]  # axes of matplotlib
    theme: Theme
    file: Path | None
    own: bool  # whether the paper is ours

    def title(self, text: str, panel: int = 0) -> None:
        """Write a title over the left end of a panel."""
        self.panels[panel].set_title(text, loc="left", fontsize=11, color=self.theme.ink)

    def finished(self) -> Any:
        """Dress the axes, write the file if there is one, and return the axes (a tuple, if there are several)."""
        for axes in self.panels:
            dress(axes, self.theme, self.own)
        if self.file is not None:
            write_atomically(self.file, figure_bytes(self.panels[0].figure, self.file.suffix[1:]))
        return self.panels[0] if len(self.panels) == 1 else self.panels


def canvas(
    path: str | os.PathLike[str] | None = None,
    ax: Any = None,
    theme: str | None = None,
    size: tuple[float, float] = SIZE,
    panels: int = 1,
) -> Canvas:
    """A place to draw: axes of the caller, a figure for a file, or a figure of ``pyplot``."""
    if theme is not None:
        checked_theme(theme)
    file = None if path is None else checked_plot(path)
    if ax is not None:
        given = _given(ax, panels)
        return Canvas(given, _theme_of(given[0], theme), file, theme is not None)
    if file is not None:
        return Canvas(_subplots(blank_figure(size), panels), THEMES[theme or _PAPER[0]], file, True)
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    made = _subplots(pyplot.figure(figsize=size, layout="constrained"), panels)
    return Canvas(made, _theme_of(made[0], theme), None, theme is not None)


def dress(axes: Any, theme: Theme, paper: bool) -> None:
    """Text, ticks, frame and legend in the colours of a theme; with ``paper`` the ground as well."""
    if paper:
        axes.figure.set_facecolor(theme.paper)
        axes.set_facecolor(theme.paper)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom") and spine.get_visible())
        spine.set_color(theme.soft)
    axes.tick_params(which="both", color=theme.soft, labelcolor=theme.ink)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_color(theme.ink)
    axes.set_axisbelow(True)
    axes.grid(visible=True, which="major", color=theme.grid, linewidth=0.8)
    for legend in (axes.get_legend(), *axes.figure.legends):
        for text in legend.get_texts() if legend is not None else ():
            text.set_color(theme.ink)


def checked_plot(path: str | os.PathLike[str]) -> Path:
    """The file of a picture, refused before anything is drawn if it cannot be written or drawn."""
    file = check_writable(path)
    if file.suffix not in FORMATS:
        raise InvalidInput(f"cannot draw {file.name!r}: the name must end in {', '.join(FORMATS)}")
    return file


def blank_figure(size: tuple[float, float] = SIZE) -> Any:
    """An empty figure, not known to ``pyplot``."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    return Figure(figsize=size, layout="constrained")


def figure_bytes(figure: Any, kind: str) -> bytes:
    """A figure as the content of a file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()


def repaint(figure: Any, theme: Theme, colours: Mapping[str, str]) -> None:
    """Put a finished figure on the paper of a theme; whatever has one of these colours gets the other one."""
    from matplotlib.collections import Collection
    from matplotlib.colors import to_hex, to_rgba, to_rgba_array
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    exchanged = {to_hex(old): new for old, new in colours.items()}

    def new(colour: Any) -> Any:
        return [to_rgba(exchanged.get(to_hex(each), to_hex(each)), each[3]) for each in to_rgba_array(colour)]

    grounds = [figure, *figure.axes]
    for artist in figure.findobj():
        if isinstance(artist, Text | Line2D):
            artist.set_color(new(artist.get_color())[0])
            arrow = getattr(artist, "arrow_patch", None)
            if arrow is not None:
                arrow.set_color(new(arrow.get_edgecolor())[0])
        elif isinstance(artist, Collection):
            faces, edges = new(artist.get_facecolor()), new(artist.get_edgecolor())
            artist.set_facecolor(faces)
            artist.set_edgecolor(edges)
        elif isinstance(artist, Patch) and not any(artist is ground.patch for ground in grounds):
            face, edge = new(artist.get_facecolor()), new(artist.get_edgecolor())
            artist.set_facecolor(face[0])
            artist.set_edgecolor(edge[0])
    for ground in grounds:
        ground.set_facecolor(theme.paper)


def small_png(png: bytes, colours: int = 256) -> bytes:
    """The same picture with so few colours that its file is a third: lines and text do not need more.

    Half of the colours are those with the largest areas, as they are: paper, lines and bands. The others are means of
    the shades between them, in which a colour counts for the fourth root of its area.
    """
    from PIL import Image

    picture = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    packed = picture.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    numbers, places, areas = np.unique(packed, return_inverse=True, return_counts=True)
    found = np.stack([numbers >> 16, numbers >> 8 & 255, numbers & 255], axis=1).astype(np.uint8)
    largest = found[np.argsort(-areas, kind="stable")[: colours // 2]]
    weighed = np.repeat(found, np.ceil(areas**0.25).astype(np.int64), axis=0)
    between = Image.fromarray(weighed[None]).quantize(colours - len(largest), Image.Quantize.MEDIANCUT)
    palette = np.vstack([largest, np.array(between.getpalette(), np.uint8).reshape(-1, 3)])[:colours].astype(np.int64)
    nearest = [int(np.square(palette - colour).sum(axis=1).argmin()) for colour in found.astype(np.int64)]
    few = Image.fromarray(np.array(nearest, np.uint8)[places].reshape(picture.shape[:2]))
    few.putpalette(palette.astype(np.uint8).tobytes())
    buffer = io.BytesIO()
    few.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def _given(ax: Any, panels: int) -> tuple[Any, ...]:
    """The axes of the caller: one, or as many as there are panels."""
    given = tuple(ax) if isinstance(ax, Sequence) else tuple(np.ravel(np.asarray(ax, dtype=object)))
    from matplotlib.axes import Axes

    if not all(isinstance(each, Axes) for each in given):
        raise InvalidInput(f"ax must be axes of matplotlib, got {type(ax).__name__}: make them with  pyplot.subplots()")
    if len(given) != panels:
        raise InvalidInput(f"ax must be {panels} axes, got {len(given)}: make them with  pyplot.subplots(1, {panels})")
    return given


def _subplots(figure: Any, panels: int) -> tuple[Any, ...]:
    return tuple(np.ravel(figure.subplots(1, panels)))


def _theme_of(axes: Any, theme: str | None) -> Theme:
    """What was asked for, or what suits the ground that is there."""
    if theme is not None:
        return THEMES[theme]
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(axes.get_facecolor())
    return DARK if 0.3 * red + 0.6 * green + 0.1 * blue < 0.4 else LIGHT

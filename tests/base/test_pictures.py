"""One look for all pictures: where they go, on which paper, and what a single run may not show."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.pictures import (
    DARK,
    DASHES,
    LIGHT,
    MARKS,
    THEMES,
    blank_figure,
    canvas,
    repaint,
    set_theme,
    small_png,
)
from discreet.tables.interval_plots import plot_intervals, plot_plan

pytest.importorskip("matplotlib", reason="needs the extra 'plots'")
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

EVALUATION = {
    "returns": (0.0, 1.0),
    "word": "better",
    **{name: {"low": 0.2, "estimate": 0.3, "high": 0.4, "confidence": 0.95} for name in ("value", "behaviour")},
    "difference": {"low": 0.05, "estimate": 0.1, "high": 0.15, "confidence": 0.95},
}


def result(runs: int) -> discreet.SimulationResult:
    episodes = np.array([1, 10, 100])
    regret = np.cumsum(np.ones((runs, 3)), axis=1) * np.arange(1, runs + 1)[:, None]
    zeros = np.zeros(runs)
    return discreet.SimulationResult(
        world="w", learner="l", privacy="none", recipe="none", seed=0, episodes=episodes, regret=regret,
        final_gap=zeros, deployed_gap=zeros, switches=zeros.astype(int), deterministic_switches=zeros.astype(int),
        guarantee={"model": "none", "epsilon": None, "delta": 0.0, "statement": "no privacy"}, seconds=0.0,
    )  # fmt: skip


def axes_on(colour: str):
    axes = Figure().add_subplot()
    axes.set_facecolor(colour)
    return axes


def test_a_single_run_has_no_band_and_several_have_one():
    assert len(result(1).plot(ax=axes_on("white")).collections) == 0
    assert len(result(2).plot(ax=axes_on("white")).collections) == 1


@pytest.mark.parametrize(("ground", "theme"), [("white", LIGHT), ("black", DARK)])
def test_colours_follow_the_ground_of_axes_that_are_given(ground, theme):
    axes = result(2).plot(ax=axes_on(ground))
    assert to_hex(axes.get_lines()[0].get_color()) == theme.colours[0]
    assert to_hex(axes.xaxis.label.get_color()) == theme.ink
    assert to_rgb(axes.get_facecolor()) == to_rgb(ground)


def test_several_results_in_one_picture_differ_in_more_than_colour():
    axes = axes_on("white")
    for _ in range(4):
        result(2).plot(ax=axes)
    looks = {(line.get_marker(), line.get_linestyle(), line.get_color()) for line in axes.get_lines()}
    assert len({marker for marker, _, _ in looks}) == len({dash for _, dash, _ in looks}) == len(looks) == 4


def test_a_file_is_on_the_paper_that_was_asked_for(tmp_path):
    axes = result(2).plot(tmp_path / "a.png", theme="dark")
    assert to_hex(axes.figure.get_facecolor()) == DARK.paper
    set_theme("dark")
    try:
        assert to_hex(result(2).plot(tmp_path / "b.png").figure.get_facecolor()) == DARK.paper
        assert to_hex(result(2).plot(tmp_path / "c.png", theme="light").figure.get_facecolor()) == LIGHT.paper
    finally:
        set_theme("light")
    assert to_hex(result(2).plot(tmp_path / "d.png").figure.get_facecolor()) == LIGHT.paper


def test_pictures_of_offline_learning_go_into_axes_of_the_caller():
    axes = axes_on("white")
    assert plot_intervals(EVALUATION, ax=axes) is axes
    assert axes.get_title(loc="left").startswith("The policy is better")
    plan = discreet.offline.plan(discreet.Shape(2, 2, 2), users=100, epsilons=[1.0, 2.0], runs=1)
    two = Figure().subplots(1, 2)
    assert plot_plan(plan, ax=two) == tuple(two)
    with pytest.raises(InvalidInput, match="ax must be 2 axes, got 1"):
        plan.plot(ax=axes)


def test_an_unknown_theme_is_refused_before_anything_is_drawn(tmp_path):
    with pytest.raises(InvalidInput, match="unknown theme 'drak': did you mean dark"):
        result(2).plot(tmp_path / "a.png", theme="drak")
    with pytest.raises(InvalidInput, match="unknown theme"):
        set_theme("grey")
    assert list(tmp_path.iterdir()) == []


def contrast(first: str, second: str) -> float:
    """The ratio of luminances as the Web Content Accessibility Guidelines define it."""

    def luminance(colour: str) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_text_and_lines_stand_out_of_the_paper(theme):
    assert contrast(theme.ink, theme.paper) >= 7
    assert contrast(theme.soft, theme.paper) >= 4.5
    assert min(contrast(colour, theme.paper) for colour in theme.colours) >= 2
    assert len(set(theme.colours)) == len(theme.colours) <= len(MARKS)
    assert len(set(DASHES)) == 4


def test_a_notebook_gets_a_figure_of_pyplot(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    place = canvas()
    assert place.panels[0].figure in map(pyplot.figure, pyplot.get_fignums())
    pyplot.close("all")


def test_a_finished_figure_is_repainted_on_dark_paper():
    """Lines, bands, bars, text and arrows exchange their colours and keep how far one sees through them."""
    from matplotlib.colors import to_rgba

    figure = blank_figure()
    axes = figure.subplots()
    (line,) = axes.plot([0, 1], [0, 1], color="#0072B2", marker="o")
    band = axes.fill_between([0, 1], [0, 0], [1, 1], color="#0072B2", alpha=0.12)
    note = axes.annotate("end", xy=(0, 0), xytext=(1, 1), color="#000000", arrowprops={"color": "#0072B2"})
    other = axes.axhline(0.5, color="#123456")
    repaint(figure, DARK, {"#0072B2": "#56b4e9", "#000000": "#e6e9ef"})
    assert (to_hex(line.get_color()), to_hex(other.get_color())) == ("#56b4e9", "#123456")
    assert tuple(band.get_facecolor()[0]) == pytest.approx(to_rgba("#56b4e9", 0.12))
    assert to_hex(note.get_color()) == to_hex(axes.title.get_color()) == "#e6e9ef"
    assert to_hex(note.arrow_patch.get_edgecolor()) == "#56b4e9"
    assert to_hex(figure.get_facecolor()) == to_hex(axes.get_facecolor()) == DARK.paper


def test_a_small_picture_keeps_thin_lines_in_their_colours():
    """The rarest colour of a picture with many shades stays what it was, to a few steps of 255."""
    import io

    from PIL import Image

    shades = np.zeros((120, 256, 3), np.uint8)
    shades[..., 0] = shades[..., 2] = np.arange(256)
    shades[60, 100:104] = (0, 158, 115)
    buffer = io.BytesIO()
    Image.fromarray(shades).save(buffer, format="png")
    small = small_png(buffer.getvalue())
    found = np.asarray(Image.open(io.BytesIO(small)).convert("RGB"), np.int64)[60, 100:104]
    assert np.abs(found - [0, 158, 115]).max() <= 12

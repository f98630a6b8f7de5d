"""Pictures: the judgement of a policy as intervals in the owner's units, and a plan as curves over epsilon."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discreet.files import write_atomically
from discreet.simulation.plots import blank_figure, checked_plot, figure_bytes

if TYPE_CHECKING:
    from discreet.offline.expectations import Plan

_WORDS = {"value": "learned policy", "behaviour": "behaviour in the table", "difference": "difference"}
_TONES = {"value": "#0f766e", "behaviour": "#64748b", "difference": "#b45309"}
_MARKS = ("o", "s", "^", "D", "v")
_COLOURS = ("#0f766e", "#b45309", "#475569", "#7c3aed", "#be123c")


def plot_intervals(evaluation: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Draw value, behaviour and difference with their intervals; ``evaluation`` is that section of a receipt."""
    file = checked_plot(path)
    figure = blank_figure()
    figure.set_size_inches(7.2, 3.0)
    axes = figure.subplots()
    low, high = evaluation["returns"]
    for row, name in enumerate(("difference", "behaviour", "value")):
        found = evaluation[name]
        left, middle, right = found["low"], found["estimate"], found["high"]
        axes.plot([left, right], [row, row], color=_TONES[name], linewidth=6, alpha=0.35, solid_capstyle="butt")
        axes.plot([middle], [row], "o", color=_TONES[name], markersize=7)
        text = f"{middle:.3g}   [{left:.3g}, {right:.3g}]"
        axes.annotate(text, (middle, row), (0, 9), textcoords="offset points", ha="center", fontsize=9)
    axes.axvline(0.0, color="#94a3b8", linewidth=1, linestyle="--", zorder=0)
    axes.set_yticks(range(3), [_WORDS[name] for name in ("difference", "behaviour", "value")])
    axes.set_ylim(-0.6, 2.7)
    edges = [evaluation[name][end] for name in _WORDS for end in ("low", "high")] + [0.0]
    margin = 0.12 * (max(edges) - min(edges) or high - low)
    axes.set_xlim(min(edges) - margin, max(edges) + margin)
    axes.set_xlabel("sum of rewards of an episode, in the units of the table")
    axes.set_title(_title(evaluation), fontsize=11, loc="left")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    write_atomically(file, figure_bytes(figure, file.suffix[1:]))


def _title(evaluation: Mapping[str, Any]) -> str:
    confidence = evaluation["value"]["confidence"]
    words = {
        "better": "The policy is better than the behaviour",
        "worse": "The policy is worse than the behaviour",
        "about the same": "The policy and the behaviour are about the same",
        "cannot be told": "Whether the policy is better cannot be told",
    }
    return f"{words[evaluation['word']]} ({confidence:.0%} intervals)"


def plot_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Draw the expected gap and the expected width of intervals; dashed lines are without privacy."""
    file = checked_plot(path)
    figure = blank_figure()
    figure.set_size_inches(8.4, 3.8)
    panels = figure.subplots(1, 2)
    numbers = sorted({row.users for row in plan.rows})
    for axes, name, title in (
        (panels[0], "gap", "missed, as a share of what can be gained"),
        (panels[1], "width", "interval of the value, as a share of the range"),
    ):
        for number, colour, mark in zip(numbers, _COLOURS * 9, _MARKS * 9, strict=False):
            rows = sorted(
                (row.epsilon, getattr(row, name))
                for row in plan.rows
                if row.users == number and row.epsilon is not None
            )
            axes.plot(*zip(*rows, strict=True), color=colour, marker=mark, label=f"{number:,} users")
            for row in plan.rows:
                if row.users == number and row.epsilon is None:
                    axes.axhline(getattr(row, name), color=colour, linestyle="--", linewidth=1)
        axes.set_xscale("log", base=2)
        ticks = sorted({row.epsilon for row in plan.rows if row.epsilon is not None})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("epsilon (dashed: no privacy)")
        axes.set_title(title, fontsize=10, loc="left")
        axes.grid(alpha=0.3)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[0].legend(frameon=False, fontsize=9)
    write_atomically(file, figure_bytes(figure, file.suffix[1:]))

"""Pictures: the judgement of a policy as intervals in the owner's units, and a plan as curves over epsilon."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discreet.base.pictures import canvas

if TYPE_CHECKING:
    from discreet.tables.plan import Plan

# In the order of the colours of a theme.
_WORDS = {"value": "learned policy", "difference": "difference", "behaviour": "behaviour in the table"}


def plot_intervals(
    evaluation: Mapping[str, Any],
    path: str | os.PathLike[str] | None = None,
    *,
    ax: Any = None,
    theme: str | None = None,
) -> Any:
    """Draw value, behaviour and difference with their intervals; ``evaluation`` is that section of a receipt."""
    place = canvas(path, ax, theme, size=(7.2, 3.0))
    (axes,) = place.panels
    tones = dict(zip(_WORDS, place.theme.colours, strict=False))
    low, high = evaluation["returns"]
    for row, name in enumerate(("difference", "behaviour", "value")):
        found = evaluation[name]
        left, middle, right = found["low"], found["estimate"], found["high"]
        axes.plot([left, right], [row, row], color=tones[name], linewidth=6, alpha=0.4, solid_capstyle="butt")
        axes.plot([middle], [row], "o", color=tones[name], markersize=7)
        text = f"{middle:.3g}   [{left:.3g}, {right:.3g}]"
        axes.annotate(
            text, (middle, row), (0, 9), textcoords="offset points", ha="center", fontsize=9, color=place.theme.ink
        )
    axes.axvline(0.0, color=place.theme.soft, linewidth=1, linestyle="--", zorder=0)
    axes.set_yticks(range(3), [_WORDS[name] for name in ("difference", "behaviour", "value")])
    axes.set_ylim(-0.6, 2.7)
    edges = [evaluation[name][end] for name in _WORDS for end in ("low", "high")] + [0.0]
    margin = 0.12 * (max(edges) - min(edges) or high - low)
    axes.set_xlim(min(edges) - margin, max(edges) + margin)
    axes.set_xlabel("sum of rewards of an episode, in the units of the table")
    place.title(_title(evaluation))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return place.finished()


def _title(evaluation: Mapping[str, Any]) -> str:
    confidence = evaluation["value"]["confidence"]
    words = {
        "better": "The policy is better than the behaviour",
        "worse": "The policy is worse than the behaviour",
        "about the same": "The policy and the behaviour are about the same",
        "cannot be told": "Whether the policy is better cannot be told",
        "not judged": "Not judged, because rows may be missing",
    }
    return f"{words[evaluation['word']]} ({confidence:.0%} intervals)"


def plot_plan(
    plan: Plan, path: str | os.PathLike[str] | None = None, *, ax: Any = None, theme: str | None = None
) -> Any:
    """Draw the expected gap and the expected width of intervals; dashed lines are without privacy."""
    place = canvas(path, ax, theme, size=(8.4, 3.8), panels=2)
    numbers = sorted({row.users for row in plan.rows})
    for panel, (name, title) in enumerate(
        (
            ("gap", "missed, as a share of what can be gained"),
            ("width", "interval of the value, as a share of the range"),
        )
    ):
        axes = place.panels[panel]
        for index, number in enumerate(numbers):
            style = {**place.theme.line(index), "linestyle": "-"}
            rows = sorted(
                (row.epsilon, getattr(row, name))
                for row in plan.rows
                if row.users == number and row.epsilon is not None
            )
            axes.plot(*zip(*rows, strict=True), label=f"{number:,} users", **style)
            for row in plan.rows:
                if row.users == number and row.epsilon is None:
                    axes.axhline(getattr(row, name), color=style["color"], linestyle="--", linewidth=1)
        axes.set_xscale("log", base=2)
        ticks = sorted({row.epsilon for row in plan.rows if row.epsilon is not None})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("epsilon (dashed: no privacy)")
        place.title(title, panel)
    place.panels[0].legend(frameon=False, fontsize=9)
    return place.finished()

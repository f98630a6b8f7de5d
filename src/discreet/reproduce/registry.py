"""All figures by name, in the order of the papers."""

from __future__ import annotations

from discreet.errors import unknown_name
from discreet.reproduce import (
    adversarial_regret,
    heavy_tailed,
    local_histograms,
    local_mechanisms,
    local_regret,
    offline_gap,
    shuffle_regret,
)
from discreet.reproduce.figure import Figure

_ALL: tuple[Figure, ...] = (
    heavy_tailed.FIGURE_4,
    local_regret.FIGURE_1,
    local_mechanisms.FIGURE_2,
    local_mechanisms.FIGURE_4,
    local_mechanisms.FIGURE_5,
    local_mechanisms.FIGURE_6,
    local_regret.FIGURE_7,
    local_histograms.FIGURE_8,
    local_histograms.FIGURE_9,
    offline_gap.FIGURE_1A,
    offline_gap.FIGURE_1B,
    shuffle_regret.FIGURE_6A,
    shuffle_regret.FIGURE_6B,
    shuffle_regret.FIGURE_6C,
    shuffle_regret.FIGURE_7,
    shuffle_regret.FIGURE_8,
    adversarial_regret.EXPERIMENT,
)
FIGURES: dict[str, Figure] = {figure.name: figure for figure in _ALL}


def find_figure(name: str) -> Figure:
    """The figure of that name, or an error with the nearest names."""
    if name not in FIGURES:
        raise unknown_name("figure", name, FIGURES)
    return FIGURES[name]

"""The papers' figures, through the public names only: what was claimed, what was measured, and what differs.

``FIGURES`` holds all of them by name, in the order of the papers; those without jobs are lists of statements.
"""

from __future__ import annotations

from discreet.base.errors import check_name
from experiments.papers import (
    adversarial,
    adversarial_checks,
    beyond,
    heavy_tailed,
    local,
    local_counts,
    offline,
    shuffle,
)
from experiments.papers.figure import Claim, Figure, Job, Number, Scale
from experiments.papers.run import Reproduction, reproduce

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        *heavy_tailed.FIGURES,
        *local.FIGURES,
        *local_counts.FIGURES,
        *offline.FIGURES,
        *shuffle.FIGURES,
        *adversarial.FIGURES,
        *beyond.FIGURES,
        heavy_tailed.LOWER_BOUNDS,
        adversarial_checks.CHECKS,
    )
}


def find_figure(name: str) -> Figure:
    """The figure of that name, or an error with the nearest names."""
    check_name("figure", name, FIGURES)
    return FIGURES[name]


__all__ = ["FIGURES", "Claim", "Figure", "Job", "Number", "Reproduction", "Scale", "find_figure", "reproduce"]

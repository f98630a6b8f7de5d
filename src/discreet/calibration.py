"""``calibrate``: what a target will cost, before anything runs and without any data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from discreet.accumulators.schedule import sizes
from discreet.learners.base import Learner
from discreet.privacy.guarantee import Guarantee, describe_law, describe_sensitivity, finite_or_none
from discreet.privatizers.channel import widths
from discreet.privatizers.recipes import build
from discreet.privatizers.trust import Privacy
from discreet.shape import Shape
from discreet.validation import check_count, check_open_unit


@dataclass(frozen=True)
class StatisticError:
    """The noise in one count of a statistic: in one release, and in the sum of all of them if no row is masked."""

    statistic: str
    cells: int
    sd_release: float
    sd_end: float
    width_end: float


@dataclass(frozen=True)
class Calibration:
    """The recipe, its noise and its guarantee for a target; everything is computed from public inputs."""

    recipe: str
    sensitivity: str
    law: str
    releases: int
    errors: tuple[StatisticError, ...]
    failure_probability: float
    guarantee: Guarantee

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "recipe": self.recipe,
            "sensitivity": self.sensitivity,
            "law": self.law,
            "releases": self.releases,
            "failure_probability": self.failure_probability,
            "errors": [
                {
                    "statistic": error.statistic,
                    "cells": error.cells,
                    "sd_release": finite_or_none(error.sd_release),
                    "sd_end": finite_or_none(error.sd_end),
                    "width_end": finite_or_none(error.width_end),
                }
                for error in self.errors
            ],
            "guarantee": self.guarantee.as_dict(),
        }


def calibrate(
    privacy: Privacy, shape: Shape, *, learner: Learner | None = None, episodes: int, failure_probability: float = 0.1
) -> Calibration:
    """Noise scale, error widths and guarantee of a target, before anything runs.

    ``width_end`` bounds the noise in one count at the end with the given failure probability, by the exact law of the
    noise (a row that the policies never play carries less, see the policy mask).
    """
    check_count("episodes", episodes)
    check_open_unit("failure_probability", failure_probability)
    privatizer = build(privacy, shape, episodes, () if learner is None else learner.needs)
    releases = len(sizes(privatizer.schedule, episodes))
    errors = []
    for channel in privatizer.channels:
        import numpy as np

        draws_once = 1
        draws_end = {"total": episodes, "tree": episodes.bit_length()}.get(channel.accumulator.name, releases)
        for name, statistic in channel.encoder.marginals(np.zeros(channel.encoder.size)).items():
            cells = int(statistic.cells.max())
            unit = channel.law.variance * cells
            width = float(widths(channel.law, np.array([cells * draws_end]), failure_probability)[0])
            errors.append(StatisticError(name, cells, math.sqrt(unit * draws_once), math.sqrt(unit * draws_end), width))
    channel = privatizer.channels[0]
    return Calibration(
        privatizer.recipe,
        describe_sensitivity(channel.encoder.sensitivity()),
        describe_law(channel.law),
        releases,
        tuple(errors),
        failure_probability,
        privatizer.guarantee,
    )

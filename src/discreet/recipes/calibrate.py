"""``calibrate``: what a target will cost, before anything runs and without any data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from discreet.base.notebook import counted, one_line, table_html
from discreet.base.policies import Policy
from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.base.validation import check_count, check_open_unit
from discreet.mechanisms.counts.encoder import Context, Encoder
from discreet.mechanisms.counts.first_visit_question import AskedFirstVisit
from discreet.mechanisms.mechanism import AnyChannel
from discreet.mechanisms.release import Estimate
from discreet.mechanisms.schedule import sizes
from discreet.mechanisms.sparse import SparseChannel, SparseTable
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.privacy.guarantee import Guarantee, Reason, finite_or_none
from discreet.recipes.registry import Target, build


class HasNeeds(Protocol):
    """A learner, as far as its recipe is concerned."""

    @property
    def needs(self) -> frozenset[str]:
        """The statistics that it uses."""


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

    def __repr__(self) -> str:
        return one_line("Calibration", self.recipe, counted(self.releases, "release"), self.guarantee.brief())

    def _repr_html_(self) -> str:
        rows = [
            [error.statistic, f"{error.cells:,}", f"{error.sd_release:.4g}", f"{error.sd_end:.4g}"]
            for error in self.errors
        ]
        note = f"{self.law}; {self.guarantee.statement()}"
        return table_html(
            self.recipe, ["noise in one count of", "cells", "sd per release", "sd at the end"], rows, note
        )

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
    privacy: Target, shape: Shape, *, learner: HasNeeds | None = None, episodes: int, failure_probability: float = 0.1,
    data_set: bool = False,
) -> Calibration:  # fmt: skip
    """Noise scale, error widths and guarantee of a target, before anything runs.

    ``width_end`` bounds the noise in one count at the end with the given failure probability, by the exact law of the
    noise (a row that the policies never play carries less, see the policy mask). ``data_set`` asks for one release
    about users who have acted already, as ``offline.train`` makes.

    Args:
        privacy: A trust model, a mechanism of your own, or a function that makes one.
        shape: The public sizes of the problem.
        learner: Whose needs the mechanism must serve; those of UCBVI if there is none.
        episodes: How many users will act.
        failure_probability: With which the stated widths may be exceeded.
        data_set: See above.

    Examples:
        >>> import discreet
        >>> found = discreet.calibrate(discreet.Central(1.0, 1e-5), discreet.Shape(4, 2, 6), episodes=1_000)
        >>> found.recipe, found.guarantee.model
        ('central/two-tables-matrix', 'joint')
    """
    episodes = check_count("episodes", episodes)
    failure_probability = check_open_unit("failure_probability", failure_probability)
    privatizer = build(privacy, shape, episodes, () if learner is None else learner.needs, data_set=data_set)
    blocks = sizes(privatizer.schedule, episodes)
    errors = [
        error for channel in privatizer.channels for error in _errors(channel, shape, blocks, failure_probability)
    ]
    reasons = privatizer.guarantee.derivation
    return Calibration(
        privatizer.recipe,
        _in_short(_statements(reasons, "sensitivity")),
        _in_short(_statements(reasons, "law")),
        len(blocks),
        tuple(errors),
        failure_probability,
        privatizer.guarantee,
    )


def _errors(channel: AnyChannel, shape: Shape, blocks: list[int], failure_probability: float) -> list[StatisticError]:
    """Let the channel count its own noise: nobody visits anything, and nothing is masked."""
    run = channel.start(shape, SimulatedNoise(np.random.default_rng(0)), masked=False)
    # One that plays the first action serves every channel: those that are for one action, too.
    first_action = Policy(np.zeros((shape.horizon, shape.states), np.int64))
    context = Context(first_action)
    first: dict[str, Estimate] = {}
    for block in channel.shortcut(blocks):
        run.add(_nobody(channel.encoder, block), block, context)
        first = first or run.estimates()
    cells, width_of = channel.cells_per_count(), run.width_now()
    sparse = isinstance(channel, SparseChannel)  # states the noise of one cell: how many of a count leave is not known
    return [
        StatisticError(
            name,
            cells[name],
            math.sqrt(first[name].variance.max() * (cells[name] if sparse else 1)),
            math.sqrt(estimate.variance.max() * (cells[name] if sparse else 1)),
            float(width_of(cells[name], failure_probability).max()),
        )
        for name, estimate in run.estimates().items()
        if name in cells
    ]


def _nobody(encoder: Encoder, users: int) -> Floats:
    """The tally of users who visit nothing.

    Where each is asked about one row, either question about a row goes to one user in 2 S: as many as on average over
    the rows of a policy that says one action.
    """
    if isinstance(encoder, SparseTable):
        return np.zeros((0, 2))  # rows (cell, count)
    tally = np.zeros(encoder.size)
    if isinstance(encoder, AskedFirstVisit):
        encoder.split(tally)[1][:] = math.ceil(users / (2 * encoder.shape.states))
    return tally


def _in_short(statements: list[str]) -> str:
    """All of a few; of a long list the first and the last, because recipes list their releases from small to large."""
    distinct = list(dict.fromkeys(statements))
    if len(distinct) <= 2:
        return "; ".join(distinct)
    return f"from {distinct[0]} up to {distinct[-1]} ({len(distinct)} cases)"


def _statements(reason: Reason, rule: str) -> list[str]:
    own = [reason.statement] if reason.rule == rule else []
    return own + [statement for premise in reason.premises for statement in _statements(premise, rule)]

"""``offline.plan``: what can be expected of a data set, for several epsilons and numbers of users, before any is spent.

Nothing here sees data. For every target the noise is computed, and data sets of random worlds of the declared shape
(:mod:`discreet.worlds.random_worlds`) are learned from and judged as ``train(..., holdout=)`` would: the gap to the
best policy, the width of intervals and how often anything could be told are averages over those worlds. Yours is
another one, so read them as orders of magnitude, and compare rows with each other.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.notebook import counted, one_line, table_html
from discreet.base.policies import Mixture, Policy, uniform_policy
from discreet.base.shape import Shape, check_size
from discreet.base.types import Mask
from discreet.base.validation import check_count, check_positive
from discreet.learners.apvi import APVI
from discreet.learners.base import Problem
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.recipes.targets import Central, NoPrivacy
from discreet.simulation.data_sets import learn, privatizer_for
from discreet.simulation.progress import progress_bar
from discreet.tables.evaluation.model_users import imagined_users
from discreet.tables.evaluation.policy_value import judge, shares_of
from discreet.tables.evaluation.released_model import Model, has_table, model_of
from discreet.tables.evaluation.return_bounds import limits_of
from discreet.tables.evaluation.split import part_size
from discreet.tables.evaluation.start_distribution import first_states
from discreet.tables.evaluation.verdict import verdict_of
from discreet.tables.in_memory_users import PathUsers
from discreet.tables.read.user_subsets import Paths
from discreet.worlds.random_worlds import worlds_of_shape
from discreet.worlds.tabular import TabularWorld


@dataclass(frozen=True)
class Expected:
    """What to expect of one number of users at one epsilon (None: no privacy)."""

    users: int
    epsilon: float | None
    noise: float  # standard deviation of the noise in the count of one row (state, action)
    per_row: float  # how many users such a row holds on average
    shown: float  # the share of rows that stand out from the noise
    gap: float  # how much worse than the best policy, as a share of what uniform play misses
    width: float  # of the interval of the value, as a share of the range of values
    told: float  # how often it could be said that the policy is better, or worse, than the behaviour


@dataclass(frozen=True)
class Plan:
    """The table of expectations, row by row, and what it was computed for.

    Args:
        shape: The sizes that it is about.
        rows: One for each number of users and epsilon.
        delta: Of all rows.
        holdout: The share of users who judge.
        cells: Noisy numbers of the release.
        runs: Worlds of each kind behind an average.

    Examples:
        >>> import discreet
        >>> made = discreet.offline.plan(discreet.Shape(2, 2, 2), users=200, epsilons=[1.0], runs=1)
        >>> [row.epsilon for row in made.rows]
        [1.0, None]
    """

    shape: Shape
    rows: tuple[Expected, ...]
    delta: float
    holdout: float
    cells: int
    runs: int

    def __repr__(self) -> str:
        sizes = (counted(self.shape.states, "state"), counted(self.shape.actions, "action"))
        return one_line("Plan", counted(len(self.rows), "row"), *sizes, counted(self.shape.horizon, "step"))

    def _repr_html_(self) -> str:
        columns = ["users", "epsilon", "noise in a row", "users in a row", "missed", "width", "told"]
        rows = [
            [
                f"{row.users:,}",
                "none" if row.epsilon is None else f"{row.epsilon:g}",
                f"{row.noise:.3g}",
                f"{row.per_row:.3g}",
                *(f"{share:.0%}" for share in (row.gap, row.width, row.told)),
            ]
            for row in self.rows
        ]
        return table_html("What to expect", columns, rows, f"{self.cells:,} noisy counts, delta {self.delta:g}")

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        shape = self.shape
        return {
            "shape": {"states": shape.states, "actions": shape.actions, "horizon": shape.horizon,
                      "homogeneous": shape.homogeneous, "rewards": list(shape.rewards)},
            "delta": self.delta, "holdout": self.holdout, "cells": self.cells, "runs": self.runs,
            "rows": [asdict(row) for row in self.rows],
        }  # fmt: skip

    def plot(self, path: str | os.PathLike[str] | None = None, *, ax: Any = None, theme: str | None = None) -> Any:
        """Draw the expected gap and the expected width against epsilon, and return the two axes.

        With a path (.png, .svg, .pdf) the picture is written there; ``ax`` are two axes of yours to draw into.
        """
        from discreet.tables.interval_plots import plot_plan

        return plot_plan(self, path, ax=ax, theme=theme)


def plan(
    shape: Shape,
    *,
    users: int | Sequence[int],
    epsilons: float | Sequence[float] = (0.5, 1.0, 2.0, 4.0),
    delta: float = 0.0,
    holdout: float = 0.35,
    returns: tuple[float, float] | None = None,
    runs: int = 2,
    seed: int = 0,
    progress: bool = False,
) -> Plan:
    """Noise against counts, the gap and the intervals to be expected: a rehearsal that sees no data and costs nothing.

    Every row is an average over ``runs`` worlds of each kind, whose users act uniformly at random; a last row for each
    number of users has no privacy.

    Args:
        shape: The public sizes of the table.
        users: How many there are, or several numbers to compare.
        epsilons: To compare.
        delta: Of all rows.
        holdout: The share of users who judge.
        returns: The range of the sum of rewards from any step on.
        runs: Worlds of each kind.
        seed: The seed of all randomness.
        progress: Show how far it is.

    Examples:
        >>> import discreet
        >>> made = discreet.offline.plan(discreet.Shape(2, 2, 2), users=200, epsilons=[1.0], runs=1)
        >>> made.rows[0].users
        200
    """
    if not isinstance(shape, Shape):
        raise InvalidInput(f"plan needs a Shape (states, actions, horizon), got {type(shape).__name__}")
    check_size(shape, successors=True)
    many = [check_count("users", each, at_least=10) for each in ([users] if isinstance(users, int) else users)]
    asked = [epsilons] if isinstance(epsilons, int | float) else epsilons
    targets: list[float | None] = [check_positive("epsilon", each) for each in asked]
    if not many or not targets:
        raise InvalidInput("plan compares at least one number of users and one epsilon: give users= and epsilons=")
    families, runs = worlds_of_shape(shape), check_count("runs", runs)
    rows, cells = [], 0
    with progress_bar("rehearsing", len(many) * (len(targets) + 1) * len(families) * runs, progress) as tick:
        for count in many:
            for epsilon in [*targets, None]:
                privatizer = _table(shape, epsilon, delta, count - part_size(count, holdout))
                cells = sum(part.cells for channel in privatizer.channels for part in channel.mechanisms())
                found = []
                for number, family in enumerate(families):
                    for run in range(runs):
                        world = family.draw(1000 * seed + run)
                        found.append(
                            _rehearsed(world, count, epsilon, holdout, privatizer, returns, [seed, number, run])
                        )
                        tick(1)
                rows.append(Expected(count, epsilon, *np.mean(found, axis=0).tolist()))
    return Plan(shape, tuple(rows), delta, holdout, cells, runs * len(families))


def _table(shape: Shape, epsilon: float | None, delta: float, users: int) -> Privatizer:
    target = NoPrivacy() if epsilon is None else Central(epsilon, delta)
    return privatizer_for(APVI(), target, shape, users)


def _rehearsed(
    world: TabularWorld, users: int, epsilon: float | None, holdout: float, privatizer: Privatizer,
    returns: tuple[float, float] | None, seed: list[int],
) -> list[float]:  # fmt: skip
    """One data set of one world: noise, users per row, shown rows, gap, width, and whether anything could be told."""
    shape, rng = world.shape, np.random.default_rng([*seed, users])
    limits = limits_of(shape, False, returns).of_records(shape)
    behaviour = uniform_policy(shape).probabilities
    acted = imagined_users(_model(world, users), behaviour, shape, users, int(rng.integers(2**31)))
    judging = np.zeros(users, np.bool_)
    judging[rng.permutation(users)[: part_size(users, holdout)]] = True
    first, second = _of(acted, ~judging), _of(acted, judging)
    noise, problem = SimulatedNoise(rng), Problem(shape, first.users)
    session = privatizer.open(PathUsers(first, shape, True, rng), noise, first.users)
    learner = APVI()
    state, release = learn(learner, session, problem, np.zeros(1, np.uint64))
    if not has_table(release):
        raise Unsupported("a table of this shape is too large to rehearse: merge states, or declare homogeneous=True")
    policy = learner.policy(state)
    spent = math.inf if epsilon is None else epsilon
    start = first_states(second, shape.states, 0.05 * spent, noise).shares if shape.homogeneous else None
    model = model_of(shape, release, True, first.users, start)
    if isinstance(policy, Mixture):
        raise Unsupported("a mixture of policies cannot be judged: choose another learner")
    table = (policy.stochastic(shape.actions) if isinstance(policy, Policy) else policy).probabilities
    judged = judge(second, shape, limits, table, behaviour, model, shares_of(spent), noise)
    told = verdict_of(judged.difference, judged.causes).word in ("better", "worse")
    missed = max(world.gap(uniform_policy(shape)), 1e-12)
    return [
        math.sqrt(float(model.visit_variance.max())),
        float(np.maximum(model.visits, 0.0).mean()),
        float(model.shown.mean()),
        world.gap(policy) / missed,
        judged.value.width / limits.span,
        float(told),
    ]


def _model(world: TabularWorld, users: int) -> Model:
    """A known world in the form of a released model, so that users can be imagined in it."""
    P, means = np.asarray(world.transitions), np.asarray(world.means)
    rows = np.concatenate([P, np.zeros((*P.shape[:3], 1))], axis=3)
    zero = np.zeros(means.shape)
    start = np.asarray(world.start)
    return Model(zero, zero, 0.0, rows, rows, means, means, zero, zero == 0, start, users, world.shape.horizon)


def _of(paths: Paths, chosen: Mask) -> Paths:
    """The trajectories of some users, numbered anew."""
    kept, number = chosen[paths.user], np.cumsum(chosen) - 1
    return Paths(
        int(chosen.sum()), number[paths.user[kept]], paths.step[kept], paths.state[kept], paths.action[kept],
        paths.successor[kept], paths.reward[kept],
    )  # fmt: skip

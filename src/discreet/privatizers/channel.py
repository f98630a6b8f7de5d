"""A privatizer: channels over the same users, the session that answers requests, and nothing that leaks.

``Privatizer`` is frozen data: what is released, with which noise, under which guarantee. ``open`` starts a
``Session``, the one object that holds raw tallies on their way to a release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accumulators.base import Accumulator, NoiseSource, Run
from discreet.accumulators.schedule import Schedule
from discreet.encoders.base import Context, Encoder, playable_rows
from discreet.errors import Unsupported
from discreet.privacy.guarantee import Guarantee
from discreet.release import Estimate, Release, Request
from discreet.shape import Shape
from discreet.trajectories import Users


@dataclass(frozen=True)
class Channel:
    """One statistic's way out: encoder, law of the noise, accumulator, and its share of the budget."""

    encoder: Encoder
    law: Any
    accumulator: Accumulator
    share: float = 1.0

    def __post_init__(self) -> None:
        if not getattr(self.encoder, "rounded", True) and self.law.discrete and self.law.variance > 0:
            raise Unsupported(
                f"{type(self.law).__name__} noise hides whole numbers only, and {self.encoder.name} counts would be "
                "fractions: encode rewards as bits (rounded=True)"
            )


@dataclass(frozen=True)
class Privatizer:
    """What leaves, with which noise, under which guarantee. ``masked``: known zeros carry no noise."""

    recipe: str
    shape: Shape
    channels: tuple[Channel, ...]
    schedule: Schedule
    guarantee: Guarantee
    masked: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def statistics(self) -> frozenset[str]:
        """The statistics that a release has."""
        return frozenset().union(*(channel.encoder.statistics for channel in self.channels))

    def check(self, needs: frozenset[str]) -> None:
        """Refuse a learner that needs what this recipe does not release."""
        missing = needs - self.statistics
        if missing:
            raise Unsupported(f"recipe {self.recipe!r} does not release {', '.join(sorted(missing))}, which the learner needs")

    def open(self, users: Users, noise: NoiseSource, total_users: int) -> Session:
        """Start answering requests about these users."""
        return Session(self, users, noise, total_users)


class Session:
    """Answers requests: hands the policy to the users, tallies, adds noise, releases. Holds no raw record."""

    def __init__(self, privatizer: Privatizer, users: Users, noise: NoiseSource, total_users: int) -> None:
        shape = privatizer.shape
        self.privatizer, self.total_users, self.served = privatizer, total_users, 0
        self._users = users
        self._guarantee = replace(privatizer.guarantee, simulated=noise.simulated)
        self._runs: list[Run] = [
            channel.accumulator.start(
                channel.encoder.size, (shape.groups, shape.states, shape.actions), channel.law, noise
            )
            for channel in privatizer.channels
        ]

    @property
    def left(self) -> int:
        """How many users have not been asked yet."""
        return self.total_users - self.served

    def answer(self, request: Request) -> Release:
        """Let users act under the request's policy and release what they leave behind."""
        if request.what is not None:
            raise Unsupported(f"recipe {self.privatizer.recipe!r} answers whole tables only, not a {type(request.what).__name__} request")
        users = request.users or self.privatizer.schedule.next_block(self.served, self.total_users)
        if users > self.left:
            raise Unsupported(f"a request for {users} users with {self.left} left")
        context = Context(request.policy, request.what)
        encoders = [channel.encoder for channel in self.privatizer.channels]
        tallies = self._users.tally(encoders, context, users)
        for encoder, run, tally in zip(encoders, self._runs, tallies, strict=True):
            run.add(tally, users, *self._not_known_zero(encoder, context))
        self.served += users
        return self._release()

    def _not_known_zero(self, encoder: Encoder, context: Context) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        shape = self.privatizer.shape
        rows = np.ones((shape.groups, shape.states, shape.actions), np.bool_)
        if self.privatizer.masked:
            rows = playable_rows(shape, context.policy)
        return rows, encoder.rows_to_cells(rows) & encoder.possible()

    def _release(self) -> Release:
        statistics: dict[str, Estimate] = {}
        for channel, run in zip(self.privatizer.channels, self._runs, strict=True):
            unit = channel.law.variance * run.copies
            for name, statistic in channel.encoder.marginals(run.values).items():
                statistics[name] = Estimate(statistic.values.copy(), unit * statistic.cells)
        law, copies = self.privatizer.channels[0].law, self._runs[0].copies.copy()

        def width_of(cells_summed: int, failure_probability: float) -> NDArray[np.float64]:
            return widths(law, copies * cells_summed, failure_probability)

        return Release(statistics, self.served, self._guarantee, width_of)


def widths(law: Any, copies: NDArray[np.int64], failure_probability: float) -> NDArray[np.float64]:
    """The exact quantile of the noise in each entry, computed once per distinct number of draws."""
    distinct, where = np.unique(copies, return_inverse=True)
    quantiles = [0.0 if n == 0 else float(law.sum_quantile(int(n), failure_probability)) for n in distinct]
    return np.asarray(quantiles)[where].reshape(copies.shape)

"""A privatizer: channels over the same users, the session that answers requests, and nothing that leaks.

``Privatizer`` is frozen data: what is released, with which noise, under which guarantee. ``open`` starts a
``Session``, the one object that holds raw tallies on their way to a release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.accumulators.base import Accumulator, NoiseSource, Run
from discreet.accumulators.schedule import Schedule
from discreet.accumulators.sums import Blocks, Total
from discreet.encoders.base import Context, Encoder, Statistic, playable_rows
from discreet.errors import Unsupported
from discreet.privacy.guarantee import Guarantee
from discreet.release import Estimate, Release, Request
from discreet.shape import Shape
from discreet.trajectories import Users

WidthOf = Callable[[int, float], NDArray[np.float64]]
RadiusOf = Callable[[str, float], NDArray[np.float64]]


class ChannelRun(Protocol):
    """A channel at work: takes in tallies, gives out estimates."""

    def add(self, tally: NDArray[np.float64], users: int, context: Context) -> None:
        """Take in the sum of the encodings of some users who acted under the context's policy."""

    def estimates(self) -> dict[str, Estimate]:
        """The statistics released so far, with the variance of their noise."""

    def width_now(self) -> WidthOf:
        """The bound on the noise in a sum of cells of each row, as it is now: it must not hold on to the run."""


class AnyChannel(Protocol):
    """One statistic's way out. ``answers`` are the kinds of narrow requests (Layer, Linear) that it can serve."""

    @property
    def answers(self) -> frozenset[type]:
        """Layer, Linear, or nothing."""

    @property
    def encoder(self) -> Encoder:
        """What is tallied."""

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ChannelRun:
        """Begin a run. ``masked``: counts that the public policy makes known zeros carry no noise."""

    def noise_per_row(self) -> float:
        """The noise variance in all counts of one (state, action) of one release; "auto" makes it small."""

    def cells(self) -> dict[str, int]:
        """How many noisy cells a count of each statistic sums, at most."""

    def shortcut(self, blocks: list[int]) -> list[int]:
        """Fewer blocks, the first one kept, that leave as much noise in the last release as these do."""


@dataclass(frozen=True)
class Channel:
    """A channel with additive noise: encoder, law, accumulator, and its share of the budget."""

    encoder: Encoder
    law: Any
    accumulator: Accumulator
    share: float = 1.0
    answers: frozenset[type] = frozenset()

    def __post_init__(self) -> None:
        if not getattr(self.encoder, "rounded", True) and self.law.discrete and self.law.variance > 0:
            raise Unsupported(
                f"{type(self.law).__name__} noise hides whole numbers only, and {self.encoder.name} counts would be "
                "fractions: encode rewards as bits (rounded=True)"
            )

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> AdditiveRun:
        return AdditiveRun(self, shape, noise, masked)

    def noise_per_row(self) -> float:
        counts = (
            float(statistic.cells.mean()) * statistic.values[0, 0, 0].size for statistic in self._marginals().values()
        )
        return float(self.law.variance * sum(counts))

    def cells(self) -> dict[str, int]:
        return {name: int(statistic.cells.max()) for name, statistic in self._marginals().items()}

    def shortcut(self, blocks: list[int]) -> list[int]:
        if isinstance(self.accumulator, Total) and len(blocks) > 1:
            return [blocks[0], sum(blocks[1:])]  # noise is counted by users, not by releases
        return blocks

    def _marginals(self) -> dict[str, Statistic]:
        return self.encoder.marginals(np.zeros(self.encoder.size))


class AdditiveRun:
    """Cells with additive noise, accumulated; statistics are sums of cells."""

    def __init__(self, channel: Channel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        rows = (shape.groups, shape.states, shape.actions)
        self._channel, self._shape, self._masked = channel, shape, masked
        self._run: Run = channel.accumulator.start(channel.encoder.size, rows, channel.law, noise)

    def add(self, tally: NDArray[np.float64], users: int, context: Context) -> None:
        encoder = self._channel.encoder
        rows = np.ones(self._run.copies.shape, np.bool_)
        if self._masked:
            rows = playable_rows(self._shape, context.policy)
        self._run.add(tally, users, rows, encoder.rows_to_cells(rows) & encoder.possible())

    def estimates(self) -> dict[str, Estimate]:
        unit = self._channel.law.variance * self._run.copies
        return {
            name: Estimate(statistic.values.copy(), unit * statistic.cells)
            for name, statistic in self._channel.encoder.marginals(self._run.values).items()
        }

    def width_now(self) -> WidthOf:
        law, copies = self._channel.law, self._run.copies.copy()
        return lambda cells_summed, failure_probability: widths(law, copies * cells_summed, failure_probability)

    def radius_now(self) -> RadiusOf | None:
        """A bound that holds always: the clock of a row counts its own draws, whatever policies let it run.

        Sums of fresh draws only: the noise of a tree comes and goes.
        """
        if not isinstance(self._channel.accumulator, Blocks | Total):
            return None
        law, copies = self._channel.law, self._run.copies.copy()
        cells = self._channel.cells()
        cells["followed"] = cells.get("transitions", 0) * self._shape.states
        return lambda statistic, failure_probability: np.asarray(
            law.anytime_radius(copies * cells[statistic], failure_probability)
        )


@dataclass(frozen=True)
class Privatizer:
    """What leaves, with which noise, under which guarantee. ``masked``: known zeros carry no noise."""

    recipe: str
    shape: Shape
    channels: tuple[AnyChannel, ...]
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
            raise Unsupported(
                f"recipe {self.recipe!r} does not release {', '.join(sorted(missing))}, which the learner needs"
            )

    def open(self, users: Users, noise: NoiseSource, total_users: int) -> Session:
        """Start answering requests about these users."""
        return Session(self, users, noise, total_users)


class Session:
    """Answers requests: hands the policy to the users, tallies, adds noise, releases. Holds no raw record."""

    def __init__(self, privatizer: Privatizer, users: Users, noise: NoiseSource, total_users: int) -> None:
        self.privatizer, self.total_users, self.served = privatizer, total_users, 0
        self._users = users
        self._guarantee = replace(privatizer.guarantee, simulated=noise.simulated)
        self._runs = [channel.start(privatizer.shape, noise, privatizer.masked) for channel in privatizer.channels]

    @property
    def left(self) -> int:
        """How many users have not been asked yet."""
        return self.total_users - self.served

    def answer(self, request: Request) -> Release:
        """Let users act under the request's policy and release what they leave behind."""
        users = self._check(request)
        context = Context(request.policy, request.what)
        # A run whose thresholds follow its own releases says what the next users are encoded with.
        encoders = [
            getattr(run, "encoder", channel.encoder)
            for run, channel in zip(self._runs, self.privatizer.channels, strict=True)
        ]
        tallies = self._users.tally(encoders, context, users)
        for run, tally in zip(self._runs, tallies, strict=True):
            run.add(tally, users, context)
        self.served += users
        return self._release()

    def _check(self, request: Request) -> int:
        kind = type(request.what)
        if request.what is not None and not all(kind in channel.answers for channel in self.privatizer.channels):
            raise Unsupported(
                f"recipe {self.privatizer.recipe!r} answers whole tables only, not a {kind.__name__} request"
            )
        users = request.users or self.privatizer.schedule.next_block(self.served, self.total_users)
        if users > self.left:
            raise Unsupported(f"a request for {users} users with {self.left} left")
        return users

    def _release(self) -> Release:
        statistics = {name: estimate for run in self._runs for name, estimate in run.estimates().items()}
        radius_of = None
        if len(self._runs) == 1 and hasattr(self._runs[0], "radius_now"):
            radius_of = self._runs[0].radius_now()
        public: dict[str, NDArray[np.float64]] = {}
        for run, channel in zip(self._runs, self.privatizer.channels, strict=True):
            public |= getattr(run, "public", getattr(channel.encoder, "public", {}))
        return Release(
            statistics, self.served, self._guarantee, self._runs[0].width_now(), public=public, radius_of=radius_of
        )


def widths(law: Any, copies: NDArray[np.int64], failure_probability: float) -> NDArray[np.float64]:
    """The exact quantile of the noise in each entry, computed once per distinct number of draws."""
    distinct, where = np.unique(copies, return_inverse=True)
    quantiles = [0.0 if n == 0 else float(law.sum_quantile(int(n), failure_probability)) for n in distinct]
    return np.asarray(quantiles)[where].reshape(copies.shape)

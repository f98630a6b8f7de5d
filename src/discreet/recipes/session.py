"""A privatizer: channels over the same users, the session that answers requests, and nothing that leaks.

``Privatizer`` is frozen data: what is released, with which noise, under which guarantee. ``open`` starts a
``Session``, the one object that holds raw tallies on their way to a release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from discreet.accumulators.base import NoiseSource
from discreet.accumulators.schedule import SameUsers, Schedule
from discreet.channels.base import AnyChannel
from discreet.encoders.base import Context
from discreet.errors import Unsupported
from discreet.privacy.guarantee import Guarantee
from discreet.release import Release, Request
from discreet.shape import Shape
from discreet.trajectories import Users
from discreet.types import Floats


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
        if isinstance(self.privatizer.schedule, SameUsers):
            self.served = 0  # a question about users who have answered before
        if users > self.left:
            raise Unsupported(f"a request for {users} users with {self.left} left")
        return users

    def _release(self) -> Release:
        statistics = {name: estimate for run in self._runs for name, estimate in run.estimates().items()}
        radius_of = None
        if len(self._runs) == 1 and hasattr(self._runs[0], "radius_now"):
            radius_of = self._runs[0].radius_now()
        public: dict[str, Floats] = {}
        for run, channel in zip(self._runs, self.privatizer.channels, strict=True):
            public |= getattr(run, "public", getattr(channel.encoder, "public", {}))
        return Release(
            statistics, self.served, self._guarantee, self._runs[0].width_now(), public=public, radius_of=radius_of
        )

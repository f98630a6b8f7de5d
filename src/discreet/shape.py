"""The public description of a decision problem: the only thing a mechanism may know before it sees a user."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.errors import InvalidInput
from discreet.validation import check_count, check_positive, check_range


@dataclass(frozen=True)
class Moments:
    """A public bound on heavy-tailed rewards: E|X|^(1 + order) <= bound, with ``order`` v in (0, 1] and ``bound`` u."""

    bound: float
    order: float

    def __post_init__(self) -> None:
        check_positive("bound of the moment", self.bound)
        if not 0 < self.order <= 1:
            raise InvalidInput(f"order of the moment must lie in (0, 1], got {self.order!r}")


@dataclass(frozen=True)
class Shape:
    """Public inputs of every mechanism; declared, never read off the data.

    ``homogeneous`` declares that transition and reward laws do not depend on the step: counts may then be pooled over
    steps (one *group* of counts instead of one per step). ``rewards`` is the range that every reward is clipped to
    before it is encoded. ``start`` is the start state if everybody's is the same and public, otherwise None.

    ``moments`` declares heavy-tailed rewards: there is no range that holds every reward, only a bound on a moment of
    order 1 + v. ``rewards`` is then the range (-tau, tau) of the *mean* rewards, and only recipes made for heavy tails
    serve the shape.
    """

    states: int
    actions: int
    horizon: int
    homogeneous: bool = False
    rewards: tuple[float, float] = (0.0, 1.0)
    start: int | None = None
    moments: Moments | None = None

    def __post_init__(self) -> None:
        check_count("states", self.states)
        check_count("actions", self.actions)
        check_count("horizon", self.horizon)
        object.__setattr__(self, "rewards", check_range("rewards", self.rewards))
        if self.start is not None and not 0 <= self.start < self.states:
            raise InvalidInput(f"start must be a state in 0..{self.states - 1}, got {self.start!r}")

    @property
    def groups(self) -> int:
        """How many separate models of the world there are: one, or one per step."""
        return 1 if self.homogeneous else self.horizon

    @property
    def reward_span(self) -> float:
        return self.rewards[1] - self.rewards[0]

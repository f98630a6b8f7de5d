"""The public description of a decision problem: the only thing a mechanism may know before it sees a user.

``LayeredShape`` is that of a loop-free layered problem: step h is taken in layer h, and layers differ in size. To
everything that counts per step it is an ordinary shape with one group per step and as many states as the largest layer
has; a state is numbered inside its layer. ``pair_mask`` and ``triple_mask`` say which entries of such a table exist;
picking them in order gives the flat tables of the adversarial slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.notebook import counted
from discreet.base.types import Mask
from discreet.base.validation import check_count, check_flag, check_positive, check_range, shown

_LARGEST_PLAN = 2**26  # (state, action, step): a table of floats over them takes half a gigabyte
_LARGEST_TABLE = 2**28  # (group, state, action, successor, bit): two gigabytes


@dataclass(frozen=True)
class Moments:
    """A public bound on heavy-tailed rewards: E|X|^(1 + order) <= bound, with ``order`` v in (0, 1] and ``bound`` u."""

    bound: float
    order: float

    def __post_init__(self) -> None:
        check_positive("bound of the moment", self.bound)
        if not check_positive("order of the moment", self.order) <= 1:
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

    Args:
        states: The number of states S.
        actions: The number of actions A.
        horizon: The number of steps H of an episode.
        homogeneous: Whether the model is stationary (time-homogeneous).
        rewards: The range of rewards.
        start: The state in which everybody starts, if that is public.
        moments: A bound on a moment, for rewards without a range.

    Examples:
        >>> import discreet
        >>> discreet.Shape(states=4, actions=2, horizon=6).groups
        6
        >>> discreet.Shape(states=4, actions=2, horizon=6, homogeneous=True).groups
        1
    """

    states: int
    actions: int
    horizon: int
    homogeneous: bool = False
    rewards: tuple[float, float] = (0.0, 1.0)
    start: int | None = None
    moments: Moments | None = None

    def __post_init__(self) -> None:
        for name in ("states", "actions", "horizon"):
            object.__setattr__(self, name, check_count(name, getattr(self, name)))
        check_flag("homogeneous", self.homogeneous)
        low, high = check_range("rewards", self.rewards)
        if not np.isfinite(high - low):
            raise InvalidInput(f"rewards must span a finite width, got {self.rewards!r}: rescale them")
        object.__setattr__(self, "rewards", (low, high))
        if self.start is not None and not (isinstance(self.start, int | np.integer) and 0 <= self.start < self.states):
            raise InvalidInput(f"start must be a state in 0..{self.states - 1}, got {shown(self.start)}")

    @property
    def groups(self) -> int:
        """How many separate models of the world there are: one, or one per step."""
        return 1 if self.homogeneous else self.horizon

    @property
    def reward_span(self) -> float:
        """The width of the declared range of rewards."""
        return self.rewards[1] - self.rewards[0]

    def words(self) -> str:
        """The sizes in a few words."""
        time = "the same at every step" if self.homogeneous else "per step"
        sizes = counted(self.states, "state"), counted(self.actions, "action"), counted(self.horizon, "step")
        return f"{', '.join(sizes)}, {time}"


def check_size(shape: Shape, *, successors: bool = False) -> None:
    """Refuse a shape whose tables no machine that this is made for can hold, before any of them is made.

    Every learner has a table over (state, action, step); with ``successors`` there is one over transitions too.
    """
    if not isinstance(shape, Shape):
        raise InvalidInput(f"shape must be a discreet.Shape, got {type(shape).__name__}: give the .shape of a world")
    S, A, H = shape.states, shape.actions, shape.horizon
    plan, rows = S * A * H, S * A * (S + 1) * 2
    if plan > _LARGEST_PLAN or (successors and shape.groups * rows > _LARGEST_TABLE):
        pooled = ", or declare that the laws are the same at every step"
        helps = plan <= _LARGEST_PLAN and rows <= _LARGEST_TABLE
        raise Unsupported(
            f"{S} states, {A} actions and {H} steps are more than fits in memory here: merge states or steps"
            + (pooled if helps else "")
        )


@dataclass(frozen=True)
class LayeredShape(Shape):
    """Layers of ``sizes`` states; the first and the last one have a single state, where episodes start and end.

    ``states`` and ``horizon`` cap the layers: ``replace(shape, horizon=2)`` is the same problem cut to two steps.

    >>> shape = layered_shape((1, 2, 3, 1), actions=2)
    >>> shape.horizon, shape.states, shape.pairs, shape.unknown
    (3, 3, 12, 16)
    """

    sizes: tuple[int, ...] = (1, 1)

    def __post_init__(self) -> None:
        given = tuple(check_count("sizes", size) for size in self.sizes)
        if len(given) < 2 or given[0] != 1 or given[-1] != 1:
            raise InvalidInput(
                f"sizes must list at least two layers of which the first and last have one state, got {given}"
            )
        check_count("states", self.states)
        if not check_count("horizon", self.horizon) < len(given):
            raise InvalidInput(f"horizon must be at most {len(given) - 1} with layers {given}, got {self.horizon}")
        inner = (min(size, self.states) for size in given[1 : self.horizon])
        object.__setattr__(self, "sizes", (1, *inner, 1))
        object.__setattr__(self, "states", max(self.sizes))
        super().__post_init__()
        if self.homogeneous or self.start != 0:
            raise InvalidInput("a layered problem has a law per step and starts in its only first state, number 0")

    @property
    def pairs(self) -> int:
        """How many pairs (x, a) there are in all layers together."""
        return sum(self.sizes[:-1]) * self.actions

    @property
    def unknown(self) -> int:
        """How many triples (x, a, x') have a probability that is not known beforehand: all but those into the end."""
        return sum(x * self.actions * y for x, y in pairwise(self.sizes[:-1]))

    @cached_property
    def pair_mask(self) -> Mask:
        """(H, S, A): which pairs exist."""
        mask = np.zeros((self.horizon, self.states, self.actions), np.bool_)
        for h, size in enumerate(self.sizes[:-1]):
            mask[h, :size] = True
        return mask

    @cached_property
    def triple_mask(self) -> Mask:
        """(H, S, A, S): which triples exist and have an unknown probability."""
        mask = np.zeros((self.horizon, self.states, self.actions, self.states), np.bool_)
        for h in range(self.horizon - 1):
            mask[h, : self.sizes[h], :, : self.sizes[h + 1]] = True
        return mask


def layered_shape(sizes: tuple[int, ...], actions: int) -> LayeredShape:
    """The shape of layers of these sizes."""
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise InvalidInput(f"sizes must list the states of every layer, got {shown(sizes)}")
    sizes = tuple(check_count("sizes", size) for size in sizes)
    horizon = max(len(sizes) - 1, 1)
    return LayeredShape(max(sizes, default=1), actions, horizon, start=0, sizes=sizes)

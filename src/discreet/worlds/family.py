"""Families of random worlds: a name, a public shape, and one world per seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from discreet.base.notebook import facts_html, one_line
from discreet.base.shape import Shape
from discreet.base.validation import check_count


@runtime_checkable
class World(Protocol):
    """A decision problem that is known exactly and can be simulated.

    Examples:
        >>> import discreet
        >>> world: discreet.worlds.World = discreet.worlds.river_swim(states=3)
        >>> world.shape.states
        3
    """

    @property
    def name(self) -> str:
        """The name of the world in results and pictures."""

    @property
    def shape(self) -> Shape:
        """Its public sizes."""

    @property
    def people(self) -> str:
        """Where its users come from in a simulation: ``"package.module:function"``, see ``simulation/block_loop``."""

    def with_time(self, homogeneous: bool) -> Any:
        """The same world declared time-homogeneous, or with separate laws per step."""


W = TypeVar("W", bound=World)


def shape_facts(shape: Shape) -> list[tuple[str, str]]:
    """The public sizes of a world, one by one, as a person reads them."""
    low, high = shape.rewards
    rewards = f"in [{low:g}, {high:g}]" if shape.moments is None else f"heavy tails, means in [{low:g}, {high:g}]"
    return [
        ("states", f"{shape.states:,}"),
        ("actions", f"{shape.actions:,}"),
        ("steps", f"{shape.horizon:,}, " + ("with the same laws" if shape.homogeneous else "each with its own laws")),
        ("rewards", rewards),
        ("start", "drawn at random" if shape.start is None else f"state {shape.start}"),
    ]


@dataclass(frozen=True)
class WorldFamily(Generic[W]):
    """Worlds drawn at random that share a shape; the same seed always gives the same world.

    Args:
        name: What results call it.
        shape: The shape of all of them, which learners are told.
        draw: The world of a seed.

    Examples:
        >>> import discreet
        >>> family = discreet.worlds.random_mdp(states=3)
        >>> type(family).__name__, family.draw(1).name == family.draw(1).name
        ('WorldFamily', True)
    """

    name: str
    shape: Shape
    draw: Callable[[int], W]

    def __repr__(self) -> str:
        return one_line("WorldFamily", self.name, self.shape.words(), "drawn anew for every run")

    def _repr_html_(self) -> str:
        return facts_html(f"Family of worlds {self.name}", [*shape_facts(self.shape), ("drawn", "anew for every run")])

    def instance(self, seed: int) -> W:
        """The world of this seed."""
        return self.draw(check_count("instance", seed, at_least=0))

    def with_time(self, homogeneous: bool) -> WorldFamily[W]:
        """The same worlds declared time-homogeneous, or with separate laws per step."""
        if homogeneous == self.shape.homogeneous or self.shape.horizon == 1:
            return self
        draw = self.draw
        shape = replace(self.shape, homogeneous=homogeneous)
        return WorldFamily(self.name, shape, lambda seed: draw(seed).with_time(homogeneous))


def family_or_member(family: WorldFamily[W], instance: int | None) -> W | WorldFamily[W]:
    """The family, or the one world of it that was asked for."""
    return family if instance is None else family.instance(instance)

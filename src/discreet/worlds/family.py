"""Families of random worlds: a name, a public shape, and one world per seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from discreet.shape import Shape
from discreet.validation import check_count
from discreet.worlds.tabular import TabularWorld


@dataclass(frozen=True)
class WorldFamily:
    """Worlds drawn at random that share a shape; the same seed always gives the same world."""

    name: str
    shape: Shape
    draw: Callable[[int], TabularWorld]

    def instance(self, seed: int) -> TabularWorld:
        """The world of this seed."""
        return self.draw(check_count("instance", seed, at_least=0))

    def with_time(self, homogeneous: bool) -> WorldFamily:
        """The same worlds declared time-homogeneous, or with separate laws per step."""
        if homogeneous == self.shape.homogeneous or self.shape.horizon == 1:
            return self
        draw = self.draw
        shape = replace(self.shape, homogeneous=homogeneous)
        return WorldFamily(self.name, shape, lambda seed: draw(seed).with_time(homogeneous))

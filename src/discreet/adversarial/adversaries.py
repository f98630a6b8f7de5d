"""Oblivious adversaries: they fix every episode's loss table before the first user acts.

A table gives each pair (x, a) of a layered world a loss in [0, 1]. ``tables(layers, episodes)`` returns all of them,
(episodes, states, actions); episode k of a shorter run is not episode k of a longer one where an adversary paces itself
by the number of episodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from discreet.adversarial.layers import Layers
from discreet.errors import InvalidInput, unknown_name
from discreet.streams import WORLD, generator
from discreet.types import Floats
from discreet.validation import check_array, check_count, check_positive


class Adversary(Protocol):
    """Who chooses the losses."""

    @property
    def name(self) -> str:
        """In a word."""

    def tables(self, layers: Layers, episodes: int) -> Floats:
        """The loss tables of all episodes, fixed beforehand."""


@dataclass(frozen=True, eq=False)
class FixedLosses:
    """The same table in every episode."""

    table: Floats
    name: ClassVar[str] = "fixed"

    def tables(self, layers: Layers, episodes: int) -> Floats:
        return np.broadcast_to(checked_table(layers, self.table), (episodes, layers.states, layers.actions))


@dataclass(frozen=True, eq=False)
class Switching:
    """Two tables in turn; the first change comes after a quarter of the episodes (``pieces`` = 4)."""

    first: Floats
    second: Floats
    pieces: int = 4
    name: ClassVar[str] = "switching"

    def tables(self, layers: Layers, episodes: int) -> Floats:
        pieces = check_count("pieces", self.pieces)
        turn = (np.arange(episodes) * pieces // episodes) % 2
        both = np.stack([checked_table(layers, self.first), checked_table(layers, self.second)])
        return both[turn]


@dataclass(frozen=True, eq=False)
class Drifting:
    """A mean per pair and a slow wave around it: mean / 2 + (1 + sin(2 pi (periods k / K + phase))) / 4.

    The means make policies differ in the long run, and a broken number of periods leaves the wave's own trace.
    """

    means: Floats
    phases: Floats
    periods: float = 3.3
    name: ClassVar[str] = "drifting"

    def tables(self, layers: Layers, episodes: int) -> Floats:
        means = checked_table(layers, self.means)
        phases = check_array("phases", self.phases, (layers.states, layers.actions))
        turns = check_positive("periods", self.periods) * np.arange(episodes)[:, None, None] / episodes + phases
        return np.asarray(0.5 * means + 0.25 * (1.0 + np.sin(2 * math.pi * turns)))


@dataclass(frozen=True, eq=False)
class RandomLosses:
    """Every entry of every table is 0 or 1, drawn from its mean before play."""

    means: Floats
    seed: int = 0
    name: ClassVar[str] = "random"

    def tables(self, layers: Layers, episodes: int) -> Floats:
        means = checked_table(layers, self.means)
        draws = generator(self.seed, 1, WORLD).random((episodes, *means.shape))
        return (draws < means).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Recorded:
    """Tables that are given, one per episode."""

    sequence: Floats
    name: ClassVar[str] = "recorded"

    def tables(self, layers: Layers, episodes: int) -> Floats:
        sequence = np.asarray(self.sequence, np.float64)
        if len(sequence) < episodes:
            raise InvalidInput(f"the recorded losses last {len(sequence)} episodes, {episodes} were asked for")
        return np.stack([checked_table(layers, table) for table in sequence[:episodes]])


ADVERSARIES: dict[str, Callable[[Floats, Floats, int], Adversary]] = {
    "fixed": lambda b, c, seed: FixedLosses(b),
    "switching": lambda b, c, seed: Switching(b, c),
    "drifting": lambda b, c, seed: Drifting(b, c),
    "random": lambda b, c, seed: RandomLosses(b, seed),
}


def draw_adversary(name: str, layers: Layers, rng: np.random.Generator, seed: int) -> Adversary:
    """An adversary of that name whose tables are uniform on [0, 1]."""
    if name not in ADVERSARIES:
        raise unknown_name("adversary", str(name), ADVERSARIES)
    first, second = rng.random((2, layers.states, layers.actions))
    return ADVERSARIES[name](first, second, seed)


def checked_table(layers: Layers, table: ArrayLike) -> Floats:
    """A loss table of a layered world: one number in [0, 1] for every pair."""
    losses = check_array("losses", table, (layers.states, layers.actions))
    if losses.size and not (losses.min() >= 0 and losses.max() <= 1):
        raise InvalidInput(f"losses must lie in [0, 1], got a range of {losses.min():g} to {losses.max():g}")
    return losses

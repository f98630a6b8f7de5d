"""What an accumulator is: it turns tallies of users into released cells and knows how much noise they carry."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from discreet.errors import InvalidInput
from discreet.noise.law import Law
from discreet.types import Floats, Integers, Mask


class NoiseSource(Protocol):
    """Where noise comes from. The two kinds cannot be mixed up: a seed, or the operating system."""

    simulated: bool

    def draw(self, law: Law, copies: int, size: int) -> Floats:
        """``size`` independent sums of ``copies`` independent draws of ``law``."""


class SimulatedNoise:
    """Noise from a seed, with exactly the law that would be shipped. For simulation only."""

    simulated = True

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def draw(self, law: Law, copies: int, size: int) -> Floats:
        if copies == 1:
            return np.asarray(law.draw(self.generator, size), np.float64)
        return np.asarray(law.draw_sum(copies, self.generator, size), np.float64)


class SecureNoise:
    """Noise from the operating system's entropy, for real releases. There is no seed to give."""

    simulated = False

    def __init__(self, seed: object = None) -> None:
        if seed is not None:
            raise InvalidInput("a real release takes no seed: noise that can be replayed can be subtracted")

    def draw(self, law: Law, copies: int, size: int) -> Floats:
        return np.asarray(sum(law.secure(size) for _ in range(copies)), np.float64)


class Run(Protocol):
    """The accumulation of one run: what has been released so far."""

    values: Floats  # (cells,) unbiased
    copies: Integers  # (groups, states, actions): draws of noise in each cell of the row

    def add(self, tally: Floats, users: int, rows: Mask, cells: Mask) -> None:
        """Take in the tally of some users. ``rows`` and ``cells`` are those that are not known zeros."""


class Accumulator(Protocol):
    """How tallies become releases; frozen data."""

    def start(self, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource) -> Run:
        """Begin a run over ``size`` cells in ``rows`` = (groups, states, actions) rows."""

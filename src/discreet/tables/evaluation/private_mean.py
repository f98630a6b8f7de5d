r"""The mean of a bounded quantity over users, under pure differential privacy: whole numbers and discrete Laplace
noise.

A quantity x of every user is clipped to [centre - B, centre + B] and put on a grid,

    y = round(F (x - centre) / B),   a whole number in -F .. F,        z = round(y^2 / F), in 0 .. F, with F = 2^20.

The sums of y and of z over users are released with discrete Laplace noise, four fifths of epsilon for the first and one
fifth for the second. Rounding moves a mean by at most B / 2F, which is beyond what is printed.

**Formal guarantees.** Replacing one user, whatever she brings, moves the sum of y by at most 2F and the sum of z by at
most F, so noise of scale 2F / epsilon_1 and F / epsilon_2 is epsilon_1 + epsilon_2 private. How many users there are is
public; centre, B and F are functions of declarations and earlier releases. Nothing else about the quantity matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.base.types import Floats, Integers
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.noise.laplace import DiscreteLaplace
from discreet.privacy.guarantee import Guarantee, compose, from_mechanism, nothing
from discreet.privacy.sensitivity import Sensitivity

GRID = 2**20
FOR_THE_MEAN = 0.8
_LAPLACE_QUANTILE = -math.log(2 * 0.025)  # in scales: 97.5% of draws are below


@dataclass(frozen=True)
class Clip:
    """Where a quantity is clipped: public."""

    centre: float
    bound: float


class Moments(NamedTuple):
    """What is released of one quantity, and the deviation of the noise in it."""

    mean: float
    deviation: float  # of the quantity among users, estimated from above
    noise: float  # b: the scale of the Laplace noise in the mean; 0 without privacy
    users: int


class Part(NamedTuple):
    """One noisy release: its name, its cells, what replacing one user moves in it, and the law of its noise."""

    name: str
    cells: int
    sensitivity: Sensitivity
    law: DiscreteLaplace


@dataclass(frozen=True)
class PrivateMean:
    """The mechanism for one quantity: its clip, its epsilon (infinite: no privacy) and its name in the derivation."""

    name: str
    clip: Clip
    epsilon: float

    @property
    def laws(self) -> tuple[DiscreteLaplace, DiscreteLaplace]:
        """The noise in the sums of y and of z."""
        own = self.epsilon * FOR_THE_MEAN
        return DiscreteLaplace(2 * GRID / own), DiscreteLaplace(GRID / (self.epsilon - own))

    @staticmethod
    def check_width(epsilon: float) -> None:
        """Refuse an epsilon of one quantity at which its noise would be too wide."""
        DiscreteLaplace(GRID / ((1 - FOR_THE_MEAN) * epsilon))  # the wider one

    def parts(self) -> list[Part]:
        """The two sums: their names, how many numbers they are, what replacing one user moves, and their noise."""
        if math.isinf(self.epsilon):
            return []
        moves = Sensitivity(2 * GRID, 2 * GRID, 2 * GRID), Sensitivity(GRID, GRID, GRID)
        names = (f"sum of the {self.name}, clipped", f"sum of its squares ({self.name}), clipped")
        return [Part(name, 1, move, law) for name, move, law in zip(names, moves, self.laws, strict=True)]

    @staticmethod
    def at_most(name: str, epsilon: float) -> Part:
        """A release that costs this epsilon: never less than sums whose epsilons add up to it."""
        return Part(name, 1, Sensitivity(2 * GRID, 2 * GRID, 2 * GRID), DiscreteLaplace(2 * GRID / epsilon))

    def encode(self, values: Floats) -> tuple[Integers, Integers]:
        """y and z of every user."""
        scaled = np.clip((values - self.clip.centre) / self.clip.bound, -1.0, 1.0)
        # A value that is no number would be a way out of the bound: it counts as the centre.
        y = np.rint(np.where(np.isnan(scaled), 0.0, scaled) * GRID).astype(np.int64)
        return y, np.rint(y.astype(np.float64) ** 2 / GRID).astype(np.int64)

    def release(self, values: Floats, noise: NoiseSource, imagined: float = 0.0) -> Moments:
        """Noisy moments of the quantity, one value per user.

        The second moment is estimated from above: one deviation of its noise is added, and up to the 97.5% quantile of
        the noise where ``imagined``, the deviation that a model expects, is larger than that.
        """
        first, second = (int(each.sum()) for each in self.encode(values))
        scales = (0.0, 0.0)
        if math.isfinite(self.epsilon):
            laws = self.laws
            first += int(noise.draw(laws[0], 1, 1)[0])
            second += int(noise.draw(laws[1], 1, 1)[0])
            scales = laws[0].scale, laws[1].scale
        users, bound = len(values), self.clip.bound
        mean = first / (GRID * users)
        unit = scales[1] / (GRID * users)
        variance = second / (GRID * users) - mean * mean
        likely = min((imagined / bound) ** 2, variance + _LAPLACE_QUANTILE * unit)
        spread = math.sqrt(min(max(variance + math.sqrt(2) * unit, likely, 0.0), 1.0))
        return Moments(self.clip.centre + bound * mean, bound * spread, bound * scales[0] / (GRID * users), users)


def guarantee_of(parts: Sequence[Part], more: Sequence[Guarantee] = (), *, delta: float = 0.0) -> Guarantee:
    """The promise of all releases of one evaluation, which one user moves together; of none if nothing is noisy."""
    own = [from_mechanism(part.law, part.sensitivity, delta=0.0, name=part.name) for part in parts]
    if not own:
        return nothing()
    return compose([*more, *own], delta=delta, why="a held-out user moves all sums of the evaluation")

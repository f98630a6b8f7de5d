r"""The mean of a bounded quantity over the users who are judged, and how many they are, under pure privacy.

A quantity x of every judged user is clipped to [centre - B, centre + B] and put on a grid, and she adds three whole
numbers, F = 2^20:

    F,      y = round(F (x - centre) / B) in -F .. F,      z = floor((F^2 - y^2) / 2F) in 0 .. F / 2.

A user who is not judged adds 0, 0, 0. The three sums are released with discrete Laplace noise of one scale, 2F/epsilon.
Rounding moves a mean by at most B / 2F, which is beyond what is printed.

**Formal guarantees.** Replacing one user moves the three sums together by at most 2F in absolute values, so the count
and the squares are *free*: noise that hides the sum alone hides all three. With d = |y - y'| / F and t = |y + y'| / F,
d + t <= 2, two judged users differ by F (d + d t / 2) <= F (2d - d^2 / 2) <= 2F, and a judged one differs from one who
is not by F (1 + |y| / F + (1 - y^2 / F^2) / 2) <= 2F. Rounding z down keeps that: differences of y are whole, and
those of z are at most rounded up, to what is still at most 2F. How many users are held out is public; centre, B and F
are functions of declarations and earlier releases. Nothing else about the quantity matters.

**The ratio.** With N, S and Q the noisy sums in units of F, the mean is theta = S / N. Its interval is Fieller's: all
theta for which S - theta N is no further from 0 than its own sampling and noise explain. The sum of (y - theta)^2 over
judged users is N - 2Q - 2 theta S + theta^2 N. At theta = 0 the count does not enter: whether 0 is inside, and so the
sign of a mean difference, rests on its own sum alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.base.types import Floats, Integers, Mask
from discreet.mechanisms.sums.accumulator import NoiseSource, noisy
from discreet.noise.laplace import DiscreteLaplace
from discreet.privacy.guarantee import Guarantee, compose, from_mechanism, nothing
from discreet.privacy.sensitivity import Sensitivity
from discreet.tables.evaluation.interval import explained, half_width

GRID = 2**20
_LAPLACE_QUANTILE = -math.log(2 * 0.025)  # in scales: 97.5% of draws are below
_DEVIATIONS = 3.0


@dataclass(frozen=True)
class Clip:
    """Where a quantity is clipped: public."""

    centre: float
    bound: float


class Count(NamedTuple):
    """How many users are judged, and the scale of the Laplace noise in that."""

    users: float
    scale: float

    @property
    def may_be_nobody(self) -> bool:
        """Whether noise alone would explain it."""
        return self.users <= _DEVIATIONS * math.sqrt(2) * self.scale


class Sums(NamedTuple):
    """What is released of one quantity, in units of the grid: the sum over judged users, that of its square, a count.

    ``present.scale`` is the scale of the noise in each of three numbers; squares are N - 2Q.
    """

    clip: Clip
    total: float
    squares: float
    present: Count

    def spread(self, theta: float, users: float, imagined: float) -> float:
        """The sum of (y - theta)^2 over judged users, estimated from above.

        One deviation of its noise is added, and up to the 97.5% quantile of the noise where ``imagined``, the deviation
        that a model expects, is larger than that.
        """
        noise = math.sqrt(5) * self.present.scale  # of N - 2Q
        found = self.squares - 2 * theta * self.total + theta * theta * users
        likely = min((imagined / self.clip.bound) ** 2 * users, found + _LAPLACE_QUANTILE * noise)
        return min(max(found + math.sqrt(2) * noise, likely, 0.0), (1 + abs(theta)) ** 2 * users)


class Ratio(NamedTuple):
    """A mean over judged users with the ends of its interval, infinite where nobody may be judged."""

    mean: float
    low: float
    high: float
    sampling: float  # half-widths that each of the two would cause alone
    noise: float


def mean_of(sums: Sums, count: Count, imagined: float, confidence: float) -> Ratio:
    """Fieller's interval of the mean; ``count`` is the best count that there is."""
    centre, bound = sums.clip.centre, sums.clip.bound
    users = max(count.users, 1.0)
    theta = min(max(sums.total / users, -1.0), 1.0)
    if count.may_be_nobody:
        return Ratio(centre + bound * theta, -math.inf, math.inf, 0.0, math.inf)

    def deviation(at: float) -> float:
        return math.sqrt(sums.spread(at, users, imagined) + 2 * (count.scale * at) ** 2)

    def end(beyond: float) -> float:
        """The last theta on the way to ``beyond`` that the release allows."""
        near, far = theta, beyond
        if _allowed(far):
            return math.copysign(math.inf, beyond - theta)
        for _ in range(50):
            middle = (near + far) / 2
            near, far = (middle, far) if _allowed(middle) else (near, middle)
        return centre + bound * far

    def _allowed(at: float) -> bool:
        return explained(abs(sums.total - at * users), deviation(at), sums.present.scale, confidence)

    noise = half_width(math.sqrt(2) * count.scale * abs(theta), sums.present.scale, confidence)
    sampling = half_width(math.sqrt(sums.spread(theta, users, imagined)), 0.0, confidence)
    unit = bound / users
    return Ratio(centre + bound * theta, end(-2.0), end(2.0), unit * sampling, unit * noise)


class Part(NamedTuple):
    """One noisy release: its name, its cells, what replacing one user moves in it, and the law of its noise."""

    name: str
    cells: int
    sensitivity: Sensitivity
    law: DiscreteLaplace


@dataclass(frozen=True)
class PrivateMean:
    """The release of three sums at a pure epsilon; without noise if it is infinite."""

    name: str
    clip: Clip
    epsilon: float

    @property
    def law(self) -> DiscreteLaplace:
        """The noise of each of the three."""
        return DiscreteLaplace(2 * GRID / self.epsilon)

    @staticmethod
    def check_width(epsilon: float) -> None:
        """Refuse an epsilon of one quantity at which its noise would be too wide."""
        DiscreteLaplace(2 * GRID / epsilon)

    def parts(self) -> list[Part]:
        """The release: its name, how many numbers it is, what replacing one user moves, and its noise."""
        if math.isinf(self.epsilon):
            return []
        name = f"judged users, with the sum and the squares of the {self.name}, clipped"
        return [Part(name, 3, Sensitivity(2 * GRID, 2 * GRID, 2 * GRID), self.law)]

    @staticmethod
    def at_most(name: str, epsilon: float) -> Part:
        """A release that costs this epsilon: never less than sums whose epsilons add up to it."""
        return Part(name, 1, Sensitivity(2 * GRID, 2 * GRID, 2 * GRID), DiscreteLaplace(2 * GRID / epsilon))

    def encode(self, values: Floats, judged: Mask) -> Integers:
        """The three numbers of every user, (users, 3)."""
        scaled = np.clip((values - self.clip.centre) / self.clip.bound, -1.0, 1.0)
        # A value that is no number would be a way out of the bound: it counts as the centre.
        y = np.rint(np.where(np.isnan(scaled), 0.0, scaled) * GRID).astype(np.int64)
        found = np.stack([np.full_like(y, GRID), y, (GRID * GRID - y * y) // (2 * GRID)], axis=1)
        return np.where(judged[:, None], found, 0)

    def release(self, values: Floats, judged: Mask, noise: NoiseSource) -> Sums:
        """The noisy sums of the quantity, one value per user."""
        sums, scale = self.encode(values, judged).sum(axis=0), 0.0
        if math.isfinite(self.epsilon):
            sums, scale = noisy(sums.astype(np.float64), self.law, 1, noise).astype(np.int64), self.law.scale
        count, total, slack = (sums / GRID).tolist()
        return Sums(self.clip, total, count - 2 * slack, Count(count, scale / GRID))


def best_count(found: Sequence[Sums]) -> Count:
    """All counts of one evaluation together: each weighs by how little noise it has."""
    scales = np.array([each.present.scale for each in found])
    if (scales == 0).any():
        return next(each.present for each in found if each.present.scale == 0)
    weights = scales**-2 / (scales**-2).sum()
    users = float(weights @ np.array([each.present.users for each in found]))
    return Count(users, float(np.sqrt((weights**2 * scales**2).sum())))


def guarantee_of(parts: Sequence[Part], more: Sequence[Guarantee] = (), *, delta: float = 0.0) -> Guarantee:
    """The promise of all releases of one evaluation, which one user moves together; of none if nothing is noisy."""
    own = [from_mechanism(p.law, p.sensitivity, delta=0.0, name=p.name, cells=p.cells) for p in parts]
    if not own:
        return nothing()
    return compose([*more, *own], delta=delta, why="a held-out user moves all sums of the evaluation")

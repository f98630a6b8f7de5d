"""Noise that moves: a tape that plays draws again with something added, and what such a move costs.

A ``Tape`` is a source of noise for real sessions. The first run draws; every later run gets the same draws, in the same
order, plus the moves that somebody asks for. A run that asks for another draw than the first one did has let data
decide which noise is used, and that is an offence of its own.

If noise z of a law and noise z + m give the same output on two neighbouring inputs, the output loses
ln p(z) - ln p(z + m). Over z drawn from the law that is a distribution of losses, computed here by going through the
values of z, and independent cells convolve. Nothing of a law but ``log_probability`` (and its variance, to know where
to look) is used: not its sensitivity, not its profile, not its calibration.

Laws on wide or fine lattices, and continuous ones, are looked at in some twenty thousand places. That and the grid of
losses err by less than a thousandth of epsilon (``TOLERANCE``), always to the unsafe side of the mechanism.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from discreet.base.types import Floats
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.noise import BinomialNoise, BoundedNoise, DiscreteGaussian, GridGaussian
from discreet.noise.distribution import Law, Size
from discreet.noise.knorm import TableNoise
from discreet.noise.symmetric_gaussian import DiscreteSymmetricGaussianMatrix
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.losses import LossDistribution, convolve, on_grid, repeat
from discreet.privacy.profiles import LossProfile, Profile, PureProfile, compose

TOLERANCE = 2e-3  # of epsilon, granted to numbers that are computed on grids
EXACT = 1e-9  # granted to sums of largest losses, which are not
_PLACES = 20_001
_REACH = 30.0  # standard deviations: the tail of a Laplace law beyond them is 1e-18
_RESOLUTION = 800  # grid points per deviation of all losses together
_WHOLE_TABLE = 64  # how far noise on whole tables is followed in the direction of a move
_LONGEST = 1 << 14  # grid points of one cell
_FINEST = 1e-7  # of a loss
_HOPELESS = 100.0  # a loss beyond that costs delta what an infinite one does
_NEGLIGIBLE = 1e-13
_SHOWN = 1e-12  # a largest loss counts if it is as likely as that
DELTAS = (1e-6, 1e-3, 0.01, 0.05, 0.2)


Key = tuple[int, int]  # the release, and which of its draws
Moves = Mapping[Key, Floats]


class Offence(Exception):
    """A session that cannot be as private as it says."""


class Draw(NamedTuple):
    """One draw: which law, how many copies of it in every entry, and what came."""

    law: Any
    copies: int
    values: Floats


class Tape(SimulatedNoise):
    """The draws of a first run, or those of an earlier tape with ``moves`` added to them."""

    def __init__(self, seed: int, before: Tape | None = None, moves: Moves | None = None) -> None:
        super().__init__(np.random.default_rng((seed, 1)))  # public coins: the same in every run
        self._fresh = np.random.default_rng((seed, 2))
        self._before, self._moves = before, {} if moves is None else moves
        self.record: dict[Key, Draw] = {}
        self._release, self._number = 0, 0

    def turn(self, release: int) -> None:
        """Say which release comes next."""
        self._release, self._number = release, 0

    def draw(self, law: Law, copies: int, size: int) -> Floats:
        """The next draw of this release."""
        return self.take(law, copies, (size,))

    def take(self, law: Any, copies: int, size: Size) -> Floats:
        """The next draw of this release, in any form that the law has."""
        key = self._release, self._number
        self._number += 1
        if self._before is None:
            flat = size[0] if isinstance(size, tuple) and len(size) == 1 else size
            drawn = law.draw(self._fresh, flat) if copies == 1 else law.draw_sum(copies, self._fresh, flat)
            self.record[key] = Draw(law, copies, np.asarray(drawn, np.float64))
            return self.record[key].values.copy()
        if key not in self._before.record:
            raise Offence("a draw of noise is made for one population and not for the other")
        known = self._before.record[key]
        expected = known.values.shape if isinstance(law, TapedMatrix) else size
        if (known.law, known.copies, known.values.shape) != (law, copies, expected):
            raise Offence("which law is drawn, or for which cells, depends on the replaced user")
        self.record[key] = known
        return known.values + self._moves.get(key, 0.0)


@dataclass(frozen=True)
class TapedMatrix(DiscreteSymmetricGaussianMatrix):
    """Symmetric matrix noise that goes through a tape: linear questions draw it from the law, not from the source."""

    tape: Tape | None = field(default=None, compare=False, repr=False)

    def draw(self, rng: np.random.Generator, size: Size = ()) -> Floats:
        """The next matrix of the tape; while that is written, a draw of the law itself."""
        if self.tape is None or rng is not self.tape.generator:
            return super().draw(rng, size)
        return self.tape.take(self, 1, size)


class Move(NamedTuple):
    """By how much one draw of a law must move; ``by`` has one entry per cell."""

    law: Any
    by: tuple[float, ...]


@dataclass(frozen=True)
class Losses:
    """Atoms of the privacy loss of one cell: losses, masses, and the mass of an infinite loss."""

    losses: Floats
    masses: Floats
    infinite: float

    @property
    def variance(self) -> float:
        """The variance of the finite losses."""
        mean = float(self.losses @ self.masses)
        return float((self.losses - mean) ** 2 @ self.masses)


def losses_of(law: Any, by: float) -> Losses:
    """The losses ln p(z) - ln p(z + by) over z of the law."""
    z, by = places(law, by)
    here, there = (np.asarray(law.log_probability(x), np.float64) for x in (z, z + by))
    here, there = here[here > -np.inf], there[here > -np.inf]
    masses = np.exp(here - here.max())
    masses /= masses.sum()
    losses = here - there
    order = np.argsort(losses)
    below = np.cumsum(masses[order])
    # Ends of next to no mass: the upper one counts as infinite, the lower one moves up. That keeps grids short.
    lowest = float(losses[order[min(int(np.searchsorted(below, _NEGLIGIBLE)), len(order) - 1)]])
    highest = float(losses[order[min(int(np.searchsorted(below, 1 - _NEGLIGIBLE)), len(order) - 1)]])
    hopeless = losses > min(highest + 1e-9 * abs(highest) + 1e-12, _HOPELESS)
    kept = np.maximum(losses, max(lowest, -_HOPELESS))[~hopeless]
    return Losses(kept, masses[~hopeless], float(masses[hopeless].sum()))


def places(law: Any, by: float) -> tuple[Floats, float]:
    """Where to look at a law, and the move as its lattice has it."""
    deviation = math.sqrt(float(law.variance))
    if isinstance(law, BoundedNoise):
        return np.asarray(np.linspace(-law.radius, law.radius, _PLACES + 2)[1:-1], np.float64), by
    if isinstance(law, BinomialNoise):
        reach = 12 * deviation + 40
        low, high = max(0, math.floor(law.mean - reach)), min(law.trials, math.ceil(law.mean + reach))
        return np.arange(low, high + 1, dtype=np.float64) - float(law.mean), by
    if not law.discrete:
        reach = _REACH * deviation + abs(by)
        return np.asarray(np.linspace(-reach, reach, _PLACES), np.float64), by
    step = law.step if isinstance(law, GridGaussian) else 1.0
    points = math.ceil((_REACH * deviation + abs(by)) / step)
    stride = max(1, points // (_PLACES // 2))
    lattice = np.arange(-(points // stride) - 1, points // stride + 2, dtype=np.float64)
    return float(step * stride) * lattice, step * round(by / step)


def profile_of_moves(moves: Iterable[Move]) -> Profile:
    """The privacy of noise that must move like that, in both directions."""
    cells: Counter[tuple[Any, float]] = Counter()
    tables: list[Profile] = []
    for law, by in moves:
        if isinstance(law, TableNoise):
            tables.append(PureProfile(_largest_on_tables(law, np.array(by))))
        elif isinstance(law, DiscreteSymmetricGaussianMatrix):
            cells.update(_entries(law, np.array(by)))
        else:
            cells.update((law, round(one, 9)) for one in by if one)
    key = tuple(sorted(((law, by, times) for (law, by), times in cells.items()), key=repr))
    return compose([*tables, *([_independent(key)] if key else [])], as_given=True)


def _entries(law: DiscreteSymmetricGaussianMatrix, by: Floats) -> Iterable[tuple[DiscreteGaussian, float]]:
    """The entries on and above the diagonal, each with a law of its own."""
    d = law.dimension
    matrix = by.reshape(d, d)
    for i in range(d):
        for j in range(i, d):
            if matrix[i, j]:
                variance = law.off_diagonal * (2 if i == j else 1)
                yield DiscreteGaussian(math.sqrt(variance)), round(float(matrix[i, j]), 9)


def _largest_on_tables(law: TableNoise, by: Floats) -> float:
    """The largest loss of one draw for a whole table, along the line of its move: a norm grows fastest there."""
    along = by / max(float(np.abs(by).max()), 1e-300) * np.arange(-_WHOLE_TABLE, _WHOLE_TABLE + 1)[:, None]
    places = np.rint(along)
    loss = np.asarray(law.log_probability(places)) - np.asarray(law.log_probability(places + by))
    return float(np.abs(loss).max())


@lru_cache(maxsize=4096)
def _independent(cells: Sequence[tuple[Any, float, int]]) -> LossProfile:
    forward, backward = ([(losses_of(law, sign * by), times) for law, by, times in cells] for sign in (1.0, -1.0))
    return composed_losses(forward, backward)


def losses_between(first: Floats, second: Floats) -> Losses:
    """The losses of two laws that are given by the probabilities of the same outputs."""
    seen = first > 0
    p, q = first[seen], second[seen]
    hopeless = q <= 0
    losses = np.log(p[~hopeless] / q[~hopeless]) if (~hopeless).any() else np.zeros(0)
    return Losses(losses, p[~hopeless], float(p[hopeless].sum()))


Several = Sequence[tuple[Losses, int]]  # cells of one kind, and how many of them


def composed_losses(forward: Several, backward: Several) -> LossProfile:
    """The profile of independent cells, in both directions."""
    forward, backward = ([(one, times) for one, times in part if times] for part in (forward, backward))
    bound = max(sum(times * _largest(one) for one, times in part) for part in (forward, backward))
    variance = sum(times * one.variance for one, times in forward)
    longest = max(float(np.ptp(one.losses)) if len(one.losses) else 0.0 for one, _ in [*forward, *backward])
    step = max(math.sqrt(max(variance, 1e-24)) / _RESOLUTION, longest / _LONGEST, _FINEST)
    if math.isfinite(bound) and bound > 0:  # then the atoms of the largest losses lie on the grid
        step = bound / math.ceil(bound / step)
    return LossProfile(_composed(forward, step), _composed(backward, step), bound, allowance=0.0)


def _largest(one: Losses) -> float:
    """The largest loss; infinite where it still grows at the end of what was looked at."""
    if one.infinite > 0:
        return math.inf
    top = float(one.losses.max())
    # A loss that is bounded is reached by more than the last place; one that is not grows to the end.
    return top if float(one.masses[one.losses >= top - 1e-9 * abs(top) - 1e-12].sum()) > _SHOWN else math.inf


def _composed(parts: Several, step: float) -> LossDistribution:
    total = LossDistribution(0.0, step, np.ones(1))
    for one, times in parts:
        if not len(one.losses):
            return LossDistribution(0.0, step, np.zeros(1), 1.0)
        total = convolve(total, repeat(on_grid(one.losses, one.masses, step, one.infinite), times))
    return total


class Share(NamedTuple):
    """How much of a stated epsilon is reached, and at which delta that is most."""

    of_stated: float
    delta: float
    reached: float
    stated: float

    @property
    def holds(self) -> bool:
        """Whether no more is lost than is stated, up to the tolerance of the computation."""
        return self.of_stated <= 1 + (EXACT if self.delta == 0 else TOLERANCE)


def share_of(profile: Profile, guarantee: Guarantee) -> Share:
    """The largest share of the stated epsilon, over points (epsilon, delta) of the stated profile."""
    worst = Share(0.0, guarantee.delta, 0.0, guarantee.epsilon)
    for delta in sorted({guarantee.delta, *DELTAS}):
        stated = guarantee.epsilon_at(delta)
        if math.isinf(stated):
            continue
        reached = profile.epsilon(delta)
        # At a large delta both may be next to nothing: what counts is then the difference.
        share = reached / stated if stated > 0.02 else (0.0 if reached <= stated + 1e-4 else math.inf)
        if share > worst.of_stated:
            worst = Share(share, delta, reached, stated)
    return worst

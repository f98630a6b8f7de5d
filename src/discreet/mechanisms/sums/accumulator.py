"""What an accumulator is: it turns tallies of users into released cells and knows how much noise they carry.

``Accumulator`` and ``Run`` are its plain form, for releases of blocks of users. ``advance`` and ``draws_at`` are its
form inside the compiled episode loop: what the noise does between one user's release and the next. ``NoiseSource`` is
where noise comes from.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from discreet.base.compiled import dispatch
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers, Mask
from discreet.noise.distribution import HELD, Law, Size, add_noise
from discreet.noise.exact_sampler import OPENDP, OWN, ChoosesSampler, check_sampler, usual_sampler
from discreet.noise.knorm import TableNoise
from discreet.privacy.sensitivity import Sensitivity

# Cells per piece of work, by OpenDP's samplers and our own: enough to keep a core busy, few enough to show progress.
_AT_ONCE, _OWN_AT_ONCE = 4096, 1 << 16


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
        """Sums of draws, at a cost that does not depend on how many."""
        if copies == 1:
            return np.asarray(law.draw(self.generator, size), np.float64)
        return np.asarray(law.draw_sum(copies, self.generator, size), np.float64)


class ExactlyDrawn(Protocol):
    """What can be drawn from the operating system's entropy."""

    def secure(self, size: Size) -> Integers | Floats:
        """Draws for a real release."""


class SecureNoise:
    """Noise from the operating system's entropy, for real releases. There is no seed to give.

    Exact draws take their time, so all cores draw (sampling holds no lock), and ``tick`` hears of cells that are done.
    ``sampler`` chooses between "opendp" and "discreet", our own; unless somebody does, tables of more than 100,000
    cells are drawn by our own. ``used`` has the names of those that were.
    """

    simulated = False

    def __init__(
        self, seed: object = None, tick: Callable[[int], None] = lambda _cells: None, sampler: str | None = None
    ) -> None:
        if seed is not None:
            raise InvalidInput("a real release takes no seed: noise that can be replayed can be subtracted")
        self._tick = tick
        self._sampler = None if sampler is None else check_sampler(sampler)
        self.used: set[str] = set()

    def exact(self, law: ExactlyDrawn, size: Size, cells: int) -> Floats:
        """One draw of a law for every entry, by the sampler that serves a table of so many cells."""
        if not isinstance(law, ChoosesSampler):
            self.used.add(OWN)
            return np.asarray(law.secure(size), np.float64)
        chosen = self._sampler or usual_sampler(cells)
        self.used.add(chosen)
        usual = self._sampler is None and chosen == OPENDP  # for pieces of the table, too
        return np.asarray(law.secure(size) if usual else law.secure_by(chosen, size), np.float64)

    def draw(self, law: Law, copies: int, size: int) -> Floats:
        """Sums of draws, in pieces that cores share; noise for a whole table at once is one piece."""

        def one(cells: int) -> Floats:
            drawn = sum(self.exact(law, cells, size) for _ in range(copies))
            self._tick(cells)
            return np.asarray(drawn, np.float64)

        if size <= _AT_ONCE or isinstance(law, TableNoise):
            return one(size)
        piece = _OWN_AT_ONCE if (self._sampler or usual_sampler(size)) == OWN else _AT_ONCE
        pieces = [min(piece, size - first) for first in range(0, size, piece)]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return np.concatenate(list(pool.map(one, pieces)))


def noisy(values: Floats, law: Law, copies: int, noise: NoiseSource) -> Floats:
    """``values`` and ``copies`` draws of noise in each: where real noise meets what it hides.

    Noise of whole numbers (or of whole steps of a grid) hides nothing of a fraction, and nothing hides NaN, so such
    values are refused before noise is drawn, and so are some that are too large for floating point to add exactly.
    """
    if not noise.simulated:
        check_hidden(values, law)
    return np.asarray(values + noise.draw(law, copies, len(values)))


def check_hidden(values: Floats, law: Law) -> None:
    """Refuse numbers that a draw of this law does not hide."""
    steps = values / getattr(law, "step", 1.0)
    if not (np.isfinite(steps).all() and (np.abs(steps) < HELD).all()):
        raise InvalidInput("sums are released with noise only if they are finite and below 2^52: nothing was drawn")
    if law.discrete and law.variance > 0 and not (steps == np.rint(steps)).all():
        raise InvalidInput("noise of whole numbers hides whole numbers only, and sums had fractions: nothing was drawn")


class DeviceNoise:
    """The noise that is in messages already when they arrive: nobody here draws any."""

    simulated = False

    def draw(self, law: Law, copies: int, size: int) -> Floats:
        """Refused: a device adds its noise before anything leaves it."""
        raise Unsupported("in the local model every device adds noise of its own: take its messages in with receive")


def coins_of(noise: NoiseSource, refusal: str) -> np.random.Generator:
    """The generator of a simulation, for messages that are made on a user's device; refused where noise is real."""
    if not isinstance(noise, SimulatedNoise):
        raise Unsupported(refusal)
    return noise.generator


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

    def sensitivity(self, own: Sensitivity) -> Sensitivity:
        """What one user, who moves one tally by ``own``, moves in all noisy sums that hold her."""


@dispatch
def advance(accumulator: Any, t: int, law: Any, cells: Floats, stream: Stream) -> None:
    """Turn the noise in ``cells`` from that of release t - 1 into that of release t (t counts from one)."""


@dispatch
def draws_at(accumulator: Any, t: int) -> int:
    """How many independent draws of noise each cell of release t carries."""
    raise NotImplementedError


class TotalArrays(NamedTuple):
    """The compiled form of :class:`~discreet.mechanisms.sums.blocks.Total`: how many draws of noise every user adds."""

    per_user: int = 1


@advance.implement(TotalArrays)
def _advance_total(accumulator: TotalArrays, t: int, law: Any, cells: Floats, stream: Stream) -> None:
    add_noise(law, cells, stream)


@draws_at.implement(TotalArrays)
def _draws_total(accumulator: TotalArrays, t: int) -> int:
    return t

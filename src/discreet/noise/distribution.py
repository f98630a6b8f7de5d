"""What a noise law is: what it can be asked, how it is drawn in compiled loops, and tail bounds for sums of draws.

**Compiled draws.** ``add_noise(law, out, state)`` adds a fresh draw to every entry of ``out``: one dispatched kernel,
implemented beside every law. Word i of a fill is mix(state + i * golden ratio), which does not depend on the words
before it, so the loops vectorise; drawing one by one gives the same words.

**Tail bounds that hold for all numbers of draws at once.** Let S_n be a sum of n independent draws with cumulant
generating function psi(l) = ln E exp(l X). For every l > 0 the process exp(l S_n - n psi(l)) is a non-negative
martingale of mean one, so by Ville's inequality

    P(some n has S_n > (ln(1/d) + n psi(l)) / l) <= d.

One l is tight around one n only. Stitching: cut 1, 2, ... into epochs [3^j, 3^(j+1)), give epoch j the share
1 / ((j+1)(j+2)) of the failure probability (the shares sum to one) and the l that is best at the middle n = 3^(j+1/2).
Inside an epoch the bound is the straight line above, so it costs at most 4% over the best l, and the shares cost
ln((j+1)(j+2)): the radius grows like sqrt(2 n var ln ln n). Both signs are covered with half of the probability each.
Any l is valid, so the numerical minimisation needs no proof. The sum may be stopped, or a cell's clock may run,
as the released past dictates: the bound holds for all n simultaneously.

The one law that lives here is ``NoNoise``, that of runs without privacy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from discreet.base.compiled import dispatch, inlined
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.scientific import optimize
from discreet.base.streams import Stream, mix, to_unit
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_open_unit, check_positive, check_scale
from discreet.privacy.profiles import Profile, PureProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.words import rounded_up

Size = int | tuple[int, ...]
IN_EVERY_CELL = "independent noise in every cell"
# Counts and noise meet as floating point numbers, and beyond 2^53 these are even: their last digit would then say what
# the count was. A count below 2^52 and a draw of this scale b get there with probability at most e^-64 < 2e-28. Counts
# of fewer than 2^49 and the sum of up to 60 draws (a tree's nodes) do so with less than 1e-14: E exp(.8 X / b) is at
# most 1 / (1 - .8^2), and 2 (1 / .36)^60 e^(-.8 * 120) is below that.
WIDEST = 2.0**46
HELD = 2.0**52


@runtime_checkable
class Law(Protocol):
    """Noise for the cells of a statistic, in most cases one number drawn independently for every cell.

    Examples:
        >>> from discreet.noise import DiscreteLaplace, Law
        >>> law: Law = DiscreteLaplace(2.0)
        >>> round(law.variance, 2)
        7.84
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]  # its parameters

    @property
    def discrete(self) -> bool:
        """Whether it lives on a grid and can be shipped; other laws are for simulation only."""

    @property
    def drawn(self) -> str:
        """How it is drawn, in words, for derivations."""

    @property
    def variance(self) -> float:
        """The variance of the noise in one cell."""

    def log_probability(self, x: ArrayLike) -> Floats:
        """The logarithm of the probability (or density) of x."""

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The exact privacy of adding this noise to a statistic of that sensitivity."""

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent draws for simulation."""

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """Sums of ``copies`` independent draws, at a cost that does not depend on how many."""

    def secure(self, size: Size) -> Integers | Floats:
        """Draws for a real release, from the operating system's entropy: whole numbers, or whole steps of a grid."""

    def sum_quantile(self, copies: int, tail: float) -> float:
        """A t with P(|sum of ``copies`` draws| > t) <= ``tail``."""

    def kernel(self) -> Any:
        """The NamedTuple that ``add_noise`` takes in compiled code."""


@runtime_checkable
class AnytimeLaw(Law, Protocol):
    """A law with a bound on its sums that holds for all numbers of draws at once.

    Examples:
        >>> from discreet.noise import AnytimeLaw, Laplace
        >>> law: AnytimeLaw = Laplace(2.0)
    """

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        """r(n) with P(some n has |sum of n draws| > r(n)) <= ``failure_probability``."""


_SOUND_OPENDP = (0, 14, 2)


@cache
def check_whole_moves(sensitivity: Sensitivity) -> None:
    """Refuse moves below one for noise of whole numbers: whoever sees the fraction of a result sees the move.

    A bound above one may be any number, because what moves by whole numbers keeps within its floor.
    """
    if 0 < sensitivity.linf < 1:
        raise InvalidInput(
            f"noise of whole numbers hides moves of whole numbers, and a cell moves by {sensitivity.linf:g} at most: "
            "count in units of which it moves by one"
        )


class NoiseTooWide(InvalidInput):
    """Noise of whole numbers that floating point numbers would not hold; ``factor`` times less would be held."""

    def __init__(self, factor: float, asked: str = "") -> None:
        self.factor = factor
        super().__init__(
            f"this target needs noise {rounded_up(factor, 2)} times wider than floating point holds in whole numbers "
            f"(scale {WIDEST:.2g}): {asked or 'let every user count less, or ask for a larger epsilon'}"
        )

    def named(self, epsilon: float | None, rho: float | None) -> NoiseTooWide:
        """The same refusal with the smallest target for which scales that fall as it rises are narrow enough."""
        name, target = ("epsilon", epsilon) if rho is None else ("rho", rho)
        if target is None:
            return self
        least = target * (self.factor if rho is None else self.factor**2)
        return NoiseTooWide(self.factor, f"{name} must be at least {rounded_up(least, 2)}, not {target:g}")


def check_whole_scale(name: str, value: Any, times: int = 1) -> float:
    """The scale of noise of whole numbers whose draws are ``times`` as wide: they must stay where those are exact."""
    wide = check_positive(name, value) * times
    if wide > WIDEST:
        raise NoiseTooWide(wide / WIDEST)
    return check_scale(name, value)


def secure_library() -> Any:
    """OpenDP, whose exact samplers draw the noise of real releases from the operating system's entropy.

    Versions from 0.10 to 0.14.1 divide big numbers wrongly and draw another law: a discrete Laplace of scale 6 had
    twice the epsilon that it promised. They are refused.
    """
    from importlib.metadata import version

    import opendp.prelude as dp

    check_sound(version("opendp"))
    dp.enable_features("contrib")
    return dp


def check_sound(found: str) -> None:
    """Refuse a version of OpenDP that draws the wrong law."""
    if tuple(int(part) for part in re.findall(r"\d+", found)[:3]) < _SOUND_OPENDP:
        raise Unsupported(
            f"opendp {found} draws noise of the wrong law, so nothing was released: install opendp 0.14.2 or later"
        )


def refuse_secure(law: str, remedy: str) -> Unsupported:
    """The error of a continuous law that is asked for a real release."""
    return Unsupported(f"{law} is continuous and for simulation only: floating point draws leak; release with {remedy}")


GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dispatch
def add_noise(law: Any, out: Floats, state: Stream) -> None:
    """Add one independent draw of ``law`` to every entry of ``out``, in place."""


@dispatch
def exchange_noise(
    law: Any, base: Floats, old: Floats, new: Floats,
    cells: Floats, state: Stream,
) -> None:  # fmt: skip
    """Let ``new`` be ``base`` plus one draw per entry, and carry ``new`` in ``cells`` instead of ``old``."""


@exchange_noise.implement(object)
def _exchange_in_three_passes(
    law: Any, base: Floats, old: Floats, new: Floats,
    cells: Floats, state: Stream,
) -> None:  # fmt: skip
    for i in range(cells.shape[0]):
        new[i] = base[i]
    add_noise(law, new, state)
    for i in range(cells.shape[0]):
        cells[i] += new[i] - old[i]


@inlined
def word_at(base: np.uint64, i: int) -> np.uint64:
    """Word i = 0, 1, ... of a fill that starts from the state ``base``."""
    return mix(base + np.uint64(i + 1) * GOLDEN)  # type: ignore[no-any-return]


@inlined
def advance(state: Stream, words: int) -> None:
    """Move a stream past ``words`` words."""
    state[0] += np.uint64(words) * GOLDEN


class TableKernel(NamedTuple):
    """A law on lowest, lowest + 1, ...: its distribution function, and where to start looking in it."""

    cumulative: Floats
    guide: Integers
    lowest: float


def table_kernel(pmf: Floats, lowest: float) -> TableKernel:
    """The kernel of a law given by its probabilities."""
    cumulative = np.cumsum(pmf)
    cumulative[-1] = 1.0
    guide = np.searchsorted(cumulative, np.arange(len(pmf)) / len(pmf), side="right")
    return TableKernel(cumulative, guide.astype(np.int64), float(lowest))


@add_noise.implement(TableKernel)
def _add_from_table(law: TableKernel, out: Floats, state: Stream) -> None:
    """Inverse distribution function by table; the guide says where to start the scan, so it takes about one step."""
    base = state[0]
    entries = law.guide.shape[0]
    for i in range(out.shape[0]):
        u = to_unit(word_at(base, i))
        k = law.guide[np.int64(u * entries)]
        while u >= law.cumulative[k]:
            k += 1
        out[i] += law.lowest + k
    advance(state, out.shape[0])


_RATIO = 3.0
_EPOCHS = 40  # 3^40 draws


def stitched_lines(
    cumulant: Callable[[float], float], largest: float, failure_probability: float, scale: float
) -> tuple[Floats, Floats]:
    """Intercepts and slopes of the lines, one per epoch, that bound one sign of the sum with half of the probability.

    ``cumulant`` is finite on (0, ``largest``); ``scale`` is the standard deviation of one draw, to start the search.
    """
    check_open_unit("failure_probability", failure_probability)
    lines = np.empty((_EPOCHS, 2))
    for j in range(_EPOCHS):
        log_odds = math.log(2 * (j + 1) * (j + 2) / failure_probability)
        middle = _RATIO ** (j + 0.5)
        guess = math.sqrt(2 * log_odds / middle) / scale
        guess = guess * largest / (guess + largest) if math.isfinite(largest) else guess

        def height(u: float, log_odds: float = log_odds, middle: float = middle, guess: float = guess) -> float:
            l = guess * math.exp(u)
            return (log_odds + middle * cumulant(l)) / l if l < largest else math.inf

        best = guess * math.exp(float(optimize.minimize_scalar(height, bounds=(-4.0, 1.0), method="bounded").x))
        best = best if best < largest else guess
        lines[j] = log_odds / best, cumulant(best) / best
    return lines[:, 0].copy(), lines[:, 1].copy()


def stitched_radius(lines: tuple[Floats, Floats], copies: ArrayLike) -> Floats:
    """The bound at every number of draws; zero where there is none."""
    n = np.asarray(copies, dtype=np.float64)
    if n.size and (n.min() < 0 or n.max() >= _RATIO**_EPOCHS):
        raise InvalidInput(f"copies must lie in 0..1e19, got a range of {n.min():g} to {n.max():g}")
    # The epoch of n; computed with a margin because a logarithm may round the wrong way at a power of three.
    epoch = np.floor(np.log(np.maximum(n, 1.0)) / math.log(_RATIO) + 1e-12).astype(np.int64)
    intercepts, slopes = lines
    return np.where(n > 0, intercepts[epoch] + n * slopes[epoch], 0.0)


def smallest_point(tail_beyond: Callable[[int], float], tail: float, guess: float) -> int:
    """The smallest whole t >= 0 with ``tail_beyond(t)`` <= ``tail``, searched outwards from a guess."""
    if tail_beyond(0) <= tail:
        return 0
    high = max(1, math.ceil(guess))
    reach = max(1, high // 64)
    low = max(0, high - reach)
    while tail_beyond(high) > tail:
        low, high, reach = high, high + reach, 2 * reach
    while low > 0 and tail_beyond(low) <= tail:
        low, high, reach = max(0, low - reach), low, 2 * reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail_beyond(middle) <= tail else (middle, high)
    return high


class NoNoiseKernel(NamedTuple):
    """Nothing to know; numba wants one field."""

    scale: float


@dataclass(frozen=True)
class NoNoise:
    """Always zero. It protects nobody, unless the statistic cannot move.

    Examples:
        >>> from discreet.noise import NoNoise
        >>> NoNoise().variance
        0.0
    """

    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = IN_EVERY_CELL

    @property
    def variance(self) -> float:
        """Zero: nothing is added."""
        return 0.0

    def log_probability(self, x: ArrayLike) -> Floats:
        """Zero at x = 0, minus infinity elsewhere: the noise is zero with certainty."""
        return np.where(np.asarray(x) == 0, 0.0, -np.inf)

    def profile(self, sensitivity: Sensitivity) -> PureProfile:
        """Perfect privacy if the statistic cannot move, otherwise none at all."""
        return PureProfile(0.0 if sensitivity.l1 == 0 else np.inf)

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """An array of zeros."""
        return np.zeros(size)

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """An array of zeros, whatever the number of copies."""
        return np.zeros(size)

    def secure(self, size: Size) -> Integers:
        """An array of whole zeros."""
        return np.zeros(size, dtype=np.int64)

    def sum_quantile(self, copies: int, tail: float) -> float:
        """Zero, whatever the number of copies."""
        return 0.0

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        """An array of zeros, one for each number of copies."""
        return np.zeros(np.shape(copies))

    def kernel(self) -> NoNoiseKernel:
        """What ``add_noise`` takes in compiled code."""
        return NoNoiseKernel(0.0)


@add_noise.implement(NoNoiseKernel)
def _add_nothing(law: NoNoiseKernel, out: Floats, state: Stream) -> None:
    pass

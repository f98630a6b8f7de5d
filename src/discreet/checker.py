r"""Check a privacy certificate, or a receipt that carries one, without the library that made it.

A certificate (format: ``docs/certificate.schema.json``; rules with proofs: ``docs/certificates.md``) lists what a
promise rests on: laws of noise, what one user moves, and how releases are put together. This program takes those for
granted and computes anew what follows from them: an upper bound on epsilon at the stated delta, and on rho. It needs
nothing but Python's standard library and can be copied out and run alone:

    python checker.py certificate.json     exit code 0: holds; 1: refused; 2: unreadable; 3: it protects nobody

Four answers: "holds" (what the steps give is at most what is stated), "does not hold" (it is more, or something else
that is said does not follow), "cannot tell" (a law or a combination for which no rule below is good enough), "protects
nobody" (the noise of a simulation). Every verdict ends with what was checked, what was not, and what it rests on.
Whatever a receipt says beside its certificate is compared with it, but for its signature: that needs cryptography.

**Arithmetic.** Numbers of a certificate are read exactly, as fractions. Exponentials, logarithms and roots are those of
``decimal``, which are correctly rounded, moved outwards by a unit in the last place. Sums over many terms are whole
numbers in units of 2^-256, and convolutions are products of whole numbers of millions of digits: exact, and rounded up
once. Floating point numbers only choose where to look (a grid, an order of Renyi divergence); no bound depends on them.

**How a loss is written down.** A pair of laws (P, Q) is a list of atoms (p, x): p at least the mass under P, x at most
the ratio Q / P there. Then for every epsilon

    delta(epsilon)  =  sup over events of P - e^epsilon Q   <=   sum of p (1 - e^epsilon x)+.

Larger p, smaller x, and moving an atom apart so that its mean x stays (a convex function grows) only raise that sum,
also after several pairs were put together. So everything below rounds in these directions.
"""

from __future__ import annotations

import decimal
import itertools
import json
import math
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

FORMAT, VERSION = "discreet-certificate", 2
RECEIPTS, RECEIPT_VERSION = ("discreet-receipt", "discreet-evaluation"), 2
HOLDS, FAILS, UNKNOWN, NOBODY = "holds", "does not hold", "cannot tell", "protects nobody"

_DIGITS = 200
_DOWN = decimal.Context(_DIGITS, ROUND_FLOOR, -100_000, 100_000, traps=[decimal.InvalidOperation, decimal.Overflow])
_UP = decimal.Context(_DIGITS, ROUND_CEILING, -100_000, 100_000, traps=[decimal.InvalidOperation, decimal.Overflow])
_SCALE = 256
_ONE = 1 << _SCALE
_MOST_TERMS = 1_500_000
_MOST_NODES = 20_000
_MOST_POINTS = 120_000
_MOST_COPIES = 20_000
_MOST_WORK = 40_000_000  # terms in all: about a minute
_LONGEST_FILE = 64 << 20
_MOST_UNEVEN = 6  # parts whose directions differ: each has twice as many ways


class Unreadable(Exception):
    """The input is not a certificate."""


class Refused(Exception):
    """The steps do not give what is stated."""


class Unknown(Exception):
    """No rule here covers a step."""


@dataclass(frozen=True)
class Verdict:
    """An answer, why, and the bounds that were computed: on epsilon at the stated delta, delta, and rho."""

    answer: str
    reason: str
    model: str = ""
    stated_epsilon: Fraction | None = None
    epsilon: Fraction | None = None
    stated_delta: Fraction | None = None
    delta: Fraction | None = None
    stated_rho: Fraction | None = None
    rho: Fraction | None = None
    unit: str = ""
    neighbours: str = ""
    noise: str = ""
    signature: str = "not checked"
    checked: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    rests_on: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the certificate was verified."""
        return self.answer == HOLDS

    @property
    def code(self) -> int:
        """The exit code of programs that print it."""
        return {HOLDS: 0, NOBODY: 3}.get(self.answer, 1)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; numbers are rounded up to twelve digits."""
        shown = {
            name: None if value is None else _shown(value, 12)
            for name, value in (
                ("stated_epsilon", self.stated_epsilon),
                ("epsilon", self.epsilon),
                ("stated_delta", self.stated_delta),
                ("delta", self.delta),
                ("stated_rho", self.stated_rho),
                ("rho", self.rho),
            )
        }
        names = ("signature", "answer", "reason", "model", "unit", "neighbours", "noise")
        lists = {name: list(getattr(self, name)) for name in ("checked", "not_checked", "rests_on")}
        return {**{name: getattr(self, name) for name in names}, **shown, **lists}

    def explain(self) -> str:
        """The answer in a few lines."""
        lines = [f"signature: {self.signature}", f"{self.answer}: {self.reason}"]
        for name, stated, found in (
            ("epsilon", self.stated_epsilon, self.epsilon),
            ("delta", self.stated_delta, self.delta),
            ("rho", self.stated_rho, self.rho),
        ):
            if stated is not None and found is not None:
                lines.append(f"{name}: stated {_shown(stated)}, recomputed at most {_shown(found)}")
        told = {"model": self.model, "unit": self.unit, "neighbours": self.neighbours, "noise": self.noise}
        lines += [f"{name}: {_plain(text)}" for name, text in told.items() if text]
        for title, items in (("checked", self.checked), ("not checked", self.not_checked), ("rests on", self.rests_on)):
            lines += [f"{title}:", *(f"  {item}" for item in items)]
        return "\n".join(lines)


def _plain(text: str) -> str:
    """A text of a file in one line, without what steers a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:200])


_work = [0]


def _spend(terms: int) -> None:
    """Count the work, so that no certificate keeps a checker busy for ever."""
    _work[0] += terms
    if _work[0] > _MOST_WORK:
        raise Unknown("this is more to compute than a certificate should ask for")


# --- numbers ---------------------------------------------------------------------------------------------------------


def _down(x: Fraction) -> Decimal:
    return _DOWN.divide(Decimal(x.numerator), Decimal(x.denominator))


def _up(x: Fraction) -> Decimal:
    return _UP.divide(Decimal(x.numerator), Decimal(x.denominator))


def _exp_down(x: Fraction) -> Decimal:
    """At most e^x."""
    if x < -1000:
        return Decimal(0)
    return max(Decimal(0), _DOWN.next_minus(_DOWN.exp(_down(x))))


def _exp_up(x: Fraction) -> Decimal:
    """At least e^x."""
    if x < -1000:
        return Decimal("1E-400")
    return _UP.next_plus(_UP.exp(_up(x)))


def _ln_up(x: Fraction) -> Decimal:
    """At least ln x."""
    return _UP.next_plus(_UP.ln(_up(x)))


def _ln_down(x: Fraction) -> Decimal:
    """At most ln x."""
    return _DOWN.next_minus(_DOWN.ln(_down(x)))


def _sqrt_up(x: Fraction) -> Fraction:
    """At least the square root."""
    return Fraction(_UP.next_plus(_UP.sqrt(_up(x))))


def _sqrt_down(x: Fraction) -> Fraction:
    """At most the square root."""
    if x == 0:
        return Fraction(0)
    return max(Fraction(0), Fraction(_DOWN.next_minus(_DOWN.sqrt(_down(x)))))


def _fixed_down(x: Decimal | Fraction) -> int:
    whole = Fraction(x) * _ONE
    return whole.numerator // whole.denominator


def _fixed_up(x: Decimal | Fraction) -> int:
    whole = Fraction(x) * _ONE
    return -(-whole.numerator // whole.denominator)


def _times_up(a: int, b: int) -> int:
    return -((-a * b) >> _SCALE)


def _pi() -> tuple[Fraction, Fraction]:
    """Machin: pi = 16 arctan(1/5) - 4 arctan(1/239); alternating series, so partial sums enclose."""
    unit = 10 ** (_DIGITS + 20)

    def arctan(n: int) -> tuple[int, int]:
        low = high = 0
        for i in range(10 * _DIGITS):
            term, d = unit // n ** (2 * i + 1), 2 * i + 1
            low, high = (
                (low + term // d, high + term // d + 2) if i % 2 == 0 else (low - term // d - 2, high - term // d)
            )
            if term == 0:
                break
        return low - 2, high + 2

    (a, b), (c, d) = arctan(5), arctan(239)
    return Fraction(16 * a - 4 * d, unit), Fraction(16 * b - 4 * c, unit)


_PI_DOWN, _PI_UP = _pi()


def _tail(z: Fraction) -> tuple[Decimal, Decimal]:
    """Bounds on P(N(0, 1) > z).

    For z >= 0 it is 1/2 - phi(z) (z + z^3/3 + z^5/15 + ...): positive terms, each z^2 / (2n + 1) times the one before,
    so that what is left out after a ratio below 1/2 is at most the last term.
    """
    if z < 0:
        low, high = _tail(-z)
        return _DOWN.subtract(Decimal(1), high), _UP.subtract(Decimal(1), low)
    if z > 28:  # phi(z) / z bounds the tail, and nothing is added by knowing it better
        return Decimal(0), _UP.divide(_exp_up(-z * z / 2), _down(z))
    square_down, square_up = _down(z * z), _up(z * z)
    low_sum = low_term = _down(z)
    high_sum = high_term = _up(z)
    for n in range(1, 20_000):
        low_term = _DOWN.divide(_DOWN.multiply(low_term, square_down), Decimal(2 * n + 1))
        high_term = _UP.divide(_UP.multiply(high_term, square_up), Decimal(2 * n + 1))
        low_sum, high_sum = _DOWN.add(low_sum, low_term), _UP.add(high_sum, high_term)
        if 4 * z * z < 2 * n + 1 and high_term < Decimal(10) ** -_DIGITS:
            break
    high_sum = _UP.add(high_sum, high_term)
    root_down, root_up = _down(_sqrt_down(2 * _PI_DOWN)), _up(_sqrt_up(2 * _PI_UP))
    low_density = _DOWN.divide(_exp_down(-z * z / 2), root_up)
    high_density = _UP.divide(_exp_up(-z * z / 2), root_down)
    low = _DOWN.subtract(Decimal("0.5"), _UP.multiply(high_density, high_sum))
    high = _UP.subtract(Decimal("0.5"), _DOWN.multiply(low_density, low_sum))
    return max(low, Decimal(0)), max(high, Decimal(0))


# --- closed forms ----------------------------------------------------------------------------------------------------


def pure_delta(bound: Fraction, epsilon: Fraction) -> Fraction:
    """Losses of at most ``bound``: randomised response is the worst, (1 - e^(epsilon - E)) / (1 + e^-E)."""
    if epsilon >= bound:
        return Fraction(0)
    top = _UP.subtract(Decimal(1), _exp_down(epsilon - bound))
    return Fraction(_UP.divide(top, _DOWN.add(Decimal(1), _exp_down(-bound))))


def gaussian_delta(mu_squared: Fraction, epsilon: Fraction) -> Fraction:
    """A Gaussian moved by mu deviations: Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu); it grows with mu."""
    if mu_squared == 0:
        return Fraction(0)
    _spend(6_000)
    mu = _sqrt_up(mu_squared)
    mu = Fraction(-(-mu.numerator * 10**60 // mu.denominator), 10**60) if mu > Fraction(1, 10**30) else mu
    first = _tail(epsilon / mu - mu / 2)[1]
    if epsilon > 300:  # the second term is a small share of the first, and is left out
        return min(Fraction(1), Fraction(first))
    second = _DOWN.multiply(_exp_down(epsilon), _tail(epsilon / mu + mu / 2)[0])
    return min(Fraction(1), max(Fraction(0), Fraction(_UP.subtract(first, second))))


def concentrated_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """Renyi divergences of order a at most rho a: with x = a - 1, for every x > 0,

    ln delta = x ((1 + x) rho - epsilon) + x ln x - (1 + x) ln(1 + x).
    """
    if rho == 0:
        return Fraction(0)
    _spend(500)
    r, e = float(rho), float(epsilon)
    low, high = -300.0, 300.0
    for _ in range(200):  # the derivative (2x + 1) rho - epsilon + ln(x / (1 + x)) grows; any x gives a bound
        u = (low + high) / 2
        slope = (2 * math.exp(u) + 1) * r - e - math.log1p(math.exp(-u))
        low, high = (u, high) if slope < 0 else (low, u)
    x = Fraction(math.exp((low + high) / 2))
    linear = _up(x * ((1 + x) * rho - epsilon))
    log_x = _up(x * Fraction(_ln_up(x)))
    log_y = _down((1 + x) * Fraction(_ln_down(1 + x)))
    return min(Fraction(1), Fraction(_exp_up(Fraction(_UP.subtract(_UP.add(linear, log_x), log_y)))))


# --- lists of atoms --------------------------------------------------------------------------------------------------

Atom = tuple[int, int]  # p, at least the mass under P, and x, at most Q / P, both in units of 2^-256


@dataclass(frozen=True)
class Losses:
    """One pair of laws as atoms: P against Q, and Q against P. ``times`` independent copies of it."""

    forward: tuple[Atom, ...]
    backward: tuple[Atom, ...]
    times: int = 1
    crowd: Crowd | ItemCrowd | None = None  # if given, atoms are computed on whatever grid is asked for
    flipped: int = 0  # copies that are run the other way round: Q against P where the others run P against Q

    @property
    def copies(self) -> int:
        """All copies, either way round."""
        return self.times + self.flipped

    @property
    def uneven(self) -> bool:
        """Whether P against Q and Q against P differ."""
        return self.crowd is None and self.forward is not self.backward and self.times != self.flipped

    def spread(self) -> float:
        """About the standard deviation of the loss of one copy."""
        return _spread(self.forward if self.crowd is None else self.crowd.pairs[-1][0])


def _delta_of(atoms: Sequence[Atom], epsilon: Fraction) -> Fraction:
    """sum of p (1 - e^epsilon x)+."""
    limit = _fixed_up(_exp_up(-epsilon))
    total = 0
    _spend(len(atoms))
    for p, x in atoms:
        if x < limit:
            total += p - p * x // limit
    return Fraction(total, _ONE)


def _delta_of_two(first: Sequence[Atom], second: Sequence[Atom], epsilon: Fraction) -> Fraction:
    """sum over both of p p' (1 - e^epsilon x x')+, by sums over the atoms of the second in the order of x."""
    limit = _fixed_up(_exp_up(-epsilon))
    ordered = sorted(second, key=lambda atom: atom[1])
    ratios = [x for _, x in ordered]
    masses, tilted = [0], [0]
    _spend(len(first) + len(second))
    for p, x in ordered:
        masses.append(masses[-1] + p)
        tilted.append(tilted[-1] + (p * x >> _SCALE))
    total = 0
    for p, x in first:
        below = len(ratios) if x == 0 else bisect_left(ratios, -(-(limit << _SCALE) // x))
        if below:
            total += p * (masses[below] - tilted[below] * x // limit)
    return Fraction(max(total, 0), _ONE * _ONE)


def _binary_atoms(odds_down: Fraction, odds_up: Fraction, answers: int) -> tuple[Atom, ...]:
    """``answers`` answers whose loss is ln(odds) if true and -ln(odds) if false: the number of true ones is binomial.

    True with probability odds / (1 + odds). ``answers`` - 2 j of them more true than false: ratio odds^(2 j - answers).
    """
    if answers > _MOST_COPIES:
        raise Unknown(f"{answers} answered bits are too many to add up")
    _spend(4 * answers + answers * answers // 500)  # numbers of ways have up to so many bits as there are answers
    truth, lie = _fixed_up(_up(odds_up / (1 + odds_up))), _fixed_up(_up(1 / (1 + odds_down)))
    # Powers by running products; masses round up, ratios down.
    truths, lies = [_ONE], [_ONE]
    for _ in range(answers):
        truths.append(_times_up(truths[-1], truth))
        lies.append(_times_up(lies[-1], lie))
    down, up = _fixed_down(_down(1 / odds_up)), _fixed_down(_down(odds_down))
    ratio, powers = _ONE, {0: _ONE}
    for n in range(1, answers + 1):
        ratio = ratio * down >> _SCALE
        powers[-n] = ratio
    ratio = _ONE
    for n in range(1, answers + 1):
        ratio = ratio * up >> _SCALE
        powers[n] = ratio
    atoms, ways = list[Atom](), 1
    for false in range(answers + 1):
        # Powers below a unit count as one unit, which very many ways make more than there is: masses are at most one.
        mass = min(_ONE, _times_up(ways * truths[answers - false], lies[false]))
        atoms.append((mass, powers[2 * false - answers]))
        ways = ways * (answers - false) // (false + 1)
    return tuple(atoms)


def _answered(odds_down: Fraction, odds_up: Fraction, answers: int) -> Losses:
    atoms = _binary_atoms(odds_down, odds_up, answers)
    return Losses(atoms, atoms)


# --- discrete Gaussian noise on whole numbers, cells that move by one ------------------------------------------------

_FINE = 9  # sigma^2 from which a sum of draws is a discrete Gaussian itself, but for a share of 1e-36 per draw


def _lattice_delta(variance: Fraction, cells: int, epsilon: Fraction) -> Fraction:
    """k cells moved by one, sigma^2 >= 9: sum over a > epsilon sigma^2 - k/2 of P(S = a) (1 - e^(epsilon - loss(a))).

    S is the sum of k draws, of variance V = k sigma^2, and the loss at S = a is (k + 2 a) / 2 sigma^2.
    """
    total_variance = cells * variance
    edge = epsilon * variance - Fraction(cells, 2)
    a = edge.numerator // edge.denominator + 1
    reach = math.isqrt(int(total_variance)) * 14 + 40
    if reach - a > _MOST_TERMS:
        raise Unknown("too many terms")
    _spend(max(0, reach - a))
    density = _fixed_up(_exp_up(-Fraction(a * a) / (2 * total_variance)))
    ratio = _fixed_up(_exp_up(-Fraction(2 * a + 1) / (2 * total_variance)))
    ratio_step = _fixed_up(_exp_up(-1 / total_variance))
    kept = _fixed_down(_exp_down(epsilon - Fraction(cells + 2 * a) / (2 * variance)))
    kept_step = _fixed_down(_exp_down(-1 / variance))
    total = 0
    while a <= reach:
        total += density * (_ONE - kept)
        density, ratio = _times_up(density, ratio), _times_up(ratio, ratio_step)
        kept = kept * kept_step >> _SCALE
        a += 1
    # Beyond: a geometric series, all of it counted.
    rest = Fraction(density, _ONE) / (1 - Fraction(ratio, _ONE))
    return (Fraction(total, _ONE * _ONE) + rest) * _lattice_factor(total_variance, cells)


def _lattice_factor(total_variance: Fraction, cells: int) -> Fraction:
    """What turns e^(-a^2 / 2V) into a bound on P(S = a): 1 / sqrt(2 pi V), and what Poisson's formula leaves open."""
    return (1 + cells * Fraction(1, 10**36)) / _sqrt_down(2 * _PI_DOWN * total_variance)


def _lattice_atoms(variance: Fraction, cells: int) -> tuple[Atom, ...]:
    """The same as atoms, for compositions; sums of few draws of little noise by convolution."""
    if variance < _FINE:
        return _narrow_atoms(variance, cells)
    total_variance = cells * variance
    reach = math.isqrt(int(total_variance)) * 12 + 40
    if reach > 60_000:
        raise Unknown("too many terms")
    _spend(4 * reach)
    factor = _fixed_up(_lattice_factor(total_variance, cells))
    half = [_ONE]
    ratio, step = _fixed_up(_exp_up(-1 / (2 * total_variance))), _fixed_up(_exp_up(-1 / total_variance))
    for _ in range(reach):
        half.append(_times_up(half[-1], ratio))
        ratio = _times_up(ratio, step)
    rest = _fixed_up(Fraction(half[-1], _ONE) / (1 - Fraction(ratio, _ONE)))
    masses = [_times_up(p, factor) for p in half]
    return _moved(masses, _times_up(rest, factor), variance, cells)


def _moved(half: list[int], rest: int, variance: Fraction, cells: int) -> tuple[Atom, ...]:
    """Atoms from P(S = a) = half[|a|] and what lies beyond: the ratio at S = a is e^(-(k + 2 a) / 2 sigma^2)."""
    reach = len(half) - 1
    x = _fixed_down(_exp_down(-Fraction(cells - 2 * reach) / (2 * variance)))
    step = _fixed_down(_exp_down(-1 / variance))
    atoms = []
    for a in range(-reach, reach + 1):
        atoms.append((half[abs(a)] + (rest if a == -reach else 0), x))
        x = x * step >> _SCALE
    return (*atoms, (rest, 0))


def _narrow_atoms(variance: Fraction, cells: int) -> tuple[Atom, ...]:
    """Little noise: the law of one draw, and sums by convolution."""
    one, reach = [_ONE], 0
    _spend(10_000)
    while one[-1] > 1 << 40 and reach < 400:
        reach += 1
        one.append(_fixed_up(_exp_up(-Fraction(reach * reach) / (2 * variance))))
    ratio = _exp_up(-Fraction(2 * reach + 1) / (2 * variance))
    beyond = Fraction(one[-1], _ONE) * Fraction(ratio) / (1 - Fraction(ratio))
    if reach * cells > 30_000:
        raise Unknown("too many draws of little noise")
    # Entries were rounded up by at most two units each: so much less is the least that they can be in all.
    whole = Fraction(one[0] + 2 * sum(one[1:]) - 4 * len(one), _ONE)
    digits = 60
    unit = 10**digits
    law = [_ceil(Fraction(one[abs(a)], _ONE) / whole * unit) for a in range(-reach, reach + 1)]
    outside = _ceil(2 * beyond / whole * unit)
    power = _Grid(-reach, law, outside, digits).power(cells, 0)
    middle = -power.start
    masses = [_fixed_up(Fraction(m, unit)) for m in power.masses]
    half = [max(masses[middle + a], masses[middle - a]) for a in range(middle + 1)]
    return _moved(half, _fixed_up(Fraction(power.lost, unit)), variance, cells)


def _ceil(x: Fraction) -> int:
    return -(-x.numerator // x.denominator)


# --- evenly spaced losses, and their sums ----------------------------------------------------------------------------


@dataclass
class _Grid:
    """Mass ``masses[i]`` at the loss ``start + i`` steps, ``lost`` at infinity, in units of 10^-digits."""

    start: int
    masses: list[int]
    lost: int
    digits: int

    def plus(self, other: _Grid, negligible: int) -> _Grid:
        """The sum of independent losses. One product of long numbers convolves; masses are rounded up."""
        unit = 10**self.digits
        if len(self.masses) + len(other.masses) > _MOST_POINTS:
            raise Unknown("the losses spread too far")
        _spend(4 * (len(self.masses) + len(other.masses)))
        masses = [-(-m // unit) for m in _convolve(self.masses, other.masses, 2 * self.digits + 8)]
        mine, others = sum(self.masses), sum(other.masses) + other.lost
        lost = -(-(self.lost * others + other.lost * mine) // unit)
        low, high = 0, len(masses)
        up = down = 0
        while high - low > 1 and up + masses[high - 1] <= negligible:
            up += masses[high - 1]
            high -= 1
        while high - low > 1 and down + masses[low] <= negligible:
            down += masses[low]
            low += 1
        kept = masses[low:high]
        kept[0] += down
        return _Grid(self.start + other.start + low, kept, lost + up, self.digits)

    def power(self, times: int, negligible: int) -> _Grid:
        """The sum of so many copies, by repeated squaring."""
        if times > _MOST_COPIES:
            raise Unknown("too many copies of one law")
        result, square = None, self
        while True:
            if times & 1:
                result = square if result is None else result.plus(square, negligible)
            times >>= 1
            if not times:
                assert result is not None
                return result
            square = square.plus(square, negligible)

    def delta(self, step: Fraction, epsilon: Fraction) -> Fraction:
        """Of the losses, whose unit is ``step``."""
        edge = epsilon / step
        first = max(0, edge.numerator // edge.denominator + 1 - self.start)
        total = 0
        _spend(len(self.masses))
        kept = _fixed_down(_exp_down(epsilon - (self.start + first) * step))
        ratio = _fixed_down(_exp_down(-step))
        for mass in self.masses[first:]:
            total += mass * (_ONE - kept)
            kept = kept * ratio >> _SCALE
        return Fraction(total + self.lost * _ONE, _ONE * 10**self.digits)


def _convolve(a: list[int], b: list[int], width: int) -> list[int]:
    """The coefficients of a product of polynomials, as digits of a product of two long numbers.

    Each has at most ``width`` digits, or they would run into one another.
    """
    if max(sum(a), 1) * max(sum(b), 1) >= 10**width:
        raise Unknown("the bounds on masses add up to far more than one")
    texts = ["".join([f"{m:0{width}d}" for m in reversed(numbers)]) for numbers in (a, b)]
    context = decimal.Context(len(texts[0]) + len(texts[1]) + 2, ROUND_FLOOR, decimal.MIN_EMIN, decimal.MAX_EMAX)
    context.traps[decimal.Inexact] = True
    product = context.multiply(Decimal(texts[0]), Decimal(texts[1]))
    size = len(a) + len(b) - 1
    digits = f"{product:f}".zfill(size * width)[-size * width :]
    return [int(digits[i : i + width]) for i in range((size - 1) * width, -1, -width)]


def _on_grid(atoms: Sequence[Atom], step: Fraction, digits: int) -> _Grid:
    """Split atoms between neighbouring losses so that mass and mean ratio stay; rounded up."""
    unit, width = 10**digits, float(step)
    log_one = _SCALE * math.log(2)
    places = [math.floor((log_one - _log(x)) / width) if x > 0 else None for _, x in atoms]
    inside = [place for place in places if place is not None]
    lost = sum(_ceil(Fraction(p * unit, _ONE)) for (p, _), place in zip(atoms, places) if place is None)
    if not inside:
        return _Grid(0, [0], lost, digits)
    low, high = min(inside) - 1, max(inside) + 3
    if high - low > 60_000:
        raise Unknown("the losses spread too far")
    # Ratios at the grid's losses, from below and from above.
    least, most = _fixed_down(_exp_down(-low * step)), _fixed_up(_exp_up(-low * step))
    down, up = _fixed_down(_exp_down(-step)), _fixed_up(_exp_up(-step))
    bounds = []
    for _ in range(low, high + 1):
        bounds.append((least, most))
        least, most = least * down >> _SCALE, _times_up(most, up)
    masses = [0] * (high - low + 1)
    for (p, x), place in zip(atoms, places):
        if place is None:
            continue
        if x < bounds[-1][1]:  # so small that the bounds on the grid's ratios, which are rounded up, stay above it
            lost += _ceil(Fraction(p * unit, _ONE))
            continue
        i = place - low
        while x < bounds[i + 1][1]:  # the floating point logarithm was rounded
            i += 1
        while i > 0 and x > bounds[i][1]:
            i -= 1
        gap = bounds[i][0] - bounds[i + 1][1]
        upper = min(p, -(-p * max(0, bounds[i][1] - x) // gap)) if gap > 0 else p
        surely = max(0, p * max(0, bounds[i][0] - x) // (bounds[i][1] - bounds[i + 1][0]) - 1) if gap > 0 else 0
        masses[i + 1] += (upper * unit + _ONE - 1) // _ONE
        masses[i] += ((p - surely) * unit + _ONE - 1) // _ONE
    return _Grid(low, masses, lost, digits)


def _log(x: int) -> float:
    """The natural logarithm of a positive whole number of any size."""
    shift = max(0, x.bit_length() - 900)
    return math.log(x >> shift) + shift * math.log(2)


def _spread(atoms: Sequence[Atom]) -> float:
    """About the standard deviation of the loss."""
    log_one = _SCALE * math.log(2)
    pairs = [(p / _ONE, log_one - _log(x)) for p, x in atoms if x > 0 and p > 0]
    mass = sum(p for p, _ in pairs) or 1.0
    mean = sum(p * loss for p, loss in pairs) / mass
    return math.sqrt(max(sum(p * (loss - mean) ** 2 for p, loss in pairs) / mass, 1e-30))


# --- bits that everybody answers, of which the number of ones is shown -----------------------------------------------


@dataclass(frozen=True)
class Crowd:
    """One user's bit, answered falsely with probability ``lie``, among ``others`` who do the same."""

    lie: Fraction
    others: int

    @property
    def bound(self) -> Fraction:
        """At least the largest loss: what her own answer gives away."""
        return Fraction(_ln_up((1 - self.lie) / self.lie))

    @cached_property
    def pairs(self) -> list[tuple[tuple[Atom, ...], tuple[Atom, ...]]]:
        """For each range of crowds, atoms of one against zero and of zero against one."""
        half = self.others // 2
        width = -(-(half + 1) // _RANGES)
        starts = range(0, half + 1, width)
        return [self._pair(self.others - min(a + width - 1, half), a) for a in starts]

    def _pair(self, zeros: int, ones: int) -> tuple[tuple[Atom, ...], tuple[Atom, ...]]:
        """The others' ones: binomial(zeros, lie) + binomial(ones, 1 - lie), and the user's own answer to a one or zero.

        Entries of 1e-22 and above are known to a share of 1e-19 (see :func:`_binomial`); smaller ones, and the outcomes
        next to them, count as the answer that gives her away most.
        """
        digits = 45
        _spend(0)
        few, many = _binomial(zeros, self.lie, digits), _binomial(ones, self.lie, digits)
        _spend(8 * (len(few[1]) + len(many[1])))
        hidden = _convolve(few[1], many[1][::-1], 2 * digits + 8)
        total = sum(hidden)
        kept = [i for i, mass in enumerate(hidden) if mass * 10**22 > total]
        middle = hidden[kept[0] : kept[-1] + 1]
        whole = sum(middle)
        cut = len(hidden) < zeros + ones + 1
        below, above = cut or kept[0] > 0, cut or kept[-1] < len(hidden) - 1
        lost = _fixed_up(Fraction(total - whole, total) + Fraction(few[2] + many[2] + 4, 10**digits))
        truth = 1 - self.lie
        t_down, l_down = _fixed_down(truth), _fixed_down(self.lie)
        t_up, l_up = _fixed_up(truth), _fixed_up(self.lie)
        worst = _fixed_down(self.lie / truth)
        surely = _fixed_down(1 - Fraction(1, 10**18))
        forward: list[Atom] = [(lost, worst)]
        backward: list[Atom] = [(lost, worst)]
        for i, (before, mass) in enumerate(zip((0, *middle), (*middle, 0))):
            # One more than the others have if she answers one, as many as they have if she answers zero.
            one = (t_up * before + l_up * mass) // whole + 1
            zero = (l_up * before + t_up * mass) // whole + 1
            edge = (i == 0 and below) or (i == len(middle) and above)
            ratio = (l_down * before + t_down * mass) * surely // (t_up * before + l_up * mass)
            inverse = (t_down * before + l_down * mass) * surely // (l_up * before + t_up * mass)
            forward.append((one + (one >> 59), worst if edge else max(worst, ratio)))
            backward.append((zero + (zero >> 59), worst if edge else max(worst, inverse)))
        return tuple(forward), tuple(backward)

    def delta(self, epsilon: Fraction) -> Fraction:
        """Of one answer."""
        return max(_delta_of(atoms, epsilon) for pair in self.pairs for atoms in pair)

    def step(self, copies: int) -> Fraction:
        """A grid that is fine against the spread of one answer's loss."""
        forward, _ = self._pair(self.others - self.others // 2, self.others // 2)
        return Fraction(max(_spread(forward) / _resolution(copies), float(self.bound) / 20_000))

    def grid(self, step: Fraction, digits: int) -> _Grid:
        """The pair of laws whose curve is linear in e^epsilon between the largest curves of all crowds."""
        points = min(60_000, int(self.bound / step) + 2)
        up = _fixed_up(_exp_up(-step))
        limits = [_ONE]  # at least e^-epsilon
        for _ in range(points):
            limits.append(_times_up(limits[-1], up))
        curve = [0] * (points + 1)
        floor = _ONE // 10**24
        for pair in self.pairs:
            for atoms in pair:
                _raise_curve(curve, atoms, limits, floor)
        last = next((i for i, value in enumerate(curve) if value <= floor), points)
        if last * step >= self.bound:
            curve[last] = 0
        return _from_curve([Fraction(value, _ONE) for value in curve[: last + 1]], step, digits)


_RANGES = 32
_RESOLUTION = 128  # points of a grid per standard deviation of the loss of one of many copies
_FINER = 4  # times as many for a few copies, whose grids are short
_MANY = 8


def _resolution(copies: int) -> int:
    return _RESOLUTION if copies >= _MANY else _FINER * _RESOLUTION


def _raise_curve(curve: list[int], atoms: Sequence[Atom], limits: list[int], floor: int) -> None:
    """Raise the curve to sum of p (1 - e^epsilon x)+ at every point, until it is below ``floor``."""
    ordered = sorted(atoms, key=lambda atom: atom[1])
    ratios = [x for _, x in ordered]
    masses, tilted = [0], [0]
    for p, x in ordered:
        masses.append(masses[-1] + p)
        tilted.append(tilted[-1] + p * x)
    _spend(len(atoms) + len(limits) // 4)
    for i, limit in enumerate(limits):
        below = bisect_left(ratios, limit)
        value = masses[below] - tilted[below] // limit
        if value > curve[i]:
            curve[i] = value
        if value <= floor:
            if i < len(curve) - 1:
                curve[i] = max(curve[i], floor)
            break


def _from_curve(curve: list[Fraction], step: Fraction, digits: int) -> _Grid:
    """Losses 0, 1, 2, ... steps (and their mirror images) from the values of a symmetric curve; the last one stays.

    Between the points it is linear in y = e^epsilon. A kink by s at y is a mass s of Q at that loss, and y s of P.
    """
    context = decimal.Context(80, decimal.ROUND_HALF_EVEN, decimal.MIN_EMIN, decimal.MAX_EMAX)
    unit = Decimal(10) ** digits
    size = len(curve)
    values = [context.divide(Decimal(v.numerator), Decimal(v.denominator)) for v in curve]
    ratio, places = _UP.exp(_up(step)), [Decimal(1)]
    for _ in range(size):
        places.append(context.multiply(places[-1], ratio))
    slopes = [
        context.divide(context.subtract(values[i + 1], values[i]), context.subtract(places[i + 1], places[i]))
        for i in range(size - 1)
    ]
    slopes.append(Decimal(0))
    above, below, even = [], [], Decimal(1)
    margin = Decimal(10) ** -(digits + 2)  # far above the errors of eighty digits
    for i in range(1, size):
        kink = context.subtract(slopes[i], slopes[i - 1])
        tilted = context.multiply(kink, places[i])
        even = context.subtract(even, context.add(kink, tilted))
        above.append(int(max(tilted + margin, Decimal(0)) * unit) + 1)
        below.append(int(max(kink + margin, Decimal(0)) * unit) + 1)
    lost = int((values[-1] + margin) * unit) + 1
    return _Grid(1 - size, [*reversed(below), int((max(even, Decimal(0)) + margin) * unit) + 1, *above], lost, digits)


def _binomial(trials: int, p: Fraction, digits: int) -> tuple[int, list[int], int]:
    """First count, probabilities in units of 10^-digits, and a bound on what is beyond, in the same units.

    From the mode outwards by the exact ratios of neighbours, rounded down: within a share of 1e-22 (each step loses at
    most 1e-28 of it, and there are at most 2e5), and within one unit. What is beyond is less than a geometric series.
    """
    unit = 10 ** (digits + 30)
    mode = min(int((trials + 1) * p), trials)
    a, b = p.numerator, p.denominator - p.numerator  # odds
    above, below = [unit], list[int]()
    high, value = mode, unit
    while high < trials and value > 10**28 and len(above) < 200_000:
        value = value * (trials - high) * a // ((high + 1) * b)
        high += 1
        above.append(value)
    beyond = _beyond(value, Fraction((trials - high) * a, (high + 1) * b))
    low, value = mode, unit
    while low > 0 and value > 10**28 and len(below) < 200_000:
        value = value * low * b // ((trials - low + 1) * a)
        low -= 1
        below.append(value)
    beyond += _beyond(value, Fraction(low * b, (trials - low + 1) * a))
    weights = below[::-1] + above
    whole = sum(weights)
    _spend(2 * len(weights))
    return low, [weight * 10**digits // whole for weight in weights], 2 * beyond * 10**digits // whole + 2


def _beyond(value: int, ratio: Fraction) -> int:
    if ratio >= 1:
        raise Unknown("a binomial law is too wide")
    return _ceil(value * ratio / (1 - ratio))


def _binomial_losses(trials: int, p: Fraction, up: int, down: int) -> Losses:
    """A count with binomial noise that rises by one: P = f(o), Q = f(o - 1), ratio o (1 - p) / ((n - o + 1) p)."""
    digits = 50
    low, masses, beyond = _binomial(trials, p, digits)
    if len(masses) > 100_000:
        raise Unknown("a binomial law is too wide")
    unit = 10**digits
    a, b = p.numerator, p.denominator - p.numerator
    rising: list[Atom] = [(_fixed_up(Fraction(beyond, unit)), 0)]
    falling: list[Atom] = [(_fixed_up(Fraction(beyond, unit)), 0)]
    for i, mass in enumerate(masses):
        o = low + i
        share = ((mass + 1) << _SCALE) // unit + 1
        rising.append((share, (o * b << _SCALE) // ((trials - o + 1) * a)))
        falling.append((share, ((trials - o) * a << _SCALE) // ((o + 1) * b)))
    return Losses(tuple(rising), tuple(falling), up, None, down)


# --- items that everybody sends, of which only how often each was sent is shown ---------------------------------------


@dataclass(frozen=True)
class ItemCrowd:
    """One user's item of ``items``, each wrong one sent with probability ``lie``, among ``others`` who do the same.

    With n users, b = lie and s = 1 - items b, delta = E[(s (N0 - e^epsilon N1) - (e^epsilon - 1) b m)+] / (n b), where
    (N0, N1, m - N0 - N1, n - m) is multinomial with probabilities (b, b, (items - 2) b, s).
    """

    items: int
    lie: Fraction
    others: int

    @property
    def pairs(self) -> Any:
        """Not listed: two of these are put together by their largest losses only."""
        raise Unknown("the losses of shuffled items are known one at a time")

    def step(self, copies: int) -> Fraction:
        """Not listed either."""
        raise Unknown("the losses of shuffled items are known one at a time")

    def grid(self, step: Fraction, digits: int) -> _Grid:
        """Not listed either."""
        raise Unknown("the losses of shuffled items are known one at a time")

    def delta(self, epsilon: Fraction) -> Fraction:
        """C = N0 + N1 is binomial, N0 given C a sum of fair coins, and R = m - C is moved to a few points, never up.

        The expectation is convex and falling in R: intervals give their mass to both ends with the mean kept, what is
        beyond the last point goes to it, and for neighbouring C the law of the largest is taken, whose R is smallest.
        """
        odds = Fraction(_fixed_down(_exp_down(epsilon)), _ONE)  # delta falls with the odds
        users, s = self.others + 1, 1 - self.items * self.lie
        if s == 0:
            return Fraction(0)
        slope = (odds - 1) * self.lie / s
        each, more = _fixed_down((odds + slope) / (1 + odds)), _fixed_down(slope / (1 + odds))
        total, (rows, beyond) = 0, self._rows
        for count, mass, (points, weights), (at_least, above) in rows:
            excess = 0
            _spend(len(points))
            for point, weight in zip(points, weights):
                edge = each * count + more * point  # the least N0 for which the sum is positive, rounded down
                value = (edge >> _SCALE) + 1 - count // 2
                if value < len(at_least):
                    short = ((edge >> _SCALE) + 1 << _SCALE) - edge
                    excess += weight * (above[value + 1] + _times_up(short, at_least[value]))
            total += mass * excess
        found = Fraction(total, _ONE * 10 ** (2 * _ITEM_DIGITS)) * s * (1 + odds) / (users * self.lie)
        return min(Fraction(1), found + Fraction(beyond, 10**_ITEM_DIGITS) * s / self.lie)

    @cached_property
    def _rows(self) -> tuple[list[tuple[int, int, _Moved, _Heads]], int]:
        """Counts C with their masses, rounded up, the points of R, and the law of N0; and the mass beyond."""
        users = self.others + 1
        first, masses, beyond = _binomial(users, 2 * self.lie, _ITEM_DIGITS)
        together = -(-len(masses) // _ITEM_LAWS)
        chance = (self.items - 2) * self.lie / (1 - 2 * self.lie)
        rows, moved = [], ([0], [10**_ITEM_DIGITS])
        for i, mass in enumerate(masses):
            left = users - first - min(i + together, len(masses)) + 1
            if i % together == 0 and chance and left > 0:
                moved = _few_points(*_binomial(left, chance, _ITEM_DIGITS))
            elif left <= 0:
                moved = [0], [10**_ITEM_DIGITS]
            rows.append((first + i, mass + 1 + mass // 10**20, moved, _heads(first + i)))
        return rows, beyond


_Moved = tuple[list[int], list[int]]
_Heads = tuple[list[int], list[int]]
_ITEM_DIGITS = 45
_ITEM_LAWS = 256
_ITEM_POINTS = 160


def _few_points(low: int, masses: list[int], beyond: int) -> _Moved:
    """A law moved to a few points, with its mean kept; masses are rounded up, what is not listed goes to zero."""
    _spend(2 * len(masses))
    seen = [i for i, mass in enumerate(masses) if mass > 10 ** (_ITEM_DIGITS - 22)]
    last = low + seen[-1]
    width = max(1, -(-(seen[-1] - seen[0]) // _ITEM_POINTS))
    points = sorted({0, *range(low + seen[0], last, width), last})
    weights = [0] * len(points)
    place = 0
    for value, mass in enumerate(masses, low):
        mass += 1 + mass // 10**20
        if value >= last:
            weights[-1] += mass
            continue
        while points[place + 1] <= value:
            place += 1
        gap = points[place + 1] - points[place]
        weights[place] += -(-mass * (points[place + 1] - value) // gap)
        weights[place + 1] += -(-mass * (value - points[place]) // gap)
    weights[0] += beyond + 1
    return points, weights


def _heads(count: int) -> _Heads:
    """For values from count // 2 on: P(N >= value), and the sum of those from there on, N heads of ``count`` coins."""
    value = count // 2
    law = [-(-(math.comb(count, value) << _SCALE) >> count)]
    while value < count and law[-1] > 1:
        law.append(-(-law[-1] * (count - value) // (value + 1)))
        value += 1
    _spend(4 * len(law))
    rest = count - value  # further values, of at most one unit each
    at_least, above = [rest], [rest * (rest + 1)]
    for mass in reversed(law):
        at_least.append(at_least[-1] + mass)
        above.append(above[-1] + at_least[-1])
    return at_least[:0:-1], above[::-1]


# --- what is known about a mechanism ---------------------------------------------------------------------------------


@dataclass
class Known:
    """Bounds on one mechanism: its largest loss, rho, mu of a Gaussian that is no more private, and its losses.

    ``exact``: the bounds are attained, but for rounding. ``slack``: the Gaussian's curve is taken at epsilon less that,
    and times e^slack.
    """

    pure: Fraction | None = None
    rho: Fraction | None = None
    mu_squared: Fraction | None = None
    slack: Fraction = Fraction(0)
    losses: tuple[Losses, ...] | None = None
    lattice: tuple[Fraction, int] | None = None  # sigma^2 and cells that move by one
    exact: bool = True
    _cache: dict[Any, Any] = field(default_factory=dict)

    def delta(self, epsilon: Fraction, negligible: Fraction) -> Fraction:
        """The least of the bounds on delta."""
        found = [Fraction(1)]
        if self.pure is not None:
            if epsilon >= self.pure:
                return Fraction(0)
            found.append(pure_delta(self.pure, epsilon))
        if self.rho is not None:
            found.append(concentrated_delta(self.rho, epsilon))
        try:
            by_losses = self._by_losses(epsilon, negligible)
        except Unknown:
            if len(found) == 1 and self.mu_squared is None:
                raise
            by_losses = None
        if by_losses is not None:
            found.append(by_losses)
        elif self.mu_squared is not None:
            moved = max(Fraction(0), epsilon - self.slack)  # below 0 a curve rises by no more than epsilon falls
            below = max(Fraction(0), self.slack - epsilon)
            found.append((gaussian_delta(self.mu_squared, moved) + below) * (1 + 2 * self.slack))
        return min(found)

    def _by_losses(self, epsilon: Fraction, negligible: Fraction) -> Fraction | None:
        if self.lattice is not None:
            variance, cells = self.lattice
            if variance >= _FINE:
                return _lattice_delta(variance, cells, epsilon)
            if "narrow" not in self._cache:
                self._cache["narrow"] = _narrow_atoms(variance, cells)
            return _delta_of(self._cache["narrow"], epsilon)
        if self.losses is None:
            return None
        if len(self.losses) == 1 and self.losses[0].crowd is not None and self.losses[0].copies == 1:
            return self.losses[0].crowd.delta(epsilon)
        alone = all(part.copies == 1 and part.crowd is None for part in self.losses)
        if alone and len(self.losses) == 1:
            return max(_delta_of(atoms, epsilon) for atoms in self._directions(self.losses[0]))
        if alone and len(self.losses) == 2:
            one, other = (self._directions(part) for part in self.losses)
            turned = [(one[int(a)], other[int(b)]) for a, b in self._ways()]
            return max(_delta_of_two(first, second, epsilon) for first, second in turned)
        step, grids = self._sums(negligible)
        return max(grid.delta(step, epsilon) for grid in grids)

    def _crowd(self, crowd: Crowd | ItemCrowd, step: Fraction, digits: int) -> _Grid:
        if crowd not in self._cache:
            self._cache[crowd] = crowd.grid(step, digits)
        found: _Grid = self._cache[crowd]
        return found

    def _directions(self, part: Losses) -> tuple[tuple[Atom, ...], tuple[Atom, ...]]:
        return (part.forward, part.backward) if part.times else (part.backward, part.forward)

    def _ways(self) -> list[tuple[bool, ...]]:
        """Which parts are turned round: all ways for those whose directions differ (rule 8)."""
        uneven = [part.uneven for part in self.losses or ()]
        if sum(uneven) > _MOST_UNEVEN:
            raise Unknown("too many releases are put together whose two directions differ")
        return list(itertools.product(*((False, True) if differs else (False,) for differs in uneven)))

    def _sums(self, negligible: Fraction) -> tuple[Fraction, list[_Grid]]:
        """The distribution of all losses together in every direction, on one grid."""
        if "sums" in self._cache:
            found: tuple[Fraction, list[_Grid]] = self._cache["sums"]
            return found
        assert self.losses is not None
        digits = 30 + max(0, -math.floor(math.log10(float(negligible) or 1e-300)) - 16)
        copies = sum(part.copies for part in self.losses)
        if len(self.losses) == 1 and self.losses[0].crowd is not None:
            step = self.losses[0].crowd.step(copies)
        else:
            square = sum(part.copies * part.spread() ** 2 for part in self.losses) / copies
            step = Fraction(math.sqrt(square) / _resolution(copies))
        cut = int(negligible * 10**digits)
        grids = []
        for ways in self._ways():
            total: _Grid | None = None
            for part, turned in zip(self.losses, ways):
                for atoms, times in ((part.forward, part.times), (part.backward, part.flipped)):
                    if turned:
                        atoms = part.backward if atoms is part.forward else part.forward
                    if times:
                        one = self._crowd(part.crowd, step, digits) if part.crowd else _on_grid(atoms, step, digits)
                        several = one.power(times, cut)
                        total = several if total is None else total.plus(several, cut)
            assert total is not None
            grids.append(total)
        self._cache["sums"] = step, grids
        return step, grids


@dataclass
class Worst:
    """One of several mechanisms: the largest of their bounds."""

    parts: list[Known | Worst | Thresholded]

    @property
    def pure(self) -> Fraction | None:
        """The largest loss of any of them."""
        return _largest(part.pure for part in self.parts)

    @property
    def rho(self) -> Fraction | None:
        """The largest rho of any of them."""
        return _largest(part.rho for part in self.parts)

    @property
    def exact(self) -> bool:
        """Whether all bounds are attained."""
        return all(part.exact for part in self.parts)

    def delta(self, epsilon: Fraction, negligible: Fraction) -> Fraction:
        """The largest delta of any of them."""
        return max(part.delta(epsilon, negligible) for part in self.parts)


@dataclass
class Batches(Worst):
    """Batches of which some are listed, and all of which keep ``point``, an epsilon and a delta.

    The listed ones are the parts. Of the others the point is known and nothing else: what is concluded beyond it (rho,
    compositions, several records) rests on the point alone.
    """

    point: tuple[Fraction, Fraction]

    @property
    def pure(self) -> Fraction | None:
        """Epsilon, if delta is zero."""
        return None if self.point[1] else self.point[0]

    @property
    def rho(self) -> Fraction | None:
        """That of the largest loss."""
        return None if self.pure is None else self.pure**2 / 2

    def least_private(self) -> Known:
        """The worst mechanism with that point: with probability delta all is shown, else a bit with odds e^epsilon."""
        epsilon, delta = self.point
        if epsilon > 2000:
            return Known(self.pure, self.rho, exact=False)
        odds = Fraction(_exp_up(epsilon))
        answered = _binary_atoms(odds, odds, 1)
        atoms = ((_fixed_up(delta), 0), *((_fixed_up((1 - delta) * Fraction(p, _ONE)), x) for p, x in answered))
        return Known(self.pure, self.rho, losses=(Losses(atoms, atoms),), exact=False)


@dataclass
class Thresholded:
    """Noise on the cells that occur, of which those leave that reach a threshold.

    ``appears``: at least the probability that a cell of her own leaves; ``cells``: how many she can have. For every
    epsilon, delta <= 1 - (1 - p)^m + delta of the noise at epsilon - m ln(1 / (1 - p)).
    """

    noise: Known
    appears: Fraction
    cells: int
    pure: None = None
    rho: None = None

    @property
    def exact(self) -> bool:
        """Not: the rule is an upper bound."""
        return False

    def delta(self, epsilon: Fraction, negligible: Fraction) -> Fraction:
        """The bound of the rule above."""
        if self.appears >= 1:
            return Fraction(1)
        hidden = self.cells * Fraction(_ln_up(1 / (1 - self.appears)))
        if epsilon < hidden:
            return Fraction(1)
        shown = 1 - Fraction(_exp_down(-hidden))
        return min(Fraction(1), shown + self.noise.delta(epsilon - hidden, negligible))


def _largest(values: Iterable[Fraction | None]) -> Fraction | None:
    found = list(values)
    return None if None in found else max(value for value in found if value is not None)


def _total(values: Iterable[Fraction | None]) -> Fraction | None:
    found = list(values)
    return None if None in found else sum((value for value in found if value is not None), Fraction(0))


def composed(parts: list[Any]) -> Any:
    """Several mechanisms on the same users, one after the other: losses, rhos and squares of mu add up."""
    if len(parts) == 1:
        return parts[0]
    parts = [part.least_private() if isinstance(part, Batches) else part for part in parts]
    all_known = [part for part in parts if isinstance(part, Known)]
    pure, rho = _total(part.pure for part in parts), _total(part.rho for part in parts)
    if len(all_known) < len(parts):
        return Known(pure=pure, rho=rho, exact=False)
    mu = _total(part.mu_squared for part in all_known)
    only_pure = all(part.pure is not None and part.losses is None for part in all_known)
    losses: list[Losses] | None = None if only_pure else []
    for part in all_known:
        own = None if losses is None else _as_losses(part)
        losses = None if own is None or losses is None else [*losses, *own]
    return Known(
        pure=pure,
        rho=rho,
        mu_squared=mu,
        slack=sum((part.slack for part in all_known), Fraction(0)),
        losses=None if losses is None else tuple(losses),
        # Of releases whose directions differ the worst ways together are counted, and need not occur together.
        exact=all(part.exact for part in all_known) and sum(part.uneven for part in losses or ()) < 2,
    )


def _as_losses(part: Known) -> tuple[Losses, ...] | None:
    """Losses to be added to others, where they are known."""
    if part.losses is not None:
        return part.losses
    if part.lattice is not None:
        try:
            atoms = _lattice_atoms(*part.lattice)
        except Unknown:
            return None
        return (Losses(atoms, atoms),)
    if part.pure is not None and part.pure < 2000:
        return (_answered(Fraction(_exp_up(part.pure)), Fraction(_exp_up(part.pure)), 1),)
    return None


# --- laws ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moves:
    """What replacing one user moves: norms, and the worst shift as groups (magnitude, up, down) where it is known."""

    l1: Fraction
    l2_squared: Fraction
    linf: Fraction
    worst: tuple[tuple[int, int, int], ...] | None
    unit: bool

    @property
    def whole(self) -> bool:
        """Whether whole numbers can move so little (norms are bounds, and those of longer moves may be any)."""
        return self.linf * (1 + Fraction(1, 10**9)) >= 1

    @property
    def up(self) -> int:
        """How many cells rise."""
        return sum(up for _, up, _ in self.worst or ())

    @property
    def down(self) -> int:
        """How many cells fall."""
        return sum(down for _, _, down in self.worst or ())


def _nothing_moves() -> Known:
    return Known(Fraction(0), Fraction(0), Fraction(0))


def _discrete_laplace(law: dict[str, Any], moves: Moves) -> Known:
    """Pure L1 / b; rho L2^2 / 2 b^2; a cell that moves by one is an answer with odds e^(1/b)."""
    b = _number(law, "scale", positive=True)
    rho = moves.l2_squared / (2 * b * b)
    cells = moves.up + moves.down
    if not moves.unit or cells > _MOST_COPIES or 1 / b > 2000:
        return Known(moves.l1 / b, min(rho, (moves.l1 / b) ** 2 / 2))
    odds = Fraction(_exp_down(1 / b)), Fraction(_exp_up(1 / b))
    return Known(moves.l1 / b, rho, losses=(_answered(*odds, cells),))


def _laplace(law: dict[str, Any], moves: Moves) -> Known:
    """Pure L1 / b, and rho L2^2 / 2 b^2: a coordinate moved by d has losses of at most d / b."""
    b = _number(law, "scale", positive=True)
    return Known(moves.l1 / b, moves.l2_squared / (2 * b * b), exact=moves.worst is None)


_SMOOTHING = Fraction(9, 4)  # the square of s = 1.5 steps
_LEFT_OPEN = Fraction(
    21, 10**20
)  # more than ln((1 + t) / (1 - t)) with t = 2 (e^(-2 pi^2 s^2) + e^(-8 pi^2 s^2) + ...)


def _discrete_gaussian(law: dict[str, Any], moves: Moves) -> Known:
    """rho L2^2 / 2 sigma^2; smoothed, mu L2 / sqrt(sigma^2 - s^2); cells that move by one exactly."""
    variance = _number(law, "sigma", positive=True) ** 2
    rho = moves.l2_squared / (2 * variance)
    mu, slack = None, Fraction(0)
    # At most L1 cells move, by whole numbers, and each leaves open that much of a logarithm.
    if variance > _SMOOTHING and moves.l1 * _LEFT_OPEN < Fraction(1, 10**9):
        mu, slack = moves.l2_squared / (variance - _SMOOTHING), moves.l1 * _LEFT_OPEN
    lattice = None
    cells = moves.up + moves.down
    if moves.unit and cells and cells * variance < 10**10:
        lattice = variance, cells
    return Known(rho=rho, mu_squared=mu, slack=slack, lattice=lattice, exact=lattice is not None or mu is not None)


def _grid_gaussian(law: dict[str, Any], moves: Moves) -> Known:
    """On multiples of 2^-bits: mu = L2 / sqrt(sigma^2 - (3 steps)^2), but for a share below 1e-70 a cell."""
    sigma, bits = _number(law, "sigma", positive=True), _count(law, "bits", 1000)
    step = Fraction(1, 2**bits)
    if moves.linf < step:
        raise Refused("noise on a grid is stated for moves that are shorter than its step")
    if not sigma / step >= 100 or moves.l2_squared / step**2 > 10**50:
        raise Unknown("the grid is too coarse for its noise")
    mu = moves.l2_squared / (sigma**2 - 9 * step**2)
    return Known(rho=mu / 2, mu_squared=mu, slack=Fraction(1, 10**20))


def _gaussian(law: dict[str, Any], moves: Moves) -> Known:
    """mu = L2 / sigma."""
    mu = moves.l2_squared / _number(law, "sigma", positive=True) ** 2
    return Known(rho=mu / 2, mu_squared=mu)


def _symmetric_matrix(law: dict[str, Any], moves: Moves) -> Known:
    """A symmetric matrix, variance v off the diagonal and 2 v on it, whole numbers: rho = |M|_F^2 / 4 v."""
    _count(law, "dimension", 10**9, least=1)
    return Known(rho=moves.l2_squared / (4 * _number(law, "off_diagonal", positive=True)), exact=False)


def _k_norm(law: dict[str, Any], moves: Moves) -> Known:
    """Density proportional to e^(-max |z_i| / b): pure Linf / b."""
    _count(law, "dimension", 10**9, least=1)
    bound = moves.linf / _number(law, "scale", positive=True)
    return Known(bound, bound**2 / 2)


def _table_noise(law: dict[str, Any], moves: Moves) -> Known:
    """K-norm noise on each table that shows the user, all of whose cells may move: there are L1 / (cells Linf).

    Norms of anything else do not say how many tables there are: one cell in each of many has a small L1 too.
    """
    cells, b = _count(law, "dimension", 10**9, least=1), _number(law, "scale", positive=True)
    if moves.linf == 0:
        return _nothing_moves()
    shown = moves.l1 / (cells * moves.linf)
    tables = round(shown)
    if not abs(shown - tables) <= tables * Fraction(1, 10**9):
        raise Unknown("the norms are not those of whole tables, so nobody can tell how many tables show one user")
    bound = tables * moves.linf / b
    return Known(bound, bound**2 / 2)


def _binomial_noise(law: dict[str, Any], moves: Moves) -> Known:
    trials, p = _count(law, "trials", 10**12, least=1), _number(law, "p", positive=True)
    if not p < 1:
        raise Unreadable("p of a binomial law must be below 1")
    if not moves.unit:
        raise Unknown("binomial noise is known for cells that move by one")
    return Known(losses=(_binomial_losses(trials, p, moves.up, moves.down),))


def _thresholded(law: dict[str, Any], moves: Moves, noise: Known, tail: Callable[[int], Fraction]) -> Thresholded:
    threshold = _number(law, "threshold")
    if moves.worst is None:
        raise Unknown("a threshold needs the worst shift")
    least = threshold - moves.linf
    cells = max(sum(by * up for by, up, _ in moves.worst), sum(by * down for by, _, down in moves.worst))
    return Thresholded(noise, tail(_ceil(least)), cells)


def _thresholded_laplace(law: dict[str, Any], moves: Moves) -> Thresholded:
    """P(Z >= n) = t^n / (1 + t) for n > 0, t = e^(-1/b)."""
    b = _number(law, "scale", positive=True)

    def tail(n: int) -> Fraction:
        if n <= 0:
            return Fraction(1)
        return Fraction(_exp_up(-n / b)) / (1 + Fraction(_exp_down(-1 / b)))

    return _thresholded(law, moves, _discrete_laplace(law, moves), tail)


def _thresholded_gaussian(law: dict[str, Any], moves: Moves) -> Thresholded:
    """P(Z >= n) by its terms, each smaller than the one before by a factor that falls."""
    variance = _number(law, "sigma", positive=True) ** 2

    def tail(n: int) -> Fraction:
        if n <= 0:
            return Fraction(1)
        # The sum over all whole numbers is at least sqrt(2 pi variance), by Poisson's formula, and at least one.
        whole = max(_sqrt_down(2 * _PI_DOWN * variance), Fraction(1))
        return min(Fraction(1), _sum_from(n, variance) / whole)

    return _thresholded(law, moves, _discrete_gaussian(law, moves), tail)


def _sum_from(n: int, variance: Fraction) -> Fraction:
    """At least the sum of e^(-a^2 / 2 variance) over a >= n > 0."""
    if 200 * variance > _MOST_TERMS**2:
        raise Unknown("too many terms")
    _spend(math.isqrt(int(200 * variance)))
    density = _fixed_up(_exp_up(-Fraction(n * n) / (2 * variance)))
    ratio = _fixed_up(_exp_up(-Fraction(2 * n + 1) / (2 * variance)))
    step = _fixed_up(_exp_up(-1 / variance))
    total = 0
    for _ in range(_MOST_TERMS):
        total += density
        if density < 1 << 60:
            break
        density, ratio = _times_up(density, ratio), _times_up(ratio, step)
    return Fraction(total, _ONE) + Fraction(density, _ONE) / (1 - Fraction(ratio, _ONE))


# Laws on the whole numbers: what they are added to moves by whole numbers, or different outcomes give users away.
_WHOLE_NUMBERS = (
    "discrete-laplace",
    "discrete-gaussian",
    "discrete-k-norm",
    "table-noise",
    "symmetric-matrix-noise",
    "binomial-noise",
    "thresholded-laplace",
    "thresholded-gaussian",
)

_LAWS: dict[str, Callable[[dict[str, Any], Moves], Any]] = {
    "discrete-laplace": _discrete_laplace,
    "laplace": _laplace,
    "discrete-gaussian": _discrete_gaussian,
    "grid-gaussian": _grid_gaussian,
    "gaussian": _gaussian,
    "symmetric-matrix-noise": _symmetric_matrix,
    "k-norm": _k_norm,
    "discrete-k-norm": _k_norm,
    "table-noise": _table_noise,
    "binomial-noise": _binomial_noise,
    "thresholded-laplace": _thresholded_laplace,
    "thresholded-gaussian": _thresholded_gaussian,
}


# --- messages --------------------------------------------------------------------------------------------------------


def _lie(message: dict[str, Any]) -> Fraction:
    lie = _number(message, "lie", positive=True)
    if lie > Fraction(1, 2):
        raise Unreadable("the probability of a false answer must be at most 1/2")
    return lie


def _answered_bits(message: dict[str, Any]) -> Known:
    """Bits answered falsely with probability q: odds (1 - q) / q each; in a crowd only the number of ones is seen."""
    lie, bits, others = _lie(message), _count(message, "bits", 10**6), _count(message, "others", 10**9)
    odds = (1 - lie) / lie
    pure = bits * Fraction(_ln_up(odds)) if odds > 1 else Fraction(0)
    rho = pure * pure / (2 * bits) if bits else Fraction(0)
    if not others or not bits or lie == Fraction(1, 2):
        return Known(pure, rho, losses=(_answered(odds, odds, bits),))
    return Known(pure, rho, losses=(Losses((), (), bits, Crowd(lie, others)),))


def _sampled_items(message: dict[str, Any]) -> Known:
    """One of d items, each wrong one with probability q: the loss is at most ln((1 - (d - 1) q) / q) a report."""
    reports, laws = _count(message, "reports", 10**6, least=1), _list(message, "laws")
    largest = Fraction(1)
    for law in laws:
        if not isinstance(law, list) or len(law) != 2:
            raise Unreadable("laws of sampled items are pairs of a number of items and a probability")
        items, lie = _whole(law[0], "items", 10**12, 2), exact_number(law[1], "the probability of a wrong item")
        truth = 1 - (items - 1) * lie
        if not 0 < lie <= truth:
            raise Unreadable("a wrong item must be possible, and no likelier than the right one")
        largest = max(largest, truth / lie)
    bound = reports * Fraction(_ln_up(largest)) if largest > 1 else Fraction(0)
    return Known(bound, bound * bound / 2)


def _shuffled_item(message: dict[str, Any]) -> Known:
    """One of d items, each wrong one with probability q, in a crowd of which only the histogram is seen."""
    items, others = _count(message, "items", 10**12, least=2), _count(message, "others", 10**9)
    lie = _number(message, "lie", positive=True)
    truth = 1 - (items - 1) * lie
    if not lie <= truth:
        raise Unreadable("a wrong item must be no likelier than the right one")
    pure = Fraction(_ln_up(truth / lie)) if truth > lie else Fraction(0)
    return Known(pure, pure * pure / 2, losses=(Losses((), (), 1, ItemCrowd(items, lie, others)),))


def _bit_per_item(message: dict[str, Any]) -> Known:
    """A bit per item, one with probability 1/2 for the own item, q for others: two bits differ, by ln((1 - q) / q)."""
    reports, lie = _count(message, "reports", 10**6, least=1), _lie(message)
    odds = (1 - lie) / lie
    bound = reports * Fraction(_ln_up(odds)) if odds > 1 else Fraction(0)
    return Known(bound, bound * bound / 2)


def _bounded_loss(message: dict[str, Any]) -> Known:
    """Reports each of which is known to lose no more than a bound."""
    bound = _count(message, "reports", 10**6, least=1) * _number(message, "epsilon")
    return Known(bound, bound * bound / 2)


_MESSAGES: dict[str, Callable[[dict[str, Any]], Known]] = {
    "answered-bits": _answered_bits,
    "sampled-items": _sampled_items,
    "shuffled-item": _shuffled_item,
    "bit-per-item": _bit_per_item,
    "bounded-reports": _bounded_loss,
}


# --- reading ---------------------------------------------------------------------------------------------------------

_DECIMAL = re.compile(r"[0-9]{1,400}(\.[0-9]{1,1200})?([eE][+-]?[0-9]{1,3})?")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+|/[0-9]*[1-9][0-9]*)?")  # as the library writes it
_QUOTIENT = re.compile(r"[0-9]{1,400}/[0-9]{1,400}")


def exact_number(value: Any, what: str) -> Fraction:
    """A number of a certificate: a decimal or a quotient as text, never negative, or a whole number."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**30:
        return Fraction(value)
    if isinstance(value, str) and (_DECIMAL.fullmatch(value) or _QUOTIENT.fullmatch(value)):
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError):
            pass
    raise Unreadable(f"{what} must be a number that is not negative, as decimal text or a quotient")


def _number(entries: dict[str, Any], name: str, positive: bool = False) -> Fraction:
    value = exact_number(entries.get(name), name)
    if positive and not value > 0:
        raise Unreadable(f"{name} must be above 0")
    if value > 10**30 or (value and value < Fraction(1, 10**320)):
        raise Unreadable(f"{name} is out of all bounds")
    return value


def _whole(value: Any, what: str, most: int, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Unreadable(f"{what} must be a whole number from {least} to {most}")
    return value


def _count(entries: dict[str, Any], name: str, most: int, least: int = 0) -> int:
    return _whole(entries.get(name), name, most, least)


def _list(entries: dict[str, Any], name: str) -> list[Any]:
    value = entries.get(name)
    if not isinstance(value, list) or not value:
        raise Unreadable(f"{name} must be a list that is not empty")
    return value


def _object(entries: dict[str, Any], name: str) -> dict[str, Any]:
    value = entries.get(name)
    if not isinstance(value, dict):
        raise Unreadable(f"{name} must be an object")
    return value


# What may stand in each part of a certificate. Anything else would be read by people and by nobody else.
_ENTRIES: dict[str, str] = {
    "mechanism": "name law moves cells mixed", "reports": "name message", "more-trust": "model",
    "shuffled": "epsilon delta", "group": "trajectories once", "unbounded": "model", "nothing": "model",
    "moves": "l1 l2 linf worst unit", "mixed-releases": "releases bits terms own_l1 own_l2",
    "discreet-certificate": "format version model neighbours unit stated conditions noise steps versions",
    "discrete-laplace": "scale", "laplace": "scale", "discrete-gaussian": "sigma", "grid-gaussian": "sigma bits",
    "gaussian": "sigma", "symmetric-matrix-noise": "dimension off_diagonal", "k-norm": "dimension scale",
    "discrete-k-norm": "dimension scale", "table-noise": "dimension scale", "binomial-noise": "trials p",
    "thresholded-laplace": "scale threshold", "thresholded-gaussian": "sigma threshold",
    "answered-bits": "lie bits others", "sampled-items": "reports laws", "shuffled-item": "items lie others",
    "bit-per-item": "reports lie", "bounded-reports": "reports epsilon",
}  # fmt: skip


def _check_entries(part: dict[str, Any], kind: str, more: str = "kind parts of") -> None:
    """Refuse what is no part of such a thing."""
    odd = set(part) - set(f"{_ENTRIES.get(kind, '')} {more}".split())
    if odd:
        raise Unreadable(f"{_plain(min(map(str, odd)))[:60]!r} is no part of {kind}")


def _moves(entries: dict[str, Any]) -> Moves:
    """Norms and worst shift, which must agree."""
    _check_entries(entries, "moves", "kind")
    l1, l2, linf = (_number(entries, name) for name in ("l1", "l2", "linf"))
    almost = 1 + Fraction(1, 10**9)  # norms are floating point numbers
    if not (linf <= l2 * almost and l2 <= l1 * almost and l2**2 <= l1 * linf * almost**2):
        raise Refused("no shift has the stated norms")
    unit, worst = entries.get("unit"), entries.get("worst")
    if not isinstance(unit, bool) or not (worst is None or isinstance(worst, list)):
        raise Unreadable("moves need unit, true or false, and worst, a list or null")
    if worst is None:
        if unit:
            raise Unreadable("unit moves need the worst shift")
        return Moves(l1, l2**2, linf, None, False)
    groups = []
    for group in worst:
        if not isinstance(group, list) or len(group) != 3:
            raise Unreadable("the worst shift is a list of magnitude, cells up, cells down")
        groups.append(tuple(_whole(n, "a number of the worst shift", 10**12) for n in group))
    own = [sum(by * (up + down) for by, up, down in groups), sum(by * by * (up + down) for by, up, down in groups)]
    own.append(max((by for by, up, down in groups if up + down), default=0))
    for name, stated, true in zip(("l1", "l2 squared", "linf"), (l1, l2**2, linf), own):
        if not (stated <= true * almost**2 and true <= stated * almost**2):
            raise Refused(f"the worst shift has another {name} than is stated")
    if unit and own[2] > 1:
        raise Refused("moves that are called unit move a cell by more than one")
    return Moves(Fraction(own[0]), Fraction(own[1]), Fraction(own[2]), tuple(groups), unit)  # type: ignore[arg-type]


def _of_several(moves: Moves, trajectories: int, once: int | None) -> Moves:
    """What a user with several trajectories moves: so many times as much; with ``once``, no cell by more than one."""
    if once is None:
        m, worst = trajectories, moves.worst
        groups = None if worst is None else tuple((m * by, up, down) for by, up, down in worst)
        return Moves(m * moves.l1, m * m * moves.l2_squared, m * moves.linf, groups, moves.unit and moves.l1 == 0)
    if not moves.unit or max(moves.up, moves.down) > once:
        raise Refused("one trajectory moves more than first visits of all trajectories together")
    up, down = (min(trajectories * moved, once) for moved in (moves.up, moves.down))
    return Moves(Fraction(up + down), Fraction(up + down), Fraction(min(up + down, 1)), ((1, up, down),), True)


def _check_mixed(mixed: dict[str, Any], moves: Moves, law: dict[str, Any]) -> None:
    """Releases that are mixed before noise is added: the length of a user's move is at most

    L2 ||c|| + D sqrt(L1 n), with L1 and L2 those of one release, c the first column and D what floors can add.
    """
    if mixed.get("kind") != "mixed-releases":
        raise Unknown("no rule is known for this way of mixing releases")
    _check_entries(mixed, "mixed-releases", "kind")
    if law.get("kind") not in ("gaussian", "grid-gaussian"):
        raise Unknown("of mixed releases the length of a move is known, which is enough for Gaussian noise only")
    releases, bits = _count(mixed, "releases", 10**12, least=1), _count(mixed, "bits", 1000)
    terms = _list(mixed, "terms")
    if law["kind"] == "grid-gaussian" and _count(law, "bits", 1000) < bits:
        raise Refused("releases are mixed in finer steps than those of their noise")
    if len(terms) > 100:
        raise Unreadable("terms of mixed releases are too many")
    _spend(500 * len(terms) ** 2)
    decays, weights, floors = [], [], Fraction(len(terms))
    for term in terms:
        if not isinstance(term, list) or len(term) != 3:
            raise Unreadable("terms of mixed releases are triples of whole numbers")
        shift, numerator, place = (_whole(n, "a number of a term", 10**6, least) for n, least in zip(term, (1, 0, 0)))
        if max(shift, place) > 1000:
            raise Unreadable("a number of a term is out of all bounds")
        decays.append(1 - Fraction(1, 2**shift))
        weights.append(Fraction(numerator, 2**place))
        floors += weights[-1] * 2**shift
    squared = Fraction(1)
    for (first, one), (second, other) in itertools.product(zip(decays, weights), repeat=2):
        ratio = first * second  # sum of ratio^j for j = 1 .. n - 1
        last = Fraction(_exp_down((releases - 1) * Fraction(_ln_down(ratio))))
        squared += one * other * ratio * (1 - last) / (1 - ratio)
    own_l1, own_l2 = _number(mixed, "own_l1"), _number(mixed, "own_l2")
    if own_l2 > own_l1 * (1 + Fraction(1, 10**9)) or 0 < own_l2 < 1:
        raise Refused("no whole numbers have the norms that are stated of one of the mixed releases")
    length = own_l2 * _sqrt_up(squared) + floors / 2**bits * _sqrt_up(own_l1 * releases)
    if not length**2 <= moves.l2_squared:
        raise Refused("one user shows more in the mixed releases than is stated")


_MOST_TRAJECTORIES = 10**9


class _Reader:
    """Walks down the steps of a certificate and says what they give."""

    def __init__(self) -> None:
        self.nodes = 0
        self.kinds: set[str] = set()
        self.times, self.covered = 1, _MOST_TRAJECTORIES  # trajectories of one user: here, and in every release
        self.points: list[tuple[Fraction, Fraction, list[Any]]] = []
        self.negligible = Fraction(1, 10**20)  # what may be left out of a sum

    def read(self, node: Any, depth: int = 0, **more: Any) -> tuple[str, Any]:
        """The model that a step leads to, and what is known of its privacy."""
        self.nodes += 1
        if depth > 60 or self.nodes > _MOST_NODES:
            raise Unreadable("the steps are nested too deeply, or are too many")
        if not isinstance(node, dict) or not isinstance(node.get("kind"), str):
            raise Unreadable("a step must be an object with a kind")
        rule = self._RULES.get(node["kind"])
        if rule is None:
            raise Unknown(f"no rule is known for steps of kind {node['kind'][:60]!r}")
        _check_entries(node, node["kind"])
        self.kinds.add(node["kind"])
        return rule(self, node, depth, **more)

    def _parts_said(self, node: dict[str, Any], parts: list[Any]) -> None:
        if _count(node, "parts", _MOST_NODES, least=1) != len(parts):
            raise Refused(f"a step says that it has {node['parts']} parts and lists {len(parts)}")

    def _parts(self, node: dict[str, Any], depth: int) -> list[tuple[str, Any]]:
        parts = _list(node, "of")
        self._parts_said(node, parts)
        return [self.read(part, depth + 1) for part in parts]

    def _only(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        parts = self._parts(node, depth)
        if len(parts) != 1:
            raise Unreadable(f"a step of kind {node['kind']} rests on one other")
        return parts[0]

    def _same(self, parts: list[tuple[str, Any]]) -> str:
        models = {model for model, _ in parts}
        if len(models) != 1:
            raise Refused("steps of different trust models are put together")
        return models.pop()

    def _alone(self, node: dict[str, Any]) -> None:
        if node.get("of") or node.get("parts"):
            raise Refused(f"a step of kind {node['kind']} rests on no others, and lists some that would not be counted")

    def _release(self, node: dict[str, Any]) -> None:
        """A release: what it is called, and to how many trajectories of one user what is said of it applies."""
        if not isinstance(node.get("name", ""), str):
            raise Unreadable("the name of a release is text")
        self.covered = min(self.covered, self.times)

    def mechanism(
        self, node: dict[str, Any], depth: int, trajectories: int = 1, once: int | None = None
    ) -> tuple[str, Any]:
        """Noise of a law on a statistic that moves by so much."""
        self._alone(node)
        self._release(node)
        law, moves = _object(node, "law"), _moves(_object(node, "moves"))
        kind = law.get("kind")
        if not isinstance(kind, str):
            raise Unreadable("a law must have a kind")
        if kind in _LAWS:
            _check_entries(law, kind, "kind")
        if "cells" in node:
            _count(node, "cells", 10**12, least=1)
        if trajectories > 1:
            moves = _of_several(moves, trajectories, once)
        if "mixed" in node:
            if trajectories > 1:
                raise Unknown("no rule is known for mixed releases of several trajectories")
            _check_mixed(_object(node, "mixed"), moves, law)
        if moves.l1 == 0:
            return "central", _nothing_moves()
        known = _LAWS.get(kind)
        if known is None:
            raise Unknown(f"no rule is known for the law {kind[:60]!r}")
        if kind in _WHOLE_NUMBERS and not moves.whole:
            raise Refused("noise on the whole numbers is stated for moves by less than one")
        return "central", known(law, moves)

    def reports(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        """Messages that are randomised as a whole."""
        self._alone(node)
        self._release(node)
        message = _object(node, "message")
        known = _MESSAGES.get(str(message.get("kind")))
        if known is None:
            raise Unknown(f"no rule is known for messages of kind {str(message.get('kind'))[:60]!r}")
        _check_entries(message, str(message["kind"]), "kind")
        return "central", known(message)

    def compose(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        """One user moves all parts; later ones may depend on what earlier ones showed."""
        parts = self._parts(node, depth)
        return self._same(parts), composed([known for _, known in parts])

    def one_of(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        """Public things decide which part runs."""
        parts = self._parts(node, depth)
        return self._same(parts), Worst([known for _, known in parts])

    def same(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        """Disjoint users, functions of releases, parts that are not released: nothing changes."""
        return self._only(node, depth)

    def billboard(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        """What others are shown is a function of the releases: central becomes joint."""
        model, known = self._only(node, depth)
        if model not in ("central", "shuffle"):
            raise Refused(f"the billboard lemma does not start from the {model} model")
        return ("joint" if model == "central" else model), known

    def local(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        """The user runs the mechanism on her own record."""
        model, known = self._only(node, depth)
        if model != "central":
            raise Refused(f"a user does not run a promise of the {model} model by herself")
        if _needs_a_crowd(known):
            raise Refused("whoever answers by herself is not hidden by the answers of others")
        return "local", known

    def through_shuffler(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        """Messages or counts that a shuffler hands on."""
        model, known = self._only(node, depth)
        if model not in ("central", "local"):
            raise Refused(f"a shuffler does not hand on a promise of the {model} model")
        return "shuffle", known

    def more_trust(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        """A promise of a model that trusts less, in one that trusts more."""
        model, known = self._only(node, depth)
        wanted = str(node.get("model"))
        if wanted not in {"local": ("shuffle", "joint"), "shuffle": ("joint",)}.get(model, ()):
            raise Refused(f"the {model} model does not imply the {wanted[:20]} model")
        return wanted, known

    def shuffled(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        """Batches with noise for their sizes: each keeps (epsilon, delta), and no more is known of all sizes."""
        parts = self._parts(node, depth)
        if self._same(parts) != "central":
            raise Refused("batches are counts of messages")
        batches = [known for _, known in parts]
        point = _number(node, "epsilon"), _number(node, "delta")
        if point[1] > 1:
            raise Unreadable("delta of batches must be at most 1")
        self.points.append((*point, batches))
        return "shuffle", Batches(batches, point)

    def group(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        """A user with several records: losses and mu times their number, rho times its square; or larger moves."""
        m = _count(node, "trajectories", _MOST_TRAJECTORIES, least=1)
        once = _count(node, "once", 10**12, least=1) if "once" in node else None
        parts, before = _list(node, "of"), self.times
        self.times *= m
        if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].get("kind") == "mechanism":
            self._parts_said(node, parts)
            model, known = self.read(parts[0], depth + 1, trajectories=m, once=once)
            self.times = before
            return model, known
        if once is not None:
            raise Refused("first visits are those of one release")
        model, known = self._only(node, depth)
        self.times = before
        pure = None if known.pure is None else m * known.pure
        rho = None if known.rho is None else m * m * known.rho
        mu, slack = (known.mu_squared, known.slack) if isinstance(known, Known) else (None, Fraction(0))
        return model, Known(pure, rho, None if mu is None else m * m * mu, m * m * slack, exact=False)

    def unbounded(self, node: dict[str, Any], depth: int) -> tuple[str, Any]:
        """Nothing is promised."""
        return str(node.get("model")), Known(exact=False)

    _RULES: ClassVar[dict[str, Callable[..., tuple[str, Any]]]] = {
        "mechanism": mechanism,
        "reports": reports,
        "compose": compose,
        "one-of": one_of,
        "parallel": same,
        "post-process": same,
        "left-out": same,
        "billboard": billboard,
        "local": local,
        "through-shuffler": through_shuffler,
        "more-trust": more_trust,
        "shuffled": shuffled,
        "group": group,
        "unbounded": unbounded,
        "nothing": unbounded,
    }


def _needs_a_crowd(known: Any) -> bool:
    """Whether a bound counts on the answers of others."""
    if isinstance(known, Worst):
        return any(map(_needs_a_crowd, known.parts))
    return isinstance(known, Known) and any(part.crowd is not None for part in known.losses or ())


def _smallest_epsilon(known: Any, delta: Fraction, negligible: Fraction, start: Fraction) -> Fraction | None:
    """An epsilon that holds with this delta, within a share of 1e-4 of the smallest that the rules give."""
    if delta == 0:
        pure: Fraction | None = known.pure
        return pure
    parts = known.parts if isinstance(known, Worst) else [known]
    found = Fraction(0)
    for part in parts:  # one part after the other: most are settled by one look at what the others need
        if part.delta(found, negligible) <= delta:
            continue
        low, high = found, start if start > found else max(2 * found, Fraction(1))
        while part.delta(high, negligible) > delta:
            low, high = high, 2 * high
            if high > 2**22:
                return None
        while high - low > high / 8192:
            middle = _short((low + high) / 2)
            low, high = (low, middle) if part.delta(middle, negligible) <= delta else (middle, high)
        found = high
    return found


def _short(x: Fraction) -> Fraction:
    """A number close by that is quickly computed with."""
    return Fraction(float(x)) if x < 10**15 else x


# --- the whole certificate -------------------------------------------------------------------------------------------


def check(certificate: Any) -> Verdict:
    """What follows from the steps of a certificate, against what it states."""
    return _settled(certificate, None)


def judge(document: Any) -> Verdict:
    """The verdict about a certificate, or about a receipt: its certificate, and whatever it says beside that."""
    if not isinstance(document, dict) or not ("certificate" in document or document.get("format") in RECEIPTS):
        return check(document)
    certificate = certificate_of(document)
    if document.get("format") not in RECEIPTS:
        raise Unreadable(f"this is no receipt: its format must be {' or '.join(map(repr, RECEIPTS))}")
    if _text_of(document.get("version")) != str(RECEIPT_VERSION):
        raise Unreadable(
            f"receipts of version {RECEIPT_VERSION} are read, and this one is of another: release again with this "
            "version of discreet, or check it with the one that wrote it"
        )
    return _settled(certificate, document)


def _settled(certificate: Any, receipt: dict[str, Any] | None) -> Verdict:
    """The verdict, with the lists that it ends with."""
    _work[0] = 0
    if not isinstance(certificate, dict) or certificate.get("format") != FORMAT:
        raise Unreadable(f"this is not a certificate: its format must be {FORMAT!r}")
    if _text_of(certificate.get("version")) != str(VERSION):
        raise Unreadable(f"certificates of version {VERSION} are known, and this says another: make it again")
    _check_entries(certificate, FORMAT, "")
    if set(_ENTRIES[FORMAT].split()) - set(certificate) or not isinstance(certificate["versions"], dict):
        raise Unreadable("a certificate has all of its entries, and versions by name")
    for name in _TEXTS:
        if not isinstance(certificate.get(name), str):
            raise Unreadable(f"{name} must be text")
    conditions = certificate.get("conditions")
    if not isinstance(conditions, list) or not all(isinstance(each, str) for each in conditions):
        raise Unreadable("conditions must be a list of texts")
    reader = _Reader()
    try:
        with decimal.localcontext(_UP):
            verdict, known = _check(certificate, reader)
            differences = [] if receipt is None or known is None else _differences(receipt, certificate, reader, known)
        if differences:
            reasons = [] if verdict.answer == HOLDS else [verdict.reason]
            verdict = replace(verdict, answer=FAILS, reason="; ".join([*reasons, *differences]))
    except Unreadable:
        raise
    except Refused as found:
        verdict = Verdict(FAILS, f"{found}")
    except Unknown as found:
        verdict = Verdict(UNKNOWN, f"{found}")
    except (ArithmeticError, MemoryError, RecursionError, ValueError) as found:
        verdict = Verdict(UNKNOWN, f"the numbers are beyond what is computed here ({type(found).__name__})")
    if verdict.holds and certificate["noise"] == _SIMULATED:
        verdict = replace(verdict, answer=NOBODY, reason="the noise came from a seed: no real data were protected")
    changes: dict[str, Any] = {name: certificate[name] for name in _TEXTS}
    return replace(verdict, **changes, **_lists(reader.kinds, receipt))


_TEXTS = ("model", "neighbours", "unit", "noise")
_SIMULATED, _DRAWN, _NOT_DRAWN = "simulated", "from the operating system's entropy", "not drawn yet"
_PUBLIC = "the number of users is public"
_REPLACED = "replace one user"
_SEVERAL = re.compile(r"one user = up to ([1-9][0-9]{0,8}) whole trajectories")
_REPORTS = re.compile(r"all reports of a participant, at most ([1-9][0-9]{0,8})")


def _check(certificate: dict[str, Any], reader: _Reader) -> tuple[Verdict, Any]:
    """What follows from the steps against what is stated, and what is known of them if they can be read."""
    stated = _object(certificate, "stated")
    _check_entries(stated, "stated", "epsilon delta rho")
    epsilon = None if stated.get("epsilon", ()) is None else _number(stated, "epsilon")
    rho = None if stated.get("rho", ()) is None else _number(stated, "rho")
    delta = _number(stated, "delta")
    if delta > 1:
        raise Unreadable("delta must be at most 1")
    if certificate["neighbours"] != _REPLACED:
        raise Unknown("only neighbours that differ in one replaced user are known")
    if certificate["noise"] not in (_SIMULATED, _DRAWN, _NOT_DRAWN):
        raise Unknown("where the noise came from is not said in words that are known")
    if certificate["conditions"][:1] != [_PUBLIC]:
        raise Refused("the number of users is public, and the conditions do not say so")
    reader.negligible = min(Fraction(1, 10**14), delta / 10**6) or Fraction(1, 10**20)
    model, known = reader.read(certificate.get("steps"))
    _check_unit(certificate, reader.covered)
    if certificate["model"] == "none":
        return Verdict(UNKNOWN, "nothing is promised, so there is nothing to verify"), None
    if model != certificate["model"]:
        raise Refused(f"the steps lead to the {model[:20]} model, and {certificate['model'][:20]} is stated")
    if epsilon is None and rho is None:
        return Verdict(UNKNOWN, "no finite epsilon or rho is stated, so there is nothing to verify"), None
    if epsilon is not None and epsilon > 2**22:
        raise Unknown("nothing is computed for an epsilon above four millions")
    return _compare(reader, known, epsilon, delta, rho), known


def _trajectories(unit: str) -> int | None:
    """How many trajectories one user has at most; None for another unit."""
    if unit == "one user = one whole trajectory":
        return 1
    several = _SEVERAL.fullmatch(unit)
    return None if several is None else int(several[1])


def _check_unit(certificate: dict[str, Any], covered: int) -> None:
    """A unit is one of a short list, and the steps must cover it: all trajectories of a user, or all her reports."""
    wanted = _trajectories(certificate["unit"])
    if wanted is not None:
        if covered < wanted:
            raise Refused(f"a user has up to {wanted} trajectories, and the steps are about {covered} of them")
        return
    reports = _REPORTS.fullmatch(certificate["unit"])
    if reports is None:
        raise Unknown("the unit is none that is known")
    top, rounds = certificate["steps"], int(reports[1])
    parts = top.get("of", []) if top["kind"] == "compose" else []
    if rounds > 1 and (len(parts) < rounds or len({_text_of(part) for part in parts}) > 1):
        raise Refused(f"a participant reports up to {rounds} times, and the steps do not put so many together")


def _compare(reader: _Reader, known: Any, epsilon: Fraction | None, delta: Fraction, rho: Fraction | None) -> Verdict:
    found_epsilon = found_delta = None
    reasons: list[str] = []
    failed: list[bool] = []  # for every miss, whether the bound that missed is attained
    for own_epsilon, own_delta, batches in reader.points:
        for batch in batches:
            if not (batch.delta(own_epsilon, reader.negligible) <= own_delta):
                reasons.append("a batch does not keep what all batches promise")
                failed.append(batch.exact)
    if epsilon is not None:
        found_delta = known.delta(epsilon, reader.negligible) if delta > 0 else None
        found_epsilon = _smallest_epsilon(known, delta, reader.negligible, epsilon)
        if any(epsilon < own_epsilon or delta < own_delta for own_epsilon, own_delta, _ in reader.points):
            reasons.append("less is stated than the batches were made for")
            failed.append(True)
        kept = (
            found_delta <= delta if found_delta is not None else found_epsilon is not None and found_epsilon <= epsilon
        )
        if not kept:
            more = "no finite epsilon" if found_epsilon is None else f"epsilon {_shown(found_epsilon)}"
            reasons.append(f"the steps give {more} at the stated delta, and {_shown(epsilon)} is stated")
            failed.append(known.exact and (found_epsilon is not None or delta > 0 or known.pure is None))
        elif found_epsilon is not None:
            found_epsilon = min(found_epsilon, epsilon)
    if rho is not None and not (known.rho is not None and known.rho <= rho):
        more = "no rho" if known.rho is None else f"rho {_shown(known.rho)}"
        reasons.append(f"the steps give {more}, and {_shown(rho)} is stated")
        failed.append(known.exact and not isinstance(known, Batches))
    answer = HOLDS if not reasons else FAILS if any(failed) else UNKNOWN
    reason = "; ".join(dict.fromkeys(reasons)) or "what the steps give is at most what is stated"
    return Verdict(answer, reason, "", epsilon, found_epsilon, delta, found_delta, rho, known.rho)


def _shown(x: Fraction, digits: int = 6) -> str:
    """A number with so many digits, rounded up but for a share of 1e-11, which floating point numbers are off by."""
    context = decimal.Context(digits, ROUND_CEILING, decimal.MIN_EMIN, decimal.MAX_EMAX)
    x *= 1 - Fraction(1, 10**11)
    value = context.divide(Decimal(x.numerator), Decimal(x.denominator)).normalize(context)
    return (f"{value:f}" if 0 <= value.adjusted() < 16 else f"{value:g}") if x else "0"


def _refuse_constant(text: str) -> Any:
    raise Unreadable(f"{text} is not a number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unreadable("a name occurs twice in one object")
    return found


def read(text: str) -> Any:
    """JSON, strictly: no names twice, no NaN or infinity, no numbers of endless length."""
    if len(text) > _LONGEST_FILE:
        raise Unreadable("the file is too large for a certificate")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable("the file is nested too deeply") from None
    except ValueError:
        raise Unreadable("the file is not JSON") from None


def _text_of(value: Any) -> str | None:
    """Plain data as the one text that stands for it: 1, 1.0 and true are three things. None for anything else."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (RecursionError, TypeError, ValueError):
        return None


def certificate_of(document: Any) -> Any:
    """The certificate itself, or the one that a receipt carries; what is both would be read by each as it likes."""
    if not isinstance(document, dict) or "certificate" not in document:
        return document
    if document.get("format") == FORMAT:
        raise Unreadable("this is a certificate that carries another one, and nobody can tell which is meant")
    return document["certificate"]


# --- receipts --------------------------------------------------------------------------------------------------------

_SHARE = 1 + Fraction(1, 10**11)  # what is stated was raised by a share of 1e-12
_DELTAS = (1e-3, 1e-5, 1e-7, 1e-9)
_IMPLIED = {"local": ["shuffle", "joint"], "shuffle": ["joint"]}
_SAMPLERS = re.compile(r"operating system entropy, exact samplers of (OpenDP|discreet|OpenDP and discreet|nobody)")
# Everything that may stand in a receipt, by who can tell whether it is true.
_COMPARED = {"format", "version", "guarantee", "certificate", "mechanisms", "noise"}
_SAID = {
    "discreet-receipt": _COMPARED | {"budget", "declared", "data", "repairs", "learner", "recipe", "values",
        "evaluation", "policy", "date", "ledger", "versions", "adds_up"},
    "discreet-evaluation": _COMPARED | {"declared", "evaluation", "policy", "ledger", "versions", "adds_up"},
}  # fmt: skip
_TOLD = {
    "model", "epsilon", "delta", "rho", "neighbours", "unit", "also", "simulated", "public", "derivation", "statement",
    "epsilon_at", "exceeded",
}  # fmt: skip
_INTERVALS = (
    "the interval's values: what the policy, the behaviour and their difference are said to be worth (evaluation, "
    "values)"
)
_USERS = "the number of users"
_DECLARATION = (
    "the declaration: what was declared of the data and what they are, the learner and the recipe, and what the "
    "statistics are called (declared, data, repairs, learner, recipe)"
)
_NAMES = "the declaration: whose data these are, what else was declared public, and what the statistics are called"
_POLICY = "the policy: whether its file is the one that is named (give it to check that)"
_PLACE = (
    "place and time: whether this is what ran, when and with which versions, and what else was released (date, ledger, "
    "adds_up, versions)"
)
_RELEASED = "place and time: whether this is what ran, when and where, and with which versions"
_RESTS = (
    "that replacing one user moves each statistic by no more than is stated",
    "that noise of these laws, drawn as is said, was added to all that was released",
    "that nothing else was released about the same people: what was adds up",
)
_WORLD = {
    "reports": "that messages are randomised by the stated laws",
    "parallel": "that every user is in one group only, and moves the releases of that group alone",
    "one-of": "that public things decide which part runs",
    "post-process": "that what is computed from the releases needs nothing else of the data",
    "left-out": "that what is said to be left out is not released",
    "billboard": "that what others are shown is computed from the releases",
    "local": "that every user runs the mechanism by herself, before anything leaves her",
    "through-shuffler": "that the shuffler shuffles, and tells nobody who sent what",
    "shuffled": "that batches of other sizes carry noise for their size",
    "group": "that no user has more trajectories than is stated",
}


def _lists(kinds: set[str], receipt: dict[str, Any] | None) -> dict[str, Any]:
    """What a verdict says of itself: what was checked, what was not, and what it rests on."""
    checked = [
        "epsilon, delta and rho: computed anew from the laws, the moves and the steps",
        "model, unit, neighbours and the origin of the noise: words of a short list, which the steps lead to",
    ]
    not_checked = [_USERS, _NAMES, _RELEASED]
    if receipt is not None:
        checked += [
            "the receipt against its certificate: statement, derivation, epsilon at other deltas, unit, neighbours, "
            "model and what it implies, origin of the noise, and every mechanism with its law, moves and cells",
            "the word of the verdict against its interval",
        ]
        not_checked = [_INTERVALS, _USERS, _DECLARATION, _POLICY, _PLACE]
    rests = (*_RESTS, *(words for kind, words in _WORLD.items() if kind in kinds))
    return {"checked": tuple(checked), "not_checked": tuple(not_checked), "rests_on": rests}


def _releases(node: dict[str, Any], several: dict[str, Any] | None = None) -> Iterator[tuple[dict[str, Any], Moves]]:
    """Every release below a step, in order, with what one user moves in it."""
    if node["kind"] == "mechanism":
        moves = _moves(node["moves"])
        yield node, moves if several is None else _of_several(moves, several["trajectories"], several.get("once"))
    for part in node.get("of", ()):
        yield from _releases(part, node if node["kind"] == "group" and node["trajectories"] > 1 else None)


def mechanisms(certificate: dict[str, Any]) -> list[dict[str, Any]]:
    """All noisy statistics of a certificate, as a receipt lists them: what one user moves, and the law of the noise."""
    found = []
    with decimal.localcontext(_UP):
        for node, moves in _releases(certificate["steps"]):
            law, worst = node["law"], moves.worst
            numbers = {name: _plain_number(value) for name, value in law.items() if name != "kind"}
            sensitivity = {
                "l1": float(moves.l1),
                "l2": math.sqrt(moves.l2_squared),
                "linf": float(moves.linf),
                "worst_shift": None
                if worst is None
                else [{"by": by, "cells_up": up, "cells_down": down} for by, up, down in worst],
            }
            name = "".join(word.capitalize() for word in law["kind"].split("-"))
            found.append(
                {
                    "statistic": node.get("name", ""),
                    "cells": node.get("cells"),
                    "sensitivity": sensitivity,
                    "law": {"name": name, **numbers},
                    "rho": _rho_of(law, moves),
                }
            )
    return found


def _plain_number(value: Any) -> Any:
    """An exact number as a floating point number; anything else as it is."""
    return float(Fraction(value)) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


def _written(value: Any) -> str:
    number = _plain_number(value)
    return f"{number:.6g}" if _finite(number) else str(number)


def _rho_of(law: dict[str, Any], moves: Moves) -> float | None:
    try:
        rho = _LAWS[law["kind"]](law, moves).rho if moves.l1 else 0
    except (ArithmeticError, KeyError, Refused, Unknown, Unreadable):
        return None
    return None if rho is None else float(rho)


_RULES_IN_WORDS = {
    "compose": "composition: one user moves all of these releases",
    "one-of": "public choice: one of these runs, and public things decide which",
    "parallel": "parallel composition: every user is in one group, and moves the releases of that group alone",
    "post-process": "post-processing: computed from releases and public coins",
    "left-out": "left out: less is released than was printed, and this is what stays",
    "billboard": "billboard lemma: what others are shown is a function of the releases",
    "local": "local randomiser: every user runs the mechanism on her own record",
    "through-shuffler": "shuffler: messages or counts are handed on without their senders",
    "more-trust": "more trust: the same promise in the {model} model, which trusts more",
    "shuffled": "shuffler: batches of any size, each with epsilon {epsilon} and delta {delta}",
    "group": "group privacy: a user contributes up to {trajectories} trajectories",
    "unbounded": "no bound",
    "nothing": "no mechanism: the data are released as they are",
}


def derivation(certificate: dict[str, Any]) -> list[str]:
    """The steps of a certificate in words, from the promise down to laws and moves: what a receipt prints."""
    return list(_lines(certificate["steps"], 0))


def _lines(node: dict[str, Any], depth: int) -> Iterator[str]:
    start, kind = f"{'   ' * depth}{'└─ ' if depth else ''}", node["kind"]
    below = f"{'   ' * (depth + 1)}└─ "
    if kind == "mechanism":
        moves, numbers = node["moves"], {name: value for name, value in node["law"].items() if name != "kind"}
        law = ", ".join(f"{name} {_written(value)}" for name, value in numbers.items())
        worst = [f"{up} up and {down} down by {by}" for by, up, down in moves["worst"] or ()]
        norms = ", ".join(f"{name} {_written(moves[name])}" for name in ("l1", "l2", "linf"))
        yield f"{start}mechanism: {node.get('name', '')} released with additive noise"
        yield f"{below}one record moves at most {norms}" + (f", at worst {' and '.join(worst)}" if worst else "")
        yield f"{below}law: {node['law']['kind']}" + (f" with {law}" if law else "")
    elif kind == "reports":
        yield f"{start}randomised report: {node.get('name', '')}, {node['message']['kind']}"
    else:
        yield start + _RULES_IN_WORDS.get(kind, kind).format_map(node)
    for part in node.get("of", ()):
        yield from _lines(part, depth + 1)


def _differences(receipt: dict[str, Any], certificate: dict[str, Any], reader: _Reader, known: Any) -> list[str]:
    """Where a receipt does not say what its certificate says."""
    told, said, expected = receipt.get("guarantee"), set(receipt) - {"signature"}, _SAID[receipt["format"]]
    odd = sorted(map(str, said ^ expected))
    if odd:
        return [f"the receipt says nothing of, or has no place for, {_plain(odd[0])[:60]!r}"]
    if not isinstance(told, dict):
        return ["the receipt says nothing of its guarantee"]
    odd = sorted(map(str, set(told) ^ _TOLD))
    if odd:
        return [f"the guarantee of the receipt lacks, or has no place for, {_plain(odd[0])[:60]!r}"]
    listed, public = mechanisms(certificate), certificate["conditions"][1:]
    pairs: list[tuple[str, Any, Any]] = [
        ("trust model", told["model"], certificate["model"]),
        ("unit", told["unit"], certificate["unit"]),
        ("kind of neighbours", told["neighbours"], certificate["neighbours"]),
        ("list of models that it implies", told["also"], _IMPLIED.get(certificate["model"], [])),
        ("origin of the noise", told["simulated"], certificate["noise"] == _SIMULATED),
        ("list of what is public", told["public"], public),
        ("derivation", told["derivation"], derivation(certificate)),
    ]
    if receipt["format"] == RECEIPTS[0]:
        budget, declared = {"rho": told["rho"], "parts": [part["rho"] for part in listed]}, receipt["declared"]
        declared = declared if isinstance(declared, dict) else {}
        pairs += [
            ("budget", receipt["budget"], budget),
            ("list of what is public", declared.get("public"), public),
            ("number of trajectories", declared.get("trajectories_per_user"), _trajectories(certificate["unit"])),
        ]
    elif _trajectories(certificate["unit"]) != 1:
        pairs.append(("unit", told["unit"], "one user = one whole trajectory"))
    found = [
        f"the receipt says another {name} than its certificate" for name, one, other in pairs if not _same(one, other)
    ]
    stated = certificate["stated"]
    found += [
        f"the receipt says another {name} than its certificate"
        for name in ("epsilon", "delta", "rho")
        if not _close(told[name], stated.get(name))
    ]
    if found:
        return list(dict.fromkeys(found))
    if certificate["model"] != "central":
        found.append(
            f"a receipt is about data that somebody holds: its model is central, not {certificate['model'][:20]}"
        )
    if certificate["noise"] == _NOT_DRAWN or not _matches(_SAMPLERS, receipt["noise"]):
        found.append("a receipt is about noise that was drawn, and says from where")
    if (receipt["adds_up"] is None) == (receipt["ledger"] is None):
        found.append("without a ledger a receipt says that its epsilon adds to others, and with one the ledger does")
    if told["statement"] != _statement(told):
        found.append("the statement of the receipt is not what its numbers say")
    if not _same_parts(receipt["mechanisms"], listed):
        found.append("the receipt lists other noise than its certificate")
    found += _pairs_differences(told, reader, known)
    return found + _evaluation_differences(receipt["evaluation"], listed)


def _same(one: Any, other: Any) -> bool:
    text = _text_of(one)
    return text is not None and text == _text_of(other)


def _same_parts(listed: Any, true: list[dict[str, Any]]) -> bool:
    """The same mechanisms, each as often, in any order."""
    return isinstance(listed, list) and Counter(map(_text_of, listed)) == Counter(map(_text_of, true))


def _matches(pattern: re.Pattern[str], text: Any) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _close(told: Any, stated: Any) -> bool:
    """What a receipt tells is what the certificate states, which was raised by a share of 1e-12."""
    if told is None or stated is None:
        return told is None and stated is None
    return _finite(told) and Fraction(told) <= exact_number(stated, "a number") <= Fraction(told) * _SHARE


def _pairs_differences(told: dict[str, Any], reader: _Reader, known: Any) -> list[str]:
    """Epsilons at other deltas, and what is said of P(loss > epsilon): each must be a true bound."""
    rows = told["epsilon_at"]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return ["the receipt lists no epsilons at other deltas"]
    if not _same([row.get("delta") for row in rows], list(_DELTAS)) or any(
        set(row) != {"delta", "epsilon", "exceeded"} for row in rows
    ):
        return ["the receipt lists epsilons at other deltas than receipts do"]
    for row in [*rows, told]:
        delta, epsilon = row["delta"], row["epsilon"]
        if epsilon is not None and row is not told:
            true = _finite(epsilon) and epsilon >= 0
            if not (true and known.delta(Fraction(epsilon) * _SHARE, reader.negligible) <= Fraction(delta)):
                return [f"the epsilon that the receipt gives at delta {delta:g} is less than the steps give"]
        if not _is_exceeded(row["exceeded"], epsilon, reader, known):
            return [f"what the receipt says of losses above epsilon, at delta {delta:g}, is less than the steps give"]
    return []


def _is_exceeded(share: Any, epsilon: float | None, reader: _Reader, known: Any) -> bool:
    """Whether a share bounds the probability of a loss above epsilon, as it is printed."""
    if epsilon is None or share is None:
        return share is None and epsilon is None
    return _finite(share) and 0 <= share <= 1 and _exceeded(epsilon, reader, known) <= Fraction(share) * _SHARE


def _exceeded(epsilon: float, reader: _Reader, known: Any) -> Fraction:
    """P(loss > L) at most, for the L whose factor e^L is printed: delta(e) / (1 - e^(e - L)) for any e below L."""
    odds = math.exp(min(epsilon, 700.0))
    printed = math.nextafter(math.log(float(_rounded_up(odds))), 0.0) if odds <= 1e6 else float(_rounded_up(epsilon))
    top, tried = Fraction(printed), dict[int, Fraction]()
    if known.delta(top * _SHARE, reader.negligible) == 0:
        return Fraction(0)

    def bound(place: int) -> Fraction:
        if place not in tried:
            below = top * Fraction(2.0 ** (-place / 4))
            chance = Fraction(_DOWN.subtract(Decimal(1), _exp_up(-below)))
            tried[place] = known.delta(top - below, reader.negligible) / chance if chance > 0 else Fraction(1)
        return tried[place]

    low, high = 0, 79  # it falls and then grows; wherever it is looked at, it is a bound
    while high - low > 2:
        third = max(1, (high - low) // 3)
        low, high = (low, high - third) if bound(low + third) <= bound(high - third) else (low + third, high)
    return min(Fraction(1), *map(bound, range(low, high + 1)))


def confirmed(certificate: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """What a receipt tells, with the epsilons at other deltas raised, mostly by nothing, to what is confirmed here."""
    reader = _Reader()
    _work[0] = 0
    try:
        with decimal.localcontext(_UP):
            _, known = _check(certificate, reader)
            return told if known is None else _confirmed(told, reader, known)
    except (ArithmeticError, MemoryError, RecursionError, Refused, Unknown, Unreadable, ValueError):
        return told


def _confirmed(told: dict[str, Any], reader: _Reader, known: Any) -> dict[str, Any]:
    rows = []
    for row in told["epsilon_at"]:
        tries = () if row["epsilon"] is None else (row["epsilon"] * (1 + share) for share in _RAISED)
        fits = (e for e in tries if known.delta(Fraction(e), reader.negligible) <= Fraction(row["delta"]))
        rows.append({**row, "epsilon": next(fits, None)})
    for row in [*rows, told := {**told, "epsilon_at": rows}]:
        least = None if row["epsilon"] is None else float(_exceeded(row["epsilon"], reader, known))
        row["exceeded"] = None if least is None else min(1.0, max(row["exceeded"], least * (1 + 1e-12)))
    return told


_RAISED = (0.0, *(10.0**-k for k in range(10, 0, -1)), 1.0)


def _statement(told: dict[str, Any]) -> str:
    """The promise in one line, from its numbers, which are rounded up."""
    epsilon, delta, rho = told["epsilon"], told["delta"], told["rho"]
    kind = f"{told['model']} differential privacy"
    if delta == 0 and epsilon is None and rho is not None:
        return f"zero-concentrated {kind}, rho {_rounded_up(rho)}, {told['neighbours']}"
    small = f", delta {_rounded_up(delta, 3)}" if delta else ""
    most = _rounded_up(math.inf if epsilon is None else epsilon)
    return f"{'' if delta else 'pure '}{kind}, epsilon {most}{small}, {told['neighbours']}"


def _rounded_up(value: float, digits: int = 4) -> str:
    """A number with so many digits, never below its value but for a share of 1e-12."""
    nearest = f"{value:.{digits}g}"
    if not math.isfinite(value) or float(nearest) >= value * (1 - 1e-12):
        return nearest
    last = Decimal(1).scaleb(Decimal(nearest).adjusted() - digits + 1)
    return f"{float(Decimal(nearest) + last):.{digits}g}"


_WIDE = 0.25  # of the range of values: wider intervals are never about the same
_FEW = 0.005  # a smaller share of users without a record is not said
_WITHIN = "{}: the difference to the behaviour lies between {:.4g} and {:.4g}, if {}"
_ASSUMES = "rows are missing for reasons that have nothing to do with what would have followed"
_READ_OFF = f"{_ASSUMES}, and the rows that are counted show what users did"
_OF_JUDGEMENTS = {
    "unit": "the declared rewards; steps after the end of an episode are worth 0",
    "estimand": "the return of people like these until their record ends, under this policy and under what was done",
}


_BY = re.compile(
    "everybody judges: the interval is from the released table that the policy was learned from, and holds at once for "
    "every policy that can be made of its [0-9,]{1,12} pairs of state and action, by a critical value of [0-9.]{1,8} "
    "deviations"
)


def _evaluation_differences(evaluation: Any, listed: list[dict[str, Any]]) -> list[str]:
    """Whether the word of a verdict fits the interval of the difference, and its noise is that of the receipt."""
    if evaluation is None:
        return []
    wrong = ["the verdict of the receipt does not fit its interval"]
    if not isinstance(evaluation, dict) or not isinstance(evaluation.get("difference"), dict):
        return wrong
    parts = evaluation.get("mechanisms")
    if not isinstance(parts, list) or not _same_parts(parts, listed[len(listed) - len(parts) :]):
        return ["the judgement of the receipt lists other noise than its certificate"]
    low, high = evaluation["difference"].get("low"), evaluation["difference"].get("high")
    word, sentence, returns = (evaluation.get(name) for name in ("word", "verdict", "returns"))
    assumes = _ASSUMES if evaluation.get("behaviour_declared") is True else _READ_OFF
    if any(evaluation.get(name) != text for name, text in {**_OF_JUDGEMENTS, "assumes": assumes}.items()):
        return ["the judgement of the receipt does not say what it is about as receipts do"]
    if "by" in evaluation and (parts or evaluation.get("split") or not _matches(_BY, evaluation["by"])):
        return ["the judgement of the receipt does not say who judged as receipts do"]
    if not (_finite(low) and _finite(high) and low <= high and isinstance(sentence, str) and isinstance(word, str)):
        return wrong
    within, start = _WITHIN.format(word, low, high, assumes) + _unjudged(evaluation), f"{word}: "
    told = {"not judged": sentence.startswith(start), "cannot be told": sentence.startswith(f"{within}; ")}
    if not told.get(word, sentence == within):
        return wrong
    wide = math.inf
    if isinstance(returns, list) and len(returns) == 2 and all(map(_finite, returns)):
        wide = _WIDE * (returns[1] - returns[0]) * (1 + 1e-9)
    fits = {
        "better": low > 0,
        "worse": high < 0,
        "about the same": low <= 0 <= high and high - low <= wide,
        "cannot be told": low <= 0 <= high,
        "not judged": True,
    }
    return [] if fits.get(word) else wrong


def _unjudged(evaluation: dict[str, Any]) -> str:
    """What the sentence says of users without a record: their released share, where noise alone does not explain it."""
    judged = evaluation.get("judged")
    told = judged if isinstance(judged, dict) else {}
    asked: list[Any] = [evaluation.get("users"), told.get("users"), told.get("deviation")]
    users, there, deviation = (float(each) if _finite(each) else 0.0 for each in asked)
    if users <= 0 or not told:
        return ""
    share = 1 - there / users
    few = share * users <= 3 * deviation or share < _FEW
    return "" if few else f" (about {share:.0%} of the users are not judged)"


def main(arguments: Sequence[str]) -> int:
    """Check one file; the exit code is 0 if it holds, 1 refused, 2 unreadable, 3 if it protects nobody."""
    if len(arguments) != 1:
        print("usage: python checker.py certificate.json", file=sys.stderr)
        return 2
    try:
        with open(arguments[0], encoding="utf-8") as file:
            verdict = judge(read(file.read(_LONGEST_FILE + 1)))
    except (OSError, UnicodeDecodeError):
        print("unreadable: the file cannot be opened as text", file=sys.stderr)
        return 2
    except Unreadable as found:
        print(f"unreadable: {found}", file=sys.stderr)
        return 2
    print(verdict.explain())
    return verdict.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

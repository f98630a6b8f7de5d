r"""Discrete Laplace and discrete Gaussian noise drawn exactly, in whole numbers: the law, its bounds, and the steps.

**Law.** P(x) is proportional to exp(-E(|x|)) on the whole numbers, E(x) = a x + c x^2 / 2, with rational a and c: a =
1/b and c = 0 is the discrete Laplace law of scale b, a = 0 and c = 1/sigma^2 the discrete Gaussian. A float is a
rational number too, so the scale that is drawn is the scale that is stated, to the last bit.

**Steps.** Let m be a whole number (``bits``). A draw reads words of ``width`` random bits, 64 in a release:

1. The first word. Its lowest bit is the sign; the others are the first bits of a number u in [0, 1). Let h be the
   smallest h = 0, 1, ... with u < C(h), where C(h) = P(H <= h) and P(H = h) is proportional to exp(-E(2^m h)).
2. If m > 0, the second word. Its upper m bits are a whole number l; the others are the first bits of a number v in [0,
   1). Unless v < exp(-(E(2^m h + l) - E(2^m h))), start again from step 1.
3. x = 2^m h + l. If x is zero and the sign is negative, start again from step 1. Else return x with the sign.

Whenever the bits of u or v do not decide a comparison, one more word continues that number.

**Formal guarantee.** If the bits of the tape are independent and fair, the result has exactly the stated law, and a
draw ends with probability one. Proof. u, v, l and the sign are independent and uniform. A pass through the steps ends
with (sign, x), x = 2^m h + l, with probability

    1/2 * exp(-E(2^m h)) / Z * 2^-m * exp(-(E(x) - E(2^m h))) = exp(-E(x)) / (2^(m+1) Z),

the same constant for every pair, as every x >= 0 has one h and one l; (negative, 0) is thrown away, so each whole
number comes from exactly one pair. Passes are independent, so the result of the first that is kept has probabilities in
the proportion of exp(-E(|x|)). E rises and is convex, so a pass is kept with positive probability. A comparison of u
with the irrational or rational number C stays undecided after n bits only if u is within a few 2^-n of C, so that it
ends too.

**No rounding decides.** C and exp are known by bounds: ``exp_bounds`` and ``cumulative_bounds`` compute whole numbers
low <= 2^n p <= high by sums, products and quotients of Python's whole numbers, each rounded outwards. With U the first
n bits, u < p for certain if U + 1 <= low, and u >= p for certain if U >= high; otherwise nothing is decided and another
word is read. Bounds that are too wide would cost words, never correctness.

This file is the definition, in exact arithmetic of any length and without haste. ``exact_sampler`` takes the same steps
in machine words, and comes back here whenever 64 bits do not decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from discreet.base.errors import Unsupported
from discreet.base.validation import check_positive

WORD = 64
# The scale over 2^m lies between 8 and 16: tables of h are short, and step 2 starts again once in 20 draws.
_COARSE = 3
MOST_BITS = 52  # 2^m h + l must fit into 63 bits
_GUARD = 32  # bits beyond those that are asked for, so that bounds are as close as whole numbers can be


@dataclass(frozen=True)
class ExactLaw:
    """P(x) proportional to exp(-linear |x| - quadratic x^2 / 2), drawn with ``bits`` = m uniform low bits."""

    linear: Fraction
    quadratic: Fraction
    bits: int

    def energy(self, x: int) -> Fraction:
        """E(x), for x >= 0."""
        return self.linear * x + self.quadratic * x * x / 2


def exact_laplace(scale: float | Fraction, bits: int | None = None) -> ExactLaw:
    """The discrete Laplace law P(x) ~ exp(-|x| / scale); ``scale`` is taken as the rational number that it is."""
    exact = _positive(scale)
    return ExactLaw(1 / exact, Fraction(0), _low_bits(exact) if bits is None else bits)


def exact_gaussian(sigma: float | Fraction, bits: int | None = None) -> ExactLaw:
    """The discrete Gaussian law P(x) ~ exp(-x^2 / 2 sigma^2); ``sigma`` is taken as the rational number that it is."""
    exact = _positive(sigma)
    return ExactLaw(Fraction(0), 1 / exact**2, _low_bits(exact) if bits is None else bits)


def _positive(scale: float | Fraction) -> Fraction:
    if isinstance(scale, Fraction | int) and not isinstance(scale, bool) and scale > 0:
        return Fraction(scale)
    return Fraction(check_positive("the scale of exact noise", scale))


def _low_bits(scale: Fraction) -> int:
    bits = max(0, int(scale).bit_length() - 1 - _COARSE)
    if bits > MOST_BITS:
        raise Unsupported(
            f"the scale of exact noise must stay below 2^{MOST_BITS + _COARSE + 1} for draws to fit into 64 bits: "
            "release in larger units"
        )
    return bits


class Tape:
    """Random words of ``width`` bits, one after the other; ``read`` counts them."""

    def __init__(self, next_word: Callable[[], int], width: int = WORD) -> None:
        self._next_word, self.width, self.read = next_word, width, 0

    def word(self) -> int:
        """The next word."""
        self.read += 1
        return self._next_word()


def draw(law: ExactLaw, tape: Tape) -> int:
    """One draw, by the steps above."""
    while (x := attempt(law, tape)) is None:
        pass
    return x


def attempt(law: ExactLaw, tape: Tape) -> int | None:
    """One pass through the steps; None where they start again."""
    width, m = tape.width, law.bits
    first = tape.word()
    h, low = _smallest(law, first >> 1, width - 1, tape), 0
    if m:
        second = tape.word()
        low = second >> (width - m)
        loss = law.energy((h << m) + low) - law.energy(h << m)
        if not _below_exp(loss, second & ((1 << (width - m)) - 1), width - m, tape):
            return None
    x, negative = (h << m) + low, first & 1
    if negative:
        return -x if x else None
    return x


def _smallest(law: ExactLaw, u: int, bits: int, tape: Tape) -> int:
    """The smallest h with u < C(h); ``u`` holds the first ``bits`` bits."""
    while True:
        low, high = cumulative_bounds(law, bits)
        h = _first_above(low, u)
        if h < len(low) and (h == 0 or u >= high[h - 1]):
            return h
        u, bits = (u << tape.width) | tape.word(), bits + tape.width


def _first_above(low: tuple[int, ...], u: int) -> int:
    """The first h with u + 1 <= low[h]; their number if there is none."""
    first, last = 0, len(low)
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if u < low[middle] else (middle + 1, last)
    return first


def _below_exp(loss: Fraction, v: int, bits: int, tape: Tape) -> bool:
    """Whether v < exp(-loss); ``v`` holds the first ``bits`` bits."""
    while True:
        low, high = exp_bounds(loss, bits)
        if v < low or v >= high:
            return v < low
        v, bits = (v << tape.width) | tape.word(), bits + tape.width


@lru_cache(maxsize=256)
def cumulative_bounds(law: ExactLaw, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Bounds low[h] <= 2^bits C(h) <= high[h] for h = 0, 1, ..., until less than 2^-bits of the law is left.

    The weights of h form a log-concave sequence w, so all from h on are at most w_h / (1 - w_(h+1) / w_h) together.
    """
    fine = bits + _GUARD
    whole, enough = 1 << fine, 1 << (_GUARD - 2)
    low, high = [0], [0]
    while True:
        h = len(low) - 1
        weight = exp_bounds(law.energy(h << law.bits), fine)
        rest = whole
        if h and weight[1] < enough:
            ratio = exp_bounds(law.energy((h + 1) << law.bits) - law.energy(h << law.bits), fine)[1]
            rest = -(-weight[1] * whole // (whole - ratio)) if ratio < whole else whole
        if rest <= enough:
            break
        low.append(low[-1] + weight[0])
        high.append(high[-1] + weight[1])
    least, most = low[-1], high[-1] + rest
    return (
        tuple((part << bits) // most for part in low[1:]),
        tuple(min(-((-part << bits) // least), 1 << bits) for part in high[1:]),
    )


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Whole numbers low <= 2^bits exp(-x) <= high, for x >= 0.

    exp(y) for y = x / 2^k < 1/16 by its series, whose terms are positive; what is left after a term is less than that
    term. Then one over it, squared k times. Every step rounds the lower bound down and the upper one up.
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x > bits:
        return 0, 1  # exp(-x) < 2^-x
    k = int(x).bit_length() + 4
    p = bits + k + _GUARD
    whole = 1 << p
    y_low = (x.numerator << p) // (x.denominator << k)
    y_high = y_low + 1
    term_low, term_high, low, high, j = whole, whole, whole, whole, 0
    while term_high > 1:
        j += 1
        term_low = (term_low * y_low >> p) // j
        term_high = -(-term_high * y_high // (j << p))
        low, high = low + term_low, high + term_high
    high += term_high
    low, high = (whole << p) // high, -((-whole << p) // low)
    for _ in range(k):
        low, high = low * low >> p, -(-high * high >> p)
    return low >> (p - bits), -(-high >> (p - bits))

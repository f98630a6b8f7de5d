r"""The exact sampler of real releases: the steps of ``exact_law`` in machine words, on the operating system's entropy.

Words are 64 bits, eight bytes of ``os.urandom`` each, the lowest byte first. For every law there is a table of whole
numbers low[h] <= 2^63 C(h) <= high[h], and a guide that says at which h to start looking. Nothing here is a floating
point number, and no operation wraps around unless that is meant.

**Step 1** looks up the h with high[h-1] <= U < low[h], U the upper 63 bits of the first word. **Step 2** needs to know
whether v < exp(-g), g = l' (a' + c' (h + l' / 2)), where l' = l / 2^m and a' = 2^m a, c' = 4^m c. In units of 2^-62 the
kernel has the whole parts of a' and c', and multiplies with the upper halves of 128-bit products, so that

    G <= 2^62 g < G + h + 4:

a' is off by less than 1, c' h by less than h, c' l' / 2 by less than 2, and the last product by less than 1 more. The
partial sums 1 - g, 1 - g + g^2 / 2, ... lie below and above exp(-g) in turn (the remainder of Taylor's series has the
sign of its next term, for every g > 0), and are kept between two whole numbers that are rounded outwards. The first of
them that v is surely below, or surely not below, decides: mostly the first.

**Undecided** draws, about one in 2^(62 - m) or 2^52 where m is small, are drawn by ``exact_law.draw`` from the same
words on. So the result is at every moment what ``exact_law.draw`` makes of the same tape, and has its guarantee.

**Entropy** is read for the draws of one call and thrown away with it: there is no state that a second thread, a forked
process or a run that was killed could share or find again. About 16 bytes make one draw, and pieces of a megabyte are
read at a time, whatever the number of draws.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from discreet.base.compiled import inlined, kernel
from discreet.base.errors import InvalidInput
from discreet.base.types import Floats, Integers, NDArray
from discreet.base.validation import shown
from discreet.noise.exact_distribution import WORD, ExactLaw, Tape, cumulative_bounds, draw

Words = NDArray[np.uint64]
SamplerName = Literal["discreet", "opendp"]
OWN: SamplerName = "discreet"
OPENDP: SamplerName = "opendp"
# Up to so many cells OpenDP's samplers are fast enough, and the ones that have been looked at by most people.
MANY_CELLS = 100_000

_AT_ONCE = 1 << 17  # words that are read at a time
_GUIDES = 11  # bits of the first word that choose where to start looking
_POINT = 62  # bits after the point in step 2
_TERMS = 32
_ONE = np.int64(1 << _POINT)
_HALF_WORD = np.uint64(32)
_LOWER_HALF = np.uint64(0xFFFFFFFF)


def check_sampler(name: object) -> SamplerName:
    """A sampler by its name."""
    for known in (OWN, OPENDP):
        if isinstance(name, str) and name == known:
            return known
    raise InvalidInput(f"sampler must be {OWN!r} or {OPENDP!r}, got {shown(name)}")


def usual_sampler(size: int | tuple[int, ...]) -> SamplerName:
    """The sampler of a table of so many cells unless somebody chooses: our own where OpenDP's would take long."""
    return OWN if math.prod(np.atleast_1d(size).tolist()) > MANY_CELLS else OPENDP


@runtime_checkable
class ChoosesSampler(Protocol):
    """A law that either sampler draws."""

    def secure_by(self, sampler: SamplerName, size: int | tuple[int, ...]) -> Integers | Floats:
        """Draws for a real release by one of the two samplers."""


class FastLaw(NamedTuple):
    """Tables of a law for the kernel."""

    below: Words  # low[h]
    above: Words  # high[h]
    guide: Integers
    bits: int
    linear: np.uint64  # 2^62 a', rounded down
    quadratic: np.uint64  # 2^62 c', rounded down


@lru_cache(maxsize=256)
def prepare(law: ExactLaw) -> FastLaw:
    """The tables of a law, certified by whole numbers of any length."""
    low, high = cumulative_bounds(law, WORD - 1)
    slopes = (law.linear * 2**law.bits, law.quadratic * 4**law.bits) if law.bits else (Fraction(0), Fraction(0))
    # Step 2 wants g below 3/2. Larger h are as good as impossible and are left to exact_law.
    kept = sum(1 for h in range(len(low)) if slopes[0] + slopes[1] * (h + 1) < Fraction(5, 4))
    below, above = np.array(low[:kept], np.uint64), np.array(high[:kept], np.uint64)
    starts = np.arange(1 << _GUIDES, dtype=np.uint64) << np.uint64(WORD - 1 - _GUIDES)
    guide = np.searchsorted(below, starts, side="right").astype(np.int64)
    fixed = [np.uint64(math.floor(slope * 2**_POINT)) for slope in slopes]
    return FastLaw(below, above, guide, law.bits, fixed[0], fixed[1])


def draw_exactly(law: ExactLaw, size: int | tuple[int, ...]) -> Integers:
    """Independent draws for a real release, from the operating system's entropy."""
    return draw_from(law, size, os.urandom)


def draw_from(law: ExactLaw, size: int | tuple[int, ...], entropy: Callable[[int], bytes]) -> Integers:
    """Draws from a given source of bytes, which is read in order: for tests of :func:`draw_exactly`, which has none."""
    out = np.empty(size, np.int64)
    flat, fast = out.reshape(-1), prepare(law)
    tape, position, done = words_of(b""), 0, 0
    while done < len(flat):
        if len(tape) - position < 2:
            fresh = entropy(8 * min(_AT_ONCE, 2 * (len(flat) - done) + 2))
            tape, position = np.concatenate([tape[position:], words_of(fresh)]), 0
        done, position = _fill(fast, tape, position, flat, done)
        if done < len(flat) and len(tape) - position >= 2:  # 64 bits did not decide
            careful = Tape(_continued(tape, position, entropy).__next__)
            flat[done] = draw(law, careful)
            position, done = min(position + careful.read, len(tape)), done + 1
    return out


def _continued(tape: Words, position: int, entropy: Callable[[int], bytes]) -> Iterator[int]:
    """The words of a tape from a position on, and fresh ones after its end."""
    for i in range(position, len(tape)):
        yield int(tape[i])
    while True:
        yield int(words_of(entropy(8))[0])


def words_of(random_bytes: bytes) -> Words:
    """Words of eight bytes, the lowest byte first."""
    return np.frombuffer(random_bytes, "<u8").astype(np.uint64, copy=False)


@kernel
def _fill(law: FastLaw, tape: Words, position: int, out: Integers, done: int) -> tuple[int, int]:
    """Draw until ``out`` is full, fewer than two words are left, or 64 bits do not decide: then before that draw."""
    entries, bits = law.below.shape[0], np.uint64(law.bits)
    while done < out.shape[0] and position + 1 < tape.shape[0]:
        first = tape[position]
        u = first >> np.uint64(1)
        h = law.guide[np.int64(first >> np.uint64(53))]
        while h < entries and u >= law.below[h]:
            h += 1
        if h == entries or (h > 0 and u < law.above[h - 1]):
            break
        x, kept, read = np.int64(h), 1, 1
        if law.bits > 0:
            second, read = tape[position + 1], 2
            low = second >> (np.uint64(64) - bits)
            x = (x << np.int64(law.bits)) + np.int64(low)
            kept = _below_exp(law, np.uint64(h), low << (np.uint64(64) - bits), second << bits)
            if kept < 0:
                break
        position += read
        negative = (first & np.uint64(1)) == np.uint64(1)
        if kept == 1 and (x != 0 or not negative):
            out[done] = -x if negative else x
            done += 1
    return done, position


@inlined
def _below_exp(law: FastLaw, h: np.uint64, part: np.uint64, v: np.uint64) -> int:
    """1 if v < exp(-g), 0 if not, -1 if that is not sure. ``part`` is 2^64 l'; the lowest m bits of v are not known."""
    two, one = np.uint64(2), np.uint64(1)
    v_low = np.int64(v >> two)
    v_high = np.int64((v | ((one << np.uint64(law.bits)) - one)) >> two) + 1
    slope = law.linear + h * law.quadratic + (upper_half(part, law.quadratic) >> one)
    g_low = upper_half(part, slope)
    g_high = g_low + h + np.uint64(4)
    term_low, term_high = g_low, g_high
    low, high = _ONE - np.int64(g_high), _ONE - np.int64(g_low)
    if v_high <= low:
        return 1
    for k in range(2, _TERMS):
        term_low = upper_half(term_low << one, g_low << one) // np.uint64(k)
        term_high = upper_half(term_high << one, g_high << one) // np.uint64(k) + one
        if k % 2 == 1:
            low, high = low - np.int64(term_high), high - np.int64(term_low)
            if v_high <= low:
                return 1
        else:
            low, high = low + np.int64(term_low), high + np.int64(term_high)
            if v_low >= high:
                return 0
    return -1


@inlined
def upper_half(a: np.uint64, b: np.uint64) -> np.uint64:
    """The upper 64 bits of the product of two words."""
    a_low, a_high = a & _LOWER_HALF, a >> _HALF_WORD
    b_low, b_high = b & _LOWER_HALF, b >> _HALF_WORD
    across = a_high * b_low + (a_low * b_low >> _HALF_WORD)
    other = a_low * b_high + (across & _LOWER_HALF)
    return a_high * b_high + (across >> _HALF_WORD) + (other >> _HALF_WORD)

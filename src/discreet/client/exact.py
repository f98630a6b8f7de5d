"""From random bytes to reports, in whole numbers: steps that any language can take, and give the same report.

A *tape* is a source of random bytes. A **number** z, 0 <= z < 2^62, is read from its next eight bytes, the lowest byte
first: w = b0 + 2^8 b1 + ... + 2^56 b7, and z is w / 4 rounded down.

* **below(n)**: read z; if z >= n floor(2^62 / n) read again; the result is z mod n. Every result is equally likely.
* **chance(a, b)**, true with probability a / b for whole numbers 0 <= a <= b: write 2^62 a = q b + r, 0 <= r < b; read
  z; true if z < q, false if z > q or r = 0; if z = q, go on with a = r.
* **pick(H, m)**, m of H steps: for h = 0, 1, ... while some are wanted: pick h if below(H - h) < how many are wanted.
* **one item of k** and **a bit for each of k items**: as ``discreet.noise.exact_randomized_response`` states, with a
  threshold.

**Formal guarantee.** With independent fair bits each of these has its stated law exactly: below is uniform by
rejection; chance compares an endless uniform binary fraction with a / b, 62 digits at a time; pick is selection
sampling, which makes all sets of m steps equally likely. The reports of an item have the probabilities threshold / 2^62
from which :mod:`discreet.client.laws` computes their privacy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction

from discreet.client.errors import Refused

BITS = 62
WHOLE = 1 << BITS
_BYTES = 8

Entropy = Callable[[int], bytes]


class Tape:
    """Random bytes, read eight at a time: those of the operating system, or given ones for tests."""

    __slots__ = ("_source",)

    def __init__(self, source: Entropy = os.urandom) -> None:
        self._source = source

    def number(self) -> int:
        """The next number z."""
        return int.from_bytes(self._source(_BYTES), "little") >> 2

    def numbers(self, count: int) -> list[int]:
        """The next numbers, from one reading."""
        content = self._source(_BYTES * count)
        return [int.from_bytes(content[at : at + _BYTES], "little") >> 2 for at in range(0, len(content), _BYTES)]

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        end = n * (WHOLE // n)
        z = self.number()
        while z >= end:
            z = self.number()
        return z % n

    def chance(self, a: int, b: int) -> bool:
        """True with probability a / b."""
        while True:
            q, a = divmod(a << BITS, b)
            z = self.number()
            if z != q:
                return z < q
            if not a:
                return False

    def pick(self, horizon: int, steps: int) -> list[int]:
        """So many different steps, in order."""
        picked: list[int] = []
        for h in range(horizon):
            if len(picked) == steps:
                break
            if self.below(horizon - h) < steps - len(picked):
                picked.append(h)
        return picked

    def item(self, item: int, items: int, threshold: int) -> int:
        """The report of one of ``items`` items; each wrong one has ``threshold`` of the numbers."""
        truth, z = WHOLE - (items - 1) * threshold, self.number()
        return item if z < truth else (item + 1 + (z - truth) // threshold) % items

    def bits(self, item: int, items: int, threshold: int) -> str:
        """A bit for each of ``items`` items, as text; ``threshold`` of the numbers make a wrong one a one."""
        numbers = self.numbers(items)
        return "".join("01"[z < (WHOLE // 2 if i == item else threshold)] for i, z in enumerate(numbers))


class Given:
    """A tape of given bytes, for tests and examples: refuses to be read beyond its end."""

    def __init__(self, content: bytes) -> None:
        self._content, self.read = content, 0

    def __call__(self, count: int) -> bytes:
        if self.read + count > len(self._content):
            raise Refused("the given random bytes are used up: give more")
        self.read += count
        return self._content[self.read - count : self.read]


def reward_fraction(reward: float, low: float, high: float) -> tuple[int, int]:
    """(reward - low) / (high - low) exactly: the probability that a reward is reported as one."""
    share = (Fraction(reward) - Fraction(low)) / (Fraction(high) - Fraction(low))
    return share.numerator, share.denominator

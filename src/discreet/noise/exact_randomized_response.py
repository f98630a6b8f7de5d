"""Randomised answers byte by byte: the steps that a device takes, in whole numbers, to follow in any language.

A device needs a source of random bytes that nobody can predict (``os.urandom``, ``crypto.getRandomValues``), the kind
of the answer, and one whole number, the *threshold*, which the server states beside epsilon (``law.threshold``; as
text, because it has up to 62 bits). It never needs a floating point number or a logarithm.

**A number** z from 0 to 2^62 - 1 is read from eight bytes of the tape b0 b1 ... b7 in the order in which they come, the
lowest byte first: w = b0 + 2^8 b1 + 2^16 b2 + ... + 2^56 b7, and z is w / 4 rounded down (the two lowest bits of b0 are
not used).

* **A bit** (:func:`answer_bit`; threshold: how many z are lies). Read one z. The answer is the other bit if z <
  threshold, and the true bit if not. 8 bytes.
* **One of k items** (:func:`report_item`; threshold: how many z each false item has). Let truth = 2^62 - (k - 1)
  threshold. Read one z. If z < truth, report the item. If not, report (item + 1 + j) mod k with j = (z - truth) /
  threshold rounded down. 8 bytes.
* **A bit for each of k items** (:func:`report_bits`; threshold: how many z are a false one). For i = 0, 1, ..., k - 1
  in this order: read one z; bit i is one if z < 2^61 for the item that the user has, and if z < threshold for the
  others. 8 k bytes.

**Formal guarantee.** With independent fair bits every z has probability 2^-62, so the probabilities of answers are
exactly those fractions that a law's ``p``, ``q`` and ``shipped_epsilon`` are computed from. No z is drawn twice or
thrown away: the number of bytes, and so the time, does not depend on the answer.

These functions use Python's whole numbers only. The laws in ``responses`` answer many users at once by the same steps,
and a test compares both on the same bytes; ``tests/noise/response_vectors.json`` holds examples for other languages.
"""

from __future__ import annotations

from collections.abc import Iterator

BITS = 62
WHOLE = 1 << BITS
BYTES = 8


def numbers(tape: bytes) -> Iterator[int]:
    """The numbers z that a tape holds, eight bytes each."""
    for start in range(0, len(tape) - BYTES + 1, BYTES):
        yield int.from_bytes(tape[start : start + BYTES], "little") >> (8 * BYTES - BITS)


def answer_bit(bit: int, threshold: int, tape: bytes) -> int:
    """The answer to a bit, from the first eight bytes of a tape."""
    return bit ^ int(next(numbers(tape)) < threshold)


def report_item(item: int, items: int, threshold: int, tape: bytes) -> int:
    """The report of one of ``items`` items, from the first eight bytes of a tape."""
    truth, z = WHOLE - (items - 1) * threshold, next(numbers(tape))
    return item if z < truth else (item + 1 + (z - truth) // threshold) % items


def report_bits(item: int, items: int, threshold: int, tape: bytes) -> list[int]:
    """A bit for each of ``items`` items, from the first eight bytes of a tape for each."""
    ends = (WHOLE // 2 if i == item else threshold for i in range(items))
    return [int(z < end) for end, z in zip(ends, numbers(tape), strict=False)]

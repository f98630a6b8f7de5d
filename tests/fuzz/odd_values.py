"""Values that nobody should give, and some that look almost right."""

from __future__ import annotations

import datetime
import decimal
import fractions
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS: list[Any] = [
    0, 1, 2, 3, 5, -1, -7, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64, 10**25, 10**400, -(10**400),
    0.0, -0.0, 0.5, 1.0, 1.5, 2.0,
    1e-5, 1e-300, 5e-324, 1e300, 1e308, -1e308, float("inf"), float("-inf"), float("nan"), True, False,
    np.int8(3), np.uint64(2**64 - 1), np.float32(0.5), np.float64("nan"), np.bool_(True), 1j, decimal.Decimal("0.5"),
    fractions.Fraction(1, 3),
]  # fmt: skip
WORDS: list[Any] = [
    "", " ", "x", "0", "1", "-1", "1.5", "²", "٣", "nan", "inf", "1e400", "9" * 5000, "true", "none", "auto", "a,b",
    "a=b", "--x",
    "\0", "\ud800", "ε", "../x", "/", ".", "x" * 300, "uniform", "central/blocks", "offline/gaussian", "apvi", "ucbvi",
    "first-visit", "river-swim", "x.json", "x.npz", "x.csv", "/dev/null", "/dev/full", "no/such/folder/x.json",
    "{}", "[1]",
]  # fmt: skip
THINGS: list[Any] = [
    None, b"x", b"\xff", [], [1], [1, 2, 3], (), (0, 1), (1, 0), (0.0, 0.0), (0, float("inf")), (-1e308, 1e308),
    (0, 1, 2),
    ("a", "b"), [None], [[]], [[0, 1], [1]], [[0, 1], [1, 0]], [[-1]], [[2**63]], [[2**64 - 1]], [[0.5, 0.5]],
    [[[0.5, 0.5]]], [["a"]], {}, {"a": 1}, {1, 2}, range(3), object(), int, len, iter([1]), np.zeros(0),
    np.zeros((2, 0)),
    np.ones((1, 1)), np.zeros((2, 2), np.int64), np.full((2, 2), np.nan), np.full((2, 2, 2), 0.5), np.eye(2),
    np.array([["a"]]), np.array([[{}]], dtype=object), np.zeros((1,) * 20), np.array(3), np.zeros(2, "M8[s]"),
    np.zeros((2, 2), [("a", "i4")]), np.ma.masked_array([1, 2], [True, False]), datetime.date(2020, 1, 1), Path("x"),
    ["low", "high"], ["low", "low"], "low",
]  # fmt: skip
EVERY = NUMBERS + WORDS + THINGS


def odd(rng: np.random.Generator) -> Any:
    """One value, of any kind; sometimes a fresh number or a small random array."""
    which = rng.random()
    if which < 0.75:
        return EVERY[int(rng.integers(len(EVERY)))]
    if which < 0.85:
        return float(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-320, 308))
    if which < 0.92:
        return int(rng.integers(-(2**40), 2**40)) >> int(rng.integers(40))
    shape = tuple(int(n) for n in rng.integers(0, 4, int(rng.integers(0, 5))))
    values = rng.normal(size=shape) * 10.0 ** int(rng.integers(-3, 4))
    return values.astype(str(rng.choice(["f8", "i8", "u1", "f4", "?", "c16", "U3", "O"])))


def odd_text(rng: np.random.Generator) -> str:
    """One text, as a command line gives it."""
    which = rng.random()
    if which < 0.4:
        return str(WORDS[int(rng.integers(len(WORDS)))])
    if which < 0.8:
        return shown(NUMBERS[int(rng.integers(len(NUMBERS)))])
    letters = rng.integers(1, 0x2FF, int(rng.integers(0, 12)))
    return "".join(chr(int(letter)) for letter in letters)


def shown(value: Any) -> str:
    """A number as text; Python refuses to write whole numbers of more than 4,300 digits."""
    return str(value)

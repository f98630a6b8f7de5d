"""One grammar of numbers: the compiled reader and the pattern for warehouses agree on random text; dates likewise."""

from __future__ import annotations

import datetime
import math
import random
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa

from discreet.tables.read.arrow_values import days, numbers
from discreet.tables.read.columns import FIRST_DAY
from discreet.tables.read.numerals import DATE_PATTERN, PATTERN, read_numbers

NUMBERS = {
    "1": 1.0, " 1 ": 1.0, "+1": 1.0, "-1.5": -1.5, "1.": 1.0, ".5": 0.5, "1e3": 1e3, "1E+03": 1e3, "0.1": 0.1,
    "1e-7": 1e-7, "123456789012345678.123456789012345678e99": 123456789012345678.123456789012345678e99,
    "0.30000000000000004": 0.30000000000000004, "9007199254740993": 9007199254740992.0, "-0": 0.0,
    "0.0036194052438310864": 0.0036194052438310864, "." + 39 * "0" + "1": 1e-40, "0.5" + 39 * "0": 0.5,
}  # fmt: skip
NONE = ["", " ", "1d", "1f", "1L", "0x1", "1_000", "inf", "-inf", "nan", "NaN", "Infinity", "1e", "1e+", "e3", ".", "+",
        "--1", "1 2", "1\n", "\n1", "1\t", "1e100", "1234567890123456789", "0." + 41 * "0", "１",
        "1,5", "1\0", "+-1"]  # fmt: skip


def read(texts):
    values, found = numbers(pa.array([text.encode() for text in texts], pa.binary()))
    return [value if there else None for value, there in zip(values.tolist(), found.tolist(), strict=True)]


def test_what_is_a_number():
    assert read(list(NUMBERS)) == list(NUMBERS.values())
    assert read(NONE) == [None] * len(NONE)


def test_random_text_is_a_number_where_the_pattern_says_so():
    rng, pattern = random.Random(3), re.compile(PATTERN)
    texts = ["".join(rng.choices("0123456789.eE+- xd\n", k=rng.randrange(9))) for _ in range(4000)]
    texts += [repr(rng.uniform(-1, 1) * 10 ** rng.randrange(-20, 20)) for _ in range(2000)]
    texts += [f"{rng.randrange(10**18)}.{rng.randrange(10**18)}e{rng.randrange(-99, 99)}" for _ in range(500)]
    expected = [float(text) if pattern.search(text + "x") else None for text in texts]
    assert read(texts) == expected
    assert sum(value is not None for value in expected) > 2000


def test_every_number_between_zero_and_one_that_python_writes_is_read():
    """Rewards below .01 have 19 decimals and more: none of them may count as missing."""
    rng = random.Random(5)
    values = [rng.random() * 10.0 ** -rng.randrange(5) for _ in range(3000)]
    assert read([repr(value) for value in values]) == values
    assert read([f"{value:.30f}" for value in values]) == [float(f"{value:.30f}") for value in values]


def close_to_a_tie(rng):
    """A numeral of 16 to 18 digits next to the middle of two floating-point numbers, or in it."""
    digits, after = rng.randrange(16, 19), rng.randrange(0, 19)
    number = Fraction(rng.randrange(10 ** (digits - 1), 10**digits), 10**after)
    below = float(number)
    middle = (Fraction(below) + Fraction(math.nextafter(below, math.inf))) / 2
    whole = min(max(round(middle * 10**after) + rng.randrange(-1, 2), 10 ** (digits - 1)), 10**digits - 1)
    text = str(whole).rjust(after, "0")
    return text[: len(text) - after] + "." + text[len(text) - after :] if after else text


def test_numbers_of_many_digits_are_rounded_correctly():
    """Python's own reading is the nearest number; the compiled one leaves to others what it is not sure of."""
    rng = random.Random(8)
    texts = [close_to_a_tie(rng) for _ in range(20_000)]
    texts += [repr(rng.uniform(0.01, 1)) for _ in range(20_000)]
    texts += [f"{rng.randrange(10**17, 10**18)}e-{rng.randrange(40)}" for _ in range(5_000)]
    assert read(texts) == [float(text) for text in texts]
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    ends = np.cumsum([len(text) for text in texts])
    values, found, hard = read_numbers(data, ends - [len(text) for text in texts], ends)
    assert found.all()
    sure = ~hard
    assert values[sure].tolist() == [float(text) for text, here in zip(texts, sure.tolist(), strict=True) if here]
    assert hard[20_000:40_000].sum() < 5  # of those that programs write, hardly any
    assert hard[:20_000].any()  # ties are not decided here


def test_dates_are_days_of_the_calendar():
    rng, pattern = random.Random(4), re.compile(DATE_PATTERN)
    texts = [
        "2024-02-29",
        "2023-02-29",
        "1900-02-29",
        "2000-02-29",
        "0001-01-01",
        "9999-12-31",
        "0000-01-01",
        "2024-1-1",
    ]
    texts += ["2024-1-1", "2024-01-31T10:00:00Z", "2024-01-31 10:00", "2024-01-31x", "", "2024-13-01", "2024-01-00"]
    texts += [f"{rng.randrange(10000):04}-{rng.randrange(14):02}-{rng.randrange(33):02}" for _ in range(3000)]

    def expected(text):
        try:
            return (datetime.date.fromisoformat(text[:10]) - FIRST_DAY).days if pattern.search(text + "x") else None
        except ValueError:
            return None

    values, found = days(pa.array([text.encode() for text in texts], pa.binary()))
    read = [value if there else None for value, there in zip(values.tolist(), found.tolist(), strict=True)]
    assert read == [expected(text) for text in texts]


def test_dates_and_times_count_by_their_day():
    moments = [datetime.datetime(1969, 12, 31, 23, 59), datetime.datetime(2024, 1, 31), None]
    day = [(moment.date() - FIRST_DAY).days for moment in moments[:2]]
    for kind in (pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.date32(), pa.date64()):
        cells = [m if m is None or pa.types.is_timestamp(kind) else m.date() for m in moments]
        values, found = days(pa.array(cells, kind))
        assert found.tolist() == [True, True, False]
        assert values[:2].tolist() == day
    assert np.all(values[2:] == 0)

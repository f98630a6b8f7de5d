"""One written grammar of numbers, the same on every engine.

    number   = spaces [sign] (digits ["." [decimals]] | "." decimals) [("e" | "E") [sign] digit [digit]] spaces
    digits   = 1 to 18 of 0-9;   decimals = 1 to 40 of 0-9;   sign = "+" | "-";   spaces = any number of blanks

Text that is no number is a missing value: ``1d``, ``0x1``, ``1_000``, ``inf`` and ``nan`` are none. Forty decimals are
more than other programs write without an exponent (Python has 21 in 0.00036194052438310864). What the grammar accepts
is far from the largest and the smallest number, so nothing overflows. Warehouses test it with a regular expression
before they cast; here a compiled loop reads bytes. The value is the nearest floating-point number on both.
"""

from __future__ import annotations

import numpy as np

from discreet.base.compiled import inlined, kernel
from discreet.base.types import Floats, Integers, Mask, NDArray

# To be searched in the text with an x behind it: the end of a pattern would match before a final line break, too.
PATTERN = "^ *[+-]?([0-9]{1,18}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})? *x$"
DATE_PATTERN = "^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.+Z-]*)?x$"

_BLANK, _PLUS, _MINUS, _POINT, _ZERO, _SMALL_E, _LARGE_E = 32, 43, 45, 46, 48, 101, 69
_TEN, _COLON, _SMALL_T, _LARGE_Z = 10, 58, 84, 90
_EXACT_DIGITS, _EXACT_POWER, _MOST_DIGITS, _MOST_DECIMALS = 15, 22, 18, 40
_SPLITTER = 2.0**27 + 1.0
_POWERS = 10.0 ** np.arange(_EXACT_POWER + 1)


@kernel
def _read(
    data: NDArray[np.uint8], starts: Integers, ends: Integers, powers: Floats, values: Floats, found: Mask, hard: Mask
) -> None:
    """Numbers of up to 18 digits, rounded correctly; few of more than 15, and those beyond, are marked as hard."""
    for row in range(len(starts)):
        i, end = starts[row], ends[row]
        while i < end and data[i] == _BLANK:
            i += 1
        while end > i and data[end - 1] == _BLANK:
            end -= 1
        negative = False
        if i < end and (data[i] == _PLUS or data[i] == _MINUS):
            negative = data[i] == _MINUS
            i += 1
        mantissa, significant, before, after = 0, 0, 0, 0
        while i < end and _ZERO <= data[i] < _ZERO + 10:
            if significant > 0 or data[i] != _ZERO:
                significant += 1
            if significant <= _MOST_DIGITS:
                mantissa = mantissa * 10 + (data[i] - _ZERO)
            before += 1
            i += 1
        if i < end and data[i] == _POINT:
            i += 1
            while i < end and _ZERO <= data[i] < _ZERO + 10:
                if significant > 0 or data[i] != _ZERO:
                    significant += 1
                if significant <= _MOST_DIGITS:
                    mantissa = mantissa * 10 + (data[i] - _ZERO)
                after += 1
                i += 1
        if before + after == 0 or before > _MOST_DIGITS or after > _MOST_DECIMALS:
            continue
        power = 0
        if i < end and (data[i] == _SMALL_E or data[i] == _LARGE_E):
            i += 1
            down = i < end and data[i] == _MINUS
            if i < end and (data[i] == _PLUS or data[i] == _MINUS):
                i += 1
            digits = 0
            while i < end and _ZERO <= data[i] < _ZERO + 10:
                power = power * 10 + (data[i] - _ZERO)
                digits += 1
                i += 1
                if digits > 2:
                    break
            if digits == 0 or digits > 2:
                continue
            if down:
                power = -power
        if i < end:
            continue
        found[row] = True
        power -= after
        if significant > _MOST_DIGITS or power > _EXACT_POWER or power < -_EXACT_POWER:
            hard[row] = True
            continue
        if significant > _EXACT_DIGITS:
            value = _quotient(mantissa, powers[-power]) if power <= 0 else -1.0
            hard[row] = value < 0
        else:
            value = float(mantissa)
            value = value * powers[power] if power >= 0 else value / powers[-power]
        values[row] = -value if negative else value


@inlined
def _quotient(whole: int, power: float) -> float:
    """The floating-point number nearest to whole / power, or -1 where two are too close to tell; whole < 10^18.

    Let a be whole as a float, b what that leaves out, and q = a / power rounded. a - q power is a float, found exactly
    by splitting both factors into halves (Dekker 1971). So whole / power is q + r with r = (a - q power + b) / power,
    where r is off by two roundings, less than its 2^-51 part. Rounding is monotone: if q + r rounds to one number for
    an r that is smaller by its 2^-50 part and for one that is as much larger, that is the nearest one.
    """
    a = float(whole)
    b = float(whole - np.int64(a))
    q = a / power
    scaled_q, scaled_p = _SPLITTER * q, _SPLITTER * power
    q_high, p_high = scaled_q - (scaled_q - q), scaled_p - (scaled_p - power)
    q_low, p_low = q - q_high, power - p_high
    product = q * power
    error = ((q_high * p_high - product) + q_high * p_low + q_low * p_high) + q_low * p_low
    r = (((a - product) - error) + b) / power
    smaller, larger = q + r * (1.0 - 2.0**-50), q + r * (1.0 + 2.0**-50)
    return smaller if smaller == larger else -1.0


def read_numbers(data: NDArray[np.uint8], starts: Integers, ends: Integers) -> tuple[Floats, Mask, Mask]:
    """The numbers that stand in pieces of some bytes, which of them are numbers, and which have too many digits.

    The value of those is left to a library that rounds correctly.
    """
    values, found = np.zeros(len(starts)), np.zeros(len(starts), np.bool_)
    hard = np.zeros(len(starts), np.bool_)
    _read(data, starts, ends, _POWERS, values, found, hard)
    return values, found, hard


@kernel
def _read_dates(data: NDArray[np.uint8], starts: Integers, ends: Integers, days: Integers, found: Mask) -> None:
    for row in range(len(starts)):
        i, end = starts[row], ends[row]
        if end - i < _TEN or data[i + 4] != _MINUS or data[i + 7] != _MINUS:
            continue
        year, month, day, fine = 0, 0, 0, True
        for k in range(_TEN):
            if k == 4 or k == 7:
                continue
            digit = int(data[i + k]) - _ZERO
            fine &= 0 <= digit < 10
            if k < 4:
                year = year * 10 + digit
            elif k < 7:
                month = month * 10 + digit
            else:
                day = day * 10 + digit
        if end - i > _TEN:
            fine &= data[i + _TEN] == _SMALL_T or data[i + _TEN] == _BLANK
        for k in range(i + _TEN + 1, end):
            c = data[k]
            fine &= _ZERO <= c <= _COLON or c in (_POINT, _PLUS, _MINUS, _LARGE_Z)
        leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
        longest = 31
        if month == 4 or month == 6 or month == 9 or month == 11:
            longest = 30
        elif month == 2:
            longest = 29 if leap else 28
        if not fine or year < 1 or not 1 <= month <= 12 or not 1 <= day <= longest:
            continue
        # Days since the first of March of the year zero, in which a leap day is the last of its year.
        y = year - (1 if month <= 2 else 0)
        shifted = (month + 9) % 12
        days[row] = 365 * y + y // 4 - y // 100 + y // 400 + (153 * shifted + 2) // 5 + day - 1 - 306
        found[row] = True


def read_dates(data: NDArray[np.uint8], starts: Integers, ends: Integers) -> tuple[Integers, Mask]:
    """Dates such as 2024-01-31, with or without a time behind them, as days since the first of January of year one."""
    days, found = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.bool_)
    _read_dates(data, starts, ends, days, found)
    return days, found

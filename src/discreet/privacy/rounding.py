"""Floating point numbers that are never below what is true: quotients, sums and roots, exact and then rounded up."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

SMALLEST = 5e-324  # the smallest number above zero: what is positive and below all floating point numbers


def up(x: Fraction) -> float:
    """The smallest floating point number that is not below a fraction.

    >>> up(Fraction(1, 2)), up(Fraction(1, 10)) >= Fraction(1, 10)
    (0.5, True)
    """
    try:
        nearest = float(x)
    except OverflowError:
        return math.inf
    return nearest if nearest >= x else math.nextafter(nearest, math.inf)


def quotient_up(numerator: float, denominator: float) -> float:
    """A quotient of finite numbers, rounded up.

    >>> quotient_up(1.0, 4.0)
    0.25
    """
    return up(Fraction(numerator) / Fraction(denominator))


def product_up(*factors: float) -> float:
    """A product of numbers that are not negative, rounded up; infinite if one of them is.

    >>> product_up(0.5, 3)
    1.5
    """
    return math.inf if math.inf in factors else up(math.prod(map(Fraction, factors), start=Fraction(1)))


def sum_up(terms: Iterable[float]) -> float:
    """A sum of numbers that are not negative, rounded up; infinite if one of them is.

    >>> sum_up([0.5, 0.25]), sum_up([0.1, 0.2, math.inf])
    (0.75, inf)
    """
    terms = list(terms)
    return math.inf if math.inf in terms else up(sum(map(Fraction, terms), start=Fraction(0)))


def root_up(square: Fraction) -> float:
    """The square root of a fraction, rounded up.

    >>> root_up(Fraction(9, 4)), Fraction(root_up(Fraction(2))) ** 2 >= 2
    (1.5, True)
    """
    root = math.sqrt(up(square))
    return root if Fraction(root) ** 2 >= square else math.nextafter(root, math.inf)

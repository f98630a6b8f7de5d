r"""That the integer thresholds of a round keep the epsilon that was agreed to; else the device sends nothing.

An item of a step, or an answer to a question, is reported with a threshold N out of W = 2^62
(:mod:`discreet.client.exact`). Between any two items the probabilities of one and the same report differ at most by the
factor

    one item of k:    (W - (k - 1) N) / N          a bit for each item:    (W - N) / N,

and r reports about m steps each by its (r m)-th power (m = 1 for answers). So all reports of a person are
epsilon-private if that factor is at most e^(epsilon / (r m)). Answered bits of shuffled studies, the true one or the
other with N of the W numbers, have the second factor for each of the m bits that two records can set differently.

Both sides are compared as exact fractions, with the exponential rounded *down*: the standard library's ``decimal``
gives it correctly rounded, and one unit of its last place is taken off. What the service says about epsilon is
not needed for this, only what the person agreed to.
"""

from __future__ import annotations

import decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from discreet.client.errors import Refused
from discreet.client.exact import WHOLE
from discreet.client.words import field, known, whole

_MANY = 1 << 40  # items
_DOWN = decimal.Context(prec=60, rounding=decimal.ROUND_FLOOR, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
_MOST = 700  # above this no threshold is too small: one in 2^62 is not below e^-700


class Law(NamedTuple):
    """How an item or an answer is reported: how many there are, and the threshold of a wrong one."""

    items: int
    threshold: int


def read_law(content: Any) -> Law:
    """A law as the service states it: ``{"items": d, "lie": "N"}``."""
    stated = known(content, dict, "a law")
    items, lie = whole(stated, "items", 2, _MANY), field(stated, "lie", str)
    if not (lie.isascii() and lie.isdigit() and len(lie) <= 19 and (lie == "0" or lie[0] != "0")):
        raise Refused("the threshold of a law must be a whole number, as text")
    return Law(items, int(lie))


def check_law(law: Law, response: str, most: Fraction | None) -> None:
    """Refuse a law that loses more than its part of epsilon, or that is none; without a part nothing is agreed to."""
    if most is not None and not keeps(law, response, most):
        raise Refused(
            f"the service states a law of {law.items:,} items that does not keep epsilon {float(most):g}, which is its "
            "part of what was agreed to: nothing is sent; ask whoever runs the study"
        )


@lru_cache(maxsize=4096)
def keeps(law: Law, response: str, most: Fraction) -> bool:
    """Whether a law is one, and loses at most so much."""
    most_lies = WHOLE // law.items if response == "kary" else WHOLE // 2
    if not 1 <= law.threshold <= most_lies:
        return False
    truth = WHOLE - (law.items - 1) * law.threshold if response == "kary" else WHOLE - law.threshold
    return truth <= law.threshold * exp_down(most)


def exp_down(x: Fraction) -> Fraction:
    """At most e^x, for x >= 0."""
    if x > _MOST:
        return exp_down(Fraction(_MOST))
    exponent = _DOWN.divide(decimal.Decimal(x.numerator), decimal.Decimal(x.denominator))
    return Fraction(_DOWN.next_minus(_DOWN.exp(exponent)))

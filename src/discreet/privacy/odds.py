"""What an epsilon means for a person, in numbers that people read: factors of odds, probabilities, one in so many.

Somebody who wonders which of two records is hers holds some odds. What is released multiplies them by at most
e^epsilon, except with probability delta. Everything is rounded so that it never sounds better than it is.
"""

from __future__ import annotations

import math

from discreet.privacy.words import rounded_up

_MANY = 1e6


def factor(epsilon: float) -> str:
    """e^epsilon, rounded up, for people.

    >>> factor(1.0), factor(0.1), factor(50.0)
    ('2.719', '1.106', 'more than a million')
    """
    value = math.exp(min(epsilon, 700.0))
    return "more than a million" if value > _MANY else rounded_up(value)


def likely(epsilon: float) -> str:
    """What a suspicion of 50% can become, rounded up.

    >>> likely(1.0), likely(0.0), likely(20.0)
    ('73.2%', '50%', 'more than 99.9%')
    """
    share = 100 / (1 + math.exp(-min(epsilon, 700.0)))
    return "more than 99.9%" if share > 99.9 else f"{math.ceil(share * 10 - 1e-9) / 10:g}%"


def one_in(delta: float) -> str:
    """A small probability as one in so many, never understated.

    >>> one_in(1e-6), one_in(3e-7), one_in(0.6)
    ('one in 1,000,000', 'one in 3,333,333', '0.6')
    """
    return rounded_up(delta, 3) if delta > 0.5 else f"one in {math.floor(1 / delta * (1 + 1e-12)):,}"

r"""How far a few equal successors are believed: does a row that led to one state only do so by rule, or by chance?

Seven moves that all led to one state may be a rule or chance. A row that has shown another successor (m - max w_t >=
1/2, with weights w_t that sum to m) tells most by its variance; for one that has *repeated itself* so far, the other
rows tell which it is. Each row with m > 1 weighs min(1, m / 20); with ``alike`` the weight of the other rows that
repeated themselves and ``mixed`` one more than the weight of all that did not,

    d        = mixed / (mixed + m alike) for a row that repeated itself, 1/4 for all others.

If the chance of leading elsewhere is anything between 0 and 1, a row with chance repeats itself in m moves with
probability 1 / (m + 1): d is about the probability that this one has chance, by Bayes' rule. Where every row is certain
d vanishes soon; where none is it stays near one, until the row has shown something else.
"""

from __future__ import annotations

from discreet.base.compiled import fused
from discreet.base.types import Floats

_TELLS = 20.0  # moves after which a row weighs in full when it tells about others
_SHOWN = 0.25  # how much a row that has shown another successor is doubted: it tells by its variance
_OTHER = 0.5  # moves to another successor that show chance; less is a rest of noise


@fused
def kinds_of_rows(most: Floats, counted: Floats, rows: int) -> tuple[float, float]:
    """One more than the weight of rows that have shown several successors, and the weight of those that repeat."""
    mixed, alike = 1.0, 0.0
    for row in range(rows):
        weight, repeats = _telling(counted[row]), counted[row] - most[row] < _OTHER
        mixed += 0.0 if repeats else weight
        alike += weight if repeats else 0.0
    return mixed, alike


@fused
def doubt_of_row(most: float, moves: float, mixed: float, alike: float) -> float:
    """d of a row with so many ``moves``, of which ``most`` led to one state; ``alike`` has the row in it."""
    others = max(0.0, alike - _telling(moves))
    return mixed / (mixed + moves * others) if moves - most < _OTHER else _SHOWN


@fused
def _telling(moves: float) -> float:
    return min(1.0, moves / _TELLS) if moves > 1.0 else 0.0

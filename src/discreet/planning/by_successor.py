"""One backward step of planning on released counts, for all (state, action) at once.

Compiled statistics keep transitions by successor, (S, rows), so that the sum over successors runs over many rows side
by side. Steps are slices of the rows: an index that might be negative would be checked at every access.
"""

from __future__ import annotations

from discreet.compiled import fused, inlined
from discreet.streams import Stream, below
from discreet.types import Floats, Integers


@inlined
def rows_of_step(groups: int, h: int, pairs: int) -> slice:
    """The rows of step ``h``: the only ones, or the step's own."""
    first = h * pairs if groups > 1 else 0
    return slice(first, first + pairs)


@fused
def sum_over_successors(transitions: Floats, here: slice, following: Floats, q: Floats) -> None:
    """q = sum over s' of transitions[s', here] * following[s'], two successors at a time: half the trips through q."""
    S = transitions.shape[0]
    opening = 2 - S % 2
    one, x = transitions[0, here], following[0]
    if opening == 1:
        for i in range(q.shape[0]):
            q[i] = one[i] * x
    else:
        two, y = transitions[1, here], following[1]
        for i in range(q.shape[0]):
            q[i] = one[i] * x + two[i] * y
    for t in range(opening, S, 2):
        one, x = transitions[t, here], following[t]
        two, y = transitions[t + 1, here], following[t + 1]
        for i in range(q.shape[0]):
            q[i] += one[i] * x + two[i] * y


@inlined
def act_greedily(q: Floats, lowest: float, highest: float, coins: Stream, values: Floats, actions: Integers) -> None:
    """The best action of every state, exact ties broken at random, and its value within [lowest, highest].

    ``q`` is (S, A). There are no branches but for ties, because noise makes them unpredictable.
    """
    for s in range(q.shape[0]):
        best, choice, tied = q[s, 0], 0, False
        for a in range(1, q.shape[1]):
            better = q[s, a] > best
            tied = (tied and not better) or q[s, a] == best
            choice = a if better else choice
            best = max(best, q[s, a])
        if tied:
            choice = _one_of_the_best(q[s], best, coins)
        actions[s] = choice
        values[s] = min(highest, max(lowest, best))


@inlined
def _one_of_the_best(q: Floats, best: float, coins: Stream) -> int:
    """An action that attains the maximum, each with the same probability."""
    ties = 0
    for a in range(q.shape[0]):
        ties += 1 if q[a] == best else 0
    passed, choice = below(coins, ties), 0
    for a in range(q.shape[0]):
        tied = q[a] == best
        choice = a if tied and passed == 0 else choice
        passed -= 1 if tied else 0
    return choice

"""Sums over successors in worlds where a row leads to few of them: Taxi, deep seas, lakes of ice.

**Counts.** Without noise most counts of successors are zero there. A plan takes the same sums at every step of the
horizon, so the places of the counts above zero are listed once, by successor, and the sums run over the list alone.
Where more than one count in sixteen is above zero, as in random worlds and wherever noise was added, the loops over all
successors are faster, because they run over many rows at once; then the list is given up. Both ways add the same
numbers in the same order, but for rounding.

**Probabilities.** The exact value of a policy needs the successors of the true world only, which are known before the
first user. Leaving out the others changes nothing, not even the rounding: they add zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.base.compiled import fused, inlined
from discreet.base.types import Floats, Integers
from discreet.worlds.planning.backward_induction import evaluate, group

_FEW = 16  # the list is kept where at most one count in so many is above zero
_STATES = 24  # in smaller worlds there is nothing to be saved
_TRUE = 4  # the same for true probabilities, whose sums do not run over many rows at once


class FewSuccessors(NamedTuple):
    """Where the counts above zero are: scratch space of a planner."""

    first: Integers  # (groups, S + 1) where the entries of a group and a successor begin in the list
    pairs: Integers  # (room,) the (state, action) of each entry; without room where it would not pay
    listed: Integers  # (1,) 1 if all counts above zero are in the list, 0 if there is none


def few_successors(groups: int, states: int, actions: int) -> FewSuccessors:
    """Room for the list of a world of this size, and no list yet."""
    pairs = states * actions
    room = groups * pairs * states // _FEW + pairs if states >= _STATES else 0  # one more, written before it counts
    return FewSuccessors(np.zeros((groups, states + 1), np.int64), np.zeros(room, np.int64), np.zeros(1, np.int64))


@fused
def noisy(deviations: Floats) -> bool:
    """Whether any row has noise."""
    most = 0.0
    for row in range(deviations.shape[0]):
        most = max(most, deviations[row])
    return most > 0.0


@fused
def list_successors(few: FewSuccessors, weights: Floats, pairs: int) -> None:
    """List the counts above zero of ``weights`` (S, rows), ``pairs`` rows a group, or give up if there are too many."""
    few.listed[0] = 0
    room, found = few.pairs.shape[0], 0
    if room == 0:
        return
    for g in range(few.first.shape[0]):
        start = g * pairs
        for t in range(weights.shape[0]):
            few.first[g, t] = found
            if found + pairs > room:
                return
            row = weights[t, start : start + pairs]
            for i in range(pairs):
                few.pairs[found] = i  # written whether it counts or not: no branch
                found += 1 if row[i] > 0.0 else 0
        few.first[g, weights.shape[0]] = found
    few.listed[0] = 1


@fused
def spread_over_few(
    few: FewSuccessors, g: int, weights: Floats, inverse: Floats, following: Floats, mean: Floats, spread: Floats
) -> None:
    """Means of ``following`` under ``weights`` times ``inverse``, and sums of weighted squares around them, by pair.

    ``weights`` (S, pairs) and ``inverse`` (pairs,) are those of group ``g``.
    """
    first, pairs = few.first[g], few.pairs
    for i in range(mean.shape[0]):
        mean[i] = spread[i] = 0.0
    for t in range(following.shape[0]):
        row, x = weights[t], following[t]
        for j in range(first[t], first[t + 1]):
            mean[pairs[j]] += row[pairs[j]] * x
    for i in range(mean.shape[0]):
        mean[i] *= inverse[i]
    for t in range(following.shape[0]):
        row, x = weights[t], following[t]
        for j in range(first[t], first[t + 1]):
            i = pairs[j]
            spread[i] += row[i] * (x - mean[i]) ** 2


def true_successors(transitions: Floats) -> Integers:
    """The successors of every row of a world, (G, S, A, most of any row); (G, S, A, 0) where they are too many.

    Shorter rows are filled up with a successor of probability zero.
    """
    possible = transitions > 0
    most = int(possible.sum(axis=3).max())
    if most * _TRUE > transitions.shape[3]:
        return np.zeros((*transitions.shape[:3], 0), np.int64)
    first = np.argsort(~possible, axis=3, kind="stable")[..., :most]
    return np.ascontiguousarray(first.astype(np.int64))


@inlined
def evaluate_by_few(
    transitions: Floats, successors: Integers, means: Floats, actions: Integers, values: Floats
) -> None:
    """Fill ``values`` with those of the policy ``actions``, by ``true_successors`` if there are any."""
    if successors.shape[3] == 0:
        evaluate(transitions, means, actions, values)
        return
    H, S = actions.shape
    values[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            values[h, s] = _backup_by_few(transitions, successors, means, h, s, actions[h, s], values[h + 1])


@fused
def _backup_by_few(
    transitions: Floats, successors: Integers, means: Floats, h: int, s: int, a: int, following: Floats
) -> float:
    g = group(transitions.shape[0], h)
    row, few = transitions[g, s, a], successors[g, s, a]
    total = means[group(means.shape[0], h), s, a]
    for n in range(few.shape[0]):
        total += row[few[n]] * following[few[n]]
    return total  # type: ignore[no-any-return]

"""Coverage design: a mixture of policies that visits everything the set can visit, as evenly as possible.

Let d^mu be the occupancies of a policy mu over the coordinates i = (h, x, a) that the set reaches, d of them, and let y
be those of a mixture. The mixture whose worst ratio is smallest,

    min over y in conv{d^mu}  of  max over mu  of  sum_i d^mu_i / y_i,

is the one that maximises sum_i log y_i: at its maximum no direction d^mu - y ascends, which says that the ratio of
every mu is at most d, and the ratio of y itself is d whatever y is. So the optimum is d exactly, never above X A H.

Each round calls the oracle (the best policy of the set for the rewards 1/y), takes an exact line search towards its
answer, and shares the weights out again among the policies found so far by w_j <- w_j (sum_i v_ji / y_i) / d, which
never lowers the objective. The oracle's value over d is a certificate, at least 1, of how far the mixture is from the
best one; it does not depend on how the mixture was found.

The multiplicative step is that of Titterington (1976) and Silvey, Titterington and Torsney (1978) for optimal designs.
The design itself is the fine exploration policy of policy elimination (Qiao, Yin, Min and Wang, 2022).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput
from discreet.base.scientific import optimize
from discreet.base.types import ArrayLike, Floats, Integers, Mask
from discreet.base.validation import check_array, check_count
from discreet.worlds.planning.backward_induction import forward

# A coordinate that the first mixture visits less than this counts as out of reach: its reward 1/y would drown the rest.
_OUT_OF_REACH = 1e-14
# Policies with less than this share of an even weight are dropped; the oracle brings back any that is missed.
_NEGLIGIBLE = 1e-2


class Atoms(NamedTuple):
    """n points of a policy set, each a mixture of m deterministic policies, with their occupancies in one model."""

    actions: Integers  # (n, m, H, X)
    weights: Floats  # (n, m), rows sum to one
    occupancy: Floats  # (n, H, X, A)


Oracle = Callable[[Floats], Atoms]
"""Takes rewards (H, X, A) and returns one atom of the set (n = 1) that earns the most."""


@dataclass(frozen=True, eq=False)
class Design:
    """A mixture of deterministic policies and how close it is to the best one.

    ``max over the set of sum d^mu / occupancy`` is ``certificate * coordinates``; 1 would be optimal.
    """

    actions: Integers  # (n, H, X)
    weights: Floats  # (n,)
    occupancy: Floats  # (H, X, A)
    coordinates: int
    certificate: float
    calls: int


def atoms(
    actions: Integers,
    weights: Floats,
    transitions: Floats,
    start: Floats,
) -> Atoms:
    """Mixtures (n, m, H, X) with weights (n, m), evaluated in a (possibly sub-stochastic) model."""
    actions = np.ascontiguousarray(actions, dtype=np.int64)
    return Atoms(actions, weights, _occupancies(actions, weights, transitions, start))


def check_model(transitions: ArrayLike, start: ArrayLike) -> tuple[Floats, Floats]:
    """A sub-stochastic model: P (H, X, A, X) with rows that sum to at most one, and a start (X,) that does too."""
    P = np.ascontiguousarray(check_array("transitions", transitions))
    if P.ndim != 4 or P.shape[1] != P.shape[3]:
        raise InvalidInput(f"transitions must have shape (steps, states, actions, states), got {P.shape}")
    d1 = np.ascontiguousarray(check_array("start", start, (P.shape[1],)))
    for name, sums, least in (("transitions", P.sum(axis=-1).max(), P.min()), ("start", d1.sum(), d1.min())):
        if least < 0 or sums > 1 + 1e-9:
            raise InvalidInput(
                f"{name} must be at least 0 and sum to at most 1, got a minimum of {least:.3g} and a sum of {sums:.6g}"
            )
    return P, d1


def coverage_design(
    oracle: Oracle, initial: Atoms, *, target: float = 1.05, calls: int = 200, reweightings: int = 50
) -> Design:
    """A mixture whose worst coverage ratio over the oracle's set is at most ``target`` times the best possible.

    ``initial`` must belong to the set and visit every coordinate that is to be covered; the policies of a crude
    exploration do. It stops at the target or after ``calls`` calls of the oracle; read ``certificate`` to see which.
    """
    check_count("calls", calls)
    check_count("reweightings", reweightings, at_least=0)
    if not target > 1:
        raise InvalidInput(f"target must be above 1, the best possible ratio, got {target!r}; 1.05 is usual")
    weights = np.full(len(initial.weights), 1.0 / max(1, len(initial.weights)))
    reached = initial.occupancy.sum(axis=0) > _OUT_OF_REACH * len(weights)
    d = int(reached.sum())
    if d == 0:
        raise InvalidInput("the initial policies visit nothing, so there is nothing to cover; check the model's start")
    rows = initial.occupancy[:, reached]
    pool = [initial]
    which = np.arange(len(weights))  # the places in the pool of the policies in use
    rewards = np.zeros(reached.shape)
    for call in range(1, calls + 1):
        _share_out(rows, weights, reweightings, 1.0 + (target - 1.0) / 2.0)
        kept = _worth_keeping(rows, weights)
        rows, which, weights = rows[kept], which[kept], weights[kept] / weights[kept].sum()
        y = _mix(weights, rows)
        rewards[reached] = 1.0 / y
        found = oracle(rewards)
        row = found.occupancy[0, reached]
        certificate = float(row @ rewards[reached]) / d
        if certificate <= target or call == calls:
            break
        step = _line_search(y, row)
        weights = np.append((1.0 - step) * weights, step)
        rows = np.vstack([rows, row])
        which = np.append(which, len(initial.weights) + len(pool) - 1)
        pool.append(found)
    occupancy = np.zeros(reached.shape)
    occupancy[reached] = y
    actions, shares = _flatten(pool, which, weights)
    return Design(actions, shares, occupancy, d, certificate, call)


def _worth_keeping(rows: Floats, weights: Floats) -> Mask:
    kept = weights >= _NEGLIGIBLE / max(rows.shape)
    covers = (_mix(np.where(kept, weights, 0.0), rows) > 0).all()
    return kept if covers else np.ones(len(weights), dtype=np.bool_)


def _line_search(y: Floats, v: Floats) -> float:
    """The g in [0, 1] that maximises sum log((1-g) y + g v), a concave function: the root of its slope."""
    direction = v / y - 1.0

    def slope(g: float) -> float:
        return float((direction / (1.0 + g * direction)).sum())

    end = 1.0 - 1e-9  # v may miss coordinates, and the slope at 1 is then minus infinity
    if slope(end) >= 0:
        return end
    return float(optimize.brentq(slope, 0.0, end, xtol=1e-12)) if slope(0.0) > 0 else 0.0


def _flatten(pool: list[Atoms], which: Integers, weights: Floats) -> tuple[Integers, Floats]:
    """A mixture of mixtures as one of deterministic policies, each at most once."""
    actions = np.concatenate([part.actions for part in pool])[which]
    shares = (weights[:, None] * np.concatenate([part.weights for part in pool])[which]).ravel()
    used = actions.reshape(-1, *actions.shape[2:])[shares > 0]
    policies, where = np.unique(used, axis=0, return_inverse=True)
    merged = np.bincount(where.ravel(), weights=shares[shares > 0])
    return policies, merged / merged.sum()


@kernel
def _occupancies(
    actions: Integers,
    weights: Floats,
    transitions: Floats,
    start: Floats,
) -> Floats:
    n, m, H, X = actions.shape
    out = np.zeros((n, H, X, transitions.shape[2]))
    states = np.empty((H, X))
    for i in range(n):
        for j in range(m):
            forward(transitions, start, actions[i, j], states)
            for h in range(H):
                for x in range(X):
                    out[i, h, x, actions[i, j, h, x]] += weights[i, j] * states[h, x]
    return out


@kernel
def _mix(weights: Floats, rows: Floats) -> Floats:
    """weights @ rows, in one thread: those of a linear algebra library would compete with parallel runs."""
    out = np.zeros(rows.shape[1])
    for j in range(rows.shape[0]):
        if weights[j] > 0:
            for i in range(rows.shape[1]):
                out[i] += weights[j] * rows[j, i]
    return out


@kernel
def _share_out(rows: Floats, weights: Floats, rounds: int, enough: float) -> None:
    """Reweight in place until no policy in use has a ratio above ``enough`` times d.

    Deterministic policies visit at most one coordinate in A, so only the entries above zero are gone through; that is
    faster than dense products.
    """
    n, d = rows.shape
    first = np.zeros(n + 1, dtype=np.int64)
    columns, entries = np.empty(n * d, dtype=np.int64), np.empty(n * d)
    size = 0
    for j in range(n):
        for i in range(d):
            if rows[j, i] > 0:
                columns[size], entries[size] = i, rows[j, i]
                size += 1
        first[j + 1] = size
    inverse = np.empty(d)
    ratios = np.empty(n)
    for _ in range(rounds):
        inverse[:] = 0.0
        for j in range(n):
            for k in range(first[j], first[j + 1]):
                inverse[columns[k]] += weights[j] * entries[k]
        for i in range(d):
            inverse[i] = 1.0 / (d * inverse[i])
        for j in range(n):
            ratios[j] = 0.0
            for k in range(first[j], first[j + 1]):
                ratios[j] += entries[k] * inverse[columns[k]]
        if ratios.max() <= enough:
            break
        weights *= ratios

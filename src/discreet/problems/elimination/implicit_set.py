"""A polynomial-size policy set: every mixture of policies whose value in a model is at least a bound.

Where policies are too many to list, elimination keeps the constraint instead of the survivors. The occupancies of
mixtures form a polytope, and maximising a linear objective over it under one constraint

    max  <c, d>   over mixtures d   with  <r, d> >= b

is a linear program whose Lagrangian max_pi <c + lambda r, d^pi> - lambda b is a plain planning problem. The plane of
pairs (objective, value) shows the rest: deterministic policies span a convex hull, the optimum lies where its upper
edge crosses value = b, and an edge joins two policies. So the answer is a mixture of at most two deterministic
policies, found by a secant search: take one policy on each side of b, plan for the direction normal to the line through
them, put the policy found in place of the one on its side, and stop when none lies beyond the line. Every round finds
another vertex of the hull, so the search is finite and the answer exact up to rounding.

**Differences from the paper.** Policy elimination (Qiao, Yin, Min and Wang, 2022) keeps every deterministic policy that
passed all past tests. Here a mixture need only pass the newest test on average: its mean suboptimality, which is what
regret counts, has the same bound, and the set stays describable when A ** (X H) policies do not.

Models are sub-stochastic arrays P (H, X, A, X): the mass that a row lacks goes to a sink that earns nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_array
from discreet.problems.elimination.coverage_design import Atoms, atoms, check_model
from discreet.worlds.planning.backward_induction import best_policy

# The line through two policies counts as an edge of the hull when nothing lies further beyond it, relatively.
_EDGE = 1e-13


class CrudeMixtures(NamedTuple):
    """For every (x, a) of one step, the mixture of two policies that visits it most, and how much."""

    actions: Integers  # (X, A, 2, H, X)
    weights: Floats  # (X, A, 2)
    occupancy: Floats  # (X, A)


@dataclass(frozen=True, eq=False)
class ImplicitSet:
    """All mixtures of policies with value at least ``minimum`` for ``rewards`` in one model."""

    transitions: Floats  # (H, X, A, X)
    start: Floats  # (X,)
    rewards: Floats  # (H, X, A)
    minimum: float

    def __post_init__(self) -> None:
        P, d1 = check_model(self.transitions, self.start)
        object.__setattr__(self, "transitions", P)
        object.__setattr__(self, "start", d1)
        object.__setattr__(self, "rewards", check_array("rewards", self.rewards, P.shape[:3]))
        if not self.minimum <= self.best + 1e-12 * max(1.0, abs(self.best)):
            raise InvalidInput(
                f"minimum must not exceed the best value {self.best:.6g}, got {self.minimum!r}; lower it"
            )

    @property
    def best(self) -> float:
        """The highest value of any policy."""
        return float(self.start @ self._optimum[0][0])

    def maximise(self, objective: Floats) -> Atoms:
        """The mixture that maximises an objective (H, X, A) over the set; the oracle of a coverage design."""
        H, X, A = self.rewards.shape
        c = check_array("objective", objective, (H, X, A)).reshape(H, X * A)
        actions = np.empty((1, 2, H, X), dtype=np.int64)
        weights = np.empty((1, 2))
        r = self.rewards.reshape(H, X * A)
        _search(self._transposed, self.start, c, r, self.minimum, H, np.zeros(X), actions[0], weights[0])
        return atoms(actions, weights, self.transitions, self.start)

    def crude(self, step: int) -> CrudeMixtures:
        """For every (x, a): the mixture of the set that visits (step, x, a) most, of highest value where none does."""
        H, X, A = self.rewards.shape
        if not 0 <= step < H:
            raise InvalidInput(f"step must lie in 0..{H - 1}, got {step!r}")
        values, policy = self._optimum
        out = CrudeMixtures(np.empty((X, A, 2, H, X), dtype=np.int64), np.empty((X, A, 2)), np.empty((X, A)))
        r = self.rewards.reshape(H, X * A)
        _crude(self._transposed, self.start, r, self.minimum, step, values, policy, *out)
        return out

    def atoms(self, crude: CrudeMixtures) -> Atoms:
        """Crude mixtures as atoms of a coverage design."""
        H, X, A = self.rewards.shape
        return atoms(
            crude.actions.reshape(X * A, 2, H, X), crude.weights.reshape(X * A, 2), self.transitions, self.start
        )

    @cached_property
    def _transposed(self) -> Floats:
        """P as (H, next state, X A): sums over next states then run along contiguous rows and vectorise."""
        H, X, A = self.rewards.shape
        return np.ascontiguousarray(self.transitions.reshape(H, X * A, X).swapaxes(1, 2))

    @cached_property
    def _optimum(self) -> tuple[Floats, Integers]:
        """Values (H+1, X) and actions (H, X) of the policy that maximises the rewards."""
        policy, values = best_policy(self.transitions, self.rewards, len(self.rewards))
        return values, np.array(policy.actions)


@kernel
def _plan(
    PT: Floats,
    start: Floats,
    c: Floats,
    r: Floats,
    weight_c: float,
    weight_r: float,
    steps: int,
    end: Floats,
    actions: Integers,
) -> tuple[float, float]:
    """Plan the first ``steps`` steps for the reward weight_c c + weight_r r; both sums of the policy found.

    What follows earns ``end`` of r and nothing of c. Equal scores are settled by r, then by c.
    """
    X, XA = PT.shape[1], PT.shape[2]
    A = XA // X
    C, V = np.zeros(X), end.copy()
    qc, qr = np.empty(XA), np.empty(XA)
    for h in range(steps - 1, -1, -1):
        for i in range(XA):
            qc[i] = c[h, i]
            qr[i] = r[h, i]
        for y in range(X):
            cy, vy = C[y], V[y]
            row = PT[h, y]
            for i in range(XA):
                qc[i] += row[i] * cy
                qr[i] += row[i] * vy
        for x in range(X):
            best = x * A
            top = weight_c * qc[best] + weight_r * qr[best]
            for i in range(x * A + 1, x * A + A):
                score = weight_c * qc[i] + weight_r * qr[i]
                if score > top or (score == top and (qr[i], qc[i]) > (qr[best], qc[best])):
                    top, best = score, i
            actions[h, x] = best - x * A
            C[x] = qc[best]
            V[x] = qr[best]
    objective, value = 0.0, 0.0
    for x in range(X):
        objective += start[x] * C[x]
        value += start[x] * V[x]
    return objective, value


@kernel
def _search(
    PT: Floats,
    start: Floats,
    c: Floats,
    r: Floats,
    minimum: float,
    steps: int,
    end: Floats,
    actions: Integers,
    weights: Floats,
) -> float:
    """Secant search; writes two policies (2, H, X) and their weights, and returns the objective of the mixture."""
    below, above = actions[0], actions[1]  # the policy on each side of the minimum
    c0, v0 = _plan(PT, start, c, r, 1.0, 0.0, steps, end, below)
    weights[0], weights[1] = 1.0, 0.0
    above[:] = below
    if v0 >= minimum:
        return c0  # type: ignore[no-any-return]
    c1, v1 = _plan(PT, start, c, r, 0.0, 1.0, steps, end, above)
    found = np.empty_like(above)
    found[:] = above  # later steps, if any, are the caller's
    while v1 > minimum and c0 > c1:
        slope = (c0 - c1) / (v1 - v0)
        line = c0 + slope * v0
        cost, value = _plan(PT, start, c, r, 1.0, slope, steps, end, found)
        if cost + slope * value <= line + _EDGE * (abs(line) + slope * abs(v0)):
            break
        if value >= minimum:
            c1, v1 = cost, value
            above[:] = found
        else:
            c0, v0 = cost, value
            below[:] = found
    share = min(1.0, (minimum - v0) / (v1 - v0)) if c0 > c1 and v1 > v0 else 1.0
    weights[0], weights[1] = 1.0 - share, share
    return (1.0 - share) * c0 + share * c1  # type: ignore[no-any-return]


@kernel
def _crude(
    PT: Floats,
    start: Floats,
    r: Floats,
    minimum: float,
    step: int,
    values: Floats,
    policy: Integers,
    actions: Integers,
    weights: Floats,
    occupancy: Floats,
) -> None:
    """After ``step`` only the constraint matters: every mixture ends with the optimal policy, which is planned once."""
    X, A = occupancy.shape
    c = np.zeros((step + 1, X * A))
    for x in range(X):
        for a in range(A):
            actions[x, a, :] = policy
            c[step, x * A + a] = 1.0
            occupancy[x, a] = _search(
                PT, start, c, r, minimum, step + 1, values[step + 1], actions[x, a], weights[x, a]
            )
            c[step, x * A + a] = 0.0

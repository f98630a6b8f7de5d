"""All deterministic non-stationary policies at once, as a product of one factor per step.

At step h only the states S_h that can be reached there need an action, so there are n_h = A ** |S_h| rules for that
step and n_1 n_2 ... n_H *classes* of policies. A class is one whole number in mixed radix, the first step most
significant; within a step the action of the k-th state of S_h is the k-th digit to the base A, lowest first.

Values of all classes cost one addition or two each, because policies share what they have in common: what happens from
step h+1 on is computed once for all rules before it (suffixes), where the first h-1 steps lead once for all rules after
them (prefixes), and over the rules of one step the sum

    Q_h(x, a; f, suffix) = r_h(x,a) + sum_k P_h(x_k | x,a) Q_{h+1}(x_k, f(x_k); suffix)

grows state by state, from A ** k partial rules to A ** (k+1). A private learner must take S_h from public knowledge (a
public start state, a public support), never from its counts.

Models are sub-stochastic arrays P (H, X, A, X): the mass that a row lacks goes to a sink that earns nothing.
The set and its crude exploration are those of policy elimination (Qiao, Yin, Min and Wang, 2022), also in its
shuffle-private form (Bai, Talebi, Zhao, Cheng and Chen, SDP-PE, Algorithm 2); the product form is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.types import ArrayLike, Floats, Integers, Mask
from discreet.base.validation import check_array, check_count, check_not_negative
from discreet.problems.elimination.coverage_design import Atoms, Oracle, atoms, check_model

LIMIT = 2**22
"""The largest number of classes that is listed one by one: 32 MiB for each value per class."""


# Occupancies this close, relatively, are equal and the value decides between them.
_TIE = 1e-12


class CrudeArgmax(NamedTuple):
    """For every (x, a) of one step, the class that visits it most, -1 where no active one plays a, and how much."""

    classes: Integers  # (X, A)
    occupancy: Floats  # (X, A)


def count_classes(support: ArrayLike, actions: int) -> int:
    """How many classes of policies a support (H, X) allows, without building any.

    >>> count_classes([[True, False], [True, True]], actions=3)
    27
    """
    reachable = int(np.asarray(support, dtype=np.bool_).sum())
    return int(check_count("actions", actions) ** reachable)


@dataclass(frozen=True, eq=False)
class PolicyFactors:
    """The set of all policies on a public support: ``support[h, x]`` says that state x can be reached at step h."""

    support: Mask  # (H, X)
    actions: int

    def __post_init__(self) -> None:
        support = np.array(self.support, dtype=np.bool_)
        if support.ndim != 2 or not support.any(axis=1).all():
            raise InvalidInput(
                f"support must be a mask (steps, states) with a state at every step, got shape {support.shape}"
            )
        support.flags.writeable = False
        object.__setattr__(self, "support", support)
        if count_classes(support, self.actions) > LIMIT:
            size = math.log2(self.actions) * support.sum()
            raise Unsupported(
                f"a set of 2^{size:.1f} policies is too large to list (the limit is 2^22); use an ImplicitSet"
            )

    @property
    def horizon(self) -> int:
        """How many steps a policy has."""
        return int(self.support.shape[0])

    @property
    def states(self) -> int:
        """How many states there are, in the support or not."""
        return int(self.support.shape[1])

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many rules each step has."""
        return tuple(self.actions ** int(n) for n in self.support.sum(axis=1))

    @property
    def count(self) -> int:
        """How many classes of policies there are: a rule of every step, in all combinations."""
        return math.prod(self.sizes)

    def decode(self, classes: ArrayLike) -> Integers:
        """The actions (..., H, X) of classes (...); action 0 where the state cannot be reached."""
        rest = np.array(classes, dtype=np.int64)
        if rest.size and not (rest.min() >= 0 and rest.max() < self.count):
            raise InvalidInput(f"classes must lie in 0..{self.count - 1}, got {rest.min()} to {rest.max()}")
        out = np.zeros((*rest.shape, self.horizon, self.states), dtype=np.int64)
        for h in reversed(range(self.horizon)):
            for x in np.flatnonzero(self.support[h]):
                rest, out[..., h, x] = np.divmod(rest, self.actions)
        return out

    def encode(self, actions: ArrayLike) -> Integers:
        """The classes (...) of policies with actions (..., H, X); what they do out of reach does not matter."""
        table = np.asarray(actions, dtype=np.int64)
        if table.shape[-2:] != self.support.shape:
            raise InvalidInput(f"actions must have shape (..., {self.horizon}, {self.states}), got {table.shape}")
        if table.size and not (table.min() >= 0 and table.max() < self.actions):
            raise InvalidInput(f"actions must lie in 0..{self.actions - 1}, got {table.min()} to {table.max()}")
        out = np.zeros(table.shape[:-2], dtype=np.int64)
        for h in range(self.horizon):
            for x in np.flatnonzero(self.support[h])[::-1]:
                out = out * self.actions + table[..., h, x]
        return out

    def values(self, transitions: Floats, start: Floats, rewards: Floats) -> Floats:
        """The expected return of every class."""
        P, d1, r = self._model(transitions, start, rewards)
        out = np.empty(self.count)
        _values(P, d1, r, *self._members, out)
        return out

    def return_variances(
        self, transitions: Floats, start: Floats, rewards: Floats, reward_variances: Floats
    ) -> tuple[Floats, Floats]:
        """Mean and variance of the return of every class, with rewards that are independent given the path."""
        P, d1, r = self._model(transitions, start, rewards)
        mean, second = np.empty(self.count), np.empty(self.count)
        _moments(P, d1, r, check_array("reward_variances", reward_variances, r.shape), *self._members, mean, second)
        second -= mean * mean
        return mean, np.maximum(second, 0.0, out=second)

    def radii(
        self,
        transitions: Floats,
        start: Floats,
        visits: Floats,
        widths: ArrayLike,
        variances: Floats,
        *,
        log_term: float,
        scale: float = 1.0,
        width_scale: float = 1.0,
    ) -> Floats:
        """A confidence radius of every class's value, from the data that its own path met.

        scale (sqrt(2 log_term Var(return) V(1/N)) + log_term V(1/N)) + width_scale V(q/N), with N the visits
        (H, X, A), taken as at least 1, q the widths of the noise in them and ``variances`` those of the returns.
        """
        check_not_negative("log_term", log_term)
        inverse = 1.0 / np.maximum(visits, 1.0)
        spread = self.values(transitions, start, inverse)
        radii = scale * (np.sqrt(2.0 * log_term * variances * spread) + log_term * spread)
        if width_scale > 0:
            radii += width_scale * self.values(transitions, start, np.asarray(widths) * inverse)
        return np.asarray(radii)

    def sink_bias(self, transitions: Floats, start: Floats) -> Floats:
        """At most how much of every class's value a model loses to its sink, with rewards in [0, 1].

        A model that differs from the truth only in sending mass to the sink undervalues a policy by at most the mass
        that it sends there at step h times the H-h rewards still to come.
        """
        lost = np.maximum(1.0 - np.asarray(transitions).sum(axis=-1), 0.0)
        left = np.arange(self.horizon - 1, -1, -1, dtype=np.float64)
        return self.values(transitions, start, lost * left[:, None, None])

    def prefix_occupancies(self, transitions: Floats, start: Floats, step: int) -> Floats:
        """Where every sequence of rules for the steps before ``step`` (0 .. H-1) leads: (n_1 ... n_{step}, X)."""
        P, d1, _ = self._model(transitions, start, None)
        return np.asarray(_prefixes(P, d1, *self._members, self._step(step)))

    def crude(self, transitions: Floats, start: Floats, active: Mask, values: Floats, step: int) -> CrudeArgmax:
        """For every (x, a): the active class that visits (step, x, a) most, the one of highest value among equals.

        The model's rows at ``step`` and later do not matter, so they may still be unknown.
        """
        prefixes = self.prefix_occupancies(transitions, start, step)
        active = self._active(active)
        values = check_array("values", values, (self.count,))
        members, counts = self._members
        shape = (self.states, self.actions)
        out = CrudeArgmax(np.full(shape, -1, dtype=np.int64), np.zeros(shape))
        _crude(prefixes, active, values, members[step, : counts[step]], self.sizes[step], *out)
        return out

    def best(self, values: Floats, active: Mask) -> tuple[int, float]:
        """The active class of highest value, the first among equals, and that value."""
        winner = int(_best(check_array("values", values, (self.count,)), self._active(active)))
        if winner < 0:
            raise InvalidInput("active must keep at least one class; all were eliminated")
        return winner, float(values[winner])

    def atoms(self, transitions: Floats, start: Floats, classes: ArrayLike) -> Atoms:
        """Classes (n,) as atoms of a coverage design."""
        actions = self.decode(np.asarray(classes).ravel())[:, None]
        P, d1, _ = self._model(transitions, start, None)
        return atoms(actions, np.ones(actions.shape[:2]), P, d1)

    def oracle(self, transitions: Floats, start: Floats, active: Mask) -> Oracle:
        """The oracle of a coverage design over the active classes."""

        def best(rewards: Floats) -> Atoms:
            return self.atoms(transitions, start, [self.best(self.values(transitions, start, rewards), active)[0]])

        return best

    @cached_property
    def _members(self) -> tuple[Integers, Integers]:
        """The states of S_h in order, padded to (H, X), and how many there are."""
        return np.argsort(~self.support, axis=1, kind="stable"), self.support.sum(axis=1)

    def _step(self, step: int) -> int:
        if not 0 <= step < self.horizon:
            raise InvalidInput(f"step must lie in 0..{self.horizon - 1}, got {step!r}")
        return int(step)

    def _active(self, active: Mask) -> Mask:
        if active.shape != (self.count,) or active.dtype != np.bool_:
            raise InvalidInput(f"active must be a mask over the {self.count} classes, got shape {active.shape}")
        return active

    def _model(self, transitions: Floats, start: Floats, rewards: Floats | None) -> tuple[Floats, Floats, Floats]:
        H, X, A = self.horizon, self.states, self.actions
        P, d1 = check_model(check_array("transitions", transitions, (H, X, A, X)), start)
        r = np.zeros((H, X, A)) if rewards is None else np.ascontiguousarray(check_array("rewards", rewards, (H, X, A)))
        outside = float(np.abs(d1 * ~self.support[0]).sum())
        outside += float((np.abs(P[:-1]) * self.support[:-1, :, None, None] * ~self.support[1:, None, None, :]).sum())
        if outside > 0:
            raise InvalidInput(f"the model has mass {outside:.3g} outside the public support; set it to zero first")
        return P, d1, r


@kernel
def _expand(constant: float, weights: Floats, children: Floats, out: Floats) -> None:
    """out[f, s] = constant + sum_k weights[k] children[k, digit k of f, s], grown one digit at a time in place."""
    K, A, M = children.shape
    out[:M] = constant
    size = M
    for k in range(K):
        for a in range(A - 1, -1, -1):  # a = 0 overwrites what the others read, so it comes last
            for block in range(0, size, M):
                for s in range(M):
                    out[a * size + block + s] = out[block + s] + weights[k] * children[k, a, s]
        size *= A


@kernel
def _values(
    P: Floats,
    start: Floats,
    r: Floats,
    members: Integers,
    counts: Integers,
    out: Floats,
) -> None:
    H, X, A, _ = P.shape
    Q = np.empty((0, A, 1))
    weights = np.empty(X)
    suffixes = 1
    for h in range(H - 1, -1, -1):
        here = np.empty((counts[h], A, suffixes))
        for k in range(counts[h]):
            x = members[h, k]
            for a in range(A):
                for j in range(Q.shape[0]):
                    weights[j] = P[h, x, a, members[h + 1, j]]
                _expand(r[h, x, a], weights, Q, here[k, a])
        Q = here
        suffixes *= A ** counts[h]
    for k in range(counts[0]):
        weights[k] = start[members[0, k]]
    _expand(0.0, weights, Q, out)


@kernel
def _moments(
    P: Floats,
    start: Floats,
    r: Floats,
    variances: Floats,
    members: Integers,
    counts: Integers,
    mean: Floats,
    second: Floats,
) -> None:
    """As ``_values``, with the second moment E(r + G)^2 = r^2 + Var r + 2 r E G + E G^2 of the return carried along."""
    H, X, A, _ = P.shape
    Q, U = np.empty((0, A, 1)), np.empty((0, A, 1))
    weights = np.empty(X)
    suffixes = 1
    for h in range(H - 1, -1, -1):
        here, square = np.empty((counts[h], A, suffixes)), np.empty((counts[h], A, suffixes))
        for k in range(counts[h]):
            x = members[h, k]
            for a in range(A):
                for j in range(Q.shape[0]):
                    weights[j] = P[h, x, a, members[h + 1, j]]
                reward = r[h, x, a]
                _expand(reward, weights, Q, here[k, a])
                _expand(variances[h, x, a] - reward * reward, weights, U, square[k, a])
                for s in range(suffixes):
                    square[k, a, s] += 2.0 * reward * here[k, a, s]
        Q, U = here, square
        suffixes *= A ** counts[h]
    for k in range(counts[0]):
        weights[k] = start[members[0, k]]
    _expand(0.0, weights, Q, mean)
    _expand(0.0, weights, U, second)


@kernel
def _prefixes(P: Floats, start: Floats, members: Integers, counts: Integers, step: int) -> Floats:
    X, A = P.shape[1], P.shape[2]
    here = start.copy().reshape((1, X))
    for h in range(step):
        n = A ** counts[h]
        there = np.zeros((here.shape[0] * n, X))
        for prefix in range(here.shape[0]):
            first, size = prefix * n, 1
            for k in range(counts[h]):
                x = members[h, k]
                mass = here[prefix, x]
                for a in range(A - 1, -1, -1):
                    for f in range(first, first + size):
                        for y in range(X):
                            there[f + a * size, y] = there[f, y] + mass * P[h, x, a, y]
                size *= A
        here = there
    return here


@kernel
def _crude(
    prefixes: Floats,
    active: Mask,
    values: Floats,
    states: Integers,
    n: int,
    classes: Integers,
    occupancy: Floats,
) -> None:
    """One pass over the prefixes; a prefix that visits a state less than the best known one is passed over."""
    A = classes.shape[1]
    suffixes = active.size // (prefixes.shape[0] * n)
    best = np.full(classes.shape, -np.inf)  # value of the best completion so far
    node = np.empty(n)
    for prefix in range(prefixes.shape[0]):
        ready = False
        stride = 1
        for k in range(states.size):
            x = states[k]
            mass = prefixes[prefix, x]
            wanted = False
            for a in range(A):
                wanted = wanted or classes[x, a] < 0 or mass >= occupancy[x, a] * (1.0 - _TIE)
            if wanted and not ready:
                ready = True
                for f in range(n):
                    node[f] = -np.inf
                    for i in range((prefix * n + f) * suffixes, (prefix * n + f + 1) * suffixes):
                        if active[i] and values[i] > node[f]:
                            node[f] = values[i]
            for f in range(n if wanted else 0):
                a = (f // stride) % A
                better = mass > occupancy[x, a] * (1.0 + _TIE) or node[f] > best[x, a]
                if node[f] > -np.inf and mass >= occupancy[x, a] * (1.0 - _TIE) and better:
                    best[x, a] = node[f]
                    occupancy[x, a] = max(mass, occupancy[x, a])
                    classes[x, a] = prefix * n + f  # the completion is looked up once, below
            stride *= A
    for x in states:
        for a in range(A):
            first = classes[x, a] * suffixes
            for i in range(first, first + suffixes if first >= 0 else first):
                if active[i] and values[i] == best[x, a]:
                    classes[x, a] = i
                    break


@kernel
def _best(values: Floats, active: Mask) -> int:
    winner = -1
    best = -np.inf
    for i in range(values.size):
        if active[i] and values[i] > best:
            winner, best = i, values[i]
    return winner

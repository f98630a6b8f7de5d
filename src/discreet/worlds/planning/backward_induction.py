"""Exact values of policies (backward), the best one, and occupancies (forward) in a known finite-horizon model.

With V_H = 0 and h running from H-1 down to 0,

    Q_h(s, a) = r_h(s, a) + sum_s' P_h(s' | s, a) V_{h+1}(s'),

the best policy takes V_h(s) = max_a Q_h(s, a) (Bellman), and a given policy V_h(s) = sum_a pi_h(a | s) Q_h(s, a).

Arrays: transitions (G, S, A, S) and means (G, S, A), where G is 1 for laws that do not depend on the step and H
otherwise; the two may differ in G. Values are (H + 1, S) with a last row of zeros; actions (H, S); probabilities
(H, S, A). Rows of ``transitions`` need not sum to one: released models may lose or gain mass. ``best_policy`` is for
callers outside of compiled code; the kernels write into the arrays that they are given and allocate nothing, because
simulations call them whenever the policy changes.

**By successor.** Planners on released counts take one backward step for all (state, action) at once. Their transitions
are kept by successor, (S, rows), so that the sum over successors runs over many rows side by side. Steps are slices of
the rows: an index that might be negative would be checked at every access.

**Occupancy measures.** How likely a policy is to be in each state, and to take each action, at each step.

With d_0 the start distribution,

    d_{h+1}(t) = sum_{s, a} d_h(s) pi_h(a | s) P_h(t | s, a),

and the measure of a mixture is the weighted mean of those of its components. Values are linear in it: the value of a
policy is sum_{h, s, a} d_h(s) pi_h(a | s) r_h(s, a) (Puterman, 1994, section 6.9).
"""

from __future__ import annotations

import numpy as np

from discreet.base.compiled import fused, inlined, kernel
from discreet.base.errors import InvalidInput
from discreet.base.policies import AnyPolicy, Mixture, Policy, StochasticPolicy
from discreet.base.streams import Stream, below
from discreet.base.types import ArrayLike, Floats, Integers, Mask
from discreet.base.validation import check_array, check_count


def best_policy(transitions: ArrayLike, rewards: ArrayLike, horizon: int) -> tuple[Policy, Floats]:
    """The best policy of a model (ties: the lowest action), and its values (H + 1, S) from every step on.

    ``transitions`` is (S, A, S) and ``rewards`` (S, A), or one of each per step in front of it.

    >>> policy, values = best_policy([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [[0, 0], [1, 0]], horizon=3)
    >>> policy.actions
    array([[1, 0],
           [1, 0],
           [0, 0]])
    >>> values[0]
    array([2., 3.])
    """
    H = check_count("horizon", horizon)
    P, r = check_array("transitions", transitions), check_array("rewards", rewards)
    P, r = (P if P.ndim == 4 else P[None]), (r if r.ndim == 3 else r[None])
    if P.ndim != 4 or r.ndim != 3 or P.shape[1:] != (*r.shape[1:], r.shape[1]) or not {len(P), len(r)} <= {1, H}:
        raise InvalidInput(
            f"transitions of shape {np.shape(transitions)} and rewards of shape {np.shape(rewards)} are no model: they "
            f"must be (S, A, S) and (S, A), or one of each for all of {H} steps"
        )
    values, actions = np.empty((H + 1, P.shape[1])), np.empty((H, P.shape[1]), np.int64)
    plan(plain_array(P), plain_array(r), H, values, actions)
    return Policy(actions), values


def plain_array(table: Floats) -> Floats:
    """The table, or a copy if it is read-only or not contiguous: numba would compile kernels once more for those."""
    return table if table.flags.writeable and table.flags.c_contiguous else np.array(table, order="C")


@inlined
def group(groups: int, h: int) -> int:
    """Which of ``groups`` models holds at step ``h``: the only one, or the step's own."""
    return h if groups > 1 else 0


@fused
def backup(transitions: Floats, means: Floats, h: int, s: int, a: int, following: Floats) -> float:
    """Q_h(s, a): the mean reward now plus the expected value of what follows."""
    row = transitions[group(transitions.shape[0], h), s, a]
    total = means[group(means.shape[0], h), s, a]
    for t in range(row.shape[0]):
        total += row[t] * following[t]
    return total  # type: ignore[no-any-return]


@kernel
def plan(transitions: Floats, means: Floats, H: int, values: Floats, actions: Integers) -> None:
    """Fill ``values`` with the optimal values and ``actions`` with an optimal policy (ties: the lowest action)."""
    S, A = transitions.shape[1], transitions.shape[2]
    values[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            best, choice = -np.inf, 0
            for a in range(A):
                q = backup(transitions, means, h, s, a, values[h + 1])
                if q > best:
                    best, choice = q, a
            values[h, s] = best
            actions[h, s] = choice


@inlined
def evaluate(transitions: Floats, means: Floats, actions: Integers, values: Floats) -> None:
    """Fill ``values`` with the values of the deterministic policy ``actions``."""
    H, S = actions.shape
    values[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            values[h, s] = backup(transitions, means, h, s, actions[h, s], values[h + 1])


@kernel
def evaluate_stochastic(transitions: Floats, means: Floats, probabilities: Floats, values: Floats) -> None:
    """Fill ``values`` with the values of the policy that draws actions from ``probabilities``."""
    H, S, A = probabilities.shape
    values[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            total = 0.0
            for a in range(A):
                if probabilities[h, s, a] > 0.0:
                    total += probabilities[h, s, a] * backup(transitions, means, h, s, a, values[h + 1])
            values[h, s] = total


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


@fused
def spread_over_successors(
    weights: Floats,
    here: slice,
    inverse: Floats,
    following: Floats,
    mean: Floats,
    spread: Floats,
    deviation: Floats,
) -> None:
    """From sums of w V in ``mean`` to the means E, and the sums of squares around them, two successors at a time.

    With w the ``weights[:, here]`` and ``inverse`` one over their sums, ``spread`` gets the sums of w (V - E)^2 and
    ``deviation`` those of (V - E)^2 over w > 0.
    Around E, and not the difference of E V^2 and (E V)^2, of which a variance near zero would keep half of the digits.
    """
    padded = mean.shape[0]
    S = following.shape[0]
    opening = 2 - S % 2
    one, x = weights[0, here], following[0]
    if opening == 1:
        for i in range(padded):
            mean[i] *= inverse[i]
            first = (x - mean[i]) ** 2
            spread[i] = one[i] * first
            deviation[i] = first if one[i] > 0.0 else 0.0
    else:
        two, y = weights[1, here], following[1]
        for i in range(padded):
            mean[i] *= inverse[i]
            first, second = (x - mean[i]) ** 2, (y - mean[i]) ** 2
            spread[i] = one[i] * first + two[i] * second
            deviation[i] = (first if one[i] > 0.0 else 0.0) + (second if two[i] > 0.0 else 0.0)
    for t in range(opening, S, 2):
        one, x = weights[t, here], following[t]
        two, y = weights[t + 1, here], following[t + 1]
        for i in range(padded):
            first, second = (x - mean[i]) ** 2, (y - mean[i]) ** 2
            spread[i] += one[i] * first + two[i] * second
            deviation[i] += (first if one[i] > 0.0 else 0.0) + (second if two[i] > 0.0 else 0.0)


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


@kernel
def forward(transitions: Floats, start: Floats, actions: Integers, states: Floats) -> None:
    """Fill ``states`` (H, S) with the state occupancies of the deterministic policy ``actions``."""
    H, S = actions.shape
    states[0] = start
    for h in range(H - 1):
        states[h + 1] = 0.0
        g = group(transitions.shape[0], h)
        for s in range(S):
            if states[h, s] > 0.0:
                for t in range(S):
                    states[h + 1, t] += states[h, s] * transitions[g, s, actions[h, s], t]


@kernel
def forward_stochastic(transitions: Floats, start: Floats, probabilities: Floats, states: Floats) -> None:
    """Fill ``states`` (H, S) with the state occupancies of the policy that draws from ``probabilities``."""
    H, S, A = probabilities.shape
    states[0] = start
    for h in range(H - 1):
        states[h + 1] = 0.0
        g = group(transitions.shape[0], h)
        for s in range(S):
            for a in range(A):
                mass = states[h, s] * probabilities[h, s, a]
                if mass > 0.0:
                    for t in range(S):
                        states[h + 1, t] += mass * transitions[g, s, a, t]


def state_occupancy(transitions: Floats, start: Floats, policy: AnyPolicy) -> Floats:
    """The probability of every state at every step, (H, S)."""
    match policy:
        case Policy(actions):
            _check(transitions, policy.horizon, policy.states, int(actions.max()) + 1)
            states = np.empty(actions.shape)
            forward(plain_array(transitions), plain_array(start), np.array(actions), states)
            return states
        case StochasticPolicy(probabilities):
            _check(transitions, *probabilities.shape)
            states = np.empty(probabilities.shape[:2])
            forward_stochastic(plain_array(transitions), plain_array(start), np.array(probabilities), states)
            return states
        case Mixture(components, weights):
            parts = [state_occupancy(transitions, start, component) for component in components]
            return np.tensordot(weights, np.stack(parts), axes=1)


def occupancy(transitions: Floats, start: Floats, policy: AnyPolicy) -> Floats:
    """The probability of every state and action at every step, (H, S, A)."""
    match policy:
        case Policy():
            table = policy.stochastic(transitions.shape[2]).probabilities
            return state_occupancy(transitions, start, policy)[:, :, None] * table
        case StochasticPolicy(probabilities):
            return state_occupancy(transitions, start, policy)[:, :, None] * probabilities
        case Mixture(components, weights):
            parts = [occupancy(transitions, start, component) for component in components]
            return np.tensordot(weights, np.stack(parts), axes=1)


def reachable(transitions: Floats, start: Floats, horizon: int) -> Mask:
    """Which states and actions some policy can visit at each step, (H, S, A): all actions of the states in reach."""
    check_count("horizon", horizon)
    G, S, A, _ = transitions.shape
    _check(transitions, horizon, S, A)
    mask = np.zeros((horizon, S), dtype=np.bool_)
    mask[0] = np.asarray(start) > 0
    for h in range(horizon - 1):
        mask[h + 1] = (transitions[h if G > 1 else 0][mask[h]] > 0).any(axis=(0, 1))
    return np.repeat(mask[:, :, None], A, axis=2)


def _check(transitions: Floats, horizon: int, states: int, actions: int) -> None:
    G, S, A, _ = transitions.shape
    if G not in (1, horizon) or states != S or actions > A:
        raise InvalidInput(
            f"a policy for {horizon} steps, {states} states and at least {actions} actions does not fit transitions of "
            f"shape {transitions.shape}"
        )

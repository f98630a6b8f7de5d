r"""What one user adds: a doubly robust sum of her own trajectory, for the policy and for the difference, bracketed.

For a policy pi, the behaviour mu, values Q-, V- and weights w of a released model, a user whose record has states s_h,
actions a_h and rewards r_h until it ends contributes to the lower end of the policy's value

    X- = V-_0(s_0) + sum over shown rows h of w_h [r_h + V-_{h+1}(s_{h+1}) - Q-_h(s_h, a_h)]
       + min(c, sum over rows h that are not shown of v_h [r_h + V-_{h+1}(s_{h+1}) - worst_h]),

    v_h = (pi / mu)_h times the weight of her row before: w_{h-1} if it was shown, else v_{h-1}; 1 before the first,

and to that of the difference to the behaviour

    D- = V-_0(s_0) - U_0(s_0) + sum over shown rows of [w_h (r_h + V-_{h+1} - Q-_h) - (r_h + U_{h+1} - Q-_h)]
       + min(c, the same sum over rows that are not shown, v_h for w_h),          U_h(s) = sum_a mu(a | s) Q-_h(s, a).

The upper ends have Q+, V+ and best_h, and the last sums have the opposite sign. After a record ends everything is 0.

**Why.** For any V, the value of pi is E V_0(s_0) plus the sum over all rows of (how often pi is there) times (r + P V -
Q there): it telescopes. Rows that are not shown have Q- = worst_h. Weights turn averages over pi's paths into averages
over mu's users. So if the weights are exact, E X- is the value of pi *whatever* Q- and V- are, and if Q- is exact in
shown rows, whatever w is: the error is a product of two errors, of rows before h (w) and rows from h on (Q-), which
separate tables per step estimate from separate counts. Terms of rows that are not shown are never negative, because
nothing is worse than the worst; their sum is cut at c, and cutting can only lower it: the lower end stays valid. Where
no row is shown at all this is per-decision importance sampling, cut, with no model behind it.

What D takes away is the behaviour's own doubly robust sum, with weights of 1, which are exact: its mean is what mu is
worth *whatever* Q- is. One Q for both, the same record, the same cut of the difference: where pi is mu every weight is
1 and V is U, so **D is 0 for every user**, whatever is missing in her record. With a Q of its own for each, or with her
return in place of that sum, it would not be.

**A behaviour that is not declared** is read from the table, mu^, whose weights d_pi / d_mu^ are in error as Q is: X
stays exact to a product of errors, and redrawn tables read their own mu^. Rows that are not shown have no ratio that
could be trusted, and add nothing (0 is no more than what is left out of the lower end). D- is X- less her own return:
users tell what their behaviour is worth without a model. Where pi is what they do and mu^ is near, w is 1 and D is the
sum of V_h(s_h) - Q_h(s_h, a_h): a martingale *whatever* Q is, so its mean is 0 to a product of two errors.

Users without a first row are not judged: they add 0. Rows behind a gap (rule ``row`` alone) leave their terms out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers, Mask
from discreet.tables.evaluation.released_model import Model, Values, writable
from discreet.tables.evaluation.return_bounds import Limits
from discreet.tables.read.user_subsets import Paths


class Terms(NamedTuple):
    """What is needed to turn a trajectory into a contribution: public, a function of releases and declarations."""

    model: Model
    policy: Floats  # (H, S, A)
    behaviour: Floats  # (H, S, A)
    weights: Floats  # (H, S, A)
    lower: Values
    upper: Values
    limits: Limits
    largest: float  # c: what rows that are not shown may add
    declared: bool = True  # whether the behaviour is known, and not read from the model


class Contributions(NamedTuple):
    """What users add to both ends of the value and of the difference, and their own returns; 0 if not judged."""

    lower: Floats
    upper: Floats
    less: Floats  # lower end of the difference
    more: Floats
    returns: Floats
    judged: Mask

    def __repr__(self) -> str:
        return f"<Contributions of {len(self.returns)} users, contents not shown>"


def judged_users(paths: Paths) -> Mask:
    """Who has a first row."""
    found: Mask = np.bincount(paths.user[paths.step == 0], minlength=paths.users) > 0
    return found


def returns_of(paths: Paths, shape: Shape, limits: Limits) -> Floats:
    """The sum of rewards of every user, within the declared limits; 0 for users who are not judged."""
    rewards = shape.rewards[0] + shape.reward_span * paths.reward
    total = np.bincount(paths.user, rewards, minlength=paths.users)
    return np.where(judged_users(paths), np.clip(total, limits.worst[0], limits.best[0]), 0.0)


def contributions(paths: Paths, shape: Shape, terms: Terms) -> Contributions:
    """What every user adds to both ends, and her return."""
    rewards = shape.rewards[0] + shape.reward_span * paths.reward
    known = (terms.behaviour > 0) & terms.declared
    ratio = np.divide(terms.policy, terms.behaviour, out=np.zeros(terms.policy.shape), where=known)
    ends = []
    for values, sign in ((terms.lower, 1.0), (terms.upper, -1.0)):
        usual = np.zeros_like(values.v)
        _average_over(writable(terms.behaviour), values.q, usual)
        own, difference = np.empty(paths.users), np.empty(paths.users)
        _add_up(
            paths.user, paths.step, paths.state, paths.action, paths.successor, rewards, writable(terms.model.shown),
            ratio, writable(terms.weights), values.q, values.v, usual, sign, terms.largest,
            terms.limits.ends, own, difference,
        )  # fmt: skip
        ends.append((own, difference))
    (lower, less), (upper, more) = ends
    returns = returns_of(paths, shape, terms.limits)
    if not terms.declared:
        less, more = lower - returns, upper - returns
    return Contributions(lower, upper, less, more, returns, judged_users(paths))


@kernel
def _average_over(policy: Floats, q: Floats, out: Floats) -> None:
    """U (zeros before), added up in the order in which the policy's own values are."""
    H, S, A = q.shape
    for h in range(H):
        for s in range(S):
            for a in range(A):
                out[h, s] += policy[h, s, a] * q[h, s, a]


@kernel
def _add_up(
    user: Integers, step: Integers, state: Integers, action: Integers, successor: Integers, reward: Floats,
    shown: Mask, ratio: Floats, weights: Floats, q: Floats, v: Floats, usual: Floats, sign: float, largest: float,
    ends: bool, out: Floats, differences: Floats,
) -> None:  # fmt: skip
    """One end's contributions of every user; her rows stand together, in any order of steps."""
    H, S, _ = q.shape
    row_of = np.full(H, -1)
    first = 0
    for i in range(len(out)):
        row_of[:] = -1
        while first < len(user) and user[first] == i:
            row_of[step[first]] = first
            first += 1
        out[i] = differences[i] = 0.0
        if row_of[0] < 0:
            continue
        begin = state[row_of[0]]
        total, difference = v[0, begin], v[0, begin] - usual[0, begin]
        hidden, hidden_difference, before = 0.0, 0.0, 1.0
        for h in range(H):
            row = row_of[h]
            if row < 0:
                before = 0.0  # what follows a gap in a row that is not shown is left out
                continue
            s, a, following = state[row], action[row], successor[row]
            seen = shown[h, s, a]
            weight = weights[h, s, a] if seen else before * ratio[h, s, a]
            before = weight
            if h < H - 1 and following == S and not ends:
                continue  # rule row: a row without a next one says nothing where episodes do not end
            surprise = weight * (reward[row] + v[h + 1, following] - q[h, s, a])  # an end is worth 0, in v and usual
            apart = surprise - (reward[row] + usual[h + 1, following] - q[h, s, a])
            if seen:
                total += surprise
                difference += apart
            else:  # never negative: what follows is no worse than the worst (no better than the best)
                hidden += max(sign * surprise, 0.0)
                hidden_difference += sign * apart
        out[i] = total + sign * min(hidden, largest)
        differences[i] = difference + sign * min(hidden_difference, largest)

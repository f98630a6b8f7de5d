r"""What one user adds to the ends of the interval: a doubly robust sum of her own trajectory, with a bracket.

For a policy pi, a declared behaviour mu, values Q-, V- and weights w of a released model, a user with states s_h,
actions a_h and rewards r_h contributes to the lower end

    X- = V-_0(s_0) + sum over shown rows h of w_h [r_h + V-_{h+1}(s_{h+1}) - Q-_h(s_h, a_h)]
       + min(c, sum over rows h that are not shown of v_h [r_h + V-_{h+1}(s_{h+1}) - worst_h]),

    v_h = (pi / mu)_h times the weight of her row before: w_{h-1} if it was shown, else v_{h-1}; 1 before the first.

The upper end has Q+, V+ and best_h, and the last sum has the opposite sign.

**Why.** For any V, the value of pi is E V_0(s_0) plus the sum over all rows of (how often pi is there) times (r + P V -
Q there): it telescopes. Rows that are not shown have Q- = worst_h. Weights turn averages over pi's paths into averages
over mu's users. So if the weights are exact, E X- is the value of pi *whatever* Q- and V- are, and if Q- is exact in
shown rows, whatever w is: the error is a product of two errors, of rows before h (w) and rows from h on (Q-), which
separate tables per step estimate from separate counts. Terms of rows that are not shown are never negative, because
nothing is worse than the worst; their sum is cut at c, and cutting can only lower it: the lower end stays valid. Where
no row is shown at all this is per-decision importance sampling, cut, with no model behind it.

Rows that were dropped (gaps) leave their terms out, and what follows a gap in a row that is not shown does, too. A user
without a first row has the model's average for V_0.
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


class Contributions(NamedTuple):
    """The contributions of users: to the lower and the upper end, and their own returns."""

    lower: Floats
    upper: Floats
    returns: Floats

    def __repr__(self) -> str:
        return f"<Contributions of {len(self.returns)} users, contents not shown>"


def returns_of(paths: Paths, shape: Shape, limits: Limits) -> Floats:
    """The sum of rewards of every user, within the declared limits; 0 for users without a valid row."""
    rewards = shape.rewards[0] + shape.reward_span * paths.reward
    total = np.bincount(paths.user, rewards, minlength=paths.users)
    seen = np.bincount(paths.user, minlength=paths.users) > 0
    return np.where(seen, np.clip(total, limits.worst[0], limits.best[0]), 0.0)


def contributions(paths: Paths, shape: Shape, terms: Terms) -> Contributions:
    """What every user adds to both ends, and her return."""
    model, limits = terms.model, terms.limits
    rewards = shape.rewards[0] + shape.reward_span * paths.reward
    ratio = np.divide(terms.policy, terms.behaviour, out=np.zeros(terms.policy.shape), where=terms.behaviour > 0)
    ends = []
    for values, sign in ((terms.lower, 1.0), (terms.upper, -1.0)):
        average = float(model.start @ values.v[0, : shape.states])
        own = np.empty(paths.users)
        _add_up(
            paths.user, paths.step, paths.state, paths.action, paths.successor, rewards, writable(model.shown), ratio,
            writable(terms.weights), values.q, values.v, average, sign, terms.largest, limits.ends, own,
        )  # fmt: skip
        ends.append(own)
    return Contributions(ends[0], ends[1], returns_of(paths, shape, limits))


@kernel
def _add_up(
    user: Integers, step: Integers, state: Integers, action: Integers, successor: Integers, reward: Floats,
    shown: Mask, ratio: Floats, weights: Floats, q: Floats, v: Floats, average: float, sign: float, largest: float,
    ends: bool, out: Floats,
) -> None:  # fmt: skip
    """One end's contribution of every user; her rows stand together, in any order of steps."""
    H, S, _ = q.shape
    row_of = np.full(H, -1)
    first = 0
    for i in range(len(out)):
        row_of[:] = -1
        while first < len(user) and user[first] == i:
            row_of[step[first]] = first
            first += 1
        total = v[0, state[row_of[0]]] if row_of[0] >= 0 else average
        hidden, before = 0.0, 1.0
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
                continue  # a row without a next one says nothing if episodes do not end
            later = v[h + 1, following] if h < H - 1 else 0.0
            surprise = weight * (reward[row] + later - q[h, s, a])
            if seen:
                total += surprise
            else:  # never negative: what follows is no worse than the worst (no better than the best)
                hidden += max(sign * surprise, 0.0)
        out[i] = total + sign * min(hidden, largest)

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

from discreet.data.parts import Paths
from discreet.evaluation.limits import Limits
from discreet.evaluation.model import Model, Values
from discreet.shape import Shape
from discreet.types import Floats, Integers, Mask

_AT_ONCE = 2**16  # users: their tables of all steps fit in memory


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
    """What every user adds to both ends, and her return; some users at a time."""
    ends = np.empty((2, paths.users))
    for first in range(0, paths.users, _AT_ONCE):
        last = min(first + _AT_ONCE, paths.users)
        begin, end = np.searchsorted(paths.user, [first, last])
        own = slice(begin, end)
        some = Paths(
            last - first, paths.user[own] - first, paths.step[own], paths.state[own], paths.action[own],
            paths.successor[own], paths.reward[own],
        )  # fmt: skip
        grid = _by_step(some, shape)
        for upper in (False, True):
            ends[int(upper), first:last] = _end(grid, terms, upper=upper)
    return Contributions(ends[0], ends[1], returns_of(paths, shape, terms.limits))


class _Grid(NamedTuple):
    """Trajectories as tables (users, H); rows that are not there are marked."""

    there: Mask
    state: Integers
    action: Integers
    successor: Integers
    reward: Floats


def _by_step(paths: Paths, shape: Shape) -> _Grid:
    size = (paths.users, shape.horizon)
    state, action, successor = (np.zeros(size, np.int64) for _ in range(3))
    grid = _Grid(np.zeros(size, np.bool_), state, action, successor, np.zeros(size))
    where = paths.user, paths.step
    grid.there[where] = True
    grid.state[where], grid.action[where], grid.successor[where] = paths.state, paths.action, paths.successor
    grid.reward[where] = shape.rewards[0] + shape.reward_span * paths.reward
    return grid


def _end(grid: _Grid, terms: Terms, *, upper: bool) -> Floats:
    model, limits, values = terms.model, terms.limits, terms.upper if upper else terms.lower
    users, H = grid.there.shape
    S, sign = len(model.start), -1.0 if upper else 1.0
    at_start = values.v[0, :S]
    total = np.where(grid.there[:, 0], at_start[grid.state[:, 0]], float(model.start @ at_start))
    hidden, before = np.zeros(users), np.ones(users)
    for h in range(H):
        there, s, a = grid.there[:, h], grid.state[:, h], grid.action[:, h]
        shown = model.shown[h][s, a]
        mu, pi = terms.behaviour[h, s, a], terms.policy[h, s, a]
        ratio = np.divide(pi, mu, out=np.zeros(users), where=mu > 0)
        weight = np.where(shown, terms.weights[h, s, a], before * ratio)
        following = values.v[h + 1][grid.successor[:, h]] if h < H - 1 else 0.0
        surprise = weight * (grid.reward[:, h] + following - values.q[h, s, a])
        if not limits.ends and h < H - 1:  # a row without a next one says nothing if episodes do not end
            there = there & (grid.successor[:, h] < S)
        total += np.where(there & shown, surprise, 0.0)
        # Never negative: what follows is no worse than the worst (no better than the best).
        hidden += np.where(there & ~shown, np.maximum(sign * surprise, 0.0), 0.0)
        before = np.where(grid.there[:, h], weight, 0.0)
    return total + sign * np.minimum(hidden, terms.largest)

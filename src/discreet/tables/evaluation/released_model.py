r"""The world as a release shows it: rows that are shown, signed and repaired successors, occupancies and values.

A row (h, s, a) has N noisy visits, of which n(s') led to s' (one of the successors is "the episode ended"). It is
*shown* if N > max(3 sd(N), 5), where sd(N) is the deviation of the noise in N. Two estimates of where a row leads:

* *signed*: n(s') / N, with negative entries left as they are. Its error has mean zero, which values need: rows that
  are repaired give mass to successors that never occur, and intervals around their values do not cover.
* *repaired*: projected on the simplex, a world that could be. Occupancies are computed and users simulated in it.

Values of a policy, backwards from V_H = 0, with limits worst_h and best_h on what is left of an episode:

    Q-_h(s, a) = r + P V-_{h+1} in shown rows and worst_h in the others,   V-_h(s) = sum_a pi(a | s) Q-_h(s, a),

and Q+, V+ with best_h. V- and V+ bracket the value in the estimated world whatever the rows that are not shown hold.

The weight of a shown row is w = d_pi / d_mu, with occupancies of policy and behaviour in the repaired world. Rows of a
weight above 50 count as not shown: too few users come by there for those who do to speak for the policy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.mechanisms.release import Release
from discreet.tables.evaluation.return_bounds import Limits
from discreet.worlds.planning.count_projection import project_counts

LARGEST_WEIGHT = 50.0
_FEWEST = 5.0  # visits of a row that is shown, with noise or without
_DEVIATIONS = 3.0


class Model(NamedTuple):
    """What a release says about the world, rows over (group, state, action); successor S is "the episode ended"."""

    visits: Floats  # (G, S, A), noisy
    visit_variance: Floats  # of the noise in them
    cell_variance: float  # of the noise in one count of a successor
    signed: Floats  # (G, S, A, S + 1)
    repaired: Floats  # (G, S, A, S + 1)
    rewards: Floats  # (G, S, A) mean rewards in the owner's units, within their range
    signed_rewards: Floats  # (G, S, A) the same as the noise left them
    reward_variance: Floats  # of the noise in sums of rewards, as shares
    shown: Mask  # (H, S, A)
    start: Floats  # (S,) repaired
    users: int  # whose record begins, as far as is known
    horizon: int

    def at(self, h: int) -> int:
        """The group of step h."""
        return h if len(self.visits) > 1 else 0


class Values(NamedTuple):
    """Q (H, S, A) and V (H + 1, S + 1) of a policy, with rows that are not shown at one of their limits."""

    q: Floats
    v: Floats


def has_table(release: Release) -> bool:
    """Whether a release has the dense table of successors that a model is made of."""
    return {"transitions", "visits"} <= set(release.statistics) and "threshold" not in release.statistics


def with_rewards(release: Release, known: Floats) -> Release:
    """A release with declared mean rewards beside it."""
    return replace(release, public={**release.public, "rewards": known})


def model_of(shape: Shape, release: Release, ends: bool, users: int, start: Floats | None = None) -> Model:
    """The model of a release of ``users`` users; pooled tables need shares (S,) of first states as well."""
    rows = (shape.groups, shape.states, shape.actions)
    noisy = release["transitions"].values.reshape(*rows, shape.states)
    visits = release["visits"].values.reshape(rows)
    variance = np.broadcast_to(release["visits"].variance, rows)
    single = float(np.max(release["transitions"].variance, initial=0.0))
    if "rewards" in release.statistics:
        shares = release["rewards"].values.reshape(rows)
        noise = np.broadcast_to(release["rewards"].variance, rows)
    else:
        shares = np.broadcast_to(np.reshape(release.public["rewards"], (-1, *rows[1:])), rows) * np.maximum(visits, 0.0)
        noise = np.zeros(rows)
    gone = visits - noisy.sum(axis=3)
    if shape.groups > 1 or shape.horizon == 1:
        gone[-1] = visits[-1]  # after the last step everybody is gone
    return _model(shape, noisy, gone, visits, variance, single, shares, noise, ends, users, start)


def _model(
    shape: Shape, noisy: Floats, gone: Floats, visits: Floats, variance: Floats, single: float, shares: Floats,
    noise: Floats, ends: bool, users: int, start: Floats | None,
) -> Model:  # fmt: skip
    counts = np.concatenate([noisy, gone[..., None]], axis=3)
    if start is None:
        start = visits[0].sum(axis=1) / users
    judged = float(start.sum())  # the share of users whose record begins
    if judged > 0:
        start, users = start / judged, max(1, round(users * judged))
    blank = np.zeros_like(visits)
    model = Model(
        visits, variance, single, counts, counts, blank, blank, noise, blank > 0, distribution(start), users,
        shape.horizon,
    )  # fmt: skip
    return refit(model, shape, counts, visits, shares, ends)


def refit(model: Model, shape: Shape, counts: Floats, visits: Floats, shares: Floats, ends: bool) -> Model:
    """The model of other counts that carry the same noise: successors (G, S, A, S + 1), visits and sums of rewards.

    Several tables at once stand along one more axis, the first, in counts and in the model.
    """
    if not ends and shape.horizon > 1:  # whoever has no next row was not seen to go anywhere
        counts = counts.copy()
        counts[..., : shape.groups - 1 if shape.groups > 1 else 1, :, :, -1] = 0.0
    total = counts.sum(axis=-1)
    low, span, share = shape.rewards[0], shape.reward_span, shares / np.maximum(visits, 0.5)
    shown = visits > np.maximum(_DEVIATIONS * np.sqrt(model.visit_variance), _FEWEST)
    return model._replace(
        visits=visits,
        signed=counts / np.maximum(total, 0.5)[..., None],
        repaired=repaired(counts),
        rewards=low + span * np.clip(share, 0.0, 1.0),
        signed_rewards=low + span * share,
        shown=np.broadcast_to(shown & (total > 0), (*visits.shape[:-3], shape.horizon, *visits.shape[-2:])),
    )


def repaired(counts: Floats) -> Floats:
    """Rows of counts (last axis) as distributions: projected on the simplex; rows without visits are spread evenly."""
    total = np.maximum(counts.sum(axis=-1), 0.0)
    rows = project_counts(counts, total, 0.0)
    sums = rows.sum(axis=-1, keepdims=True)
    even = np.full(counts.shape, 1.0 / counts.shape[-1])
    return np.where(sums > 1e-9, rows / np.maximum(sums, 1e-9), even)


def distribution(counts: Floats) -> Floats:
    """Noisy counts as a distribution."""
    shares: Floats = repaired(counts[None])[0]
    return shares


def nothing_shown(shape: Shape, users: int) -> Model:
    """A model without a table: no row is shown, and everything rests on the users who are judged by."""
    S = shape.states
    rows = (shape.groups, S, shape.actions)
    zero: Floats = np.broadcast_to(0.0, rows)
    even: Floats = np.broadcast_to(1.0 / (S + 1), (*rows, S + 1))
    start, low = np.full(S, 1.0 / S), np.broadcast_to(shape.rewards[0], rows)
    hidden = np.zeros((shape.horizon, S, shape.actions), np.bool_)
    return Model(zero, zero, 0.0, even, even, low, low, zero, hidden, start, users, shape.horizon)


def seen_behaviour(model: Model) -> Floats:
    """The behaviour (H, S, A) that a table of every step shows: shares of actions."""
    shares = repaired(model.visits)
    return np.broadcast_to(shares, (model.horizon, *shares.shape[1:]))


def values_of(model: Model, policy: Floats, limits: Limits, *, upper: bool, signed: bool = True) -> Values:
    """Values of a policy (H, S, A) within limits; rows not shown are worth the worst that is left, or the best."""
    H, S, A = policy.shape
    q, v = np.empty((H, S, A)), np.zeros((H + 1, S + 1))
    unknown = limits.best if upper else limits.worst
    rows, rewards = (model.signed, model.signed_rewards) if signed else (model.repaired, model.rewards)
    if model.shown.any():
        _backwards(
            writable(policy), writable(model.shown), writable(rows), writable(rewards), unknown, limits.worst,
            limits.best, q, v,
        )  # fmt: skip
    else:
        q[:], v[:H, :S] = unknown[:H, None, None], unknown[:H, None]
    return Values(q, v)


@kernel
def _backwards(
    policy: Floats, shown: Mask, rows: Floats, rewards: Floats, unknown: Floats, worst: Floats, best: Floats,
    q: Floats, v: Floats,
) -> None:  # fmt: skip
    """Fill Q and V (zeros before) from the last step on."""
    H, S, A = policy.shape
    for h in range(H - 1, -1, -1):
        g = h if len(rows) > 1 else 0
        for s in range(S):
            for a in range(A):
                mean = unknown[h]
                if shown[h, s, a]:
                    mean = rewards[g, s, a]
                    # The successor "ended" (the last one) is worth 0; after the last step everything is.
                    if h < H - 1:
                        for t in range(S):
                            mean += rows[g, s, a, t] * v[h + 1, t]
                    mean = min(max(mean, worst[h]), best[h])
                q[h, s, a] = mean
                v[h, s] += policy[h, s, a] * mean


def occupancies(model: Model, policy: Floats, *, shown_only: bool) -> Floats:
    """How likely every row is (H, S, A) in the repaired world; with ``shown_only`` along shown rows alone."""
    out = np.zeros(policy.shape)
    _forwards(writable(policy), model.start, writable(model.repaired), writable(model.shown), shown_only, out)
    return out


@kernel
def _forwards(policy: Floats, start: Floats, rows: Floats, shown: Mask, shown_only: bool, out: Floats) -> None:
    """Fill occupancies (zeros before) from the first step on."""
    H, S, A = policy.shape
    at = start.copy()
    for h in range(H):
        g = h if len(rows) > 1 else 0
        following = np.zeros(S)
        for s in range(S):
            for a in range(A):
                if at[s] != 0.0 and (shown[h, s, a] or not shown_only):
                    mass = at[s] * policy[h, s, a]
                    out[h, s, a] = mass
                    for t in range(S):
                        following[t] += mass * rows[g, s, a, t]
        at = following


def writable(array: Any) -> Any:
    """The array as compiled code takes it: in one piece, and of one type whether anybody may write to it or not."""
    if array.flags.c_contiguous and array.flags.writeable:
        return array
    return np.require(array, requirements=("C", "W"))


def weights_of(model: Model, policy: Floats, behaviour: Floats) -> tuple[Model, Floats]:
    """w (H, S, A), and the model in which rows of too large a weight count as not shown.

    A weight that was cut off would correct the model less than it must, on either side. A row that is not shown is
    bracketed instead.
    """
    through = occupancies(model, policy, shown_only=False)
    there = occupancies(model, behaviour, shown_only=False)
    ratio = np.divide(through, there, out=np.zeros_like(through), where=there > 0)
    within = (ratio <= LARGEST_WEIGHT) & ((there > 0) | (through == 0))
    return model._replace(shown=model.shown & within), np.minimum(ratio, LARGEST_WEIGHT)

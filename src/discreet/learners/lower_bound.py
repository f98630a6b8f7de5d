r"""What a policy is worth at least: a lower bound from one release of counts, for any policy, however it was found.

Backwards from B_{H+1} = 0, for the policy pi that is judged,

    B(s) = sum_a pi(a | s) (max(r - w_r, 0) + max(P B - Gamma, min B)),    clipped to what is possible,
    Gamma = R / 2 sqrt(2 (ln(2^k - 2) + ln(G S A / d')) / m) + k E R / n,

with r, P, the counts n and the bounds w_r, E and m = n - W of :mod:`discreet.learners.apvi` (k successors, G
tables of S states and A actions, R = max B - min B). A row with m <= 0 is worth min B, which is always true.

**Why it holds.** Given who was counted in a row, where they went are independent draws of its law: by Weissman et al.
(2003) the frequencies are within sqrt(2 (ln(2^k - 2) + ln(1 / p)) / N) of the law in L1 but for a probability p. An L1
distance bounds the error of the mean of *every* vector of range R by R / 2 times as much. So B may depend on the same
counts, and so may pi: neither steps that were pooled (a user's first visits) nor a policy that was chosen by looking at
all tables break it. The price against a bound for one fixed vector is a factor of about sqrt(k). Noise enters by exact
quantiles, for all rows at once: half of the failure probability is for the noise and a quarter, d', each for
successors and rewards. By induction B is at most the value of pi wherever no bound fails.

**Formal guarantees.** With probability 1 - failure_probability over users and noise, B(h, s) is at most the value of pi
from step h in state s, for all h and s at once, if users are independent and what happens next depends on state and
action (and on the step, where tables are separate) alone. ``average`` adds the error of the released first states. Not
for sparse releases, nor for pooled tables of every visit, whose draws depend on each other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.learners.apvi import APVI, Model, count_cells, estimate_model
from discreet.learners.evidence import limits_at
from discreet.mechanisms.release import Release
from discreet.worlds.planning.reward_units import end_value

_FOR_FIRST_STATES = 0.1  # of the failure probability


class LowerBound(NamedTuple):
    """Bounds by step and state (H + 1, S), and one for the average first state where first states were released."""

    values: Floats
    average: float | None


def lower_bound(
    shape: Shape, release: Release, policy: Floats, *, ends: bool, failure_probability: float, repair: str = "auto"
) -> LowerBound:
    """What a policy (H, S, A) is worth at least, in shares of the declared range, from a dense release."""
    counted = (1 - _FOR_FIRST_STATES) * failure_probability
    learner = APVI(repair=repair, ends=ends, failure_probability=counted)
    model = estimate_model(learner, shape, release)
    values = np.zeros((shape.horizon + 1, shape.states))
    for h in range(shape.horizon - 1, -1, -1):
        worth = _rows(shape, model, h, values[h + 1], counted / 4)
        low, high = limits_at(shape, release, h, ends)
        values[h] = np.clip((policy[h] * worth).sum(axis=1), low, high)
    worst = limits_at(shape, release, 0, ends)[0]
    average = _average(shape, release, values[0], worst, _FOR_FIRST_STATES * failure_probability)
    return LowerBound(values, average)


def _rows(shape: Shape, model: Model, h: int, following: Floats, failure_probability: float) -> Floats:
    """What every action is worth at least, (S, A), if its successors are worth ``following`` at least."""
    g, left = h if shape.groups > 1 else 0, shape.horizon - h
    P = model.probabilities[g]
    V = np.append(following, end_value(shape, left - 1))[: P.shape[1]]
    n, k, span = model.counts[g], P.shape[1], float(V.max() - V.min())
    m = n - model.sum_width[g]
    known = (m > 0) & (n > 0)
    m, n = np.where(known, m, 1.0), np.where(known, n, 1.0)
    rows = shape.groups * shape.states * shape.actions
    # ln(2^k - 2), without overflow; a row with one successor has no error.
    sides = k * math.log(2) + math.log1p(-(2.0 ** (1 - k))) if k > 1 else 0.0
    sampling = span / 2 * np.sqrt(2 * (sides + math.log(rows / failure_probability)) / m)
    gamma = sampling + k * model.cell_error[g] * span / n
    reward = np.maximum(model.rewards[g] - model.reward_width[g], 0.0)
    worth = reward + np.where(known, np.maximum(P @ V - gamma, V.min()), V.min())
    return np.asarray(worth).reshape(shape.states, shape.actions)


def _average(shape: Shape, release: Release, values: Floats, worst: float, failure_probability: float) -> float | None:
    """A bound for the average first state: shares that are certain, and the worst for the rest."""
    if shape.start is not None:
        return float(values[shape.start])
    if shape.groups == 1 and shape.horizon > 1:
        return None
    each = failure_probability / (2 * shape.states)
    cells = int(count_cells(shape, release).visit[0].max()) * shape.actions
    width = float(np.max(release.width(cells, each)))
    visits = release["visits"].values.reshape(shape.groups, shape.states, shape.actions)[0].sum(axis=1)
    share = (visits - width) / release.users - math.sqrt(math.log(1 / each) / (2 * release.users))
    certain = np.maximum(share, 0.0)
    return float(worst + (certain * (values - worst)).sum())

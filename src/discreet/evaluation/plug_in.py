r"""A policy judged by a table of held-out users, where nobody says which policy they followed.

The value of the policy is computed in the model of a released table, with signed rows, so that noise has mean zero in
it, and with rows that are not shown at their worst for the lower end and at their best for the upper end:

    value- = v + sum_s start(s) (V-_0(s) - v),        value+ with V+,

start being the noisy counts of first states over the number of users, and v the mean of V-_0 in the repaired ones.

No weights are needed, so nothing needs to be known about the behaviour; the price is a wide interval wherever the
policy does what few users did. To first order the error of value- is a sum over rows x = (g, s, a), with d_h the
policy's occupancy along shown rows,

    sum_x (1/N_x) sum_s' e_x(s') (u_x(s') - mean u_x),    u_x(s') = sum over steps h of the group of d_h(x) V_{h+1}(s'),

with e the sampling error and the noise of the count of s', plus the same for rewards and for first states. The
half-width is 1.96 times the root of its variance, in which rewards have the largest spread that their mean allows.

The users of the table must not be those that the policy was learned from: a policy looks good in the noise that made
it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.evaluation.interval import Interval, normal_quantile
from discreet.evaluation.limits import Limits
from discreet.evaluation.model import Model, Values, occupancies, values_of
from discreet.shape import Shape
from discreet.types import Floats


class PlugIn(NamedTuple):
    """The interval of the value, and what it is wide for."""

    value: Interval
    bracket: float
    noise: float
    sampling: float
    shown: float


def plug_in(
    model: Model, shape: Shape, limits: Limits, policy: Floats, start_variance: float, confidence: float = 0.95
) -> PlugIn:
    """The value of a policy (H, S, A) in a model of held-out users; ``start_variance``: noise in a count of starts."""
    z, S = normal_quantile(confidence), shape.states
    through = occupancies(model, policy, shown_only=True)
    ends, deviations = [], []
    for upper in (False, True):
        values = values_of(model, policy, limits, upper=upper, limited=False)
        first = values.v[0, :S]
        middle = float(model.start @ first)
        ends.append(middle + float(model.signed_start @ (first - middle)))
        deviations.append(_variances(model, shape, through, values, start_variance))
    halves = [z * math.sqrt(sampling + noise) for sampling, noise in deviations]
    low, high = ends[0] - halves[0], ends[1] + halves[1]
    found = Interval((ends[0] + ends[1]) / 2, min(low, high), max(low, high), confidence)
    everywhere = occupancies(model, policy, shown_only=False).sum()
    sampling, noise = (2 * z * math.sqrt(part) for part in deviations[0])
    return PlugIn(
        found.within(float(limits.worst[0]), float(limits.best[0])),
        ends[1] - ends[0],
        noise,
        sampling,
        float(through.sum() / everywhere) if everywhere > 0 else 0.0,
    )


def _variances(
    model: Model, shape: Shape, through: Floats, values: Values, start_variance: float
) -> tuple[float, float]:
    """The variance of an end that sampling causes, and that noise causes."""
    H, S, A = through.shape
    groups = len(model.visits)
    sampling, noise = 0.0, 0.0
    for g in range(groups):
        steps = range(H) if groups == 1 else [g]
        reach = sum(through[h][..., None] * values.v[h + 1] for h in steps if h < H - 1) + np.zeros((S, A, S + 1))
        taken = sum(through[h] for h in steps) + np.zeros((S, A))
        count = np.maximum(model.visits[g] - 1.0, 1.0)  # a mean was fitted to each row
        mean = (model.repaired[g] * reach).sum(axis=2, keepdims=True)
        spread = (model.repaired[g] * (reach - mean) ** 2).sum(axis=2)
        share = (model.rewards[g] - shape.rewards[0]) / shape.reward_span
        scale = (taken * shape.reward_span) ** 2
        sampling += float(((spread + scale * share * (1 - share)) / count).sum())
        # Noise in rewards also moves the count that they are divided by.
        per_reward = model.reward_variance[g] + share**2 * model.visit_variance[g]
        loud = model.cell_variance * ((reach - mean) ** 2).sum(axis=2) + scale * per_reward
        noise += float((loud / count**2).sum())
    first = values.v[0, :S]
    centred = first - float(model.start @ first)
    sampling += float(model.start @ centred**2) / model.users
    noise += start_variance * float((centred**2).sum()) / model.users**2
    return sampling, noise

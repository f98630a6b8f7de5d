r"""A policy judged by a table of held-out users, where nobody says which policy they followed.

The value of the policy is computed in the model of a released table, with signed rows, so that noise has mean zero in
it, and with rows that are not shown at their worst for the lower end and at their best for the upper end:

    value- = v + sum_s start(s) (V-_0(s) - v),        value+ with V+,

start being the noisy counts of first states over their total, and v the mean of V-_0 in the repaired ones.

No weights are needed, so nothing needs to be known about the behaviour; the price is a wide interval wherever the
policy does what few users did. To first order the error of value- is a sum over rows x = (g, s, a), with d_h the
policy's occupancy along shown rows,

    sum_x (1/N_x) sum_s' e_x(s') (u_x(s') - mean u_x),    u_x(s') = sum over steps h of the group of d_h(x) V_{h+1}(s'),

with e the sampling error and the noise of the count of s', plus the same for rewards and for first states. The
half-width of an end is the larger of two:

1. z = 1.96 times the root of this variance. A row of few visits may never have led to what it can lead to, and the
   variance of what it did would be far too small (0 if it always led to one state). So z^2 / 2 visits are added to the
   successor of the largest u, and as many to that of the smallest, before the variance is computed: the rule of Agresti
   and Coull for a proportion, in the direction that matters. In rewards likewise.
2. The largest error of 39 tables that are drawn from the model itself
   (:mod:`discreet.tables.evaluation.parametric_bootstrap`), with noise, choice of rows that are shown, and all: a
   fortieth table would exceed it with a chance of 1 in 40 = 2.5%, however the errors are distributed. Noisy rows are
   multiplied up to H times, and where they are far from a distribution the first order says nothing about it.

An interval that is impossible altogether says nothing either, and the answer is then the whole range.

The users of the table must not be those that the policy was learned from: a policy looks good in the noise that made
it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.tables.evaluation.interval import Interval, between, normal_quantile
from discreet.tables.evaluation.parametric_bootstrap import redrawn
from discreet.tables.evaluation.released_model import Model, Values, occupancies, values_of
from discreet.tables.evaluation.return_bounds import Limits

_SEED, _MOST_REDRAWS = 0, 399


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
    z = normal_quantile(confidence)
    through = occupancies(model, policy, shown_only=True)
    ends, deviations = [], []
    for upper in (False, True):
        values = values_of(model, policy, limits, upper=upper, limited=False)
        ends.append(_end(model, values, model.signed_start))
        deviations.append(_variances(model, shape, limits, through, values, start_variance, z))
    largest = _errors(model, shape, limits, policy, start_variance, confidence).max(axis=0)
    halves = [max(z * math.sqrt(sum(parts)), error) for parts, error in zip(deviations, largest.tolist(), strict=True)]
    (low, less), (high, more) = zip(ends, halves, strict=True)
    found = between((low, less, less), (high, more, more), confidence)
    everywhere = occupancies(model, policy, shown_only=False).sum()
    sampling, noise = (2 * z * math.sqrt(part) for part in deviations[0])
    return PlugIn(
        found.within(float(limits.worst[0]), float(limits.best[0])),
        ends[1] - ends[0],
        noise,
        sampling,
        float(through.sum() / everywhere) if everywhere > 0 else 0.0,
    )


def _end(model: Model, values: Values, start: Floats) -> float:
    """The value of signed shares of first states."""
    first = values.v[0, : len(start)]
    middle = float(model.start @ first)
    return middle + float(start @ (first - middle))


def _errors(
    model: Model, shape: Shape, limits: Limits, policy: Floats, start_variance: float, confidence: float
) -> Floats:
    """How far the lower end is above the value, and the upper end below it, in tables drawn from the model."""
    redraws = min(math.ceil(2 / (1 - confidence) - 1e-9) - 1, _MOST_REDRAWS)
    rng = np.random.default_rng(_SEED)
    world = values_of(
        model._replace(shown=np.ones_like(model.shown)), policy, limits, upper=False, signed=False, limited=False
    )
    true = float(model.start @ world.v[0, : shape.states])
    visits, out = np.maximum(model.visits, 0.0), np.empty((redraws, 2))
    for number, drawn in enumerate(redrawn(model, shape, visits, limits, redraws, rng)):
        noise = math.sqrt(start_variance) * rng.standard_normal(shape.states)
        start = (rng.multinomial(model.users, model.start) + noise) / model.users
        for upper in (False, True):
            end = _end(model, values_of(drawn, policy, limits, upper=upper, limited=False), start)
            out[number, int(upper)] = true - end if upper else end - true
    return out


def _variances(
    model: Model, shape: Shape, limits: Limits, through: Floats, values: Values, start_variance: float, z: float
) -> tuple[float, float]:
    """The variance of an end that sampling causes, and that noise causes."""
    H, S, A = through.shape
    groups = len(model.visits)
    sampling, noise, more = 0.0, 0.0, z * z / 2
    for g in range(groups):
        steps = range(H) if groups == 1 else [g]
        reach = sum(through[h][..., None] * values.v[h + 1] for h in steps if h < H - 1) + np.zeros((S, A, S + 1))
        taken = sum(through[h] for h in steps) + np.zeros((S, A))
        count = np.maximum(model.visits[g], 1.0)
        mean = (model.repaired[g] * reach).sum(axis=2, keepdims=True)
        centred = reach - mean
        possible = centred if limits.ends else centred[..., :S]
        most, least = possible.max(axis=2), possible.min(axis=2)
        square = count * (model.repaired[g] * centred**2).sum(axis=2) + more * (most**2 + least**2)
        total = count + 2 * more
        spread = square / total - (more * (most + least) / total) ** 2
        share = (model.rewards[g] - shape.rewards[0]) / shape.reward_span
        near = (count * share + more) / total
        scale = (taken * shape.reward_span) ** 2
        sampling += float(((spread + scale * near * (1 - near)) / total).sum())
        # Noise in rewards also moves the count that they are divided by.
        per_reward = model.reward_variance[g] + share**2 * model.visit_variance[g]
        loud = model.cell_variance * (centred**2).sum(axis=2) + scale * per_reward
        noise += float((loud / count**2).sum())
    first = values.v[0, :S]
    centred = first - float(model.start @ first)
    sampling += float(model.start @ centred**2) / model.users
    noise += start_variance * float((centred**2).sum()) / model.users**2
    return sampling, noise

r"""beta: how far the estimate is off because the model was estimated, found by releasing tables of the model itself.

Take the released model for the world. Draw from it the counts of as many users, with noise of the same law's variance,
estimate a model from these, with its own values and weights, and compute *exactly* what the average contribution of the
behaviour's users would be. Its distance to the policy's value in the world that was drawn from is the bias of this one
table; beta is the root of the mean square over some tables. Everything is a function of the release.

With values Q, V and weights w of a drawn table, d the behaviour's occupancy and (P, r) the world that was drawn from,

    E X = E V_0(s_0) + sum over rows of m (r + P V - Q),

where m is d w in shown rows, and in others pi times what flows in from the rows before, as weighted there. The cut of
rows that are not shown is left out.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.evaluation.contributions import Terms
from discreet.evaluation.limits import Limits
from discreet.evaluation.model import Model, Values, occupancies, refit, values_of, weights_of
from discreet.shape import Shape
from discreet.types import Floats


def biases(terms: Terms, shape: Shape, redraws: int, seed: int) -> Floats:
    """The bias of the lower and of the upper end over redrawn tables, (redraws, 2)."""
    model, policy, behaviour, limits = terms.model, terms.policy, terms.behaviour, terms.limits
    rng = np.random.default_rng(seed)
    everything = model._replace(shown=np.ones_like(model.shown))
    world = values_of(everything, policy, limits, upper=False, signed=False)
    true = float(model.start @ world.v[0, : shape.states])
    there = occupancies(model, behaviour, shown_only=False)
    out = np.empty((redraws, 2))
    for number in range(redraws):
        drawn = _redrawn(model, shape, there, limits, rng)
        drawn, weights = weights_of(drawn, policy, behaviour)
        for upper in (False, True):
            values = values_of(drawn, policy, limits, upper=upper)
            own = terms._replace(model=drawn, weights=weights)
            out[number, int(upper)] = _mean(own, values, model, there) - true
    return out


def root_mean_square(values: Floats) -> float:
    """How large values are, typically."""
    return math.sqrt(float(np.mean(values**2))) if len(values) else 0.0


def _redrawn(model: Model, shape: Shape, there: Floats, limits: Limits, rng: np.random.Generator) -> Model:
    """The model that a table drawn from this model would show."""
    groups = len(model.visits)
    visits = np.maximum(model.visits, 0.0)
    if groups > 1:
        visits = model.users * there  # how many are expected in every row of separate steps
    counts = rng.poisson(visits[..., None] * model.repaired).astype(np.float64)
    counts += rng.normal(0.0, math.sqrt(model.cell_variance), counts.shape) if model.cell_variance > 0 else 0.0
    low, span = shape.rewards[0], shape.reward_span
    share = (model.rewards - low) / span
    total = counts.sum(axis=3)
    shares = share * visits + rng.standard_normal(visits.shape) * np.sqrt(
        visits * share * (1 - share) + model.reward_variance
    )
    extra = np.maximum(model.visit_variance - counts.shape[3] * model.cell_variance, 0.0)
    seen = total + rng.standard_normal(visits.shape) * np.sqrt(extra)
    return refit(model, shape, counts, seen, shares, limits.ends)


def _mean(terms: Terms, values: Values, world: Model, there: Floats) -> float:
    """The exact mean of a contribution, for users of the behaviour in the world."""
    policy, drawn = terms.policy, terms.model
    H, S, _ = policy.shape
    flow, total = world.start, float(world.start @ values.v[0, :S])
    for h in range(H):
        g = world.at(h)
        mass = np.where(drawn.shown[h], there[h] * terms.weights[h], flow[:, None] * policy[h])
        following = world.repaired[g] @ values.v[h + 1] if h < H - 1 else 0.0
        total += float((mass * (world.rewards[g] + following - values.q[h])).sum())
        flow = np.tensordot(mass, world.repaired[g], axes=2)[:S]
    return total

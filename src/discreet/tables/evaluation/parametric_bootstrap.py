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
from collections.abc import Iterator

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.tables.evaluation.doubly_robust import Terms
from discreet.tables.evaluation.released_model import (
    Model,
    Values,
    occupancies,
    refit,
    seen_behaviour,
    values_of,
    weights_of,
    writable,
)  # fmt: skip
from discreet.tables.evaluation.return_bounds import Limits

_CELLS = 2**20  # of tables that are drawn at once


def biases(terms: Terms, shape: Shape, redraws: int, seed: int) -> Floats:
    """The bias of the lower and of the upper end over redrawn tables, (redraws, 2)."""
    model, policy, behaviour, limits = terms.model, terms.policy, terms.behaviour, terms.limits
    rng = np.random.default_rng(seed)
    everything = model._replace(shown=np.ones_like(model.shown))
    world = values_of(everything, policy, limits, upper=False, signed=False)
    true = float(model.start @ world.v[0, : shape.states])
    there = occupancies(model, behaviour, shown_only=False)
    visits = model.users * there if len(model.visits) > 1 else np.maximum(model.visits, 0.0)
    out = np.empty((redraws, 2))
    for number, drawn in enumerate(redrawn(model, shape, visits, limits, redraws, rng)):
        drawn, weights = weights_of(drawn, policy, behaviour if terms.declared else seen_behaviour(drawn))
        for upper in (False, True):
            values = values_of(drawn, policy, limits, upper=upper)
            own = terms._replace(model=drawn, weights=weights)
            out[number, int(upper)] = _mean(own, values, model, there) - true
    return out


def root_mean_square(values: Floats) -> float:
    """How large values are, typically."""
    return math.sqrt(float(np.mean(values**2))) if len(values) else 0.0


def redrawn(
    model: Model, shape: Shape, visits: Floats, limits: Limits, tables: int, rng: np.random.Generator
) -> Iterator[Model]:
    """The models that tables drawn from this model would show, where ``visits`` of each row are expected."""
    at_once = max(1, _CELLS // model.repaired.size)
    for first in range(0, tables, at_once):
        many = _drawn(model, shape, visits, limits, min(at_once, tables - first), rng)
        for number in range(len(many.visits)):
            yield many._replace(
                visits=many.visits[number], signed=many.signed[number], repaired=many.repaired[number],
                rewards=many.rewards[number], signed_rewards=many.signed_rewards[number], shown=many.shown[number],
            )  # fmt: skip


def _drawn(model: Model, shape: Shape, visits: Floats, limits: Limits, tables: int, rng: np.random.Generator) -> Model:
    """Several tables along one more axis, the first."""
    expected = visits[..., None] * model.repaired
    counts = rng.poisson(expected, (tables, *expected.shape)).astype(np.float64)
    came = counts.sum(axis=4)
    counts += rng.normal(0.0, math.sqrt(model.cell_variance), counts.shape) if model.cell_variance > 0 else 0.0
    low, span = shape.rewards[0], shape.reward_span
    share = (model.rewards - low) / span
    spread = np.sqrt(came * share * (1 - share) + model.reward_variance)
    shares = share * came + rng.standard_normal(came.shape) * spread
    extra = np.maximum(model.visit_variance - counts.shape[4] * model.cell_variance, 0.0)
    seen = counts.sum(axis=4) + rng.standard_normal(came.shape) * np.sqrt(extra)
    return refit(model, shape, counts, seen, shares, limits.ends)


def _mean(terms: Terms, values: Values, world: Model, there: Floats) -> float:
    """The exact mean of a contribution, for users of the behaviour in the world."""
    found: float = _average(
        writable(terms.policy), writable(terms.model.shown), there * terms.weights, values.q, values.v, world.start,
        world.repaired, world.rewards,
    )  # fmt: skip
    return found


@kernel
def _average(
    policy: Floats, shown: Mask, weighted: Floats, q: Floats, v: Floats, start: Floats, rows: Floats, rewards: Floats
) -> float:
    """The sum over rows of the module's text; ``weighted`` is d w."""
    H, S, A = policy.shape
    flow, total = start.copy(), 0.0
    for s in range(S):
        total += start[s] * v[0, s]
    for h in range(H):
        g = h if len(rows) > 1 else 0
        following = np.zeros(S)
        for s in range(S):
            for a in range(A):
                mass = weighted[h, s, a] if shown[h, s, a] else flow[s] * policy[h, s, a]
                if mass == 0.0:
                    continue
                mean = rewards[g, s, a]
                for t in range(S):
                    following[t] += mass * rows[g, s, a, t]
                    mean += rows[g, s, a, t] * v[h + 1, t]  # zero after the last step
                total += mass * (mean - q[h, s, a])
        flow = following
    return total

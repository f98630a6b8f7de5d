r"""A policy judged by held-out users: its value, the behaviour's, and the difference, each with an interval.

With a declared behaviour, and a model from a release of *other* users (or none):

1. values, weights and the cut c = R max(2, 0.05 sqrt(n min(epsilon_end, 4))) come from the model;
2. the clip of every quantity is chosen by users imagined in the model (:mod:`discreet.tables.evaluation.clipping`);
3. every held-out user contributes to the lower and the upper end of the value and of the difference to her own return
   (:mod:`discreet.tables.evaluation.doubly_robust`), and her return to the behaviour's value;
4. the means are released with noise, and the intervals allow for sampling, noise, clipping and the model
   (:mod:`discreet.tables.evaluation.interval`).

Where every row that the policy uses is shown, both ends are one quantity, which then gets the budget of both.

The budget is divided before anything is looked at: 45% for the value, 45% for the difference, 10% for the behaviour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.mechanisms.release import Release
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.tables.evaluation.clipping import Chosen, choose_clip, known_range
from discreet.tables.evaluation.doubly_robust import Contributions, Terms, contributions
from discreet.tables.evaluation.interval import KAPPA, Interval, between, half_width, normal_quantile
from discreet.tables.evaluation.model_users import imagined_users
from discreet.tables.evaluation.parametric_bootstrap import biases, root_mean_square
from discreet.tables.evaluation.private_mean import Moments, Part, PrivateMean
from discreet.tables.evaluation.released_model import Model, occupancies, values_of, weights_of
from discreet.tables.evaluation.return_bounds import Limits
from discreet.tables.evaluation.verdict import Causes
from discreet.tables.read.user_subsets import Paths

_IMAGINED, _REDRAWS, _SEED = 8000, 24, 0
_BELOW = 1 - 1e-9  # so that shares, added up in floating point, stay within the whole


@dataclass(frozen=True)
class Shares:
    """The epsilon of each quantity; infinite without privacy."""

    value: float
    difference: float
    behaviour: float


def shares_of(epsilon: float) -> Shares:
    """How the budget of an evaluation is divided: before anything is looked at, and the same for everybody."""
    epsilon *= _BELOW
    return Shares(0.45 * epsilon, 0.45 * epsilon, 0.1 * epsilon)


class Judged(NamedTuple):
    """The three intervals, the releases behind them, and what makes the difference uncertain."""

    value: Interval
    behaviour: Interval
    difference: Interval
    causes: Causes
    parts: tuple[Part, ...]  # the noisy sums
    release: Release | None = None  # a table of the same users, where one was released
    table_parts: tuple[Any, ...] = ()


class _End(NamedTuple):
    """One released mean and its half-width."""

    moments: Moments
    half: float
    sampling: float
    noise: float
    parts: list[Part]


def judge(
    paths: Paths,
    shape: Shape,
    limits: Limits,
    policy: Floats,
    behaviour: Floats,
    model: Model,
    shares: Shares,
    noise: NoiseSource,
    *,
    confidence: float = 0.95,
) -> Judged:
    """Judge a policy (H, S, A) by users who followed a declared behaviour (H, S, A)."""
    terms = terms_of(shape, limits, policy, behaviour, model, paths.users, shares.value)
    model = terms.model
    known = bool(model.shown.any())
    expected = contributions(imagined_users(model, behaviour, shape, _IMAGINED, _SEED), shape, terms) if known else None
    bias = biases(terms, shape, _REDRAWS, _SEED) if known else np.zeros((0, 2))
    found = contributions(paths, shape, terms)
    one = all(bool((terms.model.shown[h] | (policy[h] == 0)).all()) for h in range(shape.horizon))
    ends = (False,) if one else (False, True)

    def means(name: str, epsilon: float, less_own_return: bool) -> list[_End]:
        out = []
        for upper in ends:
            imagined = None if expected is None else _quantity(expected, upper, less_own_return)
            chosen = _clip(imagined, limits, terms.largest, paths.users, epsilon / len(ends), upper, less_own_return)
            if expected is not None and less_own_return:
                # Imagined returns are clipped more often than real ones: the model's own value has no such bias.
                mean = float(_quantity(expected, upper, False).mean())
                chosen = chosen._replace(expected=mean - value_in(model, behaviour, limits))
            beta = root_mean_square(bias[:, int(upper)])
            label = name if one else f"{'upper' if upper else 'lower'} end of the {name}"
            values = _quantity(found, upper, less_own_return)
            out.append(_released(label, values, chosen, epsilon / len(ends), beta, noise, confidence))
        return out

    own_clip = known_range(limits.worst[0], limits.best[0])
    if expected is not None:
        span = (float(limits.worst[0]), float(limits.best[0]))
        own_clip = choose_clip(expected.returns, limits.span, paths.users, shares.behaviour, span)
        own_clip = own_clip._replace(expected=None)  # no model is behind the mean of returns, so none can be wrong
    own = _released("value of the behaviour", found.returns, own_clip, shares.behaviour, 0.0, noise, confidence)
    value, difference = means("value of the policy", shares.value, False), means("difference", shares.difference, True)
    worst, best = float(limits.worst[0]), float(limits.best[0])
    every = [own, *value, *difference]
    return Judged(
        _interval(value, confidence).within(worst, best),
        _interval([own], confidence).within(worst, best),
        _interval(difference, confidence).within(worst - best, best - worst),
        Causes(
            bracket=difference[-1].moments.mean - difference[0].moments.mean,
            noise=2 * difference[0].noise,
            sampling=2 * difference[0].sampling,
            span=limits.span,
            shown=_share_shown(terms),
        ),
        tuple(part for end in every for part in end.parts),
    )


def terms_of(
    shape: Shape, limits: Limits, policy: Floats, behaviour: Floats, model: Model, users: int, epsilon: float
) -> Terms:
    """Everything that turns trajectories into contributions."""
    weights = np.zeros(policy.shape)
    if model.shown.any():
        model, weights = weights_of(model, policy, behaviour)
    lower, upper = (values_of(model, policy, limits, upper=upper) for upper in (False, True))
    largest = limits.span * max(2.0, 0.05 * math.sqrt(users * min(epsilon / 2, 4.0)))
    return Terms(model, policy, behaviour, weights, lower, upper, limits, largest)


def value_in(model: Model, policy: Floats, limits: Limits) -> float:
    """The value of a policy (H, S, A) in the repaired world, rows that are not shown as they were estimated."""
    everything = model._replace(shown=np.ones_like(model.shown))
    values = values_of(everything, policy, limits, upper=False, signed=False)
    return float(model.start @ values.v[0, : len(model.start)])


def _quantity(found: Contributions, upper: bool, less_own_return: bool) -> Floats:
    values = found.upper if upper else found.lower
    return values - found.returns if less_own_return else values


def _clip(
    imagined: Floats | None, limits: Limits, entry: float, users: int, epsilon: float, upper: bool, difference: bool
) -> Chosen:
    """The clip of an end; without a model from what its terms can be."""
    if imagined is not None:
        return choose_clip(imagined, limits.span, users, epsilon)
    low, high = (limits.best[0] - entry, limits.best[0]) if upper else (limits.worst[0], limits.worst[0] + entry)
    if difference:
        low, high = low - limits.best[0], high - limits.worst[0]
    return known_range(float(low), float(high))


def _released(
    name: str, values: Floats, chosen: Chosen, epsilon: float, beta: float, noise: NoiseSource, confidence: float
) -> _End:
    """Release one mean and say how far it may be from the truth."""
    mechanism = PrivateMean(name, chosen.clip, epsilon)
    moments = mechanism.release(values, noise, chosen.deviation)
    sampling = moments.deviation / math.sqrt(moments.users)
    q = half_width(sampling, moments.noise, confidence)
    surprise = 0.0 if chosen.expected is None else abs(moments.mean - chosen.expected)
    half = math.hypot(q, normal_quantile(confidence) * beta) + chosen.excess + KAPPA * surprise
    noise_half = half_width(0.0, moments.noise, confidence) if moments.noise else 0.0
    return _End(moments, half, normal_quantile(confidence) * sampling, noise_half, mechanism.parts())


def _interval(ends: list[_End], confidence: float) -> Interval:
    first, last = ends[0], ends[-1]
    by_chance = math.hypot(first.noise, last.noise)
    return between((first.moments.mean, first.half), (last.moments.mean, last.half), confidence, by_chance)


def _share_shown(terms: Terms) -> float:
    """How much of the policy's way through the model leads through shown rows, in the repaired world."""
    if not terms.model.shown.any():
        return 0.0
    through = occupancies(terms.model, terms.policy, shown_only=True).sum()
    everywhere = occupancies(terms.model, terms.policy, shown_only=False).sum()
    return float(through / everywhere) if everywhere > 0 else 0.0

r"""A policy judged by held-out users: its value, the behaviour's, and the difference, each with an interval.

With a model from a release of *other* users (a declared behaviour needs none):

1. values, weights and the cut c = R max(2, 0.05 sqrt(n min(epsilon_end, 4))) come from the model;
2. the clip of every quantity is chosen by users imagined in the model (:mod:`discreet.tables.evaluation.clipping`);
3. every held-out user who has a first row contributes to the lower and the upper end of the value and of the difference
   (:mod:`discreet.tables.evaluation.doubly_robust`), and her return to the behaviour's value;
4. sums over these users, and how many they are, are released with noise
   (:mod:`discreet.tables.evaluation.private_mean`), and the intervals allow for sampling, noise, clipping and the model
   (:mod:`discreet.tables.evaluation.interval`).

So all three are about the same users and the same records: the return of people like these until their record ends,
under this policy and under what was done. Where every row that the policy uses is shown, both ends are one quantity,
which then gets the budget of both.

The budget is divided before anything is looked at: 45% for the value, 45% for the difference, 10% for the behaviour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.tables.evaluation.clipping import Chosen, choose_clip, known_range
from discreet.tables.evaluation.doubly_robust import Contributions, Terms, contributions
from discreet.tables.evaluation.interval import KAPPA, Interval, between, normal_quantile
from discreet.tables.evaluation.model_users import imagined_users
from discreet.tables.evaluation.parametric_bootstrap import biases, root_mean_square
from discreet.tables.evaluation.private_mean import Count, Part, PrivateMean, Ratio, Sums, best_count, mean_of
from discreet.tables.evaluation.released_model import Model, occupancies, seen_behaviour, values_of, weights_of
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
    present: Count  # users who have a first row


class Asked(NamedTuple):
    """One released quantity, with everything that its interval allows for."""

    mechanism: PrivateMean
    sums: Sums
    chosen: Chosen
    beta: float = 0.0

    def end(self, count: Count, confidence: float) -> End:
        """The mean with its interval, widened for clipping and for the model."""
        found = mean_of(self.sums, count, self.chosen.deviation, confidence)
        surprise = 0.0 if self.chosen.expected is None else abs(found.mean - self.chosen.expected)
        more, bias = self.chosen.excess + KAPPA * surprise, normal_quantile(confidence) * self.beta
        below, above = (math.hypot(half, bias) + more for half in (found.mean - found.low, found.high - found.mean))
        return End(found, below, above)


class End(NamedTuple):
    """An end of an interval, or both: a mean and its two half-widths."""

    found: Ratio
    below: float
    above: float


def ask(name: str, values: Floats, judged: Mask, chosen: Chosen, epsilon: float, noise: NoiseSource) -> Asked:
    """Release the sums of one quantity."""
    mechanism = PrivateMean(name, chosen.clip, epsilon)
    return Asked(mechanism, mechanism.release(values, judged, noise), chosen)


def judge(
    paths: Paths,
    shape: Shape,
    limits: Limits,
    policy: Floats,
    behaviour: Floats | None,
    model: Model,
    shares: Shares,
    noise: NoiseSource,
    *,
    confidence: float = 0.95,
) -> Judged:
    """Judge a policy (H, S, A) by users who followed a declared behaviour (H, S, A), or one that the model shows."""
    terms = terms_of(shape, limits, policy, behaviour, model, paths.users, shares.value)
    model = terms.model
    known = bool(model.shown.any())
    expected = (
        contributions(imagined_users(model, terms.behaviour, shape, _IMAGINED, _SEED), shape, terms) if known else None
    )
    bias = biases(terms, shape, _REDRAWS, _SEED) if known else np.zeros((0, 2))
    found = contributions(paths, shape, terms)
    one = all(bool((terms.model.shown[h] | (policy[h] == 0)).all()) for h in range(shape.horizon))
    ends = (False,) if one else (False, True)

    def means(name: str, epsilon: float, difference: bool) -> list[Asked]:
        out = []
        for upper in ends:
            imagined = None if expected is None else _quantity(expected, upper, difference)
            chosen = _clip(imagined, limits, terms.largest, paths.users, epsilon / len(ends), upper, difference)
            label = name if one else f"{'upper' if upper else 'lower'} end of the {name}"
            values = _quantity(found, upper, difference)
            asked = ask(label, values, found.judged, chosen, epsilon / len(ends), noise)
            out.append(asked._replace(beta=root_mean_square(bias[:, int(upper)])))
        return out

    worst, best = float(limits.worst[0]), float(limits.best[0])
    own_clip = known_range(worst, best)
    if expected is not None:
        own_clip = choose_clip(expected.returns, limits.span, paths.users, shares.behaviour, (worst, best))
        own_clip = own_clip._replace(expected=None)  # no model is behind the mean of returns, so none can be wrong
    own = ask("value of the behaviour", found.returns, found.judged, own_clip, shares.behaviour, noise)
    value, difference = means("value of the policy", shares.value, False), means("difference", shares.difference, True)
    every = [own, *value, *difference]
    count = best_count([asked.sums for asked in every])
    of_value, of_difference = ([asked.end(count, confidence) for asked in each] for each in (value, difference))
    first = of_difference[0].found
    return Judged(
        interval_of(of_value, confidence, worst, best),
        interval_of([own.end(count, confidence)], confidence, worst, best),
        interval_of(of_difference, confidence, worst - best, best - worst),
        Causes(
            bracket=of_difference[-1].found.mean - first.mean,
            noise=2 * first.noise,
            sampling=2 * first.sampling,
            span=limits.span,
            shown=_share_shown(terms),
        ),
        tuple(part for asked in every for part in asked.mechanism.parts()),
        count,
    )


def terms_of(
    shape: Shape, limits: Limits, policy: Floats, behaviour: Floats | None, model: Model, users: int, epsilon: float
) -> Terms:
    """Everything that turns trajectories into contributions."""
    usual = seen_behaviour(model) if behaviour is None else behaviour
    weights = np.zeros(policy.shape)
    if model.shown.any():
        model, weights = weights_of(model, policy, usual)
    lower, upper = (values_of(model, policy, limits, upper=upper) for upper in (False, True))
    largest = limits.span * max(2.0, 0.05 * math.sqrt(users * min(epsilon / 2, 4.0)))
    return Terms(model, policy, usual, weights, lower, upper, limits, largest, behaviour is not None)


def value_in(model: Model, policy: Floats, limits: Limits) -> float:
    """The value of a policy (H, S, A) in the repaired world, rows that are not shown as they were estimated."""
    everything = model._replace(shown=np.ones_like(model.shown))
    values = values_of(everything, policy, limits, upper=False, signed=False)
    return float(model.start @ values.v[0, : len(model.start)])


def _quantity(found: Contributions, upper: bool, difference: bool) -> Floats:
    if difference:
        return found.more if upper else found.less
    return found.upper if upper else found.lower


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


def interval_of(ends: list[End], confidence: float, worst: float, best: float) -> Interval:
    """From the lower end to the upper one, within what is possible."""
    first, last = ends[0], ends[-1]
    if math.isinf(first.found.noise):
        return Interval(min(max((first.found.mean + last.found.mean) / 2, worst), best), worst, best, confidence)
    by_chance = math.hypot(first.found.noise, last.found.noise)
    found = between(
        (first.found.mean, first.below, first.above), (last.found.mean, last.below, last.above), confidence, by_chance
    )
    return found.within(worst, best)


def _share_shown(terms: Terms) -> float:
    """How much of the policy's way through the model leads through shown rows, in the repaired world."""
    if not terms.model.shown.any():
        return 0.0
    through = occupancies(terms.model, terms.policy, shown_only=True).sum()
    everywhere = occupancies(terms.model, terms.policy, shown_only=False).sum()
    return float(through / everywhere) if everywhere > 0 else 0.0

r"""Everybody judges: one released table of one step, from which a policy was learned, also says what it is worth.

In state s with N_s visits, of which N_a with action a have the mean m_a, and p_s = N_s / N, policy and behaviour are
worth

    V = sum_s p_s sum_a pi(a | s) m_a,     V_b = sum_s p_s m_b,    m_b = the mean of all visits of s (what users did),

or m_b = sum_a b(a | s) m_a where the behaviour b was declared, and the difference is sum_s p_s T_s with
T_s = sum_a pi m_a - m_b. Where the policy does what users did T_s = 0: a policy that is the behaviour is 0 +- 0.

**Every policy at once.** To first order the error of such a sum is sum_s e_s(o), o the option taken in s: an action, or
what users did. Whatever is taken, with sd_s(o) the deviation of e_s(o) and M_s = max over o of e_s(o) / sd_s(o), 0 at
least,

    sum_s e_s(o_s) <= sum_s M_s sd_s(o_s) <= sqrt(sum_s M_s^2) sqrt(sum_s sd_s(o_s)^2),

so a critical value c with P(sqrt(sum M_s^2) > c) = (1 - confidence) / 2 bounds the error of all policies that can be
made from the table, on either side: the one that was chosen by looking at it, too. c is found from 10,000 draws of the
errors: sampling as normal with the released spreads, noise of the law that it has. Mixtures of options count with the
sum of their deviations. With one state c is that of the largest of the correlated differences.

**Formal guarantees.** Post-processing of a release. Coverage holds to first order (normal sampling, noise small against
counts): an option counts if its visits exceed 20 and five deviations of their noise; where the policy takes another
one, the whole range is added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.mechanisms.release import Release
from discreet.tables.evaluation.interval import Interval
from discreet.tables.evaluation.verdict import ASSUMES, READ_OFF, Causes, Verdict, verdict_of
from discreet.worlds.planning.outcome_means import Outcomes, outcomes_of
from discreet.worlds.planning.shrinkage import behaviour_shares

MOST_CELLS = 64  # state-action pairs: with more a hold-out has far narrower intervals
_DRAWS, _SEED = 10_000, 20_251_119
_FEWEST, _DEVIATIONS, _LARGEST = 20.0, 5.0, 0.1


class Errors(NamedTuple):
    """Draws of errors: of means, of actions and of all visits (draws, S, A + 1), and of visits of states (draws, S)."""

    means: Floats
    visits: Floats


class ByEverybody(NamedTuple):
    """What one table says of a policy, in the owner's units."""

    value: Interval
    behaviour: Interval
    difference: Interval
    verdict: Verdict
    critical: float
    judged: float  # noisy number of users
    deviation: float


class _Told(NamedTuple):
    """A policy's sum as a share of half the range: its worth, half of its interval, and what that consists of."""

    worth: float
    half: float
    critical: float
    blind: float
    noise: float


def judged_by_everybody(
    shape: Shape, release: Release, policy: Floats, behaviour: Floats | None, *, laplace: bool, users: int,
    confidence: float = 0.95,
) -> ByEverybody:  # fmt: skip
    """Judge a policy (S, A) by the release that it may have been learned from; ``behaviour`` (S, A) if declared."""
    rows = Outcomes(*(table[0] for table in outcomes_of(release.statistics, (1, shape.states, shape.actions))))
    total, deviation = float(rows.visits.sum()), math.sqrt(float(rows.visit_noise.sum()))
    known = rows.visits > np.maximum(_FEWEST, _DEVIATIONS * np.sqrt(rows.visit_noise))
    means, middle = np.where(known, rows.means, 0.0), rows.added(1).means
    did = behaviour_shares(rows.visits[None], rows.visit_noise[None])[0] if behaviour is None else behaviour
    # A declared behaviour, where all of its actions are counted; elsewhere the mean of all visits stands for it.
    declared = np.where((known | (did == 0)).all(axis=1)[:, None] & (behaviour is not None), did, np.nan)
    uses = ~np.isnan(declared[:, 0])
    middle = np.where(uses, (np.nan_to_num(declared) * means).sum(axis=1), middle)
    one = shape.states == 1  # which is all of the table: who is in it is no question
    parts = [_sampled(rows, known, means, middle, declared), _noise(rows, known, means, middle, declared, laplace)]
    taken, usual = _options(policy, did), np.tile(np.eye(shape.actions + 1)[-1], (shape.states, 1))
    worth = np.column_stack([means, middle])
    value = _told(rows, known, worth, parts, taken, confidence, most=1.0)
    parts = [Errors(part.means, 0.0 * part.visits if one else part.visits) for part in parts]
    against = [Errors(part.means - part.means[..., -1:], part.visits) for part in parts]
    difference = _told(rows, known, worth - middle[:, None], against, taken, confidence, most=2.0)
    usually = _told(rows, known, worth, parts, usual, confidence, most=1.0, alone=True)
    if deviation > _LARGEST * max(total, 1.0):  # first order is not enough
        value, difference, usually = (each._replace(half=2.0, blind=2.0) for each in (value, difference, usually))
    span, centre = shape.reward_span, sum(shape.rewards) / 2
    ends = (value, centre, shape.rewards), (usually, centre, shape.rewards), (difference, 0.0, (-span, span))
    intervals = [_interval(told, shift, span / 2, bounds, confidence) for told, shift, bounds in ends]
    absent = 1 - total / users
    absent = 0.0 if absent * users <= 3 * deviation else absent
    sampling = math.sqrt(max((difference.half - difference.blind) ** 2 - difference.noise**2, 0.0))
    shown = float(
        (rows.visits.sum(axis=1) @ (taken[:, :-1] * known).sum(axis=1)) / max(total, 1.0) + taken[:, -1].mean()
    )
    # A quarter of the range is wide or narrow as outcomes spread: a range may be declared as wide as one likes.
    wide = span * min(1.0, 2 * float(np.sqrt(rows.spread().max())))
    causes = Causes(span * difference.blind, span * difference.noise, span * sampling, wide, min(shown, 1.0))
    found = verdict_of(intervals[2], causes, absent, READ_OFF if behaviour is None else ASSUMES)
    words = found.reason.replace("so few held-out users", "so few users")
    worth_of, usual_worth, gain = intervals
    return ByEverybody(worth_of, usual_worth, gain, Verdict(found.word, words), difference.critical, total, deviation)


def _interval(told: _Told, shift: float, unit: float, bounds: tuple[float, float], confidence: float) -> Interval:
    """What was told, in the owner's units."""
    middle, half = shift + unit * told.worth, unit * told.half
    return Interval(middle, middle - half, middle + half, confidence).within(*bounds)


def _told(
    rows: Outcomes, known: Mask, worth: Floats, parts: Sequence[Errors], taken: Floats, confidence: float, *,
    most: float, alone: bool = False,
) -> _Told:  # fmt: skip
    """The sum over states of what options (S, A + 1) are worth, and a bound on its error for all that may be taken."""
    n, total = np.maximum(rows.visits.sum(axis=1), 0.0), max(float(rows.visits.sum()), 1.0)
    seen = np.column_stack([known, np.ones(len(known), np.bool_)])
    weights = np.where(seen, taken, 0.0)
    found = float((n[:, None] * weights * worth).sum() / total)
    noise = [n[None, :, None] * part.means + (worth - found) * part.visits[..., None] for part in parts]
    errors = noise[0] + noise[1]
    tail = (1 - confidence) / 2
    if alone:
        critical, half = 1.0, float(np.quantile(np.abs((weights * errors).sum(axis=(1, 2))), confidence))
        own = half
    else:
        spread = errors.std(axis=0)
        ratio = np.divide(errors, spread, out=np.zeros_like(errors), where=seen & (spread > 1e-9 * total))
        largest = np.maximum(ratio.max(axis=2), 0.0)
        critical = float(np.quantile(np.sqrt((largest**2).sum(axis=1)), 1 - tail))
        half = critical * math.sqrt(float(((weights * spread).sum(axis=1) ** 2).sum()))
        own = critical * float(np.sqrt(((weights * noise[1].std(axis=0)).sum(axis=1) ** 2).sum()))
    lost = (taken - weights).sum(axis=1) @ (n + 3 * np.sqrt(rows.visit_noise.sum(axis=1)))
    blind = most * float(lost) / total
    return _Told(found, half / total + blind, critical, blind, own / total)


def _options(policy: Floats, did: Floats) -> Floats:
    """A policy (S, A) as a mixture of actions and of what users did, of which it takes as much as it holds."""
    share = np.where(did > 0, policy / np.where(did > 0, did, 1.0), np.inf).min(axis=1)
    share = np.where(share > 1 - 1e-9, 1.0, np.clip(share, 0.0, 1.0))[:, None]
    rest = np.where(share == 1.0, 0.0, np.maximum(policy - share * did, 0.0))
    return np.concatenate([rest, share], axis=1)


def _all_visits(rows: Outcomes, means: Floats, declared: Floats, own: Floats, errors: Floats) -> Floats:
    """The errors of actions and, behind them, of a state's mean: by declared shares, or ``own``."""
    given = (np.nan_to_num(declared) * errors).sum(axis=2)
    last = np.where(np.isnan(declared[:, 0]), own, given)
    return np.concatenate([errors, last[..., None]], axis=2)


def _sampled(rows: Outcomes, known: Mask, means: Floats, middle: Floats, declared: Floats) -> Errors:
    """Draws of who was sampled: rewards of every action, which actions were taken, which states were met."""
    rng, (S, A) = np.random.default_rng(_SEED), known.shape
    spread, n = rows.spread(), np.maximum(rows.visits, 0.0)
    state = np.maximum(n.sum(axis=1), 1.0)
    of_rewards = rng.standard_normal((_DRAWS, S, A)) * np.sqrt(spread / rows.counted)
    apart = np.where(known, means - middle[:, None], 0.0)
    between = np.sqrt((n * apart**2).sum(axis=1)) / state
    own = (n / state[:, None] * of_rewards).sum(axis=2) + between * rng.standard_normal((_DRAWS, S))
    visits = rng.standard_normal((_DRAWS, S)) * np.sqrt(state)
    return Errors(_all_visits(rows, means, declared, own, of_rewards), visits)


def _noise(
    rows: Outcomes, known: Mask, means: Floats, middle: Floats, declared: Floats, laplace: bool
) -> Errors:  # fmt: skip
    """Draws of the noise. Bits are counted apart, so that visits and sums are a sum and a difference of draws."""
    rng, (S, A) = np.random.default_rng(_SEED + 1), known.shape
    size = (_DRAWS, S, A)
    x, y = ((rng.laplace(scale=math.sqrt(0.5), size=size) if laplace else rng.standard_normal(size)) for _ in range(2))
    if np.isnan(rows.slacks).any():
        x, y = (x + y) / math.sqrt(2), (x - y) / math.sqrt(2)
    visits, sums = x * np.sqrt(rows.visit_noise), y * np.sqrt(rows.sum_noise)
    errors = np.where(known, (sums - means * visits) / rows.counted, 0.0)
    in_states = visits.sum(axis=2)
    own = (sums.sum(axis=2) - middle * in_states) / np.maximum(rows.visits.sum(axis=1), 1.0)
    return Errors(_all_visits(rows, means, declared, own, errors), in_states)


def may_judge(shape: Shape) -> bool:
    """Whether everybody judges a policy of this shape: public sizes decide."""
    return shape.horizon == 1 and shape.states * shape.actions <= MOST_CELLS


def method_words(shape: Shape, critical: float) -> str:
    """How it was judged, in a sentence."""
    cells = shape.states * shape.actions
    return (
        "everybody judges: the interval is from the released table that the policy was learned from, and holds at once "
        f"for every policy that can be made of its {cells:,} pairs of state and action, by a critical value of "
        f"{critical:.3g} deviations"
    )

r"""What a release of counts shows about a world, and how sure it is of every row: what APVI plans in by default.

Two sets of rows are estimated from the same counts: *states*, whatever users did there (the world under their own
behaviour), and *actions* in states. Rewards and successors of a state are drawn towards those of all states (for
successors: of the same step), and those of an action towards its state's, each as far as its noise and its number of
visits demand (:mod:`discreet.worlds.planning.shrinkage`). What noise has swallowed is then worth what its state is
worth, with the variance that actions have there, and what was counted well is worth what was seen.

For values V of the successors, m = P V, a row of n visits whose counts have noise of variance s^2 has

    error     e^2 = s^2 sum_t (V_t - m)^2 / n^2 + (n Var_P V + R^2 / 4) / (n (n + 1)),     R = max V - min V,
    prior     T Var_p V / (1 - sum_t p_t^2): how P V differs between rows whose laws differ by T from the prior p,
    variance  k^2 e^2 + (1 - k)^2 (prior + variance of the group's own estimate),

and rewards the same with sums of rewards; where slacks are released, with the spread that they show
(:mod:`discreet.worlds.planning.outcome_means`). R^2 / 4 is for rows of few visits, which look surer than they are.
Where steps are pooled, the score of the behaviour is the mean of its actions' (:func:`_mixed`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.mechanisms.release import Release
from discreet.worlds.planning.count_projection import project_counts
from discreet.worlds.planning.outcome_means import Outcomes, outcomes_of
from discreet.worlds.planning.reward_units import end_value, value_limits
from discreet.worlds.planning.shrinkage import behaviour_shares, on_simplex, shares_kept, spread_of_rows

_FEWEST = 0.5  # deviations of the noise that a count must exceed, and one visit, to say anything by itself
_LEAST_SPREAD = 1e-3


class Means(NamedTuple):
    """Mean rewards as shares of their range, and the mean squared errors of the estimates."""

    values: Floats
    variance: Floats


class Laws(NamedTuple):
    """Where rows lead, with what is known about the errors; rows (groups, states[, actions])."""

    probabilities: Floats  # (..., successors)
    prior: Floats  # (..., successors): the law of the group that a row was drawn towards
    kept: Floats  # k
    counts: Floats  # n
    noise: Floats  # s^2, in the count of one successor
    spread: float  # T


class Evidence(NamedTuple):
    """Rewards and successors of states and of actions in states; ``behaviour`` is what users did, if it shows."""

    state_rewards: Means
    action_rewards: Means
    states: Laws | None  # None where nothing follows: a horizon of one
    actions: Laws | None
    behaviour: Floats  # (groups, states, actions)


class Scores(NamedTuple):
    """Values of actions (states, actions) and of the behaviour (states,) at one step, with their variances."""

    actions: Floats
    action_variance: Floats
    behaviour: Floats
    behaviour_variance: Floats


def evidence_of(shape: Shape, release: Release, ends: bool) -> Evidence:
    """What a dense release shows; a behaviour that was declared public takes the place of the released one."""
    rows = (shape.groups, shape.states, shape.actions)
    visits = release["visits"].values.reshape(rows)
    noise = _per_row(release, "visits", rows)
    declared = release.public.get("behaviour")
    behaviour = behaviour_shares(visits, noise) if declared is None else declared
    states, actions = _laws(shape, release, visits, noise, ends)
    return Evidence(*_rewards(release, visits, noise, behaviour), states, actions, behaviour)


def scores_at(shape: Shape, evidence: Evidence, h: int, following: Floats, ends: bool) -> Scores:
    """Values of actions and of the behaviour at step h, if its successors are worth ``following``."""
    g = h if shape.groups > 1 else 0
    of_states = Means(*(table[g] for table in evidence.state_rewards))
    of_actions = Means(*(table[g] for table in evidence.action_rewards))
    if h == shape.horizon - 1 or evidence.states is None or evidence.actions is None:
        scores = Scores(of_actions.values, of_actions.variance, of_states.values, of_states.variance)
        return scores if shape.groups > 1 or shape.horizon == 1 else _mixed(scores, evidence.behaviour, h)
    left = shape.horizon - h - 1
    V = np.append(following, end_value(shape, left)) if ends else following
    state, state_error = _expected(evidence.states, g, V, np.zeros(shape.states))
    action, action_error = _expected(evidence.actions, g, V, state_error[:, None])
    scores = Scores(
        of_actions.values + action,
        of_actions.variance + action_error,
        of_states.values + state,
        of_states.variance + state_error,
    )
    return scores if shape.groups > 1 else _mixed(scores, evidence.behaviour, h)


def _mixed(scores: Scores, behaviour: Floats, h: int) -> Scores:
    """The behaviour's score as the mean of its actions', for pooled steps.

    Successors of the last step are not known and rewards are, so in pooled tables the averages of a state are of
    different mixtures of actions: of one that pays and of another that leads on, which nobody can play together.
    """
    shares = behaviour[h if len(behaviour) > 1 else 0]
    return scores._replace(
        behaviour=(shares * scores.actions).sum(axis=1),
        behaviour_variance=(shares**2 * scores.action_variance).sum(axis=1),
    )


def limits_at(shape: Shape, release: Release, h: int, ends: bool) -> tuple[float, float]:
    """What a state at step h can be worth at least and at most, in shares, by what was declared."""
    low, high = value_limits(shape, shape.horizon - h, ends)
    if "returns" not in release.public:
        return low, high
    least, most = release.public["returns"][:, h]
    return max(low, float(least)), min(high, float(most))


def first_states(shape: Shape, release: Release) -> Floats | None:
    """The shares of first states (S,), declared or estimated; None where pooled tables do not tell."""
    if shape.start is not None:
        return np.asarray(np.arange(shape.states) == shape.start, np.float64)
    if (shape.groups == 1 and shape.horizon > 1) or "visits" not in release.statistics:
        return None
    visits = release["visits"].values.reshape(shape.groups, shape.states, shape.actions)[0].sum(axis=1)
    shares: Floats = on_simplex((visits / max(1.0, float(visits.sum())))[None])[0]
    return shares


def _per_row(release: Release, name: str, rows: tuple[int, ...]) -> Floats:
    """The variance of the noise in one number of a statistic, for every row."""
    variance = release[name].variance
    return np.broadcast_to(variance.max(axis=3) if variance.ndim == 4 else variance, rows)


def _counted(counts: Floats, noise: Floats) -> tuple[Floats, Mask]:
    """Counts that can be divided by, and which of them say anything."""
    least = np.maximum(1.0, _FEWEST * np.sqrt(noise))
    return np.maximum(counts, least), counts > least


def _rewards(release: Release, visits: Floats, noise: Floats, behaviour: Floats) -> tuple[Means, Means]:
    """Mean rewards of states and of actions."""
    if "rewards" in release.public:
        known = np.broadcast_to(np.reshape(release.public["rewards"], (-1, *visits.shape[1:])), visits.shape)
        shares = behaviour if len(behaviour) == len(visits) else behaviour.mean(axis=0, keepdims=True)
        mixed = (shares * known).sum(axis=2)
        return Means(mixed, np.zeros(mixed.shape)), Means(known, np.zeros(known.shape))
    sums, spread = release["rewards"].values.reshape(visits.shape), _per_row(release, "rewards", visits.shape)
    overall = np.clip(sums.sum() / max(1.0, visits.sum()), 0.0, 1.0)
    everywhere = Means(np.full(visits.shape[:2], overall), np.zeros(visits.shape[:2]))
    if "slacks" in release.statistics:
        rows = outcomes_of(release.statistics, visits.shape)
        of_states = _with_spread(rows.added(2), everywhere)
        return of_states, _with_spread(rows, Means(*(table[:, :, None] for table in of_states)))
    states = _means(sums.sum(axis=2), spread.sum(axis=2), visits.sum(axis=2), noise.sum(axis=2), everywhere)
    prior = Means(*(np.broadcast_to(table[:, :, None], visits.shape) for table in states))
    return states, _means(sums, spread, visits, noise, prior)


def _with_spread(rows: Outcomes, prior: Means) -> Means:
    """Mean rewards of rows whose spread was released, drawn towards a prior."""
    p = np.broadcast_to(prior.values, rows.visits.shape)
    counted = _counted(rows.visits, rows.visit_noise)[1]
    own = np.where(counted, (1 + rows.means) / 2, p)
    errors = (rows.mean_noise(2 * p - 1) + rows.spread() / rows.counted) / 4
    between = spread_of_rows((own - p)[counted] ** 2, errors[counted], 0.25)
    kept = shares_kept(between, errors, counted)
    values = np.clip(p + kept * (own - p), 0.0, 1.0)
    return Means(values, kept**2 * errors + (1 - kept) ** 2 * (between + prior.variance))


def _means(sums: Floats, spread: Floats, visits: Floats, noise: Floats, prior: Means) -> Means:
    """Mean rewards of rows, drawn towards a prior."""
    n, counted = _counted(visits, noise)
    p = prior.values
    own = np.where(counted, sums / n, p)
    # The noise of rewards is part of the noise of visits: the error of sums - p visits counts it (1 - 2p) times.
    errors = np.maximum((1 - 2 * p) * spread + p**2 * noise, 0.0) / n**2 + np.maximum(p * (1 - p), 0.25 / (1 + n)) / n
    between = spread_of_rows((own - p)[counted] ** 2, errors[counted], 0.25)
    kept = shares_kept(between, errors, counted)
    values = np.clip(p + kept * (own - p), 0.0, 1.0)
    return Means(values, kept**2 * errors + (1 - kept) ** 2 * (between + prior.variance))


def _laws(
    shape: Shape, release: Release, visits: Floats, visit_noise: Floats, ends: bool
) -> tuple[Laws | None, Laws | None]:
    """Successors of states and of actions, at all steps that have any."""
    followed = shape.groups - 1 if shape.groups > 1 else int(shape.horizon > 1)
    if not followed:
        return None, None
    rows = visits.shape
    counts = release["transitions"].values.reshape(*rows, shape.states)
    noise = _per_row(release, "transitions", rows)[:followed]
    if ends:
        separate = "ends" in release.statistics
        gone = release["ends"].values.reshape(rows) if separate else visits - counts.sum(axis=3)
        counts = np.concatenate([counts, gone[..., None]], axis=3)
    counts = counts[:followed]
    total = np.maximum(counts.sum(axis=(1, 2)), 0.0)
    overall = project_counts(total, np.maximum(total.sum(axis=1), 1.0), 0.0)
    overall = overall / overall.sum(axis=1, keepdims=True)
    states = _drawn(counts.sum(axis=2), noise.sum(axis=2), np.broadcast_to(overall[:, None], counts[:, :, 0].shape))
    prior = np.broadcast_to(states.probabilities[:, :, None], counts.shape)
    return states, _drawn(counts, noise, prior)


def _drawn(counts: Floats, noise: Floats, prior: Floats) -> Laws:
    """Laws of rows, drawn towards a prior."""
    k, p = counts.shape[-1], (prior**2).sum(axis=-1)
    n, counted = _counted(counts.sum(axis=-1), k * noise)
    own = counts / n[..., None]
    errors = noise * np.maximum(k - 2 + k * p, 0.0) / n**2 + np.maximum(1 - p, 1 / (1 + n)) / n
    between = spread_of_rows(((own - prior) ** 2).sum(axis=-1)[counted], errors[counted], 1.0)
    kept = shares_kept(between, errors, counted)
    return Laws(on_simplex(prior + kept[..., None] * (own - prior)), prior, kept, n, noise, between)


def _expected(laws: Laws, g: int, V: Floats, group_error: Floats) -> tuple[Floats, Floats]:
    """P V of every row of a group, and its variance."""
    P, prior, kept, n = laws.probabilities[g], laws.prior[g], laws.kept[g], laws.counts[g]
    span = float(V.max() - V.min())
    mean, before = P @ V, prior @ V
    variance = np.maximum(P @ (V * V) - mean**2, 0.0)
    errors = laws.noise[g] * ((V - mean[..., None]) ** 2).sum(axis=-1) / n**2
    errors = errors + (n * variance + span**2 / 4) / (n * (n + 1))
    differ = np.maximum(1 - (prior**2).sum(axis=-1), _LEAST_SPREAD)
    between = laws.spread * np.maximum(prior @ (V * V) - before**2, 0.0) / differ
    total = kept**2 * errors + (1 - kept) ** 2 * (between + group_error)
    return mean, np.minimum(total, span**2 / 4)

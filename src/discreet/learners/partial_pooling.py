r"""What other steps tell about a row: laws per step are learned together as far as they look alike.

With laws per step every row (step, state, action) has counts of its own, H times as many rows as with pooled steps, and
each with as much noise. Laws may differ from step to step, but often they hardly do. How much they do shows in a
release, so a row may borrow visits from the same state and action at other steps: all of them where laws look the same,
next to none where they do not. For the average x_i of row i (its reward, or its successors as a vector), of n_i visits,

    e_i^2    = s^2 / n_i + (variance of the noise in x_i),               s^2 the variance of one visit
    p_i      = mean of x_j over the same pair at other steps j, with weights w_j = 1 / (T_j + e_j^2);   W_i = sum of w_j
    d_i^2    = |x_i - p_i|^2, which has mean T + E_i for rows that differ with variance T,        E_i = e_i^2 + 1 / W_i
    T        = sum of q_i^2 (d_i^2 - E_i) / sum of q_i^2  over all rows, 0 if negative;   q_i = 1 / (T + E_i)
    T_i      = max(T + 3 sqrt(2 / sum of q_i^2),  d_i^2 - 9 E_i),        at most 1/4 (rewards) or 1 (successors)

T is a moment estimate that weighs rows as maximum likelihood would for normal errors, and its standard error is added
three times: rows differ as much as they may, by what is known, and at the start nobody borrows. A row more than three
deviations away from the others believes itself, whatever all others do. If the rows of a pair are draws with variance
T_i around a common mean, then other steps say as much about row i as this many of its own visits, with mean p_i:

    b_i      = n_i e_i^2 W_i / (1 + T_i W_i),        but at most 10 (n_i + deviation of the noise in n_i),

W_i n_i e_i^2 (without noise: all visits of the pair) if T_i is 0, s^2 / T_i if others know everything. No visit counts
more than once. The second bound makes a row that was hardly tried itself stay interesting. The sums and counts that
are returned are those of the row plus the borrowed ones, with the noise that is then in them; whatever is done with a
release can be done with them. T and T_i are found together in four rounds from T = 0 (of two steps, by half of the
way). The variance of one visit is sum_t p_t (1 - p_t) for successors, by the shares of the pair over all steps.

**Rewards in a range** (:func:`borrowed`; heavy tails have their own,
:mod:`discreet.problems.heavy_tails.learners`). The variance of one visit is 1/4. Three things keep a learner from
taking a good step for one like the others, because noise hid it: a reward above that of the other steps believes itself
from one deviation on (E_i in place of 9 E_i above); b_i is at most 20 s^2 / T_i, because visits with noise are not
worth much, and so many of them would be borrowed that a row nobody has tried would seem to be known; and b_i^2 T_i is
added to the variance of the noise in the rewards.

**Formal guarantees.** Post-processing of a release. No bound on regret is proved. Without noise a row borrows at most
s^2 / T_i visits, so its own ones outweigh them in the end wherever its law differs: either T stays above zero for all
rows, or this one is soon more than three deviations away from the others.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.mechanisms.release import Estimate, Release

_ROUNDS = 4
_DOUBT = 3.0  # standard errors of T that are added to it
_APART = 9.0  # squared deviations from the others beyond which a row believes itself
_BORROWED = 10.0  # visits of other steps for one of its own, at most
_FIRST, _LEAST, _MOST = 0.1, 0.02, 4.0  # the factor f: where its search begins, and its limits
_ABOVE = 1.0  # squared deviations, for rewards in a range that are above those of other steps
_CLEAN = 20.0  # times s^2 / T: visits that rewards in a range, and successors beside them, borrow at most
_MOST_REWARD, _MOST_MOVE = 0.25, 1.0  # T of rewards and of successors, at most
_TINY = 1e-12


class Rows(NamedTuple):
    """Averages of all rows and what is known of their errors; arrays are (steps, pairs)."""

    averages: Floats  # (steps, pairs, k)
    visits: Floats  # at least one
    spread: Floats  # the variance of one visit, perhaps up to a factor
    noise: Floats  # the variance of the noise in an average
    seen: Mask  # rows that were counted above the noise

    def errors(self, factor: float) -> Floats:
        """The squared error of every average: chance and noise."""
        return factor * self.spread / self.visits + self.noise


class Differences(NamedTuple):
    """How rows of a pair differ between steps."""

    variance: Floats  # T of every row
    errors: Floats  # e^2 of every row
    factor: float  # f


class Loans(NamedTuple):
    """Row i adds ``taken[i] * lent[j]`` times what row j of the same pair has."""

    taken: Floats
    lent: Floats

    def added(self, table: Floats) -> Floats:
        """What every row borrows of a table (steps, pairs) or (steps, pairs, k)."""
        taken, lent = (f if table.ndim == 2 else f[..., None] for f in self)
        return np.asarray(taken * _others(lent * table))

    def deviation(self, deviation: Floats) -> Floats:
        """The deviation of the noise of every row together with what it borrows."""
        others = np.maximum(_others((self.lent * deviation) ** 2), 0.0)
        return np.sqrt(deviation**2 + self.taken**2 * others)


def borrowed(shape: Shape, release: Release) -> Release:
    """The release with the visits that rows borrow from other steps, for rewards in a range.

    As it is where steps are pooled, or where only a moment of rewards is bounded.
    """
    if shape.groups == 1 or shape.moments is not None:
        return release
    table, S = (shape.horizon, shape.states * shape.actions), shape.states
    visits, moves, rewards = (release[name].values for name in ("visits", "transitions", "rewards"))
    visits, moves, rewards = visits.reshape(table), moves.reshape(*table, S), rewards.reshape(table)
    visit_noise, move_noise, reward_noise = (
        np.sqrt(release[name].variance).reshape(table) for name in ("visits", "transitions", "rewards")
    )
    rows = reward_rows(visits, rewards, visit_noise, reward_noise)
    differ = differences(rows, _MOST_REWARD, above=_ABOVE)
    loans = borrow(rows, differ, visits, visit_noise, _CLEAN)
    more = loans.added(visits)
    moves, move_noise = with_moves(moves, move_noise, _CLEAN)
    counts = {
        "visits": (visits + more, loans.deviation(visit_noise) ** 2),
        "transitions": (moves, move_noise**2),
        "rewards": (
            rewards + loans.added(rewards),
            loans.deviation(reward_noise) ** 2 + np.maximum(0.0, more) ** 2 * differ.variance,
        ),
    }
    found = {
        name: Estimate(values.reshape(release[name].values.shape), variance.reshape(release[name].variance.shape))
        for name, (values, variance) in counts.items()
    }
    return replace(release, statistics={**release.statistics, **found})


def differences(rows: Rows, most: float, fitted: bool = False, above: float = _APART) -> Differences:
    """T of every row; ``fitted``: the variance of one visit is known up to a factor, which is found with it.

    A single average that is above those of the other steps believes itself beyond ``above`` squared deviations.
    """
    factor, T, common = (_FIRST if fitted else 1.0), np.zeros(rows.visits.shape), 0.0
    for _ in range(_ROUNDS):
        errors = rows.errors(factor)
        total, away = _compared(rows, T, errors)
        squares = (away**2).sum(axis=-1)
        compared = rows.seen & (total > 0)
        if not compared.any():
            return Differences(np.full(T.shape, most), errors, factor)
        both = errors + 1 / np.maximum(total, _TINY)
        weights = np.where(compared, 1 / (common + both), 0.0) ** 2
        found = max(0.0, float((weights * (squares - both)).sum() / weights.sum()))
        # Of two steps each is all that the other is compared with: E has T once more, and rounds would swing for ever.
        common = found if len(T) > 2 else (common + found) / 2
        doubt = _DOUBT * math.sqrt(2 / float(weights.sum()))
        apart = np.where((away > 0).all(axis=-1), above, _APART)
        T = np.where(compared, np.maximum(common + doubt, squares - apart * both), common + doubt)
        T = np.minimum(T, most)
        if fitted:
            few = compared & (rows.visits <= np.median(rows.visits[compared]))
            one = rows.spread / rows.visits
            factor = float(np.mean(((squares - common - both + factor * one) / one)[few]))
            factor = min(_MOST, max(_LEAST, factor))
    return Differences(T, rows.errors(factor), factor)


def borrow(rows: Rows, differ: Differences, counts: Floats, deviation: Floats, clean: float = math.inf) -> Loans:
    """How much every row takes from other steps; ``counts`` are its own, with noise of this deviation.

    At most ``clean`` times as many visits as others would be worth without noise.
    """
    T, errors = differ.variance, differ.errors
    weights = _weights(rows, T, errors)
    lent = weights / rows.visits
    taken = rows.visits * errors / (1 + T * _others(weights))
    taken = np.minimum(taken, 1 / np.maximum(lent.max(axis=0), _TINY))  # no visit counts more than once
    there, limit = _others(lent * counts), _BORROWED * (np.maximum(counts, 0.0) + deviation)
    limit = np.minimum(limit, clean * differ.factor * rows.spread / np.maximum(T, _TINY))
    return Loans(np.where(there > 0, np.minimum(taken, limit / np.maximum(there, _TINY)), 0.0), lent)


def reward_rows(visits: Floats, rewards: Floats, visit_noise: Floats, reward_noise: Floats) -> Rows:
    """Mean rewards of all rows (steps, pairs), in units of a range."""
    n = np.maximum(1.0, visits)
    average = rewards / n
    noise = (reward_noise**2 + (np.clip(average, 0.0, 1.0) * visit_noise) ** 2) / n**2
    return Rows(average[..., None], n, np.full(n.shape, 0.25), noise, visits >= 0.5 + visit_noise)


def with_moves(counts: Floats, deviation: Floats, clean: float = math.inf) -> tuple[Floats, Floats]:
    """Counts of successors (steps, pairs, S) with what rows borrow, and the deviation of the noise in one of them."""
    counts, deviation = counts.copy(), deviation.copy()
    if len(counts) > 2:  # nothing follows the last step
        rows = _move_rows(counts[:-1], deviation[:-1])
        total = math.sqrt(counts.shape[2]) * deviation[:-1]
        loans = borrow(rows, differences(rows, _MOST_MOVE), counts[:-1].sum(axis=2), total, clean)
        counts[:-1] += loans.added(counts[:-1])
        deviation[:-1] = loans.deviation(deviation[:-1])
    return counts, deviation


def _others(table: Floats) -> Floats:
    """Sums over the other steps."""
    return np.asarray(table.sum(axis=0) - table)


def _weights(rows: Rows, T: Floats, errors: Floats) -> Floats:
    return np.where(rows.seen, 1 / (T + errors), 0.0)


def _compared(rows: Rows, T: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """W of every row, zero if no other step was seen, and how far it is from the others."""
    weights = _weights(rows, T, errors)
    total = np.where((rows.seen.sum(axis=0) - rows.seen) > 0, _others(weights), 0.0)
    others = _others(weights[..., None] * rows.averages) / np.maximum(total, _TINY)[..., None]
    return total, np.asarray(rows.averages - others)


def _move_rows(counts: Floats, deviation: Floats) -> Rows:
    """Shares of successors."""
    S, moves = counts.shape[2], counts.sum(axis=2)
    n = np.maximum(1.0, moves)
    pooled = np.maximum(counts, 0.0).sum(axis=0)
    total = np.maximum(1.0, pooled.sum(axis=1))
    # Pairs of few moves look surer than they are.
    spread = np.maximum(1 - ((pooled / total[:, None]) ** 2).sum(axis=1), 1 / (1 + total))
    noise = S * deviation**2 / n**2
    seen = moves >= 0.5 + math.sqrt(S) * deviation
    return Rows(counts / n[..., None], n, np.broadcast_to(spread, n.shape), noise, seen)

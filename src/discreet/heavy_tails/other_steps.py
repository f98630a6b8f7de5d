r"""What other steps tell about a row: laws per step are learned together as far as they look alike.

With laws per step every row (step, state, action) has counts of its own, H times as many rows as with pooled steps, and
rewards with heavy tails need many visits of each. Laws may differ from step to step, but often they hardly do. How much
they do shows in a release, so a row may borrow visits from the same state and action at other steps: all of them where
laws look the same, next to none where they do not. For the average x_i of row i (its reward, or its successors as a
vector), of n_i visits,

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
release can be done with them.

**The variance of one visit** is sum_t p_t (1 - p_t) for successors, by the shares of the pair over all steps. For
clipped rewards it is known up to a factor f only, s^2 = f D with D = u B^(1-v) in units of the range of means, at
least 0.05 (0.25 where nothing was clipped). f is the number with

    mean of (d_i^2 - T - E_i + f D / n_i) / (D / n_i) = f      over the half of the rows with fewest visits,

where what one visit does matters most and T least; it lies in [0.02, 4]. (Stable rewards: about .1 at alpha = 1.2, .35
at 1.8.) T, T_i and f are found together in four rounds from T = 0 and f = .1 (of two steps, by half of the way).

**Formal guarantees.** Post-processing of a release. No bound on regret is proved. Without noise a row borrows at most
s^2 / T_i visits, so its own ones outweigh them in the end wherever its law differs: either T stays above zero for all
rows, or this one is soon more than three deviations away from the others.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.heavy_tails.theory import moments_or_range
from discreet.learners.base import as_statistics
from discreet.release import Release, Statistics
from discreet.shape import Shape
from discreet.types import Floats, Mask

_ROUNDS = 4
_DOUBT = 3.0  # standard errors of T that are added to it
_APART = 9.0  # squared deviations from the others beyond which a row believes itself
_BORROWED = 10.0  # visits of other steps for one of its own, at most
_FIRST, _LEAST, _MOST = 0.1, 0.02, 4.0  # the factor f: where its search begins, and its limits
_SMALLEST_SPREAD = 0.05  # of a reward in units of the range of means, squared
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


def with_other_steps(shape: Shape, release: Release) -> Statistics:
    """The statistics of a release, every row with the visits that it borrows; as they are where steps are pooled."""
    statistics = as_statistics(release)
    if shape.groups == 1:
        return statistics
    steps = (shape.horizon, shape.states * shape.actions)
    moves, per_move = _with_moves(statistics, steps)
    visits, rewards = statistics.visits.reshape(steps), statistics.rewards.reshape(steps)
    visit_noise, reward_noise = statistics.visit_noise.reshape(steps), statistics.reward_noise.reshape(steps)
    rows = _reward_rows(shape, release, visits, rewards, visit_noise, reward_noise)
    loans = borrow(rows, differences(rows, most=0.25, fitted=True), visits, visit_noise)
    return Statistics(
        visits=(visits + loans.added(visits)).reshape(-1),
        transitions=moves,
        rewards=(rewards + loans.added(rewards)).reshape(-1),
        visit_noise=loans.deviation(visit_noise).reshape(-1),
        transition_noise=per_move,
        reward_noise=loans.deviation(reward_noise).reshape(-1),
    )


def differences(rows: Rows, most: float, fitted: bool) -> Differences:
    """T of every row; ``fitted``: the variance of one visit is known up to a factor, which is found with it."""
    factor, T, common = (_FIRST if fitted else 1.0), np.zeros(rows.visits.shape), 0.0
    for _ in range(_ROUNDS):
        errors = rows.errors(factor)
        total, squares = _compared(rows, T, errors)
        compared = rows.seen & (total > 0)
        if not compared.any():
            return Differences(np.full(T.shape, most), errors, factor)
        both = errors + 1 / np.maximum(total, _TINY)
        weights = np.where(compared, 1 / (common + both), 0.0) ** 2
        found = max(0.0, float((weights * (squares - both)).sum() / weights.sum()))
        # Of two steps each is all that the other is compared with: E has T once more, and rounds would swing for ever.
        common = found if len(T) > 2 else (common + found) / 2
        doubt = _DOUBT * math.sqrt(2 / float(weights.sum()))
        T = np.where(compared, np.maximum(common + doubt, squares - _APART * both), common + doubt)
        T = np.minimum(T, most)
        if fitted:
            few = compared & (rows.visits <= np.median(rows.visits[compared]))
            one = rows.spread / rows.visits
            factor = float(np.mean(((squares - common - both + factor * one) / one)[few]))
            factor = min(_MOST, max(_LEAST, factor))
    return Differences(T, rows.errors(factor), factor)


def borrow(rows: Rows, differ: Differences, counts: Floats, deviation: Floats) -> Loans:
    """How much every row takes from other steps; ``counts`` are its own, with noise of this deviation."""
    T, errors = differ.variance, differ.errors
    weights = _weights(rows, T, errors)
    lent = weights / rows.visits
    taken = rows.visits * errors / (1 + T * _others(weights))
    taken = np.minimum(taken, 1 / np.maximum(lent.max(axis=0), _TINY))  # no visit counts more than once
    there, limit = _others(lent * counts), _BORROWED * (np.maximum(counts, 0.0) + deviation)
    return Loans(np.where(there > 0, np.minimum(taken, limit / np.maximum(there, _TINY)), 0.0), lent)


def _others(table: Floats) -> Floats:
    """Sums over the other steps."""
    return np.asarray(table.sum(axis=0) - table)


def _weights(rows: Rows, T: Floats, errors: Floats) -> Floats:
    return np.where(rows.seen, 1 / (T + errors), 0.0)


def _compared(rows: Rows, T: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """W of every row, zero if no other step was seen, and its squared distance from the others."""
    weights = _weights(rows, T, errors)
    total = np.where((rows.seen.sum(axis=0) - rows.seen) > 0, _others(weights), 0.0)
    others = _others(weights[..., None] * rows.averages) / np.maximum(total, _TINY)[..., None]
    return total, np.asarray(((rows.averages - others) ** 2).sum(axis=-1))


def _reward_rows(
    shape: Shape, release: Release, visits: Floats, rewards: Floats, visit_noise: Floats, reward_noise: Floats
) -> Rows:
    """Mean rewards in units of the range of means."""
    n, public = np.maximum(1.0, visits), release.public
    average = rewards / n
    noise = (reward_noise**2 + (np.clip(average, 0.0, 1.0) * visit_noise) ** 2) / n**2
    if "variance_per_visit" in public:
        noise = noise + public["variance_per_visit"].reshape(n.shape) / n
    spread = np.full(n.shape, 0.25)
    if "thresholds" in public:
        moments, B = moments_or_range(shape), public["thresholds"].reshape(n.shape)
        spread = np.maximum(_SMALLEST_SPREAD, moments.bound * B ** (1 - moments.order) / shape.reward_span**2)
    return Rows(average[..., None], n, spread, noise, visits >= 0.5 + visit_noise)


def _with_moves(statistics: Statistics, steps: tuple[int, int]) -> tuple[Floats, Floats]:
    """Counts of successors (S, rows) with what rows borrow, and the deviation of the noise in one of them."""
    S = len(statistics.transitions)
    counts = statistics.transitions.reshape(S, *steps).transpose(1, 2, 0).copy()
    deviation = statistics.transition_noise.reshape(steps).copy()
    if steps[0] > 2:  # nothing follows the last step
        rows = _move_rows(counts[:-1], deviation[:-1])
        total = math.sqrt(S) * deviation[:-1]
        loans = borrow(rows, differences(rows, most=1.0, fitted=False), counts[:-1].sum(axis=2), total)
        counts[:-1] += loans.added(counts[:-1])
        deviation[:-1] = loans.deviation(deviation[:-1])
    return np.ascontiguousarray(counts.transpose(2, 0, 1).reshape(S, -1)), deviation.reshape(-1)


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

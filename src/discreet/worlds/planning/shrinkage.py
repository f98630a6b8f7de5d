"""Noisy averages drawn towards what is known of many rows: how far is decided by the noise itself.

A row (a state, or a state and an action) has an average x_i with an error of known variance e_i^2, from noise and from
sampling, and a prior p_i: the average of a larger group that it belongs to. If rows differ from their priors with
variance T, the best linear guess and its mean squared error are

    p_i + k_i (x_i - p_i),   k_i = T / (T + e_i^2),   k_i^2 e_i^2 + (1 - k_i)^2 T.

T is estimated from all rows at once, as the T at which the squares of (x_i - p_i) / sqrt(T + e_i^2) average to one
(Paule and Mandel 1982; 0 if they average to less at T = 0). So a row that noise has swallowed says what its group
says, a row that was well counted says what it showed, and no constant has to be chosen. All of it is post-processing.

**Without a group**: numbers y_i = mu_i + noise of known variance e_i, whose truths mu_i differ by a variance T around
a common mean. The best guess of mu_i draws y_i to the mean as far as its noise asks for:

    mean + l_i (y_i - mean),    l_i = T / (T + e_i),    mean weighted by 1 / (T + e_i),    error l_i e_i.

T is read off the numbers (Paule and Mandel 1982): it solves sum (y_i - mean)^2 / (T + e_i) = f, whose left side falls
in T and is f, the degrees of freedom, on average at the truth. Numbers with little noise count for more, so a few that
are well known do not hide that the others differ. ``least`` is a T below which nobody believes in it: where noise is
larger than the signal, T is as often found to be 0 as not, and a learner that takes all for equal stops looking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from discreet.base.types import Floats, Integers, Mask
from discreet.worlds.planning.count_projection import project_counts

_HALVINGS = 40
_SMALLEST = 1e-12


def spread_of_rows(squares: Floats, errors: Floats, most: float) -> float:
    """T, between 0 and ``most``: by how much rows differ beyond their errors.

    >>> round(spread_of_rows(np.array([0.04, 0.04]), np.array([0.01, 0.01]), 1.0), 6)
    0.03
    """
    if not squares.size:
        return most
    floor = np.maximum(errors, _SMALLEST)
    low, high = 0.0, most
    if float(np.mean(squares / floor)) <= 1.0:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if float(np.mean(squares / (middle + floor))) > 1.0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def shares_kept(spread: float, errors: Floats, counted: Mask) -> Floats:
    """k: how much of a row's own average is kept; nothing of one that was not counted."""
    return np.where(counted, spread / np.maximum(spread + errors, _SMALLEST), 0.0)


def on_simplex(shares: Floats) -> Floats:
    """Rows (last axis) as distributions: their nearest ones."""
    rows = project_counts(shares, np.ones(shares.shape[:-1]), 0.0)
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def behaviour_shares(visits: Floats, variance: Floats) -> Floats:
    """What users did, (groups, states, actions), from noisy visits and the variance of the noise in them.

    Shares of the actions that were counted above one deviation of the noise; where none was, the one counted most.
    These are not drawn towards anything: the value of a policy is linear in what it does in one state, so errors with
    mean zero cost nothing on average, and a share that is drawn towards even ones does.
    """
    counted = np.where(visits > np.sqrt(variance), np.maximum(visits, 0.0), 0.0)
    total = counted.sum(axis=2, keepdims=True)
    most = np.arange(visits.shape[2]) == visits.argmax(axis=2)[:, :, None]
    return np.where(total > 0, counted / np.where(total > 0, total, 1.0), most)


_TINY = 1e-15


class Shrunk(NamedTuple):
    """Numbers drawn to their mean, and the variance of the error that is left in each."""

    values: Floats
    errors: Floats


def signal_variance(excess: Callable[[float], float], freedom: float, most: float) -> float:
    """The T, at most ``most``, at which the weighted squares ``excess(T)`` are ``freedom``; 0 if they never are.

    >>> round(signal_variance(lambda T: 10 * 5.0 / (1.0 + T), 10, most=100.0), 6)
    4.0
    """
    if freedom <= 0 or excess(0.0) <= freedom:
        return 0.0
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > freedom else (low, middle)
    return high


def shrink_rows(values: Floats, errors: Floats) -> Shrunk:
    """Rows (n, k), each with one error variance for its k entries, drawn to the mean row; vectors (n,) likewise."""
    rows = values.reshape(len(values), -1)
    errors = errors + _TINY

    def mean(T: float) -> Floats:
        weight = 1 / (errors + T)
        return np.asarray((rows * weight[:, None]).sum(axis=0) / weight.sum())

    def excess(T: float) -> float:
        return float((((rows - mean(T)) ** 2).sum(axis=1) / (errors + T)).sum())

    freedom = (len(rows) - 1) * rows.shape[1]
    T = signal_variance(excess, freedom, _TINY + float(((rows - rows.mean(axis=0)) ** 2).sum()))
    share = T / (T + errors)
    centre = mean(T)
    return Shrunk((centre + share[:, None] * (rows - centre)).reshape(values.shape), share * errors)


def shrink_nested(values: Floats, errors: Floats, group: Integers, least: float = 0.0) -> Shrunk:
    """Numbers (n, k) drawn to the mean of their row, and these means to that of the rows of the same ``group`` (n,).

    Both variances are of all rows together, whatever their group: few numbers say little about a variance. That of
    the numbers in a row is at least ``least``. Errors are those of differences in a row: what all numbers of a row
    share is left out.
    """
    errors = errors + _TINY
    n, k = values.shape

    def row_means(T: float) -> tuple[Floats, Floats]:
        weight = 1 / (errors + T)
        return (values * weight).sum(axis=1) / weight.sum(axis=1), 1 / weight.sum(axis=1)

    def within(T: float) -> float:
        return float(((values - row_means(T)[0][:, None]) ** 2 / (errors + T)).sum())

    between_entries = max(least, signal_variance(within, n * (k - 1), 1.0 + float(np.ptp(values)) ** 2))
    means, spread = row_means(between_entries)

    def group_means(T: float) -> Floats:
        weight = 1 / (spread + T)
        return np.asarray((np.bincount(group, weight * means) / np.bincount(group, weight))[group])

    def across(T: float) -> float:
        return float(((means - group_means(T)) ** 2 / (spread + T)).sum())

    between_rows = signal_variance(across, n - len(np.unique(group)), 1.0 + float(np.ptp(means)) ** 2)
    share = between_rows / (between_rows + spread)
    drawn = group_means(between_rows)
    drawn += share * (means - drawn)
    own = between_entries / (between_entries + errors)
    return Shrunk(own * values + (1 - own) * drawn[:, None], own * errors)


def onto_simplex(rows: Floats) -> Floats:
    """The nearest probability distributions to rows (n, k).

    >>> onto_simplex(np.array([[0.9, 0.3, -0.2]])).round(2).tolist()
    [[0.8, 0.2, 0.0]]
    """
    falling = -np.sort(-rows, axis=1)
    surplus = np.cumsum(falling, axis=1) - 1
    kept = (falling * np.arange(1, rows.shape[1] + 1) > surplus).sum(axis=1)
    cut = surplus[np.arange(len(rows)), kept - 1] / kept
    return np.asarray(np.maximum(rows - cut[:, None], 0.0))

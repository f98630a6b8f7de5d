r"""Noisy averages drawn towards what is known of many rows: how far is decided by the noise itself.

A row (a state, or a state and an action) has an average x_i with an error of known variance e_i^2, from noise and from
sampling, and a prior p_i: the average of a larger group that it belongs to. If rows differ from their priors with
variance T, the best linear guess and its mean squared error are

    p_i + k_i (x_i - p_i),   k_i = T / (T + e_i^2),   k_i^2 e_i^2 + (1 - k_i)^2 T.

T is estimated from all rows at once, as the T at which the squares of (x_i - p_i) / sqrt(T + e_i^2) average to one
(Paule and Mandel 1982; 0 if they average to less at T = 0). So a row that noise has swallowed says what its group
says, a row that was well counted says what it showed, and no constant has to be chosen. All of it is post-processing.
"""

from __future__ import annotations

import numpy as np

from discreet.base.types import Floats, Mask
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

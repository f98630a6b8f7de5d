r"""Means that may drift, seen in noisy sums now and then: where each stands, and what they add up to over time.

A mean l_b of block b moves by steps of variance d from block to block (a random walk). A block of m users shows

    y_b = n_b l_b + noise of variance v_b,

with n_b of them (0 shows nothing). Wanted are l_b and its sum over all users so far, S_b = m_1 l_1 + ... + m_b l_b, as
their best guesses from everything seen until now. Past levels are guessed from later sums, too: the pair (l_b, S_b) is
the state of a Kalman filter, so nothing has to be kept or gone through again. A mean that is not looked at keeps its
level, and the variance of its sum grows with the third power of the time that nobody looked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.base.types import Floats

_TINY = 1e-12


class Tracked(NamedTuple):
    """Best guesses of levels and of their sums over users, with variances; arrays of one shape."""

    level: Floats
    total: Floats
    level_variance: Floats
    covariance: Floats
    total_variance: Floats
    blocks: int = 0


def untracked(shape: tuple[int, ...], level: float, variance: float) -> Tracked:
    """Before any block: every level is guessed, with this variance."""
    nothing = np.zeros(shape)
    return Tracked(np.full(shape, level), nothing, np.full(shape, variance), nothing, nothing)


def track(before: Tracked, users: float, drift: float, seen: Floats, among: Floats, noise: Floats) -> Tracked:
    """After one more block of ``users``, of whom ``among`` showed the sums ``seen`` with noise of this variance.

    ``drift`` is the variance of the step from the last block to this one.
    """
    level_variance = before.level_variance + (drift if before.blocks else 0.0)
    surprise = seen - among * before.level
    variance = among**2 * level_variance + noise + _TINY
    gain, gain_of_total = among * level_variance / variance, among * before.covariance / variance
    level, total = before.level + gain * surprise, before.total + gain_of_total * surprise
    total_variance = before.total_variance - gain_of_total * among * before.covariance
    covariance = before.covariance * (1 - gain * among)
    level_variance = level_variance * (1 - gain * among)
    return Tracked(
        level=level,
        total=total + users * level,
        level_variance=level_variance,
        covariance=covariance + users * level_variance,
        total_variance=total_variance + 2 * users * covariance + users**2 * level_variance,
        blocks=before.blocks + 1,
    )

r"""Regret in the local model, as proved: the bound of Theorem 5 on LDP-OBI as a function of the number of users.

Garcelon, Perchet, Pike-Burke, Pirotta (2021). The theorem hides its constants; the proof (appendix D) has them. With T
= K H steps, failure probability f, the knob alpha of the algorithm, and bounds c1, ..., c4 on the noise in rewards,
visits, transitions of a pair and of a triple after K users, each taken with probability 3 f / (2 pi^2 K^2), and l =
ln(14 S A T / f),

    regret <= (H sqrt(46 S l) + sqrt(6 l)) (sqrt(2 S A T) + H S A)
              + 2 S A H ((alpha + 1) c3 + S c4) (ln(2 S A T) + H)
              + 2 S A ((alpha + 1) c2 + c1) (ln(2 S A T) + H)  +  2 H sqrt(T ln(2 / f)).

For Laplace noise of scale b = 6 H / epsilon (Theorem 7), with d the probability above,

    c1 = c2 = max(sqrt K, l1) sqrt(8 l1) b,   l1 = ln(6 S A / d),      c4 the same with l2 = ln(6 S^2 A / d),
    c3 = max(sqrt(K S), l2) sqrt(8 l2) b.

The lower bound of the local model, Theorem 2, is :func:`discreet.worlds.hard_local_bound`.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import ArrayLike, Floats
from discreet.base.validation import check_open_unit, check_positive


def obi_regret_bound(
    shape: Shape, epsilon: float, episodes: ArrayLike, *, failure_probability: float = 0.1, alpha: float = 2.0
) -> Floats:
    """At most this much regret, but with the failure probability, for LDP-OBI with Laplace noise of scale 6H/epsilon.

    More than H per episode, which nobody can lose, is no statement at all:

    >>> from discreet.base.shape import Shape
    >>> small = Shape(2, 2, 2, homogeneous=True)
    >>> [float(f"{obi_regret_bound(small, 20.0, K) / K:.2g}") for K in (10**6, 10**8, 10**10)]
    [25.0, 3.5, 0.46]
    """
    check_positive("epsilon", epsilon)
    check_open_unit("failure_probability", failure_probability)
    check_positive("alpha - 1", alpha - 1)
    S, A, H = shape.states, shape.actions, shape.horizon
    K = np.asarray(episodes, np.float64)
    T, scale = K * H, 6 * H / epsilon
    d = 3 * failure_probability / (2 * math.pi**2 * K**2)
    one, many = np.log(6 * S * A / d), np.log(6 * S * S * A / d)
    pair = np.maximum(np.sqrt(K), one) * np.sqrt(8 * one) * scale
    triple = np.maximum(np.sqrt(K), many) * np.sqrt(8 * many) * scale
    row = np.maximum(np.sqrt(K * S), many) * np.sqrt(8 * many) * scale
    level, times = np.log(14 * S * A * T / failure_probability), np.log(2 * S * A * T) + H
    statistical = (H * np.sqrt(46 * S * level) + np.sqrt(6 * level)) * (np.sqrt(2 * S * A * T) + H * S * A)
    transitions = 2 * S * A * H * ((alpha + 1) * row + S * triple) * times
    rewards = 2 * S * A * ((alpha + 1) * pair + pair) * times
    return np.asarray(statistical + transitions + rewards + 2 * H * np.sqrt(T * math.log(2 / failure_probability)))

"""Heavy-tailed rewards, as printed: trees over visits, transitions and truncated rewards."""

from __future__ import annotations

import math

import numpy as np

from discreet.audit.cases import Setting
from discreet.noise import Laplace
from discreet.papers.mechanism import FACTOR_TWO, Part, Published, levels_of, needs_epsilon, steps_of

_PAPER = "Wu, Zhou, Chowdhury, Wang, heavy-tailed rewards"


def _heavy_tailed(setting: Setting, log: float, levels: int) -> tuple[Part, ...]:
    H, epsilon = setting.shape.horizon, needs_epsilon(setting)
    moves = steps_of(setting, levels)
    return (
        Part("visits", Laplace(3 * H * log / epsilon), moves),
        Part("transitions", Laplace(3 * H * log / epsilon), moves),
        Part("clipped rewards, in units of their thresholds", Laplace(6 * H * log / epsilon), moves),
    )


def _heavy_tailed_central(setting: Setting) -> tuple[Part, ...]:
    return _heavy_tailed(setting, math.log2(setting.episodes), levels_of(setting))


def _heavy_tailed_natural(setting: Setting) -> tuple[Part, ...]:
    return _heavy_tailed(setting, math.log(setting.episodes), levels_of(setting))


def _heavy_tailed_local(setting: Setting) -> tuple[Part, ...]:
    return _heavy_tailed(setting, 1.0, 1)


def raw_count_loss(users: int, exponent: float = 0.5) -> float:
    """A privacy loss that reward truncation at raw visit counts reaches, in units of the claimed epsilon.

    One cell, H = 1, thresholds B_n proportional to n^exponent. User 1 visits the cell or does not. Every later user j
    brings the reward B_(j-1): with user 1 her count is j - 1 and the reward is kept; without, the threshold is B_(j-2)
    and it is dropped. So every later leaf differs, and the node that closes at t, with noise of scale 6 B_t L, moves by
    the sum of the thresholds below it.
    """
    levels = users.bit_length()
    thresholds = np.arange(users + 1, dtype=np.float64) ** exponent
    total = 0.0
    for t in range(1, users + 1):
        shift = thresholds[t - (t & -t) : t].sum()
        total += shift / (6 * thresholds[t] * levels)
    return float(total)


_CENTRAL = Published(
    "published/heavy-tailed-central",
    _PAPER,
    "central",
    "epsilon",
    "Lap(3 H log2(K)/eps) on visits and transitions, Lap(6 B H log2(K)/eps) on clipped rewards, per tree node",
    f"{FACTOR_TWO}; a leaf is in L = floor(log2(K-1))+1 nodes, not log K: (5/3) eps L / log2(K) in all",
    "Lap(6 H L/eps) on both count tables, or Lap(3 H L/eps) on transitions alone with visits derived",
    _heavy_tailed_central,
)

ENTRIES = (
    _CENTRAL,
    Published(
        "published/heavy-tailed-central-natural-log",
        _PAPER,
        "central",
        "epsilon",
        "the same with log read as the natural logarithm",
        f"{FACTOR_TWO}; ln K is about 0.69 log2 K: (5/3) eps L / ln(K)",
        "as above",
        _heavy_tailed_natural,
    ),
    Published(
        "published/heavy-tailed-central-raw-counts",
        _PAPER,
        "central",
        "epsilon",
        "the same, with truncation thresholds B_n that follow the raw number n of visits",
        "one visit moves the thresholds of every later user, so the loss grows with their number, without bound",
        "thresholds from released counts (running maximum) or from the episode's index",
        _heavy_tailed_central,
        unbounded="raw visit counts choose the truncation thresholds: replacing one user changes what every later "
        "user contributes, and the loss grows in proportion to their number",
        apart=_CENTRAL,
    ),
    Published(
        "published/heavy-tailed-local",
        _PAPER,
        "local",
        "epsilon",
        "Lap(3 H/eps) on visits and transitions, Lap(6 H B/eps) on clipped rewards, every user",
        f"{FACTOR_TWO}: (5/3) eps; the thresholds need raw counts that nobody holds in the local model",
        "Lap(6 H/eps) on both count tables; thresholds from released counts",
        _heavy_tailed_local,
    ),
)

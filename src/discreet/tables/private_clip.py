"""``clip="auto"``: a tenth of epsilon buys the interval that outcomes are clipped to, so a wide range costs little.

A noisy histogram on a public logarithmic grid (:mod:`discreet.mechanisms.counts.outcome_histogram`) shows where more
people are than noise explains: bins above three deviations of it. Outcomes beyond the outermost of these, or nearer to
zero than the innermost and one more, are moved to the ends. What is estimated is then the mean of *clipped* outcomes,
and that is what is said; how many people lie outside, by the noisy counts, is said beside it. Both releases are about
everybody and are composed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import uniform_policy
from discreet.base.types import Floats
from discreet.mechanisms.counts.encoder import Context, check_tally
from discreet.mechanisms.counts.outcome_histogram import SIDE, OutcomeHistogram
from discreet.mechanisms.sums.accumulator import NoiseSource, noisy
from discreet.noise import DiscreteLaplace
from discreet.privacy.guarantee import Guarantee, about, compose, drawn, from_mechanism
from discreet.tables.read.table import Table, TableUsers

SHARE = 0.1  # of epsilon
_REST = 0.8999  # profiles are composed numerically, and err to the safe side
_DEVIATIONS = 3.0


class Clipped(NamedTuple):
    """A table whose outcomes are clipped, what that cost, and what is said of it."""

    data: Table
    guarantee: Guarantee
    words: str


def epsilon_left(epsilon: float) -> float:
    """What is left of epsilon for the table."""
    return _REST * epsilon


def check_clip(clip: str, data: Table, refused: dict[str, bool]) -> None:
    """Refuse, before anything is spent, what cannot be clipped, and options that do not go with it yet."""
    if clip != "auto":
        raise InvalidInput(f'clip is "auto", got {clip!r}: an interval of your own is declared as rewards=(low, high)')
    if data.shape.horizon > 1 or data.declaration.per_user > 1:
        raise Unsupported('clip="auto" is for one record of one step of every user: declare a narrower rewards=')
    for name, given in refused.items():
        if given:
            raise Unsupported(f'clip="auto" does not go with {name}: leave it out, or declare a narrower rewards=')


def bought_clip(data: Table, epsilon: float, users: int, noise: NoiseSource) -> Clipped:
    """Buy the interval with its share of epsilon; the table that clips to it."""
    encoder = OutcomeHistogram(data.shape)
    (tally,) = TableUsers(data).tally([encoder], Context(uniform_policy(data.shape)), users)
    check_tally(encoder, tally, users)
    law = DiscreteLaplace(encoder.sensitivity().l1 / (SHARE * epsilon))
    counts = noisy(tally, law, 1, noise)
    low, high = interval_of(encoder, counts, math.sqrt(law.variance))
    promise = from_mechanism(law, encoder.sensitivity(), delta=0.0, name=encoder.name, cells=encoder.size)
    declared = data.declaration.missing_reward
    missing = None if declared is None else min(max(declared, low), high)
    shape = replace(data.shape, rewards=(low, high))
    clipped = replace(data.declaration, shape=shape, missing_reward=missing)
    inside = _inside(encoder, low, high)
    outside, deviation = float(counts[~inside].sum()), math.sqrt(law.variance * int((~inside).sum()))
    words = (
        f"outcomes are clipped to {low:.6g} to {high:.6g}, an interval that a tenth of epsilon bought: estimates, "
        f"intervals and verdict are about clipped outcomes; about {max(round(outside), 0):,} ± "
        f"{_DEVIATIONS * deviation:,.0f} of {users:,} users lie outside"
    )
    return Clipped(Table(data.source, clipped), promise, words)


def interval_of(encoder: OutcomeHistogram, counts: Floats, deviation: float) -> tuple[float, float]:
    """The interval of the bins that noise does not explain; the declared range if there is none."""
    kept = counts > max(_DEVIATIONS * deviation, 1.0)
    (low, high), anchor, edges = encoder.shape.rewards, encoder.anchor, encoder.edges
    below, above = (np.flatnonzero(side) for side in (kept[:SIDE], kept[SIDE:]))
    if not below.size and not above.size:
        return low, high
    inner = [0.0 if side.size == 0 or side[0] < 2 else float(edges[side[0] - 2]) for side in (below, above)]
    outer = [0.0 if side.size == 0 else float(edges[side[-1]]) for side in (below, above)]
    least = anchor - outer[0] if below.size else anchor + inner[1]
    most = anchor + outer[1] if above.size else anchor - inner[0]
    return max(low, least), min(high, most)


def _inside(encoder: OutcomeHistogram, low: float, high: float) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which bins lie in the interval."""
    outer, inner = encoder.edges, np.concatenate([[0.0], encoder.edges[:-1]])
    slack, anchor = 1e-9 * encoder.shape.reward_span, encoder.anchor
    below = (anchor - outer >= low - slack) & (anchor - inner <= high + slack)
    above = (anchor + inner >= low - slack) & (anchor + outer <= high + slack)
    return np.concatenate([below | (anchor - inner <= encoder.shape.rewards[0]), above])


def of_both(clip: Guarantee, table: Guarantee, delta: float) -> Guarantee:
    """The promise of the interval and the table together."""
    whole = compose([clip, table], delta=delta, why="everybody is in the histogram that sets the clip and in the table")
    return drawn(about(whole, unit=table.unit, public=table.public), table.simulated)

r"""What other steps tell about a row whose rewards have heavy tails, which need many visits of each.

:mod:`discreet.learners.partial_pooling` says what a row borrows from the same state and action at other steps. Rewards
that were clipped differ from those in a range in one thing: the variance of one visit is known up to a factor f only,
s^2 = f D with D = u B^(1-v) in units of the range of means, at least 0.05 (0.25 where nothing was clipped). f is the
number with

    mean of (d_i^2 - T - E_i + f D / n_i) / (D / n_i) = f      over the half of the rows with fewest visits,

where what one visit does matters most and T least; it lies in [0.02, 4]. (Stable rewards: about .1 at alpha = 1.2, .35
at 1.8.) T, T_i and f are found together, from f = .1.

**Formal guarantees.** Post-processing of a release. No bound on regret is proved.
"""

from __future__ import annotations

import numpy as np

from discreet.base.shape import Shape
from discreet.learners.base import as_statistics
from discreet.learners.partial_pooling import Rows, borrow, differences, reward_rows, with_moves
from discreet.mechanisms.release import Release, Statistics
from discreet.problems.heavy_tails.theorem_bonuses import moments_or_range

_SMALLEST_SPREAD = 0.05  # of a reward in units of the range of means, squared


def with_other_steps(shape: Shape, release: Release) -> Statistics:
    """The statistics of a release, every row with the visits that it borrows; as they are where steps are pooled."""
    statistics = as_statistics(release)
    if shape.groups == 1:
        return statistics
    steps, S = (shape.horizon, shape.states * shape.actions), shape.states
    counts = statistics.transitions.reshape(S, *steps).transpose(1, 2, 0)
    moves, per_move = with_moves(counts, statistics.transition_noise.reshape(steps))
    visits, rewards = statistics.visits.reshape(steps), statistics.rewards.reshape(steps)
    visit_noise, reward_noise = statistics.visit_noise.reshape(steps), statistics.reward_noise.reshape(steps)
    rows = _heavy(shape, release, reward_rows(visits, rewards, visit_noise, reward_noise))
    loans = borrow(rows, differences(rows, most=0.25, fitted=True), visits, visit_noise)
    return Statistics(
        visits=(visits + loans.added(visits)).reshape(-1),
        transitions=np.ascontiguousarray(moves.transpose(2, 0, 1).reshape(S, -1)),
        rewards=(rewards + loans.added(rewards)).reshape(-1),
        visit_noise=loans.deviation(visit_noise).reshape(-1),
        transition_noise=per_move.reshape(-1),
        reward_noise=loans.deviation(reward_noise).reshape(-1),
    )


def _heavy(shape: Shape, release: Release, rows: Rows) -> Rows:
    """The same rows with the spread of clipped rewards, and noise that grows with visits where there is such."""
    noise, spread, public = rows.noise, rows.spread, release.public
    if "variance_per_visit" in public:
        noise = noise + public["variance_per_visit"].reshape(noise.shape) / rows.visits
    if "thresholds" in public:
        moments, B = moments_or_range(shape), public["thresholds"].reshape(noise.shape)
        spread = np.maximum(_SMALLEST_SPREAD, moments.bound * B ** (1 - moments.order) / shape.reward_span**2)
    return rows._replace(spread=spread, noise=noise)

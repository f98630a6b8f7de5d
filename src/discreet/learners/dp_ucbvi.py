r"""DP-UCBVI with its printed bonus: value iteration on repaired private counts, with the constants of its theorem.

Qiao and Wang, "Near-optimal differentially private reinforcement learning" (2023), algorithm 1, which papers on private
exploration compare themselves with. E bounds four times the noise of every released count, at all times at once. Every
row of noisy successor counts is repaired to one that could be (:mod:`discreet.worlds.planning.count_projection`, slack
E/4) and lifted: E/2 is added to its total N, evenly over successors. With P = N(s') / N, r = R / N, T = H K steps,
iota = ln(30 H S A T / beta), beta the failure probability, and N' (s') the visits of the next state at the next step,

    b   = 2 sqrt(Var_P(V) iota / N) + sqrt(2 iota / N) + 20 H S E iota / N + 4 sqrt(iota G / N)
    G   = sum over s' of P(s') min(H^2, 1000^2 (H^3 S A iota^2 / N' + H^4 S^4 A^2 E^2 iota^4 / N'^2
                                                + H^6 S^4 A^2 iota^4 / N'^2))
    Q   = min(H, r + P V + b),      V = max_a Q.

With these constants nothing is learned at the usual numbers of users: the third term alone is above H as long as
N < 20 S E iota, so all Q are H and ties are broken at random. This learner shows that; :class:`UCBVI` is the one to
use.

**Formal guarantees.** Post-processing of a release. The regret bound is the paper's, for laws per step.

**Differences from the paper.** Q is not also bounded by the Q of the episode before, which holds nothing back while the
bounds hold. E is 4 z times the largest deviation of the noise in a count, with z = sqrt(2 ln(2 (S + 2) rows K / beta))
as for a normal law, which is less than the paper's own bound. Mean rewards are cut to [0, 1], and rows that nobody
visited are worth H. The papers that compare with this one do not print its formulas; those above follow a description
of it and were not checked against its text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.streams import Stream
from discreet.base.types import Floats
from discreet.base.validation import check_open_unit
from discreet.learners.base import PlansBackwards, Problem, fill_q, prepare
from discreet.learners.ucbvi import UCBVI, UCBVIArrays
from discreet.mechanisms.release import Statistics
from discreet.worlds.planning.backward_induction import rows_of_step, sum_over_successors
from discreet.worlds.planning.count_projection import project_row


class DPUCBVIArrays(NamedTuple):
    """Constants and scratch space for one compiled run; rows are (group, state, action)."""

    groups: int
    horizon: float
    iota: float
    multiple: float  # E over the largest deviation of the noise in a count
    error: Floats  # (1,) scratch, as all that follow: E
    row: Floats  # (S,) noisy counts of one row
    counts: Floats  # (S,) the same, repaired
    total: Floats  # (rows,) N
    reward: Floats  # (rows,) r, and the parts of the bonus that do not depend on V
    successors: Floats  # (S, rows) P
    visits: Floats  # (groups, S) N'
    mean: Floats  # (S * A,) of V, and of its square, for one step
    square: Floats
    squares: Floats  # (S,)
    table: Floats  # (S, A)


@dataclass(frozen=True)
class DPUCBVI(PlansBackwards):
    """Optimistic value iteration with the printed bonus of DP-UCBVI, to compare with; it learns very slowly.

    Args:
        failure_probability: With which a bound may not hold.

    Examples:
        >>> import discreet
        >>> discreet.learners.DPUCBVI().name
        'dp-ucbvi'
    """

    failure_probability: float = 0.1
    name: ClassVar[str] = "dp-ucbvi"
    needs: ClassVar[frozenset[str]] = frozenset({"visits", "transitions", "rewards"})

    def __post_init__(self) -> None:
        check_open_unit("failure_probability", self.failure_probability)

    def arrays(self, problem: Problem) -> DPUCBVIArrays:
        """Constants and scratch space."""
        shape = problem.shape
        S, A, H, K = shape.states, shape.actions, shape.horizon, problem.episodes
        pairs, rows, beta = S * A, shape.groups * S * A, self.failure_probability
        return DPUCBVIArrays(
            groups=shape.groups,
            horizon=float(H),
            iota=math.log(30 * H * S * A * H * K / beta),
            multiple=4 * math.sqrt(2 * math.log(2 * (S + 2) * rows * K / beta)),
            error=np.zeros(1),
            row=np.zeros(S),
            counts=np.zeros(S),
            total=np.zeros(rows),
            reward=np.zeros(rows),
            successors=np.zeros((S, rows)),
            visits=np.zeros((shape.groups, S)),
            mean=np.zeros(pairs),
            square=np.zeros(pairs),
            squares=np.zeros(S),
            table=np.zeros((S, A)),
        )

    def recommending(self, problem: Problem) -> UCBVIArrays:
        """As UCBVI's: no bonus, noise counts against a row, what was not seen is worth nothing."""
        return UCBVI().recommending(problem)


@prepare.implement(DPUCBVIArrays)
def _prepare(learner: DPUCBVIArrays, statistics: Statistics, coins: Stream, H: int) -> None:
    """Repaired counts, rewards, and the bonus but for what follows."""
    total, reward, successors, visits = learner.total, learner.reward, learner.successors, learner.visits
    iota, horizon, row, counts = learner.iota, learner.horizon, learner.row, learner.counts
    S, R = statistics.transitions.shape
    A = learner.table.shape[1]
    deviation = 0.0
    for i in range(R):
        deviation = max(deviation, statistics.visit_noise[i], statistics.transition_noise[i])
    error = learner.multiple * deviation
    learner.error[0] = error
    visits[:] = 0.0
    for i in range(R):
        for t in range(S):
            row[t] = statistics.transitions[t, i]
        project_row(row, 0, S, statistics.visits[i], 0.25 * error, counts)
        found = 0.0
        for t in range(S):
            found += counts[t]
        total[i] = max(1.0, found + 0.5 * error)
        for t in range(S):
            successors[t, i] = (counts[t] + 0.5 * error / S) / total[i]
        visits[i // (S * A), i % (S * A) // A] += found + 0.5 * error
        r = min(1.0, max(0.0, statistics.rewards[i] / total[i]))
        if found + 0.5 * error < 1.0:
            r = horizon  # nobody was there
        reward[i] = r + math.sqrt(2.0 * iota / total[i]) + 20.0 * horizon * S * error * iota / total[i]


@fill_q.implement(DPUCBVIArrays)
def _fill_q(
    learner: DPUCBVIArrays, statistics: Statistics, following: Floats, h: int, left: float
) -> tuple[float, float]:
    """Q of a step, cut at H before actions are compared, as printed."""
    mean, square, squares, table = learner.mean, learner.square, learner.squares, learner.table
    S, A = table.shape
    here = rows_of_step(learner.groups, h, S * A)
    iota, H = learner.iota, learner.horizon
    sum_over_successors(learner.successors, here, following, mean)
    for t in range(S):
        squares[t] = following[t] * following[t]
    sum_over_successors(learner.successors, here, squares, square)
    # What may be missing of V, for the states of the next step.
    later = min(h + 1, int(H) - 1) if learner.groups > 1 else 0
    for t in range(S):
        n = max(1.0, learner.visits[later, t])
        worst = H**3 * S * A * iota**2 / n + (H * S) ** 4 * A**2 * iota**4 * (learner.error[0] ** 2 + H**2) / n**2
        squares[t] = min(H * H, 1e6 * worst)
    total, reward = learner.total[here], learner.reward[here]
    for i in range(S * A):
        n, missing = total[i], 0.0
        if left > 1.0:
            for t in range(S):
                missing += learner.successors[t, here.start + i] * squares[t]
        variance = max(0.0, square[i] - mean[i] * mean[i])
        bonus = 2.0 * math.sqrt(variance * iota / n) + 4.0 * math.sqrt(iota * missing / n)
        table[i // A, i % A] = min(H, reward[i] + mean[i] + bonus)
    return -np.inf, H

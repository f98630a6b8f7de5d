r"""UCBVI: plan in the estimated world with a bonus for what is uncertain, and play greedily.

Azar, Osband, Munos, "Minimax regret bounds for reinforcement learning" (2017), on private counts. For each
(group, state, action) with released counts N (visits), N(s') (transitions) and R (rewards), and sd the standard
deviation of the noise in each of them (in b the larger one, of visits or of rewards); with S states, A actions, H steps
(h counts from 0), K episodes and the failure probability,

    P(s')  proportional to  max(0, N(s') - threshold * sd_transition)
    r      = R / n  clipped to [0, 1],                  n = max(1, N)
    b      = bonus_scale * sqrt(L / n) + noise_scale * sd / n,   capped at 1,   L = ln(S A K / failure)
    Q_h    = r + (H - h) b + P V_{h+1},                 V_h = min(H - h, max_a Q_h)

**Formal guarantees.** None of the knobs touches privacy: everything here is post-processing of a release.

**Differences from the paper.** The greedy action maximises the *unclipped* Q and exact ties are broken at random with
public coins: clipping inside the argmax makes early play depend on the order of the actions. The second bonus term
and the threshold account for noise; both vanish without privacy. Scales below the theory's constants are heuristics
(the theory's bonus does not come below its cap at the usual benchmark sizes).

``bonus="bernstein"`` replaces the statistical term by sqrt(2 Var_P(V) L / n) + 7 (H - h) L / (3 n) for transitions and
the same for rewards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.compiled import fused, inlined
from discreet.errors import unknown_name
from discreet.learners.base import PlansBackwards, Problem, fill_q, prepare
from discreet.planning.backward import rows_of_step, sum_over_successors
from discreet.release import Statistics
from discreet.streams import Stream
from discreet.types import Floats
from discreet.validation import check_not_negative, check_open_unit, check_positive

BONUSES = ("hoeffding", "bernstein")


class UCBVIArrays(NamedTuple):
    """Constants and scratch space for one compiled run; rows are (group, state, action)."""

    groups: int
    bernstein: bool
    log_term: float
    bonus_scale: float
    noise_scale: float
    threshold: float
    reward: Floats  # (rows,) scratch, as all that follow
    bonus: Floats  # (rows,)
    weights: Floats  # (S, rows) counts above the noise, by successor
    inverse: Floats  # (rows,) one over their sum
    q: Floats  # (S * A,) of one step
    table: Floats  # (S, A) the same numbers
    spread: Floats  # (S * A,) variance of what one step brings


@dataclass(frozen=True)
class UCBVI(PlansBackwards):
    """Optimistic value iteration on released counts; per step or time-homogeneous, as the release is."""

    bonus: str = "hoeffding"
    bonus_scale: float = 0.05
    noise_scale: float = 0.2
    threshold: float = 1.5
    failure_probability: float = 0.1
    name: ClassVar[str] = "ucbvi"
    needs: ClassVar[frozenset[str]] = frozenset({"visits", "transitions", "rewards"})

    def __post_init__(self) -> None:
        if self.bonus not in BONUSES:
            raise unknown_name("bonus", str(self.bonus), BONUSES)
        check_positive("bonus_scale", self.bonus_scale)
        check_not_negative("noise_scale", self.noise_scale)
        check_not_negative("threshold", self.threshold)
        check_open_unit("failure_probability", self.failure_probability)

    def arrays(self, problem: Problem) -> UCBVIArrays:
        """Constants and scratch space; L does not change during a run, because K is known."""
        shape = problem.shape
        rows = shape.groups * shape.states * shape.actions
        q = np.zeros(shape.states * shape.actions)
        return UCBVIArrays(
            groups=shape.groups,
            bernstein=self.bonus == "bernstein",
            log_term=math.log(shape.states * shape.actions * problem.episodes / self.failure_probability),
            bonus_scale=self.bonus_scale,
            noise_scale=self.noise_scale,
            threshold=self.threshold,
            reward=np.zeros(rows),
            bonus=np.zeros(rows),
            weights=np.zeros((shape.states, rows)),
            inverse=np.zeros(rows),
            q=q,
            table=q.reshape(shape.states, shape.actions),
            spread=np.zeros_like(q),
        )


@prepare.implement(UCBVIArrays)
def _prepare(learner: UCBVIArrays, statistics: Statistics, coins: Stream, H: int) -> None:
    estimate_model(learner, statistics, H)


@fill_q.implement(UCBVIArrays)
def _fill_q(
    learner: UCBVIArrays, statistics: Statistics, following: Floats, h: int, left: float
) -> tuple[float, float]:
    optimistic_values(learner, statistics, following, h, left)
    return -np.inf, left


@fused
def estimate_model(learner: UCBVIArrays, statistics: Statistics, H: int) -> None:
    """Rewards, bonuses and successors of every row, into the learner's scratch space.

    Rows run innermost and nothing branches, so all of it vectorises; noise would make every branch a coin flip.
    """
    # Arrays are taken out of the tuples once, before the loops.
    reward, bonus, weights, inverse = learner.reward, learner.bonus, learner.weights, learner.inverse
    visits, visit_noise = statistics.visits, statistics.visit_noise
    rewards, reward_noise = statistics.rewards, statistics.reward_noise
    transitions, transition_noise = statistics.transitions, statistics.transition_noise
    noise_scale, threshold = learner.noise_scale, learner.threshold
    hoeffding = 0.0 if learner.bernstein else learner.bonus_scale * math.sqrt(learner.log_term)
    S, R = transitions.shape
    for row in range(R):
        inverse[row] = 0.0
    for t in range(0, S - 1, 2):  # two successors at a time: half the trips through their sum
        one, two, one_weight, two_weight = transitions[t], transitions[t + 1], weights[t], weights[t + 1]
        for row in range(R):
            cut = threshold * transition_noise[row]
            one_weight[row], two_weight[row] = max(0.0, one[row] - cut), max(0.0, two[row] - cut)
            inverse[row] += one_weight[row] + two_weight[row]
    if S % 2 == 1:
        for row in range(R):
            weights[S - 1, row] = max(0.0, transitions[S - 1, row] - threshold * transition_noise[row])
            inverse[row] += weights[S - 1, row]
    # Rows that hold counts of the last step alone have no successors to know: a visit is enough.
    last = slice(R if learner.groups < H else R - learner.q.shape[0], R)
    last_visits, last_inverse = visits[last], inverse[last]
    for i in range(last_visits.shape[0]):
        last_inverse[i] = 1.0 if last_visits[i] >= 1.0 else 0.0
    for row in range(R):
        seen, followed = max(1.0, visits[row]), max(1e-290, inverse[row])
        over_both = 1.0 / (seen * followed)  # one division for two reciprocals
        per_visit = over_both * followed
        reward[row] = min(1.0, max(0.0, rewards[row] * per_visit))
        noise = max(visit_noise[row], reward_noise[row])
        width = min(1.0, hoeffding * math.sqrt(per_visit) + noise_scale * noise * per_visit)
        # A row whose successors are all lost in the noise says nothing about the world: full optimism.
        bonus[row] = width if inverse[row] > 0.0 else 1.0
        inverse[row] = over_both * seen


@fused
def optimistic_values(learner: UCBVIArrays, statistics: Statistics, following: Floats, h: int, left: float) -> None:
    """Q of every (state, action) at step h, ``left`` steps before the end, into the learner's scratch space."""
    q, spread, weights = learner.q, learner.spread, learner.weights
    here = rows_of_step(learner.groups, h, q.shape[0])
    reward, bonus, inverse, visits = (
        learner.reward[here],
        learner.bonus[here],
        learner.inverse[here],
        statistics.visits[here],
    )
    sum_over_successors(weights, here, following, q)
    if learner.bernstein:
        for i in range(q.shape[0]):
            spread[i] = reward[i] * (1.0 - reward[i])
        for t in range(weights.shape[0]):
            weight, value = weights[t, here], following[t]
            for i in range(q.shape[0]):
                spread[i] += weight[i] * inverse[i] * (value - q[i] * inverse[i]) ** 2
    for i in range(q.shape[0]):
        q[i] = reward[i] + q[i] * inverse[i] + left * bonus[i]
    if learner.bernstein:
        for i in range(q.shape[0]):
            q[i] += learner.bonus_scale * bernstein_width(spread[i], left, learner.log_term, visits[i])


@inlined
def bernstein_width(variance: float, left: float, log_term: float, visits: float) -> float:
    """Empirical Bernstein deviation of a mean of values in [0, left], at most ``left``."""
    n = max(1.0, visits)
    return min(left, math.sqrt(2.0 * variance * log_term / n) + 7.0 * left * log_term / (3.0 * n))

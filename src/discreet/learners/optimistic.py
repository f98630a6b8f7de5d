r"""UCBVI: plan in the estimated world with a bonus for what is uncertain, and play greedily.

Azar, Osband, Munos, "Minimax regret bounds for reinforcement learning" (2017), on private counts. For each
(group, state, action) with released counts N (visits), N(s') (transitions) and R (rewards), and sd the standard
deviation of the noise in each of them,

    P(s')  proportional to  max(0, N(s') - threshold * sd_transition)
    r      = R / n  clipped to [0, 1],                  n = max(1, N)
    b      = bonus_scale * sqrt(L / n) + noise_scale * sd_visit / n,   capped at 1,   L = ln(S A K / failure)
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
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.compiled import kernel
from discreet.errors import unknown_name
from discreet.learners.base import Problem, plan_into
from discreet.policies import Policy
from discreet.release import Release, Request, Statistics, as_statistics
from discreet.streams import Stream, below
from discreet.validation import check_not_negative, check_open_unit, check_positive

BONUSES = ("hoeffding", "bernstein")


class OptimisticState(NamedTuple):
    """Everything an optimistic learner remembers: the policy it would deploy next, and its public coins."""

    problem: Problem
    coins: Stream
    policy: Policy
    values: NDArray[np.float64]  # (H + 1, S) optimistic


class UCBVIArrays(NamedTuple):
    """Constants and scratch space for one compiled run."""

    horizon: int
    bernstein: bool
    log_term: float
    bonus_scale: float
    noise_scale: float
    threshold: float
    model: NDArray[np.float64]  # (G, S, A, S) scratch
    reward: NDArray[np.float64]  # (G, S, A) scratch
    bonus: NDArray[np.float64]  # (G, S, A) scratch


@dataclass(frozen=True)
class UCBVI:
    """Optimistic value iteration on released counts; per step or time-homogeneous, as the release is."""

    bonus: str = "hoeffding"
    bonus_scale: float = 0.05
    noise_scale: float = 0.1
    threshold: float = 1.0
    failure_probability: float = 0.1
    name: str = field(default="ucbvi", repr=False)
    needs: frozenset[str] = field(default=frozenset({"visits", "transitions", "rewards"}), repr=False)

    def __post_init__(self) -> None:
        if self.bonus not in BONUSES:
            raise unknown_name("bonus", str(self.bonus), BONUSES)
        check_positive("bonus_scale", self.bonus_scale)
        check_not_negative("noise_scale", self.noise_scale)
        check_not_negative("threshold", self.threshold)
        check_open_unit("failure_probability", self.failure_probability)

    def init(self, problem: Problem, coins: Stream) -> OptimisticState:
        shape = problem.shape
        zeros = np.zeros((shape.groups, shape.states, shape.actions))
        nothing_yet = Statistics(zeros, np.zeros((*zeros.shape, shape.states)), zeros, zeros, zeros, zeros)
        return self._planned(problem, coins, nothing_yet)

    def ask(self, state: OptimisticState) -> Request:
        return Request(state.policy)

    def update(self, state: OptimisticState, release: Release) -> OptimisticState:
        return self._planned(state.problem, state.coins, as_statistics(release))

    def policy(self, state: OptimisticState) -> Policy:
        return state.policy

    def arrays(self, problem: Problem) -> UCBVIArrays:
        shape = problem.shape
        rows = (shape.groups, shape.states, shape.actions)
        log_term = math.log(shape.states * shape.actions * problem.episodes / self.failure_probability)
        return UCBVIArrays(
            shape.horizon, self.bonus == "bernstein", log_term, self.bonus_scale, self.noise_scale, self.threshold,
            np.zeros((*rows, shape.states)), np.zeros(rows), np.zeros(rows),
        )  # fmt: skip

    def _planned(self, problem: Problem, coins: Stream, statistics: Statistics) -> OptimisticState:
        shape, coins = problem.shape, coins.copy()
        values = np.zeros((shape.horizon + 1, shape.states))
        actions = np.zeros((shape.horizon, shape.states), np.int64)
        plan_into(self.arrays(problem), statistics, coins, values, actions)
        return OptimisticState(problem, coins, Policy(actions), values)


@plan_into.implement(UCBVIArrays)
def _plan_ucbvi(
    learner: UCBVIArrays,
    statistics: Statistics,
    coins: Stream,
    values: NDArray[np.float64],
    actions: NDArray[np.int64],
) -> None:
    estimate_model(learner, statistics)
    H, S = actions.shape
    G, _, A = learner.reward.shape
    values[H, :] = 0.0
    for h in range(H - 1, -1, -1):
        g = h if G > 1 else 0
        left = float(H - h)
        for s in range(S):
            best, ties = -np.inf, 0
            for a in range(A):
                q = optimistic_value(learner, statistics, g, s, a, left, values[h + 1])
                if q > best:
                    best, ties = q, 1
                    actions[h, s] = a
                elif q == best:  # reservoir: each of the exact maxima is kept with equal probability
                    ties += 1
                    if below(coins, ties) == 0:
                        actions[h, s] = a
            values[h, s] = min(left, best)


@kernel
def estimate_model(learner: UCBVIArrays, statistics: Statistics) -> None:
    """Estimated transitions, rewards and bonus of every row, into the learner's scratch space."""
    G, S, A = learner.reward.shape
    hoeffding = 0.0 if learner.bernstein else learner.bonus_scale * math.sqrt(learner.log_term)
    for g in range(G):
        for s in range(S):
            for a in range(A):
                cut = learner.threshold * math.sqrt(statistics.transition_variance[g, s, a])
                total = 0.0
                for t in range(S):
                    weight = max(0.0, statistics.transitions[g, s, a, t] - cut)
                    learner.model[g, s, a, t] = weight
                    total += weight
                scale = 1.0 / total if total > 0.0 else 0.0
                for t in range(S):
                    learner.model[g, s, a, t] *= scale
                n = max(1.0, statistics.visits[g, s, a])
                learner.reward[g, s, a] = min(1.0, max(0.0, statistics.rewards[g, s, a] / n))
                bonus = hoeffding / math.sqrt(n)
                bonus += learner.noise_scale * math.sqrt(statistics.visit_variance[g, s, a]) / n
                # A row whose successors are all lost in the noise says nothing about the world: full optimism.
                # The last step has no successors to know.
                known = statistics.visits[g, s, a] >= 1.0 if last_step_only(learner, g) else total > 0.0
                learner.bonus[g, s, a] = min(1.0, bonus) if known else 1.0


@kernel
def last_step_only(learner: UCBVIArrays, g: int) -> bool:
    """Whether the group holds counts of the last step alone."""
    G = learner.reward.shape[0]
    return learner.horizon == 1 or (G > 1 and g == G - 1)


@kernel
def optimistic_value(
    learner: UCBVIArrays,
    statistics: Statistics,
    g: int,
    s: int,
    a: int,
    left: float,
    following: NDArray[np.float64],
) -> float:
    """Q with ``left`` steps to go, this one included; ``following`` is the value one step later."""
    mean = 0.0
    square = 0.0
    for t in range(following.shape[0]):
        mean += learner.model[g, s, a, t] * following[t]
        square += learner.model[g, s, a, t] * following[t] * following[t]
    r = learner.reward[g, s, a]
    q = r + mean + left * learner.bonus[g, s, a]
    if learner.bernstein:
        n = max(1.0, statistics.visits[g, s, a])
        spread = max(0.0, square - mean * mean) + r * (1.0 - r)
        deviation = math.sqrt(2.0 * spread * learner.log_term / n) + 7.0 * left * learner.log_term / (3.0 * n)
        q += learner.bonus_scale * min(left, deviation)
    return q

r"""UCBVI: plan in the estimated world with a bonus for what is uncertain, and play greedily.

Azar, Osband, Munos, "Minimax regret bounds for reinforcement learning" (2017), on private counts. For each
(group, state, action) with released counts N (visits), N(s') (transitions) and R (rewards), and sd the standard
deviation of the noise in each of them (in b the larger one, of visits or of rewards),

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
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.compiled import fused, inlined
from discreet.errors import unknown_name
from discreet.learners.base import Problem, plan_into
from discreet.policies import Policy
from discreet.release import Release, Request, Statistics, as_statistics, no_statistics
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
    """Constants and scratch space for one compiled run; rows are (group, state, action)."""

    groups: int
    bernstein: bool
    log_term: float
    bonus_scale: float
    noise_scale: float
    threshold: float
    reward: NDArray[np.float64]  # (rows,) scratch
    bonus: NDArray[np.float64]  # (rows,) scratch
    candidates: NDArray[np.float64]  # (A,) scratch


@dataclass(frozen=True)
class UCBVI:
    """Optimistic value iteration on released counts; per step or time-homogeneous, as the release is."""

    bonus: str = "hoeffding"
    bonus_scale: float = 0.05
    noise_scale: float = 0.2
    threshold: float = 1.5
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
        rows = shape.groups * shape.states * shape.actions
        return self._planned(problem, coins, no_statistics(rows, shape.states))

    def ask(self, state: OptimisticState) -> Request:
        return Request(state.policy)

    def update(self, state: OptimisticState, release: Release) -> OptimisticState:
        return self._planned(state.problem, state.coins, as_statistics(release))

    def policy(self, state: OptimisticState) -> Policy:
        return state.policy

    def arrays(self, problem: Problem) -> UCBVIArrays:
        shape = problem.shape
        rows = shape.groups * shape.states * shape.actions
        log_term = math.log(shape.states * shape.actions * problem.episodes / self.failure_probability)
        return UCBVIArrays(
            shape.groups, self.bonus == "bernstein", log_term, self.bonus_scale, self.noise_scale, self.threshold,
            np.zeros(rows), np.zeros(rows), np.zeros(shape.actions),
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
    # Arrays are taken out of the tuples once: doing so inside the loops would count references every time.
    reward, bonus, visits, bernstein = learner.reward, learner.bonus, statistics.visits, learner.bernstein
    transitions, transition_noise, threshold = statistics.transitions, statistics.transition_noise, learner.threshold
    candidates = learner.candidates
    H, S = actions.shape
    A = reward.shape[0] // (learner.groups * S)
    estimate_rewards(learner, statistics)
    for s in range(S):
        values[H, s] = 0.0
    for h in range(H - 1, -1, -1):
        row = h * S * A if learner.groups > 1 else 0
        left = float(H - h)
        last = only_last_step(learner.groups, h, H)
        for s in range(S):
            best, choice, ties = -np.inf, 0, 0
            for a in range(A):
                cut = threshold * transition_noise[row]
                q, mean, total = optimistic_value(
                    transitions, values, reward[row], bonus[row], visits[row], cut, row, h, left, last
                )
                if bernstein:
                    spread = reward[row] * (1.0 - reward[row])
                    for t in range(S):
                        weight = max(0.0, transitions[row, t] - cut)
                        spread += weight * (values[h + 1, t] - mean) ** 2 / max(total, 1e-300)
                    q += learner.bonus_scale * bernstein_width(spread, left, learner.log_term, visits[row])
                candidates[a] = q
                better = q > best
                ties = 1 if better else ties + (1 if q == best else 0)
                choice = a if better else choice
                best = q if better else best
                row += 1
            if ties > 1:
                choice = _one_of_the_best(candidates, best, ties, coins)
            actions[h, s] = choice
            values[h, s] = min(left, best)


@inlined
def _one_of_the_best(candidates: NDArray[np.float64], best: float, ties: int, coins: Stream) -> int:
    """An exact maximum, each with the same probability."""
    passed = below(coins, ties)
    a = 0
    while candidates[a] != best or passed > 0:
        if candidates[a] == best:
            passed -= 1
        a += 1
    return a


@fused
def estimate_rewards(learner: UCBVIArrays, statistics: Statistics) -> None:
    """Estimated reward and bonus of every row, into the learner's scratch space; no branches, so it vectorises."""
    reward, bonus = learner.reward, learner.bonus
    visits, visit_noise = statistics.visits, statistics.visit_noise
    rewards, reward_noise = statistics.rewards, statistics.reward_noise
    noise_scale = learner.noise_scale
    hoeffding = 0.0 if learner.bernstein else learner.bonus_scale * math.sqrt(learner.log_term)
    for row in range(reward.shape[0]):
        per_visit = 1.0 / max(1.0, visits[row])
        reward[row] = min(1.0, max(0.0, rewards[row] * per_visit))
        noise = max(visit_noise[row], reward_noise[row])
        bonus[row] = min(1.0, hoeffding * math.sqrt(per_visit) + noise_scale * noise * per_visit)


@fused
def optimistic_value(
    transitions: NDArray[np.float64],
    values: NDArray[np.float64],
    reward: float,
    bonus: float,
    visits: float,
    cut: float,
    row: int,
    h: int,
    left: float,
    last: bool,
) -> tuple[float, float, float]:
    """Q of one row at step h, the expected value of what follows, and the sum of the counts above the noise.

    ``left`` is the number of steps to go, this one included; ``last`` says that the row holds counts of the last step
    alone, which has no successors to know.
    """
    mean = total = 0.0
    for t in range(transitions.shape[1]):
        weight = max(0.0, transitions[row, t] - cut)
        total += weight
        mean += weight * values[h + 1, t]
    mean /= max(total, 1e-300)  # no branch: whether a row is known is close to a coin flip when noise is loud
    # A row whose successors are all lost in the noise says nothing about the world: full optimism.
    known = visits >= 1.0 if last else total > 0.0
    return reward + mean + left * (bonus if known else 1.0), mean, total


@inlined
def only_last_step(groups: int, h: int, H: int) -> bool:
    """Whether the rows of step h hold counts of the last step alone."""
    return H == 1 or (groups > 1 and h == H - 1)


@inlined
def bernstein_width(variance: float, left: float, log_term: float, visits: float) -> float:
    """Empirical Bernstein deviation of a mean of values in [0, left], at most ``left``."""
    n = max(1.0, visits)
    return min(left, math.sqrt(2.0 * variance * log_term / n) + 7.0 * left * log_term / (3.0 * n))

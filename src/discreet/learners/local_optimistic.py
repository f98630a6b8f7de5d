r"""LDP-OBI: optimism with bounds on the noise of every count, and signed estimates.

Garcelon, Perchet, Pike-Burke, Pirotta, "Local differential privacy for regret minimization in reinforcement learning"
(2021), algorithm 2. For each (state, action) with released rewards R, visits N, transitions N(s') and their sum N_p,
and bounds c1, c2, c3, c4 on the noise in R, N, N_p and N(s') that hold for all releases at once,

    r        = R / (N + alpha c2),              p(s') = N(s') / (N_p + alpha c3)          (signed)
    beta_r   = u_r / sqrt(N + alpha c2)   + ((alpha + 1) c2 + c1) / (N + alpha c2)
    beta_p   = u_p / sqrt(N_p + alpha c3) + (S c4 + (alpha + 1) c3) / (N_p + alpha c3)
    Q_h      = r + beta_r + w_h beta_p + p V_{h+1},       V_h = min(H - h, max(0, max_a Q_h)),   h = 0, ..., H - 1.

``constants`` says where the numbers come from:

=====================  ==============================================================================================
"tight"                c from the release's own any-time radii; u by Hoeffding and Weissman, peeled so that they hold
                       always; w_h = H - h - 1, because that is all that V_{h+1} can be worth; times ``scale``
"laplace", ...         the paper's c_k for its four randomisers, u_r = sqrt(2 L), u_p = sqrt(14 S L), w_h = H - h, with
                       L = ln(4 pi^2 S A H k^3 / (3 delta)) and delta_k = 3 delta / (2 pi^2 k^2) in every c_k
=====================  ==============================================================================================

**Formal guarantees.** Everything is post-processing of a release. With "tight" and ``scale`` 1 the optimism holds with
the stated failure probability wherever the release gives radii; a smaller ``scale`` is a heuristic that learns faster.

**Differences from the paper.** Values are floored at zero, because p is signed; denominators at (alpha - 1) c and the c
at 1, which changes nothing while the bounds hold. The printed c_k of the Gaussian lack a factor sqrt(2) and those of
randomised response are too small below epsilon = 6 H ln 2: "gaussian" and "randomised-response" keep them as printed.
c4 is bounded by itself and not by c3 / sqrt(S), which fails for few users. Exact ties are broken at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.compiled import inlined
from discreet.errors import unknown_name
from discreet.learners.base import Problem, plan_into
from discreet.learners.optimistic import OptimisticState
from discreet.policies import Policy
from discreet.release import Release, Request, Statistics, as_statistics, no_statistics
from discreet.streams import Stream, below
from discreet.validation import check_open_unit, check_positive

CONSTANTS = ("tight", "laplace", "gaussian", "randomised-response", "bounded")
_GIVEN = len(CONSTANTS)  # the bounds were computed outside, from a release that knows its own
_EPOCH = 1.5  # how much counts grow between two looks of a bound that holds always
_UNIT_DEVIATION = 0.286275  # of bounded noise with radius one

Floats = NDArray[np.float64]


class OBIArrays(NamedTuple):
    """Constants and scratch space for one compiled run; rows are (group, state, action)."""

    groups: int
    constants: int
    alpha: float
    failure: float
    scale: float
    clock: Floats  # (1,) users whose releases were seen
    bounds: Floats  # (4, rows): c1, c2, c3, c4
    reward: Floats  # (rows,) scratch: estimate plus bonus
    inverse: Floats  # (rows,) scratch: one over N_p + alpha c3
    bonus: Floats  # (rows,) scratch: beta_p


@dataclass(frozen=True)
class OBI:
    """LDP-OBI on released counts; per step or time-homogeneous, as the release is."""

    constants: str = "tight"
    scale: float = 0.1
    alpha: float = 2.0
    failure_probability: float = 0.1
    name: str = field(default="obi", repr=False)
    needs: frozenset[str] = field(default=frozenset({"visits", "transitions", "rewards"}), repr=False)

    def __post_init__(self) -> None:
        if self.constants not in CONSTANTS:
            raise unknown_name("constants", str(self.constants), CONSTANTS)
        check_positive("scale", self.scale)
        check_positive("alpha - 1", self.alpha - 1)
        check_open_unit("failure_probability", self.failure_probability)

    def init(self, problem: Problem, coins: Stream) -> OptimisticState:
        shape = problem.shape
        rows = shape.groups * shape.states * shape.actions
        return self._planned(problem, coins, no_statistics(rows, shape.states), self.arrays(problem))

    def ask(self, state: OptimisticState) -> Request:
        return Request(state.policy)

    def update(self, state: OptimisticState, release: Release) -> OptimisticState:
        arrays = self.arrays(state.problem)
        arrays.clock[0] = release.users
        if self.constants == "tight" and release.radius_of is not None:
            arrays = arrays._replace(constants=_GIVEN)
            rows, states = as_statistics(release).transitions.shape
            share = self.failure_probability / (2 * rows * (states + 3))
            for i, name in enumerate(("rewards", "visits", "followed", "transitions")):
                arrays.bounds[i] = release.radius(name, share).reshape(-1)
        return self._planned(state.problem, state.coins, as_statistics(release), arrays)

    def policy(self, state: OptimisticState) -> Policy:
        return state.policy

    def arrays(self, problem: Problem) -> OBIArrays:
        shape = problem.shape
        rows = shape.groups * shape.states * shape.actions
        scale = self.scale if self.constants == "tight" else 1.0
        return OBIArrays(
            shape.groups, CONSTANTS.index(self.constants), self.alpha, self.failure_probability, scale,
            np.zeros(1), np.zeros((4, rows)), np.zeros(rows), np.zeros(rows), np.zeros(rows),
        )  # fmt: skip

    def _planned(self, problem: Problem, coins: Stream, statistics: Statistics, arrays: OBIArrays) -> OptimisticState:
        shape, coins = problem.shape, coins.copy()
        values = np.zeros((shape.horizon + 1, shape.states))
        actions = np.zeros((shape.horizon, shape.states), np.int64)
        plan_into(arrays, statistics, coins, values, actions)
        return OptimisticState(problem, coins, Policy(actions), values)


@plan_into.implement(OBIArrays)
def _plan_obi(
    learner: OBIArrays,
    statistics: Statistics,
    coins: Stream,
    values: NDArray[np.float64],
    actions: NDArray[np.int64],
) -> None:
    reward, inverse, bonus = learner.reward, learner.inverse, learner.bonus
    transitions = statistics.transitions
    H, S = actions.shape
    A = reward.shape[0] // (learner.groups * S)
    set_bounds(learner, statistics, H, S)
    estimate_optimistically(learner, statistics, H, S)
    learner.clock[0] += 1.0
    printed = 1.0 if 0 < learner.constants < 5 else 0.0
    values[H, :] = 0.0
    for h in range(H - 1, -1, -1):
        row = h * S * A if learner.groups > 1 else 0
        left = float(H - h)
        worth = left - 1.0 + printed
        for s in range(S):
            best, choice, ties = -np.inf, 0, 0
            for a in range(A):
                q = 0.0
                for t in range(S):
                    q += transitions[row, t] * values[h + 1, t]
                q = q * inverse[row] + reward[row] + worth * bonus[row]
                if q > best:
                    best, choice, ties = q, a, 1
                elif q == best:  # reservoir: each of the exact maxima is kept with equal probability
                    ties += 1
                    if below(coins, ties) == 0:
                        choice = a
                row += 1
            actions[h, s] = choice
            values[h, s] = min(left, max(0.0, best))


@inlined
def set_bounds(learner: OBIArrays, statistics: Statistics, H: int, S: int) -> None:
    """The c of every row as multiples of the noise's standard deviation; nothing to do where they were given."""
    constants, bounds, clock = learner.constants, learner.bounds, learner.clock
    if constants == 5:
        return
    visit_noise, transition_noise = statistics.visit_noise, statistics.transition_noise
    reward_noise = statistics.reward_noise
    R = visit_noise.shape[0]
    pairs = float(R // learner.groups)
    seen = max(1.0, clock[0])
    k = clock[0] + 1.0
    log_k = math.log(k)
    two_log_k = math.log(2.0 * math.pi**2 / (3.0 * learner.failure)) + 2.0 * log_k  # ln(1 / delta_k)
    some, one, all_of_them = 0.0, 0.0, 0.0  # multiples for a pair, for one successor, for their sum
    if constants == 0:
        epoch = math.floor(log_k / math.log(_EPOCH)) + 1.0
        level = math.log(8.0 * R * (S + 3.0) * (epoch + 1.0) * (epoch + 2.0) / learner.failure)
        # A sum of k independent draws: Gaussian or sub-gamma with a scale below one standard deviation of a draw.
        some = one = math.sqrt(2.0 * _EPOCH * level) + level / math.sqrt(seen)
        all_of_them = math.sqrt(float(S)) * some
    elif constants == 1:
        first, second = math.log(6.0 * pairs) + two_log_k, math.log(6.0 * S * pairs) + two_log_k
        draw = 1.0 / math.sqrt(2.0 * seen)  # the scale of one draw, in units of the deviation of the sum
        some = max(math.sqrt(k), first) * math.sqrt(8.0 * first) * draw
        one = max(math.sqrt(k), second) * math.sqrt(8.0 * second) * draw
        all_of_them = max(math.sqrt(k * S), second) * math.sqrt(8.0 * second) * draw
    elif constants == 2:
        some = one = math.sqrt(math.log(6.0 * pairs) + two_log_k)
        all_of_them = math.sqrt(float(S)) * some
    elif constants == 3:
        bits = seen if learner.groups > 1 else seen * H
        deviation = max(1e-12, visit_noise[0]) / math.sqrt(bits)
        odds = math.exp(2.0 * math.asinh(0.5 / deviation))
        width = (2.0 * odds - 1.0) / (odds - 1.0) / deviation
        some = width * math.sqrt(0.5 * (math.log(4.0 * pairs) + two_log_k))
        one = width * math.sqrt(0.5 * (math.log(4.0 * S * pairs) + two_log_k))
        all_of_them = S * some
    else:
        some = math.sqrt(2.0 * (math.log(6.0 * pairs) + two_log_k)) / _UNIT_DEVIATION
        one = math.sqrt(2.0 * (math.log(6.0 * S * pairs) + two_log_k)) / _UNIT_DEVIATION
        all_of_them = math.sqrt(float(S)) * one
    for row in range(R):
        bounds[0, row] = some * reward_noise[row]
        bounds[1, row] = some * visit_noise[row]
        bounds[2, row] = all_of_them * transition_noise[row]
        bounds[3, row] = one * transition_noise[row]


@inlined
def estimate_optimistically(learner: OBIArrays, statistics: Statistics, H: int, S: int) -> None:
    """Estimates and bonuses of every row, into the learner's scratch space."""
    reward, inverse, bonus, bounds = learner.reward, learner.inverse, learner.bonus, learner.bounds
    visits, transitions, rewards = statistics.visits, statistics.transitions, statistics.rewards
    R, alpha, scale = reward.shape[0], learner.alpha, learner.scale
    k = learner.clock[0] + 1.0
    if learner.constants == 0 or learner.constants == 5:
        epoch = math.floor(math.log(k * H) / math.log(_EPOCH)) + 1.0
        level = math.log(8.0 * R * (epoch + 1.0) * (epoch + 2.0) / learner.failure)
        u_reward = scale * math.sqrt(0.5 * _EPOCH * level)
        u_transition = scale * math.sqrt(0.5 * _EPOCH * (S * math.log(2.0) + level))
    else:
        level = math.log(4.0 * math.pi**2 * (R // learner.groups) * H / (3.0 * learner.failure)) + 3.0 * math.log(k)
        u_reward, u_transition = math.sqrt(2.0 * level), math.sqrt(14.0 * S * level)
    for row in range(R):
        c1, c2 = max(1.0, scale * bounds[0, row]), max(1.0, scale * bounds[1, row])
        c3, c4 = max(1.0, scale * bounds[2, row]), max(1.0, scale * bounds[3, row])
        followed = 0.0
        for t in range(S):
            followed += transitions[row, t]
        per_visit = 1.0 / max(visits[row] + alpha * c2, (alpha - 1.0) * c2)
        per_followed = 1.0 / max(followed + alpha * c3, (alpha - 1.0) * c3)
        extra = u_reward * math.sqrt(per_visit) + ((alpha + 1.0) * c2 + c1) * per_visit
        reward[row] = rewards[row] * per_visit + extra
        inverse[row] = per_followed
        bonus[row] = u_transition * math.sqrt(per_followed) + (S * c4 + (alpha + 1.0) * c3) * per_followed

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
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.compiled import inlined
from discreet.errors import unknown_name
from discreet.learners.base import PlannedState, Problem, plan_into, planned
from discreet.planning.backward import act_greedily, rows_of_step, sum_over_successors
from discreet.policies import Policy
from discreet.release import Release, Request, Statistics
from discreet.streams import Stream, fast_log
from discreet.types import Floats, Integers
from discreet.validation import check_open_unit, check_positive

CONSTANTS = ("tight", "laplace", "gaussian", "randomised-response", "bounded")
_GIVEN = len(CONSTANTS)  # the bounds were computed outside, from a release that knows its own
_EPOCH = 1.5  # how much counts grow between two looks of a bound that holds always
_UNIT_DEVIATION = 0.286275  # of bounded noise with radius one


class OBIArrays(NamedTuple):
    """Constants and scratch space for one compiled run; rows are (group, state, action)."""

    groups: int
    constants: int
    alpha: float
    failure: float
    scale: float
    pair_log: float  # the parts that do not change of ln(.../delta_k) for pairs
    successor_log: float  # ... for successors
    level_log: float  # ... and of L
    clock: Floats  # (1,) users whose releases were seen
    bounds: Floats  # (4, rows): c1, c2, c3, c4 where a release gives them, else zero
    reward: Floats  # (rows,) scratch: estimate plus bonus
    inverse: Floats  # (rows,) scratch: one over N_p + alpha c3
    bonus: Floats  # (rows,) scratch: beta_p
    q: Floats  # (S * A,) scratch: of one step
    table: Floats  # (S, A) the same numbers


@dataclass(frozen=True)
class OBI:
    """LDP-OBI on released counts; per step or time-homogeneous, as the release is."""

    constants: str = "tight"
    scale: float = 0.1
    alpha: float = 2.0
    failure_probability: float = 0.1
    name: ClassVar[str] = "obi"
    needs: ClassVar[frozenset[str]] = frozenset({"visits", "transitions", "rewards"})

    def __post_init__(self) -> None:
        if self.constants not in CONSTANTS:
            raise unknown_name("constants", str(self.constants), CONSTANTS)
        check_positive("scale", self.scale)
        check_positive("alpha - 1", self.alpha - 1)
        check_open_unit("failure_probability", self.failure_probability)

    def init(self, problem: Problem, coins: Stream) -> PlannedState:
        return planned(self.arrays(problem), problem, coins, None)

    def ask(self, state: PlannedState) -> Request:
        return Request(state.policy)

    def update(self, state: PlannedState, release: Release) -> PlannedState:
        arrays = self.arrays(state.problem)
        arrays.clock[0] = release.users
        if self.constants == "tight" and release.radius_of is not None:
            arrays = arrays._replace(constants=_GIVEN)
            shape = state.problem.shape
            rows = shape.groups * shape.states * shape.actions
            share = self.failure_probability / (2 * rows * (shape.states + 3))
            for i, name in enumerate(("rewards", "visits", "followed", "transitions")):
                arrays.bounds[i] = release.radius(name, share).reshape(-1)
        return planned(arrays, state.problem, state.coins, release)

    def policy(self, state: PlannedState) -> Policy:
        return state.policy

    def arrays(self, problem: Problem) -> OBIArrays:
        shape = problem.shape
        rows = shape.groups * shape.states * shape.actions
        scale = self.scale if self.constants == "tight" else 1.0
        pairs, S = shape.states * shape.actions, shape.states
        often = 4 if self.constants == "randomised-response" else 6  # how many events the paper counts
        share = 3 * self.failure_probability / (2 * math.pi**2)  # delta_k k^2
        q = np.zeros(pairs)
        return OBIArrays(
            shape.groups, CONSTANTS.index(self.constants), self.alpha, self.failure_probability, scale,
            math.log(often * pairs / share), math.log(often * S * pairs / share),
            math.log(2 * pairs * shape.horizon / share),
            np.zeros(1), np.zeros((4, rows)), np.zeros(rows), np.zeros(rows), np.zeros(rows),
            q, q.reshape(shape.states, shape.actions),
        )  # fmt: skip


@plan_into.implement(OBIArrays)
def _plan_obi(
    learner: OBIArrays,
    statistics: Statistics,
    coins: Stream,
    values: Floats,
    actions: Integers,
) -> None:
    H, S = actions.shape
    k, noise, R = tick(learner.clock), statistics.visit_noise[0], learner.reward.shape[0]
    some, one, all_of_them, u_reward, u_transition = constants_at(
        learner.constants, k, learner.pair_log, learner.successor_log, learner.level_log, learner.failure,
        learner.scale, R, S, H, learner.groups, noise,
    )  # fmt: skip
    printed = 1.0 if 0 < learner.constants < 5 else 0.0
    estimate_optimistically(learner, statistics, some, one, all_of_them, u_reward, u_transition)
    q = learner.q
    values[H, :] = 0.0
    for h in range(H - 1, -1, -1):
        here = rows_of_step(learner.groups, h, q.shape[0])
        reward, inverse, bonus = learner.reward[here], learner.inverse[here], learner.bonus[here]
        left = float(H - h)
        worth = left - 1.0 + printed
        sum_over_successors(statistics.transitions, here, values[h + 1], q)
        for i in range(q.shape[0]):
            q[i] = q[i] * inverse[i] + reward[i] + worth * bonus[i]
        act_greedily(learner.table, 0.0, left, coins, values[h], actions[h])


@inlined
def tick(clock: Floats) -> float:
    """The number of the episode that is planned for; the clock moves on."""
    clock[0] += 1.0
    return clock[0]  # type: ignore[no-any-return]


@inlined
def constants_at(
    constants: int,
    k: float,
    pair_log: float,
    successor_log: float,
    level_log: float,
    failure: float,
    scale: float,
    R: int,
    S: int,
    H: int,
    groups: int,
    noise: float,
) -> tuple[float, float, float, float, float]:
    """All numbers of episode k that do not depend on the row."""
    log_k = fast_log(k)
    steps = H if groups == 1 else 1
    some, one, all_of_them = multiples(
        constants, k, log_k, pair_log + 2.0 * log_k, successor_log + 2.0 * log_k, failure, R, S, steps, noise
    )
    u_reward, u_transition = deviations(constants, log_k, level_log, failure, scale, R, S, H)
    return some, one, all_of_them, u_reward, u_transition


@inlined
def multiples(
    constants: int,
    k: float,
    log_k: float,
    pair: float,
    successor: float,
    failure: float,
    R: int,
    S: int,
    steps: int,
    noise: float,
) -> tuple[float, float, float]:
    """The c for a pair, for one successor and for their sum, as multiples of the noise's standard deviation.

    Zero where the bounds were given. ``pair`` and ``successor`` are the logarithms of the paper's union bounds,
    ``steps`` how many steps a count sums, ``noise`` the standard deviation of visits.
    """
    per_draw = 1.0 / math.sqrt(max(1.0, k - 1.0))  # the deviation of one draw, in units of that of the sum
    root = math.sqrt(float(S))
    if constants == 0:
        # A sum of k independent draws: Gaussian or sub-gamma with a scale below one standard deviation of a draw.
        level = peeled(log_k, R * (S + 3.0), failure)
        some = math.sqrt(2.0 * _EPOCH * level) + level * per_draw
        return some, some, root * some
    if constants == 1:
        scale, root_k = math.sqrt(0.5) * per_draw, math.sqrt(k)
        wide = math.sqrt(8.0 * successor) * scale
        some = max(root_k, pair) * math.sqrt(8.0 * pair) * scale
        return some, max(root_k, successor) * wide, max(root_k * root, successor) * wide
    if constants == 2:
        some = math.sqrt(pair)
        return some, some, root * some
    if constants == 3:
        deviation = max(1e-12, noise) * per_draw / math.sqrt(float(steps))  # of one answered bit
        odds = math.exp(2.0 * math.asinh(0.5 / deviation))
        width = (2.0 * odds - 1.0) / (odds - 1.0) / deviation
        some = width * math.sqrt(0.5 * pair)
        return some, width * math.sqrt(0.5 * successor), S * some
    if constants == 4:
        some, one = math.sqrt(2.0 * pair) / _UNIT_DEVIATION, math.sqrt(2.0 * successor) / _UNIT_DEVIATION
        return some, one, root * one
    return 0.0, 0.0, 0.0


@inlined
def deviations(
    constants: int, log_k: float, level_log: float, failure: float, scale: float, R: int, S: int, H: int
) -> tuple[float, float]:
    """u_r and u_p: how far means of n rewards and of n successors are off, times sqrt(n)."""
    if 0 < constants < 5:
        level = level_log + 3.0 * log_k
        return math.sqrt(2.0 * level), math.sqrt(14.0 * S * level)
    level = peeled(log_k + math.log(float(H)), float(R), failure)
    weissman = S * math.log(2.0) + level
    return scale * math.sqrt(0.5 * _EPOCH * level), scale * math.sqrt(0.5 * _EPOCH * weissman)


@inlined
def peeled(log_time: float, events: float, failure: float) -> float:
    """ln(1 / failure) for a bound that holds always: epochs grow by a constant factor, and each has its share."""
    epoch = math.floor(log_time / math.log(_EPOCH)) + 1.0
    return math.log(8.0 * events * (epoch + 1.0) * (epoch + 2.0) / failure)


@inlined
def estimate_optimistically(
    learner: OBIArrays,
    statistics: Statistics,
    some: float,
    one: float,
    all_of_them: float,
    u_reward: float,
    u_transition: float,
) -> None:
    """Estimates and bonuses of every row, into the learner's scratch space; bounds that were given are kept."""
    reward, inverse, bonus, bounds = learner.reward, learner.inverse, learner.bonus, learner.bounds
    visits, transitions, rewards = statistics.visits, statistics.transitions, statistics.rewards
    visit_noise, transition_noise = statistics.visit_noise, statistics.transition_noise
    reward_noise = statistics.reward_noise
    (S, R), alpha, scale = transitions.shape, learner.alpha, learner.scale
    for row in range(R):
        inverse[row] = transitions[0, row]
    for t in range(1, S):
        for row in range(R):
            inverse[row] += transitions[t, row]
    for row in range(R):
        c1 = max(1.0, scale * (bounds[0, row] + some * reward_noise[row]))
        c2 = max(1.0, scale * (bounds[1, row] + some * visit_noise[row]))
        per_visit = 1.0 / max(visits[row] + alpha * c2, (alpha - 1.0) * c2)
        extra = u_reward * math.sqrt(per_visit) + ((alpha + 1.0) * c2 + c1) * per_visit
        reward[row] = rewards[row] * per_visit + extra
    for row in range(R):
        c3 = max(1.0, scale * (bounds[2, row] + all_of_them * transition_noise[row]))
        c4 = max(1.0, scale * (bounds[3, row] + one * transition_noise[row]))
        per_followed = 1.0 / max(inverse[row] + alpha * c3, (alpha - 1.0) * c3)
        inverse[row] = per_followed
        bonus[row] = u_transition * math.sqrt(per_followed) + (S * c4 + (alpha + 1.0) * c3) * per_followed

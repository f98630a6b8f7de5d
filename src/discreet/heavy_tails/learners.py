r"""Private-Heavy-UCBVI and Private-Heavy-UCBPO: optimism for rewards of which only a moment is bounded.

=============  ======================================================================================================
S, A, H, K     states, actions, steps of an episode, episodes of the run
v, u, tau      the declared moment bound, and the bound on the mean rewards
N, F, R        released visits, moves (visits that a successor follows) and reward sums of one (state, action)
B, bias        the threshold at which rewards were clipped, and the most that clipping moves a mean
E1, E2, E3     bounds on the noise in a count of visits, in a reward sum, and in a sum over successors
b_r, b_p       the bonuses for rewards and for transitions; l is the logarithm of the union bound
=============  ======================================================================================================

As in the paper that proposes them, with bonuses that hold for the noise actually released. E|X|^(1+v) <= u, |mean| <=
tau. From released visits N, moves N(s') with F = sum N(s') and reward sums R, with E1, E2, E3 bounds on the noise in a
count of visits, in a reward sum, and in a sum over successors, and with B the threshold at which rewards were clipped,

    D = max(1, N + E1),   r = R / D,   P(s') = max(0, N(s') - threshold sd) over the sum of these
    b_r = (2 tau E1 + E2) / D + sqrt(2 u B^(1-v) l / D) + B l / (3 D) + bias,           l = ln(c S A H K / failure)
    VI:  b_p = sqrt(2 l / F) + (2 E1 + E3) / F                      (for the one function V*)
    PO:  b_p = sqrt(2 (S ln 2 + l) / F) + (2 E1 + S E3 / sqrt(S)) / F    (for all functions at once)
    Q_h = min(tau, max(-tau, r) + b_r)  +  clip(P V_{h+1} + tau (H - h - 1) b_p,  +- (H - h - 1) tau)

The release states B and the bias. Where it does not, rewards have a range, and the deviation is that of the best B,
4 u^(1/(1+v)) (l / D)^(v/(1+v)).

UCBVI plays the greedy policy of Q with ties broken at random; UCBPO updates pi <- pi exp(n eta Q) with eta = eta_scale
sqrt(2 ln A / (tau^2 H^2 K)). Without privacy E1 = E2 = E3 = 0, and these are Heavy-UCBVI and Heavy-OPPO.

``bonus_scale`` multiplies the statistical terms and ``error_scale`` all E; at 1 they are those of the theory, which at
the usual benchmark sizes never come below their ceiling: nothing is learned, with or without privacy. ``threshold`` is
in deviations of the noise; None is the printed estimate max(0, N(s')) / max(1, F + E1), whose rows need not sum to one.
Defaults were chosen on rivers of 4 to 6 states with stable, Student and Pareto rewards: a bonus at which no run without
privacy locked in on a wrong action, whichever way thresholds rise, and the noise terms that then learned best.

**Formal guarantees.** Post-processing of releases.

**Differences from the paper.** The sign of UCBPO's exponent is plus (printed minus, which learns to avoid reward).
Noisy counts are cut before they become probabilities. E1 and E3 are exact quantiles of the noise in the release, E2
Bernstein's bound from its variance. Means are known to be at most tau, so rewards and what follows are clipped one by
one; printed is a clip of their sum, under which noise in a reward can hide what is worth exploring behind it, for good.
tau (H - h - 1) bounds the values that follow, in place of tau H. Where steps are pooled, moves are divided by the
visits that a move followed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.compiled import kernel
from discreet.learners.base import PlannedState, Problem, Replans
from discreet.learners.optimistic import recommended
from discreet.learners.policy_optimisation import PolicyOptimiser, PolicyState
from discreet.policies import MIXED, Policy
from discreet.release import Release
from discreet.shape import Moments, Shape
from discreet.streams import Stream, below
from discreet.types import Floats, Integers
from discreet.validation import check_not_negative, check_open_unit, check_positive

_ALL = frozenset({"visits", "transitions", "rewards"})


class HeavyModel(NamedTuple):
    """What is estimated, one row per (group, state, action): rewards in their own units, and the two bonuses."""

    rewards: Floats  # (rows,)
    transitions: Floats  # (rows, S), sub- or super-stochastic
    reward_bonus: Floats  # (rows,)
    transition_bonus: Floats  # (rows,), per unit of value


@dataclass(frozen=True)
class Bonuses:
    """How large the bonuses are: at 1 as the theory has them."""

    bonus_scale: float
    error_scale: float
    threshold: float | None
    failure_probability: float
    uniform: bool  # whether the transition bonus holds for all value functions at once

    def __post_init__(self) -> None:
        check_positive("bonus_scale", self.bonus_scale)
        check_not_negative("error_scale", self.error_scale)
        check_open_unit("failure_probability", self.failure_probability)
        if self.threshold is not None:
            check_not_negative("threshold", self.threshold)

    def model(self, problem: Problem, release: Release | None) -> HeavyModel:
        """The estimated world; before the first release nothing is known."""
        shape = problem.shape
        S, rows = shape.states, shape.groups * shape.states * shape.actions
        l = math.log(12 * S * shape.actions * shape.horizon * problem.episodes / self.failure_probability)
        counts = _no_counts(rows, S) if release is None else _counts_of(release, shape, math.exp(-l), self.error_scale)
        D = np.maximum(1.0, counts.visits + counts.visit_error)
        F = np.maximum(1.0, counts.followed + counts.followed_error)
        reward_error = np.sqrt(2 * counts.reward_variance * l) + np.sqrt(counts.reward_variance / 2) * l
        statistical = reward_deviation(moments_or_range(shape), l, D, counts.thresholds, counts.bias)
        classes, many = (S * math.log(2), math.sqrt(S)) if self.uniform else (0.0, 1.0)
        reward_bonus = (2 * reward_bound(shape) * counts.visit_error + self.error_scale * reward_error) / D
        move_bonus = (2 * counts.followed_error + many * counts.spread) / F
        moves = np.maximum(counts.transitions - (self.threshold or 0.0) * counts.move_noise[:, None], 0.0)
        known = moves.sum(axis=1)
        return HeavyModel(
            rewards=counts.rewards / D,
            transitions=moves / np.maximum(F if self.threshold is None else known, 1e-300)[:, None],
            reward_bonus=reward_bonus + self.bonus_scale * statistical,
            # One unit of bonus is the whole range of what may follow.
            transition_bonus=np.where(known > 0, self.bonus_scale * np.sqrt(2 * (classes + l) / F) + move_bonus, 1.0),
        )


class _Counts(NamedTuple):
    """A release in the learner's units, one entry per row; errors are quantiles of noise, scaled."""

    visits: Floats
    visit_error: Floats
    followed: Floats  # visits that a move followed
    followed_error: Floats
    transitions: Floats  # (rows, S)
    move_noise: Floats  # its standard deviation in a count of one successor
    spread: Floats  # of the noise in a sum over successors
    rewards: Floats
    reward_variance: Floats
    thresholds: Floats | None  # where rewards were clipped, if the release says so
    bias: Floats | None


def _no_counts(rows: int, S: int) -> _Counts:
    """Before the first release."""
    none = np.zeros(rows)
    return _Counts(
        visits=none,
        visit_error=none,
        followed=none,
        followed_error=none,
        transitions=np.zeros((rows, S)),
        move_noise=none,
        spread=none,
        rewards=none,
        reward_variance=none,
        thresholds=None,
        bias=None,
    )


def _counts_of(release: Release, shape: Shape, tail: float, scale: float) -> _Counts:
    """What a release says; errors are exceeded with probability ``tail`` each, before they are scaled."""
    S = shape.states
    visits, moves, sums = (release[name].values for name in ("visits", "transitions", "rewards"))
    low, span = shape.rewards[0], shape.reward_span

    def flat(table: Floats) -> Floats:
        return np.asarray(np.broadcast_to(table, visits.shape).reshape(-1), np.float64)

    visit_error, spread = (scale * flat(release.width(cells, tail)) for cells in (_cells_of_visits(release), S))
    followed, followed_error = flat(visits), visit_error
    if shape.groups == 1 and shape.horizon > 1:  # last steps are pooled with others, and nothing follows them
        followed, followed_error = flat(moves.sum(axis=3)), spread
    public = {name: flat(release.public[name]) for name in ("thresholds", "clipping_bias") if name in release.public}
    return _Counts(
        visits=flat(visits),
        visit_error=visit_error,
        followed=followed,
        followed_error=followed_error,
        transitions=moves.reshape(-1, S),
        move_noise=flat(np.sqrt(release["transitions"].variance)),
        spread=spread,
        rewards=flat(span * sums + low * visits),
        reward_variance=flat(span**2 * release["rewards"].variance),
        thresholds=public.get("thresholds"),
        bias=public.get("clipping_bias"),
    )


def _cells_of_visits(release: Release) -> int:
    """How many noisy cells a count of visits sums, when a count of one move is one of them."""
    visits, moves = release["visits"].variance, release["transitions"].variance
    return max(1, round(float((visits[moves > 0] / moves[moves > 0]).max(initial=1.0))))


def reward_deviation(moments: Moments, l: float, D: Floats, thresholds: Floats | None, bias: Floats | None) -> Floats:
    """How far the mean of D rewards may be from its expectation: clipped where the release says, or in the best way."""
    u, v = moments.bound, moments.order
    if thresholds is None or bias is None:
        return np.asarray(4 * u ** (1 / (1 + v)) * (l / D) ** (v / (1 + v)))
    return np.asarray(np.sqrt(2 * u * thresholds ** (1 - v) * l / D) + thresholds * l / (3 * D) + bias)


def reward_bound(shape: Shape) -> float:
    """tau: no mean reward is larger in absolute value."""
    return max(abs(shape.rewards[0]), abs(shape.rewards[1]))


def moments_or_range(shape: Shape) -> Moments:
    """The declared moment bound; rewards with a range have a second moment."""
    return shape.moments if shape.moments is not None else Moments(reward_bound(shape) ** 2, 1.0)


@dataclass(frozen=True)
class HeavyUCBVI(Replans):
    """Optimistic value iteration for heavy-tailed rewards (Algorithm 1, repaired)."""

    bonus_scale: float = 0.1
    error_scale: float = 0.015
    threshold: float | None = 1.5
    failure_probability: float = 0.1
    name: ClassVar[str] = "heavy-ucbvi"
    needs: ClassVar[frozenset[str]] = _ALL

    def __post_init__(self) -> None:
        self._bonuses()

    def plan(self, problem: Problem, coins: Stream, release: Release | None) -> PlannedState:
        """The greedy policy of the optimistic Q, with ties broken by a copy of the coins."""
        shape, coins = problem.shape, coins.copy()
        values = np.zeros((shape.horizon + 1, shape.states))
        actions = np.zeros((shape.horizon, shape.states), np.int64)
        _plan(self._bonuses().model(problem, release), shape.groups, reward_bound(shape), coins, values, actions)
        return PlannedState(problem, coins, Policy(actions), values, release)

    def recommend(self, state: PlannedState) -> Policy:
        """The best policy of the estimated world, without bonus."""
        return recommended(state.problem, state.coins, state.release)

    def _bonuses(self) -> Bonuses:
        return Bonuses(self.bonus_scale, self.error_scale, self.threshold, self.failure_probability, uniform=False)


@dataclass(frozen=True)
class HeavyUCBPO(PolicyOptimiser):
    """Optimistic policy optimisation for heavy-tailed rewards (Algorithm 3, with the sign that learns)."""

    eta_scale: float = 10.0
    bonus_scale: float = 0.1
    error_scale: float = 0.015
    threshold: float | None = 1.5
    failure_probability: float = 0.1
    name: ClassVar[str] = "heavy-ucbpo"
    needs: ClassVar[frozenset[str]] = _ALL | {MIXED}

    def __post_init__(self) -> None:
        check_positive("eta_scale", self.eta_scale)
        self._bonuses()

    def optimistic_q(self, state: PolicyState, release: Release) -> Floats:
        """Q with bonuses that hold for all value functions at once."""
        shape, q = state.problem.shape, np.zeros_like(state.log_weights)
        model = self._bonuses().model(state.problem, release)
        _evaluate(model, shape.groups, reward_bound(shape), np.array(state.policy.probabilities), q)
        return q

    def largest_value(self, problem: Problem) -> float:
        """tau per step."""
        return reward_bound(problem.shape) * problem.shape.horizon

    def _bonuses(self) -> Bonuses:
        return Bonuses(self.bonus_scale, self.error_scale, self.threshold, self.failure_probability, uniform=True)


@kernel
def _q(model: HeavyModel, row: int, left: int, tau: float, following: Floats) -> float:
    """The optimistic value of one row: what is paid now and what follows, each within what it can be."""
    ceiling = (left - 1) * tau
    ahead = ceiling * model.transition_bonus[row]
    for t in range(following.shape[0]):
        ahead += model.transitions[row, t] * following[t]
    now = min(tau, max(-tau, model.rewards[row]) + model.reward_bonus[row])
    return now + min(ceiling, max(-ceiling, ahead))  # type: ignore[no-any-return]


@kernel
def _plan(model: HeavyModel, groups: int, tau: float, coins: Stream, values: Floats, actions: Integers) -> None:
    """The greedy policy of Q; exact ties, of which clipping makes many, are broken at random."""
    H, S = actions.shape
    A = model.rewards.shape[0] // (groups * S)
    values[H, :] = 0.0
    for h in range(H - 1, -1, -1):
        row = h * S * A if groups > 1 else 0
        for s in range(S):
            best, choice, ties = -np.inf, 0, 0
            for a in range(A):
                q = _q(model, row, H - h, tau, values[h + 1])
                if q > best:
                    best, choice, ties = q, a, 1
                elif q == best:
                    ties += 1
                    if below(coins, ties) == 0:
                        choice = a
                row += 1
            actions[h, s] = choice
            values[h, s] = best


@kernel
def _evaluate(model: HeavyModel, groups: int, tau: float, probabilities: Floats, q: Floats) -> None:
    """The optimistic Q of a stochastic policy."""
    H, S, A = q.shape
    following, values = np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        row = h * S * A if groups > 1 else 0
        for s in range(S):
            value = 0.0
            for a in range(A):
                q[h, s, a] = _q(model, row, H - h, tau, following)
                value += probabilities[h, s, a] * q[h, s, a]
                row += 1
            values[s] = value
        following[:] = values

r"""The bonuses of the theorems for heavy-tailed rewards: valid for the noise released, or as the paper prints them.

=============  ======================================================================================================
S, A, H, K     states, actions, steps of an episode, episodes of the run; T = K H
v, u, tau      the declared moment bound, and the bound on the mean rewards
N, F, R        released visits, moves (visits that a successor follows) and reward sums of one (state, action)
B, bias        the threshold at which rewards were clipped, and the most that clipping moves a mean
E1, E2, E3     bounds on the noise in a count of visits, in a reward sum, and in a sum over successors
b_r, b_p       the bonuses for rewards and for transitions; l is the logarithm of a union bound
=============  ======================================================================================================

**Theorem.** Bonuses that hold for the noise actually released. With E|X|^(1+v) <= u and |mean| <= tau,

    D = max(1, N + E1),   r = R / D,   P(s') = max(0, N(s') - threshold sd) over the sum of these
    b_r = (2 tau E1 + E2) / D + sqrt(2 u B^(1-v) l / D) + B l / (3 D) + bias,           l = ln(12 S A T / failure)
    VI:  b_p = sqrt(2 l / F) + (2 E1 + E3) / F                      (for the one function V*)
    PO:  b_p = sqrt(2 (S ln 2 + l) / F) + (2 E1 + S E3 / sqrt(S)) / F    (for all functions at once)

and what follows step h is worth P V_{h+1} + tau (H - h - 1) b_p. The release states B and the bias. Where it does not,
rewards have a range, and the deviation is that of the best B, 4 u^(1/(1+v)) (l / D)^(v/(1+v)). ``threshold`` None is
the printed estimate max(0, N(s')) / max(1, F + E1), whose rows need not sum to one.

**Printed.** What the paper's lemmas state, with its own bounds on the noise of its own mechanism ("log K" counts the
levels of a tree, so it is log2), from the epsilon that the release claims:

    joint:  E1 = 3 H log2(K)^1.5 l1 / epsilon,     E3 the same with l2,          l1 = ln(3 S A T / failure)
            b_r = 2 tau E1 / D + 10 u^(1/(1+v)) (H log2(K)^1.5 l1 / (epsilon D))^(v/(1+v))            (Lemmas 15, 18)
    local:  E1 = 6 H sqrt(K lL) / epsilon,         E3 the same with ln(6 S^2 A T / failure),  lL = ln(6 S A T / failure)
            b_r = 2 tau E1 / D + 16 u^(1/(1+v)) (H lL / (epsilon sqrt(D)))^(v/(1+v))                  (Lemmas 17, 22)
    none:   E1 = E3 = 0,     b_r = 4 u^(1/(1+v)) (ln(2 S A T / failure) / D)^(v/(1+v))
    VI:     tau H (sqrt(2 ln(4 S A T / failure) / D) + (2 E1 + S E3) / D) for what follows
    PO:     tau H (sqrt(4 S ln(6 A T / failure) / D) + (2 E1 + S E3) / D)

with l2 = ln(3 S^2 A T / failure). They hold for none of the mechanisms here: the paper's own noise is too small for its
promise, and the proof of Lemma 17 counts the noise of N users where all users add theirs.

**Clips.** ``each``: the optimistic reward is at most tau and what follows within +- (H - h - 1) tau. ``sum``, as
printed: their sum is within +- (H - h) tau. Under the common ceiling, noise in the reward of one pair can hide what is
worth exploring behind it, for good.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.shape import Moments, Shape
from discreet.base.streams import Stream, below
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_not_negative, check_open_unit, check_positive
from discreet.learners.base import Problem
from discreet.mechanisms.release import Release

CLIPS = ("each", "sum")


class HeavyModel(NamedTuple):
    """What is estimated, one row per (group, state, action): rewards in their own units, and the two bonuses."""

    rewards: Floats  # (rows,)
    transitions: Floats  # (rows, S), sub- or super-stochastic
    reward_bonus: Floats  # (rows,)
    transition_bonus: Floats  # (rows,), per unit of value
    unit: float = 0.0  # tau H, if the bonus is in units of it at every step, as printed; 0: of what can follow


@dataclass(frozen=True)
class Bonuses:
    """How large the bonuses are: with scales of 1 as the theory has them, or as the paper prints them."""

    bonus_scale: float
    error_scale: float
    threshold: float | None
    failure_probability: float
    uniform: bool  # whether the transition bonus holds for all value functions at once
    printed: bool = False

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
        if self.printed:
            return self._as_printed(problem, release)
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

    def _as_printed(self, problem: Problem, release: Release | None) -> HeavyModel:
        """The lemmas' formulas; bonuses for what follows are in units of tau H."""
        shape, tau = problem.shape, reward_bound(problem.shape)
        S, A, H = shape.states, shape.actions, shape.horizon
        rows, T, failure = shape.groups * S * A, problem.episodes * H, self.failure_probability
        counts = _no_counts(rows, S) if release is None else _counts_of(release, shape, 0.5, 0.0)
        visits_error, moves_error, deviation = printed_reward_terms(problem, release, failure)
        visits_error, moves_error = self.error_scale * visits_error, self.error_scale * moves_error
        D = np.maximum(1.0, counts.visits + visits_error)
        spread = 4 * S * math.log(6 * A * T / failure) if self.uniform else 2 * math.log(4 * S * A * T / failure)
        ahead = self.bonus_scale * np.sqrt(spread / D) + (2 * visits_error + S * moves_error) / D
        return HeavyModel(
            rewards=counts.rewards / D,
            transitions=np.maximum(counts.transitions, 0.0) / D[:, None],
            reward_bonus=2 * tau * visits_error / D + self.bonus_scale * deviation(D),
            transition_bonus=ahead,
            unit=tau * H,
        )


def printed_reward_terms(
    problem: Problem, release: Release | None, failure: float
) -> tuple[float, float, Callable[[Floats], Floats]]:
    """The paper's E1 and E3, and how far it says that the mean reward of D visits may be off, by what is claimed."""
    shape, moments = problem.shape, moments_or_range(problem.shape)
    S, A, H, K = shape.states, shape.actions, shape.horizon, problem.episodes
    T, power, root = K * H, moments.order / (1 + moments.order), moments.bound ** (1 / (1 + moments.order))
    model, epsilon = ("none", math.inf) if release is None else _claimed(release)
    if model == "none" or math.isinf(epsilon):
        log = math.log(2 * S * A * T / failure)
        return 0.0, 0.0, lambda D: np.asarray(4 * root * (log / D) ** power)
    if model == "local":
        log = math.log(6 * S * A * T / failure)
        visits, moves = (6 * H / epsilon * math.sqrt(K * x) for x in (log, log + math.log(S)))
        return visits, moves, lambda D: np.asarray(16 * root * (H * log / (epsilon * np.sqrt(D))) ** power)
    log, levels = math.log(3 * S * A * T / failure), math.log2(max(2, K)) ** 1.5
    visits, moves = (3 * H * levels * x / epsilon for x in (log, log + math.log(S)))
    return visits, moves, lambda D: np.asarray(10 * root * (H * levels * log / (epsilon * D)) ** power)


def _claimed(release: Release) -> tuple[str, float]:
    """The model, and the epsilon that is claimed: by the paper where the release is one of its mechanisms."""
    guarantee = release.guarantee
    return guarantee.model, guarantee.epsilon if guarantee.claimed is None else guarantee.claimed.epsilon


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


def plan_greedily(model: HeavyModel, shape: Shape, clip: str, coins: Stream, values: Floats, actions: Integers) -> None:
    """The greedy policy of the optimistic Q into ``actions``, its values into ``values``."""
    _plan(model, shape.groups, reward_bound(shape), clip == "sum", coins, values, actions)


def evaluate_policy(model: HeavyModel, shape: Shape, clip: str, probabilities: Floats, q: Floats) -> None:
    """The optimistic Q of a stochastic policy into ``q``."""
    _evaluate(model, shape.groups, reward_bound(shape), clip == "sum", probabilities, q)


@kernel
def _q(model: HeavyModel, row: int, left: int, tau: float, together: bool, following: Floats) -> float:
    """The optimistic value of one row: what is paid now and what follows, clipped together or each by itself."""
    ceiling = (left - 1) * tau
    ahead = model.transition_bonus[row] * (model.unit if model.unit > 0.0 else ceiling)
    for t in range(following.shape[0]):
        ahead += model.transitions[row, t] * following[t]
    now = model.rewards[row] + model.reward_bonus[row]
    if together:
        value: float = min(left * tau, max(-left * tau, now + ahead))
    else:
        now = min(tau, max(-tau, model.rewards[row]) + model.reward_bonus[row])
        value = now + min(ceiling, max(-ceiling, ahead))
    return value


@kernel
def _plan(
    model: HeavyModel, groups: int, tau: float, together: bool, coins: Stream, values: Floats, actions: Integers
) -> None:
    """The greedy policy of Q; exact ties, of which clipping makes many, are broken at random."""
    H, S = actions.shape
    A = model.rewards.shape[0] // (groups * S)
    values[H, :] = 0.0
    for h in range(H - 1, -1, -1):
        row = h * S * A if groups > 1 else 0
        for s in range(S):
            best, choice, ties = -np.inf, 0, 0
            for a in range(A):
                q = _q(model, row, H - h, tau, together, values[h + 1])
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
def _evaluate(model: HeavyModel, groups: int, tau: float, together: bool, probabilities: Floats, q: Floats) -> None:
    """The optimistic Q of a stochastic policy."""
    H, S, A = q.shape
    following, values = np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        row = h * S * A if groups > 1 else 0
        for s in range(S):
            value = 0.0
            for a in range(A):
                q[h, s, a] = _q(model, row, H - h, tau, together, following)
                value += probabilities[h, s, a] * q[h, s, a]
                row += 1
            values[s] = value
        following[:] = values

r"""Private-Heavy-UCBVI and Private-Heavy-UCBPO: optimism for rewards of which only a moment is bounded.

As in the paper that proposes them, with bonuses that hold for the noise actually released. E|X|^(1+v) <= u, |mean| <=
tau. From released visits N, transitions N(s') and reward sums R, with E1, E2, E3 bounds on the noise in a count of
visits, in a reward sum, and in a sum over successors,

    D = max(1, N + E1),   r = R / D,   P(s') = max(0, N(s')) / D     (rows need not sum to one)
    b_r = (2 tau E1 + E2) / D + 4 u^(1/(1+v)) (l / D)^(v/(1+v)),                        l = ln(c S A H K / failure)
    VI:  b_p = sqrt(2 l / D) + (2 E1 + E3) / D                      (for the one function V*)
    PO:  b_p = sqrt(2 (S ln 2 + l) / D) + (2 E1 + S E3 / sqrt(S)) / D    (for all functions at once)
    Q_h = clip(r + P V_{h+1} + b_r + tau (H - h - 1) b_p,  +- (H - h) tau)

UCBVI plays the greedy policy of Q with ties broken at random; UCBPO updates pi <- pi exp(n eta Q) with eta = eta_scale
sqrt(2 ln A / (tau^2 H^2 K)). Without privacy E1 = E2 = E3 = 0, and these are Heavy-UCBVI and Heavy-OPPO.

``bonus_scale`` multiplies the statistical terms and ``error_scale`` all E; at 1 they are those of the theory, which at
the usual benchmark sizes never come below their ceiling: nothing is learned, with or without privacy.

**Formal guarantees.** Post-processing of releases.

**Differences from the paper.** The sign of UCBPO's exponent is plus (printed minus, which learns to avoid reward).
Noisy counts are cut at zero before they become probabilities. E1 and E3 are exact quantiles of the noise in the
release, E2 Bernstein's bound from its variance. tau (H - h - 1) bounds the values that follow, in place of tau H.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.compiled import kernel
from discreet.learners.base import Problem
from discreet.learners.optimistic import OptimisticState
from discreet.learners.policy_optimisation import PolicyState, improved, start_uniform
from discreet.policies import Policy, StochasticPolicy
from discreet.release import Release, Request
from discreet.shape import Moments, Shape
from discreet.streams import Stream, below
from discreet.validation import check_not_negative, check_open_unit, check_positive

Floats = NDArray[np.float64]

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
    failure_probability: float
    uniform: bool  # whether the transition bonus holds for all value functions at once

    def __post_init__(self) -> None:
        check_positive("bonus_scale", self.bonus_scale)
        check_not_negative("error_scale", self.error_scale)
        check_open_unit("failure_probability", self.failure_probability)

    def model(self, problem: Problem, release: Release | None) -> HeavyModel:
        """The estimated world; before the first release nothing is known."""
        shape = problem.shape
        S, rows = shape.states, shape.groups * shape.states * shape.actions
        visits, errors, spread = np.zeros(rows), np.zeros(rows), np.zeros(rows)
        counts, sums, reward_error = np.zeros((rows, S)), np.zeros(rows), np.zeros(rows)
        l = math.log(12 * S * shape.actions * shape.horizon * problem.episodes / self.failure_probability)
        low, tau = shape.rewards[0], reward_bound(shape)
        if release is not None:
            tail = math.exp(-l)
            visits, counts = release["visits"].values.reshape(-1), release["transitions"].values.reshape(rows, S)
            sums = shape.reward_span * release["rewards"].values.reshape(-1) + low * visits
            errors = self.error_scale * np.broadcast_to(release.width(S + 1, tail), release["visits"].values.shape)
            spread = self.error_scale * np.broadcast_to(release.width(S, tail), release["visits"].values.shape)
            noise = shape.reward_span**2 * release["rewards"].variance.reshape(-1)
            reward_error = self.error_scale * (np.sqrt(2 * noise * l) + np.sqrt(noise / 2) * l)
            errors, spread = errors.reshape(-1), spread.reshape(-1)
        D = np.maximum(1.0, visits + errors)
        moments = moments_or_range(shape)
        v = moments.order
        statistical = 4 * moments.bound ** (1 / (1 + v)) * (l / D) ** (v / (1 + v))
        classes, many = (S * math.log(2), math.sqrt(S)) if self.uniform else (0.0, 1.0)
        return HeavyModel(
            sums / D,
            np.maximum(counts, 0.0) / D[:, None],
            (2 * tau * errors + reward_error) / D + self.bonus_scale * statistical,
            self.bonus_scale * np.sqrt(2 * (classes + l) / D) + (2 * errors + many * spread) / D,
        )


def reward_bound(shape: Shape) -> float:
    """tau: no mean reward is larger in absolute value."""
    return max(abs(shape.rewards[0]), abs(shape.rewards[1]))


def moments_or_range(shape: Shape) -> Moments:
    """The declared moment bound; rewards with a range have a second moment."""
    return shape.moments if shape.moments is not None else Moments(reward_bound(shape) ** 2, 1.0)


@dataclass(frozen=True)
class HeavyUCBVI:
    """Optimistic value iteration for heavy-tailed rewards (Algorithm 1, repaired)."""

    bonus_scale: float = 0.07
    error_scale: float = 0.01
    failure_probability: float = 0.1
    name: str = field(default="heavy-ucbvi", repr=False)
    needs: frozenset[str] = field(default=_ALL, repr=False)

    def __post_init__(self) -> None:
        self._bonuses()

    def init(self, problem: Problem, coins: Stream) -> OptimisticState:
        return self._planned(problem, coins, None)

    def ask(self, state: OptimisticState) -> Request:
        return Request(state.policy)

    def update(self, state: OptimisticState, release: Release) -> OptimisticState:
        return self._planned(state.problem, state.coins, release)

    def policy(self, state: OptimisticState) -> Policy:
        return state.policy

    def _bonuses(self) -> Bonuses:
        return Bonuses(self.bonus_scale, self.error_scale, self.failure_probability, uniform=False)

    def _planned(self, problem: Problem, coins: Stream, release: Release | None) -> OptimisticState:
        shape, coins = problem.shape, coins.copy()
        values = np.zeros((shape.horizon + 1, shape.states))
        actions = np.zeros((shape.horizon, shape.states), np.int64)
        _plan(self._bonuses().model(problem, release), shape.groups, reward_bound(shape), coins, values, actions)
        return OptimisticState(problem, coins, Policy(actions), values)


@dataclass(frozen=True)
class HeavyUCBPO:
    """Optimistic policy optimisation for heavy-tailed rewards (Algorithm 3, with the sign that learns)."""

    eta_scale: float = 10.0
    bonus_scale: float = 0.07
    error_scale: float = 0.01
    failure_probability: float = 0.1
    name: str = field(default="heavy-ucbpo", repr=False)
    needs: frozenset[str] = field(default=_ALL, repr=False)

    def __post_init__(self) -> None:
        check_positive("eta_scale", self.eta_scale)
        self._bonuses()

    def init(self, problem: Problem, coins: Stream) -> PolicyState:
        return start_uniform(problem)

    def ask(self, state: PolicyState) -> Request:
        return Request(state.policy)

    def update(self, state: PolicyState, release: Release) -> PolicyState:
        shape, q = state.problem.shape, np.zeros_like(state.log_weights)
        tau = reward_bound(shape)
        _evaluate(
            self._bonuses().model(state.problem, release), shape.groups, tau, np.array(state.policy.probabilities), q
        )
        return improved(state, q, release.users, self.eta_scale, tau * shape.horizon)

    def policy(self, state: PolicyState) -> StochasticPolicy:
        return state.policy

    def _bonuses(self) -> Bonuses:
        return Bonuses(self.bonus_scale, self.error_scale, self.failure_probability, uniform=True)


@kernel
def _q(model: HeavyModel, row: int, left: int, tau: float, following: Floats) -> float:
    """The optimistic value of one row, not clipped."""
    q = model.rewards[row] + model.reward_bonus[row] + tau * (left - 1) * model.transition_bonus[row]
    for t in range(following.shape[0]):
        q += model.transitions[row, t] * following[t]
    return q  # type: ignore[no-any-return]


@kernel
def _plan(
    model: HeavyModel, groups: int, tau: float, coins: Stream, values: Floats, actions: NDArray[np.int64]
) -> None:
    """The greedy policy of the clipped Q; exact ties, of which clipping makes many, are broken at random."""
    H, S = actions.shape
    A = model.rewards.shape[0] // (groups * S)
    values[H, :] = 0.0
    for h in range(H - 1, -1, -1):
        row = h * S * A if groups > 1 else 0
        ceiling = (H - h) * tau
        for s in range(S):
            best, choice, ties = -np.inf, 0, 0
            for a in range(A):
                q = min(ceiling, max(-ceiling, _q(model, row, H - h, tau, values[h + 1])))
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
    """The clipped optimistic Q of a stochastic policy."""
    H, S, A = q.shape
    following, values = np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        row = h * S * A if groups > 1 else 0
        ceiling = (H - h) * tau
        for s in range(S):
            value = 0.0
            for a in range(A):
                q[h, s, a] = min(ceiling, max(-ceiling, _q(model, row, H - h, tau, following)))
                value += probabilities[h, s, a] * q[h, s, a]
                row += 1
            values[s] = value
        following[:] = values

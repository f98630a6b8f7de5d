r"""UCBPO: improve a stochastic policy a little after every release, along optimistic values of itself.

Optimistic policy optimisation (Shani, Efroni, Rosenberg, Mannor 2020; Chowdhury and Zhou 2022 on private counts). With
the optimistic reward and future of a row as in :mod:`discreet.learners.ucbvi`, A actions, H steps (h counts from
0), K episodes, and ``more`` what a reward is worth more from afar (:mod:`discreet.learners.reward_bounds`),

    Q_h(s, a) = reward + future of V_{h+1},     V_h(s) = sum_a pi_h(a | s) (Q_h(s, a) + more),
    pi_h(a | s)  <-  pi_h(a | s) exp(n eta Q_h(s, a)) / normaliser,     eta = eta_scale sqrt(2 ln A / (H^2 K)),

for the n users that acted since the last update: the same Q would have been used for each of them.

**Formal guarantees.** Post-processing of releases.

**Differences from the paper.** One update per release, weighted by its users. The update uses the unclipped Q, as the
greedy learner does. The sign in the exponent is plus: rewards are to be gained. Log-weights fall at most 8 behind the
best one, so that an action that looked bad can come back; actions with less than a twentieth of the best one's weight
are not played, so that releases need not spend noise on them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.policies import MIXED, Policy, StochasticPolicy, uniform_policy
from discreet.base.streams import Stream
from discreet.base.types import Floats
from discreet.base.validation import check_positive
from discreet.learners.base import HoldsPolicy, Problem, as_statistics
from discreet.learners.effective_sample_size import believed
from discreet.learners.ucbvi import UCBVI, UCBVIArrays, estimate_model, optimistic_values, recommended
from discreet.mechanisms.release import Release, Statistics

_NEGLIGIBLE = 0.05  # of the weight of the best action: actions with less are not played
_FURTHEST = 8.0  # that a log-weight falls behind the best one


class PolicyState(NamedTuple):
    """Everything a policy optimiser remembers: log-weights of actions, and how many users it has learned from."""

    problem: Problem
    policy: StochasticPolicy
    log_weights: Floats  # (H, S, A)
    users: int
    coins: Stream
    release: Release | None = None  # the last one


class PolicyOptimiser(HoldsPolicy, ABC):
    """A learner that moves its policy along optimistic values of the policy itself, by exponential weights."""

    eta_scale: float

    @abstractmethod
    def optimistic_q(self, state: PolicyState, release: Release) -> Floats:
        """Q (H, S, A) of the policy of the state, as the release shows it and with bonuses."""

    def largest_value(self, problem: Problem) -> float:
        """How far two values of Q can be apart: one per step, for rewards in [0, 1]."""
        return float(problem.shape.horizon)

    def init(self, problem: Problem, coins: Stream) -> PolicyState:
        """Every action alike, nothing learned."""
        return uniform_start(problem, coins)

    def update(self, state: PolicyState, release: Release) -> PolicyState:
        """One step along the values that the release shows."""
        q, largest = self.optimistic_q(state, release), self.largest_value(state.problem)
        return exponential_weights(state, q, release, self.eta_scale, largest)

    def recommend(self, state: PolicyState) -> Policy:
        """The best policy of the estimated world, without bonus: the mixture of all actions explores for ever."""
        return recommended(state.problem, state.coins, state.release)


def uniform_start(problem: Problem, coins: Stream) -> PolicyState:
    """Every action alike, nothing learned."""
    policy = uniform_policy(problem.shape)
    return PolicyState(problem, policy, np.zeros_like(policy.probabilities), 0, coins)


def exponential_weights(
    state: PolicyState, q: Floats, release: Release, eta_scale: float, largest: float
) -> PolicyState:
    """The policy moved along values ``q``, at most ``largest`` apart, one step per user since the last release."""
    shape = state.problem.shape
    eta = eta_scale * math.sqrt(2 * math.log(max(2, shape.actions)) / (largest**2 * state.problem.episodes))
    log_weights = state.log_weights + (release.users - state.users) * eta * q
    log_weights -= log_weights.max(axis=2, keepdims=True)
    log_weights = np.maximum(log_weights, -_FURTHEST)
    weights = np.where(log_weights < math.log(_NEGLIGIBLE), 0.0, np.exp(log_weights))
    policy = StochasticPolicy(weights / weights.sum(axis=2, keepdims=True))
    return PolicyState(state.problem, policy, log_weights, release.users, state.coins, release)


@dataclass(frozen=True)
class UCBPO(PolicyOptimiser):
    """Optimistic policy optimisation on released counts; per step or time-homogeneous, as the release is.

    Args:
        eta_scale: How many times the rate of the analysis is used.
        reward_scale: Scale of the bonus for rewards.
        spread_scale: Scale of the bonus for the deviation of what follows.
        range_scale: Scale of the bonus for the range of what follows.
        noise_scale: How many deviations of noise are added.
        threshold: Counts below this many deviations of noise are taken for zero.

    Examples:
        >>> import discreet
        >>> "mixed policies" in discreet.learners.UCBPO().needs
        True
    """

    eta_scale: float = 10.0
    reward_scale: float = 0.5
    spread_scale: float = 0.5
    range_scale: float = 0.2
    noise_scale: float = 0.2
    threshold: float = 1.5
    name: ClassVar[str] = "ucbpo"
    needs: ClassVar[frozenset[str]] = frozenset({"visits", "transitions", "rewards", MIXED})

    def __post_init__(self) -> None:
        check_positive("eta_scale", self.eta_scale)
        self._model()  # which checks the other knobs

    def optimistic_q(self, state: PolicyState, release: Release) -> Floats:
        """Q with the model and the bonus of UCBVI, its patience with noise that stays included."""
        q = np.zeros_like(state.log_weights)
        arrays = self._model().arrays_after(state.problem, release)
        _evaluate(arrays, as_statistics(believed(release)), np.array(state.policy.probabilities), q)
        return q

    def _model(self) -> UCBVI:
        return UCBVI(
            reward_scale=self.reward_scale,
            spread_scale=self.spread_scale,
            range_scale=self.range_scale,
            noise_scale=self.noise_scale,
            threshold=self.threshold,
            arm_scale=2 * self.reward_scale,  # of a smaller logarithm
            arm_noise=0.7,  # a mixture gives up no arm at once, ...
            patience=1.5,  # ... nor any other action
        )


@kernel
def _evaluate(learner: UCBVIArrays, statistics: Statistics, probabilities: Floats, q: Floats) -> None:
    """Optimistic Q of the policy, backwards from the last step."""
    H, S, A = q.shape
    estimate_model(learner, statistics)
    values = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        left = float(H - h)
        more, clear = learner.afar[h * S * A if learner.groups > 1 else 0 :], float(learner.clear[0])
        optimistic_values(learner, values[h + 1], h)
        for s in range(S):
            value = 0.0
            for a in range(A):
                q[h, s, a] = learner.table[s, a]
                value += probabilities[h, s, a] * (q[h, s, a] + clear * more[s * A + a])
            values[h, s] = min(left, value)

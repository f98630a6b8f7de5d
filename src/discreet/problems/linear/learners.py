r"""VAPVI and PEVI: pessimistic value iteration when the world is linear in known features.

Yin, Duan, Wang, Wang, "Near-optimal offline reinforcement learning with linear representation: leveraging variance
information with pessimism" (2022); Jin, Yang, Wang, "Is pessimism provably efficient for offline RL?" (2021); DP-VAPVI
of Qiao and Wang (2023), algorithm 2. Backwards from V_{H+1} = 0, regress r + V(s') on phi(s, a) by questions about one
step at a time:

    Lambda = sum phi phi^T / sigma^2 + (ridge + shift) I,      w = Lambda^-1 sum phi (r + V(s') - c) / sigma^2,
    q = phi^T w + c - Gamma,     pi = argmax_a q,     V = min(max(q, 0), H - h),
    Gamma = coefficient |phi|_{Lambda^-1} + z sd_b |Lambda^-1 phi|.

Here phi (S, A, d) are the features of S states and A actions, h is the step of H, V the values of the next step,
1 / sigma^2 the weight of a pair in the regression, and I the identity matrix.

The coefficient is C sqrt(d) for VAPVI and beta for PEVI. ``shift`` is a bound on the norm of the noise in the matrix
(an exact quantile), so that Lambda stays positive definite; sd_b is the standard deviation of the noise in the vector.
c is the middle of the range that r + V(s') can have, lo and hi the released extremes of V: targets then lie within
(hi - lo + 1) / 2 of c, and the noise is as small as that (*span centring*).

``VAPVI(variance=True)`` estimates sigma^2 = max(1, Var V) first, from two more vectors and one more matrix per step, as
the paper does. By default it does not: wherever V spans at most 2 the variance is at most 1 and sigma^2 = 1 exactly,
and the budget saved is worth more than weights. ``split=True`` asks the variance questions of other users than the
rest, as the paper's Algorithm 2 does; under ``offline/linear-as-printed`` the users are divided in any case.

**As printed.** ``form="printed"`` is what the papers state, as far as it can be computed:

* targets are r + V(s') and V(s'), V(s')^2 themselves, in ranges of H and H^2 at every step (DP-VAPVI's noise: 2 H^2 and
  2 H^4 over rho_0), and variances are asked for at the last step too;
* Gamma = C sqrt(d) |phi|_{Lambda^-1} for VAPVI. What is added to it cannot be computed: D / K needs kappa, the smallest
  eigenvalue of an expectation under the unknown world, and constants that are not stated. It is left out, in the
  paper's favour: with any of its readings every value is zero at the paper's sizes;
* beta = d H sqrt(ln(2 d H K / failure_probability)) for PEVI, with K trajectories; its constant c is not stated, and
  ``beta`` multiplies this;
* q is clipped to [0, H - h] before the argmax, and ties go to the first action.

E, the bound on the norm of matrix noise, has two constants that are not stated: the exact quantile takes its place.

**Formal guarantees.** Post-processing of answers and adaptive questions: no knob touches privacy. With z = 1 and
coefficients below the theory's the penalty is a heuristic.

**Differences from the paper.** The penalty D / K, whose constant is not computable, is replaced by the exact spread of
the noise; the argmax is over the unclipped q; targets have ranges that shrink with the steps left; nothing is asked
about variances at the last step.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, check_name
from discreet.base.policies import AnyPolicy, Policy, StochasticPolicy, uniform_policy
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_array, check_flag, check_not_negative, check_open_unit, check_positive
from discreet.learners.base import Problem
from discreet.mechanisms.release import Linear, Release, Request
from discreet.worlds.planning.reward_units import end_value, value_limits, widest_step

_LEVELS = 17  # the reward levels that targets are tables over
_DRAWS = 20_000
_LARGEST_SIMULATED = 20


FORMS = ("centred", "printed")


class LinearState(NamedTuple):
    """What is known so far: everything behind ``step`` is planned, and weights are those of the question to come."""

    problem: Problem
    step: int  # the step that is being planned
    weighing: bool  # whether the next question is about variances
    weights: Floats  # (S, A)
    values: Floats  # (H + 1, S)
    actions: Integers
    uniform: StochasticPolicy


class Regression(NamedTuple):
    """A linear fit with what is known about its errors."""

    inverse: Floats  # (d, d)
    coefficients: Floats  # (T, d)
    spread: Floats  # (T,): standard deviation of the noise in one entry of each vector


class LinearLearner(ABC):
    """A learner that plans backwards by regressions, with questions about one step at a time."""

    features: Any
    ridge: float
    noise_scale: float
    ends: bool
    failure_probability: float
    form: str
    name: ClassVar[str]

    @abstractmethod
    def vectors(self, problem: Problem) -> tuple[int, ...]:
        """How many vectors each question asks for: known before the first one, so that a budget can be set."""

    def parts(self, problem: Problem) -> tuple[int, ...]:
        """Which part of the users each question is about: everybody is part 0 where there is no split."""
        return (0,) * self.questions(problem)

    def questions(self, problem: Problem) -> int:
        """How many questions there will be."""
        return len(self.vectors(problem))

    def recipe_options(self, problem: Problem) -> dict[str, Any]:
        """Features, and what each question will ask for: so that a budget can be set before the first one."""
        return {"features": self.features, "vectors": self.vectors(problem), "parts": self.parts(problem)}

    def init(self, problem: Problem, coins: Stream) -> LinearState:
        """Nothing is planned; the last step comes first, and its variance is that of rewards, at most one."""
        shape = problem.shape
        if self.features is None or np.shape(self.features)[:2] != (shape.states, shape.actions):
            raise InvalidInput(f"learner {self.name} needs features= of shape ({shape.states}, {shape.actions}, d)")
        return LinearState(
            problem=problem,
            step=shape.horizon - 1,
            weighing=self.vectors(problem)[0] == 2,
            weights=np.ones((shape.states, shape.actions)),
            values=np.zeros((shape.horizon + 1, shape.states)),
            actions=np.zeros((shape.horizon, shape.states), np.int64),
            uniform=uniform_policy(shape),
        )

    def ask(self, state: LinearState) -> Request:
        """About the step that is being planned, whoever collected the data."""
        return question(state, self.ends, printed=self.form == "printed")

    def policy(self, state: LinearState) -> AnyPolicy:
        """The plan once all steps have one, uniform play before."""
        return state.uniform if state.step >= 0 else Policy(state.actions)

    def recommend(self, state: LinearState) -> AnyPolicy:
        """The plan itself: data that are there already need no exploration."""
        return self.policy(state)


@dataclass(frozen=True, eq=False)
class VAPVI(LinearLearner):
    """Variance-aware pessimistic value iteration for features (S, A, d) of norms at most one.

    Args:
        features: Of shape (S, A, d).
        coefficient: C of the penalty C sqrt(d).
        ridge: Added to the diagonal of the regression.
        noise_scale: How many deviations of noise are in the penalty.
        variance: Estimate variances first, as the paper does.
        split: Ask about variances other users than the rest.
        ends: Episodes may end before the horizon.
        failure_probability: Of the bound on the noise in the matrix.
        form: ``centred`` (span centring), or ``printed`` as in the papers.

    Examples:
        >>> import discreet
        >>> discreet.learners.VAPVI(features=discreet.worlds.benchmark_features()).name
        'vapvi'
    """

    features: Any = None
    coefficient: float = 0.1  # C, times sqrt(d)
    ridge: float = 1.0
    noise_scale: float = 1.0  # z
    variance: bool = False
    split: bool = False
    ends: bool = False  # episodes may end before the horizon
    failure_probability: float = 0.1
    form: str = "centred"
    name: ClassVar[str] = "vapvi"
    needs: ClassVar[frozenset[str]] = frozenset({"matrix", "vectors"})

    def __post_init__(self) -> None:
        check_knobs(self, self.coefficient)
        check_flag("variance", self.variance)
        check_flag("split", self.split)
        if self.split and not self.variance:
            raise InvalidInput("split=True needs variance=True: without variances there is one kind of question only")

    def vectors(self, problem: Problem) -> tuple[int, ...]:
        """One vector per step, and before it two for the variance; at the last step these in print only."""
        if self.variance and self.form == "printed":
            return (2, 1) * problem.shape.horizon
        return (1, *((2, 1) if self.variance else (1,)) * (problem.shape.horizon - 1))

    def parts(self, problem: Problem) -> tuple[int, ...]:
        """With ``split`` the questions about variances go to the second half of the users."""
        return tuple(1 if self.split and count == 2 else 0 for count in self.vectors(problem))

    def update(self, state: LinearState, release: Release) -> LinearState:
        """Weights from an answer about variances, or the plan of a step from any other."""
        shape, fit = state.problem.shape, regress(self, release, self.questions(state.problem))
        if state.weighing:
            return state._replace(weights=1 / self._variance(state, fit), weighing=False)
        coefficient = self.coefficient * math.sqrt(np.shape(self.features)[2])
        after = plan_step(self, state, fit, coefficient)
        weigh = self.variance and after.step >= 0
        return after._replace(weighing=weigh, weights=np.ones((shape.states, shape.actions)))

    def _variance(self, state: LinearState, fit: Regression) -> Floats:
        """max(1, E V^2 - (E V)^2), both regressed on the features in units of their ranges."""
        shape = state.problem.shape
        if self.form == "printed":
            return printed_variance(np.asarray(self.features, np.float64), fit, shape.horizon, state.step)
        centre, half = _range(_worth(state, self.ends))
        left = (shape.horizon - state.step - 1) * widest_step(shape, self.ends)
        phi = np.asarray(self.features, np.float64)
        low, high = centre - half, centre + half
        mean = np.clip(phi @ fit.coefficients[0] * half + centre, low, high)
        square = np.clip(phi @ fit.coefficients[1] * half**2, 0.0, half**2)  # of V - centre
        return np.asarray(np.clip(square - (mean - centre) ** 2, 1.0, max(1.0, left**2)))


@dataclass(frozen=True, eq=False)
class PEVI(LinearLearner):
    """Pessimistic value iteration with one coefficient, ``beta``, and no variances.

    Args:
        features: Of shape (S, A, d).
        beta: The coefficient of the penalty.
        ridge: Added to the diagonal of the regression.
        noise_scale: How many deviations of noise are in the penalty.
        ends: Episodes may end before the horizon.
        failure_probability: Of the bound on the noise in the matrix.
        form: ``centred`` (span centring), or ``printed`` as in the papers.

    Examples:
        >>> import discreet
        >>> discreet.learners.PEVI(features=discreet.worlds.benchmark_features()).beta
        0.2
    """

    features: Any = None
    beta: float = 0.2
    ridge: float = 1.0
    noise_scale: float = 1.0
    ends: bool = False  # episodes may end before the horizon
    failure_probability: float = 0.1
    form: str = "centred"
    name: ClassVar[str] = "pevi"
    needs: ClassVar[frozenset[str]] = frozenset({"matrix", "vectors"})

    def __post_init__(self) -> None:
        check_knobs(self, self.beta)

    def vectors(self, problem: Problem) -> tuple[int, ...]:
        """One vector per step."""
        return (1,) * problem.shape.horizon

    def update(self, state: LinearState, release: Release) -> LinearState:
        """The plan of the step that was asked about."""
        fit, coefficient = regress(self, release, self.questions(state.problem)), self.beta
        if self.form == "printed":
            d, H, K = np.shape(self.features)[2], state.problem.shape.horizon, state.problem.episodes
            coefficient *= d * H * math.sqrt(math.log(2 * d * H * K / self.failure_probability))
        return plan_step(self, state, fit, coefficient)


def printed_variance(phi: Floats, fit: Regression, horizon: int, step: int) -> Floats:
    """The same in units of H and H^2, each clipped to what can follow."""
    left = float(horizon - step)
    mean = np.clip(phi @ fit.coefficients[0] * horizon, 0.0, left)
    square = np.clip(phi @ fit.coefficients[1] * horizon**2, 0.0, left**2)
    return np.asarray(np.maximum(square - mean**2, 1.0))


def check_knobs(learner: LinearLearner, coefficient: float) -> None:
    """Refuse features that are no features, and knobs outside their range."""
    if learner.features is not None and check_array("features", learner.features).ndim != 3:
        raise InvalidInput(f"features must be a table of shape (S, A, d), got shape {np.shape(learner.features)}")
    check_positive("ridge", learner.ridge)
    check_not_negative("noise_scale", learner.noise_scale)
    check_not_negative("coefficient", coefficient)
    check_flag("ends", learner.ends)
    check_name("form", learner.form, FORMS)
    if learner.form == "printed" and learner.ends:
        raise InvalidInput("form='printed' is for episodes of one length: leave ends out, or take form='centred'")
    check_open_unit("failure_probability", learner.failure_probability)


def question(state: LinearState, ends: bool = False, *, printed: bool = False) -> Request:
    """Targets in [-1, 1]: r + V centred, or V and its square centred, over (reward level, successor or end).

    As printed nothing is centred, and the unit is H.
    """
    following = _worth(state, ends)
    values = following if ends else np.append(following, 0.0)
    whole = 0.0, float(state.problem.shape.horizon)
    if state.weighing:
        centre, half = whole if printed else _range(following)
        scaled = np.clip((values - centre) / half, -1.0, 1.0)
        tables = np.stack([scaled, scaled**2])
        targets = np.repeat(tables[:, None, :], _LEVELS, axis=1)
    else:
        centre, half = whole if printed else _return_range(following)
        rewards = np.arange(_LEVELS) / (_LEVELS - 1)
        targets = np.clip((rewards[:, None] + values - centre) / half, -1.0, 1.0)[None]
    return Request(state.uniform, what=Linear(state.step, targets, state.weights, 1.0))


def regress(learner: LinearLearner, release: Release, questions: int) -> Regression:
    """Ridge regression on noisy sums; the ridge is raised by a bound on the norm of the noise."""
    matrix, vectors = release["matrix"], release["vectors"]
    d = matrix.values.shape[0]
    off_diagonal = float(matrix.variance[0, 1]) if d > 1 else float(matrix.variance[0, 0]) / 2
    shift = math.sqrt(off_diagonal) * norm_quantile(d, questions, 2 * learner.failure_probability / 5)
    regular = matrix.values + (learner.ridge + shift) * np.eye(d)
    # Positive definite but with the failure probability; then the smallest eigenvalue is raised to the ridge.
    eigenvalues, basis = np.linalg.eigh((regular + regular.T) / 2)
    inverse = (basis / np.maximum(eigenvalues, learner.ridge)) @ basis.T
    return Regression(inverse, vectors.values @ inverse, np.sqrt(vectors.variance[:, 0]))


def plan_step(learner: LinearLearner, state: LinearState, fit: Regression, coefficient: float) -> LinearState:
    """Values and actions of the step that was asked about."""
    phi, printed = np.asarray(learner.features, np.float64), learner.form == "printed"
    h, horizon = state.step, state.problem.shape.horizon
    centre, half = (0.0, float(horizon)) if printed else _return_range(_worth(state, learner.ends))
    solved = phi @ fit.inverse  # (S, A, d)
    length = np.sqrt(np.maximum((solved * phi).sum(axis=2), 0.0))
    gamma = coefficient * length
    if not printed:
        gamma += learner.noise_scale * half * fit.spread[0] * np.linalg.norm(solved, axis=2)
    q = phi @ fit.coefficients[0] * half + centre - gamma
    if printed:
        q = np.clip(q, 0.0, horizon - h)
    values, actions = state.values.copy(), state.actions.copy()
    actions[h] = q.argmax(axis=1)
    values[h] = np.clip(q.max(axis=1), *value_limits(state.problem.shape, horizon - h, learner.ends))
    return state._replace(step=h - 1, values=values, actions=actions)


@lru_cache(maxsize=128)
def norm_quantile(d: int, matrices: int, failure_probability: float) -> float:
    """A bound on the norms of so many symmetric noise matrices of unit variance off the diagonal, all at once.

    For small matrices the quantile of 20,000 draws at a fixed seed (this bound has no part in privacy); for larger ones
    the closed form 2 (sqrt(d) + sqrt(ln(2m/p))).
    """
    if d > _LARGEST_SIMULATED:
        return 2 * (math.sqrt(d) + math.sqrt(math.log(2 * matrices / failure_probability)))
    z = np.random.default_rng(0).normal(size=(_DRAWS, d, d))
    norms = np.abs(np.linalg.eigvalsh((z + np.swapaxes(z, 1, 2)) / math.sqrt(2))).max(axis=1)
    return float(np.quantile(norms, 1 - failure_probability / matrices))


def _worth(state: LinearState, ends: bool) -> Floats:
    """What the successors of the step being planned are worth; the last of them is the end if there are ends."""
    following, shape = state.values[state.step + 1], state.problem.shape
    return np.append(following, end_value(shape, shape.horizon - state.step - 1)) if ends else following


def _range(following: Floats) -> tuple[float, float]:
    """The middle and half the width of what V(s') can be; never less wide than a thousandth."""
    low, high = float(following.min()), float(following.max())
    return (low + high) / 2, max((high - low) / 2, 1e-3)


def _return_range(following: Floats) -> tuple[float, float]:
    """The same for r + V(s'), with rewards in [0, 1]."""
    low, high = float(following.min()), float(following.max())
    return (low + high + 1) / 2, (high - low + 1) / 2

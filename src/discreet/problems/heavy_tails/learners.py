"""Heavy-UCBVI and Heavy-UCBPO: optimism for rewards of which only a moment is bounded.

E|X|^(1+v) <= u, |mean| <= tau, and rewards were clipped to [-B, B] before anything left. Both learners plan as
:mod:`discreet.learners.ucbvi` does, in units in which mean rewards lie in [0, 1] (-tau is 0, tau is 1), with the
same bonus for successors and for noise, and with another width of a reward. With n visits, k users so far and
L = ln(1 + (1 + k) / n),

    sigma  = max(sqrt(r (1 - r)),  tail_scale sqrt(u B^(1-v)) / (2 tau),  0.6 sqrt(variance per visit))
    b      = max(1, tail_scale B / (2 tau))
    reward = min(1, r + bonus_scale (sigma sqrt(2 L / n) + b L / n) + noise)

u B^(1-v) bounds the second moment of a clipped reward: Bernstein's width, of which a tenth (``tail_scale``) counts,
because the bound is for the worst law that has this moment, and never less than for rewards with a range. The bias of
clipping is left out: its bound is nearly the same everywhere, far above what it is for most laws, and at v = 0.1 larger
than any mean reward, so that whoever adds it learns nothing (regret at alpha = 1.2 was that of uniform play, and it
jumped with the declared v). Where users report a few steps by randomised response, the release states what a visit adds
to the variance. ``bonus_scale`` is also the factor of the deviation of what follows, and 0.4 of it that of its range,
whether or not the world looks deterministic; ``error_scale`` is that of the noise, and ``threshold`` is UCBVI's.
``patience`` is that of UCBVI in bandits, and half of it counts in longer worlds, by visits and not by noise: rewards
are so noisy here that without it one run in ten never tries again what once looked bad.

For rewards with a range, with noise in them and several steps, Q is that of UCBVI. Without noise, and in bandits, UCBVI
bounds rewards more narrowly (:mod:`discreet.learners.reward_bounds`), and only UCBVI plays undecided actions side by
side (:mod:`discreet.learners.soft_greedy`).

**Laws per step.** Visits of the same state and action at other steps count as far as laws look alike there
(:func:`with_other_steps`): N, C, R and n above are those of a row together with what it
borrows. Steps that do differ are told apart after a while, and then learned each by itself. ``borrow=False`` keeps them
apart from the beginning.

UCBVI plays the greedy policy of Q with ties broken at random; UCBPO updates pi <- pi exp(n eta Q) with Q in units of
rewards and eta = eta_scale sqrt(2 ln A / (tau^2 H^2 K)).

**As in the theorems.** ``bonuses="theorem"``, or ``threshold=None`` (the printed estimate of P), takes the bonuses of
:mod:`discreet.problems.heavy_tails.theorem_bonuses`, of which ``bonus_scale`` multiplies the statistical terms and
``error_scale`` the errors; at 1 they are proved. ``bonuses="printed"`` takes what the paper prints, ``clip="sum"`` its
common clip of reward and future. Proved bonuses are large: without privacy, with pooled steps and alpha = 2, regret on
RiverSwim-6 is 0.57 of uniform play's after 20,000 episodes and 0.15 after 160,000; at alpha = 1.8 it is 0.99 after
20,000, and with laws per step or with privacy nothing is learned at such sizes.

**Formal guarantees.** Post-processing of releases. No regret bound is proved for the defaults; with ``bonus_scale=1,
error_scale=1, threshold=None`` (and thresholds "index" or "released" of the recipe) Q is optimistic with probability
1 - failure_probability.

**Differences from the paper.** The form and the constants above. The sign of UCBPO's exponent is plus (printed minus,
which learns to avoid reward). Noisy counts are cut before they become probabilities.

**What other steps tell** about a row whose rewards have heavy tails, which need many visits of each:
:mod:`discreet.learners.partial_pooling` says what a row borrows from the same state and action at other steps. Rewards
that were clipped differ from those in a range in one thing: the variance of one visit is known up to a factor f only,
s^2 = f D with D = u B^(1-v) in units of the range of means, at least 0.05 (0.25 where nothing was clipped). f is the
number with

    mean of (d_i^2 - T - E_i + f D / n_i) / (D / n_i) = f      over the half of the rows with fewest visits,

where what one visit does matters most and T least; it lies in [0.02, 4]. (Stable rewards: about .1 at alpha = 1.2, .35
at 1.8.) T, T_i and f are found together, from f = .1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.errors import check_name
from discreet.base.policies import MIXED, Policy
from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_flag, check_not_negative, check_positive
from discreet.learners.base import PlannedState, Problem, Replans, as_statistics, no_statistics, plan_into
from discreet.learners.partial_pooling import Rows, borrow, differences, reward_rows, with_moves
from discreet.learners.support_restriction import in_seen_states
from discreet.learners.ucbpo import PolicyOptimiser, PolicyState
from discreet.learners.ucbvi import UCBVI, UCBVIArrays, estimate_model, optimistic_values, recommended
from discreet.mechanisms.release import Release, Statistics
from discreet.problems.heavy_tails.theorem_bonuses import (
    CLIPS,
    Bonuses,
    evaluate_policy,
    moments_or_range,
    plan_greedily,
    reward_bound,
)
from discreet.worlds.planning.backward_induction import act_greedily

_ALL = frozenset({"visits", "transitions", "rewards"})
FORMS = ("bernstein", "theorem", "printed")
_RANGE = 0.4  # of bonus_scale: how much of the range of what follows a row with few moves may hide
_REPORTED = 0.6  # of the deviation that a visit adds where users report a few of their steps at random


def reward_widths(
    problem: Problem, release: Release, statistics: Statistics, scale: float, tail_scale: float
) -> Floats:
    """How far the mean reward of every row may be off by chance, in units of the range of means, (rows,)."""
    shape, public = problem.shape, release.public
    n = np.maximum(1.0, statistics.visits)
    width = np.log1p((1.0 + release.users) / n) / n
    r = np.clip(statistics.rewards / n, 0.0, 1.0)
    spread, largest = np.sqrt(r * (1.0 - r)), np.ones(1)
    if "thresholds" in public:
        moments, B = moments_or_range(shape), np.asarray(public["thresholds"], np.float64).reshape(-1)
        declared = np.sqrt(moments.bound * B ** (1.0 - moments.order)) / shape.reward_span
        spread, largest = np.maximum(spread, tail_scale * declared), np.maximum(1.0, tail_scale * B / shape.reward_span)
    if "variance_per_visit" in public:
        spread = np.maximum(spread, _REPORTED * np.sqrt(public["variance_per_visit"].reshape(-1)))
    return np.asarray(scale * (np.sqrt(2.0 * width) * spread + largest * width))


@dataclass(frozen=True)
class Optimism:
    """The knobs that both learners share, and what they make of a release."""

    bonus_scale: float
    tail_scale: float
    error_scale: float
    threshold: float | None
    patience: float
    failure_probability: float
    bonuses: str
    clip: str
    uniform: bool
    borrow: bool

    def __post_init__(self) -> None:
        check_not_negative("tail_scale", self.tail_scale)
        check_not_negative("patience", self.patience)
        check_name("form of bonuses", self.bonuses, FORMS)
        check_name("clip", self.clip, CLIPS)
        check_flag("borrow", self.borrow)
        self.theory()  # which checks the other knobs

    @property
    def proved(self) -> bool:
        """Whether the form of the bonuses is that of a theorem, or of the paper."""
        return self.bonuses != "bernstein" or self.threshold is None or self.clip != "each"

    def theory(self) -> Bonuses:
        """The bonuses of the theorem, scaled, or the printed ones."""
        return Bonuses(
            self.bonus_scale, self.error_scale, self.threshold, self.failure_probability, self.uniform,
            printed=self.bonuses == "printed",
        )  # fmt: skip

    def arrays(self, problem: Problem, release: Release | None) -> UCBVIArrays:
        """UCBVI's arrays with these scales; the width of a reward is not among them."""
        heavy = problem.shape.moments is not None
        learner = UCBVI(
            reward_scale=0.0,
            spread_scale=self.bonus_scale,
            range_scale=_RANGE * self.bonus_scale,
            noise_scale=self.error_scale,
            threshold=self.threshold or 0.0,
            patience=self.patience,
            arm_scale=0.0,
        )
        arrays = learner.arrays(problem) if release is None else learner.arrays_after(problem, release)
        if not heavy or problem.shape.horizon == 1:
            return arrays
        return arrays._replace(patience=self.patience / 2, staying=0.0, doubted=0.0)

    def seen(self, problem: Problem, release: Release | None) -> tuple[Statistics, Floats]:
        """The statistics of a release, or of none, and the widths of their mean rewards."""
        shape = problem.shape
        rows = shape.groups * shape.states * shape.actions
        if release is None:
            return no_statistics(rows, shape.states), np.zeros(rows)
        statistics = self.statistics(problem, release)
        return statistics, reward_widths(problem, release, statistics, self.bonus_scale, self.tail_scale)

    def statistics(self, problem: Problem, release: Release) -> Statistics:
        """Those of a release, with what rows learn from other steps if only a moment of rewards is bounded."""
        if self.borrow and problem.shape.moments is not None:
            return with_other_steps(problem.shape, release)
        return as_statistics(release)

    def recommend(self, problem: Problem, coins: Stream, release: Release | None) -> Policy:
        """The best policy of the estimated world, without bonus."""
        if release is None or self.proved:
            return recommended(problem, coins, release)
        shape = problem.shape
        values = np.zeros((shape.horizon + 1, shape.states))
        actions = np.zeros((shape.horizon, shape.states), np.int64)
        known = in_seen_states(shape, self.statistics(problem, release))
        plan_into(UCBVI().recommending(problem), known, coins.copy(), values, actions)
        return Policy(actions)


@dataclass(frozen=True)
class HeavyUCBVI(Replans):
    """Optimistic value iteration for heavy-tailed rewards.

    Args:
        bonus_scale: Scale of the bonus for rewards and for what follows.
        tail_scale: How much of the bound on the tails counts.
        error_scale: How many deviations of noise are added.
        threshold: Counts below this many deviations of noise are taken for zero; None takes the printed estimate.
        patience: As UCBVI's in bandits; half of it in longer worlds.
        failure_probability: Of the proved bonuses.
        bonuses: ``bernstein``, ``theorem`` or ``printed``.
        clip: ``each`` clips reward and future apart, ``sum`` together, as printed.
        borrow: Whether rows learn from other steps that look alike, where laws are per step.

    Examples:
        >>> import discreet
        >>> discreet.learners.HeavyUCBVI(tail_scale=0.2).name
        'heavy-ucbvi'
    """

    bonus_scale: float = 0.5
    tail_scale: float = 0.1
    error_scale: float = 0.2
    threshold: float | None = 1.5
    patience: float = 1.5
    failure_probability: float = 0.1
    bonuses: str = "bernstein"
    clip: str = "each"
    borrow: bool = True
    name: ClassVar[str] = "heavy-ucbvi"
    needs: ClassVar[frozenset[str]] = _ALL

    def __post_init__(self) -> None:
        self._optimism()

    def plan(self, problem: Problem, coins: Stream, release: Release | None) -> PlannedState:
        """The greedy policy of the optimistic Q, with ties broken by a copy of the coins."""
        shape, coins, optimism = problem.shape, coins.copy(), self._optimism()
        values = np.zeros((shape.horizon + 1, shape.states))
        actions = np.zeros((shape.horizon, shape.states), np.int64)
        if optimism.proved:
            plan_greedily(optimism.theory().model(problem, release), shape, self.clip, coins, values, actions)
        else:
            statistics, widths = optimism.seen(problem, release)
            _plan(optimism.arrays(problem, release), statistics, widths, coins, values, actions)
        return PlannedState(problem, coins, Policy(actions), values, release)

    def recommend(self, state: PlannedState) -> Policy:
        """The best policy of the estimated world, without bonus."""
        return self._optimism().recommend(state.problem, state.coins, state.release)

    def _optimism(self) -> Optimism:
        return Optimism(
            self.bonus_scale, self.tail_scale, self.error_scale, self.threshold, self.patience,
            self.failure_probability, self.bonuses, self.clip, uniform=False, borrow=self.borrow,
        )  # fmt: skip


@dataclass(frozen=True)
class HeavyUCBPO(PolicyOptimiser):
    """Optimistic policy optimisation for heavy-tailed rewards (Algorithm 3, with the sign that learns).

    Not for private bandits: it stays on a worse arm more often than ``HeavyUCBVI``.

    Args:
        eta_scale: How many times the rate of the analysis is used.
        bonus_scale: Scale of the bonus for rewards and for what follows.
        tail_scale: How much of the bound on the tails counts.
        error_scale: How many deviations of noise are added.
        threshold: Counts below this many deviations of noise are taken for zero; None takes the printed estimate.
        patience: As UCBVI's in bandits; half of it in longer worlds.
        failure_probability: Of the proved bonuses.
        bonuses: ``bernstein``, ``theorem`` or ``printed``.
        clip: ``each`` clips reward and future apart, ``sum`` together, as printed.
        borrow: Whether rows learn from other steps that look alike, where laws are per step.

    Examples:
        >>> import discreet
        >>> discreet.learners.HeavyUCBPO(eta_scale=10.0).name
        'heavy-ucbpo'
    """

    eta_scale: float = 20.0
    bonus_scale: float = 0.5
    tail_scale: float = 0.1
    error_scale: float = 0.2
    threshold: float | None = 1.5
    patience: float = 1.5
    failure_probability: float = 0.1
    bonuses: str = "bernstein"
    clip: str = "each"
    borrow: bool = True
    name: ClassVar[str] = "heavy-ucbpo"
    needs: ClassVar[frozenset[str]] = _ALL | {MIXED}

    def __post_init__(self) -> None:
        check_positive("eta_scale", self.eta_scale)
        self._optimism()

    def optimistic_q(self, state: PolicyState, release: Release) -> Floats:
        """Q of the policy with bonuses; those of the theorem hold for all value functions at once."""
        problem, q, optimism = state.problem, np.zeros_like(state.log_weights), self._optimism()
        probabilities = np.array(state.policy.probabilities)
        if optimism.proved:
            evaluate_policy(optimism.theory().model(problem, release), problem.shape, self.clip, probabilities, q)
        else:
            statistics, widths = optimism.seen(problem, release)
            _evaluate(optimism.arrays(problem, release), statistics, widths, probabilities, q)
        return q

    def recommend(self, state: PolicyState) -> Policy:
        """The best policy of the estimated world, without bonus."""
        return self._optimism().recommend(state.problem, state.coins, state.release)

    def largest_value(self, problem: Problem) -> float:
        """tau per step, in units of tau or, with Bernstein's bonus, of the range of means."""
        unit = 1.0 if self._optimism().proved else problem.shape.reward_span
        return reward_bound(problem.shape) * problem.shape.horizon / unit

    def _optimism(self) -> Optimism:
        return Optimism(
            self.bonus_scale, self.tail_scale, self.error_scale, self.threshold, self.patience,
            self.failure_probability, self.bonuses, self.clip, uniform=True, borrow=self.borrow,
        )  # fmt: skip


@kernel
def _estimate(learner: UCBVIArrays, statistics: Statistics, widths: Floats) -> None:
    """UCBVI's model, its rewards widened; a reward that noise or optimism makes larger than all means is cut there."""
    estimate_model(learner, statistics)
    for row in range(widths.shape[0]):
        learner.reward[row] = min(1.0, learner.reward[row] + widths[row])


@kernel
def _plan(
    learner: UCBVIArrays, statistics: Statistics, widths: Floats, coins: Stream, values: Floats, actions: Integers
) -> None:
    """The greedy policy of the optimistic Q; exact ties are broken at random."""
    H = actions.shape[0]
    _estimate(learner, statistics, widths)
    values[H, :] = 0.0
    for h in range(H - 1, -1, -1):
        optimistic_values(learner, values[h + 1], h)
        act_greedily(learner.table, -np.inf, float(H - h), coins, values[h], actions[h])


@kernel
def _evaluate(learner: UCBVIArrays, statistics: Statistics, widths: Floats, probabilities: Floats, q: Floats) -> None:
    """The optimistic Q of a stochastic policy."""
    H, S, A = q.shape
    _estimate(learner, statistics, widths)
    values = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        optimistic_values(learner, values[h + 1], h)
        for s in range(S):
            value = 0.0
            for a in range(A):
                q[h, s, a] = learner.table[s, a]
                value += probabilities[h, s, a] * q[h, s, a]
            values[h, s] = min(float(H - h), value)


_SMALLEST_SPREAD = 0.05  # of a reward in units of the range of means, squared


def with_other_steps(shape: Shape, release: Release) -> Statistics:
    """The statistics of a release, every row with the visits that it borrows; as they are where steps are pooled."""
    statistics = as_statistics(release)
    if shape.groups == 1:
        return statistics
    steps, S = (shape.horizon, shape.states * shape.actions), shape.states
    counts = statistics.transitions.reshape(S, *steps).transpose(1, 2, 0)
    moves, per_move = with_moves(counts, statistics.transition_noise.reshape(steps))
    visits, rewards = statistics.visits.reshape(steps), statistics.rewards.reshape(steps)
    visit_noise, reward_noise = statistics.visit_noise.reshape(steps), statistics.reward_noise.reshape(steps)
    rows = _heavy(shape, release, reward_rows(visits, rewards, visit_noise, reward_noise))
    loans = borrow(rows, differences(rows, most=0.25, fitted=True), visits, visit_noise)
    return Statistics(
        visits=(visits + loans.added(visits)).reshape(-1),
        transitions=np.ascontiguousarray(moves.transpose(2, 0, 1).reshape(S, -1)),
        rewards=(rewards + loans.added(rewards)).reshape(-1),
        visit_noise=loans.deviation(visit_noise).reshape(-1),
        transition_noise=per_move.reshape(-1),
        reward_noise=loans.deviation(reward_noise).reshape(-1),
    )


def _heavy(shape: Shape, release: Release, rows: Rows) -> Rows:
    """The same rows with the spread of clipped rewards, and noise that grows with visits where there is such."""
    noise, spread, public = rows.noise, rows.spread, release.public
    if "variance_per_visit" in public:
        noise = noise + public["variance_per_visit"].reshape(noise.shape) / rows.visits
    if "thresholds" in public:
        moments, B = moments_or_range(shape), public["thresholds"].reshape(noise.shape)
        spread = np.maximum(_SMALLEST_SPREAD, moments.bound * B ** (1 - moments.order) / shape.reward_span**2)
    return rows._replace(spread=spread, noise=noise)

r"""UCBVI: plan in the estimated world with a bonus for what is uncertain, and play greedily.

The idea of Azar, Osband, Munos, "Minimax regret bounds for reinforcement learning" (2017), on private counts: rewards
and successors are each estimated optimistically, and each bonus is in units of what it is about (a reward is at most 1;
a successor is worth at most the best of the values that follow, whatever the horizon).

A row is (group, state, action) with released counts N (visits), C_t (successors t), R (rewards), and sd_n, sd_t, sd_r
the standard deviations of the noise in them. With V the values of the next step, k users so far, n = max(1, N) and
the scales of the knobs,

    w_t      = max(0, C_t - threshold sd_t),   m = sum of w_t,        counts that stand out of the noise
    L(x)     = ln(1 + (1 + k) / x)
    r        = R / n clipped to [0, 1];   E, Var: mean and variance of V under w / m
    reward   = min(1, r + b + noise_scale sqrt(sd_r^2 + r^2 sd_n^2) / n)
    future   = min(max V, E + spread_scale sqrt(2 Var L(m) / m) + range_scale (1 + 4 d) (max V - E) min(1, L(m) / m)
                        + noise_scale sd_t sqrt(sum over w_t > 0 of (V_t - E)^2) / m
                        + noise_scale threshold sd_t (max V - E) / m)
    Q        = reward + future

A row with N < 1/2 + sd_n is *unseen*: its reward is 1 and its future max V, as is the future of a row with m = 0. The
last term undoes a wrong cut: what was cut weighs at most about threshold * sd_t visits, and may be worth max V. With
more than 10 states ``threshold`` is sqrt(ln S / ln 10) times the knob's, as the largest of S draws of noise grows.

**Rewards.** With noise b = reward_scale (sqrt(2 r (1 - r) L(n) / n) + L(n) / n), Bernstein's width. Without noise it is
never above 1 - r, and has the logarithm of the visits of the row's own state; the value of a state has that of all
users instead. Rewards of bandits (worlds of one step) are bounded as coins by KL-UCB. The formulas, and why, are in
:mod:`discreet.learners.reward_bounds`.

**Successors.** A few moves that all led to one state may be a rule or chance. d, between 0 and 1, is about the
probability that it is chance, by what the other rows of the world have shown:
:mod:`discreet.learners.deterministic_prior`.

**Noise that stays.** Where users are asked only about the rows that they play (the local model, focused blocks), the
noise of a row is drawn while the row is played and stays as it is afterwards: a row that it made look bad is not played
any more, and nothing would correct it. The variance of its noise counts how often a row was asked; where others of its
state were asked more than ten times as often, every noise_scale of the row is multiplied by

    1 + (2/3) patience sqrt(2 ln(largest sd_t^2 in the state / (10 sd_t^2))).

Where all rows have the same noise, drawn anew with every release, this changes nothing.

**Blocks with noise that lasts** (prefix sums): actions that noise does not tell apart yet are played side by side, see
:mod:`discreet.learners.soft_greedy`.

**Rows that noise made look bad** are taken to be about as good as others where every block has noise of its own, steps
are pooled and there are more than two actions, see :mod:`discreet.learners.reward_shrinkage`.

**Rows that few users meet**: where every visit counts, its likely visits are taken for those of a row
(:mod:`discreet.learners.visit_posterior`), and with two actions a reward that is hardly known counts for more while
exploring (:mod:`discreet.learners.optimistic_initialisation`).

**Blocks are weighed** by how much they can tell about a row where releases say what each of them told (all but focused
blocks, trees and the local model), see :mod:`discreet.learners.block_history`; N, C_t, R and sd are those of the
weighted sums then, and with laws per step they have what a row borrows from other steps that look alike
(:mod:`discreet.learners.partial_pooling`). Where the recipe has a long first block, everybody acts at random in it
(:mod:`discreet.recipes.predicted_regret`).

**Answers of few users** (local model, one question to each): an answer counts as four visits, see
:mod:`discreet.learners.effective_sample_size`.

**Recommending** (what a person deploys in the end) is the same plan with no bonus: all scales are zero, except that of
the noise, which is -1/2 (half a deviation of noise counts against a row: it may have invented what looks good), and
unseen rows are worth nothing. A future is worth no less than the least of the values that follow, and states that
nobody was seen in do not count: :mod:`discreet.learners.support_restriction`.

**Formal guarantees.** None of the knobs touches privacy: everything here is post-processing of a release. The form of
the bonus (empirical Bernstein, for rewards and successors apart, plus the noise) is that of the theory; its scales are
below the theory's constants, with which nothing is learned at the usual numbers of users, and L follows UCB1 rather
than a union bound: no regret bound is proved for the defaults.

**Differences from the paper.** Exact ties are broken at random with public coins. Noise enters by the terms with sd and
by the cut; all of them vanish without privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.compiled import fused
from discreet.base.policies import Policy
from discreet.base.streams import Stream, fast_log
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_not_negative
from discreet.learners.base import PlannedState, Problem, WeighsBlocks, fill_q, plan_to_recommend, prepare
from discreet.learners.deterministic_prior import doubt_of_row, kinds_of_rows
from discreet.learners.effective_sample_size import believed
from discreet.learners.optimistic_initialisation import worth_a_look
from discreet.learners.reward_bounds import (
    ArmScales,
    any_clear,
    at_most,
    bernstein,
    bound_arms,
    look_from_afar,
    shares_of_states,
)
from discreet.learners.reward_shrinkage import lifted
from discreet.learners.soft_greedy import shared_out
from discreet.mechanisms.release import OPENING, WEIGHS, Release, Statistics
from discreet.worlds.planning.backward_induction import spread_over_successors, sum_over_successors
from discreet.worlds.planning.sparse_transitions import (
    FewSuccessors,
    few_successors,
    list_successors,
    noisy,
    spread_over_few,
)

_DOUBT = 0.5  # deviations of noise that count against a row when a policy is recommended
_DOUBTED = 4.0  # how much more the range of what follows counts for a row that repeated itself, and may be chance
_STAYING = 2 / 3  # of patience, for noise that stays
_SELDOM = 10.0  # how many times as often others of the state were asked than a row that is doubted longer
_SUCCESSORS = 10  # with more than so many the cut grows as the largest of that many draws of noise does
_LANES = 8  # numbers that a processor adds at once; loops over a multiple of it have no slow remainder


class UCBVIArrays(NamedTuple):
    """Constants and scratch space for one compiled run; rows are (group, state, action).

    The pairs of a step are padded to a multiple of ``_LANES``: what is computed beyond them is read by nobody. The
    arrays of rows have room for that after the last row.
    """

    groups: int
    reward_scale: float
    spread_scale: float
    range_scale: float
    noise_scale: float
    threshold: float
    patience: float  # how much longer an arm is tried that had less than its share, where arm_scale is 0
    arm_scale: float  # takes the place of reward_scale in worlds of one step, ...
    arm_noise: float  # ... and this that of noise_scale
    staying: float  # how much longer a row is tried that was asked less often than others of its state
    doubted: float  # how much more of range_scale counts for a row that led to one successor only, by chance perhaps
    bandit: bool  # whether there is one step, so that rewards are bounded as those of arms
    unseen: float  # what a row is worth that was not seen: 1 everything that is possible, 0 nothing
    clock: Floats  # (1,) users whose releases were seen
    reward: Floats  # (rows,) scratch, as all that follow: the optimistic reward
    afar: Floats  # (rows,) how much larger it is by the users of the whole world than by those of its state ...
    clear: Integers  # (1,) ... where this is 1: some row has no noise in its rewards
    weights: Floats  # (S, rows) counts above the noise, by successor
    most: Floats  # (rows,) the largest of them
    inverse: Floats  # (rows,) one over their sum; zero where nothing is known
    per_variance: Floats  # (rows,) the bonus is the root of this times the variance of V, ...
    per_range: Floats  # (rows,) ... plus this times max V - E, ...
    per_deviation: Floats  # (rows,) ... plus this times the deviation of V over live successors
    q: Floats  # (padded S * A,) of one step
    table: Floats  # (S, A) the same numbers
    mean: Floats  # (padded S * A,) E
    spread: Floats  # (padded S * A,) sums of w (V - E)^2
    deviation: Floats  # (padded S * A,) sums of (V - E)^2 over w > 0
    few: FewSuccessors  # where the weights above zero are, if they are few and nothing is noisy


@dataclass(frozen=True)
class UCBVI(WeighsBlocks):
    """Optimistic value iteration on released counts; per step or time-homogeneous, as the release is.

    Args:
        reward_scale: Scale of the bonus for rewards.
        spread_scale: Scale of the bonus for the deviation of what follows.
        range_scale: Scale of the bonus for the range of what follows.
        noise_scale: How many deviations of noise are added.
        threshold: Counts below this many deviations of noise are taken for zero (more with more than ten states).
        patience: How much longer a row is tried that noise may have made look bad: one that was asked less often than
            others of its state.
        arm_scale: In bandits: takes the place of ``reward_scale``; the theory's is 1.
        arm_noise: In bandits: takes the place of ``noise_scale``; with 1 all of the noise counts.

    Examples:
        >>> import discreet
        >>> discreet.learners.UCBVI(noise_scale=0.5).name
        'ucbvi'
    """

    reward_scale: float = 0.5
    spread_scale: float = 0.5
    range_scale: float = 0.2
    noise_scale: float = 0.2
    threshold: float = 1.5
    patience: float = 3.0
    arm_scale: float = 0.9
    arm_noise: float = 0.9
    name: ClassVar[str] = "ucbvi"
    needs: ClassVar[frozenset[str]] = frozenset({"visits", "transitions", "rewards", WEIGHS, OPENING})

    def __post_init__(self) -> None:
        for knob in fields(self):
            check_not_negative(knob.name, getattr(self, knob.name))

    def arrays(self, problem: Problem) -> UCBVIArrays:
        """Constants and scratch space; the clock stands at zero users."""
        shape = problem.shape
        rows, pairs = shape.groups * shape.states * shape.actions, shape.states * shape.actions
        padded = -(-pairs // _LANES) * _LANES if pairs >= _LANES else pairs
        q, room = np.zeros(padded), rows + padded - pairs
        return UCBVIArrays(
            groups=shape.groups,
            reward_scale=self.reward_scale,
            spread_scale=self.spread_scale,
            range_scale=self.range_scale,
            noise_scale=self.noise_scale,
            threshold=self.threshold * more_to_cut(shape.states),
            patience=self.patience if shape.horizon == 1 else 0.0,
            arm_scale=self.arm_scale,
            arm_noise=self.arm_noise,
            staying=_STAYING * self.patience if shape.horizon > 1 else 0.0,
            doubted=_DOUBTED,
            bandit=shape.horizon == 1,
            unseen=1.0,
            clock=np.zeros(1),
            reward=np.zeros(room),
            afar=np.zeros(room),
            clear=np.zeros(1, np.int64),
            weights=np.zeros((shape.states, room)),
            most=np.zeros(room),
            inverse=np.zeros(room),
            per_variance=np.zeros(room),
            per_range=np.zeros(room),
            per_deviation=np.zeros(room),
            q=q,
            table=q[:pairs].reshape(shape.states, shape.actions),
            mean=np.zeros(padded),
            spread=np.zeros(padded),
            deviation=np.zeros(padded),
            few=few_successors(shape.groups, shape.states, shape.actions),
        )

    def arrays_after(self, problem: Problem, release: Release) -> UCBVIArrays:
        """The same arrays with the clock at the number of users of the release."""
        arrays = self.arrays(problem)
        arrays.clock[0] = release.users
        return arrays

    def replan(self, state: PlannedState, release: Release) -> PlannedState:
        """The plan from this release; undecided actions are shared out among many users where noise lasts."""
        explored = worth_a_look(state.problem.shape, lifted(state.problem.shape, release))
        planned = super().replan(state, explored)._replace(release=release)
        block = release.users - (state.release.users if state.release is not None else 0)
        if not release.noise_lasts or block < 2 or state.problem.shape.horizon == 1:
            return planned
        return shared_out(self.arrays_after(state.problem, release), planned, release)

    def recommending(self, problem: Problem) -> UCBVIArrays:
        """The arrays of the plan without bonus: noise counts against a row, and unseen rows are worth nothing."""
        certain = replace(self, reward_scale=0.0, spread_scale=0.0, range_scale=0.0, patience=0.0, arm_scale=0.0)
        return certain.arrays(problem)._replace(noise_scale=-_DOUBT, unseen=0.0)


def recommended(problem: Problem, coins: Stream, release: Release | None) -> Policy:
    """The plan without bonus from a release: what learners recommend that explore in other ways than UCBVI does."""
    known = None if release is None else believed(release)
    return plan_to_recommend(UCBVI().recommending(problem), problem, coins, known)


def more_to_cut(states: int) -> float:
    """How many times higher counts are cut because the noise of so many successors may stand out."""
    return math.sqrt(max(1.0, math.log(states) / math.log(_SUCCESSORS)))


@prepare.implement(UCBVIArrays)
def _prepare(learner: UCBVIArrays, statistics: Statistics, coins: Stream, H: int) -> None:
    estimate_model(learner, statistics)
    learner.clock[0] += 1.0


@fill_q.implement(UCBVIArrays)
def _fill_q(
    learner: UCBVIArrays, statistics: Statistics, following: Floats, h: int, left: float
) -> tuple[float, float]:
    optimistic_values(learner, following, h)
    if learner.clear[0] == 1:
        look_from_afar(learner.table, learner.afar[h * learner.table.size if learner.groups > 1 else 0 :])
    return -np.inf, left


@fused
def estimate_model(learner: UCBVIArrays, statistics: Statistics) -> None:
    """Rewards, successors and the factors of the bonuses of every row, into the learner's scratch space.

    Rows run innermost and nothing branches, so all of it vectorises; noise would make every branch a coin flip.
    """
    # Arrays are taken out of the tuples once, before the loops.
    reward, weights, most, inverse = learner.reward, learner.weights, learner.most, learner.inverse
    per_variance, per_range, per_deviation = learner.per_variance, learner.per_range, learner.per_deviation
    visits, visit_noise = statistics.visits, statistics.visit_noise
    rewards, reward_noise = statistics.rewards, statistics.reward_noise
    transitions, transition_noise = statistics.transitions, statistics.transition_noise
    reward_scale, range_scale, noise_scale = learner.reward_scale, learner.range_scale, learner.noise_scale
    threshold, unseen, users = learner.threshold, learner.unseen, 1.0 + learner.clock[0]
    spread, patience = 2.0 * learner.spread_scale**2, learner.patience
    share = users / learner.table.shape[1]
    S, R = transitions.shape
    opening = 2 - S % 2  # two successors at a time: half the trips through their sum
    one, one_weight = transitions[0], weights[0]
    if opening == 1:
        for row in range(R):
            one_weight[row] = inverse[row] = most[row] = max(0.0, one[row] - threshold * transition_noise[row])
    else:
        two, two_weight = transitions[1], weights[1]
        for row in range(R):
            cut = threshold * transition_noise[row]
            first, second = max(0.0, one[row] - cut), max(0.0, two[row] - cut)
            one_weight[row], two_weight[row], inverse[row] = first, second, first + second
            most[row] = max(first, second)
    for t in range(opening, S, 2):
        one, two, one_weight, two_weight = transitions[t], transitions[t + 1], weights[t], weights[t + 1]
        for row in range(R):
            cut = threshold * transition_noise[row]
            first, second = max(0.0, one[row] - cut), max(0.0, two[row] - cut)
            one_weight[row], two_weight[row] = first, second
            inverse[row] += first + second
            most[row] = max(most[row], max(first, second))
    doubted, mixed, alike = learner.doubted, 1.0, 0.0
    if doubted > 0.0:
        mixed, alike = kinds_of_rows(most, inverse, R)
    for row in range(R):
        n, m = max(1.0, visits[row]), max(1e-9, inverse[row])
        over_both = 1.0 / (n * m)  # one division for two reciprocals
        per_visit, per_move = over_both * m, over_both * n
        known = 1.0 if visits[row] >= 0.5 + visit_noise[row] else 0.0
        r = min(1.0, max(0.0, rewards[row] * per_visit))
        chance = bernstein(reward_scale, r, per_visit, fast_log(1.0 + users * per_visit))
        noise = noise_scale * per_visit * math.sqrt(reward_noise[row] ** 2 + (r * visit_noise[row]) ** 2)
        if patience > 0.0:
            noise *= 1.0 + patience * math.sqrt(2.0 * fast_log(1.0 + share * per_visit))
        reward[row] = known * min(1.0, r + chance + noise) + (1.0 - known) * unseen
        width = fast_log(1.0 + users * per_move) * per_move
        noise = noise_scale * transition_noise[row] * per_move
        per_variance[row] = spread * width
        doubt = doubt_of_row(most[row], inverse[row], mixed, alike)
        per_range[row] = range_scale * (1.0 + doubted * doubt) * min(1.0, width) + threshold * noise
        per_deviation[row] = noise
        inverse[row] = known * per_move if inverse[row] > 0.0 else 0.0
    learner.clear[0] = 0
    if reward_scale > 0.0 and not learner.bandit and any_clear(reward_noise):
        learner.clear[0] = 1
        bound_clear_rewards(learner, statistics)
    learner.few.listed[0] = 0
    if not noisy(transition_noise):
        list_successors(learner.few, weights, learner.table.size)
    if learner.bandit:
        scales = ArmScales(learner.arm_scale, learner.arm_noise, noise_scale, patience)
        bound_arms(scales, statistics, users, learner.table.shape[1], reward)
    elif learner.staying > 0.0:
        doubt_noise_that_stays(learner, statistics)


@fused
def bound_clear_rewards(learner: UCBVIArrays, statistics: Statistics) -> None:
    """Rewards of rows without noise in them, here and from afar, in a loop of its own: few releases have any."""
    reward, afar, visits = learner.reward, learner.afar, statistics.visits
    scale, users = learner.reward_scale, 1.0 + learner.clock[0]
    shares_of_states(visits, users, learner.table.shape[1], afar)
    for row in range(visits.shape[0]):
        known = visits[row] >= 0.5 + statistics.visit_noise[row]
        if statistics.reward_noise[row] > 0.0 or not known:
            afar[row] = 0.0
            continue
        per_visit = 1.0 / max(1.0, visits[row])
        r = min(1.0, max(0.0, statistics.rewards[row] * per_visit))
        here = at_most(1.0 - r, bernstein(scale, r, per_visit, fast_log(1.0 + afar[row] * per_visit)))
        wide = at_most(1.0 - r, bernstein(scale, r, per_visit, fast_log(1.0 + users * per_visit)))
        noise = learner.noise_scale * per_visit * r * statistics.visit_noise[row]
        reward[row], afar[row] = min(1.0, r + here + noise), wide - here


@fused
def doubt_noise_that_stays(learner: UCBVIArrays, statistics: Statistics) -> None:
    """Add to the bonuses of rows that were asked seldom, in a loop of its own: it is rarely needed."""
    noise, A = statistics.transition_noise, learner.table.shape[1]
    for first in range(0, noise.shape[0], A):
        widest = 0.0
        for row in range(first, first + A):
            widest = max(widest, noise[row])
        for row in range(first, first + A):
            seldom = widest**2 / (_SELDOM * max(1e-9, noise[row] ** 2))
            if noise[row] <= 0.0 or seldom <= 1.0:
                continue
            more = learner.noise_scale * learner.staying * math.sqrt(2.0 * fast_log(seldom))
            n = max(1.0, statistics.visits[row])
            r = min(1.0, max(0.0, statistics.rewards[row] / n))
            own = math.sqrt(statistics.reward_noise[row] ** 2 + (r * statistics.visit_noise[row]) ** 2)
            learner.reward[row] = min(1.0, learner.reward[row] + more * own / n)
            more *= noise[row] * learner.inverse[row]
            learner.per_range[row] += learner.threshold * more
            learner.per_deviation[row] += more


@fused
def optimistic_values(learner: UCBVIArrays, following: Floats, h: int) -> None:
    """Q of every (state, action) at step h, followed by values ``following``, into the learner's scratch space."""
    q, mean, spread, deviation = learner.q, learner.mean, learner.spread, learner.deviation
    padded, unseen = q.shape[0], learner.unseen
    first = h * learner.table.size if learner.groups > 1 else 0
    here = slice(first, first + padded)
    reward, inverse = learner.reward[here], learner.inverse[here]
    per_variance, per_range = learner.per_variance[here], learner.per_range[here]
    per_deviation = learner.per_deviation[here]
    best, least = 0.0, following[0] if learner.noise_scale < 0.0 else -np.inf
    for t in range(following.shape[0]):
        best, least = max(best, following[t]), min(least, following[t])
    if best == 0.0:  # nothing follows, as after the last step
        for i in range(padded):
            q[i] = reward[i]
        return
    if learner.few.listed[0] == 1:
        group = h if learner.groups > 1 else 0
        spread_over_few(learner.few, group, learner.weights[:, here], inverse, following, mean, spread)
    else:
        sum_over_successors(learner.weights, here, following, mean)
        spread_over_successors(learner.weights, here, inverse, following, mean, spread, deviation)
    for i in range(padded):
        bonus = math.sqrt(per_variance[i] * spread[i] * inverse[i]) + per_deviation[i] * math.sqrt(deviation[i])
        future = max(least, min(best, mean[i] + bonus + per_range[i] * (best - mean[i])))
        q[i] = reward[i] + (future if inverse[i] > 0.0 else unseen * best)

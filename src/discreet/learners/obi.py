r"""LDP-OBI: optimism with bounds on the noise of every count, and signed estimates.

Garcelon, Perchet, Pike-Burke, Pirotta, "Local differential privacy for regret minimization in reinforcement learning"
(2021), algorithm 2. For each (state, action) with released rewards R, visits N, transitions N(s') and their sum N_p,
and bounds c1, c2, c3, c4 on the noise in R, N, N_p and N(s') that hold for all releases at once; with S states,
A actions, H steps, the episode k that is planned for, and a knob alpha above 1, the paper plans with

    r        = R / (N + alpha c2),              p(s') = N(s') / (N_p + alpha c3)          (signed)
    beta_r   = u_r / sqrt(N + alpha c2)   + ((alpha + 1) c2 + c1) / (N + alpha c2)
    beta_p   = u_p / sqrt(N_p + alpha c3) + (S c4 + (alpha + 1) c3) / (N_p + alpha c3)
    Q_h      = r + beta_r + (H - h) beta_p + p V_{h+1},   V_h = min(H - h, max(0, max_a Q_h)),   h = 0, ..., H - 1.

``constants`` says where the numbers come from:

=====================  ==============================================================================================
"tight"                c from the release's own any-time radii; u by Hoeffding and Weissman, peeled so that they hold
                       always; both times ``scale``, and the bounds below
"laplace", ...         the formulas above with the paper's c_k for its four randomisers, u_r = sqrt(2 L),
                       u_p = sqrt(14 S L), L = ln(4 pi^2 S A H k^3 / (3 delta)) and delta_k = 3 delta / (2 pi^2 k^2)
                       in every c_k
=====================  ==============================================================================================

**Tight bounds.** The formulas above hold for all values up to H - h: S errors of c4 count in full wherever they lead,
and Q, by which actions are chosen, is not capped. With our floor of c at 1 that is S + 3 visits even where there is no
noise, and above the cap the action with the widest bonus is played, which is the one that was counted least. Tight ones
use that rewards are at most 1, and what follows is within the values that follow: with V = V_{h+1}, its least and
largest value v and W, and D the larger one of the sums over all states of V - v and of W - V,

    reward   = min(1, max(0, R + c1) / n + l u_r / sqrt(n) + 3 / n),                        n = N - c2
    future   = N(.) V / N_p + c4 D / N_p + (W - v) (u_p / sqrt(m) + 3 / m), within [v, W],  m = N_p - c3
    Q_h      = reward + future,         where n <= 0 the reward is 1, and where m <= 0 the future is W.

Why they hold: the true counts have R* <= R + c1 and N* >= N - c2, so their mean is at most the first term. With e* the
mean of V by true counts, e* - N(.) V / N_p is the sum over s' of (N*(s') - N(s')) (V(s') - e*) / N_p, because the true
counts weigh V - e* to zero: at most c4 D / N_p, and nothing where V is flat. The terms with u are Hoeffding's for
rewards, and half of Weissman's distance times the range of V. They hold for every V at once, so that signed estimates
do no harm. The terms with 3 are for few visits, which a ``scale`` below 1 would believe, and
l = sqrt(max(1, ln(1 + k / (A n)))) is for a row that had less than its share of users: without it one unlucky start is
rarely corrected. Both make bounds wider, so they need no proof.

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

from discreet.base.compiled import inlined
from discreet.base.errors import check_name
from discreet.base.streams import Stream, fast_log
from discreet.base.types import Floats
from discreet.base.validation import check_open_unit, check_positive
from discreet.learners.base import PlansBackwards, Problem, fill_q, prepare
from discreet.learners.ucbvi import UCBVI, UCBVIArrays
from discreet.mechanisms.release import Release, Statistics
from discreet.worlds.planning.backward_induction import rows_of_step, sum_over_successors

CONSTANTS = ("tight", "laplace", "gaussian", "randomised-response", "bounded")
_GIVEN = len(CONSTANTS)  # the bounds were computed outside, from a release that knows its own
_NOTHING = 1e-9  # visits that tell nothing
_FEW = 3.0  # visits whose rewards and moves may have been chance, whatever the scale
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
    inverse: Floats  # (rows,) scratch: one over N_p + alpha c3; if tight one over N_p, zero where that says nothing
    bonus: Floats  # (rows,) scratch: beta_p; if tight the part of chance, per unit of the range of V
    noisy: Floats  # (rows,) scratch: if tight the part of noise, per unit of D
    q: Floats  # (S * A,) scratch: of one step
    table: Floats  # (S, A) the same numbers


@dataclass(frozen=True)
class OBI(PlansBackwards):
    """LDP-OBI on released counts; per step or time-homogeneous, as the release is.

    Args:
        constants: ``tight``, or the paper's: ``laplace``, ``gaussian``, ``randomised-response``, ``bounded``.
        scale: Of the tight bonuses; at 1 optimism is proved.
        alpha: Above 1: how far the paper's denominators are raised; the tight ones do not use it.
        failure_probability: With which a bound may not hold.

    Examples:
        >>> import discreet
        >>> discreet.learners.OBI(scale=1.0).constants
        'tight'
    """

    constants: str = "tight"
    scale: float = 0.1
    alpha: float = 2.0
    failure_probability: float = 0.1
    name: ClassVar[str] = "obi"
    needs: ClassVar[frozenset[str]] = frozenset({"visits", "transitions", "rewards"})

    def __post_init__(self) -> None:
        check_name("constants", self.constants, CONSTANTS)
        check_positive("scale", self.scale)
        check_positive("alpha - 1", check_positive("alpha", self.alpha) - 1)
        check_open_unit("failure_probability", self.failure_probability)

    def arrays(self, problem: Problem) -> OBIArrays:
        """Constants and scratch space; the clock stands at zero users and no bounds are given."""
        shape = problem.shape
        pairs, S = shape.states * shape.actions, shape.states
        rows = shape.groups * pairs
        often = 4 if self.constants == "randomised-response" else 6  # how many events the paper counts
        share = 3 * self.failure_probability / (2 * math.pi**2)  # delta_k k^2
        q = np.zeros(pairs)
        return OBIArrays(
            groups=shape.groups,
            constants=CONSTANTS.index(self.constants),
            alpha=self.alpha,
            failure=self.failure_probability,
            scale=self.scale if self.constants == "tight" else 1.0,
            pair_log=math.log(often * pairs / share),
            successor_log=math.log(often * S * pairs / share),
            level_log=math.log(2 * pairs * shape.horizon / share),
            clock=np.zeros(1),
            bounds=np.zeros((4, rows)),
            reward=np.zeros(rows),
            inverse=np.zeros(rows),
            bonus=np.zeros(rows),
            noisy=np.zeros(rows),
            q=q,
            table=q.reshape(shape.states, shape.actions),
        )

    def arrays_after(self, problem: Problem, release: Release) -> OBIArrays:
        """The same with the clock at the users of the release and, where it states radii, with these as bounds."""
        arrays = self.arrays(problem)
        arrays.clock[0] = release.users
        if self.constants == "tight" and release.radius_of is not None:
            arrays = arrays._replace(constants=_GIVEN)
            rows, S = arrays.reward.size, problem.shape.states
            share = self.failure_probability / (2 * rows * (S + 3))
            for i, name in enumerate(("rewards", "visits", "followed", "transitions")):
                arrays.bounds[i] = release.radius(name, share).reshape(-1)
        return arrays

    def recommending(self, problem: Problem) -> UCBVIArrays:
        """As UCBVI's: no bonus, noise counts against a row, what was not seen is worth nothing."""
        return UCBVI().recommending(problem)


class Multiples(NamedTuple):
    """The bounds on the noise of one episode, as multiples of the noise's standard deviation."""

    c_pair: float  # in the visits and rewards of a (state, action)
    c_successor: float  # in the count of one successor
    c_sum: float  # in the sum over all successors


class Deviations(NamedTuple):
    """How far means of n rewards and of n successors are off, times sqrt(n)."""

    u_reward: float
    u_transition: float


@prepare.implement(OBIArrays)
def _prepare(learner: OBIArrays, statistics: Statistics, coins: Stream, H: int) -> None:
    learner.clock[0] += 1.0  # now the number of the episode that is planned for
    k = learner.clock[0]
    S = statistics.transitions.shape[0]
    multiples = noise_multiples(learner, k, S, H, statistics.visit_noise[0])
    deviations = statistical_deviations(learner, k, S, H)
    if as_printed(learner):
        estimate_as_printed(learner, statistics, multiples, deviations)
    else:
        estimate_tightly(learner, statistics, multiples, deviations)


@fill_q.implement(OBIArrays)
def _fill_q(learner: OBIArrays, statistics: Statistics, following: Floats, h: int, left: float) -> tuple[float, float]:
    q = learner.q
    here = rows_of_step(learner.groups, h, q.shape[0])
    reward, inverse, bonus = learner.reward[here], learner.inverse[here], learner.bonus[here]
    sum_over_successors(statistics.transitions, here, following, q)
    if as_printed(learner):
        for i in range(q.shape[0]):
            q[i] = q[i] * inverse[i] + reward[i] + left * bonus[i]
        return 0.0, left
    noisy = learner.noisy[here]
    least, most, apart = how_values_differ(following)
    for i in range(q.shape[0]):
        future = q[i] * inverse[i] + (most - least) * bonus[i] + apart * noisy[i]
        q[i] = reward[i] + min(most, max(least, future))
    return 0.0, left


@inlined
def how_values_differ(values: Floats) -> tuple[float, float, float]:
    """The least and the largest value, and D: the most that the sum of |V - e| can be for an e between them."""
    least, most, total = values[0], values[0], 0.0
    for t in range(values.shape[0]):
        least, most, total = min(least, values[t]), max(most, values[t]), total + values[t]
    S = values.shape[0]
    return least, most, max(total - S * least, S * most - total)


@inlined
def as_printed(learner: OBIArrays) -> bool:
    """Whether the constants are the paper's, and not "tight" ones or given bounds."""
    return 0 < learner.constants < _GIVEN


@inlined
def noise_multiples(learner: OBIArrays, k: float, S: int, H: int, noise: float) -> Multiples:
    """The c of episode ``k``; zero where the bounds were given. ``noise`` is the standard deviation of visits."""
    constants, failure, log_k = learner.constants, learner.failure, fast_log(k)
    # The logarithms of the paper's union bounds, over pairs and over successors.
    pair, successor = learner.pair_log + 2.0 * log_k, learner.successor_log + 2.0 * log_k
    per_draw = 1.0 / math.sqrt(max(1.0, k - 1.0))  # the deviation of one draw, in units of that of the sum
    root = math.sqrt(float(S))
    if constants == 0:
        # A sum of k independent draws: Gaussian or sub-gamma with a scale below one standard deviation of a draw.
        level = peeled(log_k, learner.reward.shape[0] * (S + 3.0), failure)
        c_pair = math.sqrt(2.0 * _EPOCH * level) + level * per_draw
        return Multiples(c_pair, c_pair, root * c_pair)
    if constants == 1:
        scale, root_k = math.sqrt(0.5) * per_draw, math.sqrt(k)
        wide = math.sqrt(8.0 * successor) * scale
        c_pair = max(root_k, pair) * math.sqrt(8.0 * pair) * scale
        return Multiples(c_pair, max(root_k, successor) * wide, max(root_k * root, successor) * wide)
    if constants == 2:
        c_pair = math.sqrt(pair)
        return Multiples(c_pair, c_pair, root * c_pair)
    if constants == 3:
        steps = H if learner.groups == 1 else 1  # that a count sums
        deviation = max(1e-12, noise) * per_draw / math.sqrt(float(steps))  # of one answered bit
        odds = math.exp(2.0 * math.asinh(0.5 / deviation))
        width = (2.0 * odds - 1.0) / (odds - 1.0) / deviation
        # Proposition 13 has H where successors are counted, too; their noise is that of the H - 1 steps that have one.
        longer = math.sqrt(steps / (steps - 1.0)) if steps > 1 else 1.0
        c_pair, c_successor = width * math.sqrt(0.5 * pair), width * math.sqrt(0.5 * successor)
        return Multiples(c_pair, longer * c_successor, longer * S * c_pair)
    if constants == 4:
        c_pair, c_successor = math.sqrt(2.0 * pair) / _UNIT_DEVIATION, math.sqrt(2.0 * successor) / _UNIT_DEVIATION
        return Multiples(c_pair, c_successor, root * c_successor)
    return Multiples(0.0, 0.0, 0.0)


@inlined
def statistical_deviations(learner: OBIArrays, k: float, S: int, H: int) -> Deviations:
    """u_r and u_p of episode ``k``."""
    log_k, scale = fast_log(k), learner.scale
    if as_printed(learner):
        level = learner.level_log + 3.0 * log_k
        return Deviations(math.sqrt(2.0 * level), math.sqrt(14.0 * S * level))
    level = peeled(log_k + math.log(float(H)), float(learner.reward.shape[0]), learner.failure)
    weissman = S * math.log(2.0) + level
    return Deviations(scale * math.sqrt(0.5 * _EPOCH * level), scale * math.sqrt(0.5 * _EPOCH * weissman))


@inlined
def peeled(log_time: float, events: float, failure: float) -> float:
    """ln(1 / failure) for a bound that holds always: epochs grow by a constant factor, and each has its share."""
    epoch = math.floor(log_time / math.log(_EPOCH)) + 1.0
    return math.log(8.0 * events * (epoch + 1.0) * (epoch + 2.0) / failure)


@inlined
def count_followed(transitions: Floats, followed: Floats) -> None:
    """N_p of every row: the sum of its successors."""
    S, R = transitions.shape
    for row in range(R):
        followed[row] = transitions[0, row]
    for t in range(1, S):
        for row in range(R):
            followed[row] += transitions[t, row]


@inlined
def estimate_as_printed(
    learner: OBIArrays, statistics: Statistics, multiples: Multiples, deviations: Deviations
) -> None:
    """The paper's estimates and bonuses of every row, into the learner's scratch space."""
    reward, inverse, bonus = learner.reward, learner.inverse, learner.bonus
    visits, transitions, rewards = statistics.visits, statistics.transitions, statistics.rewards
    visit_noise, transition_noise = statistics.visit_noise, statistics.transition_noise
    reward_noise = statistics.reward_noise
    (S, R), alpha = transitions.shape, learner.alpha
    (c_pair, c_successor, c_sum), (u_reward, u_transition) = multiples, deviations
    count_followed(transitions, inverse)
    for row in range(R):
        c1 = max(1.0, c_pair * reward_noise[row])
        c2 = max(1.0, c_pair * visit_noise[row])
        per_visit = 1.0 / max(visits[row] + alpha * c2, (alpha - 1.0) * c2)
        extra = u_reward * math.sqrt(per_visit) + ((alpha + 1.0) * c2 + c1) * per_visit
        reward[row] = rewards[row] * per_visit + extra
    for row in range(R):
        c3 = max(1.0, c_sum * transition_noise[row])
        c4 = max(1.0, c_successor * transition_noise[row])
        per_followed = 1.0 / max(inverse[row] + alpha * c3, (alpha - 1.0) * c3)
        inverse[row] = per_followed
        bonus[row] = u_transition * math.sqrt(per_followed) + (S * c4 + (alpha + 1.0) * c3) * per_followed


@inlined
def estimate_tightly(learner: OBIArrays, statistics: Statistics, multiples: Multiples, deviations: Deviations) -> None:
    """The tight estimates and bonuses of every row; bounds that a release gave are kept."""
    reward, inverse, bonus, noisy = learner.reward, learner.inverse, learner.bonus, learner.noisy
    bounds, scale, share = learner.bounds, learner.scale, learner.clock[0] / learner.table.shape[1]
    visits, transitions, rewards = statistics.visits, statistics.transitions, statistics.rewards
    visit_noise, transition_noise = statistics.visit_noise, statistics.transition_noise
    reward_noise = statistics.reward_noise
    R = visits.shape[0]
    (c_pair, c_successor, c_sum), (u_reward, u_transition) = multiples, deviations
    count_followed(transitions, inverse)
    for row in range(R):
        c1 = scale * (bounds[0, row] + c_pair * reward_noise[row])
        least = visits[row] - scale * (bounds[1, row] + c_pair * visit_noise[row])
        per_visit = 1.0 / max(_NOTHING, least)
        longer = math.sqrt(max(1.0, fast_log(1.0 + share * per_visit)))
        chance = longer * u_reward * math.sqrt(per_visit) + _FEW * per_visit
        reward[row] = min(1.0, max(0.0, rewards[row] + c1) * per_visit + chance)
    for row in range(R):
        followed = inverse[row]
        least = followed - scale * (bounds[2, row] + c_sum * transition_noise[row])
        c4 = scale * (bounds[3, row] + c_successor * transition_noise[row])
        known = 1.0 if least > _NOTHING else 0.0
        per_followed, at_most = 1.0 / max(_NOTHING, followed), 1.0 / max(_NOTHING, least)
        inverse[row] = known * per_followed
        bonus[row] = u_transition * math.sqrt(at_most) + _FEW * at_most
        noisy[row] = c4 * per_followed

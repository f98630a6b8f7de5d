r"""What is known about a world: one posterior of rewards, visits and successors, given noisy counts.

Every released number is the truth plus noise of a variance that the release states. With one prior for all rows (group,
state, action) this gives the mean and the deviation of everything that a plan needs, and no other decision is made:
nothing is cut, and no row is seen or unseen. For a row with released N +- sd_n visits, rewards R +- sd_r, successors
C_t +- sd_t, half() the mean and variance of a normal number given that it is not negative, and k users so far:

    n        = mean of half(N, sd_n)
    x        = R / n,     q = (n x' + 1) / (n + 2)  with x' = x within [0, 1]
    e^2      = (sd_r^2 + q^2 sd_n^2) / n^2  by noise   +   q (1 - q) / n  by chance
    reward   : mean 1/2 + K (x - 1/2) within [0, 1], variance K e^2,     K = T / (T + e^2),  T = 1/12;  n = 0: 1/2, T
    c_t      : 0 with probability 1 - w_t, else exponential with mean max(1, n) / 3; given C_t +- sd_t it has
               mean l_t and variance v_t
    m, W     = sum of l_t,  m + 1                          (one visit more, which may have led anywhere)
    P V      : mean (sum of l_t V_t + mean V) / W,  variance with E = sum of l_t V_t / m,
               sum of v_t (V_t - E)^2 / W^2  by noise   +   (sum of l_t (V_t - E)^2 + range(V)^2 / 2) / W^2  by chance

How likely a state is to be a successor is found by the counts themselves (empirical Bayes): w_t is the mean over rows
of the probability that c_t > 0, together with three rows of the mean over all states. A state that nobody comes to gets
a small w_t, and noise does not make it a successor.

In pseudo-code, with sigma^2 = ``chance``^2 (variance by chance) + ``noise``^2 (variance by noise):

    believe(N, R, C, sd, k):
        for each row:
            n      <- mean of half(N, sd_n)
            reward <- mean and sigma^2 of the reward
            L      <- sqrt(2 ln(1 + (1 + k) / (n + 1)))  while exploring,  -1 when a policy is recommended
        w_t <- 0.3 for each state t
        repeat 6 times (once without noise):
            for each state t and row:
                p, l_t, v_t <- spike or slab given C_t +- sd_t, with weight w_t
            w_t <- (sum of p over rows + 3 w) / (rows + 3),  w the mean over all states
    plan(H steps):
        V <- 0
        for h = H, ..., 1:
            for each row of step h:
                Q(s, a) <- min(1, reward + L sigma) + min(max V, max(min V, P V + L sigma))
            V(s) <- max over a of Q(s, a), at most H - h + 1

Without noise n = N, l_t = C_t and v_t = 0 exactly.

**What it assumes.** Noise is taken to be normal, rows to be independent given the prior, T and the slab are the same
for all worlds, and V is taken to be known when the deviation of P V is computed. Counts that were weighed or borrowed
come with their own variances (:mod:`discreet.learners.block_history`, :mod:`discreet.learners.partial_pooling`), which
count sampling as if they were plain. So deviations are calibrated for a row and not for a plan.

**Relatives.** Bayes-UCBVI (Tiapkin et al. 2022, "From Dirichlet to Rubin", arXiv 2205.07704) and OPSRL (2209.14414)
plan with a growing quantile of, or with draws from, a Dirichlet posterior that has an optimistic pseudo-transition, and
bound regret without privacy; the visit that may have led anywhere stands for that here, and nothing is proved. EQO
(2503.00810) has a bonus in proportion to one over visits.

**Formal guarantees.** Post-processing of a release. No bound on regret is proved.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.base.compiled import fused, inlined
from discreet.base.shape import Shape
from discreet.base.streams import Stream, fast_log
from discreet.base.types import Floats
from discreet.learners.base import fill_q, prepare
from discreet.mechanisms.release import Statistics

_REWARD, _REWARD_VARIANCE = 0.5, 1 / 12  # of a row that nobody knows: rewards anywhere in their range
_SLAB = 1 / 3  # of a row's visits: the mean count of a state that does follow
_FIRST_WEIGHT, _LEAST_WEIGHT, _MOST_WEIGHT = 0.3, 0.3, 0.9  # of the slab; the least one is shared by all states
_ROUNDS = 6  # after which weights hardly change
_LENT = 3.0  # rows of the mean state that the weight of a state begins with
_TELLS = 3.0  # deviations of noise that a slab must not be below, for a row to tell about weights
_ANYWHERE = 0.5  # of the squared range of what follows: the variance of the visit that may have led anywhere
_NOBODY = 1e-6  # visits
_ROOT_HALF, _LOG_ROOT = math.sqrt(0.5), 0.5 * math.log(2 * math.pi)
_FAR, _CERTAIN = -8.0, 6.0  # deviations from zero beyond which the tail is that of its series, or nothing


class Belief(NamedTuple):
    """Scales, and the posterior that :func:`believe` writes, for rows (group, state, action)."""

    groups: int
    chance: float  # by how much a deviation by chance counts
    noise: float  # ... and one by noise
    exploring: float  # 1 while exploring, 0 when a policy is recommended
    clock: Floats  # (1,) users whose releases were seen
    visits: Floats  # (rows,) n
    longer: Floats  # (rows,) L
    reward: Floats  # (rows,) mean
    reward_variance: Floats  # (rows,) sigma^2
    moves: Floats  # (S, rows) l_t
    move_variance: Floats  # (S, rows) v_t
    total: Floats  # (rows,) m
    weight: Floats  # (S,) w_t
    table: Floats  # (S, A) Q of one step
    deviation: Floats  # (S, A) sigma of what follows, L times


def belief_of(shape: Shape, chance: float, noise: float, users: int, exploring: bool) -> Belief:
    """Scales and room for the belief about a world of this shape, after so many users."""
    S, pairs = shape.states, (shape.states, shape.actions)
    rows = shape.groups * S * shape.actions
    visits, longer, reward, variance, total = np.zeros((5, rows))
    moves, spread = np.zeros((2, S, rows))
    clock, scales = np.full(1, float(users)), (chance, noise, float(exploring))
    return Belief(
        shape.groups, *scales, clock, visits, longer, reward, variance, moves, spread, total, np.zeros(S),
        np.zeros(pairs), np.zeros(pairs),
    )  # fmt: skip


@inlined
def half_normal(mean: float, deviation: float) -> tuple[float, float]:
    """Mean and variance of a normal number given that it is not negative."""
    if deviation <= 0.0:
        return max(0.0, mean), 0.0
    a = mean / deviation
    if a > _CERTAIN:
        return mean, deviation * deviation
    if a < _FAR:  # about exponential
        return -deviation / a * (1.0 - 2.0 / (a * a)), (deviation / a) ** 2 * (1.0 - 6.0 / (a * a))
    mills = math.exp(-0.5 * a * a - _LOG_ROOT) / (0.5 * math.erfc(-a * _ROOT_HALF))
    return mean + deviation * mills, deviation * deviation * max(1e-3 / (1.0 + a * a), 1.0 - mills * (mills + a))


@inlined
def spike_or_slab(count: float, deviation: float, slab: float, weight: float) -> tuple[float, float, float]:
    """Probability that a true count is not zero, its mean and its variance, given the count with noise."""
    if deviation <= 0.0:
        return (1.0 if count > 0.0 else 0.0), max(0.0, count), 0.0
    shifted = count - deviation * deviation / slab
    a = shifted / deviation
    if a > _CERTAIN:
        p = 1.0
    else:
        # ln of the density of the count under the slab, over that under the spike.
        odds = math.log(deviation / slab) + math.log(weight / (1.0 - weight))
        if a < _FAR:
            odds -= math.log(-a)
        else:
            odds += 0.5 * a * a + math.log(0.5 * math.erfc(-a * _ROOT_HALF)) + _LOG_ROOT
        p = 1.0 / (1.0 + math.exp(-odds))
    mean, variance = half_normal(shifted, deviation)
    return p, p * mean, p * (variance + (1.0 - p) * mean * mean)


@fused
def believe(belief: Belief, statistics: Statistics) -> None:
    """Write the posterior of every row."""
    noisy, users = False, 1.0 + belief.clock[0]
    for row in range(belief.visits.shape[0]):
        noisy |= statistics.transition_noise[row] > 0.0
        n = belief.visits[row] = half_normal(statistics.visits[row], statistics.visit_noise[row])[0]
        growing = math.sqrt(2.0 * fast_log(1.0 + users / (n + 1.0)))
        belief.longer[row] = growing if belief.exploring > 0.0 else -1.0
        if n < _NOBODY:
            belief.reward[row], belief.reward_variance[row] = _REWARD, belief.chance**2 * _REWARD_VARIANCE
            continue
        x = statistics.rewards[row] / n
        q = (n * min(1.0, max(0.0, x)) + 1.0) / (n + 2.0)
        by_noise = (statistics.reward_noise[row] ** 2 + (q * statistics.visit_noise[row]) ** 2) / (n * n)
        by_chance = q * (1.0 - q) / n
        kept = _REWARD_VARIANCE / (_REWARD_VARIANCE + by_noise + by_chance)
        belief.reward[row] = min(1.0, max(0.0, _REWARD + kept * (x - _REWARD)))
        belief.reward_variance[row] = kept * (belief.noise**2 * by_noise + belief.chance**2 * by_chance)
    belief.weight[:] = _FIRST_WEIGHT
    for _ in range(_ROUNDS if noisy else 1):
        believe_successors(belief, statistics)


@fused
def believe_successors(belief: Belief, statistics: Statistics) -> None:
    """Means and variances of the counts of all successors by the weights so far, and better weights."""
    weight, total, (S, R) = belief.weight, belief.total, belief.moves.shape
    overall, told = 1.0, 0.0
    for row in range(R):
        total[row] = 0.0
        told += 1.0 if _TELLS * _SLAB * max(1.0, belief.visits[row]) > statistics.transition_noise[row] else 0.0
    for t in range(S):
        found = 0.0
        for row in range(R):
            slab, noise = _SLAB * max(1.0, belief.visits[row]), statistics.transition_noise[row]
            p, mean, variance = spike_or_slab(statistics.transitions[t, row], noise, slab, weight[t])
            found += p if _TELLS * slab > noise else 0.0
            belief.moves[t, row], belief.move_variance[t, row] = mean, variance
            total[row] += mean
        weight[t] = found / (told + _LENT)
        overall += found
    overall *= _LENT / (S * (told + 1.0) * (told + _LENT))
    for t in range(S):
        weight[t] = min(_MOST_WEIGHT, max(_LEAST_WEIGHT / S, weight[t] + overall))


@fused
def expect(belief: Belief, following: Floats, h: int) -> None:
    """Q of every (state, action) at step h, followed by values ``following``."""
    S, A = belief.table.shape
    first = h * S * A if belief.groups > 1 else 0
    high, low, middle = following[0], following[0], 0.0
    for t in range(S):
        high, low = max(high, following[t]), min(low, following[t])
        middle += following[t] / S
    chance, noise = belief.chance**2, belief.noise**2
    anywhere = _ANYWHERE * (high - low) ** 2
    for s in range(S):
        for a in range(A):
            row = first + s * A + a
            longer, m = belief.longer[row], belief.total[row]
            reward = belief.reward[row] + longer * math.sqrt(belief.reward_variance[row])
            mean = 0.0
            for t in range(S):
                mean += belief.moves[t, row] * following[t]
            mean = mean / m if m > _NOBODY else middle
            by_chance, by_noise = anywhere, 0.0
            for t in range(S):
                square = (following[t] - mean) ** 2
                by_chance += belief.moves[t, row] * square
                by_noise += belief.move_variance[t, row] * square
            belief.deviation[s, a] = math.sqrt(noise * by_noise + chance * by_chance) / (m + 1.0)
            future = (m * mean + middle) / (m + 1.0) + longer * belief.deviation[s, a]
            belief.table[s, a] = min(1.0, max(0.0, reward)) + min(high, max(low, future))


@prepare.implement(Belief)
def _prepare(belief: Belief, statistics: Statistics, coins: Stream, H: int) -> None:
    believe(belief, statistics)
    belief.clock[0] += 1.0


@fill_q.implement(Belief)
def _fill_q(belief: Belief, statistics: Statistics, following: Floats, h: int, left: float) -> tuple[float, float]:
    expect(belief, following, h)
    return -np.inf, left

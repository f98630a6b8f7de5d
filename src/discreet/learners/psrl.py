r"""PSRL: draw a world from the posterior, play its best policy, and LDP-PSRL: the same on noisy counts.

Osband, Russo, Van Roy (2013); the private version is algorithm 7 of Garcelon, Perchet, Pike-Burke, Pirotta (2021). For
each (state, action) with released visits N, transitions N(s') and rewards R (bits, so that R is also the sum of their
squares), transitions are Dirichlet and rewards normal with a normal-gamma prior:

    P(.)  ~ Dirichlet(alpha0 + N(.)),
    tau   ~ Gamma(nu0 + N/2, rate beta),      r ~ Normal(mu, 1 / (lambda tau)),
    lambda = lambda0 + N,   mu = (lambda0 mu0 + R) / lambda,   beta = beta0 + (R + lambda0 mu0^2 - lambda mu^2) / 2.

``prior`` decides what stands for ignorance; c is the bound on the noise of a count after *all* K users:

=============  ======================================================================================================
"unit"         alpha0 = 1/S, lambda0 = nu0 = beta0 = 1, mu0 = 1/2: PSRL without privacy
"published"    alpha0 = c3, lambda0 = nu0 = c, beta0 = 5c, mu0 = 0. beta can be negative even while the bound holds
"positive"     alpha0 = c3, lambda0 = beta0 = 2c, nu0 = c, mu0 = 0: then beta >= c and lambda >= c while it holds,
               because (R + c)^2 / (N + c) <= R^2 / N + c
"noise"        what stands out of the noise is data, what does not is unknown: see below. No pseudo-counts that
               outweigh the data
=============  ======================================================================================================

**The prior "noise"** (the default). With sd_n, sd_t, sd_r the deviations of the noise, k = ``noise_scale``, Z standard
normal draws and n = max(0, N), a row is drawn as

    r        = mean + Z sqrt(mean (1 - mean) / (n + 1) + k^2 (sd_r^2 + mean^2 sd_n^2) / (n + 1)^2),   in [0, 1],
               mean = (R + 1/2) / (n + 1)
    weight_t ~ Gamma(N(t) + k sd_t Z)   for the successors t with N(t) > 1.5 sd_t,  zero for the others,
    and one successor, drawn at random, gets Gamma(1 + 1.5 k sd_t) more: what was never seen, or cut,

and P is proportional to the weights. A row costs as many draws as it has successors that stand out.

Prefix sums keep an unlucky draw of noise, so a row that it made look bad would not be played again. Where a block of
users follows such a release, k is (2/3) ``noise_scale`` sqrt(1 + 3 ln(u / u*)), u = sd_n / N of a row that stands out
of the noise and u* the smallest of its state: a row about which less is known than about others is drawn more widely.

**Blocks.** Where many users act between two releases, one draw would be the policy of all of them, and exploring once
would cost a whole block: with blocks that grow by a constant factor, regret then stays a constant share of the users.
So a block follows an even mixture of ``draws`` policies, each the best of a world of its own.

**A known property: lock-in.** With "published" and "positive" the prior holds of the order of sqrt(K) / epsilon
pseudo-visits with reward zero, so a pair that was not played looks worthless *with certainty*: the posterior does not
explore, and a run that starts with the worse action may stay with it for good. Regret is then linear. "noise" does not
have it. No regret bound is known for any of them.

**Formal guarantees.** Everything is post-processing of a release.

**Differences from the paper.** beta is the correct update of the normal-gamma posterior (the printed one drops lambda0
from a term and N from another, harmless only at mu0 = 0). Parameters are floored at a small positive number, because
noisy counts may be negative. Rewards are bits, so the fourth table, of squared rewards, is not needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.compiled import inlined
from discreet.base.errors import check_name
from discreet.base.policies import MIXED, AnyPolicy, Mixture, Policy
from discreet.base.streams import Stream, fast_log, uniform
from discreet.base.types import Floats
from discreet.base.validation import check_count, check_not_negative, check_open_unit
from discreet.learners.base import PlannedState, Problem, WeighsBlocks, fill_q, prepare
from discreet.learners.ucbvi import UCBVI, UCBVIArrays
from discreet.mechanisms.release import OPENING, WEIGHS, Release, Statistics
from discreet.worlds.planning.backward_induction import rows_of_step, sum_over_successors

PRIORS = ("unit", "published", "positive", "noise")
_NOISE = PRIORS.index("noise")
_CUT = 1.5  # deviations of its noise by which a count must stand out, as for the other learners
_SMALLEST = 1e-3  # parameters of the posterior are positive
_EQUAL, _LONGER = 2 / 3, 3.0  # of noise_scale, where noise lasts: for all rows, and for those that others left behind


class PSRLArrays(NamedTuple):
    """Constants and scratch space for one compiled run; rows are (group, state, action)."""

    groups: int
    prior: int
    noise_scale: float
    longer: float  # how much more it is for rows about which less is known than about others of their state
    pair_width: float  # c over the deviation of the noise after all users
    row_width: float  # c3 over the deviation of one successor's noise after all users
    episodes: float
    clock: Floats  # (1,) users whose releases were seen
    model: Floats  # (S, rows) scratch: the drawn transitions, by successor
    reward: Floats  # (rows,) scratch: the drawn mean rewards
    q: Floats  # (S * A,) scratch: of one step
    table: Floats  # (S, A) the same numbers


@dataclass(frozen=True)
class PSRL(WeighsBlocks):
    """Posterior sampling on released counts; per step or time-homogeneous, as the release is.

    Args:
        prior: ``noise``, ``unit``, ``published`` or ``positive``.
        failure_probability: Of the bound on the noise, for the published priors.
        noise_scale: How many deviations of noise widen a draw.
        draws: Policies in the mixture of a block.

    Examples:
        >>> import discreet
        >>> discreet.learners.PSRL(draws=4).prior
        'noise'
    """

    prior: str = "noise"
    failure_probability: float = 0.1
    noise_scale: float = 0.6
    draws: int = 8
    name: ClassVar[str] = "psrl"
    needs: ClassVar[frozenset[str]] = frozenset({"visits", "transitions", "rewards", MIXED, WEIGHS, OPENING})

    def __post_init__(self) -> None:
        check_name("prior", self.prior, PRIORS)
        check_open_unit("failure_probability", self.failure_probability)
        check_not_negative("noise_scale", self.noise_scale)
        check_count("draws", self.draws)

    def arrays(self, problem: Problem) -> PSRLArrays:
        """Constants and scratch space; the clock stands at zero users."""
        shape, K = problem.shape, float(problem.episodes)
        S, pairs = shape.states, shape.states * shape.actions
        rows = shape.groups * pairs
        one, many = (math.log(6 * n / self.failure_probability) for n in (pairs, S * pairs))
        q = np.zeros(pairs)
        return PSRLArrays(
            groups=shape.groups,
            prior=PRIORS.index(self.prior),
            noise_scale=self.noise_scale,
            longer=0.0,
            # The paper's bounds are written with the scale b of Laplace noise; b sqrt(2 K) is the deviation of the sum.
            pair_width=max(math.sqrt(K), one) * math.sqrt(8 * one) / math.sqrt(2 * K),
            row_width=max(math.sqrt(K * S), many) * math.sqrt(8 * many) / math.sqrt(2 * K),
            episodes=K,
            clock=np.zeros(1),
            model=np.zeros((S, rows)),
            reward=np.zeros(rows),
            q=q,
            table=q.reshape(S, shape.actions),
        )

    def arrays_after(self, problem: Problem, release: Release) -> PSRLArrays:
        """The same arrays with the clock at the number of users of the release, and longer doubts if noise lasts."""
        arrays = self.arrays(problem)
        arrays.clock[0] = release.users
        if not release.noise_lasts or problem.shape.horizon == 1:
            return arrays
        return arrays._replace(noise_scale=_EQUAL * self.noise_scale, longer=_LONGER)

    def update(self, state: PlannedState, release: Release) -> PlannedState:
        """Blocks are weighed under the prior "noise"; the others are made for plain sums."""
        return super().update(state, release) if self.prior == PRIORS[_NOISE] else self.replan(state, release)

    def replan(self, state: PlannedState, release: Release) -> PlannedState:
        """The best policies of several worlds, if many users will follow them before the next release."""
        block = release.users - (state.release.users if state.release is not None else 0)
        draws = min(self.draws, block)
        plans = [self.plan(state.problem, state.coins, release)]
        while len(plans) < draws:
            plans.append(self.plan(state.problem, plans[-1].coins, release))
        return plans[-1]._replace(policy=even_mixture([plan.policy for plan in plans]))

    def recommending(self, problem: Problem) -> UCBVIArrays:
        """As UCBVI's: nothing is drawn, noise counts against a row, what was not seen is worth nothing."""
        return UCBVI().recommending(problem)


def even_mixture(policies: Sequence[AnyPolicy]) -> AnyPolicy:
    """Each of the policies with the same probability; those that are the same are one component."""
    counts = Counter(policy for policy in policies if isinstance(policy, Policy))
    if len(counts) == 1:
        return policies[0]
    return Mixture(tuple(counts), np.array([*counts.values()]) / len(policies))


@prepare.implement(PSRLArrays)
def _prepare(learner: PSRLArrays, statistics: Statistics, coins: Stream, H: int) -> None:
    draw_world(learner, statistics, coins)
    learner.clock[0] += 1.0


@fill_q.implement(PSRLArrays)
def _fill_q(learner: PSRLArrays, statistics: Statistics, following: Floats, h: int, left: float) -> tuple[float, float]:
    q = learner.q
    here = rows_of_step(learner.groups, h, q.shape[0])
    reward = learner.reward[here]
    sum_over_successors(learner.model, here, following, q)
    for i in range(q.shape[0]):
        q[i] += reward[i]
    return -np.inf, np.inf


@inlined
def draw_world(learner: PSRLArrays, statistics: Statistics, coins: Stream) -> None:
    """One draw of transitions and mean rewards from the posterior, into the learner's scratch space."""
    R = learner.reward.shape[0]
    for row in range(R):
        if learner.prior == _NOISE:
            draw_noisy_row(learner, statistics, coins, row)
        else:
            draw_conjugate_row(learner, statistics, coins, row)


@inlined
def left_behind(statistics: Statistics, row: int, A: int) -> float:
    """ln(u / u*): how much less is known about a row than about the best known action of its state."""
    visits, noise = statistics.visits, statistics.visit_noise
    if not visits[row] > noise[row] > 0.0:
        return 0.0
    own = least = noise[row] / visits[row]
    first = row - row % A
    for other in range(first, first + A):
        if visits[other] > noise[other] > 0.0:
            least = min(least, noise[other] / visits[other])
    return math.log(own / least)


@inlined
def draw_noisy_row(learner: PSRLArrays, statistics: Statistics, coins: Stream, row: int) -> None:
    """One row under the prior "noise"."""
    model, (S, _) = learner.model, learner.model.shape
    visit_noise, noise = statistics.visit_noise[row], statistics.transition_noise[row]
    n, k = max(0.0, statistics.visits[row]), learner.noise_scale
    if learner.longer > 0.0:
        k *= math.sqrt(1.0 + learner.longer * left_behind(statistics, row, learner.table.shape[1]))
    mean = (min(n, max(0.0, statistics.rewards[row])) + 0.5) / (n + 1.0)
    variance = (
        mean * (1.0 - mean) * (n + 1.0) + k * k * (statistics.reward_noise[row] ** 2 + (mean * visit_noise) ** 2)
    ) / ((n + 1.0) * (n + 1.0))
    learner.reward[row] = min(1.0, max(0.0, mean + math.sqrt(variance) * normal(coins)))
    total = 0.0
    for t in range(S):
        weight = 0.0
        if statistics.transitions[t, row] > _CUT * noise:
            count = statistics.transitions[t, row] + (k * noise * normal(coins) if noise > 0.0 else 0.0)
            weight = gamma(count, coins) if count > 0.0 else 0.0
        model[t, row] = weight
        total += weight
    # What was never seen, or cut, is one successor drawn at random.
    other = int(uniform(coins) * S)
    weight = gamma(1.0 + k * _CUT * noise, coins)
    model[other, row] += weight
    share = 1.0 / (total + weight)
    for t in range(S):
        model[t, row] *= share


@inlined
def draw_conjugate_row(learner: PSRLArrays, statistics: Statistics, coins: Stream, row: int) -> None:
    """One row under the priors "unit", "published" and "positive"."""
    model, prior, (S, _) = learner.model, learner.prior, learner.model.shape
    to_the_end = math.sqrt(learner.episodes / max(1.0, learner.clock[0]))
    lambda0, nu0, beta0, mu0, alpha0 = 1.0, 1.0, 1.0, 0.5, 1.0 / S
    if prior > 0:
        # A row without noise so far has the noise of the others ahead of it; one pseudo-visit at least.
        c = max(1.0, learner.pair_width * statistics.visit_noise[row] * to_the_end)
        alpha0 = max(1.0, learner.row_width * statistics.transition_noise[row] * to_the_end)
        mu0, nu0 = 0.0, c
        lambda0, beta0 = (c, 5.0 * c) if prior == 1 else (2.0 * c, 2.0 * c)
    seen, earned = statistics.visits[row], statistics.rewards[row]
    precision = max(_SMALLEST, lambda0 + seen)
    mean = (lambda0 * mu0 + earned) / precision
    rate = max(_SMALLEST, beta0 + 0.5 * (earned + lambda0 * mu0 * mu0 - precision * mean * mean))
    tau = gamma(max(_SMALLEST, nu0 + 0.5 * seen), coins) / rate
    learner.reward[row] = mean + math.sqrt(1.0 / (precision * max(tau, 1e-12))) * normal(coins)
    total = 0.0
    for t in range(S):
        weight = gamma(max(_SMALLEST, alpha0 + statistics.transitions[t, row]), coins)
        model[t, row] = weight
        total += weight
    for t in range(S):
        model[t, row] = model[t, row] / total if total > 0.0 else 1.0 / S


@inlined
def normal(coins: Stream) -> float:
    """A standard normal draw (Box and Muller)."""
    return math.sqrt(-2.0 * fast_log(uniform(coins))) * math.cos(2.0 * math.pi * uniform(coins))


@inlined
def gamma(shape: float, coins: Stream) -> float:
    """A draw from Gamma(shape, 1) by the method of Marsaglia and Tsang (2000)."""
    boost = 1.0
    if shape < 1.0:
        boost = uniform(coins) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(coins)
        root = 1.0 + c * x
        if root <= 0.0:
            continue
        v, square, u = root * root * root, x * x, uniform(coins)
        # The first condition implies the second (theirs, too) and needs no logarithm.
        if u < 1.0 - 0.0331 * square * square or fast_log(u) < 0.5 * square + d * (1.0 - v + fast_log(v)):
            return float(boost * d * v)

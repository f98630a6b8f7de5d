r"""Actions that noise does not tell apart yet, played side by side by the users of one block.

Where policies stay for a block of users, one deterministic plan tells about one action of every state and step, with
one draw of noise. Prefix sums (:mod:`discreet.mechanisms.continual`) keep that draw: a row (state, action) that it made
look bad is not played any more, and nothing corrects it (lock-in). There it costs little to ask about several rows at
once, because what blocks tell about a row adds up. So a block follows a stochastic policy. With the optimistic Q of a
plan, V its best value in the state, V' the values of the next step, E the mean of V' under the estimated successors of
the row, and N, R, sd_n, sd_t, sd_r the row's released visits and rewards and the deviations of noise as in
:mod:`discreet.learners.ucbvi`,

    u^2       = (sd_r^2 + r^2 sd_n^2) / N^2 + (sd_t / m)^2 sum over t of (V'_t - E)^2     noise in Q
    z         = (0.1 + 0.15 min(2, log2 A)) sqrt(1 + 3 ln(u / u*)),   u* that of the best action, no logarithm below
    undecided = actions with min(1 + max V', Q + z u) >= V
    policy    = the best action with probability 0.3, else one of the undecided ones, each as likely as the others.

u is 0 for a row that nobody has seen, or none of whose successors stands out of the noise: it counts for the best that
may follow already. Of A actions one is the unluckiest, so A counts; and a row about which less is known than about the
best one was perhaps given up too early, so it is doubted longer, as an index of UCB grows with the share of visits.
Once noise is small against the differences of Q only the best action is left, and the policy is the plan. While a tenth
of all rows or more has not been seen, the plan leads to where nobody has been, and users who draw their actions would
not get there: it is followed as it is. With laws per step, or 70 rows and more, there are so many that users who draw
at every step learn no more than by one plan at a time, and lose by it; and where noise adds up from block to block,
every row that is asked about costs noise. Nothing is shared out there, nor without noise, nor where each user has a
policy of her own, nor in bandits.

**Formal guarantees.** Post-processing of a release; the policy is public, as all policies are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet.base.compiled import inlined, kernel
from discreet.base.policies import Policy, StochasticPolicy
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.learners.base import PlannedState, as_statistics, fill_q, prepare
from discreet.mechanisms.release import Release, Statistics

_WITHIN, _WITHIN_MORE = 0.1, 0.15  # deviations of noise by which an action may be behind; for each doubling of A
_ACTIONS = 4  # more of them count as so many
_LONGER = 3.0  # how much longer a row is doubted about which less is known than about the best action
_UNSEEN = 0.1  # of all rows: where so many have not been seen, the plan is followed
_MANY = 70  # rows: with so many nothing is shared out
_BEST = 0.3  # of the users, at every step, take the best action without a draw


def shared_out(arrays: Any, state: PlannedState, release: Release) -> PlannedState:
    """The plan of the state with undecided actions shared out; ``arrays`` are those of its learner, made anew."""
    shape = state.problem.shape
    if not isinstance(state.policy, Policy) or not shape.homogeneous or shape.states * shape.actions >= _MANY:
        return state
    statistics = as_statistics(release)
    if np.mean(statistics.visits < 0.5 + statistics.visit_noise) >= _UNSEEN:
        return state
    actions = np.array(state.policy.actions)
    probabilities = np.zeros((shape.horizon, shape.states, shape.actions))
    within = _WITHIN + _WITHIN_MORE * math.log2(min(_ACTIONS, shape.actions))
    _share_out(arrays, statistics, state.coins.copy(), state.values, actions, within, probabilities)
    if np.count_nonzero(probabilities) == actions.size:
        return state
    return state._replace(policy=StochasticPolicy(probabilities))


@kernel
def _share_out(
    learner: Any,
    statistics: Statistics,
    coins: Stream,
    values: Floats,
    actions: Integers,
    within: float,
    probabilities: Floats,
) -> None:
    """Fill ``probabilities`` (H, S, A), given the plan and its values."""
    H, S, A = probabilities.shape
    prepare(learner, statistics, coins, H)
    for h in range(H):
        following = values[h + 1]
        fill_q(learner, statistics, following, h, float(H - h))
        highest = 1.0 + following.max()
        for s in range(S):
            best, undecided = learner.table[s].max(), 0
            least = _noise_in_q(learner, statistics, following, s * A + actions[h, s])
            for a in range(A):
                q, noise = learner.table[s, a], _noise_in_q(learner, statistics, following, s * A + a)
                longer = math.sqrt(1.0 + _LONGER * math.log(noise / least)) if noise > least > 0.0 else 1.0
                reach = min(highest, q + within * longer * noise)
                if q == best or reach >= best:
                    probabilities[h, s, a] = 1.0
                    undecided += 1
            for a in range(A):
                probabilities[h, s, a] *= (1.0 - _BEST) / undecided
            probabilities[h, s, actions[h, s]] += _BEST


@inlined
def _noise_in_q(learner: Any, statistics: Statistics, following: Floats, row: int) -> float:
    """u of a (state, action); zero if nobody has seen it or where it leads."""
    visits, visit_noise = statistics.visits[row], statistics.visit_noise[row]
    ends = following.max() <= 0.0  # nothing follows, as after the last step
    if visits < 0.5 + visit_noise or not (ends or learner.inverse[row] > 0.0):
        return 0.0
    n = max(1.0, visits)
    r = min(1.0, max(0.0, statistics.rewards[row] / n))
    variance = (statistics.reward_noise[row] ** 2 + (r * visit_noise) ** 2) / n**2
    if not ends:
        squares = 0.0
        for t in range(following.shape[0]):
            squares += (following[t] - learner.mean[row]) ** 2
        variance += (statistics.transition_noise[row] * learner.inverse[row]) ** 2 * squares
    return math.sqrt(variance)

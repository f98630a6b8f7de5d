r"""How large the mean reward of a row may be, by what was seen of it: the optimism of UCBVI about rewards.

The letters are those of :mod:`discreet.learners.ucbvi`: n visits of a row of a world with A actions, rewards R,
r = R / n clipped to [0, 1], k users so far.

**Worlds of several steps.** With L the logarithm below, Bernstein's width is

    e(L)     = reward_scale (sqrt(2 r (1 - r) L / n) + L / n)
    b(L)     = e(L) / (1 + (e(L) / (1 - r))^4)^(1/4),

where b is a smooth form of min(e, 1 - r). After few visits e is above 1 - r, and with min(e, 1 - r) the row would count
for as good as any until e has fallen, though nobody ever saw it pay; in worlds whose rewards are 0 or 1 by rule that
costs as much as all other exploration. b is below 1 - r from the first visit on, and where e is small it is e.

**Here and from afar.** Which action is tried in a state is a matter of the visits of that state, of which an action's
share is K below; whether users should come back to a state is a matter of all users:

    K        = min(1 + k, (1 + visits of the state) / A)
    here     = ln(1 + K / n),        afar = ln(1 + (1 + k) / n).

Actions are compared with b(here), and the value of a state, for those who decide whether to go there, has b(afar) of
its best action. With b(here) in both, a state that was unlucky at the start may be given up for ever: its own visits do
not grow any more. With b(afar) in both, rows of states that few users meet are tried as if everybody met them.

Where the rewards of a row carry noise, its b is e(afar), here and from afar: noise may have made the row look bad, and
a narrower bound gained nothing there.

**Bandits** (worlds of one step) have no successors, and a reward that chance or noise made look bad is all that is
known of an arm. There the reward is that of KL-UCB (Garivier and Cappe, "The KL-UCB algorithm for bounded stochastic
bandits and beyond", 2011) instead of Bernstein's, with the logarithm of an arm's share of users, and for coins that
have the noise in them:

    M        = ln(1 + (1 + k) / (A n))
    sd       = arm_noise sqrt(sd_r^2 + r^2 sd_n^2)
    tau      = 1 / sqrt(1 + 4 sd^2 / n),        b = 1/2 + tau (R / n - 1/2) clipped to [0, 1]
    reward   = min(1, 1/2 + (q - 1/2) / tau)
    q        = the largest q >= b with  n kl(b, q) <= arm_scale M,   kl(b, q) that of two coins

If users answer their reward bits by randomised response, and a true answer is likelier by tau than a false one, then
R / n has a noise variance of (1 - tau^2) / (4 tau^2 n), and b is the mean of the answers as they were sent, which are
coins themselves: their bound has all that is known, and is decoded afterwards. Other noise of that variance is treated
alike. Without noise tau is 1 and b is r. With few users in an arm, Bernstein's L(n) / n is far above 1 and makes
everybody try every arm again and again; q is below 1 from the first user on. Nearly all of the noise counts
(``arm_noise`` .9): with less a run in a few hundred stays with a wrong arm, and with all of it easy bandits pay
(docs/decisions/0014-no-arm-given-up-too-early.md).

With ``arm_scale`` 0 (recommending, and learners that bound chance themselves) the reward is

    r + noise_scale (1 + patience sqrt(2 M)) sqrt(sd_r^2 + r^2 sd_n^2) / n,

where noise counts more for an arm that had less than its share of users.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from discreet.base.compiled import fused
from discreet.base.streams import fast_log
from discreet.base.types import Floats
from discreet.mechanisms.release import Statistics
from discreet.worlds.planning.kl_ucb import largest_mean

_NOTHING_LEFT = 1e-9  # what is left above a reward of 1, so that nothing is divided by zero


class ArmScales(NamedTuple):
    """The knobs of UCBVI that bound the rewards of arms."""

    arm_scale: float
    arm_noise: float
    noise_scale: float  # this and patience count where arm_scale is 0
    patience: float


@fused
def bernstein(scale: float, r: float, per_visit: float, logarithm: float) -> float:
    """e(L) of a row."""
    width = logarithm * per_visit
    return scale * (math.sqrt(2.0 * r * (1.0 - r) * width) + width)


@fused
def at_most(left: float, width: float) -> float:
    """A smooth form of min(width, left): b of e and 1 - r."""
    square = (width / max(_NOTHING_LEFT, left)) ** 2
    return width / math.sqrt(math.sqrt(1.0 + square * square))


@fused
def any_clear(deviations: Floats) -> bool:
    """Whether some row has no noise."""
    least = 1.0
    for row in range(deviations.shape[0]):
        least = min(least, deviations[row])
    return least <= 0.0


@fused
def shares_of_states(visits: Floats, users: float, actions: int, shares: Floats) -> None:
    """K of every row, into ``shares``."""
    for first in range(0, visits.shape[0], actions):
        met = 1.0
        for row in range(first, first + actions):
            met += max(0.0, visits[row])
        share = min(users, met / actions)
        for row in range(first, first + actions):
            shares[row] = share


@fused
def look_from_afar(table: Floats, more: Floats) -> None:
    """Raise Q (S, A) of every state by what ``more`` (S * A,) has for its best action: their order stays as it is."""
    S, A = table.shape
    for s in range(S):
        best, own = table[s, 0], more[s * A]
        for a in range(1, A):
            better = table[s, a] > best
            best, own = max(best, table[s, a]), more[s * A + a] if better else own
        for a in range(A):
            table[s, a] += own


@fused
def bound_arms(scales: ArmScales, statistics: Statistics, users: float, arms: int, reward: Floats) -> None:
    """Optimistic rewards of a world of one step, in a loop of its own: a search for q does not vectorise."""
    for row in range(statistics.visits.shape[0]):
        if statistics.visits[row] < 0.5 + statistics.visit_noise[row]:
            continue  # unseen
        n = max(1.0, statistics.visits[row])
        r = min(1.0, max(0.0, statistics.rewards[row] / n))
        share = fast_log(1.0 + users / (arms * n))
        noise = math.sqrt(statistics.reward_noise[row] ** 2 + (r * statistics.visit_noise[row]) ** 2)
        if scales.arm_scale <= 0.0:
            patience = scales.patience * math.sqrt(2.0 * share)
            reward[row] = min(1.0, r + scales.noise_scale * (1.0 + patience) * noise / n)
            continue
        told = 1.0 / math.sqrt(1.0 + 4.0 * (scales.arm_noise * noise) ** 2 / n)
        said = min(1.0, max(0.0, 0.5 + told * (statistics.rewards[row] / n - 0.5)))
        reward[row] = min(1.0, 0.5 + (largest_mean(said, scales.arm_scale * share / n) - 0.5) / told)

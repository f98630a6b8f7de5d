r"""UCBVI on one posterior: what noise and chance may hide is one deviation each, and no rule knows a mechanism.

Where releases have noise and worlds more than one step, the plan is that of :mod:`discreet.learners.belief`: the mean
of everything plus sqrt(2 ln(1 + (1 + k) / (n + 1))) of its deviations, of which ``chance`` and ``noise`` count. A fixed
quantile would lock in; this one grows for a row that is not visited any more. Recommended is the mean less ``doubt``
deviations. The rules of UCBVI about undecided actions, unlucky and hardly known rows, noise that stays, cuts, unseen
rows and states that nobody was seen in take no part.

Blocks are weighed, steps borrow from each other, an answer counts as four visits, visits of rare rows are drawn towards
what policies should have brought, and the first block is at random, as for UCBVI. Without noise, and with a plan after
every user, it *is* UCBVI, and so it is in bandits: there the posterior of a coin near 0 or 1 is too far from a normal
one, and KL-UCB's index gets stuck less often.

**Formal guarantees.** Post-processing of a release. No bound on regret is proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from discreet.base.policies import Policy
from discreet.learners.base import PlannedState, plan_backwards
from discreet.learners.belief import belief_of
from discreet.learners.ucbvi import UCBVI
from discreet.mechanisms.release import Release


@dataclass(frozen=True)
class BeliefUCBVI(UCBVI):
    """UCBVI with one posterior in place of bonuses, cuts and special rules, wherever releases have noise.

    Args:
        chance: How many deviations by chance are added; they grow with the logarithm of users.
        noise: How many deviations by noise.
        doubt: How many deviations count against a row when a policy is recommended.
        reward_scale: This one and those below count only where it is UCBVI: scale of the bonus for rewards.
        spread_scale: Scale of the bonus for the deviation of what follows.
        range_scale: Scale of the bonus for the range of what follows.
        noise_scale: How many deviations of noise are added.
        threshold: Counts below this many deviations of noise are taken for zero.
        patience: How much longer a row is tried that noise may have made look bad.
        arm_scale: In bandits: takes the place of ``reward_scale``.
        arm_noise: In bandits: takes the place of ``noise_scale``.

    Examples:
        >>> import discreet
        >>> discreet.learners.BeliefUCBVI(noise=0.5).name
        'belief-ucbvi'
    """

    chance: float = 0.6
    noise: float = 0.3
    doubt: float = 0.3
    name: ClassVar[str] = "belief-ucbvi"

    def replan(self, state: PlannedState, release: Release) -> PlannedState:
        """The plan from the posterior that a noisy release leaves; that of UCBVI otherwise."""
        problem, coins = state.problem, state.coins.copy()
        if not _uncertain(problem.shape.horizon, release):
            return super().replan(state, release)
        belief = belief_of(problem.shape, self.chance, self.noise, release.users, exploring=True)
        policy, values = plan_backwards(belief, problem, coins, release)
        return PlannedState(problem, coins, policy, values, release)

    def recommend(self, state: PlannedState) -> Policy:
        """The plan of means less some deviations."""
        problem, release = state.problem, state.release
        if release is None or not _uncertain(problem.shape.horizon, release):
            return super().recommend(state)
        belief = belief_of(problem.shape, self.doubt, self.doubt, release.users, exploring=False)
        return plan_backwards(belief, problem, state.coins.copy(), release)[0]


def _uncertain(horizon: int, release: Release) -> bool:
    """Whether there is noise, and something follows."""
    return horizon > 1 and bool(release["transitions"].variance.any() or release["visits"].variance.any())

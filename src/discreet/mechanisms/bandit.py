"""Rewards of arms: the way out for bandits, which hides one bit of a user and nothing that everybody knows.

A block of users is told to play one arm of a bandit (one state, one step). Then

* ``visits`` of that arm rise by the size of the block: public, without noise, whatever the users really did;
* ``transitions`` stay empty, because nothing follows the only step;
* ``rewards`` of that arm rise by the sum of the users' reward bits (:mod:`discreet.mechanisms.counts.arm_reward`), with
  the noise of an inner channel: additive in the central model, answered bits through a shuffler.

Users who do not do as they are told count as told, with reward zero. That keeps visits public: if they were counted by
what users did, visits would be a secret of theirs and would need noise.

**One arm for everybody.** A stochastic policy or a mixture decides for each user, and how many play an arm is then not
known from the policy and the size of the block alone. Such policies are refused before anybody acts, unless one action
is all that they can play.

**Formal guarantees.** Replacing one user moves one number, the rewards of the arm that she was told to play, by at most
one; everything else that leaves is a function of policies and block sizes, which are public (functions of earlier
releases). Every user is in one block, so blocks compose in parallel, adaptively, and the billboard lemma applies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.policies import AnyPolicy
from discreet.base.saved_arrays import Savable, Saved, copies, taken_from, under
from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.arm_reward import ArmReward
from discreet.mechanisms.counts.encoder import Context, playable_rows
from discreet.mechanisms.mechanism import ChannelRun, Mechanism, PlainRun, RadiusOf, Tabular, WidthOf, row_shape
from discreet.mechanisms.messages.answered_bits import ResponseChannel
from discreet.mechanisms.release import Estimate
from discreet.mechanisms.sums.accumulator import NoiseSource


@dataclass(frozen=True)
class ArmRewardsChannel(Tabular):
    """Exact visits, and rewards of the arm that a block plays through the channel ``rewards``."""

    encoder: ArmReward
    rewards: Channel | ResponseChannel

    @property
    def mixes(self) -> bool:
        """No: a block plays one arm."""
        return False

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ArmRewardsRun:
        """Begin a run; arms that a block does not play are known zeros in any case."""
        return ArmRewardsRun(self, shape, self.rewards.start(shape, noise, masked=True))

    def noise_per_row(self) -> float:
        """The noise variance in the rewards of one block, an arm's first one where it depends on the size."""
        return self.rewards.law.variance

    def mechanisms(self) -> tuple[Mechanism, ...]:
        """One number of a block: the rewards of its arm."""
        return (Mechanism(self.encoder.name, 1, self.encoder.sensitivity(), self.rewards.law),)


class ArmRewardsRun(PlainRun):
    """How many users were told to play each arm, and the noisy rewards of those who did."""

    _channel: ArmRewardsChannel

    def __init__(self, channel: ArmRewardsChannel, shape: Shape, rewards: ChannelRun) -> None:
        self._channel, self._shape, self._rewards = channel, shape, rewards
        self._told = np.zeros(row_shape(shape))

    def encoder_now(self, context: Context) -> ArmReward:
        """The encoder of the arm that the policy plays; refused before anybody acts if there are several."""
        return replace(self._channel.encoder, arm=arm_of(self._shape, context.policy))

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in the rewards of a block, and count its users as told."""
        arm = arm_of(self._shape, context.policy)
        self._rewards.add(tally, users, context)
        self._told[0, 0, arm] += users

    def save(self) -> Saved:
        """How many were told what is public; the rest is that of the channel of rewards."""
        rewards = under("rewards", self._savable().save())
        return Saved(copies(told=self._told) | rewards.public, rewards.secret)

    def load(self, saved: Saved) -> None:
        """Go on from these numbers."""
        self._told = saved.public["told"].copy()
        self._savable().load(taken_from("rewards", saved))

    def _savable(self) -> Savable:
        if not isinstance(self._rewards, Savable):
            raise Unsupported("answered bits cannot be saved between releases: take the recipe 'central/arm-rewards'")
        return self._rewards

    def estimates(self) -> dict[str, Estimate]:
        """Visits as they are, no transitions, rewards with their noise."""
        exact = np.zeros_like(self._told)
        return {
            "visits": Estimate(self._told.copy(), exact),
            "transitions": Estimate(np.zeros((*self._told.shape, 1)), exact),
            "rewards": self._rewards.estimates()["rewards"],
        }

    def width_now(self) -> WidthOf:
        """That of the rewards: other counts sum no noisy cell."""
        return self._rewards.width_now()

    def radius_now(self) -> RadiusOf | None:
        """Zero for what is exact; for rewards that of their channel."""
        rewards, exact = self._rewards.radius_now(), np.zeros_like(self._told)
        if rewards is None:
            return None
        return lambda statistic, failure_probability: (
            rewards(statistic, failure_probability) if statistic == "rewards" else exact
        )


def arm_of(shape: Shape, policy: AnyPolicy) -> int:
    """The arm that a policy makes everybody play; a policy that leaves a choice is refused."""
    arms = np.flatnonzero(playable_rows(shape, policy))
    if len(arms) != 1:
        raise Unsupported(
            f"rewards of arms need a policy that says one action for everybody, and this one may play {len(arms)} of "
            'them: take another recipe (a learner that lists "mixed policies" in its needs is given one by "auto")'
        )
    return int(arms[0])

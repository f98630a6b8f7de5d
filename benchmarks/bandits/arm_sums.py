"""A mechanism made for bandits, as a privatizer of one's own: only the sum of rewards of the arm that a block plays.

A world with one state and one step, and a deterministic policy: then everybody knows which arm the next block of users
gets and how many they are, so visits need no noise, and of a user nothing is left to hide but her reward. Replacing her
moves one counter by at most one. The library's recipes for all worlds hide her in two cells (joint histogram) or three
(first-visit tables), so their noise is two or three times as large.

* central: the sum of a block with discrete Laplace noise of scale 1/epsilon;
* shuffle: one true bit and noise bits per user, the least binomial noise for the size of the block;
* local: every user answers her reward bit by randomised response with the whole epsilon.

Blocks follow the arm and not the clock: an arm's first block has ``first`` standard deviations of the noise in users,
later ones ``growth`` times the users that the arm had. How long a block is depends on the policy and on the number of
users that an arm had, both public. In the library this could be a schedule that sees the policy; here the learner asks.

**Formal guarantees.** Pure epsilon (shuffle: epsilon and delta) for replacing one user, computed by the library from
the law and a shift of one: every user is in one block, so blocks compose in parallel, and the billboard lemma applies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.accumulators.base import NoiseSource, SimulatedNoise
from discreet.channels.base import PlainRun, Tabular, WidthOf, row_shape
from discreet.channels.schedule import Equal
from discreet.channels.session import Privatizer
from discreet.encoders.base import Context, playable_rows
from discreet.encoders.joint import JointHistogram
from discreet.errors import Unsupported
from discreet.learners.base import Learner, Problem
from discreet.noise import BinomialNoise, DiscreteLaplace, RandomizedResponse
from discreet.noise.calibration import calibrate_binomial, calibrate_noise
from discreet.noise.law import Law
from discreet.policies import AnyPolicy, Policy
from discreet.privacy.guarantee import Guarantee, billboard, from_mechanism, from_reports, locally, parallel, shuffled
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.trust import Privacy
from discreet.release import Estimate, Release, Request
from discreet.shape import Shape
from discreet.streams import Stream
from discreet.types import Floats

# Chosen on the tuning bandits: standard deviations of noise in an arm's first block, the share of all users that first
# blocks may take, and how much longer than all earlier blocks of an arm together its next one may be.
FIRST, SHARE, GROWTH = 24.0, 0.04, 0.5
ONE_REWARD = Sensitivity.unit_shifts(up=1, down=0)


@dataclass(frozen=True)
class ArmSums(Tabular):
    """The sum of rewards of the one row that a block plays, with the noise of its trust model."""

    encoder: JointHistogram
    privacy: Privacy
    law: Law

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ArmRun:
        """Begin a run."""
        return ArmRun(self, shape, noise)

    def noisy(self, ones: float, users: int, source: NoiseSource) -> tuple[float, float]:
        """A block's sum of rewards as it leaves, and the variance of the noise in it."""
        if self.privacy.model == "central":
            return ones + float(source.draw(self.law, 1, 1)[0]), float(self.law.variance)
        assert isinstance(source, SimulatedNoise)
        if self.privacy.model == "local":
            answer, rng = RandomizedResponse(self.privacy.epsilon or 0.0), source.generator
            answered = rng.binomial(int(ones), answer.p) + rng.binomial(users - int(ones), answer.q)
            return float(answer.decode(answered, users)), float(answer.variance(users))
        law = batch_noise(self.privacy, users)
        return ones + float(law.draw(source.generator, 1)[0]), law.variance  # simulated draws come centred


class ArmRun(PlainRun):
    """Sums so far; users of a row are counted without noise, because everybody knows them."""

    _channel: ArmSums

    def __init__(self, channel: ArmSums, shape: Shape, noise: NoiseSource) -> None:
        self._channel, self._shape, self._noise = channel, shape, noise
        self._users, self._rewards, self._variance = (np.zeros(row_shape(shape)) for _ in range(3))

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in a block that plays one arm."""
        rows = playable_rows(self._shape, context.policy)
        if np.count_nonzero(rows) != 1:
            raise Unsupported("sums of one arm need a policy that plays one arm: use a deterministic policy")
        ones = float(self._channel.encoder.marginals(tally)["rewards"].values[rows][0])
        value, variance = self._channel.noisy(ones, users, self._noise)
        self._users[rows] += users
        self._rewards[rows] += value
        self._variance[rows] += variance

    def estimates(self) -> dict[str, Estimate]:
        """Visits as they are, rewards with their noise; nothing follows the only step."""
        nothing = np.zeros((*self._users.shape, self._shape.states))
        return {
            "visits": Estimate(self._users.copy(), np.zeros_like(self._users)),
            "transitions": Estimate(nothing, np.zeros_like(self._users)),
            "rewards": Estimate(self._rewards.copy(), self._variance.copy()),
        }

    def width_now(self) -> WidthOf:
        """By Chebyshev's inequality; the learner here does not ask."""
        variance = self._variance.copy()
        return lambda cells_summed, failure_probability: np.sqrt(variance * cells_summed / failure_probability)


def batch_noise(privacy: Privacy, users: int) -> BinomialNoise:
    """The least binomial noise that hides one bit among so many users."""
    assert privacy.epsilon is not None
    bits = calibrate_binomial(users, 1, 0, privacy.epsilon, privacy.delta)
    return BinomialNoise(users * bits.bits, bits.probability)


@dataclass(frozen=True)
class ArmPrivatizer:
    """Makes the privatizer for a target; give it to ``simulate`` in place of the target."""

    privacy: Privacy

    def __call__(self, shape: Shape, episodes: int) -> Privatizer:
        """Refuses worlds in which visits are not public."""
        if shape.states != 1 or shape.horizon != 1:
            raise Unsupported("sums of arms are for bandits: one state, one step")
        law = calibrate_noise(DiscreteLaplace, ONE_REWARD, epsilon=self.privacy.epsilon)
        channel = ArmSums(JointHistogram(shape), self.privacy, law)
        return Privatizer("arm sums", shape, (channel,), Equal(min(100, episodes)), self.guarantee(law, episodes))

    def guarantee(self, law: Law, episodes: int) -> Guarantee:
        """Computed: one block by its law, all blocks in parallel."""
        epsilon, name = self.privacy.epsilon or 0.0, "rewards of one arm"
        if self.privacy.model == "local":
            answer = RandomizedResponse(epsilon)
            moves, how = "one bit", f"randomised response with a loss of {answer.shipped_epsilon:.6g}"
            return locally(from_reports(answer.profile(1), delta=0.0, name=name, moves=moves, law=how))
        blocks = "every user is in exactly one block"
        if self.privacy.model == "central":
            return billboard(parallel(from_mechanism(law, ONE_REWARD, delta=self.privacy.delta, name=name), blocks))
        batches = [
            from_mechanism(batch_noise(self.privacy, users), ONE_REWARD, delta=self.privacy.delta, name=name)
            for users in (max(1, episodes // 100), episodes)
        ]
        why = "each user sends her bit and noise bits, permuted per block; noise bits suit the size of each block"
        return billboard(parallel(shuffled(batches, epsilon=epsilon, delta=self.privacy.delta, why=why), blocks))

    def blocks(self, arms: int, users: int) -> tuple[int, float]:
        """The first block of an arm and the growth of later ones; chosen on the tuning bandits.

        The first block stands out of its noise, unless all first blocks together would take too many of the users.
        Local noise grows with the users, so only the very first look at an arm has to wait for it.
        """
        if self.privacy.model == "local":
            return max(1, round(30 * float(RandomizedResponse(self.privacy.epsilon or 0.0).variance(1)))), 0.05
        return max(1, round(min(FIRST * self.deviation(), SHARE * users / arms))), GROWTH

    def deviation(self) -> float:
        """The noise in a block of the usual size: what the first block of an arm is measured in."""
        if self.privacy.model == "central":
            return math.sqrt(calibrate_noise(DiscreteLaplace, ONE_REWARD, epsilon=self.privacy.epsilon).variance)
        return math.sqrt(batch_noise(self.privacy, 100).variance) if self.privacy.model == "shuffle" else 0.0


class ArmState(NamedTuple):
    """The inner learner's state, and what is public about the arms."""

    inner: Any
    visits: Floats
    left: int


@dataclass(frozen=True)
class InArmBlocks:
    """A learner that also says how long it plays an arm: the first time ``first`` users, then in proportion."""

    inner: Learner
    first: int = 1
    growth: float = 0.5
    name: ClassVar[str] = "arm-blocks"
    needs: frozenset[str] = field(default=frozenset({"visits", "transitions", "rewards"}))

    def init(self, problem: Problem, coins: Stream) -> ArmState:
        """Nobody has been served."""
        return ArmState(self.inner.init(problem, coins), np.zeros(problem.shape.actions), problem.episodes)

    def ask(self, state: ArmState) -> Request:
        """The inner learner's arm, for a block in proportion to what the arm has had."""
        policy = self.inner.policy(state.inner)
        assert isinstance(policy, Policy)
        seen = state.visits[int(policy.actions[0, 0])]
        return Request(policy, users=min(state.left, max(self.first, math.ceil(self.growth * seen))))

    def update(self, state: ArmState, release: Release) -> ArmState:
        """Plan anew."""
        visits = release["visits"].values.reshape(-1)
        left = state.left - round(float(visits.sum() - state.visits.sum()))
        return ArmState(self.inner.update(state.inner, release), visits, left)

    def policy(self, state: ArmState) -> AnyPolicy:
        """The inner learner's."""
        return self.inner.policy(state.inner)

    def recommend(self, state: ArmState) -> AnyPolicy:
        """The inner learner's, without any bonus."""
        recommended: AnyPolicy = self.inner.recommend(state.inner)
        return recommended

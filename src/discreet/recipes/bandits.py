"""Recipes for bandits, worlds of one state and one step: the rewards of the arm that a block of users plays.

Visits are public there and only a reward needs hiding, which moves one number by one
(:mod:`discreet.mechanisms.bandit`):

* ``central/arm-rewards``: discrete Laplace noise on the rewards of a block; with a delta, discrete Gaussian noise where
  that is quieter;
* ``shuffle/arm-rewards``: each user answers her reward bit by randomised response, as truthfully as the size of her
  block allows, and a shuffler permutes the answers of a block. Alone in a block she has the whole epsilon by herself,
  so this is never noisier than the local model.

**Blocks** follow the arm and not the clock (:mod:`discreet.recipes.arm_blocks`). In the local model there is no
recipe to add: ``local/sampled-step`` answers one bit of a user of a bandit, with the whole epsilon, in such blocks.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.bandit import ArmRewardsChannel
from discreet.mechanisms.counts.arm_reward import ArmReward, is_bandit
from discreet.mechanisms.messages.answered_bits import ResponseChannel
from discreet.mechanisms.schedule import sizes
from discreet.mechanisms.session import Privatizer, unnamed
from discreet.mechanisms.sums.blocks import Blocks
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.noise.calibration import calibrate_noise
from discreet.noise.distribution import Law
from discreet.privacy.guarantee import billboard, from_mechanism, parallel, shuffled
from discreet.privacy.words import rounded_up
from discreet.recipes.arm_blocks import GROWTH, arm_blocks, tried_shuffled
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.shuffle import absent_share
from discreet.recipes.targets import Privacy

_OPTIONS: dict[str, Any] = {"first": None, "growth": GROWTH}


def _central(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    encoder = ArmReward(shape)
    law = _quietest(encoder, privacy)
    rewards = Channel(encoder, law, Blocks())
    schedule = arm_blocks(options, lambda _users: math.sqrt(law.variance), shape, episodes)
    block = from_mechanism(law, encoder.sensitivity(), delta=privacy.delta, name="rewards of one arm in a block")
    guarantee = billboard(parallel(block, f"every user is in exactly one block ({schedule.describe()})"))
    return unnamed(shape, (ArmRewardsChannel(encoder, rewards),), schedule, guarantee, True, options)


def _quietest(encoder: ArmReward, privacy: Privacy) -> Law:
    """The law with the least variance that keeps the target: Laplace noise for pure ones, Gaussian noise for rho."""
    laws: list[Any] = [DiscreteLaplace] if privacy.rho is None else [DiscreteGaussian]
    if privacy.rho is None and privacy.delta > 0:
        laws.append(DiscreteGaussian)
    calibrated: list[Law] = [
        calibrate_noise(law, encoder.sensitivity(), epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho)
        for law in laws
    ]
    return min(calibrated, key=lambda law: law.variance)


def _shuffle(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    if privacy.epsilon is None:
        raise Unsupported("answers to bits are calibrated to epsilon and delta: give those instead of rho")
    encoder = ArmReward(shape)
    rewards = ResponseChannel(
        shape, encoder, privacy.epsilon, privacy.delta, 1, absent_share(options), bool(options["bit_level"]),
        round_sizes=True,
    )  # fmt: skip
    schedule = arm_blocks(
        options, lambda users: math.sqrt(rewards.response(users).variance), shape, episodes, tried_shuffled(shape)
    )
    # An arm that everybody plays has the largest blocks, the last users of all perhaps the smallest one.
    largest = max(sizes(replace(schedule, policies=1), episodes))
    rewards = replace(rewards, block=schedule.first)
    counted = "everybody's answers counted" if not rewards.absent else f"{1 - rewards.absent:.4g} of them counted"
    batches = shuffled(
        [rewards.certified(users) for users in sorted({1, schedule.first, largest})],
        epsilon=rewards.epsilon,
        delta=rewards.delta,
        why="each user answers the reward bit of the arm that she was told to play by randomised response, permuted "
        f"per batch; answers suit the size of each batch, {counted}; should the shuffler fail in a batch of {largest}, "
        f"her message alone is pure local, epsilon {rounded_up(rewards.unshuffled(largest).epsilon)}",
    )
    asked = f"{schedule.describe()}, or sizes that the learner asks for"
    guarantee = billboard(parallel(batches, f"every user is in exactly one batch ({asked})"))
    return unnamed(shape, (ArmRewardsChannel(encoder, rewards),), schedule, guarantee, True, options)


def _suits(privacy: Privacy, shape: Shape) -> bool:
    return is_bandit(shape)


RECIPES = (
    Recipe(
        "central/arm-rewards", "central",
        "bandits only: rewards of the arm that a block plays, discrete noise on one number; visits are public",
        _central, encoder=ArmReward.name, law="laplace, gaussian", accumulator="blocks", options=_OPTIONS,
        mixes=False, suits=_suits,
    ),
    Recipe(
        "shuffle/arm-rewards", "shuffle",
        "bandits only: the reward bit of the arm that a batch plays, answered on the device, through a shuffler",
        _shuffle, encoder=ArmReward.name, law="randomised-response", accumulator="shuffled-blocks",
        options={**_OPTIONS, "dropouts": 0.0, "colluding": 0.0, "bit_level": False}, mixes=False, suits=_suits,
    ),
)  # fmt: skip

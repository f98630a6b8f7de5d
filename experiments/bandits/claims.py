"""The promises of the published algorithms, computed by the library from their noise and what one reward moves."""

from __future__ import annotations

import math

from discreet.noise import BinomialNoise, Laplace, RandomizedResponse
from discreet.privacy.guarantee import Guarantee, billboard, from_mechanism, from_reports, locally, parallel, shuffled
from discreet.privacy.sensitivity import Sensitivity
from experiments.bandits.settings import DELTA, USERS

ONE_REWARD = Sensitivity.unit_shifts(up=1, down=0)


def epochs(epsilon: float) -> Guarantee:
    """DP-SE, AdaP, Lazy-DP-TS, DP-KLUCB, DP-IMED: Lap(1/epsilon) on the rewards of each epoch, epochs disjoint."""
    one = from_mechanism(Laplace(1 / epsilon), ONE_REWARD, delta=0.0, name="rewards of one epoch")
    return billboard(parallel(one, "every user is in one epoch of one arm"))


def trees(epsilon: float, arms: int) -> Guarantee:
    """DP-UCB: Lap(K levels / epsilon) in every node; a user is in one node of each level, of one arm's tree."""
    levels = math.ceil(math.log2(USERS)) + 1
    nodes = Sensitivity.unit_shifts(1, 0).in_several_sums(levels)
    one = from_mechanism(Laplace(arms * levels / epsilon), nodes, delta=0.0, name="nodes of one arm's tree")
    return billboard(parallel(one, "every user is in the tree of one arm"))


def binary_sum(epsilon: float, users: int) -> Guarantee:
    """SDP-AE with the protocol of Balcer and Cheu: each user's noise bit is one with 1 - 50 ln(2/delta) / (n eps^2)."""
    ones = 1 - 50 * math.log(2 / DELTA) / (users * epsilon**2)
    law = BinomialNoise(users, round(ones * 2**32) / 2**32)
    batch = from_mechanism(law, ONE_REWARD, delta=DELTA, name=f"one arm in a batch of {users}")
    whole = shuffled([batch], epsilon=epsilon, delta=DELTA, why="true bits and noise bits permuted together")
    return billboard(parallel(whole, "every user is in one batch of one arm"))


def answered(epsilon: float) -> Guarantee:
    """LDP-UCB-B: one reward bit by randomised response."""
    law = RandomizedResponse(epsilon)
    return locally(from_reports(law.profile(1), delta=0.0, name="a reward", moves="one bit", law="randomised response"))


def noisy_rewards(epsilon: float) -> Guarantee:
    """LDP-UCB-L: Lap(1/epsilon) on every reward."""
    return locally(from_mechanism(Laplace(1 / epsilon), ONE_REWARD, delta=0.0, name="a reward"))

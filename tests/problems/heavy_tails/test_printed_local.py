"""The local privatizer for heavy-tailed rewards as printed: its noise, its thresholds, and what it really keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.base.errors import Unsupported
from discreet.base.shape import Moments, Shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.trajectories import Trajectories
from discreet.problems.heavy_tails.published_tables import IndexedTables
from discreet.recipes.registry import build

NAME = "local/heavy-tailed-published"
SHAPE = Shape(3, 2, 2, False, (-1.0, 1.0), moments=Moments(2.0, 1.0))


def test_a_reward_counts_if_it_is_below_the_threshold_of_the_user():
    """B_1 = 1, v = 1: thresholds are fourth roots of 1, 2, 3, 4 and 5, whichever cell is visited."""
    encoder = IndexedTables(SHAPE, 1.0)
    rewards = [1.0, 1.2, -1.3, 1.5, -1.49]
    states = np.array([[0, 0], [1, 0], [0, 0], [0, 0], [0, 0]])
    records = Trajectories(states, np.zeros((5, 2), np.int64), np.array([[r, 0.0] for r in rewards]), np.full(5, 2))
    cells = encode(encoder, records, stream(0, 0, USERS))
    tables = encoder.marginals(cells.sum(axis=0))
    sums = 2 * tables["rewards"].values - tables["visits"].values
    assert sums[0, 0, 0] == pytest.approx(1.0 - 1.3 - 1.49)  # 1.2 is above 1.189, 1.5 above 1.414
    assert sums[0, 1, 0] == 0.0
    assert cells[1].sum() == 3  # two visits and one transition: her reward is dropped


def test_noise_and_thresholds_are_as_printed():
    channel = build(discreet.Local(0.5, recipe=NAME), SHAPE, 256).channels[0]
    assert channel.count_law.scale == pytest.approx(3 * 2 / 0.5)
    assert channel.reward_law.scale == pytest.approx(6 * 2 / 0.5)
    log = math.log(6 * 3 * 2 * 256 * 2 / 0.1)
    assert channel.encoder.threshold(9) == pytest.approx((2.0 * 0.5 * 3 / (2 * log)) ** 0.5)


def test_it_keeps_five_thirds_of_what_is_claimed():
    guarantee = build(discreet.Local(1.0, recipe=NAME), SHAPE, 1000).guarantee
    assert guarantee.claimed.epsilon == 1.0
    assert guarantee.epsilon == pytest.approx(5 / 3 - 1 / 3)  # of two steps the last one has no transitions
    assert "would give" in guarantee.explain()
    with pytest.raises(Unsupported, match="epsilon"):
        build(discreet.Local(rho=1.0, recipe=NAME), SHAPE, 100)


def test_every_user_adds_noise_of_her_own_threshold():
    """The stated variance is the sum of all users' own; one threshold for a whole block would be another number."""
    world = discreet.worlds.river_swim(3, 2, rewards="stable", alpha=2.0).with_time(homogeneous=False)
    target = discreet.Local(1.0, recipe=NAME, options={"growth": 0.5})
    found = discreet.simulate(world, "heavy-ucbvi", target, episodes=50, seed=1, keep_release=True).releases[0]
    channel = build(target, world.shape, 50).channels[0]
    squares = sum(channel.encoder.threshold(j) ** 2 for j in range(1, found.users + 1))
    counts = channel.count_law.variance * found.users
    stated = found["rewards"].variance[0, 0, 0]
    assert stated == pytest.approx((channel.reward_law.variance * squares + counts) / 4)
    whole_blocks = channel.reward_law.variance * channel.encoder.threshold(found.users) ** 2 * found.users
    assert stated < 0.9 * (whole_blocks + counts) / 4

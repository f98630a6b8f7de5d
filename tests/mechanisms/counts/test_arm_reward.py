"""The reward of one arm: one bit of a user who was told which arm to play, and nothing of one who played another."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.arm_reward import ArmReward
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.trajectories import Trajectories

BANDIT = Shape(1, 3, 1, homogeneous=True)


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("arm", range(3))
def test_replacing_anybody_by_anybody_moves_one_cell_by_at_most_one(all_records, arm, homogeneous):
    """All records of a bandit, those that play another arm and those of nobody at all included."""
    shape = Shape(1, 3, 1, homogeneous=homogeneous)
    encoder = ArmReward(shape, arm)
    rows = np.unique(encode(encoder, all_records(shape, shortest=0), stream(0, 0, USERS)), axis=0)
    assert rows.tolist() == [[0.0] * 3, [float(i == arm) for i in range(3)]]
    stated = encoder.sensitivity()
    assert (stated.l1, stated.l2, stated.linf, stated.shifts) == (1, 1, 1, ((1, 1, 0),))
    assert encoder.layer_sensitivity(0) == stated


def test_the_joint_histogram_of_the_same_records_moves_twice_as_much(all_records):
    rows = encode(JointHistogram(BANDIT), all_records(BANDIT), stream(0, 0, USERS))
    assert max(np.abs(rows - row).sum(axis=1).max() for row in rows) == 2


def test_only_rewards_of_the_arm_that_was_told_are_counted():
    records = Trajectories.from_arrays(
        np.zeros((4, 1), int), np.array([[1], [1], [0], [2]]), np.array([[1.0], [0.0], [1.0], [1.0]]), BANDIT
    )
    assert encode(ArmReward(BANDIT, 1), records, stream(0, 0, USERS)).sum(axis=0).tolist() == [0, 1, 0]
    assert encode(ArmReward(BANDIT, 2), records, stream(0, 0, USERS)).sum(axis=0).tolist() == [0, 0, 1]


def test_rewards_in_between_are_rounded_without_bias():
    """10,000 rewards at a quarter of the range; off by six standard deviations once in 5e8 tests."""
    shape = Shape(1, 2, 1, rewards=(-1.0, 3.0))
    users = 10_000
    records = Trajectories.from_arrays(
        np.zeros((users, 1), int), np.zeros((users, 1), int), np.zeros((users, 1)), shape
    )
    ones = encode(ArmReward(shape, 0), records, stream(3, 0, USERS)).sum(axis=0)
    assert abs(ones[0] - users / 4) < 6 * np.sqrt(users * 3 / 16)
    assert abs(ones[0] - users / 2) > 6 * np.sqrt(users / 4)


def test_statistics_sum_no_cells_but_those_of_rewards():
    found = ArmReward(BANDIT).marginals(np.array([1.0, 2.0, 3.0]))
    assert {name: int(statistic.cells.max()) for name, statistic in found.items()} == {
        "visits": 0, "transitions": 0, "rewards": 1,
    }  # fmt: skip
    assert found["rewards"].values.tolist() == [[[1.0, 2.0, 3.0]]]
    assert found["transitions"].values.shape == (1, 1, 3, 1)


@pytest.mark.parametrize("shape", [Shape(2, 3, 1), Shape(1, 3, 2), Shape(1, 3, 2, homogeneous=True)])
def test_other_worlds_are_refused(shape):
    with pytest.raises(Unsupported, match="one state and one step, and this world has"):
        ArmReward(shape)


def test_an_arm_that_does_not_exist_is_refused():
    for arm in (-1, 3):
        with pytest.raises(InvalidInput, match=r"arm must lie in 0..2"):
            ArmReward(BANDIT, arm)

"""Stochastic rounding of rewards, and first visits of simulated users.

Means of n bits may miss by six standard deviations: a false-alarm rate below 1e-7 per comparison, 1e-6 for the file;
seeds are fixed. A share off by 0.03, and counts of every visit, must be rejected by the same bounds.
"""

from __future__ import annotations

import numpy as np
import pytest

from discreet.encoders.base import Context, encode, reward_bit
from discreet.encoders.first_visit import FirstVisit
from discreet.encoders.joint_histogram import JointHistogram
from discreet.encoders.three_tables import ThreeTables
from discreet.planning.occupancy import occupancy
from discreet.policies import Policy, uniform_policy
from discreet.shape import Shape
from discreet.simulation.users import SimulatedUsers
from discreet.streams import USERS, stream
from discreet.trajectories import Trajectories
from discreet.worlds import from_arrays

DRAWS = 60_000


def close(mean: float, share: float, n: int = DRAWS) -> bool:
    return abs(mean - share) < 6 * np.sqrt(share * (1 - share) / n)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_reward_bits_are_unbiased(share):
    state = stream(2, 0, USERS)
    mean = np.mean([reward_bit(-1.0 + 4.0 * share, -1.0, 4.0, state) for _ in range(DRAWS)])
    assert close(mean, share)
    assert not close(mean, share + 0.03)
    assert not close(mean, share - 0.03)


@pytest.mark.parametrize("make", [JointHistogram, FirstVisit, ThreeTables])
def test_encoded_rewards_are_unbiased(make):
    shape = Shape(1, 1, 1, homogeneous=True)
    zero = np.zeros((DRAWS, 1), np.int64)
    users = Trajectories.from_arrays(zero, zero, np.full((DRAWS, 1), 0.3), shape)
    total = make(shape).marginals(encode(make(shape), users, stream(2, 1, USERS)).sum(axis=0))
    assert total["visits"].values[0, 0, 0] == DRAWS
    assert close(total["rewards"].values[0, 0, 0] / DRAWS, 0.3)
    assert not close(total["rewards"].values[0, 0, 0] / DRAWS, 0.33)


def tally(world, policy, encoder, users):
    simulated = SimulatedUsers(world, stream(2, 2, USERS), np.random.default_rng(0))
    return encoder.marginals(simulated.tally([encoder], Context(policy), users)[0])


def test_simulated_users_leave_the_expected_visits_whatever_the_kind_of_policy():
    """Visits per step against exact occupancies; a world with another law must be rejected."""
    rng = np.random.default_rng(5)
    P, R = rng.dirichlet(np.ones(3), size=(4, 3, 2)), rng.random((4, 3, 2))
    world, users = from_arrays(P, R, start=rng.dirichlet(np.ones(3))), 30_000
    deterministic = Policy(rng.integers(2, size=(4, 3)))
    for policy in (deterministic, deterministic.stochastic(2), uniform_policy(world.shape)):
        visits = tally(world, policy, JointHistogram(world.shape), users)["visits"].values / users
        right = occupancy(world.transitions, world.start, policy)
        assert np.all(np.abs(visits - right) <= 6 * np.sqrt(right * (1 - right) / users) + 1e-12)
        other = occupancy(0.9 * world.transitions + 0.1 / 3, world.start, policy)
        assert np.any(np.abs(visits - other) > 6 * np.sqrt(other * (1 - other) / users) + 1e-12)


def test_first_visits_of_simulated_users_are_draws_of_the_transition_law():
    P = np.array([[[0.3, 0.7]], [[0.6, 0.4]]])
    world, users = from_arrays(P, np.full((2, 1), 0.5), horizon=6), 20_000
    counts = tally(world, Policy(np.zeros((6, 2), np.int64)), FirstVisit(world.shape), users)
    seen = counts["transitions"].values[0, :, 0]
    assert counts["visits"].values.max() <= users
    for s in range(2):
        assert close(seen[s, 0] / seen[s].sum(), P[s, 0, 0], int(seen[s].sum()))
        assert not close(seen[s, 0] / seen[s].sum(), P[s, 0, 0] + 0.03, int(seen[s].sum()))
    every = tally(world, Policy(np.zeros((6, 2), np.int64)), JointHistogram(world.shape), users)["visits"].values
    assert every.sum() == 6 * users > counts["visits"].values.sum()

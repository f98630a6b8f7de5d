"""The cascade of counts against users who are played one by one: chi-squared, with wrong twins that are rejected.

Every test compares two sets of counts at level 1e-6, with fixed seeds; the twins are worlds that differ a little.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

import discreet
from discreet.base.policies import StochasticPolicy
from discreet.base.streams import generator, stream
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.joint_histogram import MarginalTable
from discreet.simulation.data_sets import BehaviourUsers
from discreet.simulation.users import TabularUsers
from discreet.worlds.rewards import OnTransition
from discreet.worlds.tabular import TabularWorld

pytestmark = pytest.mark.slow

USERS = 20_000


def world(law, tilt=0.0):
    rng = np.random.default_rng(4)
    transitions, means = rng.dirichlet(np.ones(3), size=(3, 3, 2)), rng.uniform(0.1, 0.9, (3, 3, 2))
    transitions = (1 - tilt) * transitions + tilt / 3
    if law == "transition":
        rewards = OnTransition(np.broadcast_to(rng.random(3), (3, 3, 2, 3)))
        return TabularWorld("w", transitions, rewards, np.array([0.2, 0.3, 0.5]), 3)
    return discreet.worlds.from_arrays(transitions, means, start=[0.2, 0.3, 0.5], reward_law=law)


BEHAVIOUR = StochasticPolicy(np.random.default_rng(5).dirichlet(np.ones(2), size=(3, 3)))


def distance(first, second):
    """Pearson's statistic for two samples of the same size, and its tail probability."""
    seen = first + second > 10
    statistic = ((first - second)[seen] ** 2 / (first + second)[seen]).sum()
    return chi2.sf(statistic, seen.sum())


@pytest.mark.parametrize("law", ["bernoulli", "deterministic", "transition"])
def test_the_cascade_has_the_law_of_played_users(law):
    encoder = MarginalTable(world(law).shape, bits=True)
    (played,) = TabularUsers(world(law), stream(1, 0, 0), generator(1, 0, 0)).tally(
        [encoder], Context(BEHAVIOUR), USERS
    )

    def counted(tilt, seed):
        people = BehaviourUsers(world(law, tilt), BEHAVIOUR, stream(seed, 0, 0), generator(seed, 0, 0))
        return people.tally([encoder], Context(BEHAVIOUR), USERS)[0]

    assert distance(counted(0.0, 2), played) > 1e-6
    assert distance(counted(0.1, 2), played) < 1e-6
    assert counted(0.0, 2).sum() == 3 * USERS


def test_fine_reward_levels_keep_the_mean():
    """Rewards in 9 levels have the mean of the rewards; in a twin whose rewards are two thirds they do not."""
    given = world("deterministic")
    people = BehaviourUsers(given, BEHAVIOUR, stream(3, 0, 0), generator(3, 0, 0))
    joint = people.joint_counts(USERS, levels=9)
    row = joint.keys // (9 * 4)
    mean = np.bincount(row, joint.counts * (joint.keys % 9 / 8)) / np.bincount(row, joint.counts)
    visits = np.bincount(row, joint.counts)
    # Rounding to 9 levels has a standard deviation of at most 1/16: six of them, a false alarm in 5e8 per row.
    bound = 6 / 16 / np.sqrt(visits)
    assert (np.abs(mean - given.means.reshape(-1)) < bound).all()
    assert (np.abs(2 / 3 * mean - given.means.reshape(-1)) > bound).any()

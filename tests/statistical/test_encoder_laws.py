"""Stochastic rounding of rewards, and first visits of simulated users.

Means of n bits may miss by six standard deviations, a false-alarm rate below 1e-8 per comparison, and chi-squares are
compared at 1e-6: below 1e-5 for the file. Seeds are fixed. Shares off by 0.03 and tilted worlds must be rejected.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from discreet.base.policies import Policy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import Context, encode, reward_bit
from discreet.mechanisms.counts.first_visit import FirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.mechanisms.trajectories import Trajectories
from discreet.simulation.users import TabularUsers
from discreet.worlds import from_arrays
from discreet.worlds.planning.backward_induction import occupancy

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("make", [JointHistogram, FirstVisit, ThreeTables, TwoTables])
def test_encoded_rewards_are_unbiased(make):
    shape = Shape(1, 1, 1, homogeneous=True)
    zero = np.zeros((DRAWS, 1), np.int64)
    users = Trajectories.from_arrays(zero, zero, np.full((DRAWS, 1), 0.3), shape)
    total = make(shape).marginals(encode(make(shape), users, stream(2, 1, USERS)).sum(axis=0))
    assert total["visits"].values[0, 0, 0] == DRAWS
    assert close(total["rewards"].values[0, 0, 0] / DRAWS, 0.3)
    assert not close(total["rewards"].values[0, 0, 0] / DRAWS, 0.33)


def tally(world, policy, encoder, users):
    simulated = TabularUsers(world, stream(2, 2, USERS), np.random.default_rng(0))
    return encoder.marginals(simulated.tally([encoder], Context(policy), users)[0])


def test_simulated_users_leave_the_expected_visits_whatever_the_kind_of_policy():
    """Visits per step against exact occupancies; a world with another law must be rejected."""
    rng = np.random.default_rng(5)
    P, R = rng.dirichlet(np.ones(3), size=(4, 3, 2)), rng.random((4, 3, 2))
    world, users = from_arrays(P, R, start=rng.dirichlet(np.ones(3))), 100_000
    deterministic = Policy(rng.integers(2, size=(4, 3)))
    for policy in (deterministic, deterministic.stochastic(2), uniform_policy(world.shape)):
        visits = tally(world, policy, JointHistogram(world.shape), users)["visits"].values / users
        right = occupancy(world.transitions, world.start, policy)
        assert np.all(np.abs(visits - right) <= 6 * np.sqrt(right * (1 - right) / users) + 1e-12)
        other = occupancy(0.8 * world.transitions + 0.2 / 3, world.start, policy)
        assert np.any(np.abs(visits - other) > 6 * np.sqrt(other * (1 - other) / users) + 1e-12)


def exact_law(world, policy, users):
    """The law of the tally of some users under a deterministic policy, by adding up all their records."""
    encoder, (S, H) = JointHistogram(world.shape), (world.shape.states, world.horizon)
    one: dict[tuple, float] = {}
    for record in product(product(range(S), (0.0, 1.0)), repeat=H):
        states, bits = (np.array(column) for column in zip(*record, strict=True))
        actions = policy.actions[np.arange(H), states]
        weight = world.start[states[0]]
        for h in range(H):
            mean = world.means[h, states[h], actions[h]]
            weight *= mean if bits[h] else 1 - mean
            weight *= world.transitions[h, states[h], actions[h], states[h + 1]] if h + 1 < H else 1.0
        records = Trajectories.from_arrays([states], [actions], [bits], world.shape)
        key = tuple(encode(encoder, records, stream(0, 0, USERS))[0])
        one[key] = one.get(key, 0.0) + weight
    law = {tuple(np.zeros(encoder.size)): 1.0}
    for _ in range(users):
        longer: dict[tuple, float] = {}
        for (x, p), (y, q) in product(law.items(), one.items()):
            key = tuple(np.add(x, y))
            longer[key] = longer.get(key, 0.0) + p * q
        law = longer
    return law


def misfit(counts, law, draws):
    """Whether a chi-square at 1e-6 rejects; tallies expected less than five times are taken together."""
    expected = {key: draws * p for key, p in law.items()}
    if any(key not in expected for key in counts):
        return True
    common = [key for key, mean in expected.items() if mean >= 5]
    rest = sum(mean for mean in expected.values() if mean < 5)
    pairs = [(counts.get(key, 0), expected[key]) for key in common]
    pairs.append((draws - sum(n for n, _ in pairs), max(rest, 1e-9)))
    return sum((n - m) ** 2 / m for n, m in pairs) > stats.chi2.isf(1e-6, len(pairs) - 1)


def test_the_tally_of_a_few_users_has_exactly_the_law_of_their_records():
    """However tallies are drawn, all cells together must be distributed as sums of whole records are."""
    rng = np.random.default_rng(6)
    world = from_arrays(rng.dirichlet(np.ones(2), size=(2, 2, 2)), rng.random((2, 2, 2)), start=[0.4, 0.6])
    policy, encoder, draws = Policy(np.array([[0, 1], [1, 0]])), JointHistogram(world.shape), 6000
    simulated = TabularUsers(world, stream(2, 3, USERS), np.random.default_rng(0))
    for users, other in ((1, 0.9), (3, 0.8)):
        counts: dict[tuple, int] = {}
        for _ in range(draws):
            key = tuple(simulated.tally([encoder], Context(policy), users)[0])
            counts[key] = counts.get(key, 0) + 1
        assert not misfit(counts, exact_law(world, policy, users), draws)
        tilted = other * world.transitions + (1 - other) / 2
        wrong = from_arrays(tilted, world.means * other, start=[0.4, 0.6])
        assert misfit(counts, exact_law(wrong, policy, users), draws)


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

"""Encodings, their marginals, what can never be touched, and first visits: all against enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from discreet.base.errors import Unsupported
from discreet.base.policies import Mixture, Policy, StochasticPolicy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import (
    Context,
    by_successor,
    encode,
    encode_into,
    marginals_into,
    playable_rows,
    reward_bit,
)
from discreet.mechanisms.counts.first_visit import FirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.mechanisms.release import Statistics
from discreet.mechanisms.trajectories import Trajectories

ENCODERS = [JointHistogram, FirstVisit, ThreeTables, TwoTables]
NAMES = ("visits", "transitions", "rewards")


def combinations(*sizes):
    return [
        make(Shape(*sizes, homogeneous=homogeneous))
        for make, homogeneous in product(ENCODERS, (True, False))
        if homogeneous or make is not FirstVisit
    ]


def label(encoder):
    return f"{encoder.name}-{encoder.shape.horizon}-{encoder.shape.groups}"


def by_hand(shape, states, actions, bits, length, first_only):
    """Visits, transitions and rewards of one record, in plain Python."""
    visits = np.zeros((shape.groups, shape.states, shape.actions))
    rewards, transitions = np.zeros_like(visits), np.zeros((*visits.shape, shape.states))
    seen = set()
    for h in range(length):
        g, s, a = (0 if shape.homogeneous else h), states[h], actions[h]
        if first_only and (s, a) in seen:
            continue
        seen.add((s, a))
        visits[g, s, a] += 1
        rewards[g, s, a] += bits[h]
        if h + 1 < length:
            transitions[g, s, a, states[h + 1]] += 1
    return visits, transitions, rewards


@pytest.mark.parametrize("encoder", combinations(2, 2, 3), ids=label)
def test_statistics_of_every_record_are_those_counted_by_hand(all_records, encoder):
    records = all_records(encoder.shape, shortest=1)
    encoded = encode(encoder, records, stream(0, 0, USERS))
    first_only = isinstance(encoder, FirstVisit)
    for i, cells in enumerate(encoded):
        marginals = encoder.marginals(cells)
        expected = by_hand(
            encoder.shape, records.states[i], records.actions[i], records.rewards[i], records.lengths[i], first_only
        )
        for name, table in zip(NAMES, expected, strict=True):
            np.testing.assert_array_equal(marginals[name].values, table)


@pytest.mark.parametrize("encoder", combinations(3, 2, 4), ids=label)
def test_compiled_marginals_are_the_same_sums(encoder):
    """On arbitrary noisy cells, not only on those that a record can produce."""
    cells = np.random.default_rng(1).normal(size=encoder.size)
    rows = encoder.shape.groups * encoder.shape.states * encoder.shape.actions

    def tables():
        marginals = encoder.marginals(cells)
        return [by_successor(marginals[n].values) if n == "transitions" else marginals[n].values.ravel() for n in NAMES]

    if isinstance(encoder, ThreeTables):  # its statistics are views: writing to the cells is enough
        compiled = tables()
        cells += 1.0
    else:
        compiled = [np.zeros_like(table) for table in tables()]
    marginals_into(encoder.arrays(), cells, Statistics(*compiled, np.zeros(rows), np.zeros(rows), np.zeros(rows)))
    for table, expected in zip(compiled, tables(), strict=True):
        np.testing.assert_allclose(table, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("encoder", [*combinations(2, 2, 3), *combinations(2, 2, 1)], ids=label)
def test_each_statistic_sums_as_many_possible_cells_as_it_says(encoder):
    """Cell by cell: the statistics are linear, with coefficients 0 and 1, and their cells are counted exactly."""
    count = {name: np.zeros_like(s.values) for name, s in encoder.marginals(np.zeros(encoder.size)).items()}
    for cell in np.flatnonzero(encoder.possible()):
        unit = np.zeros(encoder.size)
        unit[cell] = 1.0
        for name, statistic in encoder.marginals(unit).items():
            assert set(np.unique(statistic.values)) <= {0.0, 1.0}
            count[name] += statistic.values
    for name, statistic in encoder.marginals(np.zeros(encoder.size)).items():
        stated = statistic.cells.reshape(-1, *(1,) * (count[name].ndim - 1))
        np.testing.assert_array_equal(count[name], np.broadcast_to(stated, count[name].shape))


@pytest.mark.parametrize("encoder", [*combinations(2, 2, 3), *combinations(2, 2, 1)], ids=label)
def test_possible_cells_are_exactly_those_that_some_record_touches(all_records, encoder):
    touched = encode(encoder, all_records(encoder.shape, shortest=1), stream(0, 0, USERS)).any(axis=0)
    np.testing.assert_array_equal(touched, encoder.possible())


@pytest.mark.parametrize("encoder", combinations(2, 3, 2), ids=label)
def test_rows_spread_to_their_own_cells(all_records, encoder):
    """A record touches exactly cells of rows that it visits."""
    records = all_records(encoder.shape)
    for cells in encode(encoder, records, stream(0, 0, USERS)):
        visited = encoder.marginals(cells)["visits"].values > 0
        assert not cells[~encoder.rows_to_cells(visited)].any()
        for row in np.argwhere(visited):
            others = visited.copy()
            others[tuple(row)] = False
            assert cells[~encoder.rows_to_cells(others)].any()


def policies(shape):
    rng = np.random.default_rng(3)
    a, b = (Policy(rng.integers(shape.actions, size=(shape.horizon, shape.states))) for _ in range(2))
    partial = rng.random((shape.horizon, shape.states, shape.actions)) * (rng.random(shape.actions) > 0.3)
    partial[..., 0] += 0.1
    partial[0, :, 1] = 0.0
    some = StochasticPolicy(partial / partial.sum(axis=2, keepdims=True))
    return [a, b, Mixture((a, b), np.array([0.5, 0.5])), uniform_policy(shape), some]


def follows(policy, states, actions):
    if isinstance(policy, Mixture):
        return any(follows(component, states, actions) for component in policy.components)
    if isinstance(policy, Policy):
        return all(policy.actions[h, s] == a for h, (s, a) in enumerate(zip(states, actions, strict=True)))
    return all(policy.probabilities[h, s, a] > 0 for h, (s, a) in enumerate(zip(states, actions, strict=True)))


@pytest.mark.parametrize("start", [None, 1])
@pytest.mark.parametrize("homogeneous", [True, False])
def test_playable_rows_are_exactly_those_that_records_under_the_policy_visit(all_records, homogeneous, start):
    shape = Shape(2, 3, 2, homogeneous=homogeneous, start=start)
    records = all_records(shape)
    encoder = JointHistogram(shape)
    encoded = encode(encoder, records, stream(0, 0, USERS))
    for policy in policies(shape):
        kept = [
            follows(policy, s, a) and (start is None or s[0] == start)
            for s, a in zip(records.states, records.actions, strict=True)
        ]
        visits = encoder.marginals(encoded[kept].sum(axis=0))["visits"].values
        np.testing.assert_array_equal(visits > 0, playable_rows(shape, policy))
        assert not encoded[kept].sum(axis=0)[~encoder.rows_to_cells(playable_rows(shape, policy))].any()


def test_first_visit_is_refused_unless_the_world_is_declared_homogeneous():
    with pytest.raises(Unsupported, match="time-homogeneous"):
        FirstVisit(Shape(2, 2, 2, homogeneous=False))


def test_every_user_has_first_visits_of_her_own():
    """The scratch space that remembers visits must not carry over from one user to the next."""
    encoder = FirstVisit(Shape(2, 1, 3, homogeneous=True))
    arrays, total = encoder.arrays(), np.zeros(encoder.size)
    for users in range(1, 4):
        encode_into(arrays, np.zeros(3, np.int64), np.zeros(3, np.int64), np.ones(3), 3, stream(0, 0, USERS), total)
        assert encoder.marginals(total)["visits"].values[0, 0, 0] == users


def test_rewards_outside_the_declared_range_are_clipped():
    state = stream(0, 0, USERS)
    for reward, bit in ((7.0, 1), (5.0, 1), (-9.0, 0), (1.0, 0), (np.inf, 1), (-np.inf, 0), (np.nan, 0)):
        assert {reward_bit(reward, 1.0, 4.0, state) for _ in range(50)} == {bit}
    shape = Shape(1, 1, 1, rewards=(1.0, 5.0))
    zero, one = np.zeros((1, 1), np.int64), np.ones(1, np.int64)
    wild = Trajectories(zero, zero, np.full((1, 1), 99.0), one)
    assert encode(ThreeTables(shape, rounded=False), wild, state)[0, -1] == 1.0


def test_rewards_are_scaled_to_the_declared_range():
    shape = Shape(1, 1, 1, rewards=(-2.0, 2.0))
    record = Trajectories.from_arrays([[0]], [[0]], [[1.0]], shape)
    assert encode(ThreeTables(shape, rounded=False), record, stream(0, 0, USERS))[0, -1] == 0.75


def test_context_is_plain_public_data():
    policy = Policy(np.zeros((2, 2), np.int64))
    assert Context(policy).policy is policy
    assert Context(policy).what is None


# First visits, exactly: all records of a tiny world with their probabilities.

P = np.array([[[0.3, 0.7], [0.9, 0.1]], [[0.5, 0.5], [0.2, 0.8]]])
R = np.array([[0.2, 0.6], [0.9, 0.5]])
START = np.array([0.6, 0.4])


def adaptive(h, history):
    """A policy that looks at everything that happened before: its actions depend on how often state 1 was seen."""
    share = 0.2 + 0.6 * (sum(s == 1 for s, _ in history) % 2)
    return np.array([share, 1 - share])


def stationary(h, history):
    return np.array([[0.8, 0.2], [0.4, 0.6]])[history[-1][0]]


def greedy(h, history):
    return np.eye(2)[[0, 1, 0][h]]


def probabilities(records, law):
    weights = []
    for states, actions, bits in zip(records.states, records.actions, records.rewards, strict=True):
        weight = START[states[0]]
        for h, (s, a) in enumerate(zip(states, actions, strict=True)):
            history = [*zip(states[:h], actions[:h], strict=True), (s, None)]
            weight *= law(h, history)[a] * (R[s, a] if bits[h] else 1 - R[s, a])
            if h + 1 < len(states):
                weight *= P[s, a, states[h + 1]]
        weights.append(weight)
    assert np.isclose(sum(weights), 1)
    return np.array(weights)


@pytest.mark.parametrize("law", [adaptive, stationary, greedy])
def test_first_visits_are_unbiased_under_any_policy(all_records, law):
    shape = Shape(2, 2, 3, homogeneous=True)
    records, encoder = all_records(shape), FirstVisit(Shape(2, 2, 3, homogeneous=True))
    mean = probabilities(records, law) @ encode(encoder, records, stream(0, 0, USERS))
    marginals = encoder.marginals(mean)
    counts = marginals["transitions"].values[0]
    assert counts.sum() > 0
    np.testing.assert_allclose(counts, P * counts.sum(axis=-1, keepdims=True), atol=1e-14)
    np.testing.assert_allclose(marginals["rewards"].values[0], R * marginals["visits"].values[0], atol=1e-14)


def ratio_bias(encoder, records, weights, users):
    """The largest |E[N(s,a,s') / N(s,a) | N(s,a) > 0] - P(s'|s,a)| over a block of ``users`` users, exactly."""
    table = encode(encoder, records, stream(0, 0, USERS))
    worst = 0.0
    for s, a in product(range(2), range(2)):
        one: dict[tuple[float, ...], float] = {}
        for cells, weight in zip(table, weights, strict=True):
            key = tuple(encoder.marginals(cells)["transitions"].values[0, s, a])
            one[key] = one.get(key, 0.0) + weight
        block = {(0.0, 0.0): 1.0}
        for _ in range(users):
            longer: dict[tuple[float, ...], float] = {}
            for (x, p), (y, q) in product(block.items(), one.items()):
                key = (x[0] + y[0], x[1] + y[1])
                longer[key] = longer.get(key, 0.0) + p * q
            block = longer
        seen = {x: p for x, p in block.items() if sum(x) > 0}
        if seen:
            mean = sum(p * np.array(x) / sum(x) for x, p in seen.items()) / sum(seen.values())
            worst = max(worst, float(np.abs(mean - P[s, a]).max()))
    return worst


@pytest.mark.parametrize("law", [adaptive, stationary])
def test_ratios_of_first_visits_are_exactly_unbiased_within_a_block_and_those_of_all_visits_are_not(all_records, law):
    shape = Shape(2, 2, 3, homogeneous=True)
    records = all_records(shape)
    weights = probabilities(records, law)
    for users in (1, 2, 3):
        assert ratio_bias(FirstVisit(shape), records, weights, users) < 1e-14
        assert ratio_bias(JointHistogram(shape), records, weights, users) > 1e-3

"""Values in the owner's units: whatever range was declared, an end is worth zero and values are sums of her rewards.

A small world whose episodes may end early is given as exact counts, without noise. All of its policies are tried by
hand, in the owner's units, and the learners must find the best one and state its value.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

import discreet.data
import discreet.offline
from discreet.base.policies import Policy
from discreet.base.shape import Shape
from discreet.learners.apvi import APVI
from discreet.learners.base import Problem
from discreet.mechanisms.counts.joint_histogram import JointCounts, as_counted
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.problems.linear.learners import PEVI, VAPVI
from discreet.recipes.targets import NoPrivacy
from discreet.simulation.data_sets import learn, privatizer_for
from discreet.worlds.planning.reward_units import end_value, in_owner_units, value_limits

S, A, H, USERS = 2, 2, 3, 10_000_000
RANGES = [(0.0, 1.0), (-1.0, 1.0), (-3.0, 0.0), (-5.0, -1.0), (1.0, 5.0)]
LEVELS = 17


class ExactUsers:
    """Users who behave exactly as the law says: at every step as many in each cell as expected."""

    def __init__(self, following: np.ndarray, rewards: np.ndarray, limits: tuple[float, float]) -> None:
        self.following, self.share = following, (rewards - limits[0]) / (limits[1] - limits[0])

    def tally(self, encoders, context, users):
        return [as_counted(encoder).from_joint(self._joint(as_counted(encoder).reward_levels)) for encoder in encoders]

    def _joint(self, levels: int) -> JointCounts:
        count = np.zeros((H, S, A, S + 1, levels))
        below = np.minimum(np.floor(self.share * (levels - 1)), levels - 2).astype(int)
        above = self.share * (levels - 1) - below
        for cell in np.ndindex(H, S, A, S + 1):
            many = USERS * self.following[cell]
            count[cell][below[cell[:3]]] += many * (1 - above[cell[:3]])
            count[cell][below[cell[:3]] + 1] += many * above[cell[:3]]
        keys = np.flatnonzero(count)
        return JointCounts(keys, np.rint(count.reshape(-1)[keys]).astype(np.int64), levels)


def world(limits: tuple[float, float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Where steps lead, the end last, and rewards within the limits; the last step always ends."""
    rng = np.random.default_rng(seed)
    following = rng.dirichlet(np.full(S + 1, 0.7), (H, S, A))
    following[-1] = [0] * S + [1]
    return following, rng.uniform(*limits, (H, S, A))


def by_hand(following: np.ndarray, rewards: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Expected sums of rewards until the episode ends, step by step: an end is worth nothing."""
    values = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        for s in range(S):
            a = actions[h, s]
            values[h, s] = rewards[h, s, a] + following[h, s, a, :S] @ values[h + 1]
    return values


def every_policy():
    for actions in np.ndindex(*(A,) * (H * S)):
        yield np.array(actions).reshape(H, S)


def learned(learner, limits, seed):
    following, rewards = world(limits, seed)
    shape = Shape(S, A, H, rewards=limits)
    privatizer = privatizer_for(learner, NoPrivacy(), shape, USERS)
    people, noise = ExactUsers(following, rewards, limits), SimulatedNoise(np.random.default_rng(0))
    state, _ = learn(learner, privatizer.open(people, noise, USERS), Problem(shape, USERS), np.zeros(1, np.uint64))
    return learner.policy(state), in_owner_units(shape, state.values), following, rewards


ONE_HOT = np.eye(S * A).reshape(S, A, S * A)
LEARNERS = {
    "apvi": APVI(penalty_scale=0.0, ends=True),
    "bernstein": APVI(penalty_scale=0.0, ends=True, penalty="bernstein"),
    "pevi": PEVI(ONE_HOT, beta=0.0, ridge=1e-6, noise_scale=0.0, ends=True),
    "vapvi": VAPVI(ONE_HOT, coefficient=0.0, ridge=1e-6, noise_scale=0.0, variance=True, ends=True),
}


@pytest.mark.parametrize("limits", RANGES, ids=str)
@pytest.mark.parametrize("name", LEARNERS)
def test_the_best_of_all_policies_is_found_with_its_value(name, limits):
    for seed in range(3):
        policy, values, following, rewards = learned(LEARNERS[name], limits, seed)
        best = max((by_hand(following, rewards, actions) for actions in every_policy()), key=lambda v: v[0].sum())
        np.testing.assert_allclose(values, best, atol=1e-4 * (limits[1] - limits[0]))
        np.testing.assert_allclose(by_hand(following, rewards, policy.actions), best, atol=1e-6)


def test_without_the_correction_another_policy_wins():
    """The wrong-law twin: with an end worth the lower end of the range, some worlds have another best policy."""
    differ = 0
    for seed in range(3):
        following, rewards = world((-1.0, 1.0), seed)
        right, wrong = (
            max(every_policy(), key=lambda actions: by_hand(following, rewards + shift, actions)[0].sum())
            for shift in (0.0, 1.0)
        )
        differ += (right != wrong).any()
    assert differ > 0


@pytest.mark.parametrize("limits", RANGES, ids=str)
def test_pessimistic_values_are_lower_bounds_in_the_owners_units(limits):
    policy, values, following, rewards = learned(APVI(penalty="tight", ends=True), limits, 5)
    truth = by_hand(following, rewards, policy.actions)
    assert (values <= truth + 1e-9).all()
    assert (values[0] > truth[0] - 0.1 * (limits[1] - limits[0])).all()  # ten million users: not by much


@pytest.mark.parametrize("limits", RANGES, ids=str)
def test_limits_are_those_of_all_episodes(limits):
    """By enumeration: the extremes of a sum of rewards over 1 .. n steps, as a share."""
    shape, low, high = Shape(S, A, H, rewards=limits), *limits
    for left in (1, 2, 3):
        sums = [n * r for n in range(1, left + 1) for r in limits]
        lowest, highest = value_limits(shape, left, ends=True)
        assert left * low + (high - low) * lowest == pytest.approx(min(sums))
        assert left * low + (high - low) * highest == pytest.approx(max(sums))
        assert left * low + (high - low) * end_value(shape, left) == pytest.approx(0)
        assert value_limits(shape, left, ends=False) == (0, left)


@pytest.fixture(scope="module")
def stays(tmp_path_factory):
    """Action 0 leaves at once with +1, action 1 stays for ten steps and gets nothing: leaving is worth 1, staying 0."""
    file = tmp_path_factory.mktemp("stays") / "stays.parquet"
    duckdb.sql(
        "COPY (SELECT u, t, 0 AS s, 0 AS a, 1.0 AS r FROM range(0, 20000, 2) x(u), range(1) y(t) UNION ALL "
        f"SELECT u, t, 0, 1, 0.0 FROM range(1, 20000, 2) x(u), range(10) y(t)) TO '{file}' (FORMAT parquet)"
    )
    return file


STAYS = {"user": "u", "step": "t", "state": "s", "action": "a", "reward": "r", "states": 1, "actions": 2, "horizon": 10}


def first_action(fit) -> int:
    """What is done at the first step, where the policy draws nothing."""
    if isinstance(fit.policy, Policy):
        return int(fit.policy.actions[0, 0])
    assert fit.policy.probabilities[0, 0].max() == 1
    return int(fit.policy.probabilities[0, 0].argmax())


@pytest.mark.parametrize("homogeneous", [False, True], ids=["per-step", "pooled"])
@pytest.mark.parametrize("limits", [(0, 1), (-1, 1), (-10, 2)], ids=str)
def test_the_declared_range_is_a_matter_of_units(stays, limits, homogeneous):
    table = discreet.data.read(stays, rewards=limits, homogeneous=homogeneous, **STAYS)
    fit = discreet.offline.train(table, epsilon=50.0, delta=1e-6)
    if not homogeneous:  # with pooled steps leaving later is worth as much
        assert first_action(fit) == 0
    assert fit.bound is not None
    assert 0.5 < fit.bound[0, 0] <= 1 + 1e-6
    assert 0.9 < fit.values[0, 0] < 1.1  # 20,000 users, hardly any noise
    assert fit.facts["values"]["bound_by_first_state"] == [fit.bound[0, 0]] * 2
    assert fit.facts["values"]["estimate_by_first_state"] == [fit.values[0, 0]] * 2


def test_a_learner_given_as_an_object_is_told_of_ends_too(stays):
    table = discreet.data.read(stays, rewards=(-1, 1), **STAYS)
    fit = discreet.offline.train(table, APVI(), epsilon=50.0, delta=1e-6)
    assert fit.facts["learner"]["ends"] is True
    assert first_action(fit) == 0

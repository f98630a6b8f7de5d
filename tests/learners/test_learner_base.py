"""The bases of learners: a plan from two kernels, a kernel of one's own, and what is left to write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from discreet.base.policies import Policy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, stream
from discreet.base.types import Floats
from discreet.learners.base import (
    AsksOnce,
    CompiledLearner,
    HoldsPolicy,
    PlansBackwards,
    Problem,
    Replans,
    fill_q,
    plan_into,
    prepare,
)
from discreet.mechanisms.release import Estimate, Release, Request
from discreet.privacy.guarantee import nothing
from discreet.worlds.planning.backward_induction import best_policy, rows_of_step, sum_over_successors

S, A, H, FLOOR = 3, 2, 4, 0.25
NEEDS = frozenset({"visits", "transitions", "rewards"})


class Rows(NamedTuple):
    groups: int
    horizon: Floats  # (1,) what prepare was told
    q: Floats
    table: Floats


@dataclass(frozen=True)
class AsReleased(PlansBackwards):
    """Takes released rewards and transitions for the truth."""

    name: ClassVar[str] = "as-released"
    needs: ClassVar[frozenset[str]] = NEEDS

    def arrays(self, problem):
        q = np.zeros(S * A)
        return Rows(problem.shape.groups, np.zeros(1), q, q.reshape(S, A))


@prepare.implement(Rows)
def _prepare(learner, statistics, coins, horizon):
    learner.horizon[0] = horizon


@fill_q.implement(Rows)
def _fill_q(learner, statistics, following, h, left):
    here = rows_of_step(learner.groups, h, learner.q.shape[0])
    sum_over_successors(statistics.transitions, here, following, learner.q)
    rewards = statistics.rewards[here]
    for i in range(learner.q.shape[0]):
        learner.q[i] += rewards[i] - (left + h - learner.horizon[0])  # nothing, if both were told the truth
    return FLOOR, np.inf


class Nothing(NamedTuple):
    groups: int


@plan_into.implement(Nothing)
def _always_the_last(learner, statistics, coins, values, actions):
    values[:] = 0.0
    actions[:] = A - 1


@dataclass(frozen=True)
class Stubborn(AsReleased):
    def arrays(self, problem):
        return Nothing(1)


def release(groups: int) -> Release:
    rng = np.random.default_rng(groups)
    tables = {
        "visits": np.ones((groups, S, A)),
        "transitions": rng.dirichlet(np.ones(S), size=(groups, S, A)),
        "rewards": rng.random((groups, S, A)),
    }
    estimates = {name: Estimate(table, np.zeros((groups, S, A))) for name, table in tables.items()}
    return Release(estimates, 7, nothing(), lambda cells, tail: np.zeros((groups, S, A)))


@pytest.mark.parametrize("groups", [1, H])
def test_two_kernels_are_a_plan(groups):
    problem, told = Problem(Shape(S, A, H, homogeneous=groups == 1), 10), release(groups)
    learner = AsReleased()
    state = learner.update(learner.init(problem, stream(0, 0, COINS)), told)
    policy, values = best_policy(told["transitions"].values, told["rewards"].values, H)
    assert learner.policy(state) == policy
    assert values[:H].min() > FLOOR  # the range does not bind here
    np.testing.assert_allclose(state.values, values)
    assert learner.ask(state) == Request(policy)
    assert isinstance(learner, CompiledLearner)


def test_values_are_clipped_to_the_range_and_ties_are_broken_by_a_copy_of_the_coins():
    coins = stream(3, 0, COINS)
    before = coins.copy()
    state = AsReleased().init(Problem(Shape(S, A, H), 10), coins)
    np.testing.assert_array_equal(state.values[:H], FLOOR)  # of zero counts
    np.testing.assert_array_equal(state.values[H], 0.0)
    assert set(state.policy.actions.reshape(-1)) == {0, 1}
    np.testing.assert_array_equal(coins, before)
    assert (state.coins != before).any()


def test_a_kernel_of_ones_own_takes_the_place_of_the_induction():
    state = Stubborn().update(Stubborn().init(Problem(Shape(S, A, H), 10), stream(0, 0, COINS)), release(1))
    assert state.policy == Policy(np.full((H, S), A - 1))


def test_a_base_says_what_is_left_to_write():
    with pytest.raises(TypeError, match="plan"):
        Replans()
    with pytest.raises(TypeError, match="arrays"):
        PlansBackwards()
    assert not isinstance(HoldsPolicy(), CompiledLearner)
    assert AsksOnce().questions(Problem(Shape(S, A, H), 10)) == 1
    assert AsksOnce().recipe_options(Problem(Shape(S, A, H), 10)) == {}

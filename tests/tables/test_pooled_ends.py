"""Episodes that end early, with steps pooled: values by brute force, in the owner's units, whatever the range.

A world in which what follows does not depend on the step: every trajectory is enumerated with its probability. Of the
rows of a user the first for each state and action counts, those at the last step of the horizon do not, because
nothing tells an end there from the horizon. What is learned from exactly these counts must be the best policy with its
value, the same as from one table per step, and both must agree with the values of all policies, tried one by one.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import discreet
from discreet.base.shape import Shape
from discreet.learners.apvi import APVI
from discreet.learners.base import Problem
from discreet.mechanisms.counts.joint_histogram import JointCounts, as_counted
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.recipes.targets import NoPrivacy
from discreet.simulation.data_sets import learn, privatizer_for
from discreet.worlds.planning.reward_units import in_owner_units

S, A, H = 2, 2, 3
START = np.array([0.6, 0.4])
BEHAVIOUR = np.array([[0.7, 0.3], [0.4, 0.6]])
RANGES = [(0.0, 1.0), (-1.0, 1.0), (-3.0, -0.5), (1.0, 4.0)]
MANY = 10**8


def world(limits, seed):
    """Where a step leads (S, A, S + 1), the end last, and rewards (S, A)."""
    rng = np.random.default_rng([6, seed])
    return rng.dirichlet(np.full(S + 1, 0.7), (S, A)), rng.uniform(*limits, (S, A))


def by_hand(following, rewards, actions):
    """Expected sums of rewards up to the end of the episode, under actions (H, S)."""
    values = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        for s in range(S):
            a = actions[h, s]
            values[h, s] = rewards[s, a] + following[s, a, :S] @ values[h + 1]
    return values


def best_by_hand(following, rewards):
    every = (np.array(actions).reshape(H, S) for actions in itertools.product(range(A), repeat=H * S))
    return max((by_hand(following, rewards, actions) for actions in every), key=lambda v: v[0].sum())


def trajectories(following):
    """Every trajectory as rows (step, state, action, successor or S for an end), with its probability."""
    waiting = [([], s, START[s]) for s in range(S)]
    while waiting:
        rows, s, weight = waiting.pop()
        for a in range(A):
            for t in range(S + 1):
                chance = weight * BEHAVIOUR[s, a] * following[s, a, t]
                if len(rows) == H - 1:  # after the last step of the horizon nothing is seen: an end, as tables have it
                    if t == S:
                        yield [*rows, (H - 1, s, a, S)], weight * BEHAVIOUR[s, a]
                elif t == S:
                    yield [*rows, (len(rows), s, a, S)], chance
                else:
                    waiting.append(([*rows, (len(rows), s, a, t)], t, chance))


class Expected:
    """Users as often in every cell as expected, counted by the rules of tables."""

    def __init__(self, following, rewards, limits, *, pooled, last=False):
        self.share = (rewards - limits[0]) / (limits[1] - limits[0])
        self.count = np.zeros((1 if pooled else H, S, A, S + 1))
        total = 0.0
        for rows, weight in trajectories(following):
            total += weight
            seen = set()
            for h, s, a, t in rows:
                if pooled and ((s, a) in seen or (h == H - 1 and not last)):
                    continue
                seen.add((s, a))
                self.count[0 if pooled else h, s, a, t] += weight
        assert total == pytest.approx(1)

    def tally(self, encoders, context, users):
        ones = self.count * self.share[None, :, :, None]
        cells = np.rint(MANY * np.stack([self.count - ones, ones], axis=-1)).astype(np.int64).reshape(-1)
        keys = np.flatnonzero(cells)
        return [as_counted(encoder).from_joint(JointCounts(keys, cells[keys], 2)) for encoder in encoders]


def learned(following, rewards, limits, *, pooled, last=False):
    shape, learner = Shape(S, A, H, rewards=limits, homogeneous=pooled), APVI(penalty_scale=0.0, ends=True)
    people = Expected(following, rewards, limits, pooled=pooled, last=last)
    privatizer = privatizer_for(learner, NoPrivacy(), shape, MANY)
    session = privatizer.open(people, SimulatedNoise(np.random.default_rng(0)), MANY)
    state, _ = learn(learner, session, Problem(shape, MANY), np.zeros(1, np.uint64))
    return in_owner_units(shape, state.values)


@pytest.mark.parametrize("limits", RANGES, ids=str)
def test_pooled_and_separate_steps_find_the_best_of_all_policies(limits):
    for seed in range(3):
        following, rewards = world(limits, seed)
        best = best_by_hand(following, rewards)
        for pooled in (False, True):
            values = learned(following, rewards, limits, pooled=pooled)
            np.testing.assert_allclose(values, best, atol=1e-4 * (limits[1] - limits[0]))


@pytest.mark.parametrize("limits", RANGES[:2], ids=str)
def test_counting_the_horizon_as_an_end_would_be_wrong(limits):
    """The wrong-law twin: with rows of the last step among the others, ends look more frequent than they are."""
    following, rewards = world(limits, 0)
    best = best_by_hand(following, rewards)
    wrong = learned(following, rewards, limits, pooled=True, last=True)
    assert np.abs(wrong - best).max() > 0.02 * (limits[1] - limits[0])


def table(following, rewards, users, seed):
    """The rows of simulated users, as a hospital would have them: no row after an end."""
    rng = np.random.default_rng(seed)
    out, state = [], rng.choice(S, users, p=START)
    who = np.arange(users)
    for h in range(H):
        action = (rng.random(len(who)) < BEHAVIOUR[state, 1]).astype(int)
        out.append(pd.DataFrame({"u": who, "t": h, "s": state, "a": action, "r": rewards[state, action]}))
        edges = following[state, action].cumsum(axis=1)
        successor = (rng.random(len(who))[:, None] > edges).sum(axis=1).clip(max=S)
        who, state = who[successor < S], successor[successor < S]
    return pd.concat(out)


def test_a_real_table_gives_these_values_too():
    """Counted by the engine and released at a large epsilon: pooled, separate and exact values agree."""
    limits = (-1.0, 1.0)
    following, rewards = world(limits, 1)
    best = best_by_hand(following, rewards)
    rows = table(following, rewards, 60_000, 3)
    for pooled in (False, True):
        data = discreet.data.read(
            rows, user="u", step="t", state="s", action="a", reward="r", states=S, actions=A, horizon=H,
            rewards=limits, homogeneous=pooled,
        )  # fmt: skip
        fit = discreet.offline.train(data, epsilon=100.0, delta=1e-6)
        np.testing.assert_allclose(fit.values, best, atol=0.05)  # ten standard errors of the rarest row
        assert (fit.bound <= best + 1e-9).all()
        assert (fit.bound[0] > best[0] - 0.4).all()

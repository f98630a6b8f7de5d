"""DP-UCBVI's printed bonus: the plan is that of the formulas, and at the usual sizes it is above every value."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.shape import Shape
from discreet.base.streams import COINS, stream
from discreet.learners.base import Problem
from discreet.learners.dp_ucbvi import DPUCBVI
from discreet.mechanisms.release import Estimate, Release
from discreet.privacy.guarantee import nothing
from discreet.worlds.planning.count_projection import project_counts

S, A, H, K = 3, 2, 4, 10**40  # so many episodes that a bonus need not exceed H: counts are as large


def release_of(groups: int, seed: int, noise: float) -> Release:
    """Counts so large that bonuses are between zero and H, with noise as it is stated."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(S), size=(groups, S, A))
    visits = 10.0 ** rng.uniform(9, 11, size=(groups, S, A))
    moves = visits[..., None] * law + noise * rng.standard_normal((groups, S, A, S))
    seen = visits + noise * rng.standard_normal(visits.shape)
    rewards = visits * rng.uniform(size=visits.shape)
    estimates = {
        "visits": Estimate(seen, np.full(visits.shape, noise**2)),
        "transitions": Estimate(moves, np.full(visits.shape, noise**2)),
        "rewards": Estimate(rewards, np.full(visits.shape, noise**2)),
    }
    return Release(estimates, 10**6, nothing(), lambda cells, failure: np.zeros((groups, S, A)))


def reference(release: Release, groups: int, beta: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Q and V line by line, from the formulas of the module."""
    noise = math.sqrt(max(float(e.variance.max()) for e in (release["visits"], release["transitions"])))
    E = 4 * math.sqrt(2 * math.log(2 * (S + 2) * groups * S * A * K / beta)) * noise
    iota = math.log(30 * H * S * A * H * K / beta)
    counts = project_counts(release["transitions"].values, release["visits"].values, E / 4) + E / (2 * S)
    N = counts.sum(axis=-1)
    P, r = counts / N[..., None], np.clip(release["rewards"].values / N, 0, 1)
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        g, later = (h, min(h + 1, H - 1)) if groups > 1 else (0, 0)
        following = N[later].sum(axis=1)
        missing = H**3 * S * A * iota**2 / following + H**4 * S**4 * A**2 * E**2 * iota**4 / following**2
        missing = np.minimum(H**2, 1000**2 * (missing + H**6 * S**4 * A**2 * iota**4 / following**2))
        mean = P[g] @ V[h + 1]
        variance = np.maximum(0, P[g] @ V[h + 1] ** 2 - mean**2)
        b = 2 * np.sqrt(variance * iota / N[g]) + np.sqrt(2 * iota / N[g]) + 20 * H * S * E * iota / N[g]
        if h + 1 < H:
            b = b + 4 * np.sqrt(iota * (P[g] @ missing) / N[g])
        Q[h] = np.minimum(H, r[g] + mean + b)
        V[h] = Q[h].max(axis=1)
    return Q, V


@pytest.mark.parametrize("noise", [0.0, 200.0], ids=["clear", "noisy"])
@pytest.mark.parametrize("groups", [1, H], ids=["pooled", "per-step"])
def test_the_plan_is_that_of_the_formulas(groups, noise):
    learner, problem = DPUCBVI(), Problem(Shape(S, A, H, homogeneous=groups == 1), K)
    for seed in range(3):
        release = release_of(groups, seed, noise)
        state = learner.update(learner.init(problem, stream(seed, 0, COINS)), release)
        Q, V = reference(release, groups)
        assert np.allclose(state.values, V, rtol=0, atol=1e-5)
        chosen = np.take_along_axis(Q, learner.policy(state).actions[:, :, None], axis=2)[:, :, 0]
        assert np.allclose(chosen, Q.max(axis=2), rtol=0, atol=1e-5)
        assert Q.max() < H, "the cut would hide the formulas"
        assert (Q.max(axis=2) > Q.min(axis=2) + 1e-3).any()


def test_who_knows_nothing_expects_everything():
    learner, problem = DPUCBVI(), Problem(Shape(S, A, H, homogeneous=False), 100)
    assert (learner.init(problem, stream(0, 0, COINS)).values[:-1] == H).all()


def test_under_privacy_every_value_is_the_largest_at_usual_sizes():
    """So that it plays uniformly: RiverSwim-4 after 20,000 users, at (1, 1e-5), which is kinder than pure epsilon."""
    world = discreet.worlds.river_swim(states=4, horizon=6).with_time(homogeneous=False)
    target, learner = discreet.Central(1.0, 1e-5), DPUCBVI()
    done = discreet.simulate(world, learner, target, episodes=20_000, runs=1, seed=0, keep_release=True)
    problem = Problem(world.shape, 20_000)
    state = learner.update(learner.init(problem, stream(0, 0, COINS)), done.releases[0])
    assert (state.values[:-1] == 6).all()


def test_a_failure_probability_is_one():
    with pytest.raises(InvalidInput, match="failure_probability"):
        DPUCBVI(failure_probability=1.5)

"""UCBVI against a slow plain version of its formulas, fair ties, and knobs that never touch privacy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import discreet
from discreet.errors import InvalidInput
from discreet.learners import UCBVI
from discreet.learners.base import Problem
from discreet.recipes.registry import build
from discreet.release import Estimate, Release
from discreet.streams import COINS, stream

S, A, H, EPISODES = 4, 3, 5, 500


def problem(homogeneous: bool, horizon: int = H) -> Problem:
    return Problem(discreet.Shape(S, A, horizon, homogeneous=homogeneous), EPISODES)


def random_release(groups: int, seed: int, noisy: bool) -> Release:
    """Counts as they come out of a mechanism: fractional, partly negative, some rows empty."""
    rng = np.random.default_rng(seed)
    rows = (groups, S, A)
    transitions = rng.gamma(1.0, 8.0, size=(*rows, S)) * (rng.random((*rows, S)) < 0.7)
    if noisy:
        transitions += rng.normal(0, 4, size=transitions.shape)
    empty = rng.random(rows) < 0.15
    transitions[empty] = 0.0
    visits = transitions.sum(axis=-1) + rng.normal(0, 3, size=rows) * noisy
    rewards = np.where(empty, 0.0, rng.random(rows) * visits)
    variance = (rng.uniform(1, 9, size=rows) if noisy else np.zeros(rows)) * np.ones(rows)
    return Release(
        {
            "visits": Estimate(visits, 2 * variance),
            "transitions": Estimate(transitions, variance),
            "rewards": Estimate(rewards, variance / 2),
        },
        40,
        build(discreet.NoPrivacy(), problem(True).shape, EPISODES).guarantee,
        lambda n, p: np.zeros(rows),
    )


def reference(learner: UCBVI, release: Release, horizon: int):
    """The formulas of the module, one row at a time. Returns all Q and V."""
    visits, transitions, rewards = (release[name].values for name in ("visits", "transitions", "rewards"))
    groups = len(visits)
    log_term = math.log(S * A * EPISODES / learner.failure_probability)
    Q, V = np.zeros((horizon, S, A)), np.zeros((horizon + 1, S))
    for h in reversed(range(horizon)):
        left, g = horizon - h, (h if groups > 1 else 0)
        for s in range(S):
            for a in range(A):
                n = max(1.0, visits[g, s, a])
                sd = math.sqrt(release["transitions"].variance[g, s, a])
                weights = [max(0.0, count - learner.threshold * sd) for count in transitions[g, s, a]]
                total = sum(weights)
                P = [w / total for w in weights] if total > 0 else [0.0] * S
                r = min(1.0, max(0.0, rewards[g, s, a] / n))
                b = learner.noise_scale * math.sqrt(release["visits"].variance[g, s, a]) / n
                if learner.bonus == "hoeffding":
                    b += learner.bonus_scale * math.sqrt(log_term / n)
                last_only = horizon == 1 or (groups > 1 and g == groups - 1)
                known = visits[g, s, a] >= 1 if last_only else total > 0
                b = min(1.0, b) if known else 1.0
                mean = sum(p * v for p, v in zip(P, V[h + 1], strict=True))
                q = r + mean + left * b
                if learner.bonus == "bernstein":
                    spread = sum(p * (v - mean) ** 2 for p, v in zip(P, V[h + 1], strict=True)) + r * (1 - r)
                    width = math.sqrt(2 * spread * log_term / n) + 7 * left * log_term / (3 * n)
                    q += learner.bonus_scale * min(left, width)
                Q[h, s, a] = q
            V[h, s] = min(left, max(Q[h, s]))
    return Q, V


LEARNERS = [
    UCBVI(),
    UCBVI(bonus="bernstein"),
    UCBVI(bonus="bernstein", bonus_scale=0.4, noise_scale=1.0),
    UCBVI(bonus_scale=0.3, noise_scale=0.7, threshold=0.5, failure_probability=0.01),
    UCBVI(noise_scale=0.0, threshold=0.0),
]


@pytest.mark.parametrize("noisy", [False, True], ids=["clear", "noisy"])
@pytest.mark.parametrize("homogeneous", [True, False], ids=["pooled", "per-step"])
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_the_plan_is_that_of_the_formulas(learner, homogeneous, noisy):
    for seed in range(4):
        release = random_release(1 if homogeneous else H, seed, noisy)
        state = learner.update(learner.init(problem(homogeneous), stream(seed, 0, COINS)), release)
        Q, V = reference(learner, release, H)
        np.testing.assert_allclose(state.values, V, rtol=1e-9, atol=1e-9)
        chosen = np.take_along_axis(Q, learner.policy(state).actions[:, :, None], axis=2)[:, :, 0]
        np.testing.assert_allclose(chosen, Q.max(axis=2), rtol=1e-9)
        assert (Q.max(axis=2) > Q.min(axis=2) + 1e-6).any()


def test_one_step_needs_no_successors():
    learner = UCBVI()
    release = random_release(1, 3, noisy=False)
    nothing_follows = {**release.statistics, "transitions": Estimate(np.zeros((1, S, A, S)), np.zeros((1, S, A)))}
    release = replace(release, statistics=nothing_follows)
    state = learner.update(learner.init(problem(True, horizon=1), stream(0, 0, COINS)), release)
    np.testing.assert_allclose(state.values, reference(learner, release, 1)[1], rtol=1e-9)
    assert (state.values[0] < 1).any()


def test_before_any_release_everything_is_as_good_as_it_can_be():
    state = UCBVI().init(problem(True), stream(0, 0, COINS))
    np.testing.assert_array_equal(state.values[:, 0], np.arange(H, -1, -1))


def tie_counts(policies) -> np.ndarray:
    """How often each action was chosen, at every step and state."""
    table = np.stack([policy.actions for policy in policies])
    return np.stack([(table == a).sum(axis=0) for a in range(A)], axis=-1)


def unfair(counts: np.ndarray) -> bool:
    """Chi-square at 1e-6 over all steps and states together: that is the false-alarm rate; the seeds are fixed."""
    expected = counts.sum(axis=-1, keepdims=True) / counts.shape[-1]
    statistic = ((counts - expected) ** 2 / expected).sum()
    return bool(statistic > stats.chi2.isf(1e-6, counts.shape[0] * counts.shape[1] * (counts.shape[-1] - 1)))


def test_exact_ties_are_broken_fairly():
    learner = UCBVI()
    fair = tie_counts([learner.init(problem(True), stream(seed, 0, COINS)).policy for seed in range(600)])
    assert not unfair(fair)
    # The twin: the reservoir that keeps the newest maximum with probability 1/2, whatever their number.
    rng = np.random.default_rng(0)
    coins = rng.random((600, H, S, 2)) < 0.5
    wrong = np.where(coins[..., 1], 2, np.where(coins[..., 0], 1, 0))
    assert unfair(np.stack([(wrong == a).sum(axis=0) for a in range(A)], axis=-1))


def test_only_the_best_take_part_in_a_tie():
    release = random_release(1, 0, noisy=False)
    tied = {name: Estimate(e.values.copy(), e.variance) for name, e in release.statistics.items()}
    for estimate in tied.values():
        estimate.values[0, :, 1] = estimate.values[0, :, 2]  # actions 1 and 2 look the same
        estimate.values[0, :, 0] = 1e6  # well known, and worth nothing
    tied["rewards"].values[0, :, 0] = 0.0
    tied["rewards"].values[0, :, 1:] = tied["visits"].values[0, :, 1:]
    release = replace(release, statistics=tied)
    learner = UCBVI(bonus_scale=1e-6)
    last = [
        learner.update(learner.init(problem(True), stream(seed, 0, COINS)), release).policy.actions[H - 1, 0]
        for seed in range(300)
    ]
    counts = np.bincount(last, minlength=3)
    assert counts[0] == 0
    assert stats.binomtest(int(counts[1]), 300).pvalue > 1e-6


def test_updates_are_pure():
    learner = UCBVI()
    first = learner.init(problem(False), stream(1, 0, COINS))
    coins, values, actions = first.coins.copy(), first.values.copy(), first.policy.actions.copy()
    release = random_release(H, 2, noisy=True)
    kept = {name: estimate.values.copy() for name, estimate in release.statistics.items()}
    one, two = learner.update(first, release), learner.update(first, release)
    np.testing.assert_array_equal(first.coins, coins)
    np.testing.assert_array_equal(first.values, values)
    np.testing.assert_array_equal(first.policy.actions, actions)
    assert one.policy == two.policy
    np.testing.assert_array_equal(one.coins, two.coins)
    for name, table in kept.items():
        np.testing.assert_array_equal(release[name].values, table)


def test_the_callers_coins_are_left_alone():
    coins = stream(1, 0, COINS)
    UCBVI().init(problem(True), coins)
    np.testing.assert_array_equal(coins, stream(1, 0, COINS))


def test_a_learner_asks_for_the_policy_it_would_deploy():
    learner = UCBVI()
    state = learner.init(problem(True), stream(0, 0, COINS))
    request = learner.ask(state)
    assert request.policy is learner.policy(state)
    assert request.users is None
    assert request.what is None


def test_knobs_never_change_the_guarantee():
    world = discreet.worlds.river_swim(states=3, horizon=3)
    guarantees = [
        discreet.simulate(world, learner, discreet.Central(1.0, 1e-6), episodes=5, seed=0).guarantee
        for learner in LEARNERS
    ]
    assert all(guarantee == guarantees[0] for guarantee in guarantees)


@pytest.mark.parametrize(
    "wrong",
    [
        {"bonus": "hoefding"},
        {"bonus_scale": 0.0},
        {"noise_scale": -1.0},
        {"threshold": float("nan")},
        {"failure_probability": 1.0},
    ],
)
def test_knobs_outside_their_domain_are_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        UCBVI(**wrong)

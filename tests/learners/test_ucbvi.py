"""UCBVI against a slow plain version of its formulas, what it recommends, fair ties, knobs that never touch privacy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import rel_entr

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.streams import COINS, stream
from discreet.learners import UCBVI
from discreet.learners.base import Problem, plan_backwards
from discreet.learners.ucbvi import recommended
from discreet.mechanisms.release import Estimate, Release
from discreet.recipes.registry import build

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
    variance = np.zeros(rows)
    if noisy:  # one row in five was asked seldom
        variance = rng.uniform(1, 9, size=rows) * np.where(rng.random(rows) < 0.2, 0.01, 1.0)
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


def kl_bound(r: float, divergence: float) -> float:
    """The largest mean q whose divergence from r is at most this: the root that SciPy finds."""

    def excess(q: float) -> float:
        return rel_entr(r, q) + rel_entr(1 - r, 1 - q) - divergence

    return brentq(excess, r, 1 - 1e-15) if r < 1 - 1e-15 and excess(1 - 1e-15) > 0 else 1.0


def reference(learner: UCBVI, release: Release, horizon: int, unseen: float = 1.0, doubt: float = 0.0, floor=True):
    """The formulas of the module, one row and one number at a time. Returns all Q and V."""
    visits, transitions, rewards = (release[name].values for name in ("visits", "transitions", "rewards"))
    noise = {name: np.sqrt(release[name].variance) for name in ("visits", "transitions", "rewards")}
    groups, users, noise_scale = len(visits), release.users, learner.noise_scale - doubt

    def width(x):
        return math.log(1 + (1 + users) / x) / x

    def bonus(r, n, clock):
        e = math.log(1 + clock / n) / n
        e = learner.reward_scale * (math.sqrt(2 * r * (1 - r) * e) + e)
        return e / (1 + (e / (1 - r)) ** 4) ** 0.25 if r < 1 else 0.0

    def bonus_with_noise(r, n):
        return learner.reward_scale * (math.sqrt(2 * r * (1 - r) * width(n)) + width(n))

    def weights(row):
        return [max(0.0, float(x) - learner.threshold * float(noise["transitions"][row])) for x in transitions[row]]

    def weight(w):
        return min(1.0, sum(w) / 20) if sum(w) > 1 else 0.0

    def repeats(w):
        return sum(w) - max(w) < 0.5

    counted = {row: weights(row) for row in np.ndindex(visits.shape)}
    mixed = 1 + sum(weight(w) for w in counted.values() if not repeats(w))
    Q, V = np.zeros((horizon, S, A)), np.zeros((horizon + 1, S))
    for h in reversed(range(horizon)):
        following, best, afar = V[h + 1], max(V[h + 1]), np.zeros((S, A))
        for s, a in np.ndindex(S, A):
            row = (h if groups > 1 else 0, s, a)
            sd_n, sd_t, sd_r = (float(noise[name][row]) for name in ("visits", "transitions", "rewards"))
            if visits[row] < 0.5 + sd_n:
                Q[h, s, a] = unseen * (1 + best)
                continue
            n = max(1.0, float(visits[row]))
            r = min(1.0, max(0.0, float(rewards[row]) / n))
            met = sum(max(0.0, float(x)) for x in visits[row[:2]])
            here = bonus(r, n, min(1 + users, (1 + met) / A))
            reward = r + (bonus_with_noise(r, n) if sd_r > 0 else here)
            share = math.log(1 + (1 + users) / (A * n))
            patient = learner.patience * math.sqrt(2 * share) if horizon == 1 else 0.0
            if horizon > 1 and sd_t > 0:
                widest = float(noise["transitions"][row[:2]].max())
                patient = learner.patience * 2 / 3 * math.sqrt(2 * max(0.0, math.log(widest**2 / (10 * sd_t**2))))
            plain = noise_scale * math.sqrt(sd_r**2 + r**2 * sd_n**2)
            if horizon > 1 and sd_r == 0:
                afar[s, a] = bonus(r, n, 1 + users) - here
            reward += (1 + patient) * plain / n
            if horizon == 1:
                sd = learner.arm_noise * math.sqrt(sd_r**2 + r**2 * sd_n**2)
                tau = 1 / math.sqrt(1 + 4 * sd**2 / n)
                sent = min(1.0, max(0.0, 0.5 + tau * (float(rewards[row]) / n - 0.5)))
                coin = 0.5 + (kl_bound(sent, learner.arm_scale * share / n) - 0.5) / tau
                reward = coin if learner.arm_scale > 0 else r + (1 + patient) * plain / n
            w = weights(row)
            m, future = sum(w), unseen * best
            if m > 0:
                mean = sum(x * v for x, v in zip(w, following, strict=True)) / m
                variance = sum(x * (v - mean) ** 2 for x, v in zip(w, following, strict=True)) / m
                apart = sum((v - mean) ** 2 for x, v in zip(w, following, strict=True) if x > 0)
                future = mean + learner.spread_scale * math.sqrt(2 * variance * width(m))
                alike = sum(weight(x) for other, x in counted.items() if other != row and repeats(x))
                d = mixed / (mixed + m * alike) if repeats(w) else 0.25
                future += learner.range_scale * (1 + 4 * d) * (best - mean) * min(1.0, width(m))
                future += (1 + patient) * noise_scale * sd_t * math.sqrt(apart) / m
                future += (1 + patient) * noise_scale * learner.threshold * sd_t * (best - mean) / m
            least = min(following) if noise_scale < 0 and m > 0 and floor else -math.inf
            Q[h, s, a] = min(1.0, reward) + max(least, min(best, future))
        V[h] = np.minimum(horizon - h, Q[h].max(axis=1) + afar[np.arange(S), Q[h].argmax(axis=1)])
    return Q, V


LEARNERS = [
    UCBVI(),
    UCBVI(reward_scale=0.1, spread_scale=0.05, range_scale=0.02, noise_scale=0.01),
    UCBVI(reward_scale=0.0, spread_scale=0.9, range_scale=0.0, noise_scale=0.0, threshold=0.2),
    UCBVI(reward_scale=0.02, spread_scale=0.0, range_scale=0.0, noise_scale=0.3, threshold=0.7),
    UCBVI(reward_scale=0.0, spread_scale=0.0, range_scale=0.4, noise_scale=0.0, threshold=0.0),
]
WITHOUT_BONUS = {"reward_scale": 0.0, "spread_scale": 0.0, "range_scale": 0.0, "noise_scale": 0.0, "patience": 0.0}


def agrees(values: np.ndarray, policy, Q: np.ndarray, V: np.ndarray) -> bool:
    """Whether these values are V and the policy takes an action with the largest Q everywhere.

    Up to 1e-6: the kernel takes a variance as the difference of two means, and then its root.
    """
    chosen = np.take_along_axis(Q, policy.actions[:, :, None], axis=2)[:, :, 0]
    return np.allclose(values, V, rtol=0, atol=1e-6) and np.allclose(chosen, Q.max(axis=2), rtol=0, atol=1e-6)


@pytest.mark.parametrize("noisy", [False, True], ids=["clear", "noisy"])
@pytest.mark.parametrize("homogeneous", [True, False], ids=["pooled", "per-step"])
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_the_plan_is_that_of_the_formulas(learner, homogeneous, noisy):
    for seed in range(4):
        release = random_release(1 if homogeneous else H, seed, noisy)
        state = learner.update(learner.init(problem(homogeneous), stream(seed, 0, COINS)), release)
        Q, V = reference(learner, release, H)
        assert agrees(state.values, learner.policy(state), Q, V)
        assert (Q.max(axis=2) > Q.min(axis=2) + 1e-6).any()


def nearly_certain(groups: int, seed: int, noisy: bool) -> Release:
    """A world almost without chance: of fifty moves of a row all but about one lead to the same state."""
    rng, release = np.random.default_rng(seed), random_release(groups, seed, noisy)
    most, total = rng.integers(S, size=(groups, S, A)), release["visits"].values.clip(0.0)
    moves = total[..., None] * (np.where(np.arange(S) == most[..., None], 0.98, 0.0) + 0.02 / S)
    transitions = Estimate(moves, release["transitions"].variance)
    return replace(release, statistics={**release.statistics, "transitions": transitions})


@pytest.mark.parametrize("noisy", [False, True], ids=["clear", "noisy"])
@pytest.mark.parametrize("homogeneous", [True, False], ids=["pooled", "per-step"])
def test_the_plan_in_a_world_almost_without_chance(homogeneous, noisy):
    """There the bonus of a row that repeated itself depends on what other rows have shown."""
    learner = UCBVI(reward_scale=0.02, spread_scale=0.02, range_scale=0.3, noise_scale=0.02)
    for seed in range(4):
        release = nearly_certain(1 if homogeneous else H, seed, noisy)
        state = learner.update(learner.init(problem(homogeneous), stream(seed, 0, COINS)), release)
        assert agrees(state.values, learner.policy(state), *reference(learner, release, H))


def seldom_met() -> Release:
    """Exact counts of 2,000 users. State 0 leads to 1, where 104 came: 100 took action 0, which paid 60 of them."""
    visits, transitions = np.array([[[104.0, 1896.0], [100.0, 4.0]]]), np.zeros((1, 2, 2, 2))
    transitions[0, 0, 0, 1], transitions[0, 0, 1, 0], transitions[0, 1, :, 1] = 104.0, 1896.0, visits[0, 1]
    rewards = np.array([[[0.0, 189.6], [60.0, 0.0]]])
    tables = {"visits": visits, "transitions": transitions, "rewards": rewards}
    exact = np.zeros((1, 2, 2))
    guarantee = build(discreet.NoPrivacy(), discreet.Shape(2, 2, 2, homogeneous=True), 2000).guarantee
    return Release({name: Estimate(t, exact) for name, t in tables.items()}, 2000, guarantee, lambda n, p: exact)


def test_actions_are_compared_by_the_visits_of_their_state_and_states_by_all_users():
    def bound(r, n, users):
        e = math.log(1 + users / n) / n
        e = 0.5 * (math.sqrt(2 * r * (1 - r) * e) + e)
        return r + (e**-4 + (1 - r) ** -4) ** -0.25

    two = Problem(discreet.Shape(2, 2, 2, homogeneous=True), 2000)
    state = UCBVI().update(UCBVI().init(two, stream(0, 0, COINS)), seldom_met())
    assert UCBVI().policy(state).actions[1, 1] == 0
    assert state.values[1, 1] == pytest.approx(bound(0.6, 100, 2001), abs=1e-6)
    # The twin: with all users in both, four visits in vain would not be enough.
    assert bound(0.6, 100, 105 / 2) > bound(0.0, 4, 105 / 2) + 0.1
    assert bound(0.6, 100, 2001) < bound(0.0, 4, 2001)


KNOBS = ("reward_scale", "spread_scale", "range_scale", "noise_scale", "threshold", "patience")


def test_more_is_cut_where_the_noise_of_many_successors_may_stand_out():
    for states, times in ((2, 1.0), (10, 1.0), (100, math.sqrt(2.0))):
        arrays = UCBVI(threshold=0.8).arrays(Problem(discreet.Shape(states, 2, 3), 50))
        assert arrays.threshold == pytest.approx(0.8 * times)


def test_a_bandit_counts_the_noise_in_the_answers_of_an_arm():
    small = UCBVI(arm_scale=0.02, arm_noise=0.1)
    for seed in range(1, 4):  # with 0 the best arm always paid
        release = random_release(1, seed, noisy=True)
        state = small.update(small.init(problem(True, horizon=1), stream(seed, 0, COINS)), release)
        assert agrees(state.values, small.policy(state), *reference(small, release, 1))
        for other in (replace(small, arm_noise=0.0), replace(small, arm_scale=0.03)):
            assert not np.allclose(state.values, reference(other, release, 1)[1], rtol=0, atol=1e-6)


def test_an_arm_without_a_bound_for_chance_is_tried_longer_if_it_had_less_than_its_share():
    small = UCBVI(arm_scale=0.0, noise_scale=0.02, patience=1.5)
    for seed in range(1, 4):
        release = random_release(1, seed, noisy=True)
        state = small.update(small.init(problem(True, horizon=1), stream(seed, 0, COINS)), release)
        assert agrees(state.values, small.policy(state), *reference(small, release, 1))
        other = replace(small, patience=0.0)
        assert not np.allclose(state.values, reference(other, release, 1)[1], rtol=0, atol=1e-6)


def test_what_is_recommended_in_a_bandit_doubts_noise():
    certain = replace(UCBVI(), **WITHOUT_BONUS, arm_scale=0.0)
    for seed in range(4):
        release = random_release(1, seed, noisy=True)
        arrays = UCBVI().recommending(problem(True, horizon=1))
        policy, values = plan_backwards(arrays, problem(True, horizon=1), stream(seed, 0, COINS), release)
        assert agrees(values, policy, *reference(certain, release, 1, unseen=0.0, doubt=0.5))


def test_the_bound_of_answered_bits_is_that_of_the_bits_as_they_were_sent():
    """One arm, 200 users, epsilon 1: KL-UCB on the answers, decoded; with all of the noise that there is."""
    tau, n, sent = math.tanh(0.5), 200.0, 0.61
    decoded, variance = n * (sent - (1 - tau) / 2) / tau, n * (1 - tau**2) / (4 * tau**2)
    statistics = {
        "visits": Estimate(np.full((1, 1, 2), n), np.zeros((1, 1, 2))),
        "transitions": Estimate(np.zeros((1, 1, 2, 1)), np.zeros((1, 1, 2))),
        "rewards": Estimate(np.array([[[decoded, -10.0]]]), np.full((1, 1, 2), variance)),
    }
    arms = Problem(discreet.Shape(1, 2, 1, homogeneous=True), 400)
    guarantee = build(discreet.NoPrivacy(), arms.shape, 400).guarantee
    release = Release(statistics, 400, guarantee, lambda n, p: np.zeros((1, 1, 2)))
    learner = UCBVI(arm_scale=1.0, arm_noise=1.0)
    state = learner.update(learner.init(arms, stream(0, 0, COINS)), release)
    by_hand = kl_bound(sent, math.log(1 + 401 / (2 * n)) / n)
    assert state.values[0, 0] == pytest.approx((by_hand - (1 - tau) / 2) / tau, abs=1e-6)
    assert by_hand > sent + 0.01


@pytest.mark.parametrize("knob", KNOBS)
def test_the_comparison_sees_every_knob(knob):
    """The twin of the test above: formulas with another value of one knob are told apart from the plan."""
    small = UCBVI(reward_scale=0.1, spread_scale=0.05, range_scale=0.02, noise_scale=0.01)
    release = random_release(1, 1, noisy=True)
    state = small.update(small.init(problem(True), stream(1, 0, COINS)), release)
    other = replace(small, **{knob: 1.3 * getattr(small, knob)})
    assert not agrees(state.values, state.policy, *reference(other, release, H))


@pytest.mark.parametrize("noisy", [False, True], ids=["clear", "noisy"])
@pytest.mark.parametrize("homogeneous", [True, False], ids=["pooled", "per-step"])
def test_what_is_recommended_has_no_bonus_doubts_noise_and_gives_nothing_for_what_was_not_seen(homogeneous, noisy):
    learner, apart, lifted = UCBVI(), 0, 0
    certain = replace(learner, **WITHOUT_BONUS)
    for seed in range(4):
        release = random_release(1 if homogeneous else H, seed, noisy)
        state = learner.update(learner.init(problem(homogeneous), stream(seed, 0, COINS)), release)
        Q, V = reference(certain, release, H, unseen=0.0, doubt=0.5)
        arrays = learner.recommending(problem(homogeneous))
        policy, values = plan_backwards(arrays, problem(homogeneous), state.coins.copy(), release)
        assert agrees(values, policy, Q, V)
        lifted += bool(noisy) and not agrees(values, policy, *reference(certain, release, H, 0.0, 0.5, floor=False))
        assert learner.recommend(state) == policy  # in each of these releases users were seen in all states
        assert recommended(problem(homogeneous), state.coins, release) == policy
        apart += not agrees(
            values, policy, *reference(certain, release, H, doubt=0.5)
        )  # the twin: all for what was not seen
    assert apart
    if noisy and not homogeneous:  # the other: futures that are worth less than the worst of what may follow
        assert lifted


def test_an_arm_that_nobody_tried_is_explored_and_not_recommended():
    arms = Problem(discreet.Shape(1, 2, 1, homogeneous=True, start=0), EPISODES)
    release = counts_release(visits=[200.0, 0.0], rewards=[20.0, 0.0])
    for seed in range(20):
        state = UCBVI().update(UCBVI().init(arms, stream(seed, 0, COINS)), release)
        assert UCBVI().policy(state).actions.item() == 1
        assert UCBVI().recommend(state).actions.item() == 0


def counts_release(visits, rewards) -> Release:
    """Exact counts of the arms of a bandit, from 200 users."""
    rows = (1, 1, len(visits))
    exact = np.zeros(rows)
    tables = {
        "visits": Estimate(np.reshape(visits, rows), exact),
        "transitions": Estimate(np.zeros((*rows, 1)), exact),
        "rewards": Estimate(np.reshape(rewards, rows), exact),
    }
    guarantee = build(discreet.NoPrivacy(), problem(True).shape, EPISODES).guarantee
    return Release(tables, 200, guarantee, lambda n, p: exact)


def test_before_any_release_nothing_is_recommended_above_anything_else():
    policies = {UCBVI().recommend(UCBVI().init(problem(True), stream(seed, 0, COINS))) for seed in range(10)}
    assert len(policies) > 1
    values = plan_backwards(UCBVI().recommending(problem(True)), problem(True), stream(0, 0, COINS), None)[1]
    np.testing.assert_array_equal(values, 0.0)


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
    learner = UCBVI(**WITHOUT_BONUS)
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
        {"reward_scale": -0.5},
        {"spread_scale": float("inf")},
        {"range_scale": -1e-9},
        {"noise_scale": -1.0},
        {"threshold": float("nan")},
    ],
)
def test_knobs_outside_their_domain_are_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        UCBVI(**wrong)

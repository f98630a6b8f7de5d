"""Actions that noise does not tell apart are played side by side: the policy is that of the formulas, where it should.

The reference below computes the noise in Q and the policy from the formulas of the module, with loops and no compiled
code.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.policies import Policy, StochasticPolicy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, stream
from discreet.learners import UCBVI
from discreet.learners.base import Problem, plan_backwards
from discreet.mechanisms.release import OPENING, WEIGHS, Estimate, Release
from discreet.privacy.guarantee import nothing
from discreet.recipes.registry import build

H, S, A = 4, 4, 3


def released(groups: int, seed: int = 0, noise: float = 12.0, lasts: bool = True, users: int = 400) -> Release:
    """Counts of rows that were seen often, seldom and, one in twelve, never; with noise."""
    rng = np.random.default_rng(seed)
    rows = (groups, S, A)
    visits = rng.choice([30.0, 100.0, 300.0], rows)
    visits[:, 0, 0] = 0.0
    law = rng.dirichlet(np.ones(S), rows)
    transitions = visits[..., None] * law + noise / 4 * rng.normal(size=(*rows, S))
    rewards = visits * rng.uniform(0.4, 0.55, rows) + noise / 4 * rng.normal(size=rows)
    statistics = {
        "visits": Estimate(visits, np.full(rows, noise**2)),
        "transitions": Estimate(transitions, np.full(rows, noise**2 / 4)),
        "rewards": Estimate(rewards, np.full(rows, noise**2 / 2)),
    }
    return Release(statistics, users, nothing(), lambda cells, tail: np.zeros(rows), noise_lasts=lasts)


def problem_of(groups: int) -> Problem:
    return Problem(Shape(states=S, actions=A, horizon=H, homogeneous=groups == 1), 1000)


def updated(release: Release, before: Release | None = None):
    groups, learner = release["visits"].values.shape[0], UCBVI()
    state = learner.init(problem_of(groups), stream(1, 0, COINS))
    return learner.update(state if before is None else learner.update(state, before), release)


def expected_policy(release: Release, actions: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The formulas: values of the plan are given, Q and the noise in it are computed anew."""
    groups = release["visits"].values.shape[0]
    arrays = UCBVI().arrays_after(problem_of(groups), release)
    plan_backwards(arrays, problem_of(groups), stream(2, 0, COINS), release)  # fills the model
    out = np.zeros((H, S, A))
    for h in range(H):
        g, following = (h if groups > 1 else 0), values[h + 1]
        q, highest = np.zeros((S, A)), 1 + following.max()
        noise = np.zeros((S, A))
        for s in range(S):
            for a in range(A):
                n, r, sd_n, sd_r, sd_t, counts = row_of(release, g, s, a)
                weights = np.maximum(0.0, counts - 1.5 * sd_t)
                m, seen = weights.sum(), n >= 0.5 + sd_n
                q[s, a] = optimistic(arrays, g, s, a, following, seen, m, weights)
                u = 0.0
                if seen and (m > 0 or highest == 1):
                    mean = min(1.0, max(0.0, r / max(1, n)))
                    u = (sd_r**2 + (mean * sd_n) ** 2) / max(1, n) ** 2
                    if highest > 1:
                        u += (sd_t / m) ** 2 * ((following - weights @ following / m) ** 2).sum()
                noise[s, a] = math.sqrt(u)
            least = noise[s, actions[h, s]]
            longer = [1 + 3 * math.log(u / least) if u > least > 0 else 1.0 for u in noise[s]]
            reach = np.minimum(highest, q[s] + (0.1 + 0.15 * math.log2(min(4, A))) * np.sqrt(longer) * noise[s])
            undecided = reach >= q[s].max() - 1e-12
            out[h, s] = 0.7 * undecided / undecided.sum()
            out[h, s, actions[h, s]] += 0.3
    return out


def row_of(release: Release, g: int, s: int, a: int):
    visits, transitions, rewards = (release[name] for name in ("visits", "transitions", "rewards"))
    noises = (math.sqrt(each.variance[g, s, a]) for each in (visits, rewards, transitions))
    return visits.values[g, s, a], rewards.values[g, s, a], *noises, transitions.values[g, s, a]


def optimistic(arrays, g, s, a, following, seen, m, weights) -> float:
    """Q from the factors of the bonus, which are tested with the learner."""
    row, best = (g * S + s) * A + a, following.max()
    if best == 0:
        return float(arrays.reward[row])
    if not seen or m <= 0:
        return float(arrays.reward[row] + best)
    mean = weights @ following / m
    squares = (following - mean) ** 2
    bonus = math.sqrt(arrays.per_variance[row] * (weights @ squares) / m)
    bonus += arrays.per_deviation[row] * math.sqrt(squares[weights > 0].sum()) + arrays.per_range[row] * (best - mean)
    return float(arrays.reward[row] + min(best, mean + bonus))


@pytest.mark.parametrize("actions", [2, 3, 6])
def test_the_policy_is_that_of_the_formulas(actions, monkeypatch):
    """Forty releases, so that each constant decides about some action; more than four actions count as four."""
    monkeypatch.setattr(sys.modules[__name__], "A", actions)
    shared = 0
    for seed in range(40):
        release = released(1, seed)
        if actions == 2:  # one row in eight that nobody has seen would be too many
            release["visits"].values[0, 0, 0] = 100.0
        state = updated(release)
        if isinstance(state.policy, Policy):
            continue
        shared += 1
        plan = UCBVI().plan(problem_of(1), stream(1, 0, COINS), release)  # ties fall elsewhere: compare by values
        np.testing.assert_allclose(state.values, plan.values)
        favourites = state.policy.probabilities.argmax(axis=2)
        expected = expected_policy(release, favourites, state.values)
        np.testing.assert_allclose(state.policy.probabilities, expected, atol=1e-9)
    assert shared > 20


def test_the_reference_sees_how_much_noise_counts():
    release = released(1)
    noisier = {
        name: Estimate(each.values, each.variance * (1.0 if name == "visits" else 1.5))
        for name, each in release.statistics.items()
    }
    state = updated(release)
    favourites = state.policy.probabilities.argmax(axis=2)
    other = expected_policy(replace(release, statistics=noisier), favourites, state.values)
    assert np.abs(state.policy.probabilities - other).max() > 0.1


def test_without_noise_that_lasts_the_plan_is_followed():
    assert isinstance(updated(released(1, lasts=False)).policy, Policy)


def test_a_user_with_a_policy_of_her_own_follows_the_plan():
    before = released(1, users=399)
    assert isinstance(updated(released(1), before=before).policy, Policy)
    assert isinstance(updated(released(1), before=replace(before, users=398)).policy, StochasticPolicy)


def test_with_laws_per_step_the_plan_is_followed():
    assert isinstance(updated(released(H)).policy, Policy)


def test_once_noise_is_small_only_the_plan_is_left():
    release = released(1, noise=0.0)
    visits = Estimate(np.maximum(release["visits"].values, 50.0), release["visits"].variance)
    assert isinstance(updated(replace(release, statistics={**release.statistics, "visits": visits})).policy, Policy)


def test_while_much_has_not_been_seen_the_plan_leads_there():
    release = released(1)
    visits = release["visits"].values.copy()
    visits[0, 1, 1] = 0.0  # two of twelve rows
    statistics = {**release.statistics, "visits": Estimate(visits, release["visits"].variance)}
    assert isinstance(updated(replace(release, statistics=statistics)).policy, Policy)


def test_prefix_sums_say_that_their_noise_lasts_and_blocks_do_not():
    world = discreet.worlds.inventory()
    for recipe, lasts in (("central/first-visit-matrix", True), ("central/first-visit-gaussian", False)):
        privacy = discreet.Central(1.0, 1e-5, recipe=recipe, options={"blocks": 2})
        result = discreet.simulate(world, "ucbvi", privacy, episodes=40, keep_release=True)
        assert result.releases[0].noise_lasts is lasts


def test_auto_takes_prefix_sums_for_learners_that_play_actions_side_by_side():
    shape, privacy, needs = discreet.worlds.inventory(capacity=4).shape, discreet.Central(1.0, 1e-5), UCBVI.needs
    focused = "central/focused-first-visit-gaussian"
    assert build(privacy, shape, 20_000, needs).recipe == "central/first-visit-two-tables-matrix"
    assert build(privacy, shape, 20_000, needs - {WEIGHS, OPENING}).recipe == focused


class OnePlan(UCBVI):
    """The twin: every block follows one plan."""

    def update(self, state, release):
        return super().update(state, replace(release, noise_lasts=False))


def test_lock_in_is_rarer():
    """Inventory with a capacity of 4: with these seeds none of 16 runs is stuck; with one plan a block several are.

    With other seeds 0 of 120 and 8 of 32 were. By chance the twin would have fewer than 2 in one of sixteen such tests,
    but seeds are fixed.
    """
    world = discreet.worlds.inventory(capacity=4, demand="0.15,0.25,0.3,0.2,0.1")
    privacy = discreet.Central(1.0, 1e-5, recipe="central/first-visit-matrix")
    worst = 0.25 * world.gap(uniform_policy(world.shape))
    stuck = [
        int((discreet.simulate(world, learner, privacy, episodes=20_000, runs=16, seed=6).final_gap > worst).sum())
        for learner in (UCBVI(), OnePlan())
    ]
    assert stuck[0] == 0
    assert stuck[1] >= 2


@pytest.mark.parametrize(("states", "shared"), [(23, True), (24, False)], ids=["69 rows", "72 rows"])
def test_nothing_is_shared_out_where_rows_are_many(states, shared, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "S", states)
    found = [updated(released(1, seed)).policy for seed in range(5)]
    assert any(isinstance(policy, StochasticPolicy) for policy in found) == shared

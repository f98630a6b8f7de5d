"""LDP-OBI against a slow plain version of its formulas, its printed constants, and what it promises to do."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.streams import COINS, stream
from discreet.learners.base import Problem
from discreet.learners.obi import CONSTANTS, OBI
from discreet.mechanisms.release import Estimate, Release
from discreet.noise import Laplace
from discreet.recipes.registry import build
from discreet.worlds.planning.backward_induction import best_policy

S, A, H = 3, 2, 4
DELTA = 0.1


def shape(homogeneous=True, states=S, horizon=H):
    return discreet.Shape(states, A, horizon, homogeneous=homogeneous)


def random_release(groups, seed, users=500, sd=9.0, radius_of=None, size=20.0, moves_sd=9.0):
    rng = np.random.default_rng(seed)
    rows = (groups, S, A)
    transitions = rng.gamma(2.0, size, size=(*rows, S)) + rng.normal(0, sd, size=(*rows, S))
    visits = transitions.sum(axis=-1) + rng.normal(0, sd, size=rows)
    variance = np.full(rows, sd**2)
    estimates = {
        "visits": Estimate(visits, variance),
        "transitions": Estimate(transitions, np.full(rows, moves_sd**2)),
        "rewards": Estimate(rng.random(rows) * visits, variance),
    }
    guarantee = build(discreet.NoPrivacy(), shape(), 10).guarantee
    return Release(estimates, users, guarantee, lambda n, p: variance, radius_of=radius_of)


def printed_bounds(constants, k, sd, homogeneous):
    """The c_k of the paper from the noise scale, written as in the paper: scale first."""
    d = 3 * DELTA / (2 * math.pi**2 * k**2)
    n = k - 1
    if constants == "laplace":
        b = sd / math.sqrt(2 * n)
        one, many = math.log(6 * S * A / d), math.log(6 * S * S * A / d)
        c = max(math.sqrt(k), one) * math.sqrt(8 * one) * b
        c4 = max(math.sqrt(k), many) * math.sqrt(8 * many) * b
        return c, c, max(math.sqrt(k * S), many) * math.sqrt(8 * many) * b, c4
    if constants == "gaussian":
        sigma = sd / math.sqrt(n)
        c = max(1.0, sigma * math.sqrt(n * math.log(6 * S * A / d)))
        return c, c, max(1.0, sigma * math.sqrt(S * n * math.log(6 * S * A / d))), c
    if constants == "bounded":
        R = sd / math.sqrt(n) / 0.286275
        c4 = R * math.sqrt(2 * n * math.log(6 * S * S * A / d))
        c = R * math.sqrt(2 * n * math.log(6 * S * A / d))
        return c, c, math.sqrt(S) * c4, c4
    bits = n * (H if homogeneous else 1)
    e0 = 2 * math.asinh(math.sqrt(bits) / (2 * sd))
    E = math.exp(e0)
    c = (2 * E - 1) / (E - 1) * math.sqrt(bits / 2 * math.log(4 * S * A / d))
    return c, c, S * c, (2 * E - 1) / (E - 1) * math.sqrt(bits / 2 * math.log(4 * S * S * A / d))


def reference(release, bounds, level_r, level_p, alpha=2.0):
    """Backward induction with the paper's formulas, one entry at a time."""
    visits, transitions, rewards = (release[name].values for name in ("visits", "transitions", "rewards"))
    groups = len(visits)
    V, Q = np.zeros((H + 1, S)), np.zeros((H, S, A))
    for h in reversed(range(H)):
        g = h if groups > 1 else 0
        for s in range(S):
            for a in range(A):
                c1, c2, c3, c4 = (max(1.0, float(np.broadcast_to(c, visits.shape)[g, s, a])) for c in bounds)
                d2 = max(visits[g, s, a] + alpha * c2, (alpha - 1) * c2)
                d3 = max(transitions[g, s, a].sum() + alpha * c3, (alpha - 1) * c3)
                beta_r = level_r / math.sqrt(d2) + ((alpha + 1) * c2 + c1) / d2
                beta_p = level_p / math.sqrt(d3) + (S * c4 + (alpha + 1) * c3) / d3
                Q[h, s, a] = rewards[g, s, a] / d2 + beta_r + (H - h) * beta_p + transitions[g, s, a] @ V[h + 1] / d3
            V[h, s] = min(H - h, max(0.0, Q[h, s].max()))
    return Q, V


def tight_reference(release, bounds, level_r, level_p):
    """The same with the tight bounds."""
    visits, transitions, rewards = (release[name].values for name in ("visits", "transitions", "rewards"))
    groups = len(visits)
    V, Q = np.zeros((H + 1, S)), np.zeros((H, S, A))
    for h in reversed(range(H)):
        g, low, high = h if groups > 1 else 0, V[h + 1].min(), V[h + 1].max()
        apart = max((V[h + 1] - low).sum(), (high - V[h + 1]).sum())
        for s in range(S):
            for a in range(A):
                c1, c2, c3, c4 = (float(np.broadcast_to(c, visits.shape)[g, s, a]) for c in bounds)
                n, followed = visits[g, s, a] - c2, transitions[g, s, a].sum()
                m, reward, future = followed - c3, 1.0, high
                if n > 0:
                    longer = math.sqrt(max(1.0, math.log(1 + (release.users + 1) / (A * n))))
                    reward = min(1.0, max(0.0, rewards[g, s, a] + c1) / n + longer * level_r / math.sqrt(n) + 3 / n)
                if m > 0:
                    chance = (high - low) * (level_p / math.sqrt(m) + 3 / m)
                    future = (transitions[g, s, a] @ V[h + 1] + c4 * apart) / followed + chance
                Q[h, s, a] = reward + min(high, max(low, future))
            V[h, s] = min(H - h, max(0.0, Q[h, s].max()))
    return Q, V


def planned(learner, release, homogeneous):
    state = learner.init(Problem(shape(homogeneous), 1000), stream(0, 0, COINS))
    return learner.update(state, release)


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("constants", CONSTANTS[1:])
def test_printed_constants(constants, homogeneous):
    # Counts so large that no value reaches its cap: otherwise wrong constants would go unnoticed.
    # Counts of successors have answers of H - 1 steps, so they are quieter; printed c3 and c4 have H all the same.
    fewer = math.sqrt((H - 1) / H) if constants == "randomised-response" and homogeneous else 1.0
    release = random_release(1 if homogeneous else H, seed=3, size=3e5, moves_sd=9.0 * fewer)
    k = release.users + 1
    level = math.log(4 * math.pi**2 * S * A * H * k**3 / (3 * DELTA))
    bounds = printed_bounds(constants, k, 9.0, homogeneous)
    Q, V = reference(release, bounds, math.sqrt(2 * level), math.sqrt(14 * S * level))
    state = planned(OBI(constants=constants), release, homogeneous)
    assert (V[:H] < H - np.arange(H)[:, None]).all()
    np.testing.assert_allclose(state.values, V, rtol=1e-12)
    np.testing.assert_array_equal(state.policy.actions, Q.argmax(axis=2))


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize(("scale", "size"), [(0.05, 2.0), (0.05, 5.0), (0.05, 400.0), (1.0, 3e4)])
def test_tight_constants_take_the_radii_of_the_release(scale, size, homogeneous):
    asked = []
    groups = 1 if homogeneous else H

    def radius_of(name, failure_probability):
        asked.append((name, failure_probability))
        return np.full((groups, S, A), {"rewards": 20.0, "visits": 30.0, "followed": 40.0, "transitions": 25.0}[name])

    release = random_release(groups, seed=5, users=40_000, radius_of=radius_of, size=size)
    epoch = math.floor(math.log(40_001 * H) / math.log(1.5)) + 1
    level = math.log(8 * groups * S * A * (epoch + 1) * (epoch + 2) / DELTA)
    u_r, u_p = (scale * math.sqrt(0.75 * x) for x in (level, S * math.log(2) + level))
    bounds = [scale * c for c in (20.0, 30.0, 40.0, 25.0)]
    Q, V = tight_reference(release, bounds, u_r, u_p)
    state = planned(OBI(scale=scale), release, homogeneous)
    np.testing.assert_allclose(state.values, V, rtol=1e-9)
    best = Q.max(axis=2, keepdims=True) - Q < 1e-9  # ties are broken by coins
    assert np.take_along_axis(best, state.policy.actions[..., None], axis=2).all()
    # Caps, which would hide wrong constants, are reached with few counts only.
    assert (V[:H] < 1 + V[1:].max(axis=1, keepdims=True)).all() == (size > 5.0)
    assert {name for name, _ in asked} == {"rewards", "visits", "followed", "transitions"}
    # One bound per count, S of them for transitions: together they take half of what may fail.
    counts = {"rewards": 1, "visits": 1, "followed": 1, "transitions": S}
    assert sum(counts[name] * probability for name, probability in asked) * groups * S * A == pytest.approx(DELTA / 2)


def test_alpha_belongs_to_the_paper_alone():
    release = random_release(1, seed=6, size=3e5)
    tight = [planned(OBI(alpha=alpha), release, True).values for alpha in (1.5, 4.0)]
    printed = [planned(OBI(constants="bounded", alpha=alpha), release, True).values for alpha in (1.5, 4.0)]
    np.testing.assert_array_equal(*tight)
    assert np.abs(printed[0] - printed[1]).max() > 1e-6


def optimistic_about(learner, seed, noise_in_its_bounds=1.0):
    """Whether the plan is worth at least the best policy, from true counts with the worst noise that bounds allow."""
    rng = np.random.default_rng(seed)
    P, means = rng.dirichlet(np.full(S, 0.5), size=(S, A)), rng.random((S, A))
    counts = rng.geometric(1 / rng.choice([30, 1e3, 1e5]), size=(S, A)).astype(float)
    moves = np.array([[rng.multinomial(int(counts[s, a]), P[s, a]) for a in range(A)] for s in range(S)])
    rewards = rng.binomial(counts.astype(int), means)
    radius, V = 5.0, best_policy(P, means, H)[1]
    # Against what follows at the first step: successors that are worth much are undercounted, others overcounted.
    wrong = noise_in_its_bounds * radius * np.where(V[1] > V[1].mean(), -1.0, 1.0)
    variance = np.zeros((1, S, A))
    estimates = {
        "visits": Estimate((counts + noise_in_its_bounds * radius)[None], variance),
        "transitions": Estimate((moves + wrong)[None], variance),
        "rewards": Estimate((rewards - noise_in_its_bounds * radius)[None], variance),
    }
    guarantee = build(discreet.NoPrivacy(), shape(), 10).guarantee
    bounds = {"rewards": radius, "visits": radius, "followed": S * radius, "transitions": radius}
    release = Release(
        estimates, 1000, guarantee, lambda n, p: variance, radius_of=lambda name, _: np.full((1, S, A), bounds[name])
    )
    return (planned(learner, release, True).values >= V - 1e-9).all()


def test_the_tight_plan_is_optimistic_whatever_noise_within_the_bounds_does():
    """With scale 1 always, in 200 worlds; the twins believe too much: noise beyond the bounds, a scale near zero."""
    assert all(optimistic_about(OBI(scale=1.0), seed) for seed in range(200))
    assert not all(optimistic_about(OBI(scale=1.0), seed, noise_in_its_bounds=20.0) for seed in range(200))
    assert not all(optimistic_about(OBI(scale=0.01), seed) for seed in range(200))


def test_noise_does_not_make_it_play_what_was_counted_least():
    """Total regret over uniform play's, 3 runs each; it was .45 and .47, because caps hid what was bad.

    With another seed (4 runs) .047 +- .004 and .035 +- .003.
    """
    for world in (discreet.worlds.admission(capacity=3), discreet.worlds.inventory(capacity=3)):
        result = discreet.simulate(world, OBI(), discreet.Central(10.0, 1e-5), episodes=20_000, runs=3, seed=4)
        uniform = 20_000 * world.gap(discreet.base.policies.uniform_policy(world.shape))
        assert result.total_regret.mean() < 0.1 * uniform


def test_bounds_of_the_release_hold_for_all_releases_at_once():
    """The noise of Laplace sums stays inside the any-time radius in at least 1 - 0.1 of 300 runs of 2000 releases."""
    law, rng = Laplace(3.0), np.random.default_rng(1)
    radius = law.anytime_radius(np.arange(1, 2001), 0.1)
    walks = np.cumsum(rng.laplace(0, 3.0, size=(300, 2000)), axis=1)
    escaped = (np.abs(walks) > radius).any(axis=1).mean()
    assert escaped <= 0.1
    assert (np.abs(walks) > radius / 3).any(axis=1).mean() > 0.1  # the bound is not vacuous


def test_before_any_release_ties_are_broken_by_coins():
    policies = {
        OBI().init(Problem(shape(), 100), stream(seed, 0, COINS)).policy.actions.tobytes() for seed in range(20)
    }
    assert len(policies) > 10


@pytest.mark.parametrize("homogeneous", [True, False])
def test_it_learns_a_random_world_under_local_privacy(homogeneous):
    world = discreet.worlds.random_mdp(instance=7).with_time(homogeneous)
    result = discreet.simulate(world, OBI(), discreet.Local(5.0), episodes=30_000, runs=2, seed=3)
    uniform = world.gap(discreet.base.policies.uniform_policy(world.shape))
    assert (result.total_regret / 30_000 < 0.3 * uniform).all()
    assert result.guarantee.delta == 0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"constants": "tigth"}, "tight"),
        ({"scale": 0.0}, "scale"),
        ({"alpha": 1.0}, "alpha"),
        ({"failure_probability": 1.0}, "failure_probability"),
    ],
)
def test_wrong_knobs_are_refused(options, match):
    with pytest.raises(InvalidInput, match=match):
        OBI(**options)

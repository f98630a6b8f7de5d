"""LDP-OBI against a slow plain version of its formulas, its printed constants, and what it promises to do."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.errors import InvalidInput
from discreet.learners.base import Problem
from discreet.learners.local_optimistic import CONSTANTS, OBI
from discreet.noise import Laplace
from discreet.recipes.registry import build
from discreet.release import Estimate, Release
from discreet.streams import COINS, stream

S, A, H = 3, 2, 4
DELTA = 0.1


def shape(homogeneous=True, states=S, horizon=H):
    return discreet.Shape(states, A, horizon, homogeneous=homogeneous)


def random_release(groups, seed, users=500, sd=9.0, radius_of=None, size=20.0):
    rng = np.random.default_rng(seed)
    rows = (groups, S, A)
    transitions = rng.gamma(2.0, size, size=(*rows, S)) + rng.normal(0, sd, size=(*rows, S))
    visits = transitions.sum(axis=-1) + rng.normal(0, sd, size=rows)
    variance = np.full(rows, sd**2)
    estimates = {
        "visits": Estimate(visits, variance),
        "transitions": Estimate(transitions, variance),
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


def reference(release, bounds, level_r, level_p, worth, alpha=2.0):
    """Backward induction with the formulas of the module, one entry at a time."""
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
                Q[h, s, a] = rewards[g, s, a] / d2 + beta_r + worth(h) * beta_p + transitions[g, s, a] @ V[h + 1] / d3
            V[h, s] = min(H - h, max(0.0, Q[h, s].max()))
    return Q, V


def planned(learner, release, homogeneous):
    state = learner.init(Problem(shape(homogeneous), 1000), stream(0, 0, COINS))
    return learner.update(state, release)


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("constants", CONSTANTS[1:])
def test_printed_constants(constants, homogeneous):
    # Counts so large that no value reaches its cap: otherwise wrong constants would go unnoticed.
    release = random_release(1 if homogeneous else H, seed=3, size=3e5)
    k = release.users + 1
    level = math.log(4 * math.pi**2 * S * A * H * k**3 / (3 * DELTA))
    bounds = printed_bounds(constants, k, 9.0, homogeneous)
    Q, V = reference(release, bounds, math.sqrt(2 * level), math.sqrt(14 * S * level), lambda h: H - h)
    state = planned(OBI(constants=constants), release, homogeneous)
    assert (V[:H] < H - np.arange(H)[:, None]).all()
    np.testing.assert_allclose(state.values, V, rtol=1e-12)
    np.testing.assert_array_equal(state.policy.actions, Q.argmax(axis=2))


@pytest.mark.parametrize("scale", [0.05, 1.0])
def test_tight_constants_take_the_radii_of_the_release(scale):
    asked = []

    def radius_of(name, failure_probability):
        asked.append((name, failure_probability))
        return np.full((1, S, A), {"rewards": 20.0, "visits": 30.0, "followed": 40.0, "transitions": 25.0}[name])

    release = random_release(1, seed=5, users=400, radius_of=radius_of)
    epoch = math.floor(math.log(401 * H) / math.log(1.5)) + 1
    level = math.log(8 * S * A * (epoch + 1) * (epoch + 2) / DELTA)
    u_r, u_p = (scale * math.sqrt(0.75 * x) for x in (level, S * math.log(2) + level))
    bounds = [scale * c for c in (20.0, 30.0, 40.0, 25.0)]
    Q, V = reference(release, bounds, u_r, u_p, lambda h: H - h - 1)
    state = planned(OBI(scale=scale), release, True)
    np.testing.assert_allclose(state.values, V, rtol=1e-9)
    np.testing.assert_array_equal(state.policy.actions, Q.argmax(axis=2))
    assert {name for name, _ in asked} == {"rewards", "visits", "followed", "transitions"}
    # One bound per count, S of them for transitions: together they take half of what may fail.
    counts = {"rewards": 1, "visits": 1, "followed": 1, "transitions": S}
    assert sum(counts[name] * probability for name, probability in asked) * S * A == pytest.approx(DELTA / 2)


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
    uniform = world.gap(discreet.policies.uniform_policy(world.shape))
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

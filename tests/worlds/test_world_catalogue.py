"""The named worlds, against published values and independent integrals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from discreet.base.errors import InvalidInput
from discreet.base.policies import Policy, uniform_policy
from discreet.worlds import TabularWorld, WorldFamily, bandit, from_arrays, random_mdp, river_swim
from discreet.worlds.catalogue import clipped_normal_mean


def test_river_swim_of_six_states():
    world = river_swim()
    assert world.optimal_value == pytest.approx(3.39726, abs=5e-6)
    assert world.value(Policy(np.zeros((20, 6), dtype=np.int64))) == pytest.approx(0.1, abs=1e-12)
    assert world.value(Policy(np.ones((20, 6), dtype=np.int64))) == pytest.approx(3.39664, abs=5e-6)
    assert world.value(uniform_policy(world.shape)) == pytest.approx(0.04379, abs=5e-6)
    assert world.shape.start == 0
    assert world.shape.homogeneous


def test_river_swim_of_four_states():
    world = river_swim(states=4, horizon=6)
    assert world.optimal_value == pytest.approx(0.4758, abs=5e-5)
    assert world.value(uniform_policy(world.shape)) == pytest.approx(0.0316, abs=5e-5)


def test_random_mdps_are_reproducible_and_differ():
    family = random_mdp(states=3, actions=2, horizon=4)
    assert isinstance(family, WorldFamily)
    a, b, c = family.instance(7), random_mdp(3, 2, 4, instance=7), family.instance(8)
    assert isinstance(b, TabularWorld)
    assert (a.transitions == b.transitions).all()
    assert (a.means == b.means).all()
    assert (a.transitions != c.transitions).any()
    assert a.shape == family.shape
    assert family.shape.start is None
    np.testing.assert_allclose(a.start, 1 / 3)


def test_in_every_random_mdp_actions_matter():
    # A quarter of the raw draws of two states and two actions have rewards that ignore the action.
    family = random_mdp()
    for seed in range(60):
        world = family.instance(seed)
        assert (world.means[0, :, 0] != world.means[0, :, 1]).any()
        assert set(np.unique(world.means)) <= {0.0, 1.0}
        worst = from_arrays(world.transitions[0], 1 - world.means[0], 2, start=world.start, reward_law="deterministic")
        assert world.optimal_value > 2 - worst.optimal_value + 1e-12


def test_random_transitions_follow_the_dirichlet_law():
    # The variance of a Dirichlet(a, a) coordinate is 1/(4(2a + 1)); 1200 draws, five standard errors of a variance.
    for alpha in (0.1, 3.0):
        family = random_mdp(alpha=alpha)
        draws = np.concatenate([family.instance(seed).transitions[0, :, :, 0].ravel() for seed in range(300)])
        squares = (draws - 0.5) ** 2
        assert abs(squares.mean() - 1 / (4 * (2 * alpha + 1))) < 5 * squares.std() / np.sqrt(squares.size)


def test_families_change_their_time_too():
    family = random_mdp().with_time(False)
    assert family.shape == family.instance(1).shape
    assert not family.shape.homogeneous
    assert family.with_time(False) is family
    assert family.instance(1).optimal_value == pytest.approx(random_mdp(instance=1).optimal_value, rel=1e-14)


@pytest.mark.parametrize("sigma", [0.02, 0.1, 1.0])
def test_bandit_means_are_the_normal_integral(sigma):
    for centre in (0.0, 0.03, 0.5, 0.99):
        law = stats.norm(centre, sigma)
        inside, _ = integrate.quad(lambda x, law=law: x * law.pdf(x), 0, 1, points=[centre], epsabs=1e-13)
        exact = inside + law.sf(1)
        assert clipped_normal_mean(np.array([centre]), sigma)[0] == pytest.approx(exact, abs=1e-11)


def test_bandit():
    world = bandit(arms=5, sigma=0, instance=3)
    assert world.means.max() <= 0.99
    noisy = bandit(arms=5, instance=3)
    assert (np.argsort(noisy.means) == np.argsort(world.means)).all()
    assert world.optimal_value == world.means.max()
    assert noisy.shape == bandit(arms=5).shape
    assert (noisy.shape.horizon, noisy.shape.states, noisy.shape.start) == (1, 1, 0)


TRANSITIONS = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.3, 0.7]]])
REWARDS = np.array([[0.0, 0.2], [1.0, 0.4]])


def test_from_arrays_takes_every_combination_of_per_step_tables():
    P, r = np.stack([TRANSITIONS] * 3), np.stack([REWARDS] * 3)
    worlds = [
        from_arrays(TRANSITIONS, REWARDS, 3),
        from_arrays(P, REWARDS),
        from_arrays(TRANSITIONS, r),
        from_arrays(P, r, 3),
    ]
    assert [world.homogeneous for world in worlds] == [True, False, False, False]
    for world in worlds:
        assert world.optimal_value == pytest.approx(worlds[0].optimal_value, rel=1e-14)


def test_from_arrays_starts():
    assert from_arrays(TRANSITIONS, REWARDS, 1).shape.start == 0
    assert from_arrays(TRANSITIONS, REWARDS, 1, start=1).shape.start == 1
    assert from_arrays(TRANSITIONS, REWARDS, 1, start=[0.5, 0.5]).shape.start is None
    world = from_arrays(TRANSITIONS, 5 * REWARDS, 1, reward_range=(0, 5), reward_law="deterministic", name="mine")
    assert (world.name, world.reward_range) == ("mine", (0, 5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: from_arrays(TRANSITIONS, REWARDS), "pass horizon="),
        (lambda: from_arrays(TRANSITIONS, [REWARDS] * 3, 4), r"they say \[3, 4\]"),
        (lambda: from_arrays(TRANSITIONS, REWARDS[0], 3), r"shape \(S, A, S\)"),
        (lambda: from_arrays(TRANSITIONS, REWARDS[:, :1], 3), r"shape \(S, A, S\)"),
        (lambda: from_arrays(TRANSITIONS, REWARDS, 0), "at least 1, got 0"),
        (lambda: from_arrays(TRANSITIONS, REWARDS, 3, start=2), r"state in 0\.\.1, got 2"),
        (lambda: from_arrays(TRANSITIONS, REWARDS, 3, start=[1.0]), r"shape \(2,\)"),
        (lambda: from_arrays(TRANSITIONS, REWARDS, 3, reward_law="bernouli"), "did you mean bernoulli"),
        (lambda: from_arrays(TRANSITIONS, 2 * REWARDS, 3), r"must lie in \[0, 1\]"),
        (lambda: from_arrays("words", REWARDS, 3), "transitions must be an array of numbers"),
        (lambda: river_swim(states=1), "states must be a whole number of at least 2"),
        (lambda: river_swim(horizon=0), "horizon"),
        (lambda: random_mdp(actions=1), "actions must be a whole number of at least 2"),
        (lambda: random_mdp(alpha=0), "alpha"),
        (lambda: random_mdp(instance=-1), "instance must be a whole number of at least 0"),
        (lambda: random_mdp().instance(0.5), "instance must be a whole number"),
        (lambda: bandit(arms=0), "arms"),
        (lambda: bandit(sigma=-1), "sigma"),
    ],
)
def test_bad_inputs_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()

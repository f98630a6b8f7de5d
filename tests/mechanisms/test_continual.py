"""Recipes that release prefix sums again and again: guarantee, clocks of rows, stated noise, and learning with them."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.policies import Policy, uniform_policy
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.noise import Gaussian
from discreet.noise.calibration import calibrate_noise
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.registry import build
from discreet.simulation.episode_loop import compiles

WORLD = discreet.worlds.river_swim(states=3, horizon=4)
MATRIX = "central/first-visit-matrix"
LEFT, RIGHT = (Context(Policy(np.full((4, 3), action, np.int64))) for action in (0, 1))


def made(recipe, episodes=200, **options):
    return build(discreet.Central(1.0, 1e-5, recipe=recipe, options=options), WORLD.shape, episodes)


@pytest.mark.parametrize("recipe", [MATRIX, "central/joint-histogram-matrix"])
def test_the_guarantee_is_the_gaussian_one_at_the_factorisations_own_norm(recipe):
    privatizer = made(recipe)
    channel = privatizer.channels[0]
    moved = channel.accumulator.sensitivity(channel.encoder.sensitivity()).l2
    assert privatizer.guarantee.profile.mu == pytest.approx(moved / channel.law.sigma, rel=1e-9)
    assert privatizer.guarantee.model == "joint"
    assert privatizer.guarantee.epsilon == pytest.approx(1.0, rel=1e-4)


def test_a_row_advances_only_while_the_policy_plays_it():
    privatizer = made(MATRIX)
    channel = privatizer.channels[0]
    run = channel.start(WORLD.shape, SimulatedNoise(np.random.default_rng(0)), masked=True)
    for context in (RIGHT, RIGHT, LEFT, RIGHT):
        run.add(np.zeros(channel.encoder.size), 10, context)
    variance = run.estimates()["visits"].variance[0] / channel.law.variance
    np.testing.assert_allclose(variance[:, 1], channel.accumulator.errors()[3])
    np.testing.assert_allclose(variance[:, 0], channel.accumulator.errors()[1])


def test_released_noise_has_the_stated_variance_and_width():
    """400 runs of 6 cells: a sample variance is within 15% (5 standard errors), a wrong one of 2/3 or 3/2 is not."""
    privatizer = made(MATRIX, episodes=6)
    channel = privatizer.channels[0]
    rng = np.random.default_rng(1)
    ends = []
    for _ in range(400):
        run = channel.start(WORLD.shape, SimulatedNoise(rng), masked=False)
        for _ in range(6):
            run.add(np.zeros(channel.encoder.size), 1, Context(uniform_policy(WORLD.shape)))
        ends.append(run.estimates()["visits"].values.reshape(-1))
    stated = run.estimates()["visits"].variance.max()
    assert np.var(ends) == pytest.approx(stated, rel=0.15)
    width = run.width_now()(1, 0.1).max()
    assert (np.abs(ends) > width).mean() == pytest.approx(0.1, abs=0.035)


def test_a_release_after_every_user_runs_in_the_compiled_loop_when_it_may():
    learner = discreet.learners.UCBVI()
    assert compiles(learner, made(MATRIX, blocks=200, masked=False))
    assert not compiles(learner, made(MATRIX, blocks=200))
    per_step = build(
        discreet.Central(1.0, 1e-5, recipe="central/joint-histogram-matrix", options={"blocks": 50, "masked": False}),
        WORLD.with_time(homogeneous=False).shape,
        50,
    )
    assert not compiles(learner, per_step)  # its last step has cells that are known zeros


@pytest.mark.parametrize("recipe", [MATRIX, "central/joint-histogram-matrix"])
def test_the_matrix_can_be_released_in_earnest(recipe):
    """With noise from the operating system, whole steps are published, and no line of the derivation objects."""
    privatizer = made(recipe, episodes=12)
    channel = privatizer.channels[0]
    run = channel.start(WORLD.shape, SecureNoise(), masked=False)
    tally = np.arange(channel.encoder.size, dtype=float) % 3
    for _ in range(12):
        run.add(tally, 1, RIGHT)
    off = run.estimates()["visits"].values - 12 * channel.encoder.marginals(tally)["visits"].values
    width = run.width_now()(int(channel.cells_per_count()["visits"]), 1e-9)
    assert (np.abs(off) <= width).all()
    assert np.abs(off).max() > 0.05 * width.max()
    assert channel.law.discrete
    assert "simulation only" not in privatizer.guarantee.explain()
    assert "steps of 2^-32" in privatizer.guarantee.explain()


def test_the_grid_costs_next_to_nothing():
    """Against continuous Gaussian noise and a column norm without floors: less than a thousandth."""
    privatizer = made(MATRIX, episodes=20_000)
    channel = privatizer.channels[0]
    own = channel.encoder.sensitivity().l2 * channel.accumulator.column_norm
    continuous = calibrate_noise(Gaussian, Sensitivity(1e6, own, 1), epsilon=1.0, delta=1e-5)
    assert continuous.sigma < channel.law.sigma < 1.001 * continuous.sigma


def test_auto_takes_the_matrix_where_a_delta_is_given_and_focused_blocks_where_it_is_not():
    world = discreet.worlds.river_swim(states=6, horizon=20)
    target = discreet.Central(1.0, 1e-5)
    short = discreet.worlds.river_swim(states=4, horizon=6).with_time(homogeneous=False)
    assert build(target, short.shape, 20_000).recipe == "central/two-tables-matrix"
    assert build(target, world.shape, 20_000).recipe == MATRIX
    assert build(discreet.Central(1.0), world.shape, 20_000).recipe == "central/focused-first-visit-laplace"


def test_the_matrix_learns_river_swim():
    world = discreet.worlds.river_swim(states=4, horizon=6)
    result = discreet.simulate(
        world, discreet.learners.UCBVI(), discreet.Central(1.0, 1e-5, recipe=MATRIX), episodes=20_000, runs=4, seed=5
    )
    assert result.regret[:, -1].max() < 2200
    assert result.final_gap.max() < 0.05

"""The posterior of noisy counts: exact without noise, calibrated with it, never NaN.

Coverage is tested on rows drawn from about the prior, with the noise that is stated; the twin states a third of it.
Seeds are fixed, so there are no false alarms while the code is as it is.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.base.shape import Shape
from discreet.base.streams import COINS, stream
from discreet.base.types import Floats
from discreet.learners import BeliefUCBVI
from discreet.learners.base import Problem
from discreet.learners.belief import Belief, belief_of, believe, expect, half_normal
from discreet.learners.saved_learners import load_state, save_state
from discreet.mechanisms.release import Statistics

S, A, ROWS = 6, 4, 24
SHAPE = Shape(S, A, 5, homogeneous=True)
VALUES = np.array([0.0, 1.0, 3.0, 0.5, 2.0, 4.0])


def believed(statistics: Statistics, users: int = 1000, exploring: bool = False) -> Belief:
    belief = belief_of(SHAPE, 1.0, 1.0, users, exploring)
    believe(belief, statistics)
    return belief


def told(seed: int, noise: float, stated: float, visits: float = 2000.0) -> tuple[Statistics, Floats, Floats]:
    """Counts of rows drawn from about the prior with noise, of which ``stated`` is said; true rewards and laws."""
    rng = np.random.default_rng(seed)
    n = np.round(rng.uniform(0.2, 1.0, ROWS) * visits)
    means = rng.random(ROWS)
    follows = rng.random((S, ROWS)) < 0.4
    follows[rng.integers(S, size=ROWS), np.arange(ROWS)] = True
    laws = rng.exponential(size=(S, ROWS)) * follows
    laws /= laws.sum(axis=0)
    moves = np.stack([rng.multinomial(int(n[row]), laws[:, row]) for row in range(ROWS)], axis=1)
    rewards = rng.binomial(n.astype(int), means)
    units = [
        scale * noise * rng.standard_normal(shape) for scale, shape in ((2.0, ROWS), (1.0, (S, ROWS)), (1.5, ROWS))
    ]
    deviations = [np.full(ROWS, scale * stated) for scale in (2.0, 1.0, 1.5)]
    return Statistics(n + units[0], moves + units[1], rewards + units[2], *deviations), means, laws


def errors(noise: float, stated: float) -> tuple[float, float]:
    """Root mean squares of the errors of rewards and of P V, in deviations that are stated, over 60 worlds."""
    rewards, futures = [], []
    for seed in range(60):
        statistics, means, laws = told(seed, noise, stated)
        belief = believed(statistics)
        rewards.append((belief.reward - means) / np.sqrt(belief.reward_variance))
        expect(belief, VALUES, 0)
        least = np.clip(belief.reward - np.sqrt(belief.reward_variance), 0, 1)
        mean = belief.table.reshape(-1) - least + belief.deviation.reshape(-1)  # the plan subtracts one deviation
        futures.append((mean - VALUES @ laws) / belief.deviation.reshape(-1))
    return tuple(float(np.sqrt(np.mean(np.square(each)))) for each in (rewards, futures))  # type: ignore[return-value]


def test_without_noise_counts_are_what_they_are() -> None:
    statistics, _, _ = told(1, 0.0, 0.0)
    belief = believed(statistics)
    assert np.array_equal(belief.visits, statistics.visits)
    assert np.array_equal(belief.moves, statistics.transitions)
    assert not belief.move_variance.any()
    assert np.array_equal(belief.total, statistics.transitions.sum(axis=0))
    q = (statistics.rewards + 1) / (statistics.visits + 2)
    errors_squared = q * (1 - q) / statistics.visits
    kept = (1 / 12) / (1 / 12 + errors_squared)
    assert belief.reward == pytest.approx(0.5 + kept * (statistics.rewards / statistics.visits - 0.5))


@pytest.mark.parametrize("noise", [0.0, 5.0, 30.0, 100.0, 300.0])
def test_deviations_are_as_large_as_errors(noise: float) -> None:
    rewards, futures = errors(noise, noise)
    assert 0.9 < rewards < 1.2
    assert 0.85 < futures < 1.15


@pytest.mark.parametrize("noise", [30.0, 100.0])
def test_a_third_of_the_noise_is_found_to_be_too_little(noise: float) -> None:
    rewards, futures = errors(noise, noise / 3)
    assert rewards > 2
    assert futures > 2


def test_a_row_that_nobody_knows_has_the_prior() -> None:
    nothing = Statistics(np.zeros(ROWS), np.zeros((S, ROWS)), np.zeros(ROWS), *np.zeros((3, ROWS)))
    belief = believed(nothing)
    assert np.all(belief.reward == 0.5)
    assert belief.reward_variance == pytest.approx(np.full(ROWS, 1 / 12))
    expect(belief, VALUES, 0)
    assert belief.deviation == pytest.approx(np.full((S, A), math.sqrt(0.5) * 4.0))


def test_a_state_that_nobody_comes_to_is_no_successor_by_noise() -> None:
    """Counts of two deviations in a column of noise are taken for noise, and among true ones they are not."""
    statistics, _, _ = told(3, 0.0, 0.0)
    rng = np.random.default_rng(5)
    moves, noise = statistics.transitions + 30 * rng.standard_normal((S, ROWS)), np.full(ROWS, 30.0)
    moves[0] = 30 * rng.standard_normal(ROWS)
    moves[0, 0] = moves[1, 0] = 60.0
    known = statistics._replace(transitions=moves, transition_noise=noise)
    belief = believed(known)
    assert belief.weight[0] < 0.15 < 0.3 < belief.weight[1]
    assert belief.moves[0, 0] < 0.6 * belief.moves[1, 0]


def test_optimism_grows_for_a_row_that_is_not_visited_any_more() -> None:
    statistics, _, _ = told(1, 30.0, 30.0)
    few, many = (believed(statistics, users, exploring=True).longer for users in (1_000, 100_000))
    assert np.all(many > few)
    assert few == pytest.approx(np.sqrt(2 * np.log(1 + 1001 / (believed(statistics).visits + 1))), rel=1e-9)


def test_extreme_counts_give_numbers() -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([0.0, 1e-300, 1e-9, 0.3, 1.0, 40.0, 1e4, 1e9, 1e150])

    def some(*shape: int) -> Floats:
        return np.asarray(rng.choice([-1.0, 1.0], shape) * rng.choice(sizes, shape))

    for _ in range(300):
        noise = [np.abs(rng.choice(sizes[:-1], ROWS)) for _ in range(3)]
        belief = believed(Statistics(some(ROWS), some(S, ROWS), some(ROWS), *noise), exploring=bool(rng.integers(2)))
        expect(belief, VALUES, 0)
        for name, array in belief._asdict().items():
            assert np.all(np.isfinite(array)), name
        assert np.all((belief.table >= 0) & (belief.table <= 5))
        assert np.all(belief.move_variance >= 0)


@pytest.mark.parametrize("mean", [-40.0, -9.0, -7.0, -1.0, 0.0, 2.0, 7.0])
def test_a_normal_number_that_is_not_negative(mean: float) -> None:
    """Against sums over a grid, with a deviation of 1."""
    x = np.linspace(0, max(mean, 0) + 12 / max(1.0, -mean) + 8, 400_001)
    log = -0.5 * (x - mean) ** 2
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    first = float(weights @ x)
    found, variance = half_normal(mean, 1.0)
    assert found == pytest.approx(first, rel=0.02)
    assert variance == pytest.approx(float(weights @ (x - first) ** 2), rel=0.06)


NOISY = discreet.Central(2.0, 1e-5)


def test_the_learner_is_ucbvi_without_noise_and_in_bandits() -> None:
    world, arms = discreet.worlds.river_swim(states=3, horizon=4), discreet.worlds.bernoulli_arms("0.6,0.4")
    for place, privacy, same in ((world, None, True), (arms, NOISY, True), (world, NOISY, False)):
        found = [
            discreet.simulate(place, name, privacy, episodes=600, seed=3, threads=1).regret
            for name in ("ucbvi", "belief-ucbvi")
        ]
        assert np.array_equal(*found) == same


def test_a_state_that_was_saved_goes_on_bit_for_bit() -> None:
    """Also what is recommended: it comes from the last release, which is weighed anew when a state is loaded."""
    world, learner = discreet.worlds.river_swim(states=3, horizon=4), BeliefUCBVI()
    problem = Problem(world.shape, 600)
    released = discreet.simulate(world, learner, NOISY, episodes=600, keep_release=True, threads=1).releases[0]
    state = learner.update(learner.init(problem, stream(1, 0, COINS)), released)
    again = load_state(learner, problem, released, save_state(learner, state))
    assert learner.recommend(again) == learner.recommend(state)
    assert learner.update(again, released).policy == learner.update(state, released).policy


@pytest.mark.parametrize("knob", ["chance", "noise", "doubt", "range_scale"])
def test_knobs_are_not_negative(knob: str) -> None:
    with pytest.raises(discreet.InvalidInput, match=knob):
        BeliefUCBVI(**{knob: -0.1})

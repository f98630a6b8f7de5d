"""PSRL: its samplers and posteriors against their laws, positivity where it is proved, and lock-in as a known property.

Statistical tests have fixed seeds and a false alarm rate of 1e-6 each, with a wrong law that they must reject.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import discreet
from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput
from discreet.base.policies import Mixture, Policy
from discreet.base.streams import COINS, stream
from discreet.learners.base import Problem
from discreet.learners.obi import OBI
from discreet.learners.psrl import PRIORS, PSRL, draw_world, even_mixture, gamma, normal
from discreet.mechanisms.release import Estimate, Release, Statistics
from discreet.privacy.guarantee import nothing

S, A, H, EPISODES = 3, 2, 4, 10_000
PROBLEM = Problem(discreet.Shape(S, A, H, homogeneous=True), EPISODES)
ROWS = S * A


@kernel
def _gammas(shape, coins, out):
    for i in range(out.shape[0]):
        out[i] = gamma(shape, coins)


@kernel
def _normals(coins, out):
    for i in range(out.shape[0]):
        out[i] = normal(coins)


@kernel
def _worlds(learner, statistics, coins, rewards, models):
    for i in range(rewards.shape[0]):
        draw_world(learner, statistics, coins)
        rewards[i] = learner.reward
        models[i] = learner.model


def statistics(visits=50.0, rewards=20.0, transitions=(30.0, 15.0, 5.0), sd=0.0):
    full = np.full(ROWS, 1.0)
    return Statistics(
        visits * full,
        np.tile(np.array(transitions)[:, None], (1, ROWS)),
        rewards * full,
        sd * full,
        sd * full,
        sd * full,
    )


def draws(prior, counts, n=6000, seed=0):
    learner = PSRL(prior=prior).arrays(PROBLEM)
    learner.clock[0] = 100.0
    rewards, models = np.empty((n, ROWS)), np.empty((n, S, ROWS))
    _worlds(learner, counts, stream(seed, 0, COINS), rewards, models)
    return rewards[:, 0], models[:, :, 0]


@pytest.mark.parametrize("shape", [0.2, 1.0, 2.5, 400.0])
def test_gamma_draws(shape):
    out = np.empty(20_000)
    _gammas(shape, stream(3, 0, COINS), out)
    assert stats.kstest(out, stats.gamma(shape).cdf).pvalue > 1e-6
    assert abs(out.mean() - shape) < 5 * math.sqrt(shape / len(out))
    assert stats.kstest(out, stats.gamma(shape, scale=1.5).cdf).pvalue < 1e-6


def test_normal_draws():
    out = np.empty(20_000)
    _normals(stream(4, 0, COINS), out)
    assert stats.kstest(out, stats.norm.cdf).pvalue > 1e-6
    assert stats.kstest(out, stats.norm(scale=1.5).cdf).pvalue < 1e-6


def test_the_posterior_of_clear_counts_is_the_textbook_one():
    """Unit prior: mean rewards are Student's t, a transition probability is a beta."""
    rewards, models = draws("unit", statistics())
    n, total = 50, 20
    mean = (0.5 + total) / (1 + n)
    beta = 1 + (total + 0.25 - (1 + n) * mean**2) / 2
    degrees, spread = 2 * (1 + n / 2), math.sqrt(beta / ((1 + n / 2) * (1 + n)))
    assert stats.kstest(rewards, stats.t(degrees, mean, spread).cdf).pvalue > 1e-6
    assert stats.kstest(rewards, stats.t(degrees, mean, 1.5 * spread).cdf).pvalue < 1e-6
    alpha = np.array([30, 15, 5]) + 1 / 3
    assert stats.kstest(models[:, 0], stats.beta(alpha[0], alpha.sum() - alpha[0]).cdf).pvalue > 1e-6
    assert stats.kstest(models[:, 0], stats.beta(alpha[0] / 2, (alpha.sum() - alpha[0]) / 2).cdf).pvalue < 1e-6
    np.testing.assert_allclose(models.sum(axis=1), 1.0)


def rejects(drawn, law) -> bool:
    """Kolmogorov and Smirnov against a distribution function or a sample, at the false alarm rate 1e-6."""
    return bool((stats.kstest(drawn, law) if callable(law) else stats.ks_2samp(drawn, law)).pvalue < 1e-6)


@pytest.mark.parametrize("sd", [0.0, 50.0])
def test_the_noise_prior_draws_rewards_as_uncertain_as_chance_and_noise_make_them(sd):
    rewards, _ = draws("noise", statistics(visits=500.0, rewards=200.0, sd=sd))
    mean, k = 200.5 / 501, PSRL().noise_scale
    spread = math.sqrt(mean * (1 - mean) / 501 + k**2 * (sd**2 + mean**2 * sd**2) / 501**2)
    assert not rejects(rewards, stats.norm(mean, spread).cdf)
    assert rejects(rewards, stats.norm(mean, 1.3 * spread).cdf)
    assert rejects(rewards, stats.norm(mean + spread / 4, spread).cdf)


def test_where_noise_lasts_a_row_that_was_left_behind_is_drawn_more_widely():
    """Two states, their actions with 2,000 and 500 and with 400 and 200 visits, the same noise: as the formula says."""
    counts, sd = statistics(rewards=0.0, sd=50.0), 50.0
    counts.visits[:] = [2000.0, 500.0, 400.0, 200.0, 400.0, 200.0]
    counts.rewards[:] = 0.4 * counts.visits
    rows = (1, S, A)
    release = Release({}, 100, nothing(), lambda cells, tail: np.zeros(rows), noise_lasts=True)
    rewards, models = np.empty((6000, ROWS)), np.empty((6000, S, ROWS))
    _worlds(PSRL().arrays_after(PROBLEM, release), counts, stream(8, 0, COINS), rewards, models)
    for row, n, behind in ((0, 2000, 0.0), (1, 500, math.log(4)), (3, 200, math.log(2))):
        mean, k = (0.4 * n + 0.5) / (n + 1), 2 / 3 * PSRL().noise_scale * math.sqrt(1 + 3 * behind)
        spread = math.sqrt(mean * (1 - mean) / (n + 1) + k**2 * (1 + mean**2) * sd**2 / (n + 1) ** 2)
        assert not rejects(rewards[:, row], stats.norm(mean, spread).cdf)
        plain = math.sqrt(mean * (1 - mean) / (n + 1) + 0.6**2 * (1 + mean**2) * sd**2 / (n + 1) ** 2)
        assert rejects(rewards[:, row], stats.norm(mean, plain).cdf)  # the same k for all


@pytest.mark.parametrize(("lasts", "horizon"), [(False, H), (True, 1)])
def test_where_noise_does_not_last_and_in_bandits_all_rows_are_drawn_alike(lasts, horizon):
    problem = Problem(discreet.Shape(S, A, horizon, homogeneous=True), EPISODES)
    release = Release({}, 100, nothing(), lambda cells, tail: np.zeros((1, S, A)), noise_lasts=lasts)
    arrays = PSRL().arrays_after(problem, release)
    assert (arrays.noise_scale, arrays.longer) == (PSRL().noise_scale, 0.0)


def test_the_noise_prior_keeps_rewards_in_their_range():
    rewards, _ = draws("noise", statistics(visits=3.0, rewards=-40.0, sd=30.0))
    assert rewards.min() == 0.0
    assert rewards.max() == 1.0


def test_without_noise_a_row_is_dirichlet_with_one_visit_more_at_a_random_successor():
    _, models = draws("noise", statistics(visits=5.0, rewards=2.0, transitions=(3.0, 2.0, 0.0)))

    def law(x):
        """Three counts in five, with the visit more at this successor (one in three times) or at another one."""
        return stats.beta(4, 2).cdf(x) / 3 + 2 * stats.beta(3, 3).cdf(x) / 3

    assert not rejects(models[:, 0], law)
    assert rejects(models[:, 0], stats.beta(3, 2).cdf)  # what was never seen forgotten
    assert rejects(models[:, 0], stats.beta(4, 2).cdf)  # or always here
    # A successor without visits is possible in one world of three, and not a little in all of them.
    assert stats.binomtest(int((models[:, 2] > 0).sum()), len(models), 1 / 3).pvalue > 1e-6
    np.testing.assert_allclose(models.sum(axis=1), 1.0)


def plain_rows(counts, sd, seed, noise=1.0, cut=1.5):
    """The formulas of the module for one row, in NumPy; ``noise`` and ``cut`` are there to get them wrong."""
    rng, k, n = np.random.default_rng(seed), PSRL().noise_scale, 6000
    weights = np.zeros((n, S))
    for t, count in enumerate(counts):
        if count > cut * sd:
            shapes = count + noise * k * sd * rng.normal(size=n)
            weights[:, t] = np.where(shapes > 0, rng.gamma(np.maximum(shapes, 1e-9)), 0.0)
    weights[np.arange(n), rng.integers(S, size=n)] += rng.gamma(1 + 1.5 * k * sd, size=n)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("successor", range(S))
def test_with_noise_a_row_has_the_law_of_the_formulas(successor):
    counts, sd = (400.0, 120.0, 40.0), 60.0  # the last one does not stand out of the noise
    _, models = draws("noise", statistics(visits=560.0, rewards=200.0, transitions=counts, sd=sd))
    drawn, other = models[:, successor], plain_rows(counts, sd, seed=successor)
    assert not rejects(drawn, other[:, successor])
    assert abs(drawn.mean() - other[:, successor].mean()) < 0.01
    if successor == 0:
        assert rejects(drawn, plain_rows(counts, sd, seed=0, noise=0.0)[:, 0])  # as if counts were exact
    if successor == 2:
        assert rejects(drawn, plain_rows(counts, sd, seed=0, cut=0.5)[:, 2])  # as if everything stood out


def told(users):
    """A release about a world in which next to nothing is known, so that draws differ."""
    rows = (1, S, A)
    tables = {
        "visits": Estimate(np.ones(rows), np.zeros(rows)),
        "transitions": Estimate(np.full((*rows, S), 1 / S), np.zeros(rows)),
        "rewards": Estimate(np.full(rows, 0.5), np.zeros(rows)),
    }
    return Release(tables, users, nothing(), lambda cells, tail: np.zeros(rows))


def test_a_block_follows_several_draws_and_a_single_user_one():
    learner = PSRL()
    start = learner.init(PROBLEM, stream(5, 0, COINS))
    many = learner.update(start, told(100))
    assert isinstance(many.policy, Mixture)
    assert len(many.policy.components) == learner.draws  # so many ways to be wrong that no two are the same
    np.testing.assert_allclose(many.policy.weights, 1 / learner.draws)
    assert learner.ask(many).policy == many.policy
    assert isinstance(learner.update(many, told(101)).policy, Policy)  # one user more since the last release
    assert len(learner.update(many, told(103)).policy.components) == 3
    assert isinstance(PSRL(draws=1).update(start, told(100)).policy, Policy)
    assert learner.update(start, told(100)).policy == many.policy  # pure
    assert isinstance(learner.recommend(many), Policy)


def test_draws_that_agree_are_one_component():
    one, other = (Policy(np.full((H, S), action, np.int64)) for action in (0, 1))
    assert even_mixture([one, one, one]) == one
    mixture = even_mixture([one, other, one, one])
    assert mixture == Mixture((one, other), [0.75, 0.25])


@pytest.mark.parametrize("make", [PSRL, OBI], ids=["psrl", "obi"])
def test_the_plan_that_is_recommended_neither_draws_nor_adds(make):
    release = told(100)
    for name, table in (("visits", [50.0, 0.0]), ("rewards", [5.0, 0.0])):
        release.statistics[name].values[:] = table  # the first action is poor, the second was never tried
    release.statistics["transitions"].values[:] *= np.array([50.0, 0.0])[:, None]
    for seed in range(5):
        state = make().update(make().init(PROBLEM, stream(seed, 0, COINS)), release)
        assert make().recommend(state) == Policy(np.zeros((H, S), np.int64))
        assert make().policy(state) != make().recommend(state)  # it would explore


def test_the_published_prior_is_not_positive_and_the_other_is():
    """At N = -0.9 c and R = c, inside the bounds, the published rate is negative (and far so at -0.99 c)."""

    def rate(lambda0, beta0, seen, earned, squares):
        precision = lambda0 + seen
        return beta0 + 0.5 * (squares - earned**2 / precision)

    c = 1000.0
    assert rate(c, 5 * c, -0.9 * c, c, -c) == pytest.approx(-0.5 * c)
    assert rate(c, 5 * c, -0.99 * c, c, -c) == pytest.approx(-45.5 * c)
    for true in (0.0, 10.0, 5000.0):
        for earned in np.linspace(0.0, true, 5):
            for error in ([-c, c, -c], [c, c, -c], [-c, -c, -c], [0.0, c, -c]):
                seen, noisy, squares = true + error[0], earned + error[1], earned + error[2]
                assert rate(2 * c, 2 * c, seen, noisy, squares) >= -1e-9
    for prior in PRIORS:  # whatever the prior, a world can be drawn from any counts
        rewards, models = draws(prior, statistics(-900.0, 1000.0, (-1e6, 5.0, 1e6), sd=50.0), n=50)
        assert np.isfinite(rewards).all()
        np.testing.assert_allclose(models.sum(axis=1), 1.0)


def locked(prior):
    """How many of 16 runs end up playing the worse of two arms in at least 90% of 200,000 episodes."""
    arms = discreet.worlds.from_arrays([[[1.0], [1.0]]], [[0.4, 0.6]], horizon=1)
    privacy = discreet.Local(2.0, recipe="local/three-tables-laplace", options={"masked": False, "growth": 0.1})
    result = discreet.simulate(arms, PSRL(prior=prior), privacy, episodes=200_000, runs=16, seed=3)
    return int((result.total_regret > 0.9 * 0.2 * 200_000).sum())


@pytest.mark.parametrize("prior", ["published", "positive"])
def test_priors_that_outweigh_the_data_lock_in(prior):
    assert locked(prior) >= 2


def test_the_noise_prior_does_not_lock_in():
    assert locked("noise") == 0


@pytest.mark.parametrize("homogeneous", [True, False])
def test_it_learns(homogeneous):
    world = discreet.worlds.random_mdp(instance=7).with_time(homogeneous)
    uniform = world.gap(discreet.base.policies.uniform_policy(world.shape))
    for privacy in (discreet.Local(5.0), discreet.Local(5.0, recipe="local/joint-histogram-laplace")):
        result = discreet.simulate(world, PSRL(), privacy, episodes=20_000, runs=2, seed=3)
        assert (result.total_regret / 20_000 < 0.3 * uniform).all()


def test_wrong_knobs_are_refused():
    with pytest.raises(InvalidInput, match="noise"):
        PSRL(prior="noisy")
    with pytest.raises(InvalidInput, match="failure_probability"):
        PSRL(failure_probability=0.0)
    with pytest.raises(InvalidInput, match="noise_scale"):
        PSRL(noise_scale=-1.0)
    with pytest.raises(InvalidInput, match="draws"):
        PSRL(draws=0)

"""Users drawn at once have the law of users simulated one by one, cell by cell, and wrong laws are told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import discreet
from discreet.base.policies import Mixture, Policy, StochasticPolicy, uniform_policy
from discreet.base.streams import COINS, USERS, generator, stream
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.first_visit import FirstVisit
from discreet.mechanisms.counts.first_visit_question import AskedFirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.simulation import users as users_module
from discreet.simulation.users import AtOnce, TabularUsers

RIVER = discreet.worlds.river_swim(states=3, horizon=3)
RANDOM = discreet.worlds.random_mdp(instance=4)
RIGHT = Policy(np.ones((3, 3), np.int64))
FALSE_ALARM = 1e-6


def chi_square(observed, expected_probabilities):
    """The p-value of counts under probabilities; impossible cells must be empty."""
    possible = expected_probabilities > 0
    assert not observed[~possible].any()
    n = observed.sum()
    expected = n * expected_probabilities[possible]
    statistic = ((observed[possible] - expected) ** 2 / expected).sum()
    return stats.chi2.sf(statistic, possible.sum() - 1)


@pytest.mark.parametrize("world", [RIVER, RANDOM, RIVER.with_time(homogeneous=False)], ids=["river", "random", "steps"])
@pytest.mark.parametrize("kind", [SampledStep, JointHistogram, ThreeTables, TwoTables])
def test_tallies_at_once_agree_with_simulated_users_in_the_mean(world, kind, monkeypatch):
    encoder = kind(world.shape)
    policy = uniform_policy(world.shape)
    n = 200_000
    at_once = AtOnce(world, np.random.default_rng(0)).tally(encoder, policy, n)
    monkeypatch.setattr(users_module, "_MANY", 10**9)
    one_by_one = TabularUsers(world, stream(1, 0, USERS), generator(1, 0, COINS)).tally([encoder], Context(policy), n)[
        0
    ]
    # A user adds at most H to a cell, so the difference has at most this standard deviation.
    H = world.horizon
    sd = np.sqrt(H * np.maximum(1.0, at_once + one_by_one))
    assert (np.abs(at_once - one_by_one) < 6 * sd).all()
    assert at_once.sum() > 0


def test_an_item_of_the_sampled_step_has_the_exact_law_and_a_wrong_law_is_rejected():
    encoder = SampledStep(RIVER.shape)
    cascade = AtOnce(RIVER, np.random.default_rng(3))
    items, asked = encoder.split(cascade.tally(encoder, RIGHT, 300_000))
    assert asked.sum() == 300_000
    # By hand: state 1 at step 1 has probability 0.6; going up from there 0.35; no reward below the last state.
    second = items[1].reshape(-1)
    law = np.zeros(items[1].shape)
    law[0, 1, 0, 0], law[0, 1, 1, 0] = 0.4 * 0.4, 0.4 * 0.6
    law[1, 1, 0, 0], law[1, 1, 1, 0], law[1, 1, 2, 0] = 0.6 * 0.05, 0.6 * 0.6, 0.6 * 0.35
    assert chi_square(second, law.reshape(-1)) > FALSE_ALARM
    wrong = law.copy()
    wrong[0, 1, 0, 0], wrong[0, 1, 1, 0] = 0.4 * 0.42, 0.4 * 0.58
    assert chi_square(second, wrong.reshape(-1)) < FALSE_ALARM


@pytest.mark.parametrize("weights", [None, (0, 3, 1, 1, 2, 5)], ids=["even", "weighted"])
def test_answers_about_first_visits_have_the_law_of_users_one_by_one(weights, monkeypatch):
    """Two samples of the same law, question by question; with another policy, or every visit, they are told apart."""
    encoder = AskedFirstVisit(RIVER.shape, weights)
    n = 300_000
    at_once = AtOnce(RIVER, np.random.default_rng(2)).tally(encoder, uniform_policy(RIVER.shape), n)
    monkeypatch.setattr(users_module, "_MANY", 10**9)
    people = TabularUsers(RIVER, stream(1, 0, USERS), generator(1, 0, COINS))
    one_by_one = people.tally([encoder], Context(uniform_policy(RIVER.shape)), n)[0]
    tilted = StochasticPolicy(np.broadcast_to([0.48, 0.52], (3, 3, 2)))
    others = people.tally([encoder], Context(tilted), n)[0]
    assert at_once.sum() > n  # answers, and who was asked
    assert alike(encoder, at_once, one_by_one) > FALSE_ALARM
    assert alike(encoder, at_once, others) < FALSE_ALARM


def alike(encoder, first, second):
    """The p-value of two tallies of answers having one law: the answers to all questions, and "none" of each."""
    tables = []
    for tally in (first, second):
        answers, asked = encoder.split(tally)
        moves, bits = encoder.successors(answers), encoder.bits(answers)
        none = [asked[:, 0] - moves.sum(axis=0), asked[:, 1] - bits.sum(axis=0)]
        tables.append(np.concatenate([moves, bits, none]).reshape(-1))
    seen = np.sum(tables, axis=0) > 0
    return stats.chi2_contingency(np.stack(tables)[:, seen])[1]


def test_first_visits_by_hand():
    """From the left of RiverSwim, always right: state 1 is reached with 0.6 at once and 0.4 * 0.6 a step later."""
    visited, followed = AtOnce(RIVER, np.random.default_rng(0))._first_visits(RIGHT, np.arange(6))
    np.testing.assert_allclose(visited, [0, 1, 0, 0.84, 0, 0.21])
    np.testing.assert_allclose(followed, [0, 1, 0, 0.6, 0, 0])


@pytest.mark.parametrize("instance", range(6))
def test_laws_that_rounding_leaves_above_one_are_drawn_all_the_same(instance):
    world = discreet.worlds.random_mdp(states=8, actions=3, horizon=8, instance=instance)
    people, encoder = AtOnce(world, np.random.default_rng(0)), AskedFirstVisit(world.shape)
    for seed in range(10):
        policy = Policy(np.random.default_rng(seed).integers(0, 3, (8, 8)))
        tally = people.tally(encoder, policy, 1000)
        assert encoder.split(tally)[1].sum() == 1000


def test_counts_of_consecutive_steps_flow():
    """A cascade passes the same people on: who arrives at a step is who acts there."""
    encoder = JointHistogram(replace(RIVER.shape, homogeneous=False))
    tally = AtOnce(RIVER, np.random.default_rng(5)).tally(encoder, uniform_policy(RIVER.shape), 1000)
    table = tally.reshape(3, 3, 2, 4, 2)
    for h in range(2):
        np.testing.assert_array_equal(table[h, :, :, :3].sum(axis=(0, 1, 3)), table[h + 1].sum(axis=(1, 2, 3)))
    assert table[0].sum() == 1000


def test_variance_between_tallies_is_multinomial():
    """The number of people in a state is binomial: its variance over repetitions says so, 2/3 and 3/2 of it do not."""
    encoder = JointHistogram(RIVER.shape)
    cascade = AtOnce(RIVER, np.random.default_rng(7))
    n, repeats = 400, 4000
    first = [cascade.tally(encoder, RIGHT, n).reshape(3, 2, 4, 2)[2].sum() for _ in range(repeats)]
    # State 2 is reached at the last step only, with probability 0.6 * 0.35.
    p = 0.6 * 0.35
    ratio = np.var(first, ddof=1) / (n * p * (1 - p))
    low, high = stats.chi2.ppf([1e-6, 1 - 1e-6], repeats - 1) / (repeats - 1)
    assert low < ratio < high
    assert not low < ratio * 1.5 < high
    assert not low < ratio / 1.5 < high


def test_what_cannot_be_drawn_at_once_is_simulated():
    cascade = AtOnce(RIVER, np.random.default_rng(0))
    assert not cascade.serves(FirstVisit(RIVER.shape))
    assert not cascade.serves(SampledStep(RIVER.shape, 2))
    assert cascade.serves(SampledStep(RIVER.shape, 1))
    assert cascade.serves(ThreeTables(RIVER.shape, rounded=False))
    assert not AtOnce(RANDOM, np.random.default_rng(0)).serves(ThreeTables(RANDOM.shape, rounded=False))


def test_mixtures_are_drawn_by_component():
    left = Policy(np.zeros((3, 3), np.int64))
    people = TabularUsers(RIVER, stream(1, 0, USERS), generator(1, 0, COINS))
    encoder = JointHistogram(RIVER.shape)
    tally = people.tally([encoder], Context(Mixture((left, RIGHT), [0.25, 0.75])), 100_000)[0]
    by_action = tally.reshape(3, 2, 4, 2).sum(axis=(0, 2, 3))
    assert by_action.sum() == 300_000
    assert abs(by_action[0] / 300_000 - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 100_000)

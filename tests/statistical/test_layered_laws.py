"""Randomised tables and one-bit reports have the law that is certified; layered users follow theirs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.audit.trials import likelihood_of
from discreet.base.policies import StochasticPolicy, uniform_policy
from discreet.base.shape import layered_shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.noise.knorm import TableNoise
from discreet.problems.adversarial.encoders import LayeredTransitions, LayeredVisits, LossTable
from discreet.problems.adversarial.mechanisms import OneBitChannel
from discreet.problems.adversarial.simulator import LayeredUsers
from discreet.problems.adversarial.world import layered

pytestmark = pytest.mark.slow

SHAPE = layered_shape((1, 2, 2, 1), 2)
USERS_SENT = 40_000


def test_one_bit_reports_are_unbiased_with_the_stated_variance():
    """10 entries, 5 standard errors: false alarm below 1e-5. The twin has a table that is off by 15%."""
    channel = OneBitChannel(LossTable(SHAPE, rounded=False), 1.0)
    table = np.linspace(0.05, 0.95, 10)
    run = channel.start(SHAPE, SimulatedNoise(np.random.default_rng(2)), False)
    context, squares, last = Context(uniform_policy(SHAPE)), np.zeros(10), np.zeros(10)
    for _ in range(USERS_SENT):
        run.add(table, 1, context)
        squares += (run._values - last - table) ** 2
        last = run._values.copy()
    mean = run.estimates()["losses"].values[SHAPE.pair_mask] / USERS_SENT
    error = 5 * math.sqrt(channel.variance / USERS_SENT)
    assert (np.abs(mean - table) < error).all()
    assert (np.abs(mean - table - 0.15) > error).any()
    exact = channel.variance - (table - 0.5) ** 2
    # (decoded - 1/2)^2 is 0 or d^2 (1/2 / (p - q))^2, so its relative error is sqrt(d / users).
    assert (np.abs(squares / USERS_SENT / exact - 1) < 6 * math.sqrt(10 / USERS_SENT)).all()
    assert (np.abs(squares / USERS_SENT / (1.5 * exact) - 1) > 6 * math.sqrt(10 / USERS_SENT)).all()


def test_one_bit_reports_tell_two_tables_apart_by_exactly_epsilon():
    """The likelihood ratio of an answer is e^+-epsilon: frequencies of the true answer, 5 standard errors."""
    channel = OneBitChannel(LossTable(SHAPE, rounded=False), 1.0)
    ratios = likelihood_of(channel).sample(0, 40_000, stream(1, 0, USERS))
    assert set(np.round(np.unique(ratios), 9)) == {-1.0, 1.0}
    share, p = float((ratios > 0).mean()), math.e / (1 + math.e)
    assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / 40_000)
    assert abs(share - math.exp(1.5) / (1 + math.exp(1.5))) > 5 * math.sqrt(p * (1 - p) / 40_000)


def test_the_norm_of_a_table_of_noise_has_the_law_of_the_mechanism():
    """P(max |z| = r) is proportional to ((2r+1)^d - (2r-1)^d) e^(-r / scale): mean within 5 standard errors."""
    noise, d, n = TableNoise(6, 3.0), 6, 20_000
    rng = np.random.default_rng(3)
    norms = np.array([np.abs(noise.draw(rng, d)).max() for _ in range(n)])
    r = np.arange(400)
    weights = ((2.0 * r + 1) ** d - np.abs(2.0 * r - 1) ** d * (r > 0)) * np.exp(-r / 3.0)
    weights /= weights.sum()
    mean, deviation = float(weights @ r), math.sqrt(weights @ r**2 - (weights @ r) ** 2)
    assert abs(norms.mean() - mean) < 5 * deviation / math.sqrt(n)
    assert abs(norms.mean() - 1.5 * mean) > 5 * deviation / math.sqrt(n)


def test_the_width_of_summed_tables_is_a_bound_and_not_a_wild_one():
    noise, rng, n = TableNoise(6, 3.0), np.random.default_rng(4), 4000
    sums = np.array([noise.draw_sum(5, rng, 6)[0] for _ in range(n)])
    width = noise.sum_quantile(5, 0.05)
    assert (np.abs(sums) > width).mean() <= 0.05
    assert width < 2.0 * np.quantile(np.abs(sums), 0.95)


def test_layered_users_visit_pairs_as_often_as_their_occupancy_says():
    """20,000 users under a skewed policy: every pair within 5 standard errors; the uniform twin is told apart."""
    world, n = layered((1, 2, 2, 1), 2, instance=5), 20_000
    probabilities = np.tile([0.8, 0.2], (3, 2, 1))
    policy = StochasticPolicy(probabilities)
    users = LayeredUsers(world, np.zeros((n, 5, 2)), stream(9, 0, USERS), np.random.default_rng(0))
    encoders = [LayeredVisits(SHAPE), LayeredTransitions(SHAPE)]
    visits, transitions = users.tally(encoders, Context(policy), n)
    q = world.occupancy(policy).ravel()
    error = 5 * np.sqrt(np.maximum(q * (1 - q), 1e-4) / n)
    assert (np.abs(visits / n - q) < error).all()
    assert (np.abs(visits / n - world.occupancy(uniform_policy(SHAPE)).ravel()) > error).any()
    rows = np.repeat(visits[:6], 2)
    P = world.transitions[:12]
    assert (np.abs(transitions / rows - P) < 5 * np.sqrt(P * (1 - P) / rows) + 1e-9).all()

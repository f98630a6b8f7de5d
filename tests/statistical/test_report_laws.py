"""Reports drawn from a tally have the law of reports sent one by one; decoded counts are unbiased with stated variance.

Every test has a fixed seed; a mean is accepted within 5.5 standard errors (false alarm 4e-8 a comparison), a variance
by its chi-square interval at 1e-6, which rejects 2/3 and 3/2 of itself.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import discreet
from discreet.base.policies import Mixture, Policy, StochasticPolicy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, USERS, generator, stream
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.messages.device_reports import pick_steps, randomize_record
from discreet.mechanisms.messages.sampled_item import ReportChannel, ReportRun, draw_reports
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.simulation.users import TabularUsers

pytestmark = pytest.mark.slow

SHAPE = Shape(2, 2, 2, homogeneous=True)
WORLD = discreet.worlds.random_mdp(instance=11)
POLICY = Policy([[0, 1], [1, 0]])
OTHER = Policy([[1, 1], [0, 0]])
RECORD = Trajectories(np.array([[0, 1]]), np.array([[0, 0]]), np.array([[1.0, 0.0]]), np.array([2]))
EPSILON = 1.3


def channel(response, steps=1, early_end=False, shape=SHAPE):
    return ReportChannel(SampledStep(shape, steps, early_end), EPSILON, response)


def run_of(a_channel, masked=True, seed=0):
    shape = a_channel.encoder.shape
    return ReportRun(a_channel, shape, SimulatedNoise(np.random.default_rng(seed)), masked)


def variance_accepted(ratio, n):
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], n - 1) / (n - 1)
    return low < ratio < high


@pytest.mark.parametrize("response", ["kary", "unary"])
@pytest.mark.parametrize("steps", [1, 2])
def test_messages_and_tallies_give_the_same_law(response, steps):
    a_channel = channel(response, steps)
    n, rng = 3000, np.random.default_rng(1)
    picks = [pick_steps(a_channel, rng) for _ in range(n)]
    sent = [report for pick in picks for report in randomize_record(a_channel, RECORD, POLICY, pick, rng)]
    reports, asked = a_channel.count_unchecked(a_channel.asks(POLICY), [sent])
    assert asked.sum() == n * steps
    domain = a_channel.domain(POLICY, masked=True)
    items = np.zeros(a_channel.encoder.table)
    items[0, 0, 0, 1, 1], items[1, 1, 0, 2, 0] = asked
    drawn = np.array([draw_reports(a_channel, domain, items, asked, rng) for _ in range(400)])
    sd = np.maximum(drawn.std(axis=0), 0.5)
    assert (np.abs(reports - drawn.mean(axis=0)) < 5.5 * sd).all()
    assert not reports[~domain.cells].any()


@pytest.mark.parametrize("response", ["kary", "unary"])
@pytest.mark.parametrize(
    "policy", [POLICY, StochasticPolicy(np.full((2, 2, 2), 0.5)), Mixture((POLICY, OTHER), [0.3, 0.7])]
)
def test_decoded_counts_are_unbiased_for_every_policy(response, policy):
    a_channel = channel(response)
    users, repeats = 40, 800
    people = TabularUsers(WORLD, stream(5, 0, USERS), generator(5, 0, COINS))
    names = ("visits", "transitions", "rewards")
    values = {name: [] for name in names}
    rng = np.random.default_rng(9)
    for _ in range(repeats):
        run = ReportRun(a_channel, SHAPE, SimulatedNoise(rng), masked=True)
        tally = people.tally([a_channel.encoder], Context(policy), users)[0]
        run.add(tally, users, Context(policy))
        for name in names:
            clear = a_channel.encoder.marginals(tally)[name].values
            values[name].append(run.estimates()[name].values - clear)
    for name in names:
        errors = np.array(values[name])
        limit = 5.5 * errors.std(axis=0) / np.sqrt(repeats)
        assert (np.abs(errors.mean(axis=0)) <= limit + 1e-9).all(), name


@pytest.mark.parametrize("response", ["kary", "unary"])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("homogeneous", [True, False])
def test_the_stated_variance_is_that_of_counts_that_nobody_visits(response, masked, homogeneous):
    """Everybody stays in state 0, so state 1 is empty: its counts vary exactly as stated."""
    shape = Shape(2, 2, 3, homogeneous=homogeneous)
    a_channel = channel(response, shape=shape)
    policy = Policy(np.zeros((3, 2), np.int64))
    users, repeats, rng = 60, 2500, np.random.default_rng(3)
    samples = {name: [] for name in ("visits", "transitions", "rewards")}
    for _ in range(repeats):
        asked = rng.multinomial(users, [1 / 3] * 3)
        items = np.zeros(a_channel.encoder.table)
        items[0, 0, 0, 0, 0], items[1, 0, 0, 0, 0], items[2, 0, 0, 2, 1] = asked
        run = ReportRun(a_channel, shape, SimulatedNoise(rng), masked)
        run.add(np.concatenate([items.reshape(-1), asked]), users, Context(policy))
        estimates = run.estimates()
        for name, kept in samples.items():
            kept.append(estimates[name].values[:, 1, 0])
    for name, kept in samples.items():
        sample = np.array(kept)
        stated = estimates[name].variance[:, 1, 0]
        for g in range(shape.groups):
            column = sample[:, g] if name != "transitions" else sample[:, g, 0]
            if name == "transitions" and g == shape.groups - 1 and not homogeneous:
                assert stated[g] == 0
                assert not column.any()
                continue
            ratio = column.var(ddof=1) / stated[g]
            assert variance_accepted(ratio, repeats), (name, g, ratio)
            assert not variance_accepted(ratio * 2 / 3, repeats)
            assert not variance_accepted(ratio * 3 / 2, repeats)
    if masked:
        assert not estimates["visits"].values[:, :, 1].any()
        assert not estimates["visits"].variance[:, :, 1].any()


@pytest.mark.parametrize("response", ["kary", "unary"])
def test_visits_add_what_the_formula_says(response):
    """v visits a user: T (H/m) P0 (1-P0)/tau^2 + v (H/m) (1-2 P0)/tau - v^2, over lies and coins."""
    a_channel = channel(response)
    policy = Policy(np.zeros((2, 2), np.int64))
    step = a_channel.domain(policy, masked=True).steps[0]
    repeats, rng = 6_000, np.random.default_rng(8)
    sample = []
    for _ in range(repeats):
        run = ReportRun(a_channel, SHAPE, SimulatedNoise(rng), True)
        asked = rng.multinomial(1, [0.5, 0.5])
        items = np.zeros(a_channel.encoder.table)
        items[0, 0, 0, 1, 0], items[1, 1, 0, 2, 0] = asked
        run.add(np.concatenate([items.reshape(-1), asked]), 1, Context(policy))
        sample.append(run.estimates()["transitions"].values[0, 0, 0, 1])
    tau, H = step.weight, 2
    if response == "kary":
        false = (1 - tau) * 2 / step.items
        expected = H * false * (1 - false) / tau**2 + H * (1 - 2 * false) / tau - 1
    else:
        expected = H * 2 * step.lie * (1 - step.lie) / tau**2 + 2 * H - 1
    ratio = np.var(sample, ddof=1) / expected
    # The kurtosis of a rare large value widens the interval of a variance; 5.5 standard errors by the fourth moment.
    x = (np.array(sample) - np.mean(sample)) ** 2 / expected
    error = x.std() / np.sqrt(repeats)
    assert abs(ratio - 1) < 5.5 * error
    assert abs(ratio * 1.5 - 1) > 5.5 * error
    assert abs(ratio / 1.5 - 1) > 5.5 * error
    assert abs(np.mean(sample) - 1) < 5.5 * np.sqrt(expected / repeats)


@pytest.mark.parametrize("response", ["kary", "unary"])
def test_widths_hold_as_often_as_they_say(response):
    """A bound that fails with probability at most 0.2 fails in at most that share of 400 runs, and is not absurd."""
    a_channel = channel(response)
    users, rng = 300, np.random.default_rng(4)
    failed, always_failed, sizes = 0, 0, []
    policy = Policy(np.zeros((2, 2), np.int64))
    for _ in range(400):
        asked = rng.multinomial(users, [0.5, 0.5])
        items = np.zeros(a_channel.encoder.table)
        items[0, 0, 0, 1, 1], items[1, 1, 0, 2, 0] = asked
        run = run_of(a_channel, seed=int(rng.integers(2**32)))
        run.add(np.concatenate([items.reshape(-1), asked]), users, Context(policy))
        error = abs(run.estimates()["transitions"].values[0, 0, 0, 1] - users)
        width, radius = run.width_now()(2, 0.2)[0, 0, 0], run.radius_now()("transitions", 0.2)[0, 0, 0]
        failed += error > width
        always_failed += error > radius
        sizes.append(width / error)
        assert radius > width
    assert failed <= stats.binom.ppf(1 - 1e-6, 400, 0.2)
    assert always_failed <= failed
    assert np.median(sizes) < 8

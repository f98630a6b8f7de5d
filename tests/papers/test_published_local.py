"""The randomisers of the local paper as they run: true guarantees against the known tables, noise as printed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.base.errors import Unsupported
from discreet.base.policies import Policy
from discreet.base.streams import COINS, NOISE, USERS, generator, stream
from discreet.mechanisms.counts.encoder import Context, encode
from discreet.mechanisms.counts.three_tables import ScaledTables, ThreeTables
from discreet.mechanisms.messages.answered_bits import AnsweredBitsRun
from discreet.mechanisms.release import Request
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.papers import published
from discreet.recipes.registry import build
from discreet.simulation.users import TabularUsers

SHAPE = discreet.Shape(2, 2, 2, homogeneous=True)
WORLD = discreet.worlds.random_mdp(instance=11)
POLICY = Policy([[0, 1], [1, 0]])


def printed(kind, epsilon, delta=0.0, shape=SHAPE, **options):
    return build(discreet.Local(epsilon, delta, recipe=f"local/published-{kind}", options=options), shape, 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "epsilon", "true_delta"),
    [
        ("gaussian", 0.2, 4.8e-4),
        ("gaussian", 1, 3.5e-3),
        ("gaussian", 2, 1.09e-2),
        ("gaussian", 20, 0.986),
        ("bounded", 0.2, 0.0152),
        ("bounded", 1, 0.105),
        ("bounded", 2, 0.275),
        ("bounded", 20, 1.0),
    ],
)
def test_true_delta_of_printed_noise_at_the_claimed_epsilon(kind, epsilon, true_delta):
    guarantee = printed(kind, epsilon, 0.1).guarantee
    assert guarantee.delta_at(epsilon) == pytest.approx(true_delta, rel=0.02)
    assert guarantee.claimed.epsilon == epsilon
    assert ("NOT TRUE" in guarantee.explain()) == (true_delta > 0.1)


@pytest.mark.parametrize(("kind", "share"), [("laplace", 10 / 12), ("randomised-response", 10 / 12), ("psrl", 10 / 16)])
@pytest.mark.parametrize("homogeneous", [True, False])
def test_pure_randomisers_are_true_and_slack(kind, share, homogeneous):
    shape = discreet.Shape(2, 2, 2, homogeneous=homogeneous)
    guarantee = printed(kind, 2.0, shape=shape).guarantee
    assert guarantee.epsilon == pytest.approx(2.0 * share)
    assert guarantee.model == "local"
    assert "true" in guarantee.explain().splitlines()[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["laplace", "gaussian", "randomised-response", "bounded"])
def test_they_are_those_of_the_list_of_published_mechanisms(kind):
    truth = published(f"published/ldp-obi-{kind}").truth(SHAPE, epsilon=2.0, delta=0.1 if kind[0] in "gb" else 0.0)
    guarantee = printed(kind, 2.0, 0.1 if kind in ("gaussian", "bounded") else 0.0).guarantee
    assert guarantee.epsilon == pytest.approx(truth.epsilon, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "delta", "sd"),
    [
        ("laplace", 0.0, [8.485] * 3),
        ("gaussian", 0.1, [4.682] * 3),
        ("bounded", 0.1, [2.6064, 3.6860, 2.6064]),
        ("randomised-response", 0.0, [8.476, 8.476 / math.sqrt(2), 8.476]),
    ],
)
def test_noise_of_one_user_is_as_printed(kind, delta, sd):
    """Standard deviations of visits, transitions and rewards at epsilon 2."""
    privatizer = printed(kind, 2.0, delta)
    users = TabularUsers(WORLD, stream(0, 0, USERS), generator(0, 0, COINS))
    session = privatizer.open(users, SimulatedNoise(generator(0, 0, NOISE)), 10)
    release = session.answer(Request(POLICY))
    found = [math.sqrt(release[name].variance.max()) for name in ("visits", "transitions", "rewards")]
    assert found == pytest.approx(sd, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["laplace", "gaussian", "bounded", "randomised-response"])
def test_released_counts_scatter_as_stated_around_the_truth(kind):
    """Nobody acts (an empty tally), so counts are noise alone: 3000 draws, variance within 6 standard errors."""
    privatizer = printed(kind, 2.0, 0.1 if kind in ("gaussian", "bounded") else 0.0)
    (channel,) = privatizer.channels
    noise, context = SimulatedNoise(np.random.default_rng(2)), Context(POLICY)
    samples = {name: [] for name in ("visits", "transitions", "rewards")}
    for _ in range(3000):
        run = channel.start(SHAPE, noise, masked=False)
        run.add(np.zeros(channel.encoder.size), 1, context)
        for name, estimate in run.estimates().items():
            samples[name].append(estimate.values[0, 0, 0].flat[0])
    for name, values in samples.items():
        stated = estimate_variance(channel, noise, context, name)
        x = np.array(values) ** 2 / stated
        error = x.std() / math.sqrt(len(x))
        assert abs(x.mean() - 1) < 6 * error, name
        assert abs(1.5 * x.mean() - 1) > 6 * error
        assert abs(x.mean() / 1.5 - 1) > 6 * error
        assert abs(np.mean(values)) < 6 * math.sqrt(stated / len(values))


def estimate_variance(channel, noise, context, name):
    run = channel.start(SHAPE, noise, masked=False)
    run.add(np.zeros(channel.encoder.size), 1, context)
    return float(run.estimates()[name].variance[0, 0, 0])


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "radius"), [(0.2, 36.72), (1, 19.10), (2, 14.04), (20, 6.749)])
def test_honest_bounded_noise(epsilon, radius):
    privatizer = build(discreet.Local(epsilon, 0.1, recipe="local/three-tables-bounded"), SHAPE, 1000)
    assert privatizer.channels[0].law.radius == pytest.approx(radius, rel=3e-3)
    assert privatizer.guarantee.delta_at(epsilon) <= 0.1


def test_honest_bits_use_all_of_epsilon():
    privatizer = build(discreet.Local(2.0, recipe="local/three-tables-randomised-response"), SHAPE, 1000)
    assert 2.0 * (1 - 1e-9) < privatizer.guarantee.epsilon <= 2.0
    assert math.sqrt(privatizer.channels[0].bit_variance * 2) == pytest.approx(7.059, rel=1e-3)


def test_answered_bits_are_decoded_without_bias_and_masked():
    (channel,) = build(discreet.Local(40.0, recipe="local/three-tables-randomised-response"), SHAPE, 1000).channels
    run = AnsweredBitsRun(channel, SHAPE, SimulatedNoise(np.random.default_rng(0)), masked=True)
    record = Trajectories(np.array([[0, 1]]), np.array([[0, 0]]), np.array([[1.0, 0.0]]), np.array([2]))
    tally = encode(channel.encoder, record, stream(0, 0, 0))[0] * 1000
    run.add(tally, 1000, Context(POLICY))
    estimates = run.estimates()
    # epsilon 4 a bit: a decoded count has a standard deviation of about 0.14 sqrt(2000) = 6.
    np.testing.assert_allclose(estimates["visits"].values[0], [[1000, 0], [1000, 0]], atol=45)
    np.testing.assert_allclose(estimates["rewards"].values[0], [[1000, 0], [0, 0]], atol=45)
    assert estimates["transitions"].values[0, 0, 0, 1] == pytest.approx(1000, abs=45)
    unmasked = AnsweredBitsRun(channel, SHAPE, SimulatedNoise(np.random.default_rng(0)), masked=False)
    unmasked.add(tally, 1000, Context(POLICY))
    # At each step one action of a state is played: the mask leaves the noise of one bit of two.
    np.testing.assert_allclose(unmasked.estimates()["visits"].variance, 2 * estimates["visits"].variance)
    assert run.width_now()(2, 0.1).min() > 0


def test_scaled_tables_hold_the_same_counts():
    records = Trajectories(np.array([[0, 1]]), np.array([[0, 1]]), np.array([[1.0, 0.25]]), np.array([2]))
    scaled, plain = ScaledTables(SHAPE), ThreeTables(SHAPE, rounded=False)
    ours = scaled.marginals(encode(scaled, records, stream(0, 0, 0))[0])
    theirs = plain.marginals(encode(plain, records, stream(0, 0, 0))[0])
    for name in ("visits", "transitions", "rewards"):
        np.testing.assert_allclose(ours[name].values, theirs[name].values)
    assert ours["transitions"].cells[0, 0, 0] == 2 * theirs["transitions"].cells[0, 0, 0]


def test_refusals():
    for kind in ("gaussian", "bounded"):
        with pytest.raises(Unsupported, match="delta above 0"):
            printed(kind, 1.0)
    with pytest.raises(Unsupported, match="epsilon instead of rho"):
        build(discreet.Local(rho=1.0, recipe="local/published-laplace"), SHAPE, 10)
    (channel,) = printed("randomised-response", 1.0).channels
    with pytest.raises(Unsupported, match="no tally"):
        channel.start(SHAPE, SecureNoise(), True).add(np.zeros(channel.encoder.size), 1, Context(POLICY))

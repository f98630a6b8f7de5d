"""Randomised reports: pure for any two trajectories, by enumeration; the quietest is chosen; refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Mixture, Policy, StochasticPolicy, uniform_policy
from discreet.base.shape import Shape
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.messages.device_reports import pick_steps, randomize_record
from discreet.mechanisms.messages.sampled_item import ReportChannel, ReportRun, draw_reports
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.recipes.local import quietest_reports
from discreet.recipes.registry import build

SHAPE = Shape(2, 2, 2, homogeneous=True)
RIVER = discreet.worlds.river_swim(6, 20).shape
POLICY = Policy([[0, 1], [1, 0]])
RECORD = Trajectories(np.array([[0, 1]]), np.array([[0, 0]]), np.array([[1.0, 0.0]]), np.array([2]))


def law_of_message(channel, policy, h, item):
    """The probabilities of all messages about step h of a user with that item."""
    domain = channel.domain(policy, masked=True)
    step = domain.steps[h]
    if channel.response == "kary":
        return np.where(np.arange(step.items) == item, step.truth, step.lie)
    ones = np.where(np.arange(step.items) == item, step.truth, step.lie)
    return np.array([np.prod(np.where(bits, ones, 1 - ones)) for bits in itertools.product([0, 1], repeat=step.items)])


@pytest.mark.parametrize("response", ["kary", "unary"])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_every_pair_of_items_is_told_apart_by_epsilon_at_most(response, steps, epsilon):
    channel = ReportChannel(SampledStep(SHAPE, steps), epsilon, response)
    worst = 0.0
    for h in range(2):
        size = channel.domain(POLICY, masked=True).steps[h].items
        laws = np.array([law_of_message(channel, POLICY, h, item) for item in range(size)])
        np.testing.assert_allclose(laws.sum(axis=1), 1.0)
        worst = max(worst, np.log(laws[:, None] / laws[None]).max())
    assert worst <= epsilon / steps * (1 + 1e-12)
    assert worst >= epsilon / steps * (1 - 1e-9)
    assert channel.shipped_epsilon <= epsilon
    assert channel.shipped_epsilon == pytest.approx(epsilon, rel=1e-9)


def sizes(channel, policy):
    return tuple(law.items for law in channel.asks(policy).laws)


def test_devices_that_draw_actions_report_them():
    """Then the items are all pairs that the policy plays, as the client numbers them; nothing changes else."""
    half = StochasticPolicy([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])
    drawn, public = (ReportChannel(SampledStep(SHAPE), 1.0, "kary", own) for own in (True, False))
    assert sizes(drawn, half) == (3 * 2 * 2, 3 * 2)
    assert sizes(drawn, POLICY) == sizes(public, POLICY)
    assert (drawn.domain(half, masked=True).shares[0] == np.array([[1, 1], [1, 0]]) / 12).all()
    (sent,) = randomize_record(drawn, RECORD, half, [0])
    assert 0 <= sent.message[0] < 12
    with pytest.raises(Unsupported, match="own_actions"):
        sizes(public, half)
    with pytest.raises(Unsupported, match="own_actions"):
        randomize_record(public, RECORD, half, [0])
    with pytest.raises(InvalidInput, match="must have an action"):
        sizes(drawn, StochasticPolicy([[[0.5, 0.5]]]))


@pytest.mark.parametrize("epsilon", [1.0, 30.0])
def test_the_stated_loss_covers_domains_of_every_size(epsilon):
    """Rounding differs from size to size: at epsilon 30 by a millionth, and not always most in the largest domain."""
    shape = Shape(3, 2, 3)
    channel = ReportChannel(SampledStep(shape), epsilon, "kary")
    policies = [Policy(np.array(table).reshape(3, 3)) for table in itertools.product([0, 1], repeat=9)]
    domains = [channel.domain(policy, masked) for policy in (*policies, uniform_policy(shape)) for masked in (0, 1)]
    losses = [math.log(step.truth / step.lie) for domain in domains for step in domain.steps]
    assert max(losses) <= channel.shipped_epsilon <= epsilon
    many = ReportChannel(SampledStep(Shape(70, 70, 2)), epsilon, "kary")
    assert many.shipped_epsilon == epsilon


def test_device_and_server_agree_about_items_that_the_policy_never_plays():
    channel = ReportChannel(SampledStep(SHAPE, 2), 40.0, "kary")  # next to no lies
    for masked in (True, False):
        reports = randomize_record(channel, RECORD, POLICY, [0, 1], masked=masked)
        counts, _ = channel.count_unchecked(channel.asks(POLICY, masked), [reports])
        assert counts[0, 0, 0, 1, 1] == 1  # state 0, action 0, then state 1, reward 1
        assert counts.sum() == 2


def test_domains_count_what_the_public_knows():
    channel = ReportChannel(SampledStep(SHAPE), 1.0, "kary")
    assert [step.items for step in channel.domain(POLICY, masked=True).steps] == [8, 4]
    assert [step.items for step in channel.domain(POLICY, masked=False).steps] == [16, 8]
    assert [step.items for step in channel.domain(uniform_policy(SHAPE), masked=True).steps] == [8, 4]
    started = Shape(2, 2, 2, homogeneous=True, start=1)
    assert [s.items for s in ReportChannel(SampledStep(started), 1.0, "kary").domain(POLICY, True).steps] == [4, 4]
    ending = ReportChannel(SampledStep(SHAPE, early_end=True), 1.0, "kary").domain(POLICY, True)
    assert [step.items for step in ending.steps] == [13, 5]
    unary = ReportChannel(SampledStep(SHAPE), 1.0, "unary").domain(Mixture((POLICY,), [1.0]), True)
    assert [step.items for step in unary.steps] == [8, 4]


def test_the_quietest_response_is_taken():
    assert quietest_reports(SHAPE, 2.0).response == "kary"  # eight items
    assert quietest_reports(RIVER, 1.0).response == "unary"  # seventy-two
    assert quietest_reports(RIVER, 1.0).encoder.steps == 1
    assert quietest_reports(SHAPE, 20.0).encoder.steps == 2  # nothing is gained by silence at such an epsilon
    kept = quietest_reports(RIVER, 1.0, steps=3, response="kary")
    assert (kept.encoder.steps, kept.response) == (3, "kary")
    every = [quietest_reports(RIVER, 4.0, m, r).noise_per_row() for m in (1, 2, 3) for r in ("kary", "unary")]
    assert quietest_reports(RIVER, 4.0).noise_per_row() == pytest.approx(min(every))


@pytest.mark.parametrize("shape", [SHAPE, RIVER, Shape(3, 2, 5)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0])
def test_a_sampled_step_promises_pure_epsilon_and_auto_takes_it_where_every_step_has_laws_of_its_own(shape, epsilon):
    if not shape.homogeneous:
        assert build(discreet.Local(epsilon), shape, 1000).recipe == "local/sampled-step"
    guarantee = build(discreet.Local(epsilon, recipe="local/sampled-step"), shape, 1000).guarantee
    assert (guarantee.model, guarantee.delta) == ("local", 0.0)
    assert epsilon * (1 - 1e-9) <= guarantee.epsilon <= epsilon
    assert guarantee.delta_at(epsilon) == 0
    assert "public coins" in guarantee.explain()


def test_calibrate_knows_the_noise():
    calibration = discreet.calibrate(discreet.Local(1.0, recipe="local/sampled-step"), SHAPE, episodes=400)
    by_name = {error.statistic: error for error in calibration.errors}
    assert by_name["visits"].sd_end == pytest.approx(by_name["visits"].sd_release * 20)
    assert by_name["visits"].width_end > by_name["visits"].sd_end > 0
    assert "randomised response" in calibration.law


def test_a_real_report_needs_no_seed_and_decodes():
    channel = ReportChannel(SampledStep(SHAPE, 2), 60.0, "kary")
    reports = randomize_record(channel, RECORD, POLICY, [0, 1])
    counts, asked = channel.count_unchecked(channel.asks(POLICY), [reports])
    assert asked.tolist() == [1, 1]
    assert counts[0, 0, 0, 1, 1] == counts[1, 1, 0, 2, 0] == 1  # epsilon 30 a report: a lie has a probability of 1e-12
    run = ReportRun(channel, SHAPE, SecureNoise(), masked=True)
    run.add_reports(counts, asked, 1, Context(POLICY))
    assert run.estimates()["visits"].values[0] == pytest.approx(np.array([[1, 0], [1, 0]]), abs=1e-4)
    with pytest.raises(Unsupported, match="no tally of clear items"):
        run.add(np.zeros(channel.encoder.size), 1, Context(POLICY))


def test_a_record_that_ended_is_hidden_like_any_other():
    ended = Trajectories(RECORD.states, RECORD.actions, RECORD.rewards, np.array([1]))
    declared = ReportChannel(SampledStep(SHAPE, 1, early_end=True), 40.0, "kary")
    (report,) = randomize_record(declared, ended, POLICY, [1])
    counts, asked = declared.count_unchecked(declared.asks(POLICY), [[report]])
    assert (counts.sum(), asked.sum()) == (0, 1)  # the report says "ended", and counts nowhere
    silent = ReportChannel(SampledStep(SHAPE, 1), 40.0, "kary")
    rng = np.random.default_rng(0)
    sent = [randomize_record(silent, ended, POLICY, [1], rng)[0] for _ in range(400)]
    counts, _ = silent.count_unchecked(silent.asks(POLICY), [sent])
    assert counts[1].sum() == 400
    assert (counts[1][silent.domain(POLICY, True).cells[1]] > 60).all()  # even over four items: 100 each


def test_simulated_records_that_ended_say_so_as_devices_do():
    """20,000 reports of "ended" that are lies in cells: 5 deviations; as even lies, 80 deviations more (the twin)."""
    declared, users = ReportChannel(SampledStep(SHAPE, 1, early_end=True), 1.3, "kary"), 20_000
    domain = declared.domain(POLICY, masked=True)
    asked = np.array([0.0, users])
    sent = draw_reports(declared, domain, np.zeros(declared.encoder.table), asked, np.random.default_rng(0))
    step = domain.steps[1]
    expected = users * (step.items - 1) * step.lie
    deviation = math.sqrt(expected * (1 - expected / users))
    assert abs(sent[1].sum() - expected) < 5 * deviation
    assert users * (step.items - 1) / step.items - expected > 50 * deviation


def test_public_coins_pick_different_steps():
    channel = ReportChannel(SampledStep(RIVER, 3), 1.0, "kary")
    picked = pick_steps(channel, np.random.default_rng(0))
    assert len(set(picked)) == 3
    assert picked == sorted(picked)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda c: randomize_record(c, RECORD, POLICY, [0, 1]), InvalidInput, "1 different steps"),
        (lambda c: randomize_record(c, RECORD, uniform_policy(SHAPE), [0]), Unsupported, "public coins"),
        (lambda c: quietest_reports(SHAPE, 1.0, response="karry"), InvalidInput, "kary"),
    ],
)
def test_refusals(call, error, match):
    with pytest.raises(error, match=match):
        call(ReportChannel(SampledStep(SHAPE), 1.0, "kary"))


def test_several_picked_steps_put_the_action_of_a_stochastic_policy_into_the_item():
    channel = ReportChannel(SampledStep(SHAPE, 2), 1.0, "kary")
    assert [step.items for step in channel.domain(uniform_policy(SHAPE), True).steps] == [16, 8]
    run = ReportRun(channel, SHAPE, SimulatedNoise(np.random.default_rng(0)), True)
    run.add(np.concatenate([np.zeros(channel.encoder.size - 2), [5, 5]]), 5, Context(uniform_policy(SHAPE)))
    assert math.isfinite(run.estimates()["visits"].values.sum())


def test_releases_state_bounds_that_hold_always():
    """Additive noise: the any-time radius of the law, on the clock of each row; none for a tree."""
    world = discreet.worlds.river_swim(3, 3)

    def last_release(privacy):
        learner = discreet.learners.UCBVI()
        return discreet.simulate(world, learner, privacy, episodes=40, seed=1, keep_release=True).releases[0]

    release = last_release(discreet.Local(1.0, recipe="local/three-tables-laplace"))
    law = build(discreet.Local(1.0, recipe="local/three-tables-laplace"), world.shape, 40).channels[0].law
    plays = np.round(release["visits"].variance / law.variance)
    np.testing.assert_allclose(release.radius("visits", 0.1), law.anytime_radius(plays, 0.1))
    np.testing.assert_allclose(release.radius("followed", 0.1), law.anytime_radius(3 * plays, 0.1))
    assert (release.radius("visits", 0.01) > release.radius("visits", 0.1))[plays > 0].all()
    reports = last_release(discreet.Local(1.0, recipe="local/sampled-step"))
    assert (reports.radius("visits", 0.1) >= 2 * np.sqrt(reports["visits"].variance)).all()
    with pytest.raises(Unsupported, match="use width"):
        last_release(discreet.Central(1.0, recipe="central/three-tables-laplace-tree")).radius("visits", 0.1)

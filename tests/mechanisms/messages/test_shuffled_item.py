"""One message of each user: its items, what devices send and simulations draw, unbiased counts, batches, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Policy, uniform_policy
from discreet.base.shape import Shape
from discreet.learners.registry import make_learner
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.messages.device_reports import count_items, randomize_item
from discreet.mechanisms.messages.shuffled_item import ItemChannel, draw_messages
from discreet.mechanisms.schedule import sizes
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import KaryRandomizedResponse
from discreet.noise.shuffled_histogram import ShuffledItems
from discreet.recipes.registry import build
from discreet.recipes.shuffle import without_shuffler

POOLED = Shape(2, 2, 2, homogeneous=True)
PER_STEP = Shape(2, 2, 2)
POLICY = Policy([[0, 1], [1, 0]])
RECORD = Trajectories(np.array([[0, 1]]), np.array([[0, 0]]), np.array([[1.0, 0.0]]), np.array([2]))
ENDED = Trajectories(RECORD.states, RECORD.actions, RECORD.rewards, np.array([1]))
RECIPE = "shuffle/sampled-item"


def channel(shape=POOLED, epsilon=1.0, early_end=False, absent=0.0, block=50):
    return ItemChannel(SampledStep(shape, 1, early_end), epsilon, 1e-4, block, absent)


def truthful(shape=POOLED, early_end=False):
    return channel(shape, 60.0, early_end)  # next to no lies


def target(epsilon=1.0, recipe=RECIPE, **options):
    return discreet.Shuffle(epsilon, 1e-4, recipe=recipe, options=options)


@pytest.mark.parametrize(
    ("shape", "early_end", "policy", "masked", "number"),
    [
        (POOLED, False, POLICY, True, 12),  # two pairs with two successors, two others that end; two bits each
        (POOLED, False, Policy([[0, 0], [0, 0]]), True, 12),  # the same two pairs with three successors
        (POOLED, False, POLICY, False, 24),
        (POOLED, False, uniform_policy(POOLED), True, 24),
        (POOLED, True, POLICY, True, 17),  # the first two pairs may end, too, and one item says "ended"
        (PER_STEP, False, POLICY, True, 12),
        (PER_STEP, False, POLICY, False, 24),
        (Shape(2, 2, 2, homogeneous=True, start=1), False, POLICY, True, 8),  # one state at first
        (Shape(1, 3, 1, start=0), False, Policy([[2]]), True, 2),
    ],
)
def test_items_are_what_the_public_knows(shape, early_end, policy, masked, number):
    items = channel(shape, early_end=early_end).items(policy, masked)
    assert items.number == number == items.cells.sum() + early_end
    assert items.cells.shape == (shape.groups, shape.states, shape.actions, shape.states + 1, 2)


def test_the_fewest_and_the_most_items():
    assert (channel().fewest, channel().most) == (12, 24)
    river = channel(discreet.worlds.river_swim(4, 6).shape)
    assert (river.fewest, river.most) == (40, 80)


@pytest.mark.parametrize("shape", [POOLED, PER_STEP])
def test_device_and_server_agree_about_items(shape):
    sent = [randomize_item(truthful(shape), RECORD, POLICY, 50) for _ in range(60)]
    counts = count_items(truthful(shape), POLICY, sent)
    first, last = counts[0, 0, 0, 1, 1], counts[-1, 1, 0, 2, 0]  # (0, 0) then 1 with reward 1; (1, 0) then the end
    assert first + last == 60
    assert min(first, last) > 10  # both steps are drawn: less than that has probability 1e-7


def test_records_without_an_item_are_hidden():
    rng = np.random.default_rng(3)
    said = truthful(early_end=True)
    sent = [randomize_item(said, ENDED, POLICY, 50, rng) for _ in range(400)]
    assert len(set(sent)) == 2  # the end after the first step, and "ended" at the second
    assert 120 < sent.count(said.items(POLICY).number - 1) < 280
    silent = truthful()  # nobody declared that records may end, so neither step has an item
    even = np.bincount([randomize_item(silent, ENDED, POLICY, 50, rng) for _ in range(1200)], minlength=12)
    assert (even.min() > 45) & (even.max() < 170)  # 100 each
    defies = Trajectories(RECORD.states, 1 - RECORD.actions, RECORD.rewards, RECORD.lengths)
    assert np.bincount([randomize_item(silent, defies, POLICY, 50, rng) for _ in range(600)], minlength=12).max() < 100


@pytest.mark.parametrize("early_end", [False, True])
@pytest.mark.parametrize("record", [RECORD, ENDED])
def test_a_batch_is_drawn_by_the_law_of_its_devices(early_end, record):
    """Counts of 2,000 messages within 5.5 deviations of 100 drawn batches; those of another law are not (twin)."""
    one, users, rng = channel(early_end=early_end, epsilon=3.0), 2000, np.random.default_rng(5)
    items = one.items(POLICY)
    sent = count_items(one, POLICY, [randomize_item(one, record, POLICY, 50, rng) for _ in range(users)])

    def drawn(law):
        batches = []
        for _ in range(100):
            steps = rng.binomial(users, 0.5)
            clear = np.zeros(items.cells.shape)
            clear[0, 0, 0, 2 if record is ENDED else 1, 1] = users - steps
            clear[0, 1, 0, 2, 0] = 0 if record is ENDED else steps
            batches.append(draw_messages(law, items, clear, users, rng))
        return np.array(batches)

    law = one.response(50, items.number)
    own, other = drawn(law), drawn(KaryRandomizedResponse(law.epsilon - 1, items.number))

    def far(batches):
        return np.abs(sent - batches.mean(axis=0)) > 5.5 * np.maximum(batches.std(axis=0), 0.5)

    assert not far(own).any()
    if record is RECORD or early_end:  # otherwise nobody has an item, and no law is seen
        assert far(other).any()


@pytest.mark.parametrize("shape", [POOLED, PER_STEP])
def test_counts_are_unbiased_and_their_variance_is_stated(shape):
    """200 batches of users without visits to a row: mean within 5 deviations, variance by chi-square at 1e-6."""
    one, users, runs = channel(shape, 2.0), 300, 200
    visited = np.zeros(one.encoder.table)
    visited[0, 0, 0, 1, 1] = visited[1, 1, 0, 2, 0] = users / 2
    tally = np.concatenate([visited.ravel(), np.full(2, users / 2)])
    found = {name: [] for name in ("visits", "transitions", "rewards")}
    for seed in range(runs):
        run = one.start(shape, SimulatedNoise(np.random.default_rng(seed)), True)
        run.add(tally, users, Context(POLICY))
        for name, estimate in run.estimates().items():
            found[name].append(estimate.values)
            stated = {name: estimate.variance for name, estimate in run.estimates().items()}
    true = {"visits": 2 * visited.sum(axis=(3, 4)), "rewards": 2 * visited[..., 1].sum(axis=3)}
    true["transitions"] = 2 * visited[:, :, :, :2].sum(axis=4)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], runs - 1) / (runs - 1)
    for name, values in found.items():
        values = np.array(values)
        expected = true[name].sum(axis=0, keepdims=True) if shape.homogeneous else true[name]
        deviation = values.std(axis=0) / math.sqrt(runs)
        assert (np.abs(values.mean(axis=0) - expected) <= 5 * deviation + 1e-9).all()
        own = stated[name][..., None] if name == "transitions" else stated[name]
        empty = (expected == 0) & (own > 0) & (values.std(axis=0) > 0)
        ratio = values.var(axis=0)[empty] / np.broadcast_to(own, expected.shape)[empty]
        assert empty.any()
        assert ((low < ratio) & (ratio < high)).all()
        assert not ((low < 2 * ratio) & (2 * ratio < high)).any()


def test_bounds_hold_and_grow():
    one = channel(epsilon=2.0)
    run = one.start(POOLED, SimulatedNoise(np.random.default_rng(0)), True)
    visited = np.zeros(one.encoder.table)
    visited[0, 0, 0, 1, 1] = visited[1, 1, 0, 2, 0] = 25
    tally = np.concatenate([visited.ravel(), np.full(2, 25.0)])
    true = {"visits": visited.sum(axis=(0, 3, 4)), "transitions": visited[:, :, :, :2].sum(axis=(0, 4))}
    true["rewards"] = visited[..., 1].sum(axis=(0, 3))
    for batch in range(1, 21):
        run.add(tally, 50, Context(POLICY))
        for name, estimate in run.estimates().items():
            width = run.width_now()(one.cells_per_count()[name], 1e-6)
            always = run.radius_now()(name, 1e-6)
            errors = np.abs(estimate.values - 2 * batch * true[name]).reshape(1, 2, 2, -1).max(axis=3)
            assert (errors <= width).all()
            assert (width <= always).all()
            assert np.isfinite(always).all()


def test_a_batch_of_real_messages_is_taken_in():
    privatizer = build(target(30.0, blocks=1), POOLED, 40)
    intake = privatizer.collect(40)
    (one,) = privatizer.channels
    messages = [randomize_item(one, RECORD, POLICY, 40) for _ in range(40)]
    release = intake.receive_batch(POLICY, messages, planned=40)
    assert release["visits"].values.sum() == pytest.approx(80, abs=40)
    assert not release.guarantee.simulated
    resumed = privatizer.resume(intake.save(), 40)
    for name, estimate in resumed.release_now().statistics.items():
        np.testing.assert_array_equal(estimate.values, release[name].values)
        np.testing.assert_array_equal(estimate.variance, release[name].variance)
    assert (resumed.served, resumed.left) == (40, 0)
    assert not intake.save().secret


def test_a_batch_that_hides_less_than_was_promised_is_discarded():
    """Ten messages of devices that counted on 400 others lose 3.3 and not 1; with dropouts declared some may miss."""
    (one,) = build(target(blocks=1), POOLED, 400).channels
    law = one.response(400, 12)
    assert ShuffledItems(law.epsilon, 12, 10).profile().epsilon(1e-4) > 3.0
    intake = build(target(blocks=1), POOLED, 400).collect(400)
    for few in (10, 399):
        with pytest.raises(Unsupported, match=f"{few} messages are too few of a batch of 400, .* counts on 400"):
            intake.receive_batch(POLICY, [0] * few, planned=400)
    assert intake.served == 0
    patient = build(target(blocks=1, dropouts=0.25), POOLED, 400).collect(400)
    with pytest.raises(Unsupported, match="counts on 300"):
        patient.receive_batch(POLICY, [0] * 299, planned=400)
    patient.receive_batch(POLICY, [0] * 300, planned=400)
    assert patient.served == 300


def test_the_law_is_the_one_that_devices_were_told():
    """A batch that came out smaller is read by the law of the planned size."""
    one = channel(epsilon=1.0)
    items = one.items(POLICY)
    messages = [0] * 30
    values = []
    for planned in (30, 50):
        run = one.start(POOLED, SecureNoise(), True)
        run.add_batch(count_items(one, POLICY, messages), 30, POLICY, planned=planned)
        values.append(run.estimates()["visits"].values.sum())
        law = one.response(planned, items.number)
        expected = 2 * (30 - 30 * (items.number) * law.q) / (law.p - law.q)
        assert values[-1] == pytest.approx(expected)
    assert one.response(50, items.number).epsilon > one.response(30, items.number).epsilon


@pytest.mark.parametrize("messages", [[12], [-1], [True], [1.0], [0, 12]])
def test_messages_that_no_device_sends_are_refused_before_any_counts(messages):
    intake = build(target(), POOLED, 40).collect(40)
    with pytest.raises(InvalidInput, match=r"one item in 0\.\.11"):
        intake.receive_batch(POLICY, messages, planned=40)
    assert intake.served == 0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: build(target(), POOLED, 40).collect(40).receive([(POLICY, [])]), "open the intake with collect"),
        (lambda: build(discreet.Local(1.0), POOLED, 40).collect(40).receive_batch(POLICY, [0], 1), "one each"),
        (lambda: build(target(), POOLED, 2).collect(2).receive_batch(POLICY, [0, 0, 0], 3), "2 left"),
        (lambda: build(target(), POOLED, 40).take_in(SecureNoise(), 40), "drawn on their devices"),
        (lambda: build(discreet.Shuffle(rho=0.1, delta=1e-5, recipe=RECIPE), POOLED, 40), "instead of rho"),
        (lambda: randomize_item(channel(), RECORD, uniform_policy(POOLED), 50), "public coins"),
        (lambda: without_shuffler(build(target(recipe="shuffle/first-visit-binomial"), POOLED, 40)), "in clear"),
        (lambda: channel().start(POOLED, SecureNoise(), True).add(np.zeros(50), 1, Context(POLICY)), "add_batch"),
    ],
)
def test_refusals(call, match):
    with pytest.raises(Unsupported, match=match):
        call()


def test_a_device_holds_one_record():
    parts = (RECORD.states, RECORD.actions, RECORD.rewards, RECORD.lengths)
    two = Trajectories(*(np.concatenate([part, part]) for part in parts))
    with pytest.raises(InvalidInput, match="one user's record, got 2"):
        randomize_item(channel(), two, POLICY, 50)


def test_silent_and_colluding_users_hide_nobody():
    alone, absent = channel(block=100), channel(absent=0.4, block=100)
    assert absent.counted(100, 12) == alone.counted(60, 12)
    assert absent.counted(1, 12).users == 1
    assert absent.response(100, 12).epsilon < alone.response(100, 12).epsilon
    privatizer = build(target(dropouts=0.3, colluding=0.1, blocks=4), POOLED, 400)
    assert "0.6 of them counted" in privatizer.guarantee.explain()
    assert "messages of 60 users counted" in privatizer.guarantee.explain()


@pytest.mark.parametrize("options", [{}, {"masked": False}, {"early_end": True}, {"colluding": 0.3}])
@pytest.mark.parametrize("shape", [POOLED, PER_STEP])
def test_the_promise_is_kept_and_can_be_checked_by_others(shape, options):
    guarantee = build(target(blocks=3, **options), shape, 100).guarantee
    assert (guarantee.model, guarantee.epsilon, guarantee.delta) == ("shuffle", 1.0, 1e-4)
    assert discreet.verify(guarantee.certificate()).holds


def test_what_is_left_without_the_shuffler():
    privatizer = build(target(blocks=4), POOLED, 400)
    (one,) = privatizer.channels
    left = without_shuffler(privatizer)
    assert (left.model, left.delta) == ("local", 0.0)
    assert left.epsilon == one.response(100, one.most).shipped_epsilon > 1.0
    assert left.epsilon == max(one.unshuffled(100, items).epsilon for items in (one.fewest, 15, 18, 21, one.most))
    assert f"pure local, epsilon {left.epsilon:.4g}"[:20] in privatizer.guarantee.explain()
    assert discreet.verify(left.certificate()).holds
    bits = build(target(recipe="shuffle/first-visit-randomised-response", blocks=4), POOLED, 400)
    assert without_shuffler(bits).epsilon == bits.channels[0].unshuffled(100).epsilon
    arms = build(target(recipe="shuffle/arm-rewards"), Shape(1, 3, 1, homogeneous=True, start=0), 400)
    assert 1.0 <= without_shuffler(arms).epsilon < math.inf


def test_without_the_shuffler_batches_that_grow_count_as_the_largest_that_there_may_be():
    """After dropouts batches begin elsewhere, and the last one may be larger than it was planned to be."""
    shape, users = discreet.Shape(3, 4, 4, homogeneous=True, start=0), 3000
    recipe = "shuffle/first-visit-tables-randomised-response"
    made = build(discreet.Shuffle(1.0, 1e-5, recipe=recipe, options={"opening": 0.02}), shape, users)
    largest = max(made.schedule.next_block(served, users) for served in range(users))
    assert largest > max(sizes(made.schedule, users))
    assert without_shuffler(made).epsilon >= made.channels[0].unshuffled(largest).epsilon


def test_a_release_serves_every_kind_of_learner():
    world = discreet.worlds.river_swim(3, 3)
    for name in ("ucbvi", "psrl", "ucbpo", "obi"):
        result = discreet.simulate(world, make_learner(name), target(2.0, blocks=6), episodes=300)
        assert 0 < result.total_regret[0] < 300

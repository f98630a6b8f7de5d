"""Intakes and learners that are saved after each round and resumed from bytes go on bit for bit.

Two runs see the same people and the same tape of noise (a generator whose state is carried over). One of them is thrown
away after every round and made anew from bytes; everything that either of them says is compared.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Mixture, Policy, uniform_policy
from discreet.base.saved_arrays import Saved
from discreet.base.streams import COINS, NOISE, USERS, generator, stream
from discreet.learners.base import Problem
from discreet.learners.registry import make_learner
from discreet.learners.saved_learners import load_state, save_state
from discreet.mechanisms import saved_intakes as saving
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.messages.asked_first_visit import AskedChannel
from discreet.mechanisms.messages.device_reports import (
    draw_question,
    pick_steps,
    randomize_answer,
    randomize_record,
    tally_records,
)
from discreet.mechanisms.messages.survey import Report
from discreet.mechanisms.release import Layer, Request
from discreet.mechanisms.schedule import Equal, EveryEpisode
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.sums.blocks import EachAlone, Once
from discreet.mechanisms.sums.matrix import exponential_sum
from discreet.mechanisms.sums.tree import EqualLawTree, EvenTree, Tree
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import DiscreteLaplace
from discreet.privacy.guarantee import nothing
from discreet.recipes.registry import build, recipes
from discreet.simulation.users import TabularUsers

SWIM = discreet.worlds.river_swim(states=3, horizon=3)
BANDIT = discreet.worlds.from_arrays(np.ones((1, 3, 1)), [[0.2, 0.5, 0.8]], horizon=1)
LEFT, RIGHT = (Policy(np.full((3, 3), action, np.int64)) for action in (0, 1))
TOTAL, ROUNDS = 300, 5
# Everything that "auto" takes for counts in the central model, and trees, which it does not.
CENTRAL = [recipe.name for recipe in recipes("central", "tabular") if recipe.automatic] + [
    "central/three-tables-laplace-tree",
    "central/three-tables-gaussian-tree",
]
PAIRS = [
    (recipe, name, {"draws": 1} if name == "psrl" and "arm" in recipe else {})
    for recipe in CENTRAL
    for name in ("ucbvi", "psrl", "ucbpo", "obi")
    if not (name == "ucbpo" and "arm" in recipe)  # rewards of arms serve one action for everybody
]


@cache
def central(recipe):
    pure = "laplace" in recipe or "arm" in recipe
    world = BANDIT if "arm" in recipe else SWIM
    return world, build(discreet.Central(1.0, 0.0 if pure else 1e-5, recipe=recipe), world.shape, TOTAL)


def tape(seed=0):
    return generator(seed, 0, NOISE)


def people(world):
    return TabularUsers(world, stream(0, 0, USERS), generator(0, 0, COINS))


def same_release(one, other):
    assert (one.users, one.guarantee) == (other.users, other.guarantee)
    assert one.statistics.keys() == other.statistics.keys()
    for name, estimate in one.statistics.items():
        assert estimate.values.tobytes() == other[name].values.tobytes()
        assert estimate.variance.tobytes() == other[name].variance.tobytes()
        np.testing.assert_array_equal(one.width(2, 0.1, name), other.width(2, 0.1, name))
        if one.radius_of is not None:
            np.testing.assert_array_equal(one.radius(name, 0.1), other.radius(name, 0.1))


def through_bytes(intake):
    public, secret = (saving.to_bytes(part) for part in intake.save())
    return Saved(saving.from_bytes(public), saving.from_bytes(secret))


def reported(channel, masked, world, policy, users, seed, weights=None):
    """Messages of users who act under a policy, by seeded generators; ``weights`` are those of questions."""
    rng, crowd = np.random.default_rng(seed), TabularUsers(world, stream(seed, 0, USERS), generator(seed, 0, COINS))
    played: Trajectories = crowd._episodes(policy, users)
    if isinstance(channel, AskedChannel):
        return [[randomize_answer(channel, played.only(i), draw_question(weights, rng), rng)] for i in range(users)]
    return [
        randomize_record(channel, played.only(i), policy, pick_steps(channel, rng), rng, masked=masked)
        for i in range(users)
    ]


def run(world, privatizer, learner, *, interrupted, seed=0):
    """What is said in each round: policies, numbers of users, releases, and what is recommended in the end."""
    problem, crowd, coins = Problem(world.shape, TOTAL), people(world), tape(seed)
    intake = privatizer.take_in(SimulatedNoise(coins), TOTAL)
    state, said = learner.init(problem, stream(0, 0, COINS)), []
    for _ in range(ROUNDS):
        request = learner.ask(state)
        users = min(max(7, intake.next_block(request.policy)), intake.left)
        context = Context(request.policy)
        tallies = crowd.tally(intake.encoders(context), context, users)
        release = intake.take(tallies, users, context)
        state = learner.update(state, release)
        said.append((request.policy, users, release, learner.policy(state)))
        same_release(intake.release_now(), release)
        if interrupted:
            content, kept, position = save_state(learner, state), through_bytes(intake), coins.bit_generator.state
            intake = state = coins = None
            coins = np.random.default_rng()
            coins.bit_generator.state = position
            intake = privatizer.resume(kept, TOTAL, SimulatedNoise(coins))
            assert [*map(saving.to_bytes, intake.save())] == [*map(saving.to_bytes, kept)]
            state = load_state(learner, problem, intake.release_now(), content)
            assert save_state(learner, state) == content
    return said, learner.recommend(state)


@pytest.mark.parametrize(("recipe", "name", "options"), PAIRS)
def test_a_run_that_is_interrupted_after_every_round_goes_on_bit_for_bit(recipe, name, options):
    world, privatizer = central(recipe)
    learner = make_learner(name, **options)
    whole, best = run(world, privatizer, learner, interrupted=False)
    pieces, same = run(world, privatizer, learner, interrupted=True)
    for (policy, users, release, following), other in zip(whole, pieces, strict=True):
        assert (policy, users, following) == (other[0], other[1], other[3])
        same_release(release, other[2])
    assert best == same
    if name == "psrl" and not options:
        assert isinstance(whole[-1][3], Mixture)


@pytest.mark.parametrize("recipe", CENTRAL)
def test_a_lost_secret_or_another_tape_changes_what_follows(recipe):
    """The comparison above can fail: with other noise, or with the secret part set to zero."""
    world, privatizer = central(recipe)
    learner = make_learner("ucbvi")
    last = [run(world, privatizer, learner, interrupted=False, seed=seed)[0][-1][2] for seed in (0, 1)]
    assert not np.array_equal(*(release["rewards"].values for release in last))

    def next_release(kept):
        intake = privatizer.resume(kept, TOTAL, SimulatedNoise(tape(3)))
        context = Context(RIGHT if world is SWIM else Policy([[1]]))
        return intake.take([np.zeros(encoder.size) for encoder in intake.encoders(context)], 1, context)

    intake = privatizer.take_in(SimulatedNoise(tape()), TOTAL)
    context = Context(RIGHT if world is SWIM else Policy([[1]]))
    intake.take(people(world).tally(intake.encoders(context), context, 10), 10, context)
    kept = intake.save()
    assert bool(kept.secret) == ("matrix" in recipe or "tree" in recipe)
    if kept.secret:
        lost = Saved(kept.public, {name: np.zeros_like(array) for name, array in kept.secret.items()})
        one, other = next_release(kept), next_release(lost)
        assert not np.array_equal(one["visits"].values, other["visits"].values)


@pytest.mark.parametrize(
    "accumulator", [Tree(50), EqualLawTree(50), EvenTree(50)], ids=lambda accumulator: accumulator.name
)
def test_every_tree_goes_on_bit_for_bit(accumulator):
    channel = Channel(ThreeTables(SWIM.shape), DiscreteLaplace(20.0), accumulator)
    privatizer = Privatizer("trees", SWIM.shape, (channel,), EveryEpisode(), nothing(), False)
    runs = []
    for interrupted in (False, True):
        coins, crowd, said = tape(), people(SWIM), []
        intake = privatizer.take_in(SimulatedNoise(coins), 50)
        for _ in range(11):
            said.append(intake.take(crowd.tally(intake.encoders(Context(RIGHT)), Context(RIGHT), 1), 1, Context(RIGHT)))
            if interrupted:
                intake = privatizer.resume(through_bytes(intake), 50, SimulatedNoise(coins))
        runs.append(said)
    for one, other in zip(*runs, strict=True):
        same_release(one, other)


class Positive(SimulatedNoise):
    """Noise that never is zero and never cancels, so that no noisy number is a raw one by accident."""

    def draw(self, law, copies, size):
        return np.abs(super().draw(law, copies, size)) + 1.0


@pytest.mark.parametrize("recipe", CENTRAL)
def test_a_planted_count_is_not_in_the_public_part(recipe):
    world, privatizer = central(recipe)
    intake = privatizer.take_in(Positive(tape()), TOTAL)
    context = Context(RIGHT if world is SWIM else Policy([[1]]))
    planted = 1_234_577.0
    (encoder,) = intake.encoders(context)
    intake.take([np.full(encoder.size, planted)], 10, context)
    public, secret = intake.save()
    numbers = np.concatenate([np.ravel(array).astype(np.float64) for array in public.values()])
    assert not {planted * 2.0**bits for bits in range(-2, 53)} & set(np.abs(numbers))
    assert np.array(planted).tobytes() not in saving.to_bytes(public)
    # The secret part is secret because the count follows from it, exactly.
    if "matrix" in recipe:
        shift, bits = (
            int(n)
            for n in (
                exponential_sum(privatizer.channels[0].accumulator.releases).shifts[0],
                privatizer.channels[0].accumulator.bits,
            )
        )
        whole = secret["channel0.past"][0] * 2**shift // (2**shift - 1)
        assert planted in np.rint(whole * 2.0**-bits)
    elif "tree" in recipe:
        nodes = secret["channel0.prefix"][int(public["channel0.current"])]
        assert (public["channel0.values"] - nodes == planted).all()
    else:
        assert not secret


@pytest.mark.parametrize("recipe", [recipe for recipe in CENTRAL if "matrix" not in recipe and "tree" not in recipe])
def test_the_public_part_is_a_function_of_what_was_released(recipe):
    """Other counts whose noise makes up for the difference: the same release, and the same bytes."""

    class Shifted(SimulatedNoise):
        by = 0.0

        def draw(self, law, copies, size):
            return super().draw(law, copies, size) + self.by

    world, privatizer = central(recipe)
    context, contents = Context(RIGHT if world is SWIM else Policy([[1]])), []
    for shift in (0.0, 5.0):
        noise = Shifted(tape())
        intake = privatizer.take_in(noise, TOTAL)
        for more in (shift, -shift):
            noise.by = -more
            (encoder,) = intake.encoders(context)
            release = intake.take([np.full(encoder.size, 20.0 + more)], 10, context)
        contents.append((intake.save(), release))
    (one, first), (other, second) = contents
    same_release(first, second)
    assert not one.secret
    assert saving.to_bytes(one.public) == saving.to_bytes(other.public)


STEP, ASKED = "local/sampled-step", "local/asked-first-visit"
LOCAL = {
    "kary": (STEP, {"response": "kary", "steps": 1}),
    "unary": (STEP, {"response": "unary", "steps": 1}),
    "two steps": (STEP, {"response": "kary", "steps": 2}),
    "early end": (STEP, {"response": "kary", "steps": 1, "early_end": True}),
    "unmasked": (STEP, {"response": "unary", "steps": 1, "masked": False}),
    "question": (ASKED, {"response": "kary"}),
    "unary question": (ASKED, {"response": "unary"}),
    "unmasked question": (ASKED, {"masked": False}),
    "auto": ("auto", {}),
}


@pytest.mark.parametrize(("recipe", "options"), LOCAL.values(), ids=LOCAL.keys())
@pytest.mark.parametrize("name", ["ucbvi", "obi", "psrl"])
def test_a_collection_that_is_interrupted_goes_on_bit_for_bit(recipe, options, name):
    privatizer = build(discreet.Local(3.0, recipe=recipe, options=options), SWIM.shape, TOTAL)
    learner = make_learner(name, **({"draws": 1} if name == "psrl" else {}))
    (channel,), problem = privatizer.channels, Problem(SWIM.shape, TOTAL)
    runs = []
    for interrupted in (False, True):
        intake, state, said, late = privatizer.collect(TOTAL), learner.init(problem, stream(0, 0, COINS)), [], None
        for number in range(ROUNDS):
            policy = learner.policy(state)
            weights = intake.question_weights(policy)
            messages = reported(channel, privatizer.masked, SWIM, policy, 8, number, weights)
            groups = [(policy, messages[:5])] + ([late] if late is not None else [])
            late = policy, messages[5:]  # three of each round come too late for it, and count with the next one
            release = intake.receive(groups)
            state = learner.update(state, release)
            said.append((policy, release))
            same_release(intake.release_now(), release)
            if interrupted:
                content, kept = save_state(learner, state), through_bytes(intake)
                assert not kept.secret
                intake = privatizer.resume(kept, TOTAL)
                assert saving.to_bytes(intake.save().public) == saving.to_bytes(kept.public)
                state = load_state(learner, problem, intake.release_now(), content)
        assert not release.guarantee.simulated
        assert release.users == 5 * ROUNDS + 3 * (ROUNDS - 1)
        runs.append(said)
    for (policy, release), (other, again) in zip(*runs, strict=True):
        assert policy == other
        same_release(release, again)


def test_pushed_reports_are_what_a_session_would_have_counted():
    """The same reports, drawn at once by a session and counted from messages: the same estimates, bit for bit."""
    privatizer = build(discreet.Local(3.0, options={"response": "kary", "steps": 1}), SWIM.shape, TOTAL)
    (channel,) = privatizer.channels
    messages = reported(channel, True, SWIM, RIGHT, 40, 5)
    received = privatizer.collect(TOTAL).receive([(RIGHT, messages)])
    run_by_hand = channel.start(SWIM.shape, SimulatedNoise(tape()), True)
    counts, asked = channel.count(RIGHT, messages)
    run_by_hand.add_reports(counts, asked, 40, Context(RIGHT))
    for name, estimate in run_by_hand.estimates().items():
        assert estimate.values.tobytes() == received[name].values.tobytes()
        assert estimate.variance.tobytes() == received[name].variance.tobytes()


@pytest.mark.parametrize("recipe", CENTRAL)
def test_records_that_are_pushed_give_what_a_session_pulls(recipe):
    """A session lets users act; an intake is handed the same records. Rewards here are bits, so nothing is rounded."""
    world, privatizer = central(recipe)
    policy = RIGHT if world is SWIM else Policy([[1]])
    pulled = privatizer.open(people(world), SimulatedNoise(tape()), TOTAL)
    pushed = privatizer.take_in(SimulatedNoise(tape()), TOTAL)
    crowd = people(world)
    for _ in range(3):
        played = crowd._episodes(policy, 20)
        tallies = tally_records(pushed.encoders(Context(policy)), Context(policy), played)
        same_release(pulled.answer(Request(policy, users=20)), pushed.take(tallies, 20, Context(policy)))


def test_records_outside_the_domain_are_refused():
    encoders = [ThreeTables(SWIM.shape)]
    good = people(SWIM)._episodes(RIGHT, 4)
    tally_records(encoders, Context(RIGHT), good)
    wrong = {
        "a state outside": {"states": np.where(good.states == 0, 3, good.states)},
        "an action outside": {"actions": good.actions - 2},
        "more than 3 steps": {"lengths": good.lengths + 1},
        "no finite number": {"rewards": np.full((4, 3), np.nan)},
        "at 3 steps": {"states": good.states[:, :2]},
    }
    for message, change in wrong.items():
        with pytest.raises(InvalidInput, match=message):
            tally_records(encoders, Context(RIGHT), replace(good, **change))
    ended = replace(good, states=np.where(np.arange(3) < 1, good.states, -1), lengths=np.ones(4, np.int64))
    assert tally_records(encoders, Context(RIGHT), ended)[0].sum() > 0
    with pytest.raises(Unsupported, match="whole tables"):
        tally_records(encoders, Context(RIGHT, Layer(1)), good)


def test_messages_that_no_device_sends_are_refused_and_nothing_counts():
    privatizer = build(discreet.Local(3.0, options={"response": "kary", "steps": 1}), SWIM.shape, TOTAL)
    (channel,) = privatizer.channels
    good = reported(channel, True, SWIM, RIGHT, 3, 0)
    intake = privatizer.collect(TOTAL)
    for wrong, message in (
        ([Report(3, np.array([0]))], "steps 0..2"),
        ([Report(-1, np.array([0]))], "steps 0..2"),
        ([Report(True, np.array([0]))], "steps 0..2"),
        ([], "1 of the steps"),
        ([Report(0, np.array([0])), Report(1, np.array([0]))], "1 of the steps"),
        ([Report(0, np.array([6]))], "one item in 0..5"),
        ([Report(0, np.array([-1]))], "one item in 0..5"),
        ([Report(0, np.array([0, 1]))], "one item"),
        ([Report(0, np.array([0.5]))], "one item"),
    ):
        with pytest.raises(InvalidInput, match=message):
            intake.receive([(RIGHT, [*good, wrong])])
    assert intake.served == 0
    with pytest.raises(InvalidInput, match="3 steps and 3 states"):
        intake.receive([(Policy([[0, 0, 0]]), good)])
    with pytest.raises(Unsupported, match="say one action"):
        intake.receive([(uniform_policy(SWIM.shape), good)])
    unary = build(discreet.Local(3.0, options={"response": "unary", "steps": 2}), SWIM.shape, TOTAL)
    (channel,) = unary.channels
    for h, bits in ((0, [0] * 5), (0, [2] * 6), (1, [0] * 17)):
        message = [Report(h, np.array(bits)), Report(2, np.zeros(6, np.int64))]
        with pytest.raises(InvalidInput, match=f"bits at step {h}"):
            unary.collect(TOTAL).receive([(RIGHT, [message])])
    with pytest.raises(InvalidInput, match="once, in order"):
        unary.collect(TOTAL).receive([(RIGHT, [reported(channel, True, SWIM, RIGHT, 1, 0)[0][::-1]])])
    with pytest.raises(Unsupported, match=r"301 users with 300 left"):
        intake.receive([(RIGHT, good * 100), (LEFT, good[:1])])
    assert intake.receive([(RIGHT, good), (LEFT, [])]).users == 3


def test_states_of_other_mechanisms_and_damaged_ones_are_refused():
    target = discreet.Central(1.0, 1e-5, recipe="central/first-visit-matrix")
    privatizer = build(target, SWIM.shape, TOTAL)
    intake = privatizer.take_in(SimulatedNoise(tape()), TOTAL)
    intake.take([np.zeros(encoder.size) for encoder in intake.encoders(Context(RIGHT))], 10, Context(RIGHT))
    kept = intake.save()
    assert privatizer.resume(kept, TOTAL, SecureNoise()).served == 10
    for other in (
        build(replace(target, epsilon=1.1), SWIM.shape, TOTAL),
        build(replace(target, options={"blocks": 3}), SWIM.shape, TOTAL),
        build(replace(target, recipe="central/joint-histogram-matrix"), SWIM.shape, TOTAL),
        build(target, replace(SWIM.shape, start=None), TOTAL),
    ):
        with pytest.raises(InvalidInput, match="another mechanism"):
            other.resume(kept, TOTAL, SecureNoise())
    with pytest.raises(InvalidInput, match="another mechanism"):
        privatizer.resume(kept, TOTAL - 1, SecureNoise())
    with pytest.raises(InvalidInput, match="no books"):
        privatizer.resume(Saved({}, kept.secret), TOTAL, SecureNoise())
    with pytest.raises(InvalidInput, match="another recipe, shape or version"):
        privatizer.resume(Saved(kept.public, {}), TOTAL, SecureNoise())
    with pytest.raises(InvalidInput, match="parts that no channel knows"):
        privatizer.resume(Saved(kept.public | {"more": np.zeros(1)}, kept.secret), TOTAL, SecureNoise())
    with pytest.raises(InvalidInput, match="do not add up"):
        privatizer.resume(Saved(kept.public | {"books.served": np.array(TOTAL + 1)}, kept.secret), TOTAL, SecureNoise())


def test_what_cannot_be_saved_or_collected_says_so():
    shuffled = build(discreet.Shuffle(1.0, 1e-3, recipe="shuffle/first-visit-binomial"), SWIM.shape, TOTAL)
    with pytest.raises(Unsupported, match="is for simulation"):
        shuffled.take_in(SimulatedNoise(tape()), TOTAL).save()
    stream_of = Channel(ThreeTables(SWIM.shape), DiscreteLaplace(1.0), EachAlone())
    with pytest.raises(Unsupported, match="EachAlone cannot be saved"):
        Privatizer("x", SWIM.shape, (stream_of,), EveryEpisode(), nothing()).take_in(SimulatedNoise(tape()), 5).save()
    for target in (discreet.Central(1.0), discreet.Local(1.0, recipe="local/three-tables-laplace")):
        with pytest.raises(Unsupported, match="local/sampled-step"):
            build(target, SWIM.shape, TOTAL).collect(TOTAL)
    for recipe, what in ((STEP, "items"), (ASKED, "answers")):
        local = build(discreet.Local(1.0, recipe=recipe), SWIM.shape, TOTAL)
        with pytest.raises(Unsupported, match="open the intake with collect"):
            local.take_in(SimulatedNoise(tape()), TOTAL).receive([(RIGHT, [])])
        (channel,) = local.channels
        with pytest.raises(Unsupported, match=f"no tally of clear {what} exists"):
            local.collect(TOTAL).take([np.zeros(channel.encoder.size)], 1, Context(RIGHT))


def test_a_single_release_stays_made():
    channel = Channel(ThreeTables(SWIM.shape), DiscreteLaplace(5.0), Once())
    privatizer = Privatizer("once", SWIM.shape, (channel,), Equal(1), nothing(), False)
    intake = privatizer.take_in(SimulatedNoise(tape()), TOTAL)
    nobody = [np.zeros(channel.encoder.size)]
    intake.take(nobody, 10, Context(RIGHT))
    again = privatizer.resume(through_bytes(intake), TOTAL, SimulatedNoise(tape()))
    with pytest.raises(Unsupported, match="once"):
        again.take(nobody, 10, Context(RIGHT))

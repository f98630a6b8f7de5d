"""A privatizer is opened for the users and makes the releases that it was built for, and not one more."""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import uniform_policy
from discreet.base.shape import Shape, layered_shape
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.focused import FocusedChannel
from discreet.mechanisms.moved import moved_by, moved_in
from discreet.mechanisms.release import Request
from discreet.mechanisms.schedule import Equal, EveryEpisode
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.sums.blocks import Blocks
from discreet.mechanisms.sums.tree import next_release
from discreet.noise import DiscreteLaplace
from discreet.privacy.guarantee import _RULES, about, billboard, compose, from_mechanism, one_of, post_process
from discreet.recipes.recipe import DATA_SET, LAYERED, LINEAR, PROBLEMS, TABULAR
from discreet.recipes.registry import build, recipes
from discreet.recipes.targets import Central, Local
from discreet.worlds.registry import make_world

SHAPE = Shape(2, 2, 1, homogeneous=True)
LAYERS = layered_shape((1, 2, 1), 2)
TREES = ("central/three-tables-laplace-tree", "central/three-tables-gaussian-tree")


class Nobody:
    def tally(self, encoders, context, users):
        return [np.zeros(encoder.size) for encoder in encoders]


def opened(privatizer, users):
    return privatizer.open(Nobody(), SimulatedNoise(np.random.default_rng(0)), users)


def target(recipe, **options):
    return Central(1.0, 0.0 if recipe.pure else 1e-5, recipe=recipe.name, options=options)


BANDIT = Shape(1, 2, 1, homogeneous=True)
CENTRAL = [(recipe, BANDIT if recipe.encoder == "arm-rewards" else SHAPE) for recipe in recipes("central", TABULAR)]
CENTRAL += [(recipe, LAYERS) for recipe in recipes("central", LAYERED)]


@pytest.mark.parametrize(("recipe", "shape"), CENTRAL, ids=lambda part: getattr(part, "name", ""))
def test_no_session_is_opened_for_more_users_than_were_paid_for(recipe, shape):
    privatizer = build(target(recipe), shape, 30)
    assert opened(privatizer, 30).left == 30
    with pytest.raises(Unsupported, match="was built for 30 users and would be opened for 31"):
        opened(privatizer, 31)


@pytest.mark.parametrize("paid", [1, 3, 7, 8])
@pytest.mark.parametrize("name", TREES)
def test_a_tree_makes_no_release_that_it_was_not_paid_for(name, paid):
    """One more release, at a power of two, would put the first user into one node more than the noise is for."""
    (recipe,) = (recipe for recipe in recipes("central") if recipe.name == name)
    channel = build(target(recipe), SHAPE, paid).channels[0]
    run = channel.start(SHAPE, SimulatedNoise(np.random.default_rng(0)), masked=False)
    context = Request(uniform_policy(SHAPE))
    for _ in range(paid):
        run.add(np.zeros(channel.encoder.size), 1, context)
    with pytest.raises(Unsupported, match=f"all {paid} releases"):
        run.add(np.zeros(channel.encoder.size), 1, context)


@pytest.mark.parametrize(
    ("name", "delta", "blocks"), [("central/loss-tables", 0.0, 511), ("central/loss-tables-gaussian", 1e-5, 7)]
)
def test_a_learner_cannot_dictate_more_releases_than_the_tree_over_blocks_was_sized_for(name, delta, blocks):
    options = {"blocks": blocks, "split": 0.95}
    privatizer = build(Central(1.0, delta, recipe=name, options=options), LAYERS, 2_000)
    paid = min(channel.accumulator.users for channel in privatizer.channels if hasattr(channel.accumulator, "users"))
    session, request = opened(privatizer, 2_000), Request(uniform_policy(LAYERS), users=1)
    for _ in range(paid):
        session.answer(request)
    with pytest.raises(Unsupported, match="releases that this recipe was built for"):
        session.answer(request)


def test_the_matrix_mechanism_counts_its_releases_row_by_row():
    recipe = next(recipe for recipe in recipes("central") if recipe.name == "central/joint-histogram-matrix")
    privatizer = build(target(recipe, blocks=3), SHAPE, 30)
    session, request = opened(privatizer, 30), Request(uniform_policy(SHAPE), users=1)
    releases = len(privatizer.channels[0].accumulator.errors()) - 1
    for _ in range(releases):
        session.answer(request)
    with pytest.raises(Unsupported, match=f"all {releases} releases"):
        session.answer(request)


def test_the_count_of_releases():
    assert next_release(0, 1) == 1
    with pytest.raises(Unsupported, match="build it for more users"):
        next_release(1, 1)


@pytest.mark.parametrize("episodes", [4, 1_200], ids=["blocks", "compiled"])
@pytest.mark.parametrize("known", [True, False], ids=["built by a recipe", "without a number of users"])
def test_no_loop_runs_a_privatizer_for_more_users_than_were_paid_for(known, episodes):
    """The compiled loop has no session: beyond its levels a tree would promise too little and write out of bounds."""
    world = discreet.worlds.random_mdp(instance=1)
    privatizer = build(Central(1.0, recipe=TREES[0]), world.shape, 3)
    privatizer = privatizer if known else replace(privatizer, users=None)
    for target in (privatizer, lambda shape, users: privatizer):
        with pytest.raises(Unsupported, match="was built for 3 users and would be opened for"):
            discreet.simulate(world, discreet.learners.UCBVI(), target, episodes=episodes)
    assert discreet.simulate(world, discreet.learners.UCBVI(), privatizer, episodes=3).guarantee.epsilon <= 1


CHANGES = {
    "channels": lambda p: replace(p, channels=tuple(replace(c, law=type(c.law)(c.law.scale / 9)) for c in p.channels)),
    "schedule": lambda p: replace(p, schedule=EveryEpisode()),
    "mask": lambda p: replace(p, masked=not p.masked),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_guarantee_does_not_stay_when_what_it_is_about_is_exchanged(change):
    world = discreet.worlds.random_mdp(instance=1)
    honest = build(Central(1.0, recipe="central/joint-histogram-laplace"), world.shape, 30)
    honest.take_in(SecureNoise(), 30)
    changed = CHANGES[change](honest)
    for call in (
        lambda: changed.take_in(SecureNoise(), 30),
        lambda: discreet.simulate(world, discreet.learners.UCBVI(), changed, episodes=30),
    ):
        with pytest.raises(Unsupported, match="changed after its guarantee was computed"):
            call()
    changed.take_in(SimulatedNoise(np.random.default_rng(0)), 30)  # an audit looks at mechanisms that are broken
    assert replace(honest, options={}, users=20).take_in(SecureNoise(), 20).left == 20


HEAVY = make_world("hard-central").shape
SHAPES = (SHAPE, Shape(2, 2, 2), replace(SHAPE, horizon=2), BANDIT, LAYERS, HEAVY)
MODELS = {"central": Central, "local": Local, "shuffle": discreet.Shuffle}
EVERY = [recipe for problem in PROBLEMS for model in MODELS for recipe in recipes(model, problem)]


def made(recipe, epsilon, shape=None, **options):
    """A recipe for the first shape, and with the first kind of target, that it takes."""
    if recipe.problem == LINEAR:
        options |= {"features": np.full((2, 2, 2), 0.5), "vectors": (1, 2)}
    budgets = ({"epsilon": epsilon}, {"epsilon": epsilon, "delta": 1e-5}, {"rho": epsilon / 10})
    for sizes, budget in product((shape,) if shape else SHAPES, budgets):
        with suppress(Unsupported, InvalidInput, TypeError):
            wanted = MODELS[recipe.model](**budget, recipe=recipe.name, options=options)
            return recipe.assemble(wanted, sizes, 30)
    raise LookupError(recipe.name)


@pytest.mark.parametrize("recipe", EVERY, ids=lambda recipe: recipe.name)
def test_a_guarantee_holds_for_the_parts_that_it_was_computed_for(recipe):
    right, stronger = made(recipe, 1.0), made(recipe, 0.5)
    right.check_unchanged()
    copy.deepcopy(right).check_unchanged()
    for other in (stronger.guarantee, about(post_process(stronger.guarantee, "nothing"), public=())):
        with pytest.raises(Unsupported, match="changed after its guarantee was computed"):
            replace(right, guarantee=other).check_unchanged()
    for law, moved in moved_in(right.channels).items():
        assert moved.within(moved_by(right.guarantee.derivation)[law])


def loose(guarantee):
    """A guarantee that nobody has computed for certain parts: as if it had been put together by hand."""
    return replace(guarantee, parts=(), by=_RULES)


def with_the_noise_of(louder, channel):
    """A channel with the noise that was calibrated for another one."""
    if isinstance(channel, FocusedChannel):
        return replace(channel, laws=(louder.laws[-1],) * len(channel.laws))
    return replace(channel, law=louder.law)


LONGER = {
    TABULAR: [(SHAPE, replace(SHAPE, horizon=3))],
    LAYERED: [(LAYERS, layered_shape((1, 2, 2, 1), 2))],
    DATA_SET: [(SHAPE, None), (Shape(2, 2, 2), None)],  # three trajectories in place of two
}
MOVING = [
    (recipe, *shapes)
    for problem, found in LONGER.items()
    for recipe, shapes in product(recipes("central", problem), found)
    if recipe.encoder != "arm-rewards" and "published" not in recipe.name and "apvi" not in recipe.name
]


@pytest.mark.parametrize(("recipe", "shape", "longer"), MOVING, ids=lambda part: getattr(part, "name", ""))
def test_a_law_is_promised_for_what_a_user_moves_under_it(recipe, shape, longer):
    """A bandit of two steps at epsilon 1/2 and one of four steps at 1 have the same noise, and not the same promise."""
    few = made(recipe, 1.0, shape) if longer else made(recipe, 1.0, shape, per_user=2)
    many = made(recipe, 1.0, longer) if longer else made(recipe, 1.0, shape, per_user=3)
    replace(few, guarantee=loose(few.guarantee)).take_in(SecureNoise(), 30)
    channels = tuple(map(with_the_noise_of, few.channels, many.channels))
    wrong = replace(many, channels=channels, guarantee=loose(few.guarantee))
    with pytest.raises(Unsupported, match=r"not about its noise, .* and what one user moves under it"):
        wrong.take_in(SecureNoise(), 30)


def by_hand(encoder, law, promise):
    return Privatizer("mine", encoder.shape, (Channel(encoder, law, Blocks()),), Equal(2), promise)


def test_the_same_noise_for_two_steps_is_no_promise_for_four():
    law, few, many = DiscreteLaplace(8.0), JointHistogram(Shape(1, 2, 2)), JointHistogram(Shape(1, 2, 4))
    promises = [billboard(from_mechanism(law, one.sensitivity(), delta=0.0, name="counts")) for one in (few, many)]
    assert [promise.epsilon for promise in promises] == pytest.approx([0.5, 1.0])
    for encoder, promise in ((few, promises[0]), (many, promises[1]), (few, promises[1])):
        by_hand(encoder, law, promise).take_in(SecureNoise(), 9)
    with pytest.raises(Unsupported, match="not about its noise, discrete-laplace, and what one user moves under it"):
        by_hand(many, law, promises[0]).take_in(SecureNoise(), 9)


def test_two_channels_with_one_law_move_more_than_each():
    """Visits and successors in tables of their own: a promise about either of them is none about both."""
    both = build(Central(1.0, recipe="offline/laplace", options={"release": "both"}), Shape(2, 2, 2), 9, data_set=True)
    law = both.channels[0].law
    each = [from_mechanism(law, one.encoder.sensitivity(), delta=0.0, name="each") for one in both.channels]
    for promise in (*each, one_of(each, "either")):
        with pytest.raises(Unsupported, match="not about its noise"):
            replace(both, guarantee=promise).take_in(SecureNoise(), 9)
    replace(both, guarantee=compose(each, delta=0.0, why="both")).take_in(SecureNoise(), 9)


@pytest.mark.parametrize(
    ("recipe", "shape"),
    [("local/sampled-step", SHAPE), ("local/asked-first-visit", replace(SHAPE, horizon=2))],
)
def test_devices_send_nothing_to_a_recipe_that_was_changed(recipe, shape):
    honest = build(Local(1.0, recipe=recipe), shape, 30)
    honest.collect(30)
    louder = replace(honest, channels=(replace(honest.channels[0], epsilon=2.0),))
    with pytest.raises(Unsupported, match="changed after its guarantee was computed"):
        louder.collect(30)

"""Expected regret: right by hand in small cases, ordered as it must be, and the same number everywhere."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.joint_histogram import MarginalTable
from discreet.mechanisms.mechanism import counts_per_row
from discreet.mechanisms.release import OPENING, WEIGHS
from discreet.mechanisms.schedule import Equal, Growing, OpeningThenEqual, OpeningThenGrowing, sizes
from discreet.mechanisms.sums.blocks import Blocks
from discreet.noise import DiscreteLaplace
from discreet.recipes import predicted_regret
from discreet.recipes.predicted_regret import (
    best_blocks,
    every_release,
    expected_regret,
    expected_share,
    noise_after,
    noise_of,
    square_root,
    visits_per_user,
)
from discreet.recipes.registry import build

POOLED = discreet.Shape(4, 2, 6, homogeneous=True, start=0)
ARMS = discreet.Shape(1, 20, 1, homogeneous=True, start=0)


def made(recipe, shape=POOLED, episodes=20_000, epsilon=1.0, delta=1e-5, **options):
    model = {"central": discreet.Central, "local": discreet.Local, "shuffle": discreet.Shuffle}[
        recipe.partition("/")[0]
    ]
    return build(model(epsilon, delta, recipe=recipe, options=options), shape, episodes)


def test_the_formula_by_hand():
    """Two arms, four blocks of 100: two blocks try them, then half of the users before count for each."""
    arms = discreet.Shape(1, 2, 1, homogeneous=True, start=0)
    share = expected_share(arms, [100] * 4, every_release(50.0), 1.0)

    def unknown(users, releases):
        seen = users / 2
        error = math.sqrt((4 + 0.1) * (50.0 * releases + seen / 2)) / seen
        return error / (1 + error)

    assert share == pytest.approx((1 + 1 + unknown(200, 1) + unknown(300, 2)) / 4)


@pytest.mark.parametrize("shape", [POOLED, ARMS, discreet.Shape(4, 2, 6)], ids=["pooled", "arms", "per-step"])
def test_less_noise_is_never_expected_to_cost_more(shape):
    for blocks in (30, 60, 200):
        shares = [expected_share(shape, [100] * blocks, every_release(unit), 0.5) for unit in (0, 1, 10, 1e3, 1e6)]
        assert shares == sorted(shares)
        assert 0 < shares[0] < shares[-1] <= 1


def test_a_larger_epsilon_is_never_expected_to_cost_more():
    for model in (discreet.Central, discreet.Local):
        expected = [expected_regret(build(model(e), POOLED, 20_000), 20_000) for e in (0.1, 1.0, 10.0)]
        assert expected == sorted(expected, reverse=True)


def test_blocks_follow_noise_users_and_actions():
    def blocks(unit, episodes=20_000, shape=POOLED):
        encoder = made("central/joint-histogram-laplace", shape).channels[0].encoder
        return best_blocks(shape, encoder, episodes, lambda _blocks: every_release(unit))

    assert blocks(10.0) > blocks(1e3) > blocks(1e6) == 20
    assert blocks(1e3, episodes=200_000) > blocks(1e3)
    assert blocks(1e3, episodes=7) == 7
    few, many = (discreet.Shape(1, arms, 1, homogeneous=True, start=0) for arms in (2, 20))
    assert blocks(20.0, shape=many) > blocks(20.0, shape=few)


def test_twenty_arms_get_hundreds_of_batches():
    """Sixty of them cost a third of what uniform play costs, whatever the learner."""
    batches = build(discreet.Shuffle(1.0, 1e-5, recipe="shuffle/joint-histogram-binomial"), ARMS, 20_000)
    assert len(sizes(batches.schedule, 20_000)) > 250


def test_noise_grows_as_the_mechanism_says():
    releases, users = np.array([0.0, 1.0, 10.0]), np.array([0.0, 50.0, 500.0])
    fresh, own = made("central/joint-histogram-laplace"), made("local/joint-histogram-laplace")
    np.testing.assert_allclose(noise_after(fresh.channels[0])(releases, users), noise_of(fresh) * releases)
    np.testing.assert_allclose(noise_after(own.channels[0])(releases, users), noise_of(own) * users)
    prefix = made("central/joint-histogram-matrix", blocks=64)
    (channel,) = prefix.channels
    exact = noise_after(channel)(np.arange(65.0), users)
    unit = exact[1] / channel.accumulator.column_norm**2
    np.testing.assert_allclose(square_root(unit, 64)(np.arange(65.0), users), exact, rtol=0.12)
    assert exact[1] == pytest.approx(1.4 * channel.law.variance * counts_per_row(channel.encoder))  # it stays for long


def test_what_a_user_counts_for():
    joint, first = (made(f"central/{name}-laplace").channels[0].encoder for name in ("joint-histogram", "first-visit"))
    assert visits_per_user(POOLED, joint) == 6 / 4
    assert visits_per_user(POOLED, first) == pytest.approx(1 - 0.75**6)
    assert visits_per_user(discreet.Shape(4, 2, 6), joint) == 1 / 4


def test_blocks_of_users_who_add_noise_themselves_grow_more_slowly_with_many_actions():
    assert made("local/sampled-step").schedule == Growing(1, 0.02)
    assert made("local/first-visit-laplace", ARMS).schedule == Growing(1, 0.004)
    assert made("local/sampled-step", ARMS, growth=0.5).schedule == Growing(1, 0.5)


def test_given_blocks_are_taken():
    assert made("central/joint-histogram-laplace", blocks=33).schedule == Equal(33)
    assert made("central/focused-first-visit-laplace", blocks=33).schedule == Equal(33)
    assert made("central/first-visit-matrix", blocks=33).schedule == Equal(33)


def test_an_opening_by_hand():
    """Two actions, a first block of 200 and four of 100: it and two more (and log2 S) count in full."""
    world = discreet.Shape(2, 3, 4, homogeneous=True)
    noise, blocks = every_release(50.0), [200, 100, 100, 100, 100]
    share = expected_share(world, blocks, noise, 1.0, opening=True)
    seen = 500 / 3
    error = math.sqrt((4 + 1.6) * (50.0 * 2 + seen / 2)) / seen
    before = 400 / 3
    earlier = math.sqrt((4 + 1.6) * (50.0 * 1 + before / 2)) / before
    assert share == pytest.approx((200 + 100 + 100 + 100 * (earlier / (1 + earlier) + error / (1 + error))) / 600)


def test_an_opening_is_as_long_as_the_problem_is_hard():
    """A quarter of the square of what is expected without one; for learners that act at random in it, and no others."""
    recipe = "central/joint-histogram-laplace"
    shares = []
    for epsilon in (0.3, 1.0, 3.0):
        without = made(recipe, epsilon=epsilon, delta=0.0)
        target = discreet.Central(epsilon, recipe=recipe)
        schedule = build(target, POOLED, 20_000, {OPENING}).schedule
        assert isinstance(without.schedule, Equal)
        assert isinstance(schedule, OpeningThenEqual)
        assert schedule.opening == round(0.25 * expected_regret(without, 20_000) ** 2 * 20_000)
        shares.append(schedule.opening)
    assert shares == sorted(shares, reverse=True)


def test_an_opening_that_is_given_is_taken():
    recipe = "central/joint-histogram-laplace"
    assert made(recipe, opening=0.1).schedule == OpeningThenEqual(2000, made(recipe, opening=0.1).schedule.blocks)
    assert made(recipe, opening=0.1, blocks=7).schedule == OpeningThenEqual(2000, 7)
    assert sizes(OpeningThenEqual(2000, 7), 20_000) == [2000, 2571, 2571, 2572, 2571, 2572, 2571, 2572]
    assert sizes(OpeningThenEqual(50, 7), 20) == [20]
    target = discreet.Central(1.0, recipe=recipe, options={"blocks": 33})
    assert build(target, POOLED, 20_000, {OPENING}).schedule == Equal(33)  # as many as were asked for, and no more
    assert isinstance(made(recipe, episodes=3, opening=0.1).schedule, Equal)  # nobody would be in it
    bandit = build(discreet.Central(1.0, recipe=recipe), ARMS, 20_000, {OPENING})
    assert isinstance(bandit.schedule, Equal)


@pytest.mark.parametrize(("actions", "growth"), [(2, 0.0), (3, 0.05), (4, 0.1), (5, 0.15), (9, 0.15)])
@pytest.mark.parametrize("recipe", ["central/joint-histogram-laplace", "shuffle/first-visit-binomial"])
def test_blocks_grow_where_noise_adds_up_and_there_are_more_than_two_actions(recipe, actions, growth):
    """.6 of the equal share of those after the opening, then .05 (A - 2) of the users so far, at most .15."""
    shape = discreet.Shape(5, actions, 8, homogeneous=True, start=0)
    privatizer = made(recipe, shape, opening=0.1)
    if growth == 0.0:
        assert isinstance(privatizer.schedule, OpeningThenEqual)
        return
    schedule = privatizer.schedule
    (channel,) = privatizer.channels
    usual = channel if "laplace" in recipe else replace(channel, block=20_000 // 60)

    def weighed(_blocks):
        plain = noise_after(usual)
        return lambda releases, users: 0.6 * plain(releases, users)

    equal = best_blocks(shape, channel.encoder, 20_000, weighed, 2000)
    assert isinstance(schedule, OpeningThenGrowing)
    assert (schedule.opening, schedule.first) == (2000, round(0.6 * 18_000 / equal))
    assert schedule.growth == pytest.approx(growth)
    assert privatizer.opening == 2000


def test_blocks_stay_equal_with_laws_per_step_prefix_sums_and_a_number_that_is_given():
    shape = discreet.Shape(5, 4, 8, homogeneous=True, start=0)
    recipe = "central/joint-histogram-laplace"
    for privatizer in (
        made(recipe, replace(shape, homogeneous=False), opening=0.1),
        made("central/first-visit-matrix", shape, opening=0.1),
        made(recipe, shape, opening=0.1, blocks=7),
        made("shuffle/sampled-item", shape, opening=0.1),  # larger batches are more truthful, so sizes are kept alike
    ):
        assert isinstance(privatizer.schedule, OpeningThenEqual)


@pytest.mark.parametrize("share", [-0.1, 1.0, 2, "much"])
def test_a_senseless_opening_is_refused(share):
    with pytest.raises(discreet.base.errors.InvalidInput, match="opening"):
        made("central/joint-histogram-laplace", opening=share)


def test_a_first_block_that_is_short_and_long_is_refused():
    with pytest.raises(discreet.base.errors.InvalidInput, match=r"first=10.*opening=0\.1"):
        made("central/joint-histogram-laplace", opening=0.1, first=10)
    assert made("central/joint-histogram-laplace", opening=0.0, first=10).schedule.first == 10


def test_learners_that_weigh_blocks_are_expected_to_lose_less_by_their_noise():
    """Of plain blocks .6 of the variance is left, of prefix sums .3; of focused blocks all, and 1.1 times dearer."""

    def by_hand(recipe, noise):
        made_ = made(recipe, blocks=40)
        (channel,) = made_.channels
        visits = visits_per_user(POOLED, channel.encoder)
        return made_, expected_share(POOLED, sizes(made_.schedule, 20_000), noise(channel), visits, False, 0.1)

    def scaled(part, persists=1.0):
        def noise(channel):
            after = noise_after(channel, persists)
            return lambda releases, users: part * after(releases, users)

        return noise

    for recipe, noise, dearer in (
        ("central/joint-histogram-laplace", scaled(0.6), 1.0),
        ("central/first-visit-matrix", scaled(0.3), 1.0),
        ("central/focused-first-visit-gaussian", scaled(1.0), 1.1),
    ):
        privatizer, share = by_hand(recipe, noise)
        wanted = dearer * share
        assert expected_regret(privatizer, 20_000, frozenset({WEIGHS})) == pytest.approx(wanted, rel=1e-12)
        assert share < expected_regret(privatizer, 20_000)
    arms = made("central/joint-histogram-laplace", ARMS, blocks=40)  # bandits are not weighed
    assert expected_regret(arms, 20_000, frozenset({WEIGHS})) == expected_regret(arms, 20_000)


def test_auto_leaves_focused_blocks_where_blocks_can_be_weighed(monkeypatch):
    """Pure epsilon 1, random worlds of 40 states and 4 actions: 7 of 10 runs stuck with focused blocks, else none."""
    shape = discreet.Shape(40, 4, 25, homogeneous=True, start=0)
    assert build(discreet.Central(1.0), shape, 20_000, {WEIGHS, OPENING}).recipe == "central/two-tables-laplace"
    focused = made("central/focused-first-visit-gaussian")
    expected = expected_regret(focused, 20_000)
    monkeypatch.setattr(predicted_regret, "_FOCUSED", 1.0)
    assert expected_regret(focused, 20_000) == expected  # of learners that do not weigh
    twin = build(discreet.Central(1.0), shape, 20_000, {WEIGHS, OPENING}).recipe
    assert twin == "central/focused-first-visit-laplace"


def opening_of(states: int, horizon: int, pooled: bool = True) -> int:
    """How many of 20,000 users act at random first, in a problem in which little is expected to be learned."""
    shape = discreet.Shape(states, 4, horizon, homogeneous=pooled, start=0)
    return build(discreet.Central(0.3, recipe="central/two-tables-laplace"), shape, 20_000, {WEIGHS, OPENING}).opening


def test_a_first_block_at_random_is_no_longer_than_a_twentieth_of_the_users_unless_episodes_are_short():
    assert opening_of(49, 22) == 1_000
    assert opening_of(40, 8) == 2_200  # .022 * 40 / 8 of all users
    assert 4_000 < opening_of(60, 4) < 5_000  # a quarter of the square of what is expected
    assert 4_000 < opening_of(20, 22, pooled=False) < 5_000  # every step must be seen by itself


def test_auto_takes_first_visits_where_every_visit_would_be_told_with_more_noise():
    """At (10, 1e-5) a forest of four ages costs a third with first visits, for a learner that weighs."""
    shape, privacy = discreet.worlds.forest(ages=4).shape, discreet.Central(10.0, 1e-5)
    assert build(privacy, shape, 20_000, {WEIGHS, OPENING}).recipe == "central/first-visit-matrix"
    assert build(privacy, shape, 20_000).recipe != "central/first-visit-matrix"


@pytest.mark.parametrize("shape", [POOLED, discreet.Shape(20, 4, 8, homogeneous=True, start=0)], ids=["4x2", "20x4"])
def test_prefix_sums_have_blocks_for_the_noise_that_weighing_leaves(shape):
    recipe = "central/first-visit-matrix"
    schedule = build(discreet.Central(1.0, 1e-5, recipe=recipe), shape, 20_000, {OPENING, WEIGHS}).schedule
    assert isinstance(schedule, OpeningThenEqual)
    (alone,) = made(recipe, shape, blocks=1).channels  # one release: the column norm is 1

    def blocks(left):
        def noise(number):
            plain = square_root(alone.law.variance * counts_per_row(alone.encoder), number)
            return lambda releases, users: left * plain(releases, users)

        return best_blocks(shape, alone.encoder, 20_000, noise, schedule.opening)

    assert schedule.blocks == blocks(0.3)
    assert schedule.blocks > blocks(0.6)


@pytest.mark.parametrize(
    ("actions", "horizon", "rewards", "successors"),
    [(2, 6, 1, 1.0), (3, 13, 2, 1.0), (4, 16, 3, 16 / 13), (9, 40, 3, 1.5), (1, 5, 1, 1.0)],
)
def test_rewards_count_by_actions_and_successors_by_steps(actions, horizon, rewards, successors):
    """The share with cells that count so often is that of one release with so much more noise in it."""
    shape = discreet.Shape(4, actions, horizon, homogeneous=True)
    privatizer = made("central/two-tables-laplace", shape, 5_000, delta=0.0, blocks=30)
    (channel,) = privatizer.channels
    noise = every_release((2 + 4 * successors + rewards) / (2 + 4 + 1) * channel.noise_per_row())
    expected = expected_share(shape, sizes(privatizer.schedule, 5_000), noise, horizon / 4)
    assert expected_regret(privatizer, 5_000) == pytest.approx(expected)


def test_blocks_that_grow_are_expected_to_cost_more_than_the_formula_says():
    shape, needs = discreet.Shape(5, 3, 6, homogeneous=True), frozenset({WEIGHS, OPENING})
    privatizer = build(discreet.Central(1.0, recipe="central/two-tables-laplace"), shape, 5_000, needs)
    assert isinstance(privatizer.schedule, OpeningThenGrowing)
    (channel,) = privatizer.channels
    noise = every_release(0.6 * (2 + 5 + 2) / (2 + 5 + 1) * channel.noise_per_row())
    expected = expected_share(shape, sizes(privatizer.schedule, 5_000), noise, 6 / 5, opening=True, chance=0.1)
    assert expected_regret(privatizer, 5_000, needs) == pytest.approx(1.12 * expected)


def test_nothing_counts_more_often_in_bandits():
    privatizer = made("central/joint-histogram-laplace", ARMS, 5_000, delta=0.0, blocks=20)
    (channel,) = privatizer.channels
    expected = expected_share(ARMS, sizes(privatizer.schedule, 5_000), every_release(channel.noise_per_row()), 1.0)
    assert expected_regret(privatizer, 5_000) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("world", "recipe"),
    [
        (discreet.worlds.inventory(capacity=5), "central/two-tables-laplace"),
        (discreet.worlds.deep_sea(size=6), "central/two-tables-laplace"),
        (discreet.worlds.admission(capacity=5), "central/joint-histogram-laplace"),
        (discreet.worlds.river_swim(states=6, horizon=20), "central/joint-histogram-laplace"),
    ],
    ids=["inventory", "deep-sea", "queue", "river"],
)
def test_two_tables_are_taken_at_pure_epsilon_where_rewards_are_hard_to_tell(world, recipe):
    needs = discreet.learners.UCBVI.needs
    assert build(discreet.Central(1.0), world.shape, 20_000, needs).recipe == recipe


def test_with_steps_pooled_every_visit_is_never_taken_for_prefix_sums():
    """By the formula it would be, at a large epsilon; measured, it costs two to three times as much as first visits."""
    shape, target = discreet.worlds.forest(ages=4).shape, discreet.Central(10.0, 1e-5)
    needs = discreet.learners.UCBVI.needs
    tempting = build(replace(target, recipe="central/two-tables-matrix"), shape, 20_000, needs)
    taken = build(target, shape, 20_000, needs)
    assert expected_regret(tempting, 20_000, needs) < expected_regret(taken, 20_000, needs)
    assert taken.recipe == "central/first-visit-matrix"


def test_channels_with_some_of_the_counts_are_compared_too():
    """A recipe of one's own may release visits and successors by channels of their own."""
    plain = made("central/joint-histogram-laplace", blocks=30)
    parts = (MarginalTable(POOLED, separate=True), MarginalTable(POOLED, successors=False, bits=True))
    channels = tuple(Channel(encoder, DiscreteLaplace(20.0), Blocks()) for encoder in parts)
    assert 0 < expected_regret(replace(plain, channels=channels), 20_000) < 1

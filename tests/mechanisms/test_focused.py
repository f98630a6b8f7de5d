"""Focused blocks: which rows are asked about, how much noise they get, and what is promised for it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.policies import Policy
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.focused import mixed_widths, row_numbers
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.privacy.guarantee import from_mechanism, one_of
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.registry import build

SHAPE = discreet.worlds.river_swim(states=4, horizon=6).shape
PURE, APPROXIMATE = "central/focused-first-visit-laplace", "central/focused-first-visit-gaussian"
RIGHT = Context(Policy(np.ones((6, 4), np.int64)))


def privatizer(**options):
    return build(discreet.Central(1.0, recipe=PURE, options=options), SHAPE, 2000)


def start(**options):
    made = privatizer(**options)
    channel = made.channels[0]
    return channel, channel.start(SHAPE, SimulatedNoise(np.random.default_rng(3)), made.masked)


def tally(channel, visits):
    cells = np.zeros(channel.encoder.size)
    cells[: channel.encoder.rows] = visits
    return cells


def test_noise_is_calibrated_to_the_rows_that_are_released():
    channel, run = start()
    assert channel.law_for(8).scale == pytest.approx(2 * channel.law_for(4).scale) == pytest.approx(24.0)
    run.add(tally(channel, 0.0), 100, RIGHT)  # always right plays one row of each state
    variance = run.estimates()["visits"].variance[0]
    assert variance[:, 0].tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(variance[:, 1], channel.law_for(4).variance)


def test_a_row_that_is_known_is_left_alone_and_the_others_get_less_noise():
    channel, run = start()
    visits = np.zeros((4, 2))
    visits[0, 1] = 1e6
    run.add(tally(channel, visits.reshape(-1)), 100, RIGHT)
    before = run.estimates()
    assert run.wanted(RIGHT, 100)[0].tolist() == [[False, False], [False, True], [False, True], [False, True]]
    run.add(tally(channel, visits.reshape(-1)), 100, RIGHT)
    after = run.estimates()
    assert after["visits"].values[0, 0, 1] == before["visits"].values[0, 0, 1]
    added = after["rewards"].variance - before["rewards"].variance
    np.testing.assert_allclose(added[0, 1:, 1], channel.law_for(3).variance)
    assert added[0, 0, 1] == 0


def test_something_is_always_asked_even_when_everything_is_known():
    channel, run = start()
    visits = np.arange(1, 9).reshape(4, 2) * 1e6
    run.add(tally(channel, visits.reshape(-1)), 100, RIGHT)
    assert run.wanted(RIGHT, 100)[0].tolist() == [[False, True], [False, False], [False, False], [False, False]]


def stuck(channel, run, invented=3000.0):
    """One block in which everybody is in state 0, with a wrong successor, then one that sees nobody."""
    everybody = tally(channel, np.eye(8)[1] * 100_000)
    everybody[channel.encoder.rows + 4 + 3] = invented  # state 0, right: to the last state
    run.add(everybody, 100_000, RIGHT)
    assert run.wanted(RIGHT, 100)[0, :, 1].tolist() == [False, True, True, True]
    run.add(tally(channel, 0.0), 100, RIGHT)


def test_a_block_that_learned_nothing_is_followed_by_one_about_what_is_known():
    channel, run = start()
    stuck(channel, run)
    assert run.wanted(RIGHT, 100)[0, :, 1].tolist() == [True, False, False, False]
    run.add(tally(channel, np.eye(8)[1] * 100), 100, RIGHT)  # which learns something, so the next one is ordinary
    assert run.wanted(RIGHT, 100)[0, :, 1].tolist() == [False, True, True, True]


def test_visits_at_the_last_step_do_not_count_as_learning():
    """They show where nobody goes next, and would hide that nobody reaches the other rows."""
    channel, run = start()
    actions = np.ones((6, 4), np.int64)
    actions[-1] = 0
    at_last = Context(Policy(actions))
    run.add(tally(channel, np.eye(8)[1] * 100_000), 100_000, at_last)
    run.add(tally(channel, np.eye(8)[0] * 100), 100, at_last)
    assert run.wanted(at_last, 100)[0].tolist() == [[False, True], [False, False], [False, False], [False, False]]


def test_a_known_row_starts_anew_if_one_block_says_more_than_all_before():
    channel, run = start()
    stuck(channel, run)
    again = tally(channel, np.eye(8)[1] * 80_000)
    run.add(again, 80_000, RIGHT)  # less noise than the first block had: four rows then, one now
    estimates = run.estimates()
    assert estimates["visits"].values[0, 0, 1] == pytest.approx(80_000, abs=100)
    assert estimates["visits"].variance[0, 0, 1] == pytest.approx(channel.law_for(1).variance)
    assert abs(estimates["transitions"].values[0, 0, 1, 3]) < 100
    channel, run = start()
    stuck(channel, run)
    run.add(tally(channel, np.eye(8)[1] * 800), 800, RIGHT)  # too few to forget the rest for
    assert run.estimates()["visits"].values[0, 0, 1] == pytest.approx(100_800, abs=300)


@pytest.mark.slow
def test_no_run_is_stuck_for_long():
    """100 runs whose worst regret was 9,000 of at most 8,884 expected from uniform play, when known rows stayed so."""
    result = discreet.simulate(
        discreet.worlds.river_swim(states=4, horizon=6),
        discreet.learners.UCBVI(),
        discreet.Central(1.0, recipe=PURE),
        episodes=20_000,
        runs=100,
        seed=11,
    )
    assert result.regret[:, -1].mean() < 1200
    assert result.regret[:, -1].max() < 4500


def test_what_counts_as_known_rises_with_what_could_be_reached():
    channel, run = start(enough=1.0)
    visits = np.full(8, 10 * np.sqrt(channel.law_for(4).variance))
    run.add(tally(channel, visits), 100, RIGHT)
    assert run.wanted(RIGHT, 1).sum() < 4
    assert run.wanted(RIGHT, 10_000).sum() == 4


def test_without_a_mask_every_row_is_released_with_the_noise_of_all():
    channel, run = start(masked=False)
    run.add(tally(channel, 1e6), 100, RIGHT)
    run.add(tally(channel, 1e6), 100, RIGHT)
    np.testing.assert_allclose(run.estimates()["visits"].variance, 2 * channel.laws[-1].variance)
    assert len(channel.laws) == 1


@pytest.mark.parametrize(("recipe", "delta"), [(PURE, 0.0), (APPROXIMATE, 1e-5)])
def test_every_number_of_rows_keeps_the_target_and_uses_it_up(recipe, delta):
    made = build(discreet.Central(0.7, delta, recipe=recipe), SHAPE, 2000)
    channel = made.channels[0]
    for rows, law in zip(channel.rows, channel.laws, strict=True):
        assert law.profile(channel.encoder.sensitivity(rows)).epsilon(delta) == pytest.approx(0.7, rel=1e-4)
        assert law.profile(channel.encoder.sensitivity(rows)).delta(made.guarantee.epsilon) <= delta
    assert made.guarantee.model == "joint"
    assert made.guarantee.epsilon == pytest.approx(0.7, rel=1e-4)
    assert "public choice" in made.guarantee.explain()


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_block_never_has_the_noise_of_more_rows_than_it_releases(law):
    shape = discreet.Shape(20, 3, 12, homogeneous=True)
    recipe = f"central/focused-first-visit-{law}"
    channel = build(discreet.Central(1.0, 1e-6, recipe=recipe), shape, 2_000).channels[0]
    assert channel.rows == tuple(range(1, 61))
    for rows in range(1, 61):
        assert channel.law_for(rows).profile(channel.encoder.sensitivity(rows)).epsilon(1e-6) > 0.9995
        assert channel.law_for(rows).profile(channel.encoder.sensitivity(rows)).delta(1.0) <= 1e-6


def test_a_public_choice_promises_the_weakest_of_its_parts():
    moves = Sensitivity.unit_shifts(1, 1)
    loud, quiet = (from_mechanism(DiscreteLaplace(b), moves, delta=0.0, name="counts") for b in (4.0, 2.0))
    assert one_of([loud, quiet], "why").epsilon == quiet.epsilon == 1.0
    assert one_of([loud, quiet], "why").delta_at(0.6) == quiet.delta_at(0.6) > loud.delta_at(0.6)
    assert one_of([loud], "why") is loud


@pytest.mark.parametrize("each", [8, 256])
def test_every_small_number_of_rows_has_its_law_and_large_ones_waste_at_most_a_quarter(each):
    for rows in (1, 2, 7, 8, 9, 69, 255, 256, 257, 3000):
        numbers = row_numbers(rows, each)
        assert numbers[: min(rows, each)] == tuple(range(1, min(rows, each) + 1))
        assert numbers[-1] == rows
        assert all(b <= max(a + 1, 1.25 * a) for a, b in itertools.pairwise(numbers))


def test_widths_of_mixed_noise_hold_and_are_not_wasteful():
    laws = (DiscreteGaussian(5.0), DiscreteGaussian(10.0))
    draws = np.array([[[[3]], [[0]]], [[[2]], [[0]]]]).reshape(2, 1, 2, 1)
    width = mixed_widths(laws, draws, 0.01)
    rng = np.random.default_rng(1)
    sums = laws[0].draw_sum(3, rng, 20_000) + laws[1].draw_sum(2, rng, 20_000)
    exceeded = (np.abs(sums) > width[0, 0, 0]).mean()
    assert exceeded < 0.01 + 4 * np.sqrt(0.01 / 20_000)
    assert width[0, 0, 0] < 1.6 * np.quantile(np.abs(sums), 0.99)
    assert width[0, 1, 0] == 0


def test_blocks_are_as_long_as_the_noise_asks_for_and_can_be_set():
    pure = build(discreet.Central(1.0, recipe=PURE), SHAPE, 20_000).schedule
    strict = build(discreet.Central(0.2, recipe=PURE), SHAPE, 20_000).schedule
    assert pure.blocks > strict.blocks >= 20
    assert privatizer(blocks=7).schedule.blocks == 7
    with pytest.raises(InvalidInput, match="enough"):
        privatizer(enough=0)


def test_focus_learns_river_swim_where_unfocused_counts_do_not():
    """Same guarantee, same episodes, same blocks, half the regret or less, for a learner that adds blocks up."""
    world = discreet.worlds.river_swim(states=5, horizon=12)

    class AddsBlocks(discreet.learners.UCBVI):
        def update(self, state, release):
            return super().update(state, replace(release, mixing=None))

    focused, plain = (
        discreet.simulate(
            world,
            AddsBlocks(),
            discreet.Central(1.0, recipe=recipe, options={"blocks": 60}),
            episodes=20_000,
            runs=12,
            seed=11,
        )
        for recipe in (PURE, "central/first-visit-laplace")
    )
    assert focused.regret[:, -1].mean() < 0.5 * plain.regret[:, -1].mean()

"""Rows that few users meet: their likely visits, and rewards that are hardly known, by hand and in real runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.policies import uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, USERS, generator, stream
from discreet.learners import PSRL, UCBVI, base, ucbvi
from discreet.learners.base import Problem, all_told
from discreet.learners.block_history import weighed
from discreet.learners.optimistic_initialisation import worth_a_look
from discreet.learners.saved_learners import load_state, save_state
from discreet.learners.visit_posterior import steps_had, with_likely_visits
from discreet.mechanisms.release import UNMIXED, Estimate, Release
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.privacy.guarantee import nothing
from discreet.recipes.registry import build
from discreet.simulation.users import TabularUsers
from discreet.worlds.planning.backward_induction import occupancy
from discreet.worlds.registry import make_world

H, S, A = 4, 3, 2
SHAPE = Shape(states=S, actions=A, horizon=H, homogeneous=True, start=0)


def told(visits, rewards=0.0, noise=100.0) -> Release:
    """Rows with these visits and sums of rewards, all with noise of this deviation."""
    n = np.broadcast_to(np.asarray(visits, float), (1, S, A)).copy()
    variance = np.full(n.shape, float(noise) ** 2)
    statistics = {
        "visits": Estimate(n, variance),
        "transitions": Estimate(np.repeat(n[..., None] / S, S, axis=-1), variance),
        "rewards": Estimate(np.broadcast_to(np.asarray(rewards, float), n.shape).copy(), variance),
    }
    return Release(statistics, 5000, nothing(), lambda _cells, _tail: variance, mixing=UNMIXED)


def elsewhere(shape: Shape, release: Release) -> list[tuple[Shape, Release]]:
    """Where neither is used: laws per step, bandits, prefix sums, first visits, blocks that nobody can tell apart."""
    return [
        (replace(shape, homogeneous=False), release),
        (replace(shape, horizon=1), release),
        (shape, replace(release, mixing=None)),
        (shape, replace(release, noise_lasts=True)),
        (shape, replace(release, first_visits=True)),
    ]


def test_likely_visits_by_hand():
    """N = 400 and E = 100, deviation 100: E may be off by sqrt(30^2 + 50^2), so N has a weight of 3400 / 13400."""
    release = told([[[400.0, 400.0], [-50.0, 4000.0], [0.0, 150.0]]])
    expected = np.array([[[100.0, 400.0], [300.0, 3000.0], [0.0, 150.0]]])
    found = with_likely_visits(SHAPE, release, expected)
    assert found["visits"].values[0, 0, 0] == pytest.approx(400 * 3400 / 13400 + 100 * 10000 / 13400)
    assert found["visits"].values[0, 1, 0] == pytest.approx((-50 * 10600 + 300 * 10000) / 20600)
    assert found["visits"].values[0, 1, 1] == pytest.approx((4000 * 812500 + 3000 * 10000) / 822500)  # N is what counts
    assert found["visits"].values[0, 2].tolist() == pytest.approx([0.0, 150.0])
    assert found["visits"].values[0, 0, 1] == pytest.approx(400.0)
    assert found["visits"].variance is release["visits"].variance
    for name in ("transitions", "rewards"):
        assert found[name] is release[name]


def test_records_that_end_early_bring_fewer_visits():
    """5,000 users of 4 steps: 20,000 visits, or 8,000 ± 245 of records that end early; three deviations are granted."""
    assert steps_had(SHAPE, told(20_000 / 6)) == 1.0
    assert steps_had(SHAPE, told(19_500 / 6)) == 1.0  # two deviations less, by chance
    assert steps_had(SHAPE, told(8_000 / 6)) == pytest.approx((8_000 + 3 * 100 * np.sqrt(6)) / 20_000)
    assert steps_had(SHAPE, told(-1_000.0)) == 0.0


def test_without_noise_a_count_is_what_it_is():
    release = told(400.0, noise=0.0)
    found = with_likely_visits(SHAPE, release, np.zeros((1, S, A)))
    np.testing.assert_array_equal(found["visits"].values, release["visits"].values)


def test_rewards_that_are_hardly_known_by_hand():
    """Deviation of the noise in visits and rewards 100; n = 200, 1,000 and unseen."""
    release = told(
        [[[200.0, 1000.0], [90.0, 200.0], [200.0, 200.0]]], [[[20.0, 100.0], [-40.0, -60.0], [180.0, 100.0]]]
    )
    found = worth_a_look(SHAPE, release)["rewards"].values[0]
    v = (1 + 0.1**2) * 100**2 / 200**2
    assert found[0, 0] / 200 == pytest.approx(0.1 + 0.6 * v**2 / (v**2 + 0.09))
    assert found[0, 0] / 200 > 0.3
    v = (1 + 0.1**2) * 100**2 / 1000**2
    assert found[0, 1] / 1000 == pytest.approx(0.1 + 0.6 * v**2 / (v**2 + 0.09))
    assert found[0, 1] / 1000 < 0.101
    assert found[1, 0] == -40.0  # unseen: worth everything already
    assert found[1, 1] / 200 == pytest.approx(0.7 * 0.0625 / (0.0625 + 0.09))  # r is not below zero
    assert found[2, 0] == 180.0  # looks better than what nothing is known of
    assert found[2, 1] / 200 == pytest.approx(0.5 + 0.2 * 0.3125**2 / (0.3125**2 + 0.09))


def test_both_are_for_pooled_steps_of_which_every_visit_counts():
    release = told(200.0)
    expected = np.full((1, S, A), 100.0)
    assert with_likely_visits(SHAPE, release, expected) is not release
    assert worth_a_look(SHAPE, release) is not release
    assert worth_a_look(replace(SHAPE, actions=3), release) is release
    for shape, changed in elsewhere(SHAPE, release):
        assert with_likely_visits(shape, changed, expected) is changed
        assert worth_a_look(shape, changed) is changed


@pytest.mark.parametrize(
    ("recipe", "first"),
    [("joint-histogram-laplace", False), ("first-visit-laplace", True), ("first-visit-two-tables-laplace", True),
     ("two-tables-laplace", False)],
)  # fmt: skip
def test_a_release_says_whether_only_first_visits_count(recipe, first):
    world = discreet.worlds.river_swim(states=3, horizon=4)
    privacy = discreet.Central(1.0, recipe=f"central/{recipe}")
    result = discreet.simulate(world, UCBVI(), privacy, episodes=50, seed=0, keep_release=True)
    assert result.releases[0].first_visits is first


def after_the_opening(world, seed, learner=None):
    """What a learner knows after the first block, in which everybody acts at random, at pure epsilon 1."""
    learner = learner or UCBVI()
    privatizer = build(discreet.Central(1.0), world.shape, 20_000, learner.needs)
    users = TabularUsers(world, stream(seed, 0, USERS), generator(seed, 0, COINS))
    session = privatizer.open(users, SimulatedNoise(np.random.default_rng(seed)), 20_000)
    state = learner.init(Problem(world.shape, 20_000, privatizer.opening), stream(seed, 0, COINS))
    release = session.answer(learner.ask(state))
    return learner, release, learner.update(state, release)


def chain():
    return make_world("chain", states=6, horizon=15)


def test_of_a_rare_row_likely_visits_are_better_known_than_its_count():
    """The two rows at the far end of a chain, 30 first blocks: half of the error, and few rows of noise seen."""
    world = chain()
    start = np.eye(6)[0]
    errors, seen = np.zeros(2), np.zeros(2)
    for seed in range(30):
        _, raw, state = after_the_opening(world, seed)
        truth = raw.users * occupancy(world.transitions, start, uniform_policy(world.shape)).sum(0)[5]
        for i, release in enumerate((weighed(state.books), state.release)):
            visits, noise = release["visits"].values[0, 5], np.sqrt(release["visits"].variance[0, 5])
            assert (truth < 0.7 * noise).all()
            errors[i] += np.abs(visits - truth).sum()
            seen[i] += (visits >= 0.5 + noise).sum()
    assert errors[1] < 0.5 * errors[0]
    assert seen[0] >= 6  # of 60: with Laplace noise one in six or so
    assert seen[1] <= seen[0] / 3


def test_a_row_that_noise_made_look_bad_is_tried_again_but_not_recommended(monkeypatch):
    """The other action is worth .3 for certain; this one had 200 visits, with noise of a hundred, and looks bad."""
    visits, rewards = np.full((1, S, A), 20_000.0), np.full((1, S, A), 6_000.0)
    visits[0, 0, 1], rewards[0, 0, 1] = 200.0, 0.0
    release = told(visits, rewards)
    learner = UCBVI()
    state = learner.init(Problem(SHAPE, 20_000, 100), stream(1, 0, COINS))
    planned = learner.replan(state, release)
    assert 1 in planned.policy.actions[:, 0]
    assert 1 not in learner.recommend(planned).actions[:, 0]
    assert planned.release is release
    monkeypatch.setattr(ucbvi, "worth_a_look", lambda _shape, release: release)
    assert 1 not in learner.replan(state, release).policy.actions[:, 0]


@pytest.mark.parametrize("learner", [UCBVI(), PSRL()], ids=["ucbvi", "psrl"])
def test_learners_that_weigh_go_by_likely_visits(learner, monkeypatch):
    _, _, state = after_the_opening(chain(), 3, learner)
    likely = with_likely_visits(state.problem.shape, weighed(state.books), state.books.expected)
    np.testing.assert_array_equal(state.release["visits"].values, likely["visits"].values)
    monkeypatch.setattr(base, "with_likely_visits", lambda _shape, release, _expected: release)
    _, _, plain = after_the_opening(chain(), 3, learner)
    assert not np.array_equal(plain.release["visits"].values, likely["visits"].values)


def test_learners_expect_fewer_visits_of_records_that_end_early():
    _, _, state = after_the_opening(chain(), 3)
    shape, known, books = state.problem.shape, weighed(state.books), state.books
    visits = books.raw["visits"]
    counts = {**books.raw.statistics, "visits": visits._replace(values=0.4 * visits.values)}
    ended = books._replace(raw=replace(books.raw, statistics=counts))
    share = steps_had(shape, ended.raw)
    assert 0.4 < share < 0.8
    np.testing.assert_array_equal(
        all_told(shape, known, ended)["visits"].values,
        with_likely_visits(shape, known, share * books.expected)["visits"].values,
    )
    assert not np.array_equal(
        all_told(shape, known, ended)["visits"].values, all_told(shape, known, books)["visits"].values
    )


@pytest.mark.parametrize("pooled", [True, False], ids=["pooled", "per-step"])
def test_a_learner_that_comes_back_knows_what_it_knew(pooled):
    """Its last release is made anew from its books: with likely visits, and with what it borrowed from other steps."""
    learner, raw, state = after_the_opening(chain().with_time(pooled), 5)
    again = load_state(learner, state.problem, raw, save_state(learner, state))
    for name, estimate in state.release.statistics.items():
        np.testing.assert_array_equal(again.release[name].values, estimate.values)
        np.testing.assert_array_equal(again.release[name].variance, estimate.variance)
    assert learner.recommend(again) == learner.recommend(state)
    own = weighed(state.books)  # the twin: books alone are not what it knew
    assert any(not np.array_equal(own[name].values, state.release[name].values) for name in own.statistics)
    assert again.release.users == raw.users

"""Sessions: requests in, releases out. The mask, the books, secure noise, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Mixture, Policy, uniform_policy
from discreet.base.streams import COINS, NOISE, USERS, generator, stream
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.encoder import Context, playable_rows
from discreet.mechanisms.counts.first_visit import FirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram, MarginalTable
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.mechanism import widths
from discreet.mechanisms.release import Layer, Linear, Request
from discreet.mechanisms.schedule import Equal, SameUsers
from discreet.mechanisms.session import Intake, Privatizer
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.sums.blocks import Blocks, Once, Total
from discreet.mechanisms.sums.tree import Tree
from discreet.noise import DiscreteLaplace, Laplace, NoNoise
from discreet.privacy.guarantee import nothing
from discreet.recipes import additive_noise
from discreet.recipes.registry import build
from discreet.simulation.users import TabularUsers

WORLD = discreet.worlds.river_swim(states=3, horizon=3)
LEFT, RIGHT = (Policy(np.full((3, 3), action, np.int64)) for action in (0, 1))


def users(world=WORLD, run=0):
    return TabularUsers(world, stream(0, run, USERS), generator(0, run, COINS))


def session(encoder, law, accumulator=None, masked=True, noise=None, total=100, blocks=10, promise=None):
    channel = Channel(encoder(WORLD.shape), law, accumulator or Blocks())
    privatizer = Privatizer("test", WORLD.shape, (channel,), Equal(blocks), promise or nothing(), masked)
    return privatizer.open(users(), noise or SimulatedNoise(generator(0, 0, NOISE)), total)


@pytest.mark.parametrize("encoder", [JointHistogram, FirstVisit, ThreeTables])
def test_masked_and_unmasked_releases_have_the_same_clear_counts(encoder):
    masked, clear = (session(encoder, NoNoise(), masked=masked) for masked in (True, False))
    for policy in (RIGHT, LEFT, Mixture((LEFT, RIGHT), [0.5, 0.5]), uniform_policy(WORLD.shape), RIGHT):
        first, second = masked.answer(Request(policy)), clear.answer(Request(policy))
        for name in ("visits", "transitions", "rewards"):
            np.testing.assert_array_equal(first[name].values, second[name].values)
    assert first["visits"].values.sum() > 0


@pytest.mark.parametrize("encoder", [JointHistogram, FirstVisit, ThreeTables])
def test_rows_that_nobody_can_play_are_exact_zeros_without_noise(encoder):
    noisy = session(encoder, DiscreteLaplace(1000.0))
    release = noisy.answer(Request(RIGHT))
    playable = playable_rows(WORLD.shape, RIGHT)
    for name in ("visits", "transitions", "rewards"):
        assert not release[name].values[~playable].any()
        assert not release[name].variance[~playable].any()
        assert (release[name].variance[playable] > 0).all()
        assert (release[name].values[playable] != 0).any()
    assert not release.width(2, 0.1)[~playable].any()


def test_what_earlier_blocks_released_stays_when_a_row_is_masked_later():
    noisy = session(JointHistogram, DiscreteLaplace(1000.0))
    first = noisy.answer(Request(RIGHT))
    second = noisy.answer(Request(LEFT))
    right = np.zeros((1, 3, 2), bool)
    right[..., 1] = True
    for name in ("visits", "transitions", "rewards"):
        np.testing.assert_array_equal(second[name].values[right], first[name].values[right])
        np.testing.assert_array_equal(second[name].variance[right], first[name].variance[right])
        assert first[name].values[right].any()


def test_a_mixture_masks_only_what_no_component_plays():
    noisy = session(JointHistogram, DiscreteLaplace(1000.0))
    variance = noisy.answer(Request(Mixture((LEFT, RIGHT), [0.9, 0.1])))["visits"].variance
    assert (variance > 0).all()


@pytest.mark.parametrize(("accumulator", "draws"), [(Blocks(), 1), (Total(), 10), (Tree(100), 1)])
def test_stated_variances_count_cells_and_draws(accumulator, draws):
    law = DiscreteLaplace(5.0)
    release = session(JointHistogram, law, accumulator, masked=False).answer(Request(RIGHT))
    for name, cells in (("visits", 8), ("transitions", 2), ("rewards", 4)):
        np.testing.assert_allclose(release[name].variance, np.full((1, 3, 2), law.variance * cells * draws))
    assert release.width(2, 0.1)[0, 0, 0] == law.sum_quantile(2 * draws, 0.1)


def test_widths_are_quantiles_of_the_accumulated_noise():
    law = DiscreteLaplace(3.0)
    table = widths(law, np.array([[0, 1], [4, 1]]), 0.05)
    np.testing.assert_array_equal(
        table, [[0.0, law.sum_quantile(1, 0.05)], [law.sum_quantile(4, 0.05)] * 1 + [law.sum_quantile(1, 0.05)]]
    )


def test_the_books_are_kept():
    noisy = session(JointHistogram, DiscreteLaplace(5.0), total=25, blocks=5)
    assert (noisy.left, noisy.served) == (25, 0)
    assert noisy.answer(Request(RIGHT)).users == 5
    assert noisy.answer(Request(RIGHT, users=13)).users == 18
    assert noisy.left == 7
    with pytest.raises(Unsupported, match="8 users with 7 left"):
        noisy.answer(Request(RIGHT, users=8))
    assert noisy.answer(Request(RIGHT, users=7)).users == 25
    with pytest.raises(Unsupported, match="0 left"):
        noisy.answer(Request(RIGHT, users=1))


def test_questions_that_a_recipe_does_not_answer_are_refused_before_anybody_acts():
    noisy = session(
        JointHistogram, DiscreteLaplace(5.0), promise=build(discreet.Central(1.0), WORLD.shape, 9).guarantee
    )
    for what in (Layer(1), Linear(0, np.ones(3), np.ones((3, 2)), 1.0)):
        with pytest.raises(Unsupported, match=type(what).__name__):
            noisy.answer(Request(RIGHT, what=what))
    assert noisy.served == 0


FED = {
    "blocks": discreet.Central(1.0),
    "focused": discreet.Central(1.0, recipe="central/focused-first-visit-laplace"),
    "matrix": discreet.Central(1.0, 1e-5, recipe="central/first-visit-matrix"),
    "tree": discreet.Central(1.0, recipe="central/three-tables-laplace-tree"),
    "local": discreet.Local(1.0),
    "shuffle": discreet.Shuffle(1.0, 1e-3, recipe="shuffle/first-visit-binomial"),
}


@pytest.mark.parametrize("privacy", FED.values(), ids=FED.keys())
def test_an_intake_that_is_fed_by_hand_releases_the_same_bit_for_bit(privacy):
    privatizer = build(privacy, WORLD.shape, 300)
    pulled = privatizer.open(users(), SimulatedNoise(generator(0, 0, NOISE)), 300)
    fed = privatizer.take_in(SimulatedNoise(generator(0, 0, NOISE)), 300)
    people = users()  # whoever brings the tallies: the intake never sees them
    for policy in (RIGHT, LEFT, RIGHT):
        context = Context(policy)
        tallies = people.tally(fed.encoders(context), context, 100)
        first, second = pulled.answer(Request(policy, users=100)), fed.take(tallies, 100, context)
        assert first.statistics.keys() == second.statistics.keys()
        for name, estimate in first.statistics.items():
            np.testing.assert_array_equal(estimate.values, second[name].values)
            np.testing.assert_array_equal(estimate.variance, second[name].variance)
            np.testing.assert_array_equal(first.width(2, 0.1, name), second.width(2, 0.1, name))
        assert (first.users, first.guarantee) == (second.users, second.guarantee)
    assert (fed.left, fed.served) == (0, 300)


def test_an_intake_refuses_what_a_session_would_refuse():
    promise = build(discreet.Central(1.0), WORLD.shape, 9).guarantee
    noisy = session(JointHistogram, DiscreteLaplace(5.0), promise=promise).privatizer
    fed = noisy.take_in(SimulatedNoise(generator(0, 0, NOISE)), 10)
    assert isinstance(fed, Intake)
    nobody = np.zeros(JointHistogram(WORLD.shape).size)
    with pytest.raises(Unsupported, match="Layer"):
        fed.take([nobody], 1, Context(RIGHT, Layer(1)))
    with pytest.raises(Unsupported, match="11 users with 10 left"):
        fed.take([nobody], 11, Context(RIGHT))
    with pytest.raises(InvalidInput, match="2 tallies were brought for 1 channels"):
        fed.take([nobody, nobody], 1, Context(RIGHT))
    assert fed.served == 0
    assert fed.take([nobody], 10, Context(RIGHT)).users == 10


def test_two_channels_must_not_release_one_statistic():
    both = tuple(Channel(encoder(WORLD.shape), DiscreteLaplace(1.0), Blocks()) for encoder in (FirstVisit, ThreeTables))
    with pytest.raises(Unsupported, match="several channels that release rewards, transitions, visits"):
        Privatizer("test", WORLD.shape, both, Equal(1), nothing())


def test_every_statistic_has_the_width_of_its_own_channel():
    laws = DiscreteLaplace(2.0), DiscreteLaplace(50.0)
    tables = MarginalTable(WORLD.shape, successors=False, bits=True), MarginalTable(WORLD.shape, separate=True)
    channels = tuple(Channel(table, law, Blocks()) for table, law in zip(tables, laws, strict=True))
    privatizer = Privatizer("test", WORLD.shape, channels, Equal(1), nothing(), masked=False)
    release = privatizer.open(users(), SimulatedNoise(generator(0, 0, NOISE)), 10).answer(Request(RIGHT))
    quiet, loud = (law.sum_quantile(2, 0.1) for law in laws)
    assert (release.width(2, 0.1) == quiet).all()
    assert (release.width(2, 0.1, "visits") == quiet).all()
    assert (release.width(2, 0.1, "rewards") == quiet).all()
    assert (release.width(2, 0.1, "transitions") == loud).all()


def test_a_data_set_is_released_once():
    offline = session(JointHistogram, DiscreteLaplace(5.0), Once(), masked=False)
    offline.answer(Request(RIGHT, users=60))
    with pytest.raises(Unsupported, match="once"):
        offline.answer(Request(RIGHT, users=40))


@pytest.mark.parametrize("encoder", [JointHistogram, FirstVisit, ThreeTables])
def test_secure_releases_are_whole_numbers_that_differ_and_say_so(encoder):
    releases = [
        session(encoder, DiscreteLaplace(100.0), Once(), noise=SecureNoise()).answer(Request(RIGHT, users=50))
        for _ in range(2)
    ]
    for release in releases:
        for estimate in release.statistics.values():
            np.testing.assert_array_equal(estimate.values, np.round(estimate.values))
        assert not release.guarantee.simulated
    # the same users, so only the noise can make the difference; all cells agree with probability below 100^-8
    assert (releases[0]["visits"].values != releases[1]["visits"].values).any()
    assert session(encoder, DiscreteLaplace(1.0)).answer(Request(RIGHT)).guarantee.simulated


def test_continuous_noise_is_refused_in_a_real_release():
    with pytest.raises(Unsupported, match="simulation only"):
        session(ThreeTables, Laplace(1.0), Once(), noise=SecureNoise()).answer(Request(RIGHT))


def test_discrete_noise_does_not_hide_fractions():
    real_valued = ThreeTables(WORLD.shape, rounded=False)
    with pytest.raises(Unsupported, match="whole numbers only"):
        Channel(real_valued, DiscreteLaplace(1.0), Blocks())
    assert Channel(real_valued, NoNoise(), Blocks())
    assert Channel(real_valued, Laplace(1.0), Blocks())


@pytest.mark.parametrize("recipe", [r for r in additive_noise.RECIPES if r.model != "none"], ids=lambda r: r.name)
def test_every_recipe_releases_whole_numbers(recipe):
    target = {"central": discreet.Central, "local": discreet.Local}[recipe.model]
    privacy = target(1.0, 0.0 if recipe.pure else 1e-6, recipe=recipe.name)
    fractional = discreet.worlds.from_arrays(
        np.full((3, 2, 3), 1 / 3), np.full((3, 2), 0.37), horizon=3, reward_law="deterministic"
    )
    privatizer = build(privacy, fractional.shape, 20)
    release = privatizer.open(users(fractional), SimulatedNoise(generator(0, 0, NOISE)), 20).answer(Request(RIGHT))
    for estimate in release.statistics.values():
        np.testing.assert_array_equal(estimate.values, np.round(estimate.values))


def test_the_users_of_all_channels_are_the_same():
    """Two encoders of one tally agree about what happened."""
    joint, tables = JointHistogram(WORLD.shape), ThreeTables(WORLD.shape)
    cells = users().tally([joint, tables], Context(RIGHT), 40)
    for name in ("visits", "transitions", "rewards"):
        first, second = (e.marginals(c)[name].values for e, c in zip((joint, tables), cells, strict=True))
        np.testing.assert_array_equal(first, second)
        assert first.any()


def test_messages_are_the_users_own_and_add_up_to_the_tally():
    encoder = FirstVisit(WORLD.shape)
    messages = users().messages(encoder, Context(RIGHT), 30)
    assert messages.shape == (30, encoder.size)
    assert ((messages == 0) | (messages == 1)).all()
    (tally,) = users().tally([encoder], Context(RIGHT), 30)
    # Rewards here are 0 or 1, so that encoding draws no random words and the users play alike both times.
    np.testing.assert_array_equal(messages.sum(axis=0), tally)


def test_the_same_users_are_asked_again_only_where_questions_are_counted():
    honest = build(discreet.Central(1.0), WORLD.shape, 100)
    with pytest.raises(Unsupported, match="ask the same users again"):
        replace(honest, schedule=SameUsers())


@pytest.mark.parametrize("privacy", [discreet.Local(1.0), discreet.Shuffle(1.0, 1e-5)], ids=lambda p: p.model)
def test_real_noise_is_refused_where_nobody_may_hold_what_users_did(privacy):
    """A session adds up records before noise is drawn: under these promises only a simulation may."""
    privatizer = build(privacy, WORLD.shape, 100)
    people = TabularUsers(WORLD, stream(0, 0, USERS), generator(0, 0, COINS))
    with pytest.raises(Unsupported, match=f"in the {privacy.model} model, where nobody holds sums"):
        privatizer.open(people, SecureNoise(), 100)
    assert privatizer.open(people, SimulatedNoise(generator(0, 0, NOISE)), 100).left == 100
    central = build(discreet.Central(1.0), WORLD.shape, 100)
    assert central.open(people, SecureNoise(), 100).left == 100

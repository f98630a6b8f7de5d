"""Boxes that hold the truth, repaired counts, and the four learners step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
import discreet.problems.adversarial.benchmark_worlds
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import layered_shape
from discreet.base.streams import COINS, stream
from discreet.learners.base import Problem
from discreet.mechanisms.release import Estimate, Release
from discreet.privacy.guarantee import nothing
from discreet.problems.adversarial.layers import Layers, check_box
from discreet.problems.adversarial.learners import OREPS, UCOREPS, UOBLBPS, UOBREPS, lower_reach
from discreet.problems.adversarial.transition_box import WIDTHS, Counts, box_of, counts_of, first_box, log_term

SHAPE = layered_shape((1, 2, 3, 1), 2)
LAYERS = Layers(SHAPE.sizes, SHAPE.actions)
PROBLEM = Problem(SHAPE, 1000)
RNG = np.random.default_rng(0)


def release(*, counts=None, losses=None, observed=None, variance=0.0, width=0.0, visits=None, users=1):
    """A release made by hand; ``counts`` is flat over the unknown triples, losses over the pairs."""
    pairs, triples = np.zeros(SHAPE.pair_mask.shape), np.zeros(SHAPE.triple_mask.shape)
    noise = np.full(pairs.shape, variance)
    if counts is not None:
        triples[SHAPE.triple_mask] = counts
    statistics = {"transitions": Estimate(triples, np.full(pairs.shape, float(width > 0)))}
    for name, table in (("losses", losses), ("observed_losses", observed), ("visits", visits)):
        if table is not None:
            spread = pairs.copy()
            spread[SHAPE.pair_mask] = np.ravel(table)
            statistics[name] = Estimate(spread, noise)
    return Release(statistics, users, nothing(), lambda cells, _p: np.full(pairs.shape, width * math.sqrt(cells)))


def true_counts(visits):
    """Counts drawn from a law, for every pair before the last layer."""
    rows = [RNG.multinomial(visits, RNG.dirichlet(np.ones(size))) for size in (2,) * 2 + (3,) * 4]
    return np.concatenate(rows).astype(float)


def totals_of(cells):
    return np.add.reduceat(cells, LAYERS.arrays.offset[:6])


def test_exact_counts_are_left_as_they_are():
    counts = true_counts(50)
    repaired = counts_of(release(counts=counts), SHAPE, LAYERS, 1000, 0.05, 1.0)
    np.testing.assert_array_equal(repaired.cells, counts)
    np.testing.assert_array_equal(repaired.totals, 50)
    assert not repaired.error.any()


@pytest.mark.parametrize("own_totals", [False, True])
def test_noisy_counts_are_repaired_to_within_their_bound(own_totals):
    """Noise at the corners of its bounds: N <= N~ <= N + E and every count within E."""
    for draw in range(200):
        rng = np.random.default_rng(draw)
        counts, width = true_counts(int(rng.integers(0, 40))), 3.0
        corner = rng.choice([-1.0, 0.0, 1.0], size=counts.size)
        if own_totals:
            noisy = counts + corner * width
            totals = totals_of(counts) + rng.choice([-1.0, 1.0], size=6) * width
            visits = np.concatenate([totals, np.zeros(6)])
            sent = release(counts=noisy, width=width, visits=visits)
        else:  # sums of rows obey the bound for as many cells as they have
            noisy = counts + corner * width / math.sqrt(3)
            sent = release(counts=noisy, width=width)
        repaired = counts_of(sent, SHAPE, LAYERS, 1000, 0.05, 1.0)
        E = repaired.error
        assert (E > 0).all()
        true = totals_of(counts)
        assert (repaired.totals >= true - 1e-9).all()
        assert (repaired.totals <= true + E + 1e-9).all()
        assert (np.abs(repaired.cells - counts) <= np.repeat(E, [2, 2, 3, 3, 3, 3]) + 1e-9).all()
        assert (repaired.cells > 0).all()


@pytest.mark.parametrize("width", ["corrected", "published"])
def test_the_noise_bound_of_a_row_grows_with_its_successors(width):
    repaired = counts_of(release(counts=true_counts(9), width=2.0), SHAPE, LAYERS, 1000, 0.05, 0.5)
    np.testing.assert_allclose(repaired.error, 4 * 0.5 * 2.0 * np.sqrt([2, 2, 3, 3, 3, 3]))
    assert check_box(LAYERS, box_of(width, LAYERS, repaired, 5.0))


@pytest.mark.parametrize("width", WIDTHS)
def test_boxes_are_proper_shrink_with_data_and_know_the_last_step(width):
    wide = []
    for visits in (1, 100, 10_000):
        cells = true_counts(visits)
        box = check_box(LAYERS, box_of(width, LAYERS, Counts(cells, totals_of(cells), np.zeros(6)), 5.0))
        assert (box.lower[LAYERS.unknown :] == 1).all() and (box.upper[LAYERS.unknown :] == 1).all()  # noqa: PT018
        wide.append((box.upper - box.lower)[: LAYERS.unknown].mean())
    assert wide[0] > wide[1] > wide[2] < 0.2


def test_no_data_says_nothing():
    empty = Counts(np.zeros(LAYERS.unknown), np.zeros(6), np.zeros(6))
    for width in WIDTHS:
        for ours, nothing_known in zip(box_of(width, LAYERS, empty, 5.0), first_box(LAYERS), strict=True):
            np.testing.assert_array_equal(ours, nothing_known)


def test_the_corrected_box_holds_the_truth():
    """It may fail with 5% over all entries; Bernstein's slack makes that rare: no failure in 300 trials."""
    log = log_term("corrected", LAYERS, 1, 0.05)
    failures = {"exact": 0, "noisy": 0, "too narrow": 0}
    for trial in range(300):
        rng = np.random.default_rng(trial)
        rows = [rng.dirichlet(np.full(size, 0.5)) for size in (2,) * 2 + (3,) * 4]
        cells = np.concatenate([rng.multinomial(200, row) for row in rows]).astype(float)
        P = np.concatenate(rows)
        exact = Counts(cells, totals_of(cells), np.zeros(6))
        noisy = counts_of(
            release(counts=cells + rng.uniform(-1, 1, cells.size), width=1.0), SHAPE, LAYERS, 1, 0.05, 1.0
        )
        for name, counts, scale in (("exact", exact, 1.0), ("noisy", noisy, 1.0), ("too narrow", exact, 0.02)):
            box = box_of("corrected", LAYERS, counts, scale * log)
            inside = (box.lower[: P.size] <= P) & (box.upper[: P.size] >= P)
            failures[name] += not inside.all()
    assert failures["exact"] == failures["noisy"] == 0
    assert failures["too narrow"] > 50


@pytest.mark.parametrize("width", ["l1", "jin"])
def test_widths_for_exact_counts_refuse_noise(width):
    with pytest.raises(Unsupported, match="corrected"):
        box_of(width, LAYERS, counts_of(release(width=1.0), SHAPE, LAYERS, 10, 0.05, 1.0), 5.0)


def start(learner):
    return learner.init(PROBLEM, stream(0, 0, COINS))


@pytest.mark.parametrize("learner", [UCOREPS(), UOBLBPS(), UOBREPS(), OREPS(LAYERS.uniform_transitions())])
def test_play_begins_evenly_and_states_are_never_changed(learner):
    state = start(learner)
    np.testing.assert_allclose(learner.ask(state).policy.probabilities, 0.5)
    before = state.policy
    learner.update(state, release(losses=np.ones(12), observed=np.ones(12)))
    assert learner.policy(state) is before


@pytest.mark.parametrize("learner", [UCOREPS(), UOBLBPS(), UOBREPS()])
def test_a_lossy_action_is_played_less(learner):
    table = np.zeros((6, 2))
    table[0, 1] = 1.0
    state = start(learner)
    for users in range(1, 40):
        state = learner.update(state, release(losses=users * table, observed=table, users=users))
    row = learner.policy(state).probabilities[0, 0]
    assert row[0] > 0.6
    assert learner.policy(state).probabilities.shape == (3, 3, 2)


def test_the_leader_is_exponential_weights_where_there_is_one_step():
    shape, table = layered_shape((1, 1), 3), np.array([3.0, 0.0, 7.0])
    learner, K = UCOREPS(), 50
    state = learner.init(Problem(shape, K), stream(0, 0, COINS))
    sent = Release({"losses": Estimate(table.reshape(1, 1, 3), np.zeros((1, 1, 3)))}, 10, nothing(), lambda *_: None)
    weights = np.exp(-math.sqrt(math.log(3) / K) * table)
    np.testing.assert_allclose(
        learner.policy(learner.update(state, sent)).probabilities[0, 0], weights / weights.sum(), atol=1e-8
    )


def test_the_leader_slows_down_by_the_noise_per_user():
    """Losses of variance V over n users: the rate falls by sqrt(1 + V / n); as printed it does not know of noise."""
    shape, table, K = layered_shape((1, 1), 2), np.array([8.0, 0.0]), 50

    def odds(variance, learner=UCOREPS()):  # noqa: B008
        state = learner.init(Problem(shape, K), stream(0, 0, COINS))
        noise = np.full((1, 1, 2), variance)
        sent = Release({"losses": Estimate(table.reshape(1, 1, 2), noise)}, 10, nothing(), lambda *_: None)
        p = learner.policy(learner.update(state, sent)).probabilities[0, 0]
        return math.log(p[1] / p[0])

    assert odds(30.0) == pytest.approx(odds(0.0) / 2, abs=1e-8)
    printed = UCOREPS(rate="published")
    assert odds(30.0, printed) == pytest.approx(odds(0.0, printed), abs=1e-8)
    assert odds(0.0, printed) == pytest.approx(odds(0.0), abs=1e-8)


def test_the_barrier_step_divides_by_the_chance_to_see_a_loss():
    """One step, even play: 1/q moves by the rate times loss / u, up to a constant that normalises."""
    shape, K = layered_shape((1, 1), 2), 100
    learner = UOBLBPS()
    state = learner.init(Problem(shape, K), stream(0, 0, COINS))
    seen = np.array([1.0, 0.0]).reshape(1, 1, 2)
    sent = Release({"observed_losses": Estimate(seen, np.zeros((1, 1, 2)))}, 1, nothing(), lambda *_: None)
    q = learner.policy(learner.update(state, sent)).probabilities[0, 0]
    rate = math.sqrt(2 * log_term("corrected", Layers((1, 1), 2), K, 0.02) / K)  # one of the two pairs is seen
    assert 1 / q[0] - 1 / q[1] == pytest.approx(rate * 1.0 / 0.5, abs=1e-6)


def barrier_step(values, users, variance=0.0, name="observed_losses", state=None):
    """One step, two pairs, K = 100: how much 1/q of the first moves against the second, and the policy."""
    shape = layered_shape((1, 1), 2)
    learner = UOBLBPS()
    state = state or learner.init(Problem(shape, 100), stream(0, 0, COINS))
    table = Estimate(np.reshape(np.array(values, float), (1, 1, 2)), np.full((1, 1, 2), variance))
    after = learner.update(state, Release({name: table}, users, nothing(), lambda *_: None))
    q = after.table[0]
    return 1 / q[0] - 1 / q[1], after


LOG = log_term("corrected", Layers((1, 1), 2), 100, 0.02)


def test_a_block_is_one_round_with_the_mean_of_its_losses():
    """Losses that add up to 3 over 10 users, and noise of variance 8 in the sum: 10 rounds, variance 0.08."""
    rate = math.sqrt(LOG / (10 * (0.5 + 0.08)))
    move, after = barrier_step([3.0, 0.0], 10, 8.0)
    assert move == pytest.approx(rate * 0.3 / 0.5, abs=1e-6)
    again, _ = barrier_step([3.0, 0.0], 20, 8.0, state=after)  # the next ten, not all twenty
    u = after.table[0]
    assert again - move == pytest.approx(rate * 0.3 / u[0], abs=1e-6)


def test_noise_of_any_size_keeps_the_condition_of_the_barrier():
    """However negative a noisy loss is, 1/q falls by at most half of 1/u; above it is cut as far beyond u."""
    rate = math.sqrt(LOG / (100 * (0.5 + 50.0)))
    low, _ = barrier_step([-1e6, 0.0], 1, 50.0)
    high, _ = barrier_step([1e6, 0.0], 1, 50.0)
    assert low == pytest.approx(-0.5 / 0.5, abs=1e-6)
    assert high == pytest.approx((0.5 + rate * 0.5) / 0.5, abs=1e-6)


def test_signed_losses_are_what_they_are_above_one_half():
    """Ones less zeros of 2 over 10 users: a loss of 0.1 above one half. What is surely visited gets its half back."""
    rate = math.sqrt(LOG / (10 * (0.25 * 0.5 + 0.02)))
    move, after = barrier_step([2.0, -2.0], 10, 8.0, "signed_losses")
    assert move == pytest.approx(rate * 0.2 / 0.5, abs=1e-6)
    shape, learner = layered_shape((1, 2, 1), 1), UOBLBPS()
    state = learner.init(Problem(shape, 100), stream(0, 0, COINS))
    assert lower_reach(state.layers, np.array([1.0, 0.7, 0.6])) == pytest.approx([1.0, 0.4, 0.3])
    assert after.served == 10


def test_the_published_estimate_makes_rare_pairs_look_expensive():
    """Nothing was lost anywhere: the corrected learner stays where it is, the published one leaves what is rare."""
    shape, K = layered_shape((1, 1), 2), 100
    rare = np.array([[0.9, 0.1]])
    sent = Release(
        {"observed_losses": Estimate(np.zeros((1, 1, 2)), np.full((1, 1, 2), 50.0))}, 1, nothing(), lambda *_: None
    )
    moved = {}
    for estimator in ("corrected", "published"):
        learner = UOBLBPS(estimator=estimator)
        state = learner.init(Problem(shape, K), stream(0, 0, COINS))
        state = state._replace(table=rare, occupancy=rare.ravel())
        moved[estimator] = learner.policy(learner.update(state, sent)).probabilities[0, 0, 1] - 0.1
    assert moved["corrected"] == pytest.approx(0.0, abs=1e-7)
    assert moved["published"] < -1e-3


def test_a_reference_is_told_the_transitions_of_its_world_and_nobody_else_can_tell_it():
    """By name it knows each run's world; with wrong transitions it plays otherwise; outside a simulation it stops."""
    world = discreet.problems.adversarial.benchmark_worlds.kinds_world(0, False)
    told, given = discreet.simulate(world, "o-reps", episodes=60), OREPS(np.array(world.transitions))
    np.testing.assert_array_equal(told.regret, discreet.simulate(world, given, episodes=60).regret)
    wrong = OREPS(Layers(world.shape.sizes, world.shape.actions).uniform_transitions())
    assert (told.regret != discreet.simulate(world, wrong, episodes=60).regret).any()
    with pytest.raises(InvalidInput, match="knows the transitions"):
        start(OREPS())


def test_uob_reps_refuses_noisy_losses():
    with pytest.raises(Unsupported, match="UOB-LBPS"):
        UOBREPS().update(start(UOBREPS()), release(observed=np.zeros(12), variance=1.0))


def test_other_worlds_are_refused():
    with pytest.raises(Unsupported, match="layered world"):
        UCOREPS().init(Problem(discreet.Shape(2, 2, 2), 10), stream(0, 0, COINS))


@pytest.mark.parametrize(
    "wrong", [{"width": "narrow"}, {"bonus_scale": 0.0}, {"failure_probability": 1.0}, {"rate_scale": -1.0}]
)
def test_knobs_are_checked(wrong):
    with pytest.raises(InvalidInput):
        UCOREPS(**wrong)
    with pytest.raises(InvalidInput, match="published"):
        UOBLBPS(estimator="publish")


def test_boxes_are_nested_unless_told_otherwise():
    loose, tight = 40 * true_counts(10), true_counts(10)
    for nested in (True, False):
        learner = UCOREPS(nested=nested)
        state = learner.update(start(learner), release(counts=loose, losses=np.zeros(12)))
        after = learner.update(state, release(counts=tight, losses=np.zeros(12)))
        widths = [(s.box.upper - s.box.lower)[: LAYERS.unknown].sum() for s in (state, after)]
        assert (widths[1] <= widths[0]) == nested

"""Heavy-tailed learners: their formulas by hand, those of the theorem and of the paper, and that they learn."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.policies import uniform_policy
from discreet.base.shape import Moments, Shape
from discreet.base.streams import COINS, stream
from discreet.learners import UCBPO, UCBVI
from discreet.learners.base import Problem, as_statistics
from discreet.mechanisms.release import Estimate, Release
from discreet.privacy.guarantee import nothing
from discreet.problems.heavy_tails.learners import HeavyUCBPO, HeavyUCBVI, reward_widths
from discreet.problems.heavy_tails.theorem_bonuses import Bonuses, moments_or_range, printed_reward_terms, reward_bound
from discreet.recipes.registry import build

SHAPE = Shape(2, 1, 3, True, (-2.0, 2.0), 0, Moments(3.0, 0.5))
PROBLEM = Problem(SHAPE, 50)
L = math.log(12 * 2 * 1 * 3 * 50 / 0.1)


def release(width=0.0, noise=0.0, public=None):
    visits = np.array([[[40.0], [9.0]]])
    statistics = {
        "visits": Estimate(visits, np.full(visits.shape, noise)),
        "transitions": Estimate(np.array([[[[30.0, 10.0]], [[-3.0, 12.0]]]]), np.full(visits.shape, noise)),
        "rewards": Estimate(np.array([[[25.0], [4.5]]]), np.full(visits.shape, noise)),
    }
    widths = np.full(visits.shape, width)
    return Release(statistics, 50, nothing(), lambda cells, tail: widths * cells, public=public or {})


def bonuses(error_scale=1.0, threshold=None, uniform=False):
    return Bonuses(1.0, error_scale, threshold, 0.1, uniform)


def test_without_noise_the_model_is_the_empirical_one_with_the_published_bonus():
    """Steps are pooled, so moves are divided by those visits that a move followed: 40 of 40, and 9 of 9."""
    model = bonuses().model(PROBLEM, release())
    np.testing.assert_allclose(model.rewards, [(4 * 25 - 2 * 40) / 40, 0.0])
    np.testing.assert_allclose(model.transitions, [[0.75, 0.25], [0.0, 12 / 9]])  # cut at zero, not normalised
    np.testing.assert_allclose(model.reward_bonus, 4 * 3 ** (1 / 1.5) * (L / np.array([40, 9])) ** (1 / 3))
    np.testing.assert_allclose(model.transition_bonus, np.sqrt(2 * L / np.array([40, 9])))


def test_pooled_moves_are_divided_by_what_they_follow():
    """Last steps are visits too, but nothing follows them; with laws per step there are no others in their group."""
    seen = release()
    visits, moves, rewards = (seen[name] for name in ("visits", "transitions", "rewards"))
    more = replace(
        seen,
        statistics={"visits": visits._replace(values=visits.values + 20), "transitions": moves, "rewards": rewards},
    )
    model = bonuses().model(PROBLEM, more)
    np.testing.assert_allclose(model.transitions[0], [0.75, 0.25])
    single = Problem(replace(SHAPE, horizon=1), 50)
    np.testing.assert_allclose(bonuses().model(single, more).transitions[0], [0.5, 10 / 60])


def test_moves_within_the_noise_are_dropped_and_the_rest_is_normalised():
    model = bonuses(threshold=1.5).model(PROBLEM, release(noise=16.0))  # a deviation of 4: six moves are noise
    np.testing.assert_allclose(model.transitions, [[24 / 28, 4 / 28], [0.0, 1.0]])
    nothing_left = bonuses(threshold=8.0).model(PROBLEM, release(noise=16.0))
    assert nothing_left.transitions.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert nothing_left.transition_bonus.tolist() == [1.0, 1.0]  # anything may follow


def test_the_bonus_knows_the_threshold_in_force():
    """u = 3, v = 1/2: Bernstein for clipped rewards, and the bias as stated, per visit."""
    B, bias = np.array([[[4.0], [9.0]]]), np.array([[[0.3], [0.2]]])
    model = bonuses().model(PROBLEM, release(public={"thresholds": B, "clipping_bias": bias}))
    D, B = np.array([40.0, 9.0]), np.array([4.0, 9.0])
    expected = np.sqrt(2 * 3.0 * B**0.5 * L / D) + B * L / (3 * D) + np.array([0.3, 0.2])
    np.testing.assert_allclose(model.reward_bonus, expected)


def test_noise_enters_as_errors_of_counts_and_of_rewards():
    """Visits and single moves have the same variance, so a count of visits is one cell."""
    noisy = bonuses(error_scale=0.5).model(PROBLEM, release(width=2.0, noise=5.0))
    D, F = 40 + 0.5 * 2.0, 40 + 0.5 * 2.0 * 2
    assert noisy.transitions[0, 0] == pytest.approx(30 / F)
    variance = 4.0**2 * 5.0
    reward_error = 0.5 * (math.sqrt(2 * variance * L) + math.sqrt(variance / 2) * L)
    statistical = 4 * 3 ** (1 / 1.5) * (L / D) ** (1 / 3)
    assert noisy.reward_bonus[0] == pytest.approx((2 * 2.0 * 1.0 + reward_error) / D + statistical)
    assert noisy.transition_bonus[0] == pytest.approx(math.sqrt(2 * L / F) + (2 * 2.0 + 2.0) / F)
    assert bonuses(error_scale=0.5).model(PROBLEM, release()).transition_bonus[0] < noisy.transition_bonus[0]


def test_visits_that_sum_noisy_cells_have_a_wider_error():
    seen = release(width=1.0, noise=2.0)
    three = seen["visits"]._replace(variance=3 * seen["visits"].variance)
    wider = replace(seen, statistics={**seen.statistics, "visits": three})
    one, many = (bonuses().model(PROBLEM, each) for each in (seen, wider))
    assert one.rewards[0] == pytest.approx(20 / 41)
    assert many.rewards[0] == pytest.approx(20 / 43)


def test_what_is_paid_and_what_follows_are_clipped_one_by_one():
    """A reward that noise made hugely negative costs tau at most, and cannot hide a value behind it."""
    seen = release()
    bad = seen["rewards"]._replace(values=np.array([[[-1e6], [4.5]]]))
    learner = HeavyUCBVI(bonus_scale=1e-9, error_scale=0.0, bonuses="theorem")
    state = learner.init(PROBLEM, stream(0, 0, COINS))
    after = learner.update(state, replace(seen, statistics={**seen.statistics, "rewards": bad}))
    ahead = 0.75 * after.values[1, 0] + 0.25 * after.values[1, 1]
    assert after.values[0, 0] == pytest.approx(-2.0 + ahead)
    good = replace(seen, statistics={**seen.statistics, "rewards": bad._replace(values=-bad.values)})
    values = learner.update(state, good).values
    assert values[0, 0] == pytest.approx(2.0 + 0.75 * values[1, 0] + 0.25 * values[1, 1])


def test_all_functions_at_once_cost_more_than_one():
    one, every = (bonuses(uniform=u).model(PROBLEM, release()) for u in (False, True))
    assert (every.transition_bonus > one.transition_bonus).all()
    np.testing.assert_allclose(every.reward_bonus, one.reward_bonus)


def test_theory_clips_everything_so_that_ties_decide():
    """At scale 1 every action of every state is at the ceiling: the public coins choose, not the order of actions."""
    problem = Problem(Shape(3, 2, 5, True, (-1.0, 1.0), 0, Moments(3.0, 1.0)), 1000)
    policies = {
        HeavyUCBVI(bonus_scale=1.0, bonuses="theorem").init(problem, stream(seed, 0, COINS)).policy for seed in range(5)
    }
    assert len(policies) == 5
    values = HeavyUCBVI(bonus_scale=1.0, bonuses="theorem").init(problem, stream(0, 0, COINS)).values
    np.testing.assert_allclose(values[:, 0], np.arange(5, -1, -1))


def test_rewards_with_a_range_have_a_second_moment():
    bounded = Shape(2, 2, 2, rewards=(-3.0, 1.0))
    assert reward_bound(bounded) == 3.0
    assert moments_or_range(bounded) == Moments(9.0, 1.0)
    assert moments_or_range(SHAPE) == SHAPE.moments


def widths_of(problem, seen, tail_scale=0.1):
    """The widths of rewards by what a release says, with a scale of one half."""
    return reward_widths(problem, seen, as_statistics(seen), 0.5, tail_scale)


def test_the_width_of_a_reward_by_hand():
    """u = 3, v = 1/2, tau = 2, B = 400: a tenth of sqrt(3 * 20) / 4 and of 400 / 4 count; below, those of a range."""
    B = np.array([[[400.0], [1.0]]])
    widths = widths_of(PROBLEM, release(public={"thresholds": B}))
    per = [math.log(1 + 51 / n) / n for n in (40, 9)]
    heavy = 0.5 * (0.1 * math.sqrt(3 * 20) / 4 * math.sqrt(2 * per[0]) + 10 * per[0])
    ranged = [0.5 * (math.sqrt(r * (1 - r) * 2 * x) + x) for r, x in zip((25 / 40, 0.5), per, strict=True)]
    assert 0.1 * math.sqrt(3 * 20) / 4 < math.sqrt(25 / 40 * 15 / 40)  # so the spread of a range counts
    assert widths[0] == pytest.approx(ranged[0] + 0.5 * 9 * per[0])
    assert widths[1] == pytest.approx(ranged[1])
    assert widths_of(PROBLEM, release(public={"thresholds": B}), 1.0)[0] == pytest.approx(
        0.5 * (math.sqrt(3 * 20) / 4 * math.sqrt(2 * per[0]) + 100 * per[0])
    )
    assert heavy < widths[0]
    np.testing.assert_allclose(widths_of(PROBLEM, release()), ranged)
    reported = release(public={"thresholds": B, "variance_per_visit": np.full((1, 2, 1), 25.0)})
    assert widths_of(PROBLEM, reported)[1] == pytest.approx(0.5 * (3 * math.sqrt(2 * per[1]) + per[1]))


@pytest.mark.parametrize(("heavy", "plain"), [(HeavyUCBVI(), UCBVI()), (HeavyUCBPO(10.0), UCBPO())], ids=["vi", "po"])
def test_for_rewards_with_a_range_they_are_the_plain_learners(heavy, plain):
    shape = Shape(2, 1, 3, True, (0.0, 1.0))
    seen = release(noise=9.0)
    states = [learner.init(Problem(shape, 50), stream(0, 0, COINS)) for learner in (heavy, plain)]
    after = [learner.update(state, seen) for learner, state in zip((heavy, plain), states, strict=True)]
    which = "values" if heavy.name == "heavy-ucbvi" else "log_weights"
    np.testing.assert_allclose(getattr(after[0], which), getattr(after[1], which), rtol=1e-12)


def test_without_noise_the_plain_learner_bounds_rewards_more_narrowly():
    shape, seen = Shape(2, 1, 3, True, (0.0, 1.0)), release()
    heavy, plain = (
        learner.update(learner.init(Problem(shape, 50), stream(0, 0, COINS)), seen).values
        for learner in (HeavyUCBVI(), UCBVI())
    )
    assert (heavy >= plain).all()
    assert (heavy[:3] > plain[:3] + 0.01).any()


def test_no_cap_on_the_declared_moment_makes_a_reward_certain_or_hopeless():
    """The width is continuous in v: no cliff between two orders that are both valid."""
    widths = []
    for order in (0.125, 0.13, 0.18):
        shape = replace(SHAPE, moments=Moments(9.4, order))
        B = np.full((1, 2, 1), 20.0)
        widths.append(widths_of(Problem(shape, 50), release(public={"thresholds": B}))[0])
    assert widths[0] == pytest.approx(widths[1], rel=0.02)
    assert widths[0] == pytest.approx(widths[2], rel=0.2)


def promised(kind, epsilon):
    """A release with the guarantee of a recipe of the paper, at this epsilon."""
    target = (discreet.Central if kind == "central" else discreet.Local)(epsilon, recipe=f"{kind}/heavy-tailed")
    return replace(release(), guarantee=build(target, SHAPE, 50).guarantee)


@pytest.mark.parametrize("kind", ["central", "local", "none"])
def test_printed_bonuses_by_hand(kind):
    """S = 2, A = 1, H = 3, K = 50, so T = 150; u = 3, v = 1/2, tau = 2, failure 0.1, epsilon 2."""
    seen = release() if kind == "none" else promised(kind, 2.0)
    S, A, H, K, T, u = 2, 1, 3, 50, 150, 3.0
    root, power = u ** (1 / 1.5), 1 / 3
    if kind == "central":
        l1 = math.log(3 * S * A * T / 0.1)
        e1, e3 = (3 * H * math.log2(K) ** 1.5 * x / 2 for x in (l1, math.log(3 * S**2 * A * T / 0.1)))
        D = np.array([40 + e1, 9 + e1])
        expected = 10 * root * (H * math.log2(K) ** 1.5 * l1 / (2 * D)) ** power
    elif kind == "local":
        l1 = math.log(6 * S * A * T / 0.1)
        e1, e3 = (6 * H / 2 * math.sqrt(K * x) for x in (l1, math.log(6 * S**2 * A * T / 0.1)))
        D = np.array([40 + e1, 9 + e1])
        expected = 16 * root * (H * l1 / (2 * np.sqrt(D))) ** power
    else:
        e1 = e3 = 0.0
        D = np.array([40.0, 9.0])
        expected = 4 * root * (math.log(2 * S * A * T / 0.1) / D) ** power
    found = printed_reward_terms(PROBLEM, seen, 0.1)
    assert found[:2] == pytest.approx((e1, e3))
    for uniform in (False, True):
        model = Bonuses(1.0, 1.0, None, 0.1, uniform, printed=True).model(PROBLEM, seen)
        np.testing.assert_allclose(model.reward_bonus, 2 * 2.0 * e1 / D + expected)
        spread = 4 * S * math.log(6 * A * T / 0.1) if uniform else 2 * math.log(4 * S * A * T / 0.1)
        np.testing.assert_allclose(model.transition_bonus, np.sqrt(spread / D) + (2 * e1 + S * e3) / D)
        assert model.unit == 2.0 * H
        np.testing.assert_allclose(model.transitions[0], np.array([30.0, 10.0]) / D[0])


def test_the_printed_clip_is_one_of_the_sum():
    """A hugely negative reward drags the whole value down to the floor, which clipping each by itself does not do."""
    seen = release()
    bad = replace(
        seen, statistics={**seen.statistics, "rewards": seen["rewards"]._replace(values=np.array([[[-1e6], [9.0]]]))}
    )
    knobs = {"bonus_scale": 1e-9, "error_scale": 0.0, "bonuses": "theorem"}
    values = {}
    for clip in ("each", "sum"):
        learner = HeavyUCBVI(clip=clip, **knobs)
        values[clip] = learner.update(learner.init(PROBLEM, stream(0, 0, COINS)), bad).values
    assert values["sum"][:, 0].tolist() == [-6.0, -4.0, -2.0, 0.0]
    ahead = 0.75 * values["each"][1, 0] + 0.25 * values["each"][1, 1]
    assert values["each"][0, 0] == pytest.approx(-2.0 + ahead)
    assert values["each"][0, 0] > -6.0


def test_no_threshold_and_other_clips_mean_the_theorem():
    """HeavyUCBVI(1, error_scale=1, threshold=None) stays the learner of the theorem."""
    state = HeavyUCBVI(1.0, error_scale=1.0, threshold=None).init(PROBLEM, stream(0, 0, COINS))
    model = bonuses().model(PROBLEM, release())
    after = HeavyUCBVI(1.0, error_scale=1.0, threshold=None).update(state, release())
    now = np.minimum(2.0, np.maximum(-2.0, model.rewards) + model.reward_bonus)
    np.testing.assert_allclose(after.values[2], now)
    with pytest.raises(InvalidInput, match="form of bonuses"):
        HeavyUCBVI(bonuses="large")
    with pytest.raises(InvalidInput, match="clip"):
        HeavyUCBPO(clip="both")


def share(world, learner, privacy, episodes, runs, seed):
    """Regret as a share of uniform play's, run by run."""
    result = discreet.simulate(world, learner, privacy, episodes=episodes, runs=runs, seed=seed)
    return result.regret[:, -1] / (episodes * world.gap(uniform_policy(world.shape)))


@pytest.mark.parametrize("learner", [HeavyUCBVI(), HeavyUCBPO()], ids=["vi", "po"])
@pytest.mark.parametrize("alpha", [1.8, 1.2])
def test_they_learn_from_stable_rewards(learner, alpha):
    world = discreet.worlds.river_swim(4, 6, rewards="stable", alpha=alpha)
    assert share(world, learner, discreet.NoPrivacy(), 6000, 3, 4).mean() < 0.25


def test_the_declared_moment_makes_no_cliff():
    """Two valid orders at alpha = 1.2; with the theorem's bonuses and thresholds one of them learns nothing."""
    none = discreet.NoPrivacy()
    theory = replace(none, options={"thresholds": "index"}), HeavyUCBVI(0.1, error_scale=0.015, bonuses="theorem")
    for (privacy, learner), learns in (((none, HeavyUCBVI()), True), (theory, False)):
        world = discreet.worlds.river_swim(4, 6, rewards="stable", alpha=1.2, order=0.18)
        found = share(world, learner, privacy, 4000, 3, 14).mean()
        assert found < 0.3 if learns else found > 0.6


@pytest.mark.slow
@pytest.mark.parametrize(("rewards", "alpha"), [("stable", 1.8), ("pareto", 1.7)])
def test_value_iteration_does_not_lock_in(rewards, alpha):
    """On average a third of what uniform play costs at most; with next to no bonus runs never find the good arm."""
    world = discreet.worlds.river_swim(4, 6, rewards=rewards, alpha=alpha)
    for learner, locks_in in ((HeavyUCBVI(), False), (HeavyUCBVI(0.01), True)):
        found = share(world, learner, discreet.NoPrivacy(), 3000, 10, 97)
        assert (found.mean() > 0.4) == (found.max() > 1.0) == locks_in


def test_knobs_are_checked():
    for make in (HeavyUCBVI, HeavyUCBPO):
        with pytest.raises(InvalidInput, match="threshold"):
            make(threshold=-1)
        with pytest.raises(InvalidInput, match="bonus_scale"):
            make(bonus_scale=0)
        with pytest.raises(InvalidInput, match="error_scale"):
            make(error_scale=-1)
        with pytest.raises(InvalidInput, match="tail_scale"):
            make(tail_scale=-1)
        with pytest.raises(InvalidInput, match="borrow"):
            make(borrow=0.5)

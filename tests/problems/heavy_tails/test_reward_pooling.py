"""Visits borrowed from other steps: by hand, for laws that are known, and what they are worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.policies import uniform_policy
from discreet.base.shape import Moments, Shape
from discreet.base.streams import COINS, stream
from discreet.learners.base import Problem, as_statistics
from discreet.learners.partial_pooling import Differences, Rows, borrow, differences
from discreet.mechanisms.release import Estimate, Release
from discreet.privacy.guarantee import nothing
from discreet.problems.heavy_tails.learners import HeavyUCBPO, HeavyUCBVI, with_other_steps
from discreet.problems.heavy_tails.world import around
from discreet.worlds.tabular import TabularWorld

H, S, A = 12, 3, 2
SHAPE = Shape(S, A, H, False, (-1.0, 1.0), 0, Moments(3.0, 1.0))


def release(seed=1, differ=0.0, moves_differ=0.0, visits=50, noise=0.0):
    """Counts of a world whose steps differ by this deviation in rewards, and in this share of their successors.

    Rewards of one visit have variance 3 / 4 f in units of the range of means, with f = 1/3.
    """
    rng = np.random.default_rng(seed)
    n = np.ceil(visits * np.exp(1.2 * rng.standard_normal((H, S, A))))
    means = 0.5 + 0.1 * rng.standard_normal((1, S, A)) + differ * rng.standard_normal((H, S, A))
    sums = n * means + np.sqrt(n / 4) * rng.standard_normal(n.shape)
    laws = (1 - moves_differ) * rng.dirichlet(np.ones(S), size=(1, S, A)) + moves_differ * rng.dirichlet(
        np.ones(S), size=(H, S, A)
    )
    moves = np.array([[[rng.multinomial(int(n[h, s, a]), laws[h, s, a]) for a in range(A)] for s in range(S)]
                      for h in range(H)], float)  # fmt: skip
    moves[-1] = 0.0
    extra = [np.sqrt(noise) * rng.standard_normal(table.shape) for table in (n, moves, sums)]
    tables = {"visits": n + extra[0], "transitions": moves + extra[1], "rewards": sums + extra[2]}
    variance = np.full(n.shape, noise)
    statistics = {name: Estimate(table, variance) for name, table in tables.items()}
    public = {"thresholds": np.full(n.shape, 7.0)}
    return Release(statistics, 5000, nothing(), lambda _cells, _tail: np.zeros(n.shape), public=public)


def reward_rows(seen):
    n, sums = seen["visits"].values.reshape(H, -1), seen["rewards"].values.reshape(H, -1)
    return Rows((sums / n)[..., None], n, np.full(n.shape, 0.75), np.zeros(n.shape), np.full(n.shape, True))


def test_what_is_borrowed_by_hand():
    """One pair at three steps with 10, 40 and 90 visits; s^2 = 2, so e^2 is .2, .05 and 2/90."""
    n = np.array([[10.0], [40.0], [90.0]])
    rows = Rows(np.zeros((3, 1, 1)), n, np.full((3, 1), 2.0), np.zeros((3, 1)), np.full((3, 1), True))
    alike = borrow(rows, Differences(np.zeros((3, 1)), rows.errors(1.0), 1.0), n, np.zeros((3, 1)))
    np.testing.assert_allclose(alike.added(n), [[100.0], [100.0], [50.0]])  # of 130, 10 times its own
    T = 0.1
    apart = borrow(rows, Differences(np.full((3, 1), T), rows.errors(1.0), 1.0), n, np.zeros((3, 1)))
    w = 1 / (T + 2 / n[:, 0])
    expected = [2 * W / (1 + T * W) for W in (w[1] + w[2], w[0] + w[2], w[0] + w[1])]
    np.testing.assert_allclose(apart.added(n)[:, 0], expected)
    assert max(expected) < 2 / T
    table = np.array([[1.0], [-7.0], [5.0]])
    p = (w[1] * -7 / 40 + w[2] * 5 / 90) / (w[1] + w[2])  # sums may be negative
    assert apart.added(table)[0, 0] == pytest.approx(expected[0] * p)
    each = alike.taken[0, 0] * alike.lent[1:, 0]
    assert alike.deviation(np.full((3, 1), 4.0))[0, 0] == pytest.approx(4 * np.sqrt(1 + (each**2).sum()))


@pytest.mark.parametrize("differ", [0.0, 0.2])
def test_how_much_steps_differ_is_found_in_the_counts(differ):
    """Means over 20 releases: T with three standard errors is .0017 or .06; each is far outside the other bounds."""
    found = [differences(reward_rows(release(seed, differ)), 0.25, fitted=True) for seed in range(20)]
    common = np.mean([d.variance.min() for d in found])
    if differ == 0.0:
        assert common < 0.004
        assert np.mean([d.factor for d in found]) == pytest.approx(1 / 3, rel=0.2)
    else:
        assert differ**2 < common < 2.5 * differ**2


@pytest.mark.parametrize("differ", [0.05, 0.2])
def test_of_two_steps_many_pairs_tell_how_much_they_differ(differ):
    """With 1,000 pairs T is known to a twentieth; rounds that swing from side to side end at a third of it."""
    rng, shape = np.random.default_rng(5), (2, 1000)
    averages = differ * rng.normal(size=shape) + np.sqrt(0.1 / 500) * rng.normal(size=shape)
    visits, spread = np.full(shape, 500.0), np.full(shape, 0.1)
    rows = Rows(averages[..., None], visits, spread, np.zeros(shape), np.ones(shape, bool))
    assert 0.8 < np.median(differences(rows, 0.25, fitted=False).variance) / differ**2 < 1.3


def test_alike_steps_share_their_visits_and_others_keep_theirs():
    """Rewards and successors are judged apart, and the last step has no successors."""
    own, first = as_statistics(release()).visits, slice(-S * A)
    alike, rewards_apart, moves_apart = (
        with_other_steps(SHAPE, release(differ=d, moves_differ=m)) for d, m in ((0.0, 0.0), (0.3, 0.0), (0.0, 1.0))
    )
    assert (alike.visits <= 11 * own * (1 + 1e-9)).all()
    for found, of_rewards, of_moves in ((alike, 2, 2), (rewards_apart, 0, 2), (moves_apart, 2, 0)):
        borrowed = found.visits / own - 1, (found.transitions.sum(axis=0) / own)[first] - 1
        for share_borrowed, least in zip(borrowed, (of_rewards, of_moves), strict=True):
            assert np.median(share_borrowed) > least if least else np.median(share_borrowed) < 0.25
        assert (found.transitions.sum(axis=0)[-S * A :] == 0).all()


@pytest.mark.parametrize("noise", [0.0, 100.0])
def test_borrowed_estimates_are_nearer_to_the_truth(noise):
    """Ten releases of alike steps; the noise that is stated is that of the sums."""
    errors = np.zeros(2)
    for seed in range(10):
        quiet, seen = release(seed, visits=4000), release(seed, noise=noise)
        truth = (quiet["rewards"].values / quiet["visits"].values).reshape(H, -1).mean(axis=0)
        own, found = as_statistics(seen), with_other_steps(SHAPE, seen)
        for i, each in enumerate((own, found)):
            errors[i] += np.median(np.abs((each.rewards / np.maximum(1, each.visits)).reshape(H, -1) - truth))
        assert (found.visit_noise >= own.visit_noise).all()
    assert errors[1] < 0.5 * errors[0]


def test_a_step_that_is_far_from_the_others_believes_itself():
    seen = release(visits=400)
    rewards = seen["rewards"].values.copy()
    rewards[4, 1, 0] += 0.4 * seen["visits"].values[4, 1, 0]
    odd = replace(seen, statistics={**seen.statistics, "rewards": seen["rewards"]._replace(values=rewards)})
    found = with_other_steps(SHAPE, odd)
    row = (4 * S + 1) * A
    own = rewards[4, 1, 0] / seen["visits"].values[4, 1, 0]
    assert found.rewards[row] / found.visits[row] == pytest.approx(own, abs=0.02)
    usual = with_other_steps(SHAPE, seen)
    assert usual.visits[row] > 2 * as_statistics(seen).visits[row] > found.visits[row]


def test_a_row_that_nobody_tried_stays_untried():
    """Without noise: otherwise laws that differ at one step only would never be seen."""
    seen = release()
    tables = {name: estimate.values.copy() for name, estimate in seen.statistics.items()}
    for table in tables.values():
        table[3, 0, 1] = 0.0
    statistics = {name: seen[name]._replace(values=table) for name, table in tables.items()}
    found, row = with_other_steps(SHAPE, replace(seen, statistics=statistics)), (3 * S + 0) * A + 1
    assert found.visits[row] == found.rewards[row] == 0.0
    assert not found.transitions[:, row].any()


def test_where_steps_are_pooled_or_rewards_have_a_range_nothing_is_borrowed():
    seen = release()
    pooled = replace(SHAPE, homogeneous=True)
    one = {name: e._replace(values=e.values[:1], variance=e.variance[:1]) for name, e in seen.statistics.items()}
    first = replace(seen, statistics=one, public={"thresholds": seen.public["thresholds"][:1]})
    for found, expected in zip(with_other_steps(pooled, first), as_statistics(first), strict=True):
        np.testing.assert_array_equal(found, expected)
    coins = stream(0, 0, COINS)
    for shape, changes in ((SHAPE, True), (replace(SHAPE, moments=None), False)):
        values = [
            learner.update(learner.init(Problem(shape, 5000), coins), seen).values
            for learner in (HeavyUCBVI(), HeavyUCBVI(borrow=False))
        ]
        assert (values[0] != values[1]).any() == changes


def test_nothing_seen_anywhere_is_no_reason_to_fail():
    seen = release()
    none = {name: e._replace(values=np.zeros_like(e.values)) for name, e in seen.statistics.items()}
    found = with_other_steps(SHAPE, replace(seen, statistics=none))
    assert not any(table.any() for table in found[:3])


def share(world, learner, privacy, users, seed, runs=3):
    result = discreet.simulate(world, learner, privacy, episodes=users, runs=runs, seed=seed)
    return float((result.regret[:, -1] / (users * world.gap(uniform_policy(world.shape)))).mean())


@pytest.mark.parametrize("learner", [HeavyUCBVI(), HeavyUCBPO()], ids=["vi", "po"])
def test_alike_steps_are_learned_together(learner):
    world = discreet.worlds.river_swim(4, 8, rewards="stable", alpha=1.5).with_time(homogeneous=False)
    together, apart = (
        share(world, each, discreet.NoPrivacy(options={"growth": 0.05}), 4000, 7)
        for each in (learner, replace(learner, borrow=False))
    )
    assert together < 0.7 * apart


def other_every_step(seed, alpha):
    """A world with other rewards and successors at every step."""
    rng = np.random.default_rng(seed)
    laws, means = rng.dirichlet(np.full(4, 0.3), size=(6, 4, 3)), rng.uniform(0, 1, size=(6, 4, 3)) ** 3
    rewards, moments = around("stable", means, alpha, 1.0, None)
    return TabularWorld("other-every-step", laws, rewards, np.eye(4)[0], 6, (-1.0, 1.0), moments)


@pytest.mark.long
@pytest.mark.parametrize("privacy", [discreet.NoPrivacy(), discreet.Central(1.0, 1e-5)], ids=["none", "central"])
def test_steps_that_differ_are_not_taken_for_alike(privacy):
    """Four worlds: no more than a fifth above the regret of steps that are kept apart."""
    regrets = np.array(
        [
            [share(other_every_step(seed, 1.8), HeavyUCBVI(borrow=b), privacy, 6000, seed) for b in (True, False)]
            for seed in range(4)
        ]
    )
    assert regrets[:, 0].mean() < 1.2 * regrets[:, 1].mean()

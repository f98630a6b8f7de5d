"""Visits borrowed from other steps for rewards in a range; how much is lent in general is in
tests/problems/heavy_tails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.policies import uniform_policy
from discreet.base.shape import Moments, Shape
from discreet.base.streams import COINS, stream
from discreet.learners import PSRL, UCBVI, base
from discreet.learners.base import Problem
from discreet.learners.block_history import weighed
from discreet.learners.partial_pooling import Differences, Rows, borrow, borrowed, differences
from discreet.mechanisms.release import UNMIXED, Estimate, Release
from discreet.privacy.guarantee import nothing
from discreet.worlds.rewards import Bernoulli
from discreet.worlds.tabular import TabularWorld

H, S, A = 10, 3, 2
SHAPE = Shape(S, A, H, homogeneous=False, start=0)


def release(seed=1, differ=0.0, visits=200, noise=15.0) -> Release:
    """Counts of a world whose mean rewards differ by this deviation from step to step, with noise of this deviation."""
    rng = np.random.default_rng(seed)
    n = np.ceil(visits * np.exp(0.5 * rng.standard_normal((H, S, A))))
    means = np.clip(rng.uniform(0.3, 0.7, (1, S, A)) + differ * rng.standard_normal((H, S, A)), 0, 1)
    law = rng.dirichlet(np.ones(S), size=(S, A))
    moves = np.array([[[rng.multinomial(int(n[h, s, a]), law[s, a]) for a in range(A)] for s in range(S)]
                      for h in range(H)], float)  # fmt: skip
    moves[-1] = 0.0
    sums = rng.binomial(n.astype(int), means).astype(float)
    tables = {"visits": n, "transitions": moves, "rewards": sums}
    variance = np.full(n.shape, noise**2)
    statistics = {k: Estimate(t + noise * rng.standard_normal(t.shape), variance) for k, t in tables.items()}
    return Release(statistics, 5000, nothing(), lambda _cells, _tail: variance, mixing=UNMIXED)


def means_of(seen: Release) -> np.ndarray:
    return seen["rewards"].values / np.maximum(1.0, seen["visits"].values)


def test_alike_steps_are_pooled_nearly_and_the_noise_is_that_of_the_sums():
    """Ten releases: errors of rewards and of successors are less than half; the stated noise is not too small."""
    errors, scaled = np.zeros((2, 2)), []
    for seed in range(10):
        own = release(seed)
        quiet = release(seed, visits=200, noise=0.0)
        pooled = quiet["rewards"].values.sum(0) / quiet["visits"].values.sum(0)
        law = quiet["transitions"].values.sum(0) / quiet["transitions"].values.sum((0, 3))[..., None]
        found = borrowed(SHAPE, own)
        for i, each in enumerate((own, found)):
            moves = each["transitions"].values[:-1]
            errors[i] += (
                np.abs(means_of(each) - pooled).mean(),
                np.abs(moves / moves.sum(-1, keepdims=True) - law).mean(),
            )
        assert (found["visits"].values > 2 * own["visits"].values).mean() > 0.5
        scaled.append(
            (means_of(found) - pooled)
            / (np.sqrt(found["rewards"].variance + 0.25 * found["visits"].variance) / found["visits"].values)
        )
    assert (errors[1] < 0.5 * errors[0]).all()
    assert np.std(scaled) < 1.2


def test_steps_that_differ_borrow_little_and_say_that_they_are_not_known():
    """Rewards of deviation .3, much noise: at most 20 s^2 / T visits (50; 560 without the bound), T in their noise."""
    own = release(differ=0.3, noise=40.0)
    found = borrowed(SHAPE, own)
    more = found["visits"].values - own["visits"].values
    assert more.max() < 20 * 0.25 / 0.05
    assert (found["rewards"].variance >= own["rewards"].variance + 0.03 * np.maximum(0.0, more) ** 2).all()
    alike = borrowed(SHAPE, release())
    assert np.median(alike["visits"].values - release()["visits"].values) > 4 * np.median(more)


def test_how_much_is_borrowed_at_most_by_hand():
    """Three steps of one pair with 10, 40 and 90 visits and much noise: s^2 = .25, T = .05, so no more than 100."""
    n = np.array([[10.0], [40.0], [90.0]])
    rows = Rows(np.zeros((3, 1, 1)), n, np.full((3, 1), 0.25), np.full((3, 1), 0.2), np.full((3, 1), True))
    differ = Differences(np.full((3, 1), 0.05), rows.errors(1.0), 1.0)
    free, bound = (borrow(rows, differ, n, np.full((3, 1), 50.0), clean).added(n)[:, 0] for clean in (np.inf, 2.0))
    assert (free > 10.0).all()
    np.testing.assert_allclose(bound, np.minimum(free, 2.0 * 0.25 / 0.05))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_reward_above_the_others_believes_itself_sooner(sign):
    """Two deviations away: T of the row is d^2 - E above, and that of all rows below."""
    averages = np.full((H, 4), 0.5)
    averages[3, 2] += sign * 0.2
    shape = averages.shape
    rows = Rows(
        averages[..., None], np.full(shape, 1e6), np.full(shape, 0.25), np.full(shape, 0.01), np.ones(shape, bool)
    )
    T = differences(rows, 0.25, above=1.0).variance
    others = np.delete(T.reshape(-1), 3 * 4 + 2)
    if sign > 0:
        assert T[3, 2] == pytest.approx(0.04 - 0.01 * (1 + 1 / (H - 1)), rel=0.05)
        assert T[3, 2] > 1.3 * others.max()
    else:
        assert T[3, 2] == others.max()


def test_a_good_step_that_noise_may_have_made_borrows_less_than_a_bad_one():
    """The same row two deviations above and below the others."""
    own = release(noise=40.0)
    sums, n = own["rewards"].values, own["visits"].values
    pooled, more = sums.sum(0) / n.sum(0), []
    for sign in (1.0, -1.0):
        rewards = n * pooled
        rewards[4, 1, 0] += sign * 2 * np.sqrt(40.0**2 + 0.25 * 40.0**2)
        odd = replace(own, statistics={**own.statistics, "rewards": own["rewards"]._replace(values=rewards)})
        more.append((borrowed(SHAPE, odd)["visits"].values - n)[4, 1, 0])
    assert 0 < more[0] < 0.5 * more[1]


def test_where_steps_are_pooled_or_only_a_moment_is_known_nothing_changes():
    seen = release()
    assert borrowed(replace(SHAPE, moments=Moments(2.0, 1.0)), seen) is seen
    assert borrowed(replace(SHAPE, homogeneous=True), seen) is seen


@pytest.mark.parametrize("learner", [UCBVI(), PSRL()], ids=["ucbvi", "psrl"])
def test_learners_borrow_where_blocks_are_weighed_and_nowhere_else(learner, monkeypatch):
    asked = []
    monkeypatch.setattr(base, "borrowed", lambda _shape, seen: asked.append(seen) or seen)
    state = learner.init(Problem(SHAPE, 5000), stream(0, 0, COINS))
    seen = release()
    learner.update(state, seen)
    assert len(asked) == 1
    learner.update(state, replace(seen, mixing=None))
    assert len(asked) == 1


def share(world, privacy, learner="ucbvi", users=20_000, runs=6, seed=5) -> float:
    result = discreet.simulate(world, learner, privacy, episodes=users, runs=runs, seed=seed)
    return float(result.regret[:, -1].mean() / (users * world.gap(uniform_policy(world.shape))))


TARGETS = [discreet.Central(1.0, 1e-5), discreet.Central(1.0), discreet.Shuffle(1.0, 1e-5)]


@pytest.mark.parametrize("privacy", TARGETS, ids=["central", "pure", "shuffle"])
def test_alike_steps_are_learned_together(privacy, monkeypatch):
    """A river of four states: measured .09, .13, .10 of uniform play's regret, and .16, .24, .21 without."""
    world = discreet.worlds.river_swim(4, 6).with_time(homogeneous=False)
    together = share(world, privacy)
    monkeypatch.setattr(base, "borrowed", lambda _shape, seen: seen)
    assert together < 0.75 * share(world, privacy)


def other_rewards(seed: int) -> TabularWorld:
    """Another reward at every step, drawn anew."""
    rng = np.random.default_rng(seed)
    laws, means = rng.dirichlet(np.full(4, 0.5), size=(1, 4, 3)), rng.uniform(size=(5, 4, 3))
    return TabularWorld("other-rewards", np.repeat(laws, 5, axis=0), Bernoulli(means), np.eye(4)[0], 5)


@pytest.mark.long
@pytest.mark.parametrize("privacy", TARGETS, ids=["central", "pure", "shuffle"])
def test_steps_that_differ_are_not_taken_for_alike(privacy, monkeypatch):
    """Eight worlds: at most a fifth more regret than with steps that are kept apart."""
    worlds = [other_rewards(seed) for seed in range(8)]
    together = np.mean([share(world, privacy, runs=3, seed=7) for world in worlds])
    monkeypatch.setattr(base, "borrowed", lambda _shape, seen: seen)
    assert together < 1.2 * np.mean([share(world, privacy, runs=3, seed=7) for world in worlds])


def test_what_blocks_told_stays_as_it_was_published():
    """The plan, and what is recommended, come from what is borrowed; the books know nothing of it."""
    learner, seen = UCBVI(), release()
    after = learner.update(learner.init(Problem(SHAPE, 5000), stream(0, 0, COINS)), seen)
    np.testing.assert_array_equal(after.books.raw["visits"].values, seen["visits"].values)
    own, found = weighed(after.books), borrowed(SHAPE, weighed(after.books))
    assert (found["visits"].values > own["visits"].values + 50).any()
    for name in ("visits", "transitions", "rewards"):
        np.testing.assert_array_equal(after.release[name].values, found[name].values)
        np.testing.assert_array_equal(after.release[name].variance, found[name].variance)

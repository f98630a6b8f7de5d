"""Runs against adversaries: exact regret, the same run whatever the noise-free recipe, and the papers' statements."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.policies import Policy, StochasticPolicy, uniform_policy
from discreet.mechanisms.release import Request
from discreet.problems.adversarial.learners import OREPS, UCOREPS, UOBLBPS
from discreet.problems.adversarial.recipes import silenced
from discreet.problems.adversarial.world import Recorded, layered, with_adversary
from discreet.recipes.registry import build
from discreet.simulation.block_loop import run_blocks


class Plays:
    """Deploys given policies in turn and learns nothing."""

    name, needs = "plays", frozenset()

    def __init__(self, *policies, users=None):
        self.policies, self.users = policies, users

    def init(self, problem, coins):
        return 0

    def ask(self, state):
        return Request(self.policies[state % len(self.policies)], users=self.users)

    def update(self, state, release):
        return state + 1

    def policy(self, state):
        return self.policies[state % len(self.policies)]

    def recommend(self, state):
        return self.policy(state)


def play(world, learner, episodes, recipe="none/loss-tables", seed=0, privatizer=None):
    privatizer = privatizer or build(discreet.NoPrivacy(recipe=recipe), world.shape, episodes)
    return run_blocks(world, learner, privatizer, episodes, seed, 0, lambda _served: None)


def test_regret_is_what_was_lost_less_what_the_best_fixed_policy_loses_on_the_same_prefix():
    world = layered((1, 2, 1), 2, "random", instance=1)
    policies = (uniform_policy(world.shape), Policy(np.array([[0, 0], [1, 0]])))
    record = play(world, Plays(*policies), 7)
    losses = world.losses(7)
    for end, regret in zip(record.episodes, record.regret, strict=True):
        lost = sum((losses[k] * world.occupancy(policies[k % 2])).sum() for k in range(end))
        assert regret == pytest.approx(lost - world.best_fixed(losses[:end].sum(axis=0))[0], abs=1e-12)
    assert record.switches == 6
    assert record.final_gap is None


def test_blocks_of_users_meet_the_tables_of_their_own_episodes():
    world = layered((1, 2, 1), 2, "random", instance=1)
    policy = StochasticPolicy(np.tile([0.3, 0.7], (2, 2, 1)))
    one, five = (play(world, Plays(policy, users=n), 10) for n in (1, 5))
    np.testing.assert_allclose(one.regret, five.regret)
    assert five.deterministic_switches == one.deterministic_switches == 9


def test_the_release_holds_the_sum_of_the_users_own_tables():
    world = layered((1, 2, 1), 2, instance=1)
    tables = np.random.default_rng(0).random((6, 3, 2))
    world = with_adversary(world, Recorded(tables))
    privacy, learner = discreet.NoPrivacy(recipe="none/loss-tables"), Plays(uniform_policy(world.shape), users=2)
    result = discreet.simulate(world, learner, privacy, episodes=6, keep_release=True)
    released = result.releases[0]["losses"].values[world.shape.pair_mask]
    np.testing.assert_allclose(released, tables.sum(axis=0).ravel())
    assert result.releases[0]["transitions"].values.sum() == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "recipe", "options"),
    [
        (UCOREPS(), "loss-tables", {"accumulator": "tree", "losses": "k-norm"}),
        (UCOREPS(), "loss-tables", {"accumulator": "even-tree", "losses": "laplace"}),
        (UOBLBPS(), "observed-losses", {}),
    ],
)
def test_without_noise_a_private_run_is_the_non_private_one_bit_for_bit(learner, recipe, options):
    world, K = layered(instance=2), 200
    private = build(discreet.Central(1.0, recipe=f"central/{recipe}", options=options), world.shape, K)
    noisy = play(world, learner, K, privatizer=private)
    quiet = play(world, learner, K, privatizer=silenced(private))
    plain = play(world, learner, K, recipe=f"none/{recipe}")
    np.testing.assert_array_equal(quiet.regret, plain.regret)
    assert not np.array_equal(noisy.regret, plain.regret)


def test_threads_do_not_matter_and_runs_have_worlds_of_their_own():
    family = layered((1, 2, 1), 2)
    one, two = (discreet.simulate(family, UCOREPS(), episodes=50, runs=3, seed=4, threads=t) for t in (1, 3))
    np.testing.assert_array_equal(one.regret, two.regret)
    assert len(np.unique(one.total_regret)) == 3
    fixed = discreet.simulate(layered((1, 2, 1), 2, instance=1), Plays(Policy(np.zeros((2, 2), np.int64))),
                              discreet.NoPrivacy(recipe="none/loss-tables"), episodes=50, runs=2)  # fmt: skip
    assert fixed.regret[0, -1] == fixed.regret[1, -1]


@pytest.mark.slow
def test_full_information_regret_grows_like_the_square_root_of_the_episodes():
    """(S5) K = 250 to 4000, four worlds: the slope in the logarithms is near one half, far from one."""
    ends = [250, 1000, 4000]
    means = [
        discreet.simulate(layered(adversary="fixed"), UCOREPS(), episodes=K, runs=4, seed=3).total_regret.mean()
        for K in ends
    ]
    slope = np.polyfit(np.log(ends), np.log(means), 1)[0]
    assert 0.35 < slope < 0.65


@pytest.mark.slow
def test_knowing_the_transitions_helps_and_feedback_helps():
    """(S4) and the reference: known transitions, full information, bandit, in this order."""
    world, K = layered(adversary="fixed", instance=8), 1500
    known = play(world, OREPS(world.transitions), K).regret[-1]
    full = play(world, UCOREPS(), K).regret[-1]
    bandit = play(world, UOBLBPS(), K, recipe="none/observed-losses").regret[-1]
    assert known < full < bandit


@pytest.mark.slow
def test_private_regret_falls_with_epsilon():
    """(S3) paired seeds, full information, the default recipe."""
    means = [
        discreet.simulate(layered(), UCOREPS(), discreet.Central(e), episodes=3000, runs=4, seed=6).total_regret.mean()
        for e in (0.3, 3.0, 30.0)
    ]
    nothing_private = discreet.simulate(layered(), UCOREPS(), episodes=3000, runs=4, seed=6).total_regret.mean()
    assert means[0] > means[1] > means[2] > nothing_private


@pytest.mark.slow
@pytest.mark.parametrize("model", [discreet.Central, discreet.Shuffle])
def test_private_bandit_regret_falls_with_epsilon_and_is_below_that_of_even_play(model):
    """Blocks of users, paired seeds, four worlds: about 2,000 for even play, 1,300, 1,000 and 700."""
    K, world = 3000, layered((1, 3, 3, 1), 3)

    def mean(learner, privacy):
        return discreet.simulate(world, learner, privacy, episodes=K, runs=4, seed=6).total_regret.mean()

    even = mean(Plays(uniform_policy(world.shape), users=100), discreet.NoPrivacy(recipe="none/loss-tables"))
    means = [mean(UOBLBPS(), model(e, 1e-5)) for e in (0.3, 1.0, 10.0)]
    assert even > means[0] > means[1] > means[2]
    assert means[1] < 0.7 * even


@pytest.mark.slow
def test_full_information_learns_through_a_shuffler():
    world, K = layered(), 3000
    means = [
        discreet.simulate(world, UCOREPS(), discreet.Shuffle(e, 1e-5), episodes=K, runs=4, seed=6).total_regret.mean()
        for e in (0.1, 1.0, 10.0)
    ]
    assert means[0] > means[1] > means[2]


def changes_its_mind(episodes):
    """One step, three arms that lose 1/2; arm 0 loses nothing for a quarter of the episodes, then arm 1 does."""
    tables = np.full((episodes, 1, 3), 0.5)
    tables[: episodes // 4, 0, 0] = tables[episodes // 4 :, 0, 1] = 0.0
    return with_adversary(layered((1, 1), 3, instance=0), Recorded(tables))


@pytest.mark.slow
def test_the_published_estimate_does_not_follow_an_adversary_that_changes_its_mind():
    """(S7) epsilon 10, four times the episodes: four times the regret as printed, about twice corrected."""
    privacy = discreet.Central(10.0, recipe="central/observed-losses")

    def regret(estimator, episodes):
        learner = UOBLBPS(estimator=estimator)
        world = changes_its_mind(episodes)
        return discreet.simulate(world, learner, privacy, episodes=episodes, runs=2, seed=1).total_regret.mean()

    growth = {name: regret(name, 6000) / regret(name, 1500) for name in ("corrected", "published")}
    assert growth["published"] > 3.2
    assert growth["corrected"] < 2.8


@pytest.mark.slow
def test_blocks_follow_an_adversary_that_changes_its_mind():
    """Noise that is clipped leaves no offset that would lock the policy in: far below even play, at epsilon 1."""
    K = 10_000
    even = 0.5 * 2 / 3 * K - 0.5 * K / 4  # arm 1 loses one half for a quarter of the episodes
    result = discreet.simulate(changes_its_mind(K), UOBLBPS(), discreet.Central(1.0), episodes=K, runs=4, seed=1)
    assert result.total_regret.mean() < 0.2 * even

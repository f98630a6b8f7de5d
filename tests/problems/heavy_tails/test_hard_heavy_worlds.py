"""The lower-bound worlds: probabilities, moments and gaps as constructed, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.policies import uniform_policy
from discreet.problems.heavy_tails.world import central_lower_bound, hard_central, hard_tree, local_lower_bound


def moments(world, order):
    """E|reward|^(1 + order) of every pair."""
    return (world.transitions * np.abs(world.rewards.values) ** (1 + order)).sum(axis=3)


@pytest.mark.parametrize("order", [0.3, 0.5, 1.0])
def test_parallel_bandits_have_the_gaps_and_the_moments_of_the_proof(order):
    world = hard_central(states=4, actions=3, episodes=10_000, order=order, instance=3)
    gap = (2 * 4 / 10_000) ** (order / (1 + order))
    means = world.means[0, :4] / gap
    assert set(np.round(np.unique(means), 9)) <= {1.5, 2.5, 3.5}
    np.testing.assert_allclose(means[:, 0], 2.5)
    assert ((means == means.max(axis=1, keepdims=True)).sum(axis=1) == 1).all()
    assert moments(world, order).max() <= 0.7 + 1e-12
    assert world.shape.moments.bound == 0.7
    assert world.horizon == 1


def test_the_tree_hides_one_good_action_of_one_leaf():
    world = hard_tree(depth=3, actions=3, episodes=20_000, order=0.5, instance=1)
    assert world.shape.states == 15
    g = 27 / (32 * 20_000)
    assert world.optimal_value == pytest.approx(g ** (0.5 / 1.5))
    leaves = world.transitions[0, 4:13, :, 13]
    assert (leaves == g).sum() == 1
    assert (leaves == g / 2).sum() == 26
    assert moments(world, 0.5).max() <= 1.0 + 1e-12
    wrong = discreet.base.policies.Policy(np.full((3, 15), 0 if world.optimal()[1].actions[0, 0] else 1))
    assert world.gap(wrong) == pytest.approx(world.optimal_value / 2)


def test_the_null_instance_of_the_tree_has_no_good_leaf():
    """Every action of every leaf pays with half of the good one's probability, so all policies are worth the same."""
    world, other = (hard_tree(episodes=20_000, instance=1, null=null) for null in (True, False))
    leaves = world.transitions[0, 4:13, :, 13]
    np.testing.assert_array_equal(leaves, other.transitions[0, 4:13, :, 13].min())
    assert world.shape == other.shape
    assert world.optimal_value == pytest.approx(other.optimal_value / 2)
    assert world.gap(discreet.base.policies.uniform_policy(world.shape)) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(InvalidInput, match="null"):
        hard_tree(null=1)


def test_moves_in_the_tree_are_those_of_the_actions():
    world = hard_tree(depth=3, actions=2, episodes=10_000, instance=0)
    for node in range(3):
        for a in range(2):
            assert world.transitions[0, node, a].argmax() == 2 * node + 1 + a


def test_instances_differ_and_are_reproducible():
    first, second = (hard_tree(instance=i).optimal()[1] for i in (0, 1))
    assert first != second
    assert hard_tree(instance=1).optimal()[1] == second


@pytest.mark.parametrize("make", [hard_central, hard_tree])
def test_without_an_instance_every_run_has_a_world_of_its_own(make):
    family = make(episodes=2000)
    assert family.shape == make(episodes=2000, instance=4).shape
    optima = {family.instance(seed).optimal()[1] for seed in range(8)}
    assert len(optima) > 3


def test_worlds_that_the_proofs_do_not_cover_are_refused():
    with pytest.raises(InvalidInput, match="more episodes"):
        hard_central(episodes=10)
    with pytest.raises(InvalidInput, match="more episodes"):
        hard_tree(episodes=1)


def test_lower_bounds_scale_as_the_theorems_say():
    joint, tree = hard_central().shape, hard_tree().shape
    for bound, shape, power in ((central_lower_bound, joint, 1), (local_lower_bound, tree, 2)):
        assert bound(shape, 8000, 1.0, 0.5) / bound(shape, 1000, 1.0, 0.5) == pytest.approx(8 ** (1 / 1.5))
        assert bound(shape, 1000, 0.1, 0.5) / bound(shape, 1000, 1.0, 0.5) == pytest.approx(10 ** (power / 3))


def test_lower_bounds_have_the_constants_of_their_proofs():
    """In the tree 3/4 of the regret of whoever never finds the leaf, less a tie; for bandits the best of all gaps."""
    K, epsilon = 20_000, 0.03
    tree = hard_tree(episodes=K, epsilon=epsilon, order=0.5, instance=0)
    pairs = tree.shape.actions**tree.shape.horizon
    bound = local_lower_bound(tree.shape, K, epsilon, 0.5)
    idle = K * tree.gap(uniform_policy(tree.shape))
    assert bound / idle == pytest.approx((0.75 - 1 / pairs) / (1 - 1 / pairs))
    bandits, v, n, A = hard_central(instance=0).shape, 0.5, 3, 3
    gaps = np.geomspace(1e-4, 0.2, 4_000)
    each = K / n
    proof = n / 2 * each * gaps / 8 * np.exp(-12 * 5 ** (1 / v) * each * gaps ** ((1 + v) / v) / (A - 1))
    assert central_lower_bound(bandits, K, 1.0, v) == pytest.approx(proof.max(), rel=1e-4)
    printed = ((A - 1) * n / K) ** (v / (1 + v))
    assert np.exp(-12 * 5 ** (1 / v) * each * printed ** ((1 + v) / v) / (A - 1)) < 1e-26


@pytest.mark.parametrize("name", ["hard-central", "hard-tree"])
def test_they_can_be_played_by_name(name):
    world = discreet.worlds.make_world(name, episodes="2000")
    result = discreet.simulate(world, discreet.learners.UCBVI(), discreet.Central(1.0), episodes=60, seed=1)
    assert result.regret[0, -1] > 0

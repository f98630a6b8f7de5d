"""The linear benchmark: probabilities and rewards are linear in its features, and its values are the known ones."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.problems.linear.world import benchmark_features, features_of, linear_benchmark
from discreet.simulation.data_sets import behaviour_policy
from discreet.worlds.tabular import TabularWorld

FEATURES = benchmark_features()


def test_the_world_is_linear_in_its_features():
    world = linear_benchmark(instance=3)
    flat = FEATURES.reshape(200, 10)
    for h in range(world.horizon):
        for table in (world.transitions[h].reshape(200, 2), world.means[h].reshape(200, 1)):
            fitted = flat @ np.linalg.lstsq(flat, table, rcond=None)[0]
            np.testing.assert_allclose(fitted, table, atol=1e-12)


def test_features_are_short_and_the_longest_are_the_two_known_ones():
    squared = (FEATURES**2).sum(axis=2)
    assert squared.max() == pytest.approx(1.0)
    assert sorted(set(np.argwhere(squared > 1 - 1e-9)[:, 1].tolist())) == [63, 95]
    assert FEATURES[0, 5, :8].tolist() == pytest.approx([0, 0, 0, 0, 0, 1 / 7**0.5, 0, 1 / 7**0.5])
    assert FEATURES[0, 0, 8] > 0
    assert FEATURES[1, 3, 8] > 0
    assert FEATURES[0, 3, 9] > 0


def test_reference_values():
    """Best 13.5 to 14.2, mostly action 0 about 6.6, as an independent prototype measured them."""
    worlds = [linear_benchmark(instance=seed) for seed in range(20)]
    best = np.mean([world.optimal_value for world in worlds])
    behaviour = np.mean([world.value(behaviour_policy("mostly-first", world.shape)) for world in worlds])
    assert best == pytest.approx(13.85, abs=0.4)
    assert behaviour == pytest.approx(6.6, abs=0.4)


def test_every_seed_is_a_world_and_other_worlds_have_one_hot_features():
    family = linear_benchmark(horizon=3)
    assert (family.instance(1).means == family.instance(1).means).all()
    assert (family.instance(1).means != family.instance(2).means).any()
    assert features_of(family) is not None
    other = TabularWorld(
        "w", np.ones((1, 1, 2, 1)), family.instance(1).rewards._replace(means=np.zeros((1, 1, 2))), np.ones(1), 2
    )
    np.testing.assert_array_equal(features_of(other), [[[1, 0], [0, 1]]])
    with pytest.raises(InvalidInput, match="reward law"):
        linear_benchmark(rewards="gaussian")

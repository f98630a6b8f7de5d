"""Random worlds of a shape have that shape, differ from seed to seed, and have something to learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.errors import Unsupported
from discreet.base.policies import uniform_policy
from discreet.base.shape import Moments, layered_shape
from discreet.worlds.random_worlds import worlds_of_shape

SHAPES = [
    discreet.Shape(4, 2, 6, homogeneous=True, start=2),
    discreet.Shape(3, 3, 4),
    discreet.Shape(12, 2, 5, homogeneous=True, rewards=(-2.0, 3.0)),
    discreet.Shape(1, 7, 1, homogeneous=True, start=0),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_worlds_have_the_shape_and_something_to_learn(shape):
    families = worlds_of_shape(shape)
    assert len(families) == (2 if shape.states == 1 else 3)
    for family in families:
        assert family.shape == shape
        one, same, others = family.instance(1), family.instance(1), [family.instance(seed) for seed in range(2, 8)]
        assert one.shape == shape
        assert (one.transitions == same.transitions).all()
        assert any((one.means != w.means).any() or (one.transitions != w.transitions).any() for w in others)
        span = shape.reward_span * shape.horizon
        assert 0.005 * span < np.mean([family.instance(i).gap(uniform_policy(shape)) for i in range(8)]) < span


def test_the_end_of_a_corridor_is_found_by_planning():
    corridor = worlds_of_shape(SHAPES[0])[-1].instance(0)
    assert corridor.gap(uniform_policy(corridor.shape)) > 0.3 * corridor.optimal_value


def test_shapes_without_a_range_of_rewards_are_refused():
    for shape in (replace(SHAPES[0], moments=Moments(1.0, 0.5)), layered_shape((1, 2, 1), actions=2)):
        with pytest.raises(Unsupported, match="give a world of your own"):
            worlds_of_shape(shape)

"""Layouts: rows, possible cells and sums agree with each other, cell by cell."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from discreet.base.shape import Shape
from discreet.mechanisms.counts.layouts import JointCells, SuccessorsAndBits, Tables

SHAPES = [Shape(3, 2, H, homogeneous=pooled) for H, pooled in product((1, 2), (True, False))]
LAYOUTS = [
    *(JointCells(shape, successors, bits) for shape, successors, bits in product(SHAPES, (True, False), (True, False))),
    *(Tables(shape, by_successor) for shape, by_successor in product(SHAPES, (True, False))),
    *map(SuccessorsAndBits, SHAPES),
]


def unit(layout, cell):
    cells = np.zeros(layout.size)
    cells[cell] = 1.0
    return cells


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_every_cell_counts_in_its_own_row_and_as_often_as_is_said(layout):
    shape = layout.shape
    row_of = layout.rows_to_cells(np.arange(shape.groups * shape.states * shape.actions))
    assert len(row_of) == len(layout.possible()) == layout.size
    summed = {name: np.zeros(s.values.shape) for name, s in layout.marginals(np.zeros(layout.size)).items()}
    for cell in range(layout.size):
        for name, statistic in layout.marginals(unit(layout, cell)).items():
            others = np.delete(statistic.values.reshape(-1, *statistic.values.shape[3:]), row_of[cell], axis=0)
            assert not others.any(), name
            summed[name] += statistic.values * layout.possible()[cell]
    for name, statistic in layout.marginals(np.zeros(layout.size)).items():
        cells = statistic.cells if summed[name].ndim == 3 else statistic.cells[..., None]
        np.testing.assert_array_equal(summed[name], np.broadcast_to(cells, summed[name].shape))


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_only_successors_of_the_last_step_are_impossible(shape):
    without = 0 if shape.homogeneous and shape.horizon > 1 else shape.states * shape.actions * shape.states
    assert (~Tables(shape).possible()).sum() == without
    assert (~JointCells(shape).possible()).sum() == 2 * without
    assert JointCells(shape, successors=False).possible().all()
    left_out = JointCells(shape, bits=False, last_step=False)
    assert (~left_out.possible()).sum() == without + (without > 0) * shape.states * shape.actions


def test_tables_are_views_that_several_reward_cells_follow():
    layout = Tables(Shape(2, 1, 1), by_successor=False, reward_tables=2, reward_bits=3)
    cells = np.arange(layout.size, dtype=float)
    assert layout.size == 2 + 4 + 12
    np.testing.assert_array_equal(layout.rewards(cells)[1, 0, 1, 0], [15, 16, 17])
    np.testing.assert_array_equal(layout.transitions(cells)[0, :, 0], [[2, 3], [4, 5]])
    np.testing.assert_array_equal(layout.rows_to_cells(np.array([7, 8])), [7, 8, 7, 7, 8, 8] + 2 * [7, 7, 7, 8, 8, 8])
    cells += 1
    assert layout.marginals(cells)["rewards"].values.base is not None
    by_successor = Tables(Shape(2, 1, 2, homogeneous=True))
    np.testing.assert_array_equal(by_successor.transitions(np.arange(8.0))[0, :, 0], [[2, 4], [3, 5]])


def test_ends_are_what_visits_have_beyond_transitions():
    for shape in SHAPES:
        layout = JointCells(shape)
        cells = np.random.default_rng(0).integers(0, 9, layout.size).astype(float)
        marginals = layout.marginals(cells)
        followed = marginals["transitions"].values.sum(axis=3)
        np.testing.assert_array_equal(layout.ends(cells).values, marginals["visits"].values - followed)
        assert (layout.ends(cells).cells == 2).all()

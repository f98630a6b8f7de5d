"""The sampled step: one cell per picked step, unbiased counts, and public books of who was asked."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.base.shape import Shape
from discreet.base.streams import stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.trajectories import Trajectories

SHAPE = Shape(3, 2, 4, homogeneous=True)


def one_record(length=4):
    return Trajectories(
        np.array([[0, 2, 1, 1]]), np.array([[1, 0, 1, 0]]), np.array([[1.0, 0.0, 1.0, 1.0]]), np.array([length])
    )


def repeated(record, n):
    return Trajectories(
        *(np.repeat(part, n, axis=0) for part in (record.states, record.actions, record.rewards, record.lengths))
    )


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_user_fills_one_cell_per_picked_step_and_says_who_was_asked(steps):
    encoder = SampledStep(SHAPE, steps)
    rows = encode(encoder, repeated(one_record(), 50), stream(0, 0, 0))
    items, asked = rows[:, :-4], rows[:, -4:]
    assert (items.sum(axis=1) == steps).all()
    assert (asked.sum(axis=1) == steps).all()
    assert asked.max() == 1
    for row in rows:
        table, picked = encoder.split(row)
        np.testing.assert_array_equal(table.sum(axis=(1, 2, 3, 4)), picked)


def test_the_cells_are_those_of_the_picked_steps():
    encoder = SampledStep(SHAPE, 4)
    items, _ = encoder.split(encode(encoder, one_record(), stream(0, 0, 0))[0])
    expected = np.zeros(encoder.table)
    for place in ((0, 0, 1, 2, 1), (1, 2, 0, 1, 0), (2, 1, 1, 1, 1), (3, 1, 0, 3, 1)):
        expected[place] = 1
    np.testing.assert_array_equal(items, expected)
    statistics = encoder.marginals(np.concatenate([expected.reshape(-1), np.ones(4)]))
    assert statistics["visits"].values[0, 1].tolist() == [1, 1]
    assert statistics["rewards"].values[0, 2].tolist() == [0, 0]
    assert statistics["transitions"].values.sum() == 3


def test_every_set_of_steps_is_equally_likely():
    encoder = SampledStep(SHAPE, 2)
    asked = encode(encoder, repeated(one_record(), 60_000), stream(1, 0, 0))[:, -4:]
    _, counts = np.unique(asked, axis=0, return_counts=True)
    assert len(counts) == 6
    # Chi-square with 5 degrees of freedom; false alarm 1e-6.
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 35.9


def test_a_record_that_ended_leaves_no_item_but_was_asked():
    encoder = SampledStep(SHAPE, 4, early_end=True)
    items, asked = encoder.split(encode(encoder, one_record(length=2), stream(0, 0, 0))[0])
    assert items.sum() == 2
    assert items[1, 2, 0, 3, 0] == 1  # the last step that was taken has no successor
    assert asked.tolist() == [1, 1, 1, 1]


def test_scaled_counts_are_unbiased_and_sensitivity_counts_picked_steps():
    encoder = SampledStep(SHAPE, 1)
    rows = encode(encoder, repeated(one_record(), 40_000), stream(2, 0, 0))
    visits = encoder.marginals(rows.mean(axis=0))["visits"].values[0]
    # Each count is a mean of 40,000 values in {0, 4}: 5 standard errors.
    np.testing.assert_allclose(visits, [[0, 1], [1, 1], [1, 0]], atol=5 * 2 / 200)
    sensitivity = SampledStep(SHAPE, 3).sensitivity()
    assert (sensitivity.l1, sensitivity.linf) == (6, 1)


def test_per_step_worlds_keep_one_table_per_step():
    encoder = SampledStep(Shape(3, 2, 4), 1)
    statistics = encoder.marginals(np.ones(encoder.size))
    assert statistics["visits"].values.shape == (4, 3, 2)
    assert statistics["transitions"].cells[:, 0, 0].tolist() == [2, 2, 2, 0]
    assert encoder.rows_to_cells(np.ones((4, 3, 2), bool)).shape == encoder.possible().shape == (encoder.size,)


@pytest.mark.parametrize("steps", [0, 5])
def test_wrong_numbers_of_steps_are_refused(steps):
    with pytest.raises(InvalidInput, match="steps"):
        SampledStep(SHAPE, steps)
